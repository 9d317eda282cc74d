#include "cpu/routines/scratch.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "cpu/routines/multiply.h"

namespace weft::cpu {
namespace {

struct Room {
  alignas(kStorageAlignment) std::byte bytes[1024];
  ScratchRoom room{std::span(bytes)};
};

TEST(ScratchRoom, PartsAreTakenAndGivenBack) {
  Room r;
  std::byte* a = r.room.Take(100);  // two units
  std::byte* b = r.room.Take(64);
  std::byte* c = r.room.Take(500);
  EXPECT_EQ(a, r.bytes);
  EXPECT_EQ(b, r.bytes + 128);
  EXPECT_EQ(c, r.bytes + 192);
  EXPECT_EQ(r.room.Take(400), nullptr);
  r.room.Give(b, 64);
  EXPECT_EQ(r.room.Take(65), r.bytes + 704);  // does not fit where b was
  r.room.Give(a, 100);
  EXPECT_EQ(r.room.Take(192), r.bytes);  // where both were
  r.room.Give(c, 500);
  r.room.Give(r.bytes, 192);
  r.room.Give(r.bytes + 704, 65);
  EXPECT_EQ(r.room.Take(1024), r.bytes);
}

TEST(ScratchRoom, WhatDoesNotFitIsTakenElsewhere) {
  Room r;
  Means means = {nullptr, &r.room};
  auto inside = Scratch<double>::New(means, 100);
  ASSERT_TRUE(inside);
  EXPECT_EQ(reinterpret_cast<std::byte*>(inside->data()), r.bytes);
  auto outside = Scratch<double>::New(means, 100);
  ASSERT_TRUE(outside);
  EXPECT_NE(outside->data(), nullptr);
  auto none = Scratch<double>::New({}, int64_t{1} << 61);
  EXPECT_FALSE(none);
  {
    auto moved = std::move(*inside);
  }
  EXPECT_EQ(r.room.Take(1024), r.bytes);
}

TEST(ScratchRoom, ManyThreadsShareOne) {
  std::vector<std::byte> memory(1 << 16);
  ScratchRoom room({memory.data(), memory.size()});
  ThreadPool pool(3);
  Status status = TryPieces(&pool, 3000, 1e5, [&](int64_t begin, int64_t end) -> Status {
    for (int64_t i = begin; i < end; ++i) {
      auto mine = TRY(Scratch<char>::New({&pool, &room}, 1000 + i % 7 * 900));
      std::memset(mine.data(), static_cast<int>(i), 1000);
      if (mine.data()[999] != static_cast<char>(i)) return InvalidArgument("shared");
    }
    return {};
  });
  EXPECT_TRUE(status);
  EXPECT_EQ(room.Take(1 << 16), memory.data());
}

}  // namespace
}  // namespace weft::cpu
