// Our passes over LLVM IR: what becomes on arm64 of loops that they are for.
#include <map>

#include "base/str.h"
#include "cpu/llvm/llvm.h"
#include "cpu/native/testing.h"

namespace weft::cpu {
namespace {

#if defined(__aarch64__)
std::string CodeForNeoverse(const std::string& text, const std::string& passes) {
  auto compiler = Compiler::Create({"neoverse-v1", "-sve"});
  CHECK(compiler);
  std::string assembly;
  CHECK((*compiler)->Compile(text, passes, CodeEffort::kLoops, &assembly, nullptr));
  return assembly;
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
