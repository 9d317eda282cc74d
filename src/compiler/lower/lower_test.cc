#include "compiler/lower/lower.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/str.h"
#include "compiler/lower/compile.h"
#include "hlo/text.h"

namespace weft::compiler {
namespace {

using program::Step;

// Bytes that the copies move: of the program outside of loops, and of one round of its loops.
struct Copies {
  int64_t outside = 0, inside = 0;
  bool operator==(const Copies&) const = default;
};

void Count(const std::vector<Step>& steps, bool in_loop, Copies& copies) {
  for (const Step& step : steps) {
    if (std::holds_alternative<program::CopyStep>(step.op)) {
      (in_loop ? copies.inside : copies.outside) += step.uses[0].slice.size;
    } else if (auto* loop = std::get_if<program::WhileStep>(&step.op)) {
      Count(loop->condition, true, copies);
      Count(loop->body, true, copies);
    } else if (auto* choice = std::get_if<program::ConditionalStep>(&step.op)) {
      for (const auto& branch : choice->branches) Count(branch, in_loop, copies);
    }
  }
}

Copies CopiesOf(std::string_view text) {
  auto module = hlo::ParseModule(text);
  EXPECT_TRUE(module) << module.error().ToString();
  auto compiled = Compile(**module, {}, program::TargetInfo::GenericCpu(), {});
  EXPECT_TRUE(compiled) << compiled.error().ToString();
  Copies copies;
  Count(compiled->program.steps, false, copies);
  return copies;
}

TEST(Copies, OneElementOfADonatedArray) {
  EXPECT_EQ(CopiesOf(R"(HloModule m, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY main {
  x = f32[1000,1000] parameter(0)
  i = s32[] parameter(1)
  v = f32[1,1] constant({{3}})
  ROOT r = f32[1000,1000] dynamic-update-slice(x, v, i, i)
})"),
            Copies());
}

// A loop of `trips` rounds over (counter, ARRAY), the body's lines given.
std::string LoopOver(std::string_view array, int trips, std::string_view lines) {
  std::string text = StrCat("HloModule m, input_output_alias={ {}: (0, {}, may-alias) }\n",
                            "body {\n  s = (s32[], ARRAY) parameter(0)\n",
                            "  i = s32[] get-tuple-element(s), index=0\n",
                            "  x = ARRAY get-tuple-element(s), index=1\n", lines,
                            "  one = s32[] constant(1)\n  j = s32[] add(i, one)\n",
                            "  ROOT t = (s32[], ARRAY) tuple(j, y)\n}\n",
                            "condition {\n  s = (s32[], ARRAY) parameter(0)\n",
                            "  i = s32[] get-tuple-element(s), index=0\n  n = s32[] constant(",
                            trips, ")\n  ROOT p = pred[] compare(i, n), direction=LT\n}\n",
                            "ENTRY main {\n  x = ARRAY parameter(0)\n  z = s32[] constant(0)\n",
                            "  init = (s32[], ARRAY) tuple(z, x)\n",
                            "  w = (s32[], ARRAY) while(init), condition=condition, body=body\n",
                            "  ROOT r = ARRAY get-tuple-element(w), index=1\n}\n");
  for (size_t at; (at = text.find("ARRAY")) != std::string::npos;) text.replace(at, 5, array);
  return text;
}

TEST(Copies, OneElementOfADonatedArrayInEveryRound) {
  Copies copies = CopiesOf(LoopOver(
      "f32[1000,1000]", 100,
      "  v = f32[1,1] dynamic-slice(x, i, i), dynamic_slice_sizes={1,1}\n"
      "  w = f32[1,1] add(v, v)\n  y = f32[1000,1000] dynamic-update-slice(x, w, i, i)\n"));
  EXPECT_LE(copies.outside, 4);  // the counter
  EXPECT_LE(copies.inside, 4);
}

// Each round reads the whole array before it writes any: double buffering.
TEST(Copies, StencilsTakeTurns) {
  constexpr std::string_view kLines =
      "  a = f32[1] slice(x), slice={[4095:4096]}\n  b = f32[4095] slice(x), slice={[0:4095]}\n"
      "  c = f32[4096] concatenate(a, b), dimensions={0}\n  y = f32[4096] add(x, c)\n";
  Copies even = CopiesOf(LoopOver("f32[4096]", 10, kLines));
  EXPECT_LE(even.inside, 8);
  EXPECT_LE(even.outside, 4);
  Copies odd = CopiesOf(LoopOver("f32[4096]", 11, kLines));
  EXPECT_LE(odd.inside, 8);
  EXPECT_LE(odd.outside, 4 + 4 * 4096 + 4);
}

// Donated arguments that are results, each in another's place.
TEST(Copies, ArgumentsThatTradePlaces) {
  EXPECT_EQ(
      CopiesOf(
          R"(HloModule m, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }
ENTRY main {
  a = f32[1000] parameter(0)
  b = f32[1000] parameter(1)
  ROOT r = (f32[1000], f32[1000]) tuple(b, a)
})"),
      Copies());
}

// The slice is read before the array is written, wherever it stands.
TEST(Copies, ReadersOfAnUpdatedArrayComeFirst) {
  EXPECT_EQ(CopiesOf(R"(HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }
ENTRY main {
  x = f32[1000,1000] parameter(0)
  i = s32[] parameter(1)
  v = f32[1,1] constant({{3}})
  u = f32[1000,1000] dynamic-update-slice(x, v, i, i)
  s = f32[1000,1] slice(x), slice={[0:1000], [7:8]}
  e = f32[1000,1] exponential(s)
  ROOT r = (f32[1000,1000], f32[1000,1]) tuple(u, e)
})"),
            Copies());
}

TEST(Copies, ReasonsNameBothValuesAndThePlace) {
  auto module = hlo::ParseModule(R"(HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}
ENTRY main {
  x = f32[1000] parameter(0)
  i = s32[] parameter(1)
  v = f32[1] constant({3})
  u = f32[1000] dynamic-update-slice(x, v, i)
  s = f32[1000] sort(u), dimensions={0}, to_apply=less
  w = f32[1000] sort(x), dimensions={0}, to_apply=less
  y = f32[1000] add(s, w)
  z = f32[1000] subtract(y, x)
  ROOT r = (f32[1000], f32[1000]) tuple(u, z)
})");
  ASSERT_TRUE(module) << module.error().ToString();
  auto compiled = Compile(**module, {}, program::TargetInfo::GenericCpu(), {});
  ASSERT_TRUE(compiled) << compiled.error().ToString();
  ASSERT_EQ(compiled->copies.size(), 1);
  EXPECT_EQ(compiled->copies[0].bytes, 4000);
  const std::string& reason = compiled->copies[0].reason;
  EXPECT_NE(reason.find("argument 0 is read by"), std::string::npos) << reason;
  EXPECT_NE(reason.find("after result 0 is written at"), std::string::npos) << reason;
}

// Elements that are read in the order of their numbers need no coordinates of another shape.
TEST(Kernels, ReshapesTakeNothingApart) {
  auto module = hlo::ParseModule(R"(HloModule m
max {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] maximum(a, b)
}
ENTRY main {
  x = u8[100,77] parameter(0)
  w = s32[100,77] convert(x)
  r = s32[1100,7] reshape(w)
  least = s32[] constant(-1)
  ROOT m = s32[1100] reduce(r, least), dimensions={1}, to_apply=max
})");
  ASSERT_TRUE(module);
  auto compiled = Compile(**module, {}, program::TargetInfo::GenericCpu(), {});
  ASSERT_TRUE(compiled);
  for (const program::Kernel& kernel : compiled->program.kernels) {
    for (const program::Instr& instr : kernel.code) {
      EXPECT_NE(instr.op, program::Op::kDiv);
      EXPECT_NE(instr.op, program::Op::kRem);
    }
  }
}

// Sums of products begin with the first one.
TEST(Kernels, SmallDotsAddNothingToZero) {
  auto module = hlo::ParseModule(R"(HloModule m
ENTRY main {
  x = f32[2,2] parameter(0)
  y = f32[2] parameter(1)
  ROOT d = f32[2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})");
  ASSERT_TRUE(module);
  auto compiled = Compile(**module, {}, program::TargetInfo::GenericCpu(), {});
  ASSERT_TRUE(compiled);
  ASSERT_EQ(compiled->program.kernels.size(), 1u);
  const auto& code = compiled->program.kernels[0].code;
  auto count = [&](program::Op op) {
    return std::count_if(code.begin(), code.end(), [&](const auto& i) { return i.op == op; });
  };
  EXPECT_EQ(count(program::Op::kMul), count(program::Op::kFma));
}

// The rounds have no call: they can be one native function.
TEST(Loops, FewElementsAreSortedByAKernel) {
  auto calls = [](std::string_view array) {
    std::string line = StrCat("  y = ", array, " sort(x), dimensions={0}, to_apply=less\n");
    std::string text = LoopOver(array, 100, line);
    text.insert(text.find("body {"),
                "less {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
                "  ROOT c = pred[] compare(a, b), direction=LT\n}\n");
    auto module = hlo::ParseModule(text);
    EXPECT_TRUE(module) << module.error().ToString();
    auto compiled = Compile(**module, {}, program::TargetInfo::GenericCpu(), {});
    EXPECT_TRUE(compiled) << compiled.error().ToString();
    int count = 0;
    ForEachStep(compiled->program.steps, [&](const Step& step) {
      count += std::holds_alternative<program::LibraryStep>(step.op);
    });
    return count;
  };
  EXPECT_EQ(calls("f32[5]"), 0);
  EXPECT_EQ(calls("f32[16,3]"), 0);
  EXPECT_EQ(calls("f32[100]"), 1);
}

// A run is cancelled between steps, so no step holds all rounds of a long loop.
TEST(Loops, LongOnesAreSeveralSteps) {
  auto launches = [](int trips) {
    auto module = hlo::ParseModule(LoopOver("f32[65536]", trips, "  y = f32[65536] sine(x)\n"));
    EXPECT_TRUE(module) << module.error().ToString();
    auto compiled = Compile(**module, {}, program::TargetInfo::GenericCpu(), {});
    EXPECT_TRUE(compiled) << compiled.error().ToString();
    EXPECT_TRUE(Verify(compiled->program));
    return compiled->program.steps.size();
  };
  EXPECT_LE(launches(200), 4u);
  EXPECT_GE(launches(32768), 32u);
}

// f32 products for the H200 may be rounded to TF32, unless the option says otherwise.
TEST(Precision, Tf32IsAnOption) {
  auto module = hlo::ParseModule(R"(ENTRY main {
  a = f32[64,64] parameter(0)
  ROOT d = f32[64,64] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})");
  ASSERT_TRUE(module) << module.error().ToString();
  for (bool tf32 : {false, true}) {
    CompileOptions options;
    options.gpu.tf32 = tf32;
    auto compiled = Compile(**module, options, program::TargetInfo::H200(), {});
    ASSERT_TRUE(compiled) << compiled.error().ToString();
    std::string text = program::Print(compiled->program);
    EXPECT_EQ(text.contains("precision = \"default\""), tf32) << text;
  }
}

}  // namespace
}  // namespace weft::compiler
