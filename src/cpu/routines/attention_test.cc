#include <gtest/gtest.h>

#include "cpu/routines/attention_testing.h"

namespace weft::cpu {
namespace {

TEST(AttentionTest, AgreesWithTheInterpreter) {
  Random random(1);
  const double kInf = std::numeric_limits<double>::infinity();
  const AttentionCase kCases[] = {
      {"whole", 2, 70, 3, 1, 150, 24, 17},
      {"grouped", 1, 33, 2, 4, 65, 8, 8},
      {"causal", 1, 200, 2, 1, 200, 16, 16, DType::kF32, false, false, -1e30, {}, 0},
      {"window", 1, 150, 1, 2, 150, 16, 12, DType::kF32, false, false, -kInf, -20, 3},
      {"bias and mask", 2, 40, 2, 1, 140, 16, 16, DType::kF32, true, true},
      {"rows without keys", 1, 40, 1, 1, 30, 8, 8, DType::kF32, false, false, -1e30, -3, -2},
      {"fill among the scores", 1, 40, 1, 1, 300, 8, 8, DType::kF32, false, false, -1, -3, 2},
      {"long", 1, 50, 1, 1, 2500, 8, 8, DType::kF32, false, false, -1e30, {}, 2450},
      {"one token", 2, 1, 3, 1, 1500, 24, 17},
      {"few tokens", 1, 2, 2, 2, 300, 16, 8, DType::kF32, true, true, -kInf, {}, 250},
  };
  for (const AttentionCase& c : kCases) Check(AttentionOf(random, c), 2e-6, c.what);
  for (DType dtype : {DType::kBF16, DType::kF16}) {
    Check(AttentionOf(random, {"narrow", 1, 50, 2, 1, 130, 16, 16, dtype, true, true}), 8e-3,
          "narrow");
    Check(AttentionOf(random, {"narrow token", 1, 1, 2, 2, 130, 16, 16, dtype}), 8e-3,
          "narrow token");
  }
}

// No key is within the bounds, and the fill is -inf: the plain program gives NaN.
TEST(AttentionTest, RowsOfNothingAreNaN) {
  Random random(2);
  const double kInf = std::numeric_limits<double>::infinity();
  CallUnderTest call =
      AttentionOf(random, {"", 1, 40, 1, 1, 20, 8, 8, DType::kF32, false, false, -kInf, 0, {}});
  auto got = RunRoutine(call, 2);
  ASSERT_TRUE(got) << got.error().ToString();
  EXPECT_FALSE(std::isnan((*got)[0].GetDouble(19 * 8)));
  EXPECT_TRUE(std::isnan((*got)[0].GetDouble(20 * 8)));
}

// A weight of 0 times inf is NaN in the plain program too.
TEST(AttentionTest, ValuesThatAreNotFiniteCount) {
  Random random(3);
  CallUnderTest call =
      AttentionOf(random, {"", 1, 300, 1, 1, 300, 8, 8, DType::kF32, false, false, -1e30, {}, 0});
  call.inputs[2].SetDouble(299 * 8, std::numeric_limits<double>::infinity());
  auto got = RunRoutine(call, 2);
  ASSERT_TRUE(got) << got.error().ToString();
  EXPECT_TRUE(std::isnan((*got)[0].GetDouble(0)));
  EXPECT_FALSE(std::isnan((*got)[0].GetDouble(1)));
}

}  // namespace
}  // namespace weft::cpu
