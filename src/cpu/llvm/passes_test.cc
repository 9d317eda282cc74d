// Our passes over LLVM IR: what becomes on arm64 of loops that they are for.
#include <map>

#include "base/str.h"
#include "cpu/llvm/llvm.h"
#include "cpu/native/compile.h"
#include "cpu/native/testing.h"

namespace weft::cpu {
namespace {

TEST(Passes, DisabledOnesAreLeftOut) {
  RenderedModule loops, kernels;
  loops.loops = true;
  loops.kernels = kernels.kernels = 1;
  const std::string first[] = {"weft-pointer-induction"}, last[] = {"weft-lower-ieee-minmax"};
  std::string usual = *PassesOf(loops), without = *PassesOf(loops, first);
  EXPECT_TRUE(usual.contains(first[0]));
  EXPECT_FALSE(without.contains(first[0]));
  EXPECT_EQ(usual.size(), without.size() + first[0].size() + 1);
  EXPECT_EQ(*PassesOf(kernels, first), *PassesOf(kernels));
  EXPECT_TRUE(PassesOf(kernels, last)->ends_with("weft-branch-on-nan-minmax)"));
  const std::string wrong[] = {"licm"};
  EXPECT_FALSE(PassesOf(loops, wrong));
}

#if defined(__aarch64__)
std::string CodeForNeoverse(const std::string& text, const std::string& passes) {
  auto compiler = Compiler::Create({"neoverse-v1", "-sve"});
  CHECK(compiler);
  std::string assembly;
  CHECK((*compiler)->Compile(text, passes, CodeEffort::kLoops, &assembly, nullptr));
  return assembly;
}

// A place that moves by one in every round, checked in each of them: where it stays in range, a
// loop of vectors runs.
TEST(Loops, ChecksBefore) {
  constexpr std::string_view kShifted = R"(
define void @shifted(ptr noalias %to, ptr noalias %data, i64 %trips, i32 %start) {
entry:
  br label %body
body:
  %k = phi i64 [ 0, %entry ], [ %next, %join ]
  %i = phi i32 [ %start, %entry ], [ %i_next, %join ]
  %in = icmp ult i32 %i, 256
  br i1 %in, label %join, label %out
out:
  %kept = call i32 asm sideeffect "", "=r,0"(i32 %i) nounwind willreturn memory(none)
  br label %join
join:
  %at = phi i32 [ %i, %body ], [ %kept, %out ]
  %wide = zext i32 %at to i64
  %place = getelementptr inbounds i32, ptr %data, i64 %wide
  %x = load i32, ptr %place, align 4
  %store_at = getelementptr inbounds i32, ptr %to, i64 %k
  store i32 %x, ptr %store_at, align 4
  %i_next = add i32 %i, 1
  %next = add nuw nsw i64 %k, 1
  %done = icmp eq i64 %next, %trips
  br i1 %done, label %end, label %body
end:
  ret void
}
)";
  auto code = [&](const std::string& first) {
    return CodeForNeoverse(
        std::string(kShifted),
        StrCat("function(loop-simplify,", first, "simplifycfg,loop-simplify,loop-vectorize)"));
  };
  std::string checked = code("");
  EXPECT_EQ(checked.find("ldr\tq"), std::string::npos) << checked;
  EXPECT_EQ(checked.find("ldp\tq"), std::string::npos) << checked;
  std::string free = code("weft-loop-versioning,");
  EXPECT_TRUE(free.find("ldr\tq") != free.npos || free.find("ldp\tq") != free.npos) << free;
}

// Two places a round, each checked and one of them twice: one comparison of both, and none on the
// way that is taken then. The number is stored unless it is less than the other one, which needs no
// move of its bits.
TEST(Loops, ChecksOnce) {
  constexpr std::string_view kRelax = R"(
declare float @llvm.minimum.f32(float, float)
define void @relax(ptr noalias %from, ptr noalias %to, ptr noalias %data, i64 %trips) {
entry:
  br label %body
body:
  %k = phi i64 [ 0, %entry ], [ %next, %after ]
  %a_place = getelementptr inbounds i32, ptr %from, i64 %k
  %a = load i32, ptr %a_place, align 4
  %a_in = icmp ult i32 %a, 256
  br i1 %a_in, label %join, label %a_out
a_out:
  %a_kept = call i32 asm sideeffect "", "=r,0"(i32 %a) nounwind willreturn memory(none)
  br label %join
join:
  %a_at = phi i32 [ %a, %body ], [ %a_kept, %a_out ]
  %a_wide = sext i32 %a_at to i64
  %x_place = getelementptr inbounds float, ptr %data, i64 %a_wide
  %x = load float, ptr %x_place, align 4
  %b_place = getelementptr inbounds i32, ptr %to, i64 %k
  %b = load i32, ptr %b_place, align 4
  %b_in = icmp ult i32 %b, 256
  br i1 %b_in, label %both, label %b_out
b_out:
  %b_kept = call i32 asm sideeffect "", "=r,0"(i32 %b) nounwind willreturn memory(none)
  br label %both
both:
  %b_at = phi i32 [ %b, %join ], [ %b_kept, %b_out ]
  %b_wide = sext i32 %b_at to i64
  %y_place = getelementptr inbounds float, ptr %data, i64 %b_wide
  %y = load float, ptr %y_place, align 4
  br i1 %b_in, label %write, label %no_write
no_write:
  call void asm sideeffect "", ""() nounwind willreturn
  br label %after
write:
  %before = load i32, ptr %y_place, align 4
  %least = call nsz float @llvm.minimum.f32(float %y, float %x)
  %bits = bitcast float %least to i32
  %same = icmp eq i32 %before, %bits
  br i1 %same, label %after, label %store
store:
  store float %least, ptr %y_place, align 4
  br label %after
after:
  %next = add nuw nsw i64 %k, 1
  %done = icmp eq i64 %next, %trips
  br i1 %done, label %end, label %body
end:
  ret void
}
)";
  const std::string passes =
      "function(weft-guard-widening,simplifycfg,early-cse,weft-silent-store-elimination,"
      "instcombine)";
  std::string code = CodeForNeoverse(std::string(kRelax), passes);
  size_t joined = code.find("orr\tw"), store = code.find("str\ts");
  ASSERT_NE(joined, std::string::npos) << code;
  ASSERT_NE(store, std::string::npos) << code;
  std::string usual = code.substr(joined, store - joined);
  EXPECT_EQ(usual.find("cmp\tw"), usual.rfind("cmp\tw")) << code;
  EXPECT_NE(usual.find("fcmp"), std::string::npos) << code;
  EXPECT_EQ(usual.find("fmov\tw"), std::string::npos) << code;
}

// The least of a number and another one plus 1: a comparison, then a plain choice.
TEST(Loops, PlainChoices) {
  constexpr std::string_view kSteps = R"(
declare i32 @llvm.smin.i32(i32, i32)
define i32 @steps(ptr noalias %data, i64 %trips) {
entry:
  br label %body
body:
  %k = phi i64 [ 0, %entry ], [ %next, %body ]
  %before = phi i32 [ 0, %entry ], [ %after, %body ]
  %place = getelementptr inbounds i32, ptr %data, i64 %k
  %x = load i32, ptr %place, align 4
  %more = add i32 %before, 1
  %after = call i32 @llvm.smin.i32(i32 %more, i32 %x)
  %next = add nuw nsw i64 %k, 1
  %done = icmp eq i64 %next, %trips
  br i1 %done, label %end, label %body
end:
  ret i32 %after
}
)";
  std::string joined = CodeForNeoverse(std::string(kSteps), "");
  EXPECT_NE(joined.find("csinc"), std::string::npos) << joined;
  std::string plain =
      CodeForNeoverse(std::string(kSteps), "function(weft-avoid-conditional-increment)");
  EXPECT_EQ(plain.find("csinc"), std::string::npos) << plain;
  EXPECT_NE(plain.find("csel"), std::string::npos) << plain;
}

// A hash of the counter is no address: LSR, which would split its sums in all ways, leaves it.
TEST(Loops, HashedCounters) {
  std::string rounds;
  for (int r = 0; r < 8; ++r) {
    StrAppend(rounds, "  %a", r + 1, " = add i32 %a", r, ", %b", r, "\n");
    StrAppend(rounds, "  %t", r, " = call i32 @llvm.fshl.i32(i32 %b", r, ", i32 %b", r, ", i32 ",
              5 + r, ")\n  %b", r + 1, " = xor i32 %t", r, ", %a", r + 1, "\n");
  }
  std::string hash = StrCat(R"(
declare i32 @llvm.fshl.i32(i32, i32, i32)
define i32 @hash(i32 %key, i32 %trips) {
entry:
  br label %body
body:
  %k = phi i32 [ 0, %entry ], [ %next, %body ]
  %total = phi i32 [ 0, %entry ], [ %more, %body ]
  %a0 = add i32 %k, %key
  %b0 = xor i32 %k, %key
)",
                            rounds, R"(
  %more = xor i32 %total, %a8
  %next = add nuw nsw i32 %k, 1
  %done = icmp eq i32 %next, %trips
  br i1 %done, label %end, label %body
end:
  ret i32 %more
}
)");
  std::string split = CodeForNeoverse(hash, "function(loop-simplify)");
  std::string kept = CodeForNeoverse(hash, "function(loop-simplify,weft-hide-hashed-induction)");
  EXPECT_LT(kept.size(), split.size()) << split << kept;
}

#endif

}  // namespace
}  // namespace weft::cpu
