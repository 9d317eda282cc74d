// Elementary functions through the interpreter, against the C library in a wider type: special
// values, random bit patterns, moderate values.
#include "program/math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "program/interpret.h"
#include "program/verify.h"

namespace weft::program {
namespace {

using math::Complex;
using Columns = std::vector<std::vector<double>>;  // f32 values are doubles too

// Runs `body` on columns of inputs, many lanes at a time; returns columns of outputs.
template <class T>
Columns RunLanes(
    const Columns& inputs, int outputs, int lanes,
    const std::function<std::vector<ValueId>(KernelBuilder&, std::vector<ValueId>)>& body,
    bool latency_bound = false) {
  DType dtype = sizeof(T) == 4 ? DType::kF32 : DType::kF64;
  size_t count = (inputs[0].size() + 63) / 64 * 64;
  int64_t n = static_cast<int64_t>(count);
  KernelBuilder b("lanes");
  b.SetLatencyBound(latency_bound);
  std::vector<std::vector<T>> memory;
  std::vector<KernelBuilder::MemoryId> ids;
  for (size_t i = 0; i < inputs.size() + static_cast<size_t>(outputs); ++i) {
    bool input = i < inputs.size();
    ids.push_back(
        b.Param("m" + std::to_string(i), dtype, n, input ? Access::kRead : Access::kWrite));
    memory.emplace_back(count, T{1});
    if (input) std::copy(inputs[i].begin(), inputs[i].end(), memory.back().begin());
  }
  b.For(
      LoopKind::kSerial, 0, n,
      [&](ValueId i) {
        std::vector<ValueId> in;
        for (size_t k = 0; k < inputs.size(); ++k) in.push_back(b.Load(ids[k], i, lanes));
        std::vector<ValueId> out = body(b, in);
        for (size_t k = 0; k < out.size(); ++k) b.Store(ids[inputs.size() + k], i, out[k]);
      },
      lanes);
  Kernel kernel = std::move(b).Build();
  Status valid = Verify(kernel, "");
  EXPECT_TRUE(valid) << valid.error().ToString();
  std::vector<std::span<std::byte>> spans;
  for (std::vector<T>& m : memory) spans.push_back(std::as_writable_bytes(std::span(m)));
  detail::Budget budget{int64_t{1} << 40, int64_t{1} << 30};
  Status ran = detail::RunKernel(kernel, spans, budget, false);
  EXPECT_TRUE(ran) << ran.error().ToString();
  Columns result;
  for (int i = 0; i < outputs; ++i) {
    const std::vector<T>& m = memory[inputs.size() + static_cast<size_t>(i)];
    result.emplace_back(m.begin(), m.begin() + static_cast<int64_t>(inputs[0].size()));
  }
  return result;
}

// Distance in units of the last place of T at `expected`; infinite for a wrong class or sign.
template <class T>
double UlpDistance(T got, long double expected) {
  T rounded = static_cast<T>(expected);
  if (std::isnan(rounded) || std::isnan(got)) {
    return std::isnan(rounded) && std::isnan(got) ? 0 : HUGE_VAL;
  }
  if (rounded == got) return std::signbit(rounded) == std::signbit(got) ? 0 : HUGE_VAL;
  if (std::isinf(rounded) || std::isinf(got)) {  // the last finite number is next to infinity
    bool next = std::nextafter(rounded, got) == got || std::nextafter(got, rounded) == rounded;
    return next ? 1 : HUGE_VAL;
  }
  int exponent;
  std::frexp(rounded, &exponent);
  exponent = rounded == 0 ? std::numeric_limits<T>::min_exponent
                          : std::max(exponent, std::numeric_limits<T>::min_exponent);
  long double ulp = std::ldexp(1.0L, exponent - std::numeric_limits<T>::digits);
  return static_cast<double>(std::fabs(static_cast<long double>(got) - expected) / ulp);
}

template <class T>
std::vector<double> SpecialValues() {
  using L = std::numeric_limits<T>;
  std::vector<double> values;
  for (T v : {T(0),
              T(0.5),
              T(1),
              T(2),
              T(3),
              T(1.5),
              T(10),
              T(100),
              T(1e5),
              T(65536),
              T(16777217),
              T(1e10),
              T(1e18),
              T(1e22),
              T(1e30),
              L::denorm_min(),
              L::min(),
              L::max(),
              L::infinity(),
              L::epsilon(),
              T(88.72283),
              T(88.72284),
              T(87.3366),
              T(103.97),
              T(104),
              T(89.41599),
              T(709.7827128933840),
              T(709.7827128933841),
              T(745.2),
              T(710.4758600739439),
              T(127.999),
              T(128),
              T(1024),
              T(149),
              T(150),
              T(1074),
              T(1075),
              std::nextafter(T(1), T(2)),
              std::nextafter(T(1), T(0)),
              std::nextafter(L::max(), T(0))}) {
    values.push_back(v);
    values.push_back(-v);
  }
  values.push_back(L::quiet_NaN());
  return values;
}

template <class T>
double RandomValue(std::mt19937_64& random) {
  using Word = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  uint64_t bits = random();
  double unit = std::ldexp(static_cast<double>(static_cast<int64_t>(random())), -63);
  switch (bits % 4) {
    case 0: return std::bit_cast<T>(static_cast<Word>(random()));
    case 1: return static_cast<T>(unit * 8);
    case 2:
      return static_cast<T>((bits & 16 ? 1 : -1) *
                            (1 + std::ldexp(unit, -static_cast<int>(bits >> 59))));
    default: return static_cast<T>(std::ldexp(unit, static_cast<int>(bits >> 58) - 40));
  }
}

template <class T>
std::vector<double> SomeValues(size_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> values;
  while (values.size() < n) values.push_back(RandomValue<T>(random));
  return values;
}

struct Function1 {
  const char* name;
  ValueId (*build)(KernelBuilder&, ValueId);
  long double (*wide)(long double);
  double (*narrow)(double);
  double ulp_f32, ulp_f64;
};
#define WEFT_FUNCTION(Name, name, ulp_f32, ulp_f64)                               \
  Function1 {                                                                     \
    #name, math::Name, [](long double x) -> long double { return std::name(x); }, \
        [](double x) -> double { return std::name(x); }, ulp_f32, ulp_f64         \
  }

template <class F>
F LogisticReference(F x) {
  return 1 / (1 + std::exp(-x));
}

std::vector<Function1> Functions() {
  return {
      WEFT_FUNCTION(Exp, exp, 1.1, 1.1),
      WEFT_FUNCTION(Exp2, exp2, 1.3, 1.4),
      WEFT_FUNCTION(Expm1, expm1, 1.7, 2),
      WEFT_FUNCTION(Log, log, 1.3, 1.5),
      WEFT_FUNCTION(Log1p, log1p, 2, 2.1),
      WEFT_FUNCTION(Sin, sin, 1.7, 1.7),
      WEFT_FUNCTION(Cos, cos, 1.7, 1.7),
      WEFT_FUNCTION(Tan, tan, 1.8, 1.8),
      WEFT_FUNCTION(Asin, asin, 1.3, 1.3),
      WEFT_FUNCTION(Acos, acos, 1.3, 1.3),
      WEFT_FUNCTION(Sinh, sinh, 1.8, 1.8),
      WEFT_FUNCTION(Cosh, cosh, 1.6, 1.6),
      WEFT_FUNCTION(Tanh, tanh, 2, 2.2),
      WEFT_FUNCTION(Asinh, asinh, 2.1, 2.5),
      WEFT_FUNCTION(Acosh, acosh, 2.6, 2.6),
      WEFT_FUNCTION(Atanh, atanh, 2.6, 2.7),
      WEFT_FUNCTION(Erf, erf, 1.5, 1.5),
      WEFT_FUNCTION(Cbrt, cbrt, 0.9, 0.9),
      {"logistic", math::Logistic, LogisticReference<long double>, LogisticReference<double>, 2.5,
       2.5},
      {"exp(-|x|)",
       [](KernelBuilder& b, ValueId x) {
         return math::ExpNotPositive(b, b.Emit(Op::kNeg, {b.Emit(Op::kAbs, {x})}));
       },
       [](long double x) { return std::exp(-std::fabs(x)); },
       [](double x) { return std::exp(-std::fabs(x)); }, 1.1, 1.1},
      {"rsqrt", math::Rsqrt, [](long double x) { return 1 / std::sqrt(x); },
       [](double x) { return 1 / std::sqrt(x); }, 1.6, 1.6},
  };
}

template <class T>
void CheckFunction(const Function1& f, size_t samples, bool latency_bound = false) {
  std::vector<double> x = SpecialValues<T>();
  for (double v : SomeValues<T>(samples, 1)) x.push_back(v);
  auto body = [&](KernelBuilder& b, std::vector<ValueId> in) {
    return std::vector{f.build(b, in[0])};
  };
  Columns out = RunLanes<T>({x}, 1, latency_bound ? 1 : 64, body, latency_bound);
  double limit = sizeof(T) == 4 ? f.ulp_f32 : f.ulp_f64;
  int shown = 0;
  for (size_t i = 0; i < x.size() && shown < 5; ++i) {
    long double expected = sizeof(T) == 4 ? f.narrow(x[i]) : f.wide(x[i]);
    double distance = UlpDistance<T>(static_cast<T>(out[0][i]), expected);
    EXPECT_LE(distance, limit) << f.name << "(" << x[i] << ") = " << out[0][i] << ", expected "
                               << static_cast<double>(expected);
    shown += distance > limit;
  }
}

TEST(Math, OneArgumentF32) {
  for (const Function1& f : Functions()) CheckFunction<float>(f, 60000);
}

TEST(Math, OneArgumentF64) {
  for (const Function1& f : Functions()) CheckFunction<double>(f, 20000);
}

// The formulas for single numbers whose latency counts.
TEST(Math, LatencyBound) {
  for (Function1 f : Functions()) {
    f.ulp_f32 = std::max(f.ulp_f32, 2.5), f.ulp_f64 = std::max(f.ulp_f64, 3.8);
    CheckFunction<float>(f, 20000, true);
    CheckFunction<double>(f, 20000, true);
  }
}

// Where subnormal results are made of integers they have the same bits, in one lane and in many.
template <class T>
void CheckSubnormals() {
  constexpr double kFrom = sizeof(T) == 4 ? -110 : -760, kTo = sizeof(T) == 4 ? -80 : -700;
  std::vector<double> x = {-HUGE_VAL, static_cast<double>(static_cast<T>(-1e30)), std::nan("")};
  for (int i = 0; i < 20000; ++i) x.push_back(static_cast<T>(kFrom + (kTo - kFrom) * i / 20000));
  for (auto function : {math::Exp, math::ExpNotPositive}) {
    auto run = [&](int lanes, bool slow) {
      return RunLanes<T>({x}, 1, lanes, [&](KernelBuilder& b, std::vector<ValueId> in) {
        b.SetSlowSubnormals(slow);
        return std::vector{function(b, in[0])};
      })[0];
    };
    std::vector<double> usual = run(16, false);
    for (int lanes : {1, 16}) {
      std::vector<double> slow = run(lanes, true);
      for (size_t i = 0; i < x.size(); ++i) {
        if (std::isnan(x[i])) {
          EXPECT_TRUE(std::isnan(slow[i]));
        } else {
          EXPECT_EQ(slow[i], usual[i]) << "e^" << x[i];
        }
      }
    }
  }
}
TEST(Math, SlowSubnormals) {
  CheckSubnormals<float>();
  CheckSubnormals<double>();
}

// One lane at a time gives the same bits as many.
TEST(Math, LanesDoNotMatter) {
  for (const Function1& f : Functions()) {
    std::vector<double> x = SomeValues<float>(128, 2);
    auto body = [&](KernelBuilder& b, std::vector<ValueId> in) {
      return std::vector{f.build(b, in[0])};
    };
    std::vector<double> one = RunLanes<float>({x}, 1, 1, body)[0];
    std::vector<double> many = RunLanes<float>({x}, 1, 8, body)[0];
    EXPECT_EQ(std::memcmp(one.data(), many.data(), one.size() * sizeof(double)), 0) << f.name;
  }
}

struct Function2 {
  const char* name;
  ValueId (*build)(KernelBuilder&, ValueId, ValueId);
  long double (*wide)(long double, long double);
  double (*narrow)(double, double);
  double ulp;
};

template <class T>
void CheckFunction(const Function2& f, size_t samples, bool latency_bound = false) {
  std::vector<double> x, y;
  std::vector<double> special = SpecialValues<T>();
  for (double a : special) {
    for (double b : special) {
      x.push_back(a);
      y.push_back(b);
    }
  }
  for (double v : SomeValues<T>(samples, 3)) x.push_back(v);
  for (double v : SomeValues<T>(samples, 4)) y.push_back(v);
  auto body = [&](KernelBuilder& b, std::vector<ValueId> in) {
    return std::vector{f.build(b, in[0], in[1])};
  };
  Columns out = RunLanes<T>({x, y}, 1, latency_bound ? 1 : 64, body, latency_bound);
  int shown = 0;
  for (size_t i = 0; i < x.size() && shown < 5; ++i) {
    long double expected = sizeof(T) == 4 ? f.narrow(x[i], y[i]) : f.wide(x[i], y[i]);
    double distance = UlpDistance<T>(static_cast<T>(out[0][i]), expected);
    EXPECT_LE(distance, f.ulp) << f.name << "(" << x[i] << ", " << y[i] << ") = " << out[0][i]
                               << ", expected " << static_cast<double>(expected);
    shown += distance > f.ulp;
  }
}

TEST(Math, TwoArguments) {
  using Narrow = double (*)(double, double);
  using Wide = long double (*)(long double, long double);
  std::vector<Function2> functions = {
      {"atan2", math::Atan2, Wide(std::atan2), Narrow(std::atan2), 2},
      {"pow", math::Pow, Wide(std::pow), Narrow(std::pow), 2},
      {"rem", math::Rem, Wide(std::fmod), Narrow(std::fmod), 0},
  };
  for (const Function2& f : functions) {
    CheckFunction<float>(f, 50000);
    CheckFunction<double>(f, 20000);
    CheckFunction<float>(f, 20000, true);
    CheckFunction<double>(f, 20000, true);
  }
}

using WideComplex = std::complex<long double>;
struct ComplexFunction {
  const char* name;
  Complex (*build)(KernelBuilder&, Complex);
  WideComplex (*expected)(WideComplex);
};
#define WEFT_COMPLEX(Name, name)                                                 \
  ComplexFunction {                                                              \
    #name, math::Name, [](WideComplex z) -> WideComplex { return std::name(z); } \
  }

std::vector<ComplexFunction> ComplexFunctions() {
  return {
      WEFT_COMPLEX(Exp, exp),
      WEFT_COMPLEX(Log, log),
      WEFT_COMPLEX(Sqrt, sqrt),
      WEFT_COMPLEX(Sin, sin),
      WEFT_COMPLEX(Cos, cos),
      WEFT_COMPLEX(Tan, tan),
      WEFT_COMPLEX(Tanh, tanh),
      WEFT_COMPLEX(Sinh, sinh),
      WEFT_COMPLEX(Cosh, cosh),
      WEFT_COMPLEX(Asin, asin),
      WEFT_COMPLEX(Acos, acos),
      WEFT_COMPLEX(Asinh, asinh),
      WEFT_COMPLEX(Acosh, acosh),
      WEFT_COMPLEX(Atanh, atanh),
      {"abs",
       [](KernelBuilder& b, Complex z) {
         ValueId size = math::Abs(b, z);
         return Complex{size, b.Number(0, b.type(size))};
       },
       [](WideComplex z) { return WideComplex(std::abs(z)); }},
      {"expm1", math::Expm1, [](WideComplex z) { return std::exp(z) - 1.0L; }},
      {"log1p", math::Log1p, [](WideComplex z) { return std::log(1.0L + z); }},
      {"rsqrt", math::Rsqrt, [](WideComplex z) { return 1.0L / std::sqrt(z); }},
      {"cbrt", math::Cbrt, [](WideComplex z) { return std::exp(std::log(z) / 3.0L); }},
      {"logistic", math::Logistic, [](WideComplex z) { return 1.0L / (1.0L + std::exp(-z)); }},
      {"sign", math::Sign, [](WideComplex z) { return z / std::abs(z); }},
      {"square", [](KernelBuilder& b, Complex z) { return math::Mul(b, z, z); },
       [](WideComplex z) { return z * z; }},
      {"ratio",
       [](KernelBuilder& b, Complex z) {
         return math::Div(b, z, {b.Number(3, b.type(z.re)), z.re});
       },
       [](WideComplex z) { return z / WideComplex(3, z.real()); }},
      {"power",
       [](KernelBuilder& b, Complex z) {
         return math::Pow(b, z, {b.Number(1.5, b.type(z.re)), b.Number(-0.5, b.type(z.re))});
       },
       [](WideComplex z) { return std::pow(z, WideComplex(1.5L, -0.5L)); }},
  };
}

// The distance from the true value, in units of the type's precision times its size.
template <class T>
void CheckComplex(const ComplexFunction& f, double limit) {
  Columns z(2);
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> near(-2, 2), scale(-3, 3);
  for (int i = 0; i < 1500; ++i) {
    for (std::vector<double>& part : z)
      part.push_back(static_cast<T>(near(random) * std::exp(scale(random))));
  }
  for (double edge : {1.0, -1.0, 0.5, -3.0, 20.0, -20.0}) {
    for (double zero : {0.0, -0.0}) {
      z[0].push_back(edge);
      z[1].push_back(zero);
      z[0].push_back(zero);
      z[1].push_back(edge + 0.25);
    }
  }
  Columns out = RunLanes<T>(z, 2, 32, [&](KernelBuilder& b, std::vector<ValueId> in) {
    Complex result = f.build(b, {in[0], in[1]});
    return std::vector{result.re, result.im};
  });
  int shown = 0;
  for (size_t i = 0; i < z[0].size() && shown < 5; ++i) {
    WideComplex expected = f.expected({z[0][i], z[1][i]});
    WideComplex got(out[0][i], out[1][i]);
    if (!(std::abs(expected) < std::numeric_limits<T>::max())) continue;
    long double distance =
        std::abs(got - expected) / std::abs(expected) / std::numeric_limits<T>::epsilon();
    bool close = got == expected || distance <= limit;
    EXPECT_TRUE(close) << f.name << "(" << z[0][i] << ", " << z[1][i] << ") = (" << out[0][i]
                       << ", " << out[1][i] << "), off by " << static_cast<double>(distance);
    shown += !close;
  }
}

TEST(Math, Complex) {
  for (const ComplexFunction& f : ComplexFunctions()) {
    // Logarithms and poles multiply the error of what is inside.
    bool loose = std::string_view(f.name) == "power" || std::string_view(f.name) == "logistic";
    CheckComplex<float>(f, 3);
    CheckComplex<double>(f, loose ? 40 : 4);
  }
}

// Overflow on the way, infinities, zeros.
TEST(Math, ComplexEdges) {
  double inf = std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::max();
  Columns x = {{1, 1, most, inf, 1, 0, -inf}, {1, 0, most, 1, 1e-320, 0, 5}};
  Columns y = {{0, inf, most, 1, 1e-320, 0, 1}, {0, 1, most, 1, 0, 0, 0}};
  Columns in = {x[0], x[1], y[0], y[1]};
  Columns out = RunLanes<double>(in, 5, 1, [](KernelBuilder& b, std::vector<ValueId> v) {
    Complex p{v[0], v[1]}, q{v[2], v[3]};
    Complex ratio = math::Div(b, p, q), root = math::Sqrt(b, p);
    return std::vector{ratio.re, ratio.im, math::Abs(b, p), root.re, root.im};
  });
  EXPECT_EQ(out[0][0], inf);  // (1+i) / 0
  EXPECT_EQ(out[0][1], 0);    // 1 / (inf+i)
  EXPECT_EQ(out[0][2], 1);
  EXPECT_EQ(out[1][2], 0);
  EXPECT_EQ(out[0][3], inf);
  EXPECT_TRUE(std::isnan(out[0][5]) && std::isnan(out[1][5]));
  EXPECT_EQ(out[2][2], inf);
  EXPECT_EQ(out[2][3], inf);
  EXPECT_EQ(out[2][4], 1);
  EXPECT_EQ(out[3][6], 0);
  EXPECT_EQ(out[4][6], inf);
  EXPECT_EQ(out[3][5], 0);
  EXPECT_NEAR(out[3][2] / 1.4730945569055654e154, 1, 1e-15);
}

}  // namespace
}  // namespace weft::program
