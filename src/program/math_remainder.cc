// The remainder of a division towards zero, exact.
#include <cmath>
#include <limits>

#include "program/math.h"
#include "program/math_values.h"

namespace weft::program::math {

using namespace detail;  // NOLINT

// With a = |x|, b = |y|: the rounded quotient is never below an integer that a / b reaches, so that
// its whole part q is the true one or one more, and a - q b is a number of the type. Its sign tells
// which, and hardly ever that of one more. Quotients that are no exact integers, infinities and
// NaNs are left to the C library.
ValueId Rem(KernelBuilder& builder, ValueId x_id, ValueId y_id) {
  if (builder.functions()) return builder.Emit(Op::kRem, {x_id, y_id});
  V x{&builder, x_id}, y{&builder, y_id};
  V a = Abs(x), b = Abs(y);
  const Value& divisor = builder.value(y_id);
  bool known = divisor.is_constant && std::isnormal(divisor.AsDouble());
  V quotient = known ? a.Of(DivideByNumber(builder, a.id(), std::fabs(divisor.AsDouble()))) : a / b;
  V q = Apply(Op::kTrunc, quotient);
  V rest = Fma(-q, b, a);
  bool latency_bound = IsLatencyBound(x);
  V value = WithSign(latency_bound ? rest : Select(rest < 0, rest + b, rest), x);
  V likely = (q < x.Pick(0x1p24, 0x1p53)) & (b < std::numeric_limits<double>::infinity());
  if (latency_bound) likely = likely & (rest >= 0);
  return Unless(!likely, value, [&] { return x.Of(builder.Rem(x_id, y_id)); }).id();
}

}  // namespace weft::program::math
