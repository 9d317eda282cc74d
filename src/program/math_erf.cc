// The error function: an odd polynomial below 1, 1 - e^p(x) above.
#include "program/math.h"
#include "program/math_values.h"

namespace weft::program::math {

using namespace detail;  // NOLINT

namespace {

// erf(x)/x - 1 in x^2 on [0, 1]: 2^-29.4, 2^-56.0.
constexpr double kErfF32[] = {0x1.06eba8p-3, -0x1.81273ep-2,  0x1.ce2ce6p-4, -0x1.b7f71ap-6,
                              0x1.53f224p-8, -0x1.a3515ep-11, 0x1.4771fep-14};
constexpr double kErfF64[] = {
    0x1.06eba8214db68p-3,  -0x1.812746b03799dp-2,  0x1.ce2f21a03f8bap-4,  -0x1.b82ce311a986fp-6,
    0x1.565bcceedc48cp-8,  -0x1.c02daeb77617ap-11, 0x1.f9a296c297d17p-14, -0x1.f4c830122fc58p-17,
    0x1.b96b641103a2ap-20, -0x1.5b8cc763403d8p-23, 0x1.d3e07a71e51e9p-27, -0x1.a2478500b954ep-31};
// log(erfc x) on [1, 3.95] ([1, 5.95]), the error of erf: 2^-29.8, 2^-58.1.
constexpr double kLogErfcF32[] = {-0x1.66368cp-12, -0x1.2088e4p+0, -0x1.46bb02p-1, -0x1.a652b0p-4,
                                  0x1.65ca84p-6,   -0x1.825998p-9, 0x1.86dc96p-13};
constexpr double kLogErfcF64[] = {
    -0x1.81b3ba36e10c5p-23, -0x1.20dd562f4f4d9p+0,  -0x1.45f42b52089c3p-1,  -0x1.a4da4deced950p-4,
    0x1.38939851bf96ep-6,   0x1.261c3c2e4d3dfp-12,  -0x1.cfbb68b5faed8p-10, 0x1.502866a0925e8p-11,
    -0x1.77fc17aededb3p-15, -0x1.27246ae20d7d4p-14, 0x1.79cd9fdd35893p-15,  -0x1.150f2babb59b8p-16,
    0x1.22625c8447d1ap-18,  -0x1.c8a6add0268b4p-21, 0x1.0df38c7fc93d6p-23,  -0x1.d4370456f19fbp-27,
    0x1.19f2502cb1550p-30,  -0x1.a5df2b66e8dd6p-35, 0x1.2772ee2b5c839p-40};

// Of |x| >= 1, at most the last number whose erf is not 1.
V ErfOfLarge(V a) {
  auto [exponent, m] = SplitExp(Poly(a, kLogErfcF32, kLogErfcF64), a.wide() ? 1023 : 127);
  V power = PowerOfTwo(exponent);
  return Fma(-power, m, 1 - power);
}

V ErfOfSmall(V x) {
  return Fma(x, Poly(x * x, kErfF32, kErfF64), x);
}

}  // namespace

ValueId Erf(KernelBuilder& b, ValueId id) {
  if (b.functions()) return b.Emit(Op::kErf, {id});
  V x{&b, id};
  auto bounded = [&] { return Min(Abs(x), x.wide() ? 5.95 : 3.95); };
  if (IsLatencyBound(x)) {
    auto large = [&] { return WithSign(ErfOfLarge(bounded()), x); };
    return Unless(!(Abs(x) < 1), ErfOfSmall(x), large).id();
  }
  V a = bounded();
  return WithSign(Select(a < 1, ErfOfSmall(a), ErfOfLarge(a)), x).id();
}

}  // namespace weft::program::math
