// What kernels become: the LLVM IR that is rendered, branch weights, widths of vectors, addresses.
#include "base/str.h"
#include "cpu/llvm/llvm.h"
#include "cpu/native/testing.h"
#include "cpu/plan.h"
#include "cpu/render/program.h"

namespace weft::cpu {
namespace {

using program::Program;

// What a kernel says of its branches, LLVM is told: weights, and for a guard a barrier in the block
// that is not to be speculated.
TEST(Program, BranchHints) {
  auto text = [](std::string_view hint) {
    Program program = FromText(StrCat(R"(
program p
buffer x: s64[4] parameter 0
buffer y: s64[] result 0
kernel k(read x: s64[4], write y: s64[1]) {
  %i = load s64 x[0]
  %c = lt s64 %i, 4
  if )",
                                      hint, R"( %c {
  } yield %i else {
    %j = and s64 %i, 3
  } yield %j -> %at
  store s64 y[0], %at
}
steps { launch k(read x, write y) }
)"));
    Plan plan = *MakePlan(program, {});
    return RenderProgram(program, plan, {}, 1, false)[0].text;
  };
  constexpr std::string_view kFirst = "i32 1000, i32 1}", kSecond = "i32 1, i32 1000}";
  std::string plain = text(""), likely = text("likely"), unlikely = text("unlikely");
  EXPECT_EQ(plain.find("branch_weights"), plain.npos) << plain;
  EXPECT_NE(likely.find(kFirst), likely.npos) << likely;
  EXPECT_EQ(likely.find("asm sideeffect"), likely.npos) << likely;
  EXPECT_NE(unlikely.find(kSecond), unlikely.npos) << unlikely;
  std::string guard = text("guard");
  EXPECT_NE(guard.find(kFirst), guard.npos) << guard;
  EXPECT_NE(guard.find("asm sideeffect"), guard.npos) << guard;
}

// What only moves much memory is rendered for vectors of 32 bytes where the target says so, what
// computes is not.
TEST(Program, NarrowMoves) {
  auto attributes = [](std::string_view count, std::string_view computed, bool narrow) {
    Program program = FromText(StrCat(
        "program p\nbuffer a: f32[", count, "] parameter 0\nbuffer r: f32[", count,
        "] result 0\nkernel k(read x: f32[", count, "], write y: f32[", count,
        "]) {\n  parallel %i = 0..", count, " step 32 {\n    %v = load f32x32 x[%i]\n", computed,
        "    store f32x32 y[%i], %v\n  }\n}\nsteps {\n  launch k(read a, write r)\n}\n"));
    RenderTarget target{.prefer_256bit_stores = narrow};
    Plan plan = *MakePlan(program, target);
    std::string text = RenderProgram(program, plan, target, 1, false)[0].text;
    size_t at = text.find("%end) ") + 6;
    return text.substr(at, text.find(' ', at) - at);
  };
  constexpr std::string_view kThree =
      "    %a = mul f32x32 %v, %v\n    %b = mul f32x32 %a, %v\n    %c = add f32x32 %b, %a\n";
  EXPECT_EQ(attributes("2097152", "", true), "#4");
  EXPECT_EQ(attributes("2097152", "", false), "#0");
  EXPECT_EQ(attributes("2097152", kThree, true), "#0");
  EXPECT_EQ(attributes("1024", "", true), "#0");
}

// Where the instruction for gathers is slow, indices that are in memory are read there one by one;
// those that are computed in lanes are not taken out of them.
TEST(Program, SlowGathers) {
  auto gathers = [](std::string_view computed, bool slow) {
    Program program = FromText(
        StrCat("program p\nbuffer a: u8[1024] parameter 0\nbuffer t: f32[512] parameter 1\n"
               "buffer r: f32[1024] result 0\nkernel k(read x: u8[1024], read t: f32[512], "
               "write y: f32[1024]) {\n  parallel %i = 0..1024 step 32 {\n"
               "    %v = load u8x32 x[%i]\n    %w = cast s32x32 from u8x32 %v\n",
               computed.empty() ? "" : "    %z = mul s32x32 %w, 2\n", "    %g = load f32x32 t[%",
               computed.empty() ? "w" : computed,
               "]\n    store f32x32 y[%i], %g\n  }\n}\n"
               "steps {\n  launch k(read a, read t, write r)\n}\n"));
    RenderTarget target{.slow_gathers = slow};
    Plan plan = *MakePlan(program, target);
    std::string text = RenderProgram(program, plan, target, 1, false)[0].text;
    return text.find("call <32 x float> @llvm.masked.gather") != text.npos;
  };
  EXPECT_FALSE(gathers("", true));
  EXPECT_TRUE(gathers("", false));
  EXPECT_TRUE(gathers("z", true));
}

// Elements that are stored one after the other, some of them not, are worth what loops are.
TEST(Program, ScalarLoopsWithChoices) {
  auto loops = [](std::string_view before, std::string_view after) {
    Program program =
        FromText(StrCat("program p\nbuffer a: f32[64] parameter 0\nbuffer r: f32[64] result 0\n"
                        "kernel k(read x: f32[64], write y: f32[64]) {\n  serial %i = 0..64 {\n"
                        "    %v = load f32 x[%i]\n    %p = lt f32 %v, 1.0\n",
                        before, "    store f32 y[%i], %v\n", after,
                        "  }\n}\nsteps {\n  launch k(read a, write r)\n}\n"));
    RenderTarget target;
    Plan plan = *MakePlan(program, target);
    return RenderProgram(program, plan, target, 1, false)[0].loops;
  };
  EXPECT_TRUE(loops("    if %p {\n", "    }\n"));
  EXPECT_FALSE(loops("", ""));
}

// A product and a number that the round before left in memory: where sums are quick, the product is
// computed by itself, but for a sum that stays in its place.
TEST(Program, QuickAdds) {
  auto is_apart = [](std::string_view place, bool quick) {
    Program program =
        FromText(StrCat(R"(program p
buffer a: f32[64] parameter 0
buffer y: f32[64] result 0
buffer i: s64[] temp
buffer go: pred[] temp
kernel less(read i: s64[1], write go: pred[1]) {
  %0 = load s64 i[0]
  %1 = lt s64 %0, 64
  store pred go[0], %1
}
kernel add(read a: f32[64], update i: s64[1], update y: f32[64]) {
  %i = load s64 i[0]
  %j = and s64 %i, 3
  %a = load f32 a[%i]
  %b = mul f32 %a, %a
  %c = load f32 y[)",
                        place, "]\n  %d = add f32 %c, %b\n  store f32 y[", place, R"(], %d
  %n = add s64 %i, 1
  store s64 i[0], %n
}
steps {
  fill(write y) hex "00000000"
  fill(write i) hex "0000000000000000"
  while(read go) { launch less(read i, write go) } do {
    launch add(read a, update i, update y)
  }
}
)"));
    RenderTarget target{.add_faster_than_fma = quick};
    Plan plan = *MakePlan(program, target);
    std::string text;
    for (const RenderedModule& m : RenderProgram(program, plan, target, 1, false)) text += m.text;
    return text.find("= fadd float") != text.npos;
  };
  EXPECT_TRUE(is_apart("%j", true));
  EXPECT_FALSE(is_apart("%j", false));
  EXPECT_FALSE(is_apart("0", true));
}

// What is loaded from a place that is hardly ever corrected is loaded from either; what corrects it
// stays where it is. A place with another use is made one first.
TEST(Program, GuardedIndices) {
  auto text_of = [](std::string_view more) {
    Program program = FromText(StrCat(R"(program p
buffer a: s32[1] parameter 0
buffer b: s32[64] parameter 1
buffer r: s32[1] result 0
kernel k(read i: s32[1], read x: s32[64], write y: s32[1]) {
  %i = load s32 i[0]
  %w = cast s64 from s32 %i
  %u = cast u64 from s64 %w
  %c = le u64 %u, 63
  if guard %c {
  } yield %w else {
    %l = min s64 %w, 63
    %m = max s64 %l, 0
  } yield %m -> %p
  %e = load s32 x[%p]
)",
                                      more, R"(  store s32 y[0], %e
}
steps {
  launch k(read a, read b, write r)
}
)"));
    Plan plan = *MakePlan(program, {});
    return RenderProgram(program, plan, {}, 1, false)[0].text;
  };
  std::string twice = text_of("");
  EXPECT_NE(twice.find("load volatile i32"), std::string::npos) << twice;
  EXPECT_NE(twice.find("asm sideeffect"), std::string::npos) << twice;
  EXPECT_EQ(twice.find("phi i64"), std::string::npos) << twice;
  std::string once = text_of("  %q = cast s32 from s64 %p\n  store s32 y[0], %q\n");
  EXPECT_EQ(once.find("volatile"), std::string::npos) << once;
  EXPECT_NE(once.find("phi i64"), std::string::npos) << once;
}

// Beside a loop that is a function, where such vectors make it slower, so is what fills an array;
// not what computes, and not beside loops that compute with such vectors.
TEST(Program, NarrowFills) {
  auto attributes = [](std::string_view computed, int lanes, bool slow, std::string_view in = "") {
    std::string type = lanes == 1 ? "f32" : StrCat("f32x", lanes);
    Program program = FromText(StrCat(
        "program p\nbuffer a: f32[1024] parameter 0\nbuffer n: s32[1] parameter 1\n"
        "buffer r: f32[1024] result 0\nbuffer s: s32[1] result 1\nbuffer go: pred[1] temp\n"
        "kernel fill(read x: f32[1024], write y: f32[1024]) {\n"
        "  serial %i = 0..1024 step 32 {\n    %v = load f32x32 x[%i]\n",
        computed,
        "    store f32x32 y[%i], %v\n  }\n}\n"
        "kernel goes(read n: s32[1], write go: pred[1]) {\n"
        "  %n = load s32 n[0]\n  %go = lt s32 %n, 7\n  store pred go[0], %go\n}\n"
        "kernel round(update n: s32[1], update y: f32[1024]) {\n"
        "  %n = load s32 n[0]\n  %next = add s32 %n, 1\n  store s32 n[0], %next\n  %x = load ",
        type, " y[0]\n", in, "  store ", type,
        " y[64], %x\n}\n"
        "steps {\n  launch fill(read a, write r)\n  copy(read n, write s)\n"
        "  while(read go) {\n    launch goes(read s, write go)\n  } do {\n"
        "    launch round(update s, update r)\n  }\n}\n"));
    RenderTarget target{.avx512_lowers_frequency = slow};
    Plan plan = *MakePlan(program, target);
    std::string text;
    for (const RenderedModule& module : RenderProgram(program, plan, target, 1, false)) {
      text += module.text;
    }
    auto of = [&](std::string_view function) {
      size_t at = text.find(") #", text.find(function)) + 2;
      return text.substr(at, 2);
    };
    return StrCat(of("@weft_task_0("), " ", of("define internal i32 @region_0("));
  };
  constexpr std::string_view kThree =
      "    %a = mul f32x32 %v, %v\n    %b = mul f32x32 %a, %v\n    %c = add f32x32 %b, %a\n";
  constexpr std::string_view kThreeInside =
      "  %a = mul f32x16 %x, %x\n  %b = mul f32x16 %a, %x\n  %c = add f32x16 %b, %a\n";
  EXPECT_EQ(attributes("", 1, true), "#4 #4");
  EXPECT_EQ(attributes("", 16, true), "#4 #4");
  EXPECT_EQ(attributes("", 1, false), "#0 #0");
  EXPECT_EQ(attributes("", 16, true, kThreeInside), "#0 #0");
  EXPECT_EQ(attributes(kThree, 1, true), "#0 #4");
}

// Indices are computed once for all accesses beside each other, and by the loop that knows them.
TEST(Program, IndicesAreSums) {
  Program program = FromText(R"(program p
buffer a: f32[640] parameter 0
buffer r: f32[640] result 0
kernel k(read x: f32[640], write y: f32[640]) {
  serial %i = 0..8 {
    %first = mul s64 %i, 80
    serial %j = 0..10 {
      %j1 = add s64 %j, 1
      %j8 = mul s64 8, %j1
      %at = add s64 %j8, %first
      unroll %k = 0..8 step 4 {
        %here = add s64 %k, %at
        %from = sub s64 %here, 8
        %v = load f32x4 x[%from]
        store f32x4 y[%from], %v
      }
    }
  }
}
steps { launch k(read a, write r) }
)");
  Plan plan = *MakePlan(program, {});
  RenderedModule module = RenderProgram(program, plan, {}, 1, false)[0];
  EXPECT_FALSE(module.integers);
  auto count = [&](std::string_view what) {
    size_t found = 0, at = 0;
    for (; (at = module.text.find(what, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  EXPECT_EQ(count("= mul i64"), 2u) << module.text;
  EXPECT_EQ(count("= add i64"), 0u) << module.text;
  EXPECT_EQ(count("getelementptr float, ptr %p0"), 1u) << module.text;
  EXPECT_EQ(count("i64 4\n"), 2u) << module.text;
  Literal numbers(Shape(DType::kF32, {640}));
  for (int64_t i = 0; i < 640; ++i) numbers.SetDouble(i, static_cast<double>(i));
  ExpectLikeInterpreter(program, {numbers}, 0, "sums");
}

}  // namespace
}  // namespace weft::cpu
