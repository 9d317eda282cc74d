#include <gtest/gtest.h>

#include "cpu/routines/routine_testing.h"

namespace weft::cpu {
namespace {

struct ScaledCase {
  DType a, b, a_scale, b_scale;  // kInvalid: no scale
  int64_t m, n, k, a_block, b_block;
  bool trans_a = false, trans_b = true;
};

Literal Scales(Random& random, DType dtype, std::vector<int64_t> dims) {
  Literal scales(Shape(dtype, dims));
  for (int64_t i = 0; i < scales.size(); ++i) {
    scales.SetDouble(i, std::exp2(static_cast<double>(random() % 5) - 2));
  }
  return scales;
}

TEST(ScaledGemmTest, AgreesWithTheInterpreter) {
  Random random(1);
  using enum DType;
  const ScaledCase kCases[] = {
      {kF8E4M3FN, kF8E4M3FN, kF8E8M0FNU, kF8E8M0FNU, 33, 50, 96, 32, 32},
      {kBF16, kF8E5M2, kInvalid, kF8E8M0FNU, 7, 65, 320, 1, 32},
      {kF4E2M1FN, kF4E2M1FN, kF8E4M3FN, kF8E4M3FN, 20, 48, 64, 16, 16},
      {kF32, kS8, kInvalid, kF32, 5, 40, 64, 1, 64, true, false},
      {kBF16, kS4, kInvalid, kBF16, 3, 40, 64, 1, 8},
  };
  for (const ScaledCase& c : kCases) {
    CallUnderTest call;
    call.routine = "scaled_gemm";
    auto dims = [&](bool k_first, int64_t vectors, int64_t k) {
      return k_first ? std::vector<int64_t>{2, k, vectors} : std::vector<int64_t>{2, vectors, k};
    };
    call.inputs = {RandomLiteral(random, c.a, dims(c.trans_a, c.m, c.k)),
                   RandomLiteral(random, c.b, dims(!c.trans_b, c.n, c.k))};
    call.attrs = {{"m", c.m},
                  {"n", c.n},
                  {"k", c.k},
                  {"batch", int64_t{2}},
                  {"trans_a", c.trans_a},
                  {"trans_b", c.trans_b}};
    if (c.a_scale != kInvalid) {
      call.inputs.push_back(Scales(random, c.a_scale, dims(c.trans_a, c.m, c.k / c.a_block)));
      call.attrs.push_back({"a_block", std::vector<int64_t>{1, c.a_block}});
    }
    if (c.b_scale != kInvalid) {
      call.inputs.push_back(Scales(random, c.b_scale, dims(!c.trans_b, c.n, c.k / c.b_block)));
      call.attrs.push_back({"b_block", std::vector<int64_t>{1, c.b_block}});
    }
    call.outputs = {Shape(kF32, {2, c.m, c.n})};
    Check(call, 1e-6, StrCat(Name(c.a), " by ", Name(c.b)));
  }
}

}  // namespace
}  // namespace weft::cpu
