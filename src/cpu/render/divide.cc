// Integer division: no machine divides integers in vectors, and LLVM would take one lane at a time.
// Lanes of up to 32 bits are divided as floats, which is exact; wider ones and scalars as LLVM
// does.
#include <cmath>

#include "cpu/render/ops.h"

namespace weft::cpu {
namespace {

using program::Type;

// x / 0 is 0, and what is left is x.
std::string RenderArmDivide(IrBody& ir, Type t, bool rem, const Operand& a, const Operand& b) {
  std::string type = IrType(t);
  std::string_view part = BitWidth(t.dtype) == 64 ? "x" : "w";
  std::string quotient = ir.Def("call ", type, " asm \"", IsSigned(t.dtype) ? "sdiv" : "udiv",
                                " ${0:", part, "}, ${1:", part, "}, ${2:", part, "}\", \"=r,r,r\"(",
                                type, " ", a.text, ", ", type, " ", b.text, ")");
  if (rem) return Plain(ir, "sub", t, a.text, Plain(ir, "mul", t, quotient, b.text));
  std::string zero = Plain(ir, "icmp eq", t, b.text, "0");
  return SelectOf(ir, zero, t, "-1", quotient);
}

// LLVM's division, kept from divisors that it does not take: 0, and -1 for the least number.
std::string RenderCheckedDivide(IrBody& ir, Type t, bool rem, std::string_view op, const Operand& a,
                                const Operand& b) {
  bool is_signed = IsSigned(t.dtype);
  std::string zero = Plain(ir, "icmp eq", t, b.text, Splat(t, 0));
  std::string minus, unsafe = zero;
  Type pred{DType::kPred, t.lanes};
  if (is_signed) {
    minus = Plain(ir, "icmp eq", t, b.text, Splat(t, -1));
    unsafe = Plain(ir, "or", pred, zero, minus);
  }
  std::string divisor = SelectOf(ir, unsafe, t, Splat(t, 1), b.text);
  std::string result = Plain(ir, op, t, a.text, divisor);
  if (rem) return SelectOf(ir, zero, t, a.text, result);
  if (is_signed) {
    std::string negated = Plain(ir, "sub", t, Splat(t, 0), a.text);
    result = SelectOf(ir, minus, t, negated, result);
  }
  return SelectOf(ir, zero, t, Splat(t, -1), result);
}

// Quotients of lanes by floats whose significand has more bits than dividend and divisor together
// need. Let q be the quotient of the magnitudes, rounded down. The next integer, q + 1, is further
// from n/d than 1 part in n + d <= 2^(width + 1), and a correctly rounded n/d does not get there:
// f64 has 53 bits for 32, f32 24 for 16. By 1/d, for a divisor that is the same in all lanes:
// raised by 4 units in the last place the reciprocal is above the exact one, so that n = q·d comes
// to q or more, and by so little that no other n gets to q + 1.
class FloatDivision {
 public:
  FloatDivision(IrBody& ir, Type t) : ir_(ir), t_(t) {
    bool narrow = BitWidth(t.dtype) <= 16;
    real_ = {narrow ? DType::kF32 : DType::kF64, t.lanes};
    whole_ = {narrow ? DType::kS32 : t.dtype, t.lanes};
    raise_ = 1 + std::ldexp(4.0, narrow ? -23 : -52);
  }

  // Of signed numbers by the magnitude of the divisor, which takes no overflow into account: the
  // least number by 1 is itself. Some number where the divisor is 0.
  std::string Quotient(const Operand& a, const Operand& b) {
    std::string dividend = ToReal(a.text, t_.lanes), quotient;
    if (b.scalar.empty()) {
      quotient = Plain(ir_, "fdiv", real_, dividend, Magnitude(b.text, t_.lanes));
    } else {
      quotient = Plain(ir_, "fmul", real_, dividend, Reciprocal(b.scalar));
    }
    bool is_signed = IsSigned(whole_.dtype);
    std::string result = Convert(ir_, is_signed ? "fptosi" : "fptoui", real_, whole_, quotient);
    if (BitWidth(t_.dtype) < 32) result = Convert(ir_, "trunc", whole_, t_, result);
    return ir_.Def("freeze ", IrType(t_), " ", result);
  }

 private:
  std::string ToReal(const std::string& x, int lanes) {
    Type from{t_.dtype, lanes}, to{real_.dtype, lanes};
    return Convert(ir_, IsSigned(t_.dtype) ? "sitofp" : "uitofp", from, to, x);
  }
  std::string Magnitude(const std::string& x, int lanes) {
    std::string real = ToReal(x, lanes);
    if (!IsSigned(t_.dtype)) return real;
    Type type{real_.dtype, lanes};
    return ir_.Def("call ", IrType(type), " @llvm.fabs.", IrSuffix(type), "(", IrType(type), " ",
                   real, ")");
  }
  // Once for all lanes, and before the loop where the divisor is invariant.
  std::string Reciprocal(const std::string& divisor) {
    Type one{real_.dtype, 1};
    std::string exact = Plain(ir_, "fdiv", one, IrFloat(1), Magnitude(divisor, 1));
    std::string raised = Plain(ir_, "fmul", one, exact, IrFloat(raise_));
    std::string type = IrType(real_);
    std::string first =
        ir_.Def("insertelement ", type, " poison, ", IrType(one), " ", raised, ", i64 0");
    return ir_.Def("shufflevector ", type, " ", first, ", ", type, " poison, <", real_.lanes,
                   " x i32> zeroinitializer");
  }

  IrBody& ir_;
  Type t_, real_, whole_;
  double raise_;
};

// The magnitude of the divisor makes both results of one quotient, which LLVM then computes once:
// n rem d is n rem |d|, and n / d changes its sign with d.
std::string RenderLanesDivide(IrBody& ir, Type t, bool rem, const Operand& a, const Operand& b) {
  std::string quotient = FloatDivision(ir, t).Quotient(a, b);
  bool is_signed = IsSigned(t.dtype);
  std::string zeros = Splat(t, 0);
  if (rem) {
    std::string divisor = b.text;
    if (is_signed) {
      divisor = ir.Def("call ", IrType(t), " @llvm.abs.", IrSuffix(t), "(", IrType(t), " ", b.text,
                       ", i1 false)");
    }
    return Plain(ir, "sub", t, a.text, Plain(ir, "mul", t, quotient, divisor));
  }
  if (is_signed) {
    std::string negative = Plain(ir, "icmp slt", t, b.text, zeros);
    std::string negated = Plain(ir, "sub", t, zeros, quotient);
    quotient = SelectOf(ir, negative, t, negated, quotient);
  }
  return SelectOf(ir, Plain(ir, "icmp eq", t, b.text, zeros), t, Splat(t, -1), quotient);
}

}  // namespace

std::string RenderIntDivide(IrBody& ir, Type t, bool rem, const Operand& a, const Operand& b,
                            const RenderTarget& target) {
  bool is_signed = IsSigned(t.dtype);
  std::string_view op = is_signed ? (rem ? "srem" : "sdiv") : (rem ? "urem" : "udiv");
  if (b.constant && b.constant->AsInt() != 0 && (!is_signed || b.constant->AsInt() != -1)) {
    return Plain(ir, op, t, a.text, b.text);
  }
  bool variable = !a.constant && !b.constant;
  if (target.arm_division && t.lanes == 1 && BitWidth(t.dtype) >= 32 && variable) {
    return RenderArmDivide(ir, t, rem, a, b);
  }
  // Arm divides two integers in the time of two floats, but does not multiply as slowly.
  bool by_floats = t.lanes > 1 && BitWidth(t.dtype) <= 32 && !b.constant;
  if (by_floats && (!b.scalar.empty() || !target.arm_division)) {
    return RenderLanesDivide(ir, t, rem, a, b);
  }
  return RenderCheckedDivide(ir, t, rem, op, a, b);
}

}  // namespace weft::cpu
