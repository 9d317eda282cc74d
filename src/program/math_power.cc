// Powers and roots.
#include <limits>

#include "program/math.h"
#include "program/math_values.h"

namespace weft::program::math {

using namespace detail;  // NOLINT

namespace {

constexpr double kPowerInfinity = std::numeric_limits<double>::infinity();

}  // namespace

ValueId Rsqrt(KernelBuilder& b, ValueId id) {
  V x{&b, id};
  return (1 / Sqrt(x)).id;
}

// y approximates 1 / cbrt(a): a third of a's bits, taken from a constant, is within 4 %; two steps
// of y (1 + h/3 + 2h^2/9 + 14h^3/81) with h = 1 - a y^3 make it good to the last bits. Then
// c = a y^2 with one step of Newton's on c^3 = a, the residual in fused steps.
ValueId Cbrt(KernelBuilder& b, ValueId id) {
  V x{&b, id};
  V a = Abs(x);
  V tiny = a < x.Pick(0x1p-126, 0x1p-1022);
  V scaled = Select(tiny, a * x.Pick(0x1p24, 0x1p54), a);
  // The top 32 bits as a float, linearly mapped and back.
  V top = x.wide() ? Cast(Bits(scaled) >> 32, DType::kS32) : Bits(scaled);
  V guess = Cast(Fma(Cast(top, x.type().dtype), -1.0 / 3, x.wide() ? 0x553ef0ff : 0x54a2fa8c),
                 DType::kS32);
  V y = x.wide() ? FromBits(Cast(guess, DType::kS64) << 32) : FromBits(guess);
  for (int i = 0; i < (x.wide() ? 3 : 2); ++i) {
    V h = Fma(scaled * y * y, -y, 1);
    y = Fma(y, h * Fma(h, Fma(h, 14.0 / 81, 2.0 / 9), 1.0 / 3), y);
  }
  V c = scaled * y * y;
  V square = c * c;
  V residual = Fma(square, -c, scaled) - Fma(c, c, -square) * c;
  c = Fma(residual, y * y * (1.0 / 3), c);
  c = Select(tiny, c * x.Pick(0x1p-8, 0x1p-18), c);
  V plain = (a < kPowerInfinity) & (a > 0);
  return WithSign(Select(plain, c, a), x).id;
}

ValueId Rem(KernelBuilder& b, ValueId x, ValueId y) {
  return b.Rem(x, y);
}

}  // namespace weft::program::math
