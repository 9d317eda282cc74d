#include "cpu/render/ops.h"

#include <cmath>

#include "base/check.h"

namespace weft::cpu {

using program::Instr;
using program::Op;
using program::Type;

std::string Splat(Type type, int64_t number) {
  return IrSplat(IrType({type.dtype, 1}), StrCat(number), type.lanes);
}

std::string Plain(IrBody& ir, std::string_view op, Type t, const std::string& a,
                  const std::string& b) {
  return ir.Def(op, " ", IrType(t), " ", a, ", ", b);
}

std::string SelectOf(IrBody& ir, Type condition_type, const std::string& condition, Type t,
                     const std::string& a, const std::string& b) {
  std::string type = IrType(t);
  return ir.Def("select ", IrType(condition_type), " ", condition, ", ", type, " ", a, ", ", type,
                " ", b);
}
std::string SelectOf(IrBody& ir, const std::string& condition, Type t, const std::string& a,
                     const std::string& b) {
  return SelectOf(ir, {DType::kPred, t.lanes}, condition, t, a, b);
}

std::string Convert(IrBody& ir, std::string_view op, Type from, Type to, const std::string& a) {
  return ir.Def(op, " ", IrType(from), " ", a, " to ", IrType(to));
}

namespace {

std::string Unary(IrBody& ir, std::string_view intrinsic, Type t, const std::string& a,
                  std::string_view more = "") {
  std::string type = IrType(t);
  return ir.Def("call ", type, " @llvm.", intrinsic, ".", IrSuffix(t), "(", type, " ", a, more,
                ")");
}

std::string Binary(IrBody& ir, std::string_view intrinsic, Type t, const std::string& a,
                   const std::string& b) {
  std::string type = IrType(t);
  return ir.Def("call ", type, " @llvm.", intrinsic, ".", IrSuffix(t), "(", type, " ", a, ", ",
                type, " ", b, ")");
}

std::string RenderShift(IrBody& ir, Type t, Op op, const Operand& a, const Operand& b) {
  int width = BitWidth(t.dtype);
  bool arithmetic = op == Op::kShr && IsSigned(t.dtype);
  std::string_view name = op == Op::kShl ? "shl" : arithmetic ? "ashr" : "lshr";
  if (b.constant) {
    uint64_t amount = b.constant->bits;
    if (amount < static_cast<uint64_t>(width)) return Plain(ir, name, t, a.text, b.text);
    return arithmetic ? Plain(ir, name, t, a.text, Splat(t, width - 1)) : Splat(t, 0);
  }
  if (arithmetic) {
    std::string amount = Binary(ir, "umin", t, b.text, Splat(t, width - 1));
    return Plain(ir, name, t, a.text, amount);
  }
  std::string inside = Plain(ir, "icmp ult", t, b.text, Splat(t, width));
  std::string amount = SelectOf(ir, inside, t, b.text, Splat(t, 0));
  std::string shifted = Plain(ir, name, t, a.text, amount);
  return SelectOf(ir, inside, t, shifted, Splat(t, 0));
}

std::string RenderCompare(IrBody& ir, Op op, std::span<const Operand> args) {
  Type t = args[0].type;
  int which = static_cast<int>(op) - static_cast<int>(Op::kEq);
  static constexpr std::string_view kFloat[] = {"oeq", "une", "olt", "ole", "ogt", "oge"};
  static constexpr std::string_view kSigned[] = {"eq", "ne", "slt", "sle", "sgt", "sge"};
  static constexpr std::string_view kUnsigned[] = {"eq", "ne", "ult", "ule", "ugt", "uge"};
  if (IsFloat(t.dtype))
    return Plain(ir, StrCat("fcmp ", kFloat[which]), t, args[0].text, args[1].text);
  std::string_view name = IsSigned(t.dtype) ? kSigned[which] : kUnsigned[which];
  return Plain(ir, StrCat("icmp ", name), t, args[0].text, args[1].text);
}

// Numbers beyond the range become its ends, NaN becomes 0: step by step, for machines that would
// take every lane by itself.
std::string RenderLanesToInt(IrBody& ir, Type from, Type to, const std::string& a) {
  int bits = BitWidth(to.dtype) - (IsSigned(to.dtype) ? 1 : 0);
  bool narrow = BitWidth(to.dtype) < 32;
  Type wide = narrow ? Type{DType::kS32, to.lanes} : to;
  auto number = [&](double x) { return IrSplat(IrType({from.dtype, 1}), IrFloat(x), from.lanes); };
  double end = std::ldexp(1.0, bits), low = IsSigned(to.dtype) ? -end : 0;
  // The greatest number below the end, where the greatest integer is none.
  bool exact = bits <= (from.dtype == DType::kF32 ? 24 : 53);
  double high = exact                       ? end - 1
                : from.dtype == DType::kF32 ? std::nextafter(static_cast<float>(end), 0.0f)
                                            : std::nextafter(end, 0.0);
  std::string x = SelectOf(ir, Plain(ir, "fcmp ogt", from, a, number(low)), from, a, number(low));
  x = SelectOf(ir, Plain(ir, "fcmp olt", from, x, number(high)), from, x, number(high));
  std::string_view name = IsSigned(wide.dtype) ? "fptosi" : "fptoui";
  std::string result = Convert(ir, name, from, wide, x);
  if (!exact) {
    int64_t most = IsSigned(to.dtype) ? static_cast<int64_t>((uint64_t{1} << bits) - 1) : -1;
    std::string beyond = Plain(ir, "fcmp oge", from, a, number(end));
    result = SelectOf(ir, beyond, wide, Splat(wide, most), result);
  }
  if (IsSigned(to.dtype)) {
    result = SelectOf(ir, Plain(ir, "fcmp uno", from, a, a), wide, Splat(wide, 0), result);
  }
  return narrow ? Convert(ir, "trunc", wide, to, result) : result;
}

std::string RenderCast(IrBody& ir, const Instr& instr, Type from, const std::string& a,
                       const RenderTarget& target) {
  Type to = instr.type;
  if (from.dtype == to.dtype) return a;
  if (instr.nowrap) {  // where it is not used it may be any number, but one
    std::string_view name = IsSigned(to.dtype) ? "fptosi" : "fptoui";
    return ir.Def("freeze ", IrType(to), " ", Convert(ir, name, from, to, a));
  }
  if (to.dtype == DType::kPred) {
    if (IsFloat(from.dtype)) {
      return Plain(ir, "fcmp une", from, a,
                   IrSplat(IrType({from.dtype, 1}), IrFloat(0), from.lanes));
    }
    return Plain(ir, "icmp ne", from, a, Splat(from, 0));
  }
  int width = BitWidth(from.dtype), wanted = BitWidth(to.dtype);
  if (IsFloat(from.dtype)) {
    if (IsFloat(to.dtype)) return Convert(ir, wanted > width ? "fpext" : "fptrunc", from, to, a);
    if (from.lanes > 1 && !target.casts_lanes) return RenderLanesToInt(ir, from, to, a);
    std::string_view name = IsSigned(to.dtype) ? "fptosi" : "fptoui";
    return ir.Def("call ", IrType(to), " @llvm.", name, ".sat.", IrSuffix(to), ".", IrSuffix(from),
                  "(", IrType(from), " ", a, ")");
  }
  // Masks choose, whatever the width of what made them.
  if (from.dtype == DType::kPred && from.lanes > 1 && IsFloat(to.dtype)) {
    std::string one = IrSplat(IrType({to.dtype, 1}), IrFloat(1), to.lanes);
    return SelectOf(ir, a, to, one, IrSplat(IrType({to.dtype, 1}), IrFloat(0), to.lanes));
  }
  if (IsFloat(to.dtype)) {
    return Convert(ir, IsSigned(from.dtype) ? "sitofp" : "uitofp", from, to, a);
  }
  if (wanted == width) return a;
  if (wanted < width) return Convert(ir, "trunc", from, to, a);
  return Convert(ir, IsSigned(from.dtype) ? "sext" : "zext", from, to, a);
}

std::string RenderShuffle(IrBody& ir, const Instr& instr, std::span<const Operand> args) {
  Type from = args[0].type;
  if (from.lanes == 1) {
    if (instr.type.lanes == 1) return args[instr.lanes[0]].text;
    std::string result = "poison", type = IrType(instr.type);
    for (size_t i = 0; i < instr.lanes.size(); ++i) {
      result = ir.Def("insertelement ", type, " ", result, ", ", IrType(from), " ",
                      args[instr.lanes[i]].text, ", i64 ", i);
    }
    return result;
  }
  std::string type = IrType(from);
  if (instr.type.lanes == 1) {
    int lane = instr.lanes[0];
    return ir.Def("extractelement ", type, " ", args[lane / from.lanes].text, ", i64 ",
                  lane % from.lanes);
  }
  std::string mask, first = args[0].text, second = args[1].text;
  for (int32_t lane : instr.lanes) StrAppend(mask, mask.empty() ? "" : ", ", "i32 ", lane);
  auto shuffle = [&] {
    return ir.Def("shufflevector ", type, " ", first, ", ", type, " ", second, ", <",
                  instr.type.lanes, " x i32> <", mask, ">");
  };
  if (from.dtype != DType::kPred) return shuffle();
  // As bytes: where AVX-512 is short of registers for masks, LLVM 19 forgets that half of one that
  // was put together is zero.
  Type bytes = {DType::kS8, from.lanes}, result = {DType::kS8, instr.type.lanes};
  first = Convert(ir, "sext", from, bytes, first);
  second = Convert(ir, "sext", from, bytes, second);
  type = IrType(bytes);
  std::string moved = shuffle();
  return ir.Def("icmp slt ", IrType(result), " ", moved, ", zeroinitializer");
}

std::string RenderLanes(IrBody& ir, const Instr& instr, std::span<const Operand> args) {
  Type t = instr.type;
  std::string type = IrType(t), element = IrType({t.dtype, 1});
  if (instr.op == Op::kShuffle || instr.op == Op::kExtract) return RenderShuffle(ir, instr, args);
  if (instr.op == Op::kAny) {
    if (args[0].type.lanes == 1) return args[0].text;
    std::string from = IrType(args[0].type);
    return ir.Def("call i1 @llvm.vector.reduce.or.v", args[0].type.lanes, "i1(", from, " ",
                  args[0].text, ")");
  }
  if (instr.op == Op::kIota) {
    if (t.lanes == 1) return "0";
    std::string numbers;
    for (int i = 0; i < t.lanes; ++i) StrAppend(numbers, i > 0 ? ", " : "", element, " ", i);
    return StrCat("<", numbers, ">");
  }
  if (t.lanes == 1) return args[0].text;
  if (args[0].constant) return IrSplat(element, args[0].text, t.lanes);
  std::string first =
      ir.Def("insertelement ", type, " poison, ", element, " ", args[0].text, ", i64 0");
  return ir.Def("shufflevector ", type, " ", first, ", ", type, " poison, <", t.lanes,
                " x i32> zeroinitializer");
}

// neg .. clz
std::string RenderUnary(IrBody& ir, Op op, const Operand& a) {
  Type t = a.type;
  bool is_float = IsFloat(t.dtype);
  switch (op) {
    case Op::kNeg:
      if (is_float) return ir.Def("fneg ", IrType(t), " ", a.text);
      return Plain(ir, "sub", t, Splat(t, 0), a.text);
    case Op::kAbs:
      if (is_float) return Unary(ir, "fabs", t, a.text);
      if (!IsSigned(t.dtype)) return a.text;
      return Unary(ir, "abs", t, a.text, ", i1 false");
    case Op::kSqrt: return Unary(ir, "sqrt", t, a.text);
    case Op::kExp2: return Unary(ir, "exp2", t, a.text);
    case Op::kLog2: return Unary(ir, "log2", t, a.text);
    case Op::kSin: return Unary(ir, "sin", t, a.text);
    case Op::kCos: return Unary(ir, "cos", t, a.text);
    case Op::kFloor: return Unary(ir, "floor", t, a.text);
    case Op::kCeil: return Unary(ir, "ceil", t, a.text);
    case Op::kTrunc: return Unary(ir, "trunc", t, a.text);
    case Op::kRound: return Unary(ir, "roundeven", t, a.text);
    case Op::kNot:
      if (t.dtype == DType::kPred)
        return Plain(ir, "xor", t, a.text, IrSplat("i1", "true", t.lanes));
      return Plain(ir, "xor", t, a.text, Splat(t, -1));
    case Op::kPopcount: return Unary(ir, "ctpop", t, a.text);
    default: return Unary(ir, "ctlz", t, a.text, ", i1 false");
  }
}

std::string RenderSum(IrBody& ir, const Instr& instr, const Operand& a, const Operand& b) {
  bool is_float = IsFloat(a.type.dtype), is_signed = IsSigned(a.type.dtype);
  std::string op = instr.op == Op::kAdd ? "add" : instr.op == Op::kSub ? "sub" : "mul";
  if (is_float) op = StrCat("f", op, " contract");
  if (instr.nowrap) op += is_signed ? " nsw" : " nuw";
  return Plain(ir, op, a.type, a.text, b.text);
}

std::string RenderArith(IrBody& ir, const Instr& instr, const Operand& a, const Operand& b,
                        const RenderTarget& target) {
  Type t = a.type;
  bool is_float = IsFloat(t.dtype), is_signed = IsSigned(t.dtype);
  switch (instr.op) {
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul: return RenderSum(ir, instr, a, b);
    case Op::kDiv:
      if (is_float) return Plain(ir, "fdiv", t, a.text, b.text);
      return RenderIntDivide(ir, t, false, a, b, target);
    case Op::kRem:
      if (is_float) return Plain(ir, "frem", t, a.text, b.text);
      return RenderIntDivide(ir, t, true, a, b, target);
    // x86 may look whether the first operand is a NaN: of the least and the greatest of two numbers
    // not the same one, or it would look once for both, which takes longer.
    case Op::kMin:
      if (is_float) return Binary(ir, "minimum", t, a.text, b.text);
      return Binary(ir, is_signed ? "smin" : "umin", t, a.text, b.text);
    case Op::kMax:
      if (is_float) return Binary(ir, "maximum", t, b.text, a.text);
      return Binary(ir, is_signed ? "smax" : "umax", t, a.text, b.text);
    case Op::kAnd: return Plain(ir, "and", t, a.text, b.text);
    case Op::kOr: return Plain(ir, "or", t, a.text, b.text);
    default: return Plain(ir, "xor", t, a.text, b.text);
  }
}

}  // namespace

std::string RenderOp(IrBody& ir, const Instr& instr, std::span<const Operand> args,
                     const RenderTarget& target) {
  Type t = instr.type;
  switch (instr.op) {
    case Op::kSelect:
      return SelectOf(ir, args[0].type, args[0].text, t, args[1].text, args[2].text);
    case Op::kCast: return RenderCast(ir, instr, args[0].type, args[0].text, target);
    case Op::kBitcast:
      if (IrType(args[0].type) == IrType(t)) return args[0].text;
      return Convert(ir, "bitcast", args[0].type, t, args[0].text);
    case Op::kNarrow: {
      std::string stored = ToStorage(ir, instr.format, t.lanes, args[0].text, target);
      return FromStorage(ir, instr.format, t.lanes, stored);
    }
    case Op::kFma: {
      std::string type = IrType(t);
      const program::Value* addend = args[2].constant;
      if (addend != nullptr && addend->AsDouble() == 0 && std::signbit(addend->AsDouble())) {
        return Plain(ir, "fmul", t, args[0].text, args[1].text);  // a product, rounded
      }
      return ir.Def("call ", type, " @llvm.fma.", IrSuffix(t), "(", type, " ", args[0].text, ", ",
                    type, " ", args[1].text, ", ", type, " ", args[2].text, ")");
    }
    case Op::kShl:
    case Op::kShr: return RenderShift(ir, t, instr.op, args[0], args[1]);
    default: break;
  }
  switch (Info(instr.op).cls) {
    case program::OpClass::kCompare: return RenderCompare(ir, instr.op, args);
    case program::OpClass::kLanes: return RenderLanes(ir, instr, args);
    default: break;
  }
  if (args.size() == 1) return RenderUnary(ir, instr.op, args[0]);
  CHECK(args.size() == 2) << Name(instr.op);
  return RenderArith(ir, instr, args[0], args[1], target);
}

}  // namespace weft::cpu
