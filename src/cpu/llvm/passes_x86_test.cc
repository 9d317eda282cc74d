// Our passes over LLVM IR: what becomes on x86 of loops that they are for.
#include <map>

#include "base/str.h"
#include "cpu/llvm/llvm.h"
#include "cpu/native/testing.h"

namespace weft::cpu {
namespace {

#if defined(__x86_64__)
int CountWord(const std::string& text, std::string_view word) {
  int times = 0;
  for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; ++at) ++times;
  return times;
}

std::string CodeOf(std::string_view text, const std::string& passes) {
  auto compiler = Compiler::Create({"cascadelake", ""});
  CHECK(compiler);
  std::string assembly;
  CHECK((*compiler)->Compile(std::string(text), passes, CodeEffort::kLoops, &assembly, nullptr));
  return assembly;
}

// Of the greatest number so far, and of the least of it and another, the first is waited for by the
// next round: a jump looks for NaNs there.
TEST(Loops, ForeseenNans) {
  constexpr std::string_view kBubbles = R"(
define void @bubbles(ptr noalias %data, i64 %trips) {
entry:
  %start = load float, ptr %data, align 4
  br label %body
body:
  %k = phi i64 [0, %entry], [%next, %body]
  %most = phi float [%start, %entry], [%more, %body]
  %next = add nuw nsw i64 %k, 1
  %place = getelementptr inbounds float, ptr %data, i64 %next
  %x = load float, ptr %place, align 4
  %less = call nsz float @llvm.minimum.f32(float %most, float %x)
  %more = call nsz float @llvm.maximum.f32(float %x, float %most)
  %before = getelementptr inbounds float, ptr %data, i64 %k
  store float %less, ptr %before, align 4
  %done = icmp eq i64 %next, %trips
  br i1 %done, label %end, label %body
end:
  ret void
}
)";
  auto code_of = [&](const std::string& passes) { return CodeOf(kBubbles, passes); };
  std::string chosen = code_of("function(instcombine)");
  EXPECT_EQ(CountWord(chosen, "vcmpunordss"), 2) << chosen;
  std::string foreseen = code_of("function(instcombine,weft-branch-on-nan-minmax)");
  EXPECT_EQ(CountWord(foreseen, "vcmpunordss"), 1) << foreseen;
  EXPECT_EQ(CountWord(foreseen, "vucomiss"), 1) << foreseen;
  EXPECT_EQ(CountWord(foreseen, "vmaxss"), 1) << foreseen;
}

// Minimum and maximum with zeros in order: as few instructions as without, and where zeros of both
// signs cannot meet none for them.
TEST(MinMax, OrderedZeros) {
  auto code_of = [&](const std::string& cpu, std::string_view type, const std::string& call) {
    std::string text = StrCat("define ", type, " @f(", type, " %x, ", type, " %y) {\n  %r = call ",
                              type, " @llvm.", call, ")\n  ret ", type, " %r\n}\n");
    auto compiler = Compiler::Create({cpu, ""});
    CHECK(compiler);
    std::string assembly;
    CHECK((*compiler)->Compile(text, "function(weft-lower-ieee-minmax)", CodeEffort::kKernels,
                               &assembly, nullptr));
    return assembly;
  };
  constexpr std::string_view kVector = "<8 x float>";
  std::string max = "maximum.v8f32(<8 x float> %x, <8 x float> ";
  std::string min = "minimum.v8f32(<8 x float> %x, <8 x float> ";
  std::string code = code_of("cascadelake", kVector, max + "%y");
  EXPECT_EQ(CountWord(code, "vrangeps"), 1) << code;
  EXPECT_EQ(CountWord(code, "vcmpunordps"), 1) << code;
  code = code_of("cascadelake", kVector, min + "%y");
  EXPECT_EQ(CountWord(code, "vminps"), 2) << code;
  EXPECT_EQ(CountWord(code, "vorps"), 1) << code;
  EXPECT_EQ(CountWord(code, "vcmpunordps"), 0) << code;
  code = code_of("haswell", kVector, max + "%y");
  EXPECT_EQ(CountWord(code, "vmaxps"), 2) << code;
  EXPECT_EQ(CountWord(code, "vrangeps"), 0) << code;
  EXPECT_EQ(CountWord(code, "vandps"), 1) << code;
  for (std::string_view cpu : {"cascadelake", "haswell"}) {
    code = code_of(std::string(cpu), kVector, max + "zeroinitializer");
    EXPECT_EQ(CountWord(code, "vaddps"), 1) << code;
    EXPECT_EQ(CountWord(code, "vmaxps"), 1) << code;
    EXPECT_EQ(CountWord(code, "vcmpunordps"), 0) << code;
    code = code_of(std::string(cpu), kVector, min + "zeroinitializer");
    EXPECT_EQ(CountWord(code, "vminps"), 1) << code;
    EXPECT_EQ(CountWord(code, "vorps"), 0) << code;
    code = code_of(std::string(cpu), kVector, max + "splat (float 1.0)");
    EXPECT_EQ(CountWord(code, "vmaxps"), 1) << code;
    EXPECT_EQ(CountWord(code, "vaddps") + CountWord(code, "vcmpunordps"), 0) << code;
  }
  // Where vectors are to be narrower than the machine's, wider ones come in parts that it has.
  auto compiler = Compiler::Create({"cascadelake", ""});
  CHECK(compiler);
  auto done = (*compiler)->Compile(R"(
define void @f(ptr %p, ptr %q) "prefer-vector-width"="256" "min-legal-vector-width"="0" {
  %x = load <32 x float>, ptr %p, align 4
  %y = load <32 x float>, ptr %q, align 4
  %r = call <32 x float> @llvm.maximum.v32f32(<32 x float> %x, <32 x float> %y)
  store <32 x float> %r, ptr %p, align 4
  ret void
}
)",
                                   "function(weft-lower-ieee-minmax)", CodeEffort::kKernels, &code,
                                   nullptr);
  ASSERT_TRUE(done);
  EXPECT_EQ(CountWord(code, "vrangeps"), 4) << code;
  EXPECT_EQ(CountWord(code, "zmm"), 0) << code;
}

// Two choices by the same two conditions: by the one that is there at once first, and by the one
// that waits for memory last.
TEST(Loops, ChoicesByTwoConditions) {
  constexpr std::string_view kLarger = R"(
define i64 @larger(ptr noalias %data, i64 %start, i64 %trips) {
entry:
  br label %body
body:
  %k = phi i64 [%start, %entry], [%to, %body]
  %most = phi i64 [0, %entry], [%more, %body]
  %n = phi i64 [%trips, %entry], [%left, %body]
  %next = add i64 %k, 1
  %inside = icmp slt i64 %next, 1000
  %place = getelementptr inbounds i64, ptr %data, i64 %next
  %x = load i64, ptr %place, align 8
  %larger = icmp sgt i64 %x, %most
  %both = and i1 %larger, %inside
  %more = select i1 %both, i64 %x, i64 %most
  %to = select i1 %both, i64 %next, i64 %k
  %left = add i64 %n, -1
  %done = icmp eq i64 %left, 0
  br i1 %done, label %end, label %body
end:
  ret i64 %more
}
)";
  auto code_of = [&](const std::string& passes) { return CodeOf(kLarger, passes); };
  std::string joined = code_of("function(instcombine)");
  EXPECT_NE(joined.find("set"), std::string::npos) << joined;
  std::string twice = code_of("function(instcombine,weft-split-select-condition)");
  EXPECT_EQ(twice.find("set"), std::string::npos) << twice;
  size_t inside = twice.find("$1000"), loaded = twice.find("cmpq\t%", inside);
  ASSERT_NE(inside, std::string::npos) << twice;
  EXPECT_NE(loaded, std::string::npos) << twice;
}

// The least of sums along a column: where the instruction for gathers is slow, lanes are loaded one
// by one from a pointer that moves, and no address comes out of a vector.
TEST(Loops, ColumnsWithoutGathers) {
  constexpr std::string_view kColumn = R"(
define i32 @column(ptr %base, i64 %trips) {
entry:
  br label %body
body:
  %k = phi i64 [ 0, %entry ], [ %next, %body ]
  %least = phi i32 [ 0, %entry ], [ %less, %body ]
  %next = add nuw nsw i64 %k, 1
  %at = mul nsw i64 %next, 200
  %place = getelementptr inbounds i32, ptr %base, i64 %at
  %x = load i32, ptr %place, align 4
  %less = call i32 @llvm.smin.i32(i32 %least, i32 %x)
  %done = icmp eq i64 %next, %trips
  br i1 %done, label %end, label %body
end:
  ret i32 %less
}
)";
  const std::string passes =
      "function(loop-simplify,weft-pointer-induction,loop-vectorize,instcombine)";
  auto code_for = [&](const std::string& cpu) {
    auto compiler = Compiler::Create({cpu, ""});
    CHECK(compiler);
    std::string assembly;
    CHECK(
        (*compiler)->Compile(std::string(kColumn), passes, CodeEffort::kLoops, &assembly, nullptr));
    return assembly;
  };
  std::string slow = code_for("cascadelake");
  EXPECT_NE(slow.find("vpminsd"), std::string::npos) << slow;
  EXPECT_NE(slow.find("vpinsrd"), std::string::npos) << slow;
  EXPECT_EQ(slow.find("gather"), std::string::npos) << slow;
  EXPECT_EQ(slow.find("vpextrq"), std::string::npos) << slow;
  EXPECT_NE(code_for("sapphirerapids").find("vpgather"), std::string::npos);
}

// A vector that lies within one that was loaded is a shuffle of it, not a shifted number.
TEST(Loads, VectorWithinAnother) {
  constexpr std::string_view kNeighbours = R"(
define void @neighbours(ptr noalias %to, ptr noalias %from) {
  %all = load <64 x i8>, ptr %from, align 1
  %place = getelementptr inbounds i8, ptr %from, i64 1
  %next = load <32 x i8>, ptr %place, align 1
  store <64 x i8> %all, ptr %to, align 1
  %behind = getelementptr inbounds i8, ptr %to, i64 64
  store <32 x i8> %next, ptr %behind, align 1
  ret void
}
)";
  auto code_of = [&](const std::string& passes) { return CodeOf(kNeighbours, passes); };
  std::string number = code_of("function(gvn,instcombine)");
  EXPECT_NE(number.find("shldq"), std::string::npos) << number;
  std::string part = code_of("function(gvn,weft-shift-to-shuffle,instcombine)");
  EXPECT_EQ(part.find("shldq"), std::string::npos) << part;
}
#endif

}  // namespace
}  // namespace weft::cpu
