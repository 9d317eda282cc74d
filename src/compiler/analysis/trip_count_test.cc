#include "compiler/analysis/trip_count.h"

#include <gtest/gtest.h>

#include "hlo/text.h"

namespace weft::compiler {
namespace {

// `while (i DIRECTION bound) i = i STEP`, as "s32 0 LT 10 add 1".
std::optional<int64_t> Trips(std::string_view type, std::string_view init,
                             std::string_view direction, std::string_view bound,
                             std::string_view op, std::string_view step) {
  std::string text =
      StrCat("c {\n  s = (T[], T[]) parameter(0)\n",
             "  i = T[] get-tuple-element(s), index=0\n  n = T[] constant(", bound,
             ")\n  ROOT r = pred[] compare(i, n), direction=", direction, "\n}\n",
             "b {\n  s = (T[], T[]) parameter(0)\n", "  i = T[] get-tuple-element(s), index=0\n",
             "  k = T[] get-tuple-element(s), index=1\n  j = T[] ", op,
             "(i, k)\n  ROOT r = (T[], T[]) tuple(j, k)\n}\n", "ENTRY e {\n  i = T[] constant(",
             init, ")\n  k = T[] constant(", step, ")\n  t = (T[], T[]) tuple(i, k)\n",
             "  ROOT w = (T[], T[]) while(t), condition=c, body=b\n}\n");
  for (size_t at; (at = text.find("T[]")) != std::string::npos;) text.replace(at, 1, type);
  auto module = hlo::ParseModule(text);
  EXPECT_TRUE(module) << text;
  if (!module) return -1;
  return TripCount(*(*module)->entry()->root());
}

TEST(TripCount, CountsUpAndDown) {
  EXPECT_EQ(Trips("s32", "0", "LT", "10", "add", "1"), 10);
  EXPECT_EQ(Trips("s32", "0", "LT", "10", "add", "3"), 4);
  EXPECT_EQ(Trips("s32", "0", "LE", "9", "add", "3"), 4);
  EXPECT_EQ(Trips("s32", "10", "GT", "0", "subtract", "3"), 4);
  EXPECT_EQ(Trips("s32", "9", "GE", "0", "add", "-3"), 4);
  EXPECT_EQ(Trips("s64", "-5", "NE", "5", "add", "2"), 5);
  EXPECT_EQ(Trips("s32", "3", "EQ", "3", "add", "1"), 1);
}

TEST(TripCount, NeverRuns) {
  EXPECT_EQ(Trips("s32", "10", "LT", "10", "add", "1"), 0);
  EXPECT_EQ(Trips("s32", "10", "LT", "10", "add", "-1"), 0);
  EXPECT_EQ(Trips("s32", "3", "NE", "3", "add", "0"), 0);
  EXPECT_EQ(Trips("s32", "3", "EQ", "4", "add", "1"), 0);
}

TEST(TripCount, UnknownWhereTheCounterWrapsOrStands) {
  EXPECT_EQ(Trips("s8", "0", "LE", "127", "add", "1"), std::nullopt);
  EXPECT_EQ(Trips("s8", "0", "LT", "127", "add", "2"), std::nullopt);
  EXPECT_EQ(Trips("s32", "0", "LT", "10", "add", "0"), std::nullopt);
  EXPECT_EQ(Trips("s32", "0", "LT", "10", "add", "-1"), std::nullopt);
  EXPECT_EQ(Trips("s32", "0", "NE", "5", "add", "2"), std::nullopt);
  EXPECT_EQ(Trips("u32", "3", "GE", "0", "subtract", "1"), std::nullopt);
}

TEST(TripCount, Unsigned) {
  EXPECT_EQ(Trips("u32", "0", "LT", "4000000000", "add", "1000000000"), 4);
  EXPECT_EQ(Trips("u32", "3", "NE", "0", "add", "4294967295"), 3);
  EXPECT_EQ(Trips("u64", "18446744073709551615", "LT", "3", "add", "1"), std::nullopt);
}

}  // namespace
}  // namespace weft::compiler
