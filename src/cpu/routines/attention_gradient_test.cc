#include <gtest/gtest.h>

#include "cpu/routines/routine_testing.h"

namespace weft::cpu {
namespace {

using Ints = std::vector<int64_t>;

// q is [b, t, h, g, d], k and v are [b, s, h, d], as jax.nn.dot_product_attention has them.
struct GradientCase {
  std::string what;
  int64_t b, t, h, g, s, d, v;
  DType dtype = DType::kF32;
  bool bias = false, mask = false;
  double fill = -1e30;
  std::optional<int64_t> first = {}, last = {};
  std::string wanted = "qkv";
};

// The attention with its statistics.
CallUnderTest AttentionOf(Random& random, const GradientCase& c) {
  CallUnderTest call;
  call.routine = "attention";
  call.inputs = {RandomLiteral(random, c.dtype, {c.b, c.t, c.h, c.g, c.d}),
                 RandomLiteral(random, c.dtype, {c.b, c.s, c.h, c.d}),
                 RandomLiteral(random, c.dtype, {c.b, c.s, c.h, c.v})};
  call.outputs = {Shape(c.dtype, {c.b, c.t, c.h, c.g, c.v}),
                  Shape(DType::kF32, {c.b, c.h, c.t, c.g, 2})};
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

// Its gradient: dout is [b, h, t, g, v], dq like it, dk [b, h, d, s], dv [b, s, h, v].
CallUnderTest GradientOf(Random& random, const GradientCase& c, CallUnderTest call) {
  auto results = RunRoutine(call, 1);
  EXPECT_TRUE(results) << results.error().ToString();
  call.routine = "attention_gradient";
  call.inputs.insert(call.inputs.end(), results->begin(), results->end());
  call.inputs.push_back(RandomLiteral(random, c.dtype, {c.b, c.h, c.t, c.g, c.v}));
  auto rows = [&](int64_t n) { return Ints{c.h * c.t * c.g * n, c.t * c.g * n, c.g * n, n, 1}; };
  call.attrs.push_back({"dout", rows(c.v)});
  call.outputs.clear();
  if (c.wanted.contains('q')) {
    call.attrs.push_back({"dq", rows(c.d)});
    call.outputs.push_back(Shape(c.dtype, {c.b, c.h, c.t, c.g, c.d}));
  }
  if (c.wanted.contains('k')) {
    call.attrs.push_back({"dk", Ints{c.h * c.d * c.s, c.d * c.s, 0, 0, 1, c.s}});
    call.outputs.push_back(Shape(c.dtype, {c.b, c.h, c.d, c.s}));
  }
  if (c.wanted.contains('v')) {
    call.attrs.push_back({"dv", Ints{c.s * c.h * c.v, c.v, 0, 0, c.h * c.v, 1}});
    call.outputs.push_back(Shape(DType::kF32, {c.b, c.s, c.h, c.v}));
  }
  return call;
}

void CheckBoth(Random& random, const GradientCase& c, double tolerance) {
  CallUnderTest attention = AttentionOf(random, c);
  Check(attention, tolerance, c.what);
  Check(GradientOf(random, c, attention), tolerance, c.what);
}

TEST(AttentionGradientTest, AgreesWithTheInterpreter) {
  Random random(1);
  const double kInf = std::numeric_limits<double>::infinity();
  const GradientCase kCases[] = {
      {"whole", 2, 70, 3, 1, 150, 24, 17},
      {"grouped", 1, 33, 2, 4, 65, 8, 8},
      {"causal", 1, 200, 2, 1, 200, 16, 16, DType::kF32, false, false, -1e30, {}, 0},
      {"window", 1, 150, 1, 2, 150, 16, 12, DType::kF32, false, false, -kInf, -20, 3},
      {"bias and mask", 2, 40, 2, 1, 140, 16, 16, DType::kF32, true, true},
      {"rows without keys", 1, 40, 1, 1, 30, 8, 8, DType::kF32, false, false, -1e30, -3, -2},
      {"fill among the scores", 1, 40, 1, 1, 300, 8, 8, DType::kF32, false, false, -1, -3, 2},
      {"several chunks", 1, 50, 1, 1, 900, 8, 8, DType::kF32, false, false, -1e30, {}, 850},
      {"many batches", 70, 20, 1, 1, 20, 4, 4},
      {"few queries", 1, 2, 1, 1, 300, 16, 8},
      {"of q", 1, 33, 2, 1, 65, 8, 8, DType::kF32, false, false, -1e30, {}, 0, "q"},
      {"of k and v", 1, 33, 2, 1, 300, 8, 8, DType::kF32, false, false, -1e30, {}, 0, "kv"},
  };
  for (const GradientCase& c : kCases) CheckBoth(random, c, 4e-6);
  for (DType dtype : {DType::kBF16, DType::kF16}) {
    CheckBoth(random, {"narrow", 1, 50, 2, 1, 130, 16, 16, dtype, true, true}, 8e-3);
  }
}

// A weight of 0 times inf is NaN in the plain program, beyond the bounds too.
TEST(AttentionGradientTest, WhatIsNotFiniteCounts) {
  Random random(3);
  GradientCase c = {"", 1, 300, 1, 1, 300, 8, 8, DType::kF32, false, false, -1e30, {}, 0};
  CallUnderTest call = GradientOf(random, c, AttentionOf(random, c));
  call.inputs.back().SetDouble(0, std::numeric_limits<double>::infinity());
  auto got = RunRoutine(call, 2);
  ASSERT_TRUE(got) << got.error().ToString();
  EXPECT_TRUE(std::isnan((*got)[2].GetDouble(299 * 8)));
  EXPECT_FALSE(std::isnan((*got)[2].GetDouble(299 * 8 + 1)));
}

}  // namespace
}  // namespace weft::cpu
