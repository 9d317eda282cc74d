#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <numbers>

#include "hlo/evaluate/random.h"
#include "hlo/ops/op_test_util.h"

namespace weft::hlo {
namespace {

TEST(Random, KnownAnswers) {  // of the Random123 library
  EXPECT_EQ(Threefry2x32({0, 0}, {0, 0}), (std::array<uint32_t, 2>{0x6b200159, 0x99ba4efe}));
  EXPECT_EQ(Threefry2x32({0x243f6a88, 0x85a308d3}, {0x13198a2e, 0x03707344}),
            (std::array<uint32_t, 2>{0xc4923a9c, 0x483df7a0}));
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

Literal RandomBits(RngAlgorithm algorithm, std::initializer_list<double> state, Shape bits) {
  OpTester t;
  Literal s = Values(Shape(DType::kU64, {static_cast<int64_t>(state.size())}), state);
  return t.Evaluate(Op::kRngBitGenerator, {s}, RngBitGeneratorAttrs{algorithm},
                    Shape::Tuple({s.shape(), std::move(bits)}));
}

TEST(Random, ThreefryCutsTheFirstEvenDimension) {
  Literal out = RandomBits(RngAlgorithm::kThreeFry, {42, 7}, Shape(DType::kU32, {3, 4}));
  EXPECT_EQ(out.tuple()[0].ToString(), "{42, 13}");
  for (uint32_t i = 0; i < 3; ++i) {
    for (uint32_t j = 0; j < 4; ++j) {
      auto pair = Threefry2x32({7 + i * 2 + j / 2, 0}, {42, 0});
      EXPECT_EQ(out.tuple()[1].GetInt(i * 4 + j), int64_t{pair[j % 2]});
    }
  }
}

TEST(Random, ThreefryOddSizesNarrowAndWide) {
  Literal odd = RandomBits(RngAlgorithm::kThreeFry, {1, 0}, Shape(DType::kU8, {3}));
  EXPECT_EQ(odd.tuple()[0].ToString(), "{1, 2}");
  EXPECT_EQ(odd.tuple()[1].GetInt(2), int64_t{Threefry2x32({1, 0}, {1, 0})[0] & 0xff});
  Literal wide = RandomBits(RngAlgorithm::kThreeFry, {1, 0}, Shape(DType::kU64, {2}));
  auto pair = Threefry2x32({1, 0}, {1, 0});
  EXPECT_EQ(static_cast<uint64_t>(wide.tuple()[1].GetInt(1)), pair[0] | uint64_t{pair[1]} << 32);
}

TEST(Random, PhiloxCountsBlocksOfFour) {
  Literal out = RandomBits(RngAlgorithm::kPhilox, {9, 5, 3}, Shape(DType::kU32, {6}));
  EXPECT_EQ(out.tuple()[0].ToString(), "{9, 7, 3}");
  EXPECT_EQ(out.tuple()[1].GetInt(5), int64_t{Philox4x32({6, 0, 3, 0}, {9, 0})[1]});
  // With two words of state the key is the counter's upper half.
  Literal two = RandomBits(RngAlgorithm::kDefault, {9, 5}, Shape(DType::kU32, {6}));
  EXPECT_EQ(two.tuple()[0].ToString(), "{9, 7}");
  EXPECT_EQ(two.tuple()[1].GetInt(0), int64_t{Philox4x32({5, 0, 9, 0}, {9, 0})[0]});
}

TEST(Random, UniformStaysInRange) {
  OpTester t;
  Literal low = Values(Shape::Scalar(DType::kF16), {-1}),
          high = Values(Shape::Scalar(DType::kF16), {1});
  Literal out = t.Evaluate(Op::kRng, {low, high}, RngAttrs{Distribution::kUniform},
                           Shape(DType::kF16, {4000}));
  double sum = 0;
  for (int64_t i = 0; i < out.size(); ++i) {
    EXPECT_GE(out.GetDouble(i), -1);
    EXPECT_LT(out.GetDouble(i), 1);
    sum += out.GetDouble(i);
  }
  EXPECT_LT(std::abs(sum / 4000), 0.05);
}

Literal Fft(FftType type, Literal in, Ints length) {
  OpTester t;
  return t.Evaluate(Op::kFft, {std::move(in)}, FftAttrs{type, std::move(length)});
}

TEST(Fft, MatchesDefinitionForAnyLength) {
  for (int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 17, 30, 34, 64, 97, 100}) {
    Literal in{Shape(DType::kC128, {2, n})};
    for (int64_t i = 0; i < 2 * n; ++i) {
      in.SetComplex(i, {static_cast<double>(i * 7 % 11) - 5, static_cast<double>(i * 5 % 13) - 6});
    }
    Literal out = Fft(FftType::kFft, in, {n});
    for (int64_t k = 0; k < n; ++k) {
      std::complex<double> sum = 0;
      for (int64_t j = 0; j < n; ++j) {
        sum += in.GetComplex(n + j) *
               std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(j * k % n) /
                                   static_cast<double>(n));
      }
      EXPECT_LT(std::abs(out.GetComplex(n + k) - sum), 1e-11 * static_cast<double>(n))
          << n << " " << k;
    }
    Literal back = Fft(FftType::kIfft, out, {n});
    for (int64_t i = 0; i < 2 * n; ++i) {
      EXPECT_LT(std::abs(back.GetComplex(i) - in.GetComplex(i)), 1e-12 * static_cast<double>(n));
    }
  }
}

TEST(Fft, RealThereAndBack) {
  Literal in = Values(Shape(DType::kF32, {3, 5}), {1, 2, 3, 4, 5, 0, 1, 0, 1, 0, 7, 7, 7, 1, 1});
  Literal spectrum = Fft(FftType::kRfft, in, {3, 5});
  EXPECT_EQ(spectrum.shape().ToString(), "c64[3,3]");
  EXPECT_NEAR(spectrum.GetDouble(0), 40, 1e-5);
  Literal back = Fft(FftType::kIrfft, spectrum, {3, 5});
  for (int64_t i = 0; i < in.size(); ++i) EXPECT_NEAR(back.GetDouble(i), in.GetDouble(i), 1e-5);
}

TEST(Cholesky, LowerUpperAndNan) {
  OpTester t;
  Literal a = Values(Shape(DType::kF64, {2, 2}), {4, 100, 2, 5});
  EXPECT_EQ(t.Evaluate(Op::kCholesky, {a}, CholeskyAttrs{true}).ToString(),
            "{ { 2, 0 }, { 1, 2 } }");
  Literal b = Values(Shape(DType::kF64, {2, 2}), {4, 2, 100, 5});
  EXPECT_EQ(t.Evaluate(Op::kCholesky, {b}, CholeskyAttrs{false}).ToString(),
            "{ { 2, 1 }, { 0, 2 } }");
  Literal bad = Values(Shape(DType::kF32, {2, 2}), {1, 2, 2, 1});
  EXPECT_EQ(t.Evaluate(Op::kCholesky, {bad}, CholeskyAttrs{true}).ToString(),
            "{ { nan, nan }, { nan, nan } }");
}

TEST(TriangularSolve, AllOptions) {
  constexpr int64_t kN = 4, kM = 3;
  Literal a{Shape(DType::kC128, {2, kN, kN})};
  for (int64_t i = 0; i < a.size(); ++i) {
    a.SetComplex(i, {static_cast<double>(i * 7 % 5) + 3, static_cast<double>(i * 3 % 7) - 2});
  }
  for (int bits = 0; bits < 24; ++bits) {
    bool left = bits & 1, lower = bits & 2, unit = bits & 4;
    TransposeA transpose = static_cast<TransposeA>(1 + bits / 8);
    Literal b{left ? Shape(DType::kC128, {2, kN, kM}) : Shape(DType::kC128, {2, kM, kN})};
    for (int64_t i = 0; i < b.size(); ++i) b.SetComplex(i, {static_cast<double>(i % 5), 1});
    OpTester t;
    Literal x = t.Evaluate(Op::kTriangularSolve, {a, b},
                           TriangularSolveAttrs{left, lower, unit, transpose});
    // op(a) at (i, j) of the second matrix.
    auto op_a = [&](int64_t i, int64_t j) -> std::complex<double> {
      if (transpose != TransposeA::kNoTranspose) std::swap(i, j);
      if (i == j && unit) return 1;
      if (lower ? j > i : j < i) return 0;
      std::complex<double> v = a.GetComplex((kN + i) * kN + j);
      return transpose == TransposeA::kAdjoint ? std::conj(v) : v;
    };
    int64_t rows = left ? kN : kM, cols = left ? kM : kN;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < cols; ++j) {
        std::complex<double> sum = 0;
        for (int64_t k = 0; k < kN; ++k) {
          sum += left ? op_a(i, k) * x.GetComplex((rows + k) * cols + j)
                      : x.GetComplex((rows + i) * cols + k) * op_a(k, j);
        }
        EXPECT_LT(std::abs(sum - b.GetComplex((rows + i) * cols + j)), 1e-6) << bits;
      }
    }
  }
}

}  // namespace
}  // namespace weft::hlo
