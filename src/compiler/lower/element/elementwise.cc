// Elementwise ops on elements: floats, integers, preds, complex numbers.
#include "compiler/lower/element/elementwise.h"

#include <algorithm>
#include <cmath>

#include "compiler/analysis/queries.h"
#include "compiler/lower/element/values.h"
#include "compiler/lower/reduce.h"
#include "hlo/computation.h"
#include "program/math.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Op;
using program::Type;
using HloOp = hlo::Op;
namespace math = program::math;

namespace {

// The integer whose order is IEEE's totalOrder.
ValueId TotalOrderKey(KernelBuilder& b, ValueId x, DType dtype) {
  DType integer = dtype == DType::kF64 ? DType::kS64 : DType::kS32;
  ValueId bits = b.Bitcast(x, integer);
  Type type = b.type(bits);
  int width = BitWidth(integer);
  ValueId sign = b.Emit(Op::kShr, {bits, b.Int(width - 1, type)});
  int64_t all = width == 64 ? INT64_MAX : INT32_MAX;
  return b.Emit(Op::kXor, {bits, b.Emit(Op::kAnd, {sign, b.Int(all, type)})});
}

Result<Element> EmitCompare(ElementContext& e, const Instruction& compare,
                            std::span<Element> args) {
  const auto& attrs = compare.attrs<hlo::CompareAttrs>();
  DType type = compare.operand(0)->shape().dtype();
  ValueId a = args[0].re, b = args[1].re;
  MatchLanes(e, a, b);
  if (IsComplex(type)) {
    ValueId c = args[0].im, d = args[1].im;
    MatchLanes(e, c, d);
    if (attrs.direction == hlo::Direction::kEq) {
      return Element{e.b.Emit(Op::kAnd, {e.b.Emit(Op::kEq, {a, b}), e.b.Emit(Op::kEq, {c, d})}),
                     -1};
    }
    if (attrs.direction == hlo::Direction::kNe) {
      return Element{e.b.Emit(Op::kOr, {e.b.Emit(Op::kNe, {a, b}), e.b.Emit(Op::kNe, {c, d})}), -1};
    }
    return Unimplemented("compare: complex numbers have no order");
  }
  if (IsFloat(type) && attrs.total_order()) {
    a = TotalOrderKey(e.b, a, type);
    b = TotalOrderKey(e.b, b, type);
  }
  if (type == DType::kPred) {
    // false < true: logic, so that masks stay masks.
    if (attrs.direction == hlo::Direction::kNe) return Element{e.b.Emit(Op::kXor, {a, b}), -1};
    if (attrs.direction == hlo::Direction::kEq) {
      return Element{e.b.Emit(Op::kNot, {e.b.Emit(Op::kXor, {a, b})}), -1};
    }
    bool or_equal =
        attrs.direction == hlo::Direction::kGe || attrs.direction == hlo::Direction::kLe;
    bool less = attrs.direction == hlo::Direction::kLt || attrs.direction == hlo::Direction::kLe;
    ValueId low = less ? a : b, high = less ? b : a;
    return Element{e.b.Emit(or_equal ? Op::kOr : Op::kAnd, {e.b.Emit(Op::kNot, {low}), high}), -1};
  }
  static constexpr Op kOps[] = {Op::kEq, Op::kNe, Op::kGe, Op::kGt, Op::kLe, Op::kLt};
  return Element{e.b.Emit(kOps[static_cast<int>(attrs.direction)], {a, b}), -1};
}

// Whether `i` is the maximum of a row of `of`, for every element of the row.
bool IsMaximumOf(const Instruction& i, const Instruction& of) {
  const Instruction* from = &i;
  while (from->op() == HloOp::kBroadcast || from->op() == HloOp::kReshape) from = from->operand(0);
  if (from->op() != HloOp::kReduce || from->operand(0) != &of || from->operand_count() != 2) {
    return false;
  }
  const hlo::Computation& to_apply = *from->attrs<hlo::ReduceAttrs>().to_apply;
  if (to_apply.root()->op() != HloOp::kMaximum ||
      !AsPlainReducer(to_apply, of.shape().dtype(), 0)) {
    return false;
  }
  // Each element stands in the row whose maximum it meets.
  const auto& reduced = from->attrs<hlo::ReduceAttrs>().dimensions;
  const Dims& dims = of.shape().dims();
  const Instruction* broadcast = &i;
  if (broadcast->op() != HloOp::kBroadcast) return false;
  Dims kept;  // dimensions of `of` that number the rows, but for those of size 1
  for (size_t d = 0; d < dims.size(); ++d) {
    bool is_reduced =
        std::find(reduced.begin(), reduced.end(), static_cast<int64_t>(d)) != reduced.end();
    if (!is_reduced && dims[d] > 1) kept.push_back(static_cast<int64_t>(d));
  }
  Dims met;
  const auto& to = broadcast->attrs<hlo::BroadcastAttrs>().dimensions;
  for (size_t d = 0; d < to.size(); ++d) {
    if (broadcast->operand(0)->shape().dims()[d] > 1) met.push_back(to[d]);
  }
  for (const Instruction* k = broadcast->operand(0); k != from; k = k->operand(0)) {
    if (k->op() != HloOp::kReshape) return false;
  }
  return kept == met;
}

// Known to be at most 0, or NaN: what a softmax and a bell curve take the exponential of.
bool IsNotPositive(const Instruction& i) {
  switch (i.op()) {
    case HloOp::kSubtract: return IsMaximumOf(*i.operand(1), *i.operand(0));
    case HloOp::kNegate: {
      const Instruction& x = *i.operand(0);
      return x.op() == HloOp::kAbs || (x.op() == HloOp::kMultiply && x.operand(0) == x.operand(1));
    }
    case HloOp::kMultiply:
      for (int64_t k = 0; k < 2; ++k) {
        const Instruction &x = *i.operand(k), &y = *i.operand(1 - k);
        if (x.op() == HloOp::kNegate && x.operand(0) == &y) return true;
      }
      return false;
    default: return false;
  }
}

ValueId EmitFloatUnary(KernelBuilder& b, const Instruction& instruction, ValueId x) {
  Type type = b.type(x);
  switch (instruction.op()) {
    case HloOp::kAbs: return b.Emit(Op::kAbs, {x});
    case HloOp::kNegate: return b.Emit(Op::kNeg, {x});
    case HloOp::kCeil: return b.Emit(Op::kCeil, {x});
    case HloOp::kFloor: return b.Emit(Op::kFloor, {x});
    case HloOp::kRoundNearestEven: return b.Emit(Op::kRound, {x});
    case HloOp::kRoundNearestAfz: {
      // trunc(x) plus what is at least a half away, with x's sign.
      ValueId t = b.Emit(Op::kTrunc, {x}), rest = b.Emit(Op::kAbs, {b.Sub(x, t)});
      ValueId away = b.Emit(Op::kGe, {rest, b.Float(0.5, type)});
      ValueId one =
          b.Select(b.Emit(Op::kLt, {x, b.Float(0, type)}), b.Float(-1, type), b.Float(1, type));
      ValueId rounded = b.Select(away, b.Add(t, one), t);
      return b.Select(b.Emit(Op::kEq, {x, x}), rounded, x);
    }
    case HloOp::kSign: {
      // 0, -0 and NaN as they are.
      ValueId zero = b.Float(0, type);
      ValueId one = b.Select(b.Emit(Op::kLt, {x, zero}), b.Float(-1, type), b.Float(1, type));
      ValueId keeps = b.Emit(Op::kOr, {b.Emit(Op::kEq, {x, zero}), b.Emit(Op::kNe, {x, x})});
      return b.Select(keeps, x, one);
    }
    case HloOp::kSqrt: return b.Emit(Op::kSqrt, {x});
    case HloOp::kRsqrt: return math::Rsqrt(b, x);
    case HloOp::kExponential:
      return IsNotPositive(*instruction.operand(0)) ? math::ExpNotPositive(b, x) : math::Exp(b, x);
    case HloOp::kExpm1: return math::Expm1(b, x);
    case HloOp::kLog: return math::Log(b, x);
    case HloOp::kLog1p: return math::Log1p(b, x);
    case HloOp::kSine: return math::Sin(b, x);
    case HloOp::kCosine: return math::Cos(b, x);
    case HloOp::kTan: return math::Tan(b, x);
    case HloOp::kAsin: return math::Asin(b, x);
    case HloOp::kAcos: return math::Acos(b, x);
    case HloOp::kSinh: return math::Sinh(b, x);
    case HloOp::kCosh: return math::Cosh(b, x);
    case HloOp::kTanh: return math::Tanh(b, x);
    case HloOp::kAsinh: return math::Asinh(b, x);
    case HloOp::kAcosh: return math::Acosh(b, x);
    case HloOp::kAtanh: return math::Atanh(b, x);
    case HloOp::kLogistic: return math::Logistic(b, x);
    case HloOp::kErf: return math::Erf(b, x);
    case HloOp::kCbrt: return math::Cbrt(b, x);
    case HloOp::kReducePrecision: return ReducePrecision(b, instruction, x);
    default: return -1;
  }
}

// clamp(low, x, high); NaN in any of them is the result.
Element EmitClamp(ElementContext& e, DType from, std::span<const Element> args) {
  KernelBuilder& b = e.b;
  ValueId low = args[0].re, value = args[1].re, high = args[2].re;
  MatchLanes(e, low, value);
  if (from == DType::kPred) {
    ValueId either = b.Emit(Op::kOr, {value, low});
    MatchLanes(e, either, high);
    return {b.Emit(Op::kAnd, {either, high}), -1};
  }
  ValueId at_least = b.Max(value, low);
  MatchLanes(e, at_least, high);
  return {b.Min(at_least, high), -1};
}

// Of real numbers and preds.
Result<Element> EmitUnary(KernelBuilder& b, const Instruction& instruction, const Element& arg) {
  HloOp op = instruction.op();
  ValueId x = arg.re;
  DType to = instruction.shape().dtype(), from = instruction.operand(0)->shape().dtype();
  Type type = b.type(x);
  auto rounded = [&](ValueId v) { return Element{RoundToStorage(b, v, to), -1}; };
  switch (op) {
    case HloOp::kNot: return rounded(b.Emit(Op::kNot, {x}));
    case HloOp::kReal: return arg;
    case HloOp::kImag: return Element{b.Number(0, type), -1};
    case HloOp::kIsFinite: {
      if (!IsFloat(from)) return Element{b.Pred(true, type.lanes), -1};
      ValueId magnitude = b.Emit(Op::kAbs, {x});
      return Element{b.Emit(Op::kLt, {magnitude, b.Float(INFINITY, type)}), -1};
    }
    case HloOp::kPopulationCount:
    case HloOp::kCountLeadingZeros: return rounded(CountBits(b, op, from, x));
    default: break;
  }
  if (IsFloat(from)) {
    ValueId value = EmitFloatUnary(b, instruction, x);
    if (value >= 0) return rounded(value);
  } else if (op == HloOp::kAbs) {
    return IsUnsigned(from) ? arg : rounded(b.Emit(Op::kAbs, {x}));
  } else if (op == HloOp::kNegate) {
    return rounded(b.Emit(Op::kNeg, {x}));
  } else if (op == HloOp::kSign) {
    return Element{SignOfInteger(b, from, x), -1};
  } else if (op == HloOp::kCeil || op == HloOp::kFloor || op == HloOp::kRoundNearestAfz ||
             op == HloOp::kRoundNearestEven) {
    return arg;
  }
  return Unimplemented(hlo::Mnemonic(op), ": no native lowering for ", Name(from));
}

// Whether what reads a product wants it rounded, so that no FMA may take it in.
bool IsRoundedAlone(const Instruction& product) {
  return IsFloat(product.shape().dtype()) && product.users().size() == 1 &&
         IsWholePrecision(*product.users()[0]);
}

}  // namespace

Result<Element> EmitElementwise(ElementContext& e, const Instruction& instruction,
                                std::span<Element> args) {
  HloOp op = instruction.op();
  DType to = instruction.shape().dtype();
  DType from = instruction.operand_count() > 0 ? instruction.operand(0)->shape().dtype() : to;
  if (op == HloOp::kCompare) return EmitCompare(e, instruction, args);
  if (op == HloOp::kConvert) return ConvertElement(e, args[0], from, to);
  if (op == HloOp::kSelect) return SelectElement(e, args[0].re, args[1], args[2]);
  if (IsComplex(from) || IsComplex(to)) return EmitComplex(e, instruction, args);
  if (ValueId q = DivideSmall(e, instruction, args); q >= 0) return Element{q, -1};
  ValueId x = args[0].re, y = args.size() > 1 ? args[1].re : -1;
  if (y >= 0) MatchLanes(e, x, y);
  Type type = e.b.type(x);
  auto rounded = [&](ValueId v) { return Element{RoundToStorage(e.b, v, to), -1}; };
  auto binary = [&](Op kernel_op) { return rounded(e.b.Emit(kernel_op, {x, y})); };
  // Of single integers, such as indices and what they are compared with.
  auto sum = [&](Op kernel_op) {
    bool fits = e.value_ranges != nullptr && IsInteger(to) && to == type.dtype &&
                instruction.shape().elements() == 1 && e.value_ranges->NeverWraps(instruction);
    return fits ? Element{e.b.EmitNoWrap(kernel_op, x, y), -1} : binary(kernel_op);
  };
  switch (op) {
    case HloOp::kAdd:
      if (from == DType::kPred) return Element{e.b.Emit(Op::kOr, {x, y}), -1};
      return sum(Op::kAdd);
    case HloOp::kSubtract: return sum(Op::kSub);
    case HloOp::kMultiply:
      if (from == DType::kPred) return Element{e.b.Emit(Op::kAnd, {x, y}), -1};
      if (to == type.dtype && IsRoundedAlone(instruction)) return Element{e.b.MulRounded(x, y), -1};
      return sum(Op::kMul);
    case HloOp::kDivide:
      if (IsFloat(type.dtype) && e.b.value(args[1].re).is_constant) {
        return rounded(math::DivideByNumber(e.b, x, e.b.value(args[1].re).AsDouble()));
      }
      if (auto it = e.lane_numbers.find(y); it != e.lane_numbers.end()) {
        return rounded(math::DivideByNumbers(e.b, x, it->second));
      }
      return binary(Op::kDiv);
    case HloOp::kRemainder: return IsFloat(from) ? rounded(math::Rem(e.b, x, y)) : binary(Op::kRem);
    case HloOp::kMaximum:
      if (from == DType::kPred) return Element{e.b.Emit(Op::kOr, {x, y}), -1};
      return Element{e.b.Emit(Op::kMax, {x, y}), -1};
    case HloOp::kMinimum:
      if (from == DType::kPred) return Element{e.b.Emit(Op::kAnd, {x, y}), -1};
      return Element{e.b.Emit(Op::kMin, {x, y}), -1};
    case HloOp::kAnd: return Element{e.b.Emit(Op::kAnd, {x, y}), -1};
    case HloOp::kOr: return Element{e.b.Emit(Op::kOr, {x, y}), -1};
    case HloOp::kXor: return Element{e.b.Emit(Op::kXor, {x, y}), -1};
    case HloOp::kAtan2: return rounded(math::Atan2(e.b, x, y));
    case HloOp::kPower:
      return rounded(IsFloat(from) ? math::Pow(e.b, x, y) : IntegerPower(e.b, x, y));
    case HloOp::kShiftLeft:
    case HloOp::kShiftRightArithmetic:
    case HloOp::kShiftRightLogical: return Element{EmitShift(e.b, op, from, x, y), -1};
    case HloOp::kMulhi:
      if (BitWidth(from) > 32) return Element{HighProduct(e.b, x, y), -1};
      return rounded(NarrowHighProduct(e.b, from, x, y));
    case HloOp::kClamp: return EmitClamp(e, from, args);
    default: return EmitUnary(e.b, instruction, args[0]);
  }
}

}  // namespace weft::compiler
