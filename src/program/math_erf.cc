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
// log(erfc x) on [1, 3.95] ([1, 5.95]), the error of erf: 2^-29.8, 2^-47.4.
constexpr double kLogErfcF32[] = {-0x1.66368cp-12, -0x1.2088e4p+0, -0x1.46bb02p-1, -0x1.a652b0p-4,
                                  0x1.65ca84p-6,   -0x1.825998p-9, 0x1.86dc96p-13};
constexpr double kLogErfcF64[] = {
    -0x1.0af0aeb7ef454p-21, -0x1.20dd1f7eda68ep+0,  -0x1.45f636ecf5cd8p-1,  -0x1.a4a9c712efe5dp-4,
    0x1.37041aabc524bp-6,   0x1.bd859ce3b000cp-12,  -0x1.fb8546a5a4d0fp-10, 0x1.9f284fc0bb685p-11,
    -0x1.3f30299156748p-13, -0x1.3ef9a1b65bd7cp-17, 0x1.26a35e36d9f16p-16,  -0x1.bf82b2b2332afp-18,
    0x1.a077638da8246p-20,  -0x1.067fcf6bff412p-22, 0x1.b9793cd4c38b9p-26,  -0x1.c2b9e5a14e09dp-30,
    0x1.a8a536ca71a87p-35};

}  // namespace

ValueId Erf(KernelBuilder& b, ValueId id) {
  V x{&b, id};
  V a = Min(Abs(x), x.wide() ? 5.95 : 3.95);
  V small = Fma(a, Poly(a * a, kErfF32, kErfF64), a);
  auto [exponent, m] = SplitExp(Poly(a, kLogErfcF32, kLogErfcF64), x.wide() ? 1023 : 127);
  V power = PowerOfTwo(exponent);
  V large = Fma(-power, m, 1 - power);
  return WithSign(Select(a < 1, small, large), x).id;
}

}  // namespace weft::program::math
