// The one comparison of results: what a tolerance allows, and what it never does.
#include "runtime/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>

#include "base/literal.h"

namespace weft::runtime {
namespace {

constexpr double kComparedInfinity = std::numeric_limits<double>::infinity();

Difference CompareNumbers(DType dtype, double wanted, double got, const Tolerance& tolerance) {
  Literal x(Shape(dtype, {1})), y(Shape(dtype, {1}));
  x.SetDouble(0, wanted);
  y.SetDouble(0, got);
  auto bytes = [](const Literal& l) {
    return std::span(l.data(), static_cast<size_t>(l.byte_size()));
  };
  return Compare(dtype, bytes(x), bytes(y), tolerance);
}

TEST(Compare, UnitsInTheLastPlace) {
  const double ulp = 0x1p-23;
  EXPECT_FALSE(CompareNumbers(DType::kF32, 1, 1 + 4 * ulp, {.ulps = 4}).any());
  EXPECT_TRUE(CompareNumbers(DType::kF32, 1, 1 + 5 * ulp, {.ulps = 4}).any());
  EXPECT_EQ(CompareNumbers(DType::kF32, 1, 1 + 5 * ulp, {.ulps = 4}).ulps, 5);
  EXPECT_TRUE(CompareNumbers(DType::kF32, 0x1p-10, 0x1p-10 + 4 * ulp, {.ulps = 4}).any());
  EXPECT_FALSE(CompareNumbers(DType::kF32, 0x1p-10, 0x1p-10 + ulp, {.ulps = 4, .scale = 1}).any());
}

TEST(Compare, FormatsHaveTheirOwnUnits) {
  EXPECT_FALSE(CompareNumbers(DType::kF8E4M3FN, 1, 1.125, {.ulps = 1}).any());
  EXPECT_TRUE(CompareNumbers(DType::kF8E4M3FN, 1, 1.25, {.ulps = 1}).any());
  EXPECT_FALSE(CompareNumbers(DType::kBF16, 1, 1 + 0x1p-7, {.ulps = 1}).any());
  EXPECT_TRUE(CompareNumbers(DType::kF16, 1, 1 + 0x1p-9, {.ulps = 1}).any());
  EXPECT_FALSE(CompareNumbers(DType::kF16, 0, 0x1p-24, {.ulps = 1}).any());  // a subnormal
}

TEST(Compare, RelativeToAtLeastOne) {
  EXPECT_FALSE(CompareNumbers(DType::kF32, 1e-3, 1.0009e-3, {.relative = 1e-5}).any());
  EXPECT_TRUE(CompareNumbers(DType::kF32, 100, 100.01, {.relative = 1e-5}).any());
}

TEST(Compare, AbsoluteErrorsAndOverflow) {
  EXPECT_FALSE(CompareNumbers(DType::kF32, 1, 1.25, {.absolute = 0.25}).any());
  EXPECT_TRUE(CompareNumbers(DType::kF32, 1, 1.5, {.absolute = 0.25}).any());
  EXPECT_TRUE(CompareNumbers(DType::kF32, 1, 1.25, {.ulps = 4, .absolute = 0.25}).any());
  Tolerance overflows{.ulps = 4, .absolute = kComparedInfinity};
  EXPECT_FALSE(CompareNumbers(DType::kF32, kComparedInfinity, 3e38, overflows).any());
  EXPECT_TRUE(CompareNumbers(DType::kF32, 1e30, kComparedInfinity, overflows).any());
  EXPECT_TRUE(CompareNumbers(DType::kF32, kComparedInfinity, std::nan(""), overflows).any());
}

TEST(Compare, DigitsLostBelowTheNormalNumbers) {
  EXPECT_FALSE(CompareNumbers(DType::kF32, 1e-38, 3e-38, {.ulps = 4, .tiny = 1e-37}).any());
  EXPECT_TRUE(CompareNumbers(DType::kF32, 2e-37, 2.5e-37, {.ulps = 4, .tiny = 1e-37}).any());
}

TEST(Compare, WhatNoToleranceAllows) {
  Tolerance wide{.ulps = 1e6, .relative = 1};
  EXPECT_TRUE(CompareNumbers(DType::kF32, kComparedInfinity, 3e38, wide).any());
  EXPECT_TRUE(CompareNumbers(DType::kF32, 3e38, kComparedInfinity, wide).any());
  EXPECT_TRUE(CompareNumbers(DType::kF32, kComparedInfinity, -kComparedInfinity, wide).any());
  EXPECT_TRUE(CompareNumbers(DType::kF32, 1, std::nan(""), wide).any());
  EXPECT_TRUE(CompareNumbers(DType::kS32, 7, 8, wide).any());
}

TEST(Compare, WhatIsEqualWithoutOne) {
  EXPECT_FALSE(CompareNumbers(DType::kF32, 0.0, -0.0, {}).any());
  EXPECT_FALSE(CompareNumbers(DType::kF64, std::nan(""), -std::nan(""), {}).any());
  EXPECT_FALSE(CompareNumbers(DType::kF32, kComparedInfinity, kComparedInfinity, {}).any());
  EXPECT_TRUE(CompareNumbers(DType::kF64, 1, 1 + 0x1p-52, {}).any());
}

}  // namespace
}  // namespace weft::runtime
