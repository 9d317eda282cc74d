// Elementwise ops on complex numbers.
#include "compiler/lower/element/elementwise.h"
#include "compiler/lower/element/values.h"
#include "hlo/computation.h"
#include "program/math.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Op;
using HloOp = hlo::Op;
namespace math = program::math;

Result<Element> EmitComplex(ElementContext& e, const Instruction& instruction,
                            std::span<Element> args) {
  DType from = instruction.operand(0)->shape().dtype();
  if (instruction.op() == HloOp::kComplex) {
    MatchLanes(e, args[0].re, args[1].re);
    return Element{args[0].re, args[1].re};
  }
  if (!IsComplex(from)) {
    return Unimplemented(hlo::Mnemonic(instruction.op()), ": no native lowering for ", Name(from));
  }
  if (args.size() == 2) {
    MatchLanes(e, args[0].re, args[1].re);
    MatchLanes(e, args[0].im, args[1].im);
  }
  math::Complex x{args[0].re, args[0].im}, y{-1, -1};
  if (args.size() == 2) y = {args[1].re, args[1].im};
  auto make = [](math::Complex c) { return Element{c.re, c.im}; };
  switch (instruction.op()) {
    case HloOp::kAdd: return Element{e.b.Add(x.re, y.re), e.b.Add(x.im, y.im)};
    case HloOp::kSubtract: return Element{e.b.Sub(x.re, y.re), e.b.Sub(x.im, y.im)};
    case HloOp::kMultiply: return make(math::Mul(e.b, x, y));
    case HloOp::kDivide: return make(math::Div(e.b, x, y));
    case HloOp::kPower: return make(math::Pow(e.b, x, y));
    case HloOp::kAtan2: {
      // -i log((y + i x) / sqrt(x^2 + y^2))
      math::Complex xx = math::Mul(e.b, x, x), yy = math::Mul(e.b, y, y);
      math::Complex size = math::Sqrt(e.b, {e.b.Add(xx.re, yy.re), e.b.Add(xx.im, yy.im)});
      math::Complex sum{e.b.Sub(y.re, x.im), e.b.Add(y.im, x.re)};
      math::Complex log = math::Log(e.b, math::Div(e.b, sum, size));
      return Element{log.im, e.b.Emit(Op::kNeg, {log.re})};
    }
    case HloOp::kNegate: return Element{e.b.Emit(Op::kNeg, {x.re}), e.b.Emit(Op::kNeg, {x.im})};
    case HloOp::kReal: return Element{x.re, -1};
    case HloOp::kImag: return Element{x.im, -1};
    case HloOp::kAbs: return Element{math::Abs(e.b, x), -1};
    case HloOp::kSign: return make(math::Sign(e.b, x));
    case HloOp::kExponential: return make(math::Exp(e.b, x));
    case HloOp::kExpm1: return make(math::Expm1(e.b, x));
    case HloOp::kLog: return make(math::Log(e.b, x));
    case HloOp::kLog1p: return make(math::Log1p(e.b, x));
    case HloOp::kSqrt: return make(math::Sqrt(e.b, x));
    case HloOp::kRsqrt: return make(math::Rsqrt(e.b, x));
    case HloOp::kCbrt: return make(math::Cbrt(e.b, x));
    case HloOp::kSine: return make(math::Sin(e.b, x));
    case HloOp::kCosine: return make(math::Cos(e.b, x));
    case HloOp::kTan: return make(math::Tan(e.b, x));
    case HloOp::kTanh: return make(math::Tanh(e.b, x));
    case HloOp::kSinh: return make(math::Sinh(e.b, x));
    case HloOp::kCosh: return make(math::Cosh(e.b, x));
    case HloOp::kAsin: return make(math::Asin(e.b, x));
    case HloOp::kAcos: return make(math::Acos(e.b, x));
    case HloOp::kAsinh: return make(math::Asinh(e.b, x));
    case HloOp::kAcosh: return make(math::Acosh(e.b, x));
    case HloOp::kAtanh: return make(math::Atanh(e.b, x));
    case HloOp::kLogistic: return make(math::Logistic(e.b, x));
    default:
      return Unimplemented(hlo::Mnemonic(instruction.op()), ": no native lowering for ",
                           Name(from));
  }
}

}  // namespace weft::compiler
