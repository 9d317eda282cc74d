#include "cpu/routines/routine_testing.h"

namespace weft::cpu {
namespace {

struct ScaledCase {
  int64_t m, n, k, batch = 1;
  int64_t block = 32;
  bool trans_a = false, trans_b = true;
  bool scales_a = false, scales_b = true;
  int64_t columns = 1;  // of b that one scale covers
};

// Every code of a type of at most 8 bits, NaN and infinity left out unless asked for.
Literal RandomCodes(Random& random, DType dtype, std::vector<int64_t> dims, bool specials) {
  Literal out = RandomLiteral(random, dtype, std::move(dims));
  if (BitWidth(dtype) > 8) return out;
  for (int64_t i = 0; i < out.size(); ++i) {
    if (IsInteger(dtype)) {
      int64_t half = IsSigned(dtype) ? int64_t{1} << (BitWidth(dtype) - 1) : 0;
      out.SetInt(i, static_cast<int64_t>(random() & ((1U << BitWidth(dtype)) - 1)) - half);
      continue;
    }
    auto* byte = out.mutable_data() + i;
    auto old = *byte;
    *byte = static_cast<std::byte>(random() & ((1U << BitWidth(dtype)) - 1));
    if (!specials && !std::isfinite(out.GetDouble(i))) *byte = old;
  }
  return out;
}

Literal RandomScales(Random& random, DType dtype, std::vector<int64_t> dims) {
  Literal out(Shape(dtype, dims));
  for (int64_t i = 0; i < out.size(); ++i) {
    double power = std::exp2(static_cast<double>(random() % 9) - 4);
    out.SetDouble(i, dtype == DType::kF8E8M0FNU ? power : power * 1.25);
  }
  return out;
}

struct ScaledTypes {
  DType a, b, scale;
  std::string operands = "bf16";
  DType c = DType::kF32;
  bool specials = false;
};

CallUnderTest ScaledCall(Random& random, const ScaledCase& c, const ScaledTypes& t) {
  CallUnderTest call;
  call.routine = "scaled_gemm";
  call.attrs = {{"m", c.m},
                {"n", c.n},
                {"k", c.k},
                {"batch", c.batch},
                {"trans_a", c.trans_a},
                {"trans_b", c.trans_b},
                {"operands", t.operands}};
  auto scale = [&](bool there, const char* name, int64_t vectors, int64_t of_block) {
    if (!there) return RandomScales(random, t.scale, {1});
    call.attrs.push_back({name, std::vector<int64_t>{1, of_block, c.block}});
    return RandomScales(random, t.scale, {c.batch, vectors / of_block, c.k / c.block});
  };
  call.inputs = {RandomCodes(random, t.a, {c.batch, c.m, c.k}, false),
                 RandomCodes(random, t.b, {c.batch, c.k, c.n}, t.specials),
                 scale(c.scales_a, "a_block", c.m, 1),
                 scale(c.scales_b, "b_block", c.n, c.columns)};
  call.outputs = {Shape(t.c, {c.batch, c.m, c.n})};
  return call;
}

void CheckScaled(Random& random, const ScaledCase& c, const ScaledTypes& t) {
  double tolerance = t.c == DType::kBF16 ? 1e-2 : 2e-5;
  Check(ScaledCall(random, c, t), tolerance,
        StrCat("scaled_gemm ", Name(t.a), " by ", Name(t.b), " as ", t.operands, " ", c.batch,
               " of ", c.m, " x ", c.n, " x ", c.k, c.trans_a ? " trans_a" : "",
               c.trans_b ? " trans_b" : ""));
}

TEST(ScaledGemm, Formats) {
  Random random(1);
  for (DType b :
       {DType::kF8E4M3FN, DType::kF8E5M2, DType::kF8E4M3, DType::kF8E3M4, DType::kF8E4M3FNUZ,
        DType::kF4E2M1FN, DType::kS4, DType::kU4, DType::kS8, DType::kU8, DType::kBF16}) {
    for (DType scale : {DType::kF8E8M0FNU, DType::kF8E4M3FN, DType::kBF16, DType::kF32}) {
      for (bool trans_b : {false, true}) {
        CheckScaled(random, {16, 40, 96, 1, 32, false, trans_b}, {DType::kBF16, b, scale});
        CheckScaled(random, {5, 50, 48, 2, 16, false, trans_b}, {DType::kF32, b, scale, "f32"});
      }
    }
  }
}

TEST(ScaledGemm, Shapes) {
  Random random(2);
  for (auto [a, b] :
       {std::pair(DType::kBF16, DType::kF8E4M3FN), std::pair(DType::kF8E5M2, DType::kF8E4M3FN),
        std::pair(DType::kF4E2M1FN, DType::kF4E2M1FN)}) {
    for (int64_t m : {1, 3, 17, 40}) {
      for (int64_t n : {1, 13, 50}) {
        for (auto [k, block] : {std::pair<int64_t, int64_t>(32, 32), {6, 3}, {620, 20}, {40, 40}}) {
          int form = static_cast<int>(random() % 4);
          CheckScaled(random, {m, n, k, 1, block, form % 2 == 1, form / 2 == 1, BitWidth(a) <= 8},
                      {a, b, DType::kF8E8M0FNU});
        }
      }
    }
  }
  CheckScaled(random, {16, 64, 64, 3, 32, false, true, false, true, 32},
              {DType::kBF16, DType::kF8E4M3FN, DType::kF32, "bf16", DType::kBF16});
  CheckScaled(random, {16, 64, 64, 1, 64, false, false, false, false},
              {DType::kBF16, DType::kS8, DType::kF32, "bf16", DType::kBF16});
  // Few rows that are multiplied as numbers are read.
  for (int64_t m : {1, 6, 16}) {
    for (DType b : {DType::kS8, DType::kF8E4M3FN, DType::kS4}) {
      CheckScaled(random, {m, 1100, 640, 2, 32, false, false},
                  {DType::kF32, b, DType::kF32, "f32"});
      CheckScaled(random, {m, 530, 2048, 1, 2048, true, false, false, true, 530},
                  {DType::kF32, b, DType::kBF16, "f32"});
    }
  }
  CheckScaled(random, {0, 4, 4, 1, 4}, {DType::kBF16, DType::kS8, DType::kF32});
}

// Dot products with numbers as they are read: whole vectors of them or not, by blocks.
TEST(ScaledGemm, FewRowsByColumns) {
  Random random(6);
  for (int64_t m : {1, 2, 4, 5}) {
    for (DType b : {DType::kS8, DType::kU8, DType::kF8E4M3FN, DType::kF8E5M2, DType::kS4}) {
      for (auto [k, block] : {std::pair<int64_t, int64_t>{640, 32}, {1104, 48}, {770, 770}}) {
        CheckScaled(random, {m, 37, k, 2, block, false, true},
                    {DType::kF32, b, DType::kF32, "f32"});
      }
    }
  }
}

// What is not a number stays none, wherever it is among others.
TEST(ScaledGemm, Specials) {
  Random random(3);
  for (DType b : {DType::kF8E4M3FN, DType::kF8E5M2}) {
    ScaledCase c = {2, 24, 64};
    CallUnderTest call = ScaledCall(random, c, {DType::kBF16, b, DType::kF8E8M0FNU});
    for (int64_t i = 0; i < 8; ++i) call.inputs[1].SetDouble(i * 129, std::nan(""));
    auto want = program::Interpret(ProgramOf(call), call.inputs);
    auto got = RunRoutine(call, 1);
    ASSERT_TRUE(want && got);
    int64_t nans = 0;
    for (int64_t i = 0; i < c.m * c.n; ++i) {
      EXPECT_EQ(std::isnan((*got)[0].GetDouble(i)), std::isnan((*want)[0].GetDouble(i))) << i;
      nans += std::isnan((*want)[0].GetDouble(i));
    }
    EXPECT_EQ(nans, 16);
  }
}

// A scale of 1 for all numbers.
TEST(ScaledGemm, WithoutScales) {
  Random random(5);
  for (DType b : {DType::kS8, DType::kU8, DType::kBF16}) {
    for (int64_t m : {1, 5, 40}) {
      for (bool trans_b : {false, true}) {
        ScaledCase c = {m, 130, 70, 2, 70, false, trans_b, false, true, 130};
        CallUnderTest call = ScaledCall(random, c, {DType::kF32, b, DType::kF32, "f32"});
        for (int64_t i = 0; i < call.inputs[3].size(); ++i) call.inputs[3].SetDouble(i, 1);
        Check(call, 2e-5, StrCat("without scales, ", m, " rows"));
        CallUnderTest both = ScaledCall(random, c, {b, b, DType::kF32, "f32"});
        for (int64_t i = 0; i < both.inputs[3].size(); ++i) both.inputs[3].SetDouble(i, 1);
        Check(both, 2e-5, StrCat("without scales, both narrow, ", m, " rows"));
      }
    }
  }
}

// A factor that is larger than what it makes of small numbers.
TEST(ScaledGemm, LargeScales) {
  Random random(4);
  ScaledCase c = {2, 24, 64};
  CallUnderTest call = ScaledCall(random, c, {DType::kBF16, DType::kF8E4M3FN, DType::kF8E8M0FNU});
  for (int64_t i = 0; i < call.inputs[1].size(); ++i) call.inputs[1].SetDouble(i, 0.015625);
  for (int64_t i = 0; i < call.inputs[3].size(); ++i) call.inputs[3].SetDouble(i, 0x1p122);
  Check(call, 2e-5, "large scales");
}

}  // namespace
}  // namespace weft::cpu
