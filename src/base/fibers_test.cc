#include "base/fibers.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/cancel_flag.h"
#include "base/doing.h"
#include "base/float_mode.h"
#include "base/stack.h"

namespace weft {
namespace {

// Pieces hand a number round; each adds one.
TEST(Fibers, TakeTurns) {
  constexpr int64_t kPieces = 5, kRounds = 1000;
  const std::vector<int64_t> pieces = {0, 1, 2, 3, 4};
  Fibers fibers(pieces);
  std::vector<std::atomic<uint32_t>> news(kPieces);
  int64_t count = 0;
  fibers.Run([&](int64_t piece) {
    for (int64_t round = 0; round < kRounds; ++round) {
      if (piece != 0 || round != 0) {
        fibers.Wait(news[static_cast<size_t>(piece)],
                    static_cast<uint32_t>(piece == 0 ? round - 1 : round));
      }
      EXPECT_EQ(count++, round * kPieces + piece);
      fibers.Tell(news[static_cast<size_t>((piece + 1) % kPieces)]);
    }
  });
  EXPECT_EQ(count, kPieces * kRounds);
}

// What a piece waits for may come from another thread.
TEST(Fibers, OtherThreadsTell) {
  const std::vector<int64_t> pieces = {0, 1};
  Fibers fibers(pieces);
  std::vector<std::atomic<uint32_t>> news(2);
  std::thread other([&] {
    for (std::atomic<uint32_t>& one : news) fibers.Tell(one);
  });
  fibers.Run([&](int64_t piece) { fibers.Wait(news[static_cast<size_t>(piece)], 0); });
  other.join();
}

// While all of its pieces wait a thread is not busy.
TEST(Fibers, CountWhoIsBusy) {
  const std::vector<int64_t> pieces = {0, 1};
  std::atomic<int> busy = 1;
  Fibers fibers(pieces, &busy);
  std::vector<std::atomic<uint32_t>> news(2);
  std::thread other([&] {
    while (busy.load() != 0) std::this_thread::yield();
    for (std::atomic<uint32_t>& one : news) fibers.Tell(one);
  });
  fibers.Run([&](int64_t piece) {
    EXPECT_EQ(busy.load(), 1);
    fibers.Wait(news[static_cast<size_t>(piece)], 0);
    EXPECT_EQ(busy.load(), 1);
  });
  other.join();
}

// What a thread keeps is each piece's own.
TEST(Fibers, KeepStateOfTheThread) {
  const std::vector<int64_t> pieces = {0, 1};
  Fibers fibers(pieces);
  std::vector<std::atomic<uint32_t>> news(2);
  const Doing* outer = Doing::Top();
  fibers.Run([&](int64_t piece) {
    Doing doing({"run", piece == 0 ? "first" : "second"});
    FloatMode mode(piece == 0);
    fibers.Tell(news[static_cast<size_t>(1 - piece)]);
    fibers.Wait(news[static_cast<size_t>(piece)], 0);
    EXPECT_EQ(Doing::Top(), &doing);
    EXPECT_EQ(FloatMode::Flushes(), piece == 0);
  });
  EXPECT_EQ(Doing::Top(), outer);
  EXPECT_FALSE(FloatMode::Flushes());
}

// The flag that ends a piece's work is the piece's own, whichever of them ends first.
TEST(Fibers, EachHasItsCancelFlag) {
  const std::atomic<bool> flags[3] = {};
  const int64_t pieces[] = {0, 1, 2};
  Fibers fibers(pieces);
  fibers.Run([&](int64_t piece) {
    CancelFlag flag(&flags[piece]);
    for (int64_t round = 0; round <= piece; ++round) {
      fibers.Yield();
      EXPECT_EQ(CancelFlag::current(), &flags[piece]);
    }
  });
  EXPECT_EQ(CancelFlag::current(), nullptr);
}

// What nests too deep is seen on the piece's stack, which is not the thread's.
int DepthOfStack() {
  return IsStackShort() ? 0 : 1 + DepthOfStack();
}

TEST(Fibers, EachKnowsTheEndOfItsStack) {
  const int64_t pieces[] = {0, 1};
  const uintptr_t end = StackEnd();
  Fibers fibers(pieces);
  uintptr_t ends[2] = {};
  fibers.Run([&](int64_t piece) {
    ends[piece] = StackEnd();
    fibers.Yield();
    EXPECT_EQ(StackEnd(), ends[piece]);
    EXPECT_GT(DepthOfStack(), 1000);
  });
  EXPECT_NE(ends[0], ends[1]);
  EXPECT_EQ(StackEnd(), end);
}

}  // namespace
}  // namespace weft
