#include <gtest/gtest.h>

#include "cpu/routines/routine_testing.h"

namespace weft::cpu {
namespace {

using Ints = std::vector<int64_t>;

// q is [b, t, h, g, d], k and v are [b, s, h, d], as jax.nn.dot_product_attention has them.
struct AttentionCase {
  std::string what;
  int64_t b, t, h, g, s, d, v;
  DType dtype = DType::kF32;
  bool bias = false, mask = false;
  double fill = -1e30;
  std::optional<int64_t> first = {}, last = {};
};

CallUnderTest CallOf(Random& random, const AttentionCase& c) {
  CallUnderTest call;
  call.routine = "attention";
  call.inputs = {RandomLiteral(random, c.dtype, {c.b, c.t, c.h, c.g, c.d}),
                 RandomLiteral(random, c.dtype, {c.b, c.s, c.h, c.d}),
                 RandomLiteral(random, c.dtype, {c.b, c.s, c.h, c.v})};
  call.outputs = {Shape(c.dtype, {c.b, c.t, c.h, c.g, c.v})};
  int64_t hg = c.h * c.g;
  call.attrs = {{"axes", Ints{c.b, c.h, c.t, c.g}},
                {"keys", c.s},
                {"depth", c.d},
                {"values", c.v},
                {"q", Ints{c.t * hg * c.d, c.g * c.d, hg * c.d, c.d, 1}},
                {"k", Ints{c.s * c.h * c.d, c.d, 0, 0, c.h * c.d, 1}},
                {"v", Ints{c.s * c.h * c.v, c.v, 0, 0, c.h * c.v, 1}},
                {"out", Ints{c.t * hg * c.v, c.g * c.v, hg * c.v, c.v, 1}},
                {"scale", 3.0},
                {"fill", c.fill},
                {"query_axis", int64_t{2}}};
  if (c.bias) {
    call.inputs.push_back(RandomLiteral(random, DType::kF32, {c.h, c.t, c.s}));
    call.attrs.push_back({"bias", Ints{0, c.t * c.s, c.s, 0, 1}});
  }
  if (c.mask) {
    Literal mask(Shape(DType::kPred, {c.b, c.s, c.t}));
    for (int64_t i = 0; i < mask.size(); ++i) mask.SetInt(i, random() % 3 != 0);
    call.inputs.push_back(mask);
    call.attrs.push_back({"mask", Ints{c.s * c.t, 0, 1, 0, c.t}});
  }
  if (c.first) call.attrs.push_back({"first", *c.first});
  if (c.last) call.attrs.push_back({"last", *c.last});
  return call;
}

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
  for (const AttentionCase& c : kCases) Check(CallOf(random, c), 2e-6, c.what);
  for (DType dtype : {DType::kBF16, DType::kF16}) {
    Check(CallOf(random, {"narrow", 1, 50, 2, 1, 130, 16, 16, dtype, true, true}), 8e-3, "narrow");
    Check(CallOf(random, {"narrow token", 1, 1, 2, 2, 130, 16, 16, dtype}), 8e-3, "narrow token");
  }
}

// No key is within the bounds, and the fill is -inf: the plain program gives NaN.
TEST(AttentionTest, RowsOfNothingAreNaN) {
  Random random(2);
  const double kInf = std::numeric_limits<double>::infinity();
  CallUnderTest call =
      CallOf(random, {"", 1, 40, 1, 1, 20, 8, 8, DType::kF32, false, false, -kInf, 0, {}});
  auto got = RunRoutine(call, 2);
  ASSERT_TRUE(got) << got.error().ToString();
  EXPECT_FALSE(std::isnan((*got)[0].GetDouble(19 * 8)));
  EXPECT_TRUE(std::isnan((*got)[0].GetDouble(20 * 8)));
}

// A weight of 0 times inf is NaN in the plain program too.
TEST(AttentionTest, ValuesThatAreNotFiniteCount) {
  Random random(3);
  CallUnderTest call =
      CallOf(random, {"", 1, 300, 1, 1, 300, 8, 8, DType::kF32, false, false, -1e30, {}, 0});
  call.inputs[2].SetDouble(299 * 8, std::numeric_limits<double>::infinity());
  auto got = RunRoutine(call, 2);
  ASSERT_TRUE(got) << got.error().ToString();
  EXPECT_TRUE(std::isnan((*got)[0].GetDouble(0)));
  EXPECT_FALSE(std::isnan((*got)[0].GetDouble(1)));
}

}  // namespace
}  // namespace weft::cpu
