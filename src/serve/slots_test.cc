// Which run has how many threads, and which needs no slot of the others.
#include <gtest/gtest.h>

#include <memory>

#include "serve/scheduler_fixture.h"

namespace weft::serve {
namespace {

class SlotsTest : public SchedulerTest {};

TEST_F(SlotsTest, RunsShareTheCores) {
  Make({.slots = 8, .reserved = 1, .cores = 8});
  Lane lane({1}, true);
  lane.Learn(0, kMillisecond);
  auto threads = [&] { return running_.back().threads; };
  Admit("a", lane);
  EXPECT_EQ(Next(), "a");
  EXPECT_EQ(threads(), 8);
  Admit("b", lane);
  Admit("c", lane);
  EXPECT_EQ(Next(), "b");  // a runs and c waits beside it
  EXPECT_EQ(threads(), 2);
  for (int i = 0; i < 20; ++i) Admit("d", lane);
  EXPECT_EQ(Next(), "c");
  EXPECT_EQ(threads(), 1);
  Admit("h", lane, kHigh);
  EXPECT_EQ(Next(), "h");
  EXPECT_EQ(threads(), 4);
  // What several threads did says nothing about how runs with one slow each other down.
  EXPECT_EQ(lane.Best(0), kMillisecond);
  now_ = kMicrosecond;
  Done(0);
  EXPECT_EQ(lane.Best(0), kMillisecond);
  // Too short for more than one thread.
  Make({.slots = 8, .cores = 8});
  Lane small({1}, true);
  small.Learn(0, 20 * kMicrosecond);
  Admit("s", small);
  EXPECT_EQ(Next(), "s");
  EXPECT_EQ(threads(), 1);
}

// Threads of the high class come before the others for the system: they need not wait for a slot.
TEST_F(SlotsTest, TheHighClassHasSlotsOfItsOwn) {
  using Takes = Scheduler::Takes;
  Make({.slots = 3, .reserved = 1, .high_slots = 2});
  Lane lane({1, 8});
  for (int i = 0; i < 2; ++i) {
    Admit("a", lane, {.rows = 8});
    EXPECT_EQ(Next(Takes::kOthers), "a");
  }
  Admit("g", lane, kHigh);
  Admit("b", lane);
  EXPECT_FALSE(scheduler_->MayTake(Takes::kOthers));
  EXPECT_EQ(Next(Takes::kOthers), "-");
  EXPECT_TRUE(scheduler_->MayTake(Takes::kHigh));
  EXPECT_EQ(Next(Takes::kHigh), "gb");  // others ride along
  Admit("h", lane, kHigh);
  EXPECT_EQ(Next(Takes::kHigh), "h");  // four run, of three slots
  Admit("i", lane, kHigh);
  Admit("c", lane);
  EXPECT_EQ(Next(Takes::kHigh), "-");
  Done(0), Done(0);
  EXPECT_EQ(Next(Takes::kOthers), "c");  // does not take the high one along
  Done(0);
  EXPECT_EQ(Next(Takes::kHigh), "i");
}

TEST_F(SlotsTest, StartsAtOnceWhereNobodyWaits) {
  Make({.slots = 2, .reserved = 1});
  Lane lane({1, 4}), patient({1, 4}, false, kMillisecond);
  auto start = [&](Lane& to, NewTask with = {}) {
    auto task = std::make_shared<Named>();
    task->lane = &to;
    task->rows = with.rows;
    task->priority = with.priority;
    task->deadline = with.deadline;
    return scheduler_->StartAtOnce(task, now_);
  };
  now_ = kMillisecond;
  EXPECT_FALSE(start(lane, {.deadline = now_}));  // expired
  EXPECT_FALSE(start(patient));                   // others may come
  auto batch = start(lane, {.rows = 3});
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->bucket, 1u);
  EXPECT_EQ(scheduler_->running(), 1);
  EXPECT_FALSE(start(lane));  // the other slot is reserved
  auto high = start(lane, kHigh);
  ASSERT_TRUE(high);
  scheduler_->Done(*high, now_);
  Admit("a", lane);
  EXPECT_FALSE(start(lane, kHigh));  // somebody waits
  scheduler_->Done(*batch, now_ + 7);
  EXPECT_EQ(lane.Cost(1), 7);
  EXPECT_EQ(Next(), "a");
}

}  // namespace
}  // namespace weft::serve
