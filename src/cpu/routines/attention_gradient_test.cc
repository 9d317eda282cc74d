#include <gtest/gtest.h>

#include "cpu/routines/attention_testing.h"

namespace weft::cpu {
namespace {

// The attention with its statistics.
CallUnderTest AttentionWithStatistics(Random& random, const AttentionCase& c) {
  CallUnderTest call = AttentionOf(random, c);
  call.outputs.push_back(Shape(DType::kF32, {c.b, c.h, c.t, c.g, 2}));
  return call;
}

// Its gradient: dout is [b, h, t, g, v], dq like it, dk [b, h, d, s], dv [b, s, h, v].
CallUnderTest GradientOf(Random& random, const AttentionCase& c, CallUnderTest call) {
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

void CheckBoth(Random& random, const AttentionCase& c, double tolerance) {
  CallUnderTest attention = AttentionWithStatistics(random, c);
  Check(attention, tolerance, c.what);
  Check(GradientOf(random, c, attention), tolerance, c.what);
}

TEST(AttentionGradientTest, AgreesWithTheInterpreter) {
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
      {"several chunks", 1, 50, 1, 1, 900, 8, 8, DType::kF32, false, false, -1e30, {}, 850},
      {"many batches", 70, 20, 1, 1, 20, 4, 4},
      {"few queries", 1, 2, 1, 1, 300, 16, 8},
      {"of q", 1, 33, 2, 1, 65, 8, 8, DType::kF32, false, false, -1e30, {}, 0, "q"},
      {"of k and v", 1, 33, 2, 1, 300, 8, 8, DType::kF32, false, false, -1e30, {}, 0, "kv"},
  };
  for (const AttentionCase& c : kCases) CheckBoth(random, c, 4e-6);
  for (DType dtype : {DType::kBF16, DType::kF16}) {
    CheckBoth(random, {"narrow", 1, 50, 2, 1, 130, 16, 16, dtype, true, true}, 8e-3);
  }
}

// A weight of 0 times inf is NaN in the plain program, beyond the bounds too.
TEST(AttentionGradientTest, WhatIsNotFiniteCounts) {
  Random random(3);
  AttentionCase c = {"", 1, 300, 1, 1, 300, 8, 8, DType::kF32, false, false, -1e30, {}, 0};
  CallUnderTest call = GradientOf(random, c, AttentionWithStatistics(random, c));
  call.inputs.back().SetDouble(0, std::numeric_limits<double>::infinity());
  auto got = RunRoutine(call, 2);
  ASSERT_TRUE(got) << got.error().ToString();
  EXPECT_TRUE(std::isnan((*got)[2].GetDouble(299 * 8)));
  EXPECT_FALSE(std::isnan((*got)[2].GetDouble(299 * 8 + 1)));
}

}  // namespace
}  // namespace weft::cpu
