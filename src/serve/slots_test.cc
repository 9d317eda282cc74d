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

// A run that is hardly sooner done by several threads has one; once in a while it is tried again.
TEST_F(SlotsTest, ThreadsGoWhereTheyGain) {
  Make({.slots = 8, .cores = 8});
  Lane lane({1}, true);
  lane.Learn(0, kMillisecond);
  auto threads = [&] {
    Admit("a", lane);
    EXPECT_EQ(Next(), "a");
    return running_.back().threads;
  };
  EXPECT_EQ(threads(), 8);  // it is not known
  now_ += 900 * kMicrosecond;
  Done();
  int alone = 0;
  while (threads() == 1 && alone < 2000) {
    ++alone;
    now_ += kMillisecond;
    Done();
  }
  EXPECT_GT(alone, 100);
  EXPECT_LT(alone, 2000);
  now_ += 300 * kMicrosecond;
  Done();
  EXPECT_EQ(threads(), 8);
}

// Where cores are busy, rows that are cheaper together wait for a run to end, for as long as one
// takes; what gains nothing, what is full and the high class do not.
TEST_F(SlotsTest, RowsJoinWhereCoresAreBusy) {
  Make({.slots = 16, .reserved = 2, .cores = 8, .high_slots = 8});
  Lane flat({1, 4}), steep({1, 4}), other({1}, true);
  flat.Learn(0, kMillisecond);
  flat.Learn(1, kMillisecond + kMillisecond / 10);
  steep.Learn(0, kMillisecond);
  steep.Learn(1, 4 * kMillisecond);
  using Takes = Scheduler::Takes;
  Admit("a", flat);
  EXPECT_EQ(Next(Takes::kOthers), "a");
  Admit("b", flat);
  EXPECT_EQ(Next(Takes::kOthers), "b");  // cores are free
  for (std::string name : {"o", "p", "q"}) {
    Admit(name, other);
    EXPECT_EQ(Next(Takes::kOthers), name);
  }
  now_ = kMillisecond / 2;
  Admit("c", flat);
  Admit("d", flat);
  EXPECT_FALSE(scheduler_->MayTake(Takes::kOthers, now_));
  EXPECT_EQ(Next(Takes::kOthers), "-");
  EXPECT_EQ(wake_, now_ + kMillisecond + kMillisecond / 10);
  Admit("s", steep);
  EXPECT_EQ(Next(Takes::kOthers), "s");
  Admit("t", steep);
  EXPECT_EQ(Next(Takes::kOthers), "t");
  Admit("e", flat);
  Admit("f", flat);
  EXPECT_EQ(Next(Takes::kOthers), "cdef");
  Admit("g", flat);
  Admit("h", flat, kHigh);
  EXPECT_EQ(Next(Takes::kHigh), "hg");
  Admit("i", flat, {.deadline = now_ + 3 * kMillisecond});
  EXPECT_EQ(Next(Takes::kOthers), "i");  // soon due
  Admit("j", flat);
  now_ += 2 * kMillisecond;
  EXPECT_EQ(Next(Takes::kOthers), "j");
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
  EXPECT_FALSE(scheduler_->MayTake(Takes::kOthers, now_));
  EXPECT_EQ(Next(Takes::kOthers), "-");
  EXPECT_TRUE(scheduler_->MayTake(Takes::kHigh, now_));
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

TEST_F(SlotsTest, WhatIsShortGoesByWhatIsLong) {
  Make({.slots = 2, .reserved = 1, .cores = 2, .high_slots = 2});
  Lane slow({1}), quick({1, 4}), alone({1}, true);
  slow.Learn(0, 2 * kMillisecond);
  auto start = [&](Lane& to, bool pass, NewTask with = {}) {
    auto task = std::make_shared<Named>();
    task->lane = &to;
    task->priority = with.priority;
    return scheduler_->StartAtOnce(task, now_, pass);
  };
  Admit("a", slow), Admit("b", slow);
  EXPECT_EQ(Next(), "a");
  EXPECT_FALSE(start(quick, false));
  auto first = start(quick, true);
  ASSERT_TRUE(first);
  EXPECT_EQ(scheduler_->running(), 1);     // it has no slot
  EXPECT_FALSE(start(quick, true));        // one is under way: the next ones are joined
  EXPECT_FALSE(start(alone, true, kLow));  // "b" is of a higher class
  auto second = start(alone, true);
  ASSERT_TRUE(second);
  EXPECT_FALSE(start(alone, true));  // as many as cores
  scheduler_->Done(*first, now_), scheduler_->Done(*second, now_);
  Admit("c", quick);
  EXPECT_FALSE(start(quick, true));  // goes with "c"
  EXPECT_EQ(scheduler_->running(), 1);
  EXPECT_FALSE(scheduler_->Idle());
}

// What is run sooner than it would wait to be joined does not wait for one of its kind.
TEST_F(SlotsTest, WhatIsBriefGoesByOneOfItsOwn) {
  Make({.slots = 2, .reserved = 1, .cores = 4, .high_slots = 2});
  Lane slow({1}), brief({1, 4});
  slow.Learn(0, 2 * kMillisecond), brief.Learn(0, kHandOver);
  Admit("a", slow), Admit("b", slow);
  EXPECT_EQ(Next(), "a");
  auto start = [&] {
    auto task = std::make_shared<Named>();
    task->lane = &brief;
    return scheduler_->StartAtOnce(task, now_, true);
  };
  EXPECT_TRUE(start());
  EXPECT_TRUE(start());
  EXPECT_FALSE(start());  // of more there is something to join
}

TEST_F(SlotsTest, AThreadOfTheHighClassTakesWhatIsMuchShorter) {
  using Takes = Scheduler::Takes;
  Make({.slots = 2, .reserved = 1, .cores = 4, .high_slots = 2});
  Lane slow({1}), quick({1}), new_one({1});
  slow.Learn(0, 2 * kMillisecond), quick.Learn(0, 400 * kMicrosecond);
  Admit("a", slow);
  EXPECT_EQ(Next(Takes::kOthers), "a");
  Admit("b", slow), Admit("n", new_one), Admit("q", quick);
  EXPECT_EQ(Next(Takes::kOthers), "-");
  EXPECT_EQ(Next(Takes::kHigh), "-");
  EXPECT_TRUE(scheduler_->MayPassRuns(now_));
  Scheduler::Decision passed = scheduler_->Next(now_, Takes::kHigh, true);
  ASSERT_TRUE(passed.batch);
  EXPECT_EQ(passed.batch->lane, &quick);
  EXPECT_TRUE(passed.batch->slotless);
  EXPECT_EQ(passed.batch->threads, 1);
  Admit("r", quick);  // no shorter than what runs now
  EXPECT_FALSE(scheduler_->MayPassRuns(now_));
  scheduler_->Done(*passed.batch, now_ + 400 * kMicrosecond);
  EXPECT_TRUE(scheduler_->MayPassRuns(now_));
  Admit("h", slow, kHigh);
  EXPECT_FALSE(scheduler_->Next(now_, Takes::kHigh, true).batch->slotless);  // first its own
}

TEST_F(SlotsTest, WithoutDeadlinesTheShortGoFirstForATime) {
  Make({.slots = 1});
  Lane slow({1}), quick({1});
  slow.Learn(0, kMillisecond), quick.Learn(0, 10 * kMicrosecond);
  Admit("x", slow);
  EXPECT_EQ(Next(), "x");
  Admit("s", slow);
  now_ = kMillisecond;
  Admit("q", quick);
  Done();
  EXPECT_EQ(Next(), "q");
  // The long one waited ten times what it takes: no more go by.
  now_ = 10 * kMillisecond;
  Admit("r", quick);
  Done();
  EXPECT_EQ(Next(), "s");
}

}  // namespace
}  // namespace weft::serve
