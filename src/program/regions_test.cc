// Which loops become native regions, and what the Program then says of them.
#include "program/regions.h"

#include <gtest/gtest.h>

#include <string>

#include "base/check.h"
#include "base/str.h"

namespace weft::program {
namespace {

Program Chosen(const std::string& text, const RegionLimits& limits = {}) {
  auto program = Parse(text);
  CHECK(program) << program.error().ToString("test");
  ChooseRegions(*program, limits);
  Status status = Verify(*program);
  EXPECT_TRUE(status) << status.error().ToString();
  return std::move(*program);
}

// `before`: steps before the loop; `body`: of the loop.
std::string Loop(std::string_view before, std::string_view body) {
  return StrCat(R"(program p
buffer x: f32[4] parameter 0
buffer y: f32[4] result 0
buffer other: f32[4] result 1
buffer i: s32[] temp
buffer go: pred[] temp

kernel less(read i: s32[1], write go: pred[1]) {
  %0 = load s32 i[0]
  %1 = lt s32 %0, 5
  store pred go[0], %1
}

kernel step(update y: f32[4], update i: s32[1]) {
  %0 = load s32 i[0]
  %1 = add s32 %0, 1
  store s32 i[0], %1
  %2 = load f32 y[0]
  %3 = div f32 1, %2
  store f32 y[0], %3
}

kernel twice(read x: f32[4], write y: f32[4]) {
  vector %k = 0..4 {
    %0 = load f32 x[%k]
    %1 = add f32 %0, %0
    store f32 y[%k], %1
  }
}

steps {
)",
                before, R"(
  loop: while(read go) trips 5 {
    launch less(read i, write go)
  } do {
)",
                body, R"(
  }
}
)");
}

constexpr std::string_view kStart =
    "fill(write i) hex \"00000000\" copy(read x, write y) launch twice(read x, write other)";
constexpr std::string_view kStep = "launch step(update y, update i)";

TEST(Regions, LocalsPrologueAndDepths) {
  std::string text = Print(Chosen(Loop(kStart, kStep)));
  // The steps that set its state are next to it, in their order, behind what does not matter to it.
  EXPECT_NE(text.find(R"(  launch twice(read x, write other)
  fill(write i) hex "00000000"
  copy(read x, write y)
  loop: while(read go) trips 5 region(inout y, local i, local go) prologue 2 {
    launch less(read i depth 1, write go)
  } do {
    launch step(update y depth 12, update i depth 1)
  }
)"),
            text.npos)
      << text;
  auto again = Parse(text);
  ASSERT_TRUE(again);
  EXPECT_EQ(Print(*again), text);
  // Chosen anew it is the same.
  ChooseRegions(*again);
  EXPECT_EQ(Print(*again), text);
}

TEST(Regions, WhatIsReadBetweenStaysInOrder) {
  std::string_view before =
      "fill(write i) hex \"00000000\" copy(read x, write y) launch twice(read y, write other)";
  std::string text = Print(Chosen(Loop(before, kStep)));
  // The launch reads what the copy writes: the copy stays where it is.
  EXPECT_NE(text.find("copy(read x, write y)\n  launch twice(read y, write other)\n  fill"),
            text.npos)
      << text;
  EXPECT_NE(text.find("prologue 1 {"), text.npos) << text;
}

TEST(Regions, OnlyLoopsOfLittleCode) {
  EXPECT_EQ(Print(Chosen(Loop(kStart, kStep), {.code = 5})).find("region"), std::string::npos);
  // What calls a routine or meets other devices is no region.
  std::string body = StrCat(kStep, " call \"routine\"(update y)");
  EXPECT_EQ(Print(Chosen(Loop(kStart, body))).find("region"), std::string::npos);
}

TEST(Regions, LocalsAreSmall) {
  std::string text = Print(Chosen(Loop(kStart, kStep), {.borrowed_bytes = 8}));
  EXPECT_NE(text.find("region(local i, local go)"), text.npos) << text;
}

}  // namespace
}  // namespace weft::program
