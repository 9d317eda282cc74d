// The policy, at times that the tests make up.
#include "serve/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "serve/scheduler_fixture.h"

namespace weft::serve {
namespace {

// Runs take as long as there are others beside them on two cores.
TEST_F(SchedulerTest, UsesAsManySlotsAsRunsBear) {
  SchedulerOptions options;
  options.slots = 32;
  options.least_slots = 1;
  options.max_queue_delay = kNever / 2;
  Make(options);
  EXPECT_EQ(scheduler_->limit(), 32);
  Lane lane({1}, true);
  lane.Learn(0, kMillisecond);
  for (int i = 0; i < 4000; ++i) {
    while (scheduler_->queued() < 40) Admit("x", lane);
    while (Next() != "-") {
    }
    int at_once = static_cast<int>(running_.size());
    now_ = running_[0].started + kMillisecond * std::max(at_once, 2) / 2;
    Done();
    for (auto& batch : running_) batch.started = std::max(batch.started, now_ - 20 * kMillisecond);
  }
  // As many as make a run take some two and a half times as long, not sixteen times.
  EXPECT_LE(scheduler_->limit(), 10);
  EXPECT_GE(scheduler_->limit(), 2);
  // Calm again: all are used.
  for (int i = 0; i < 4000; ++i) {
    while (scheduler_->queued() < 40) Admit("x", lane);
    while (Next() != "-") {
    }
    now_ += kMillisecond;
    for (auto& batch : running_) batch.started = now_ - kMillisecond;
    Done();
  }
  EXPECT_EQ(scheduler_->limit(), 32);
}

TEST_F(SchedulerTest, TellsWaitingForOthersFromWaitingForASlot) {
  Make({.slots = 1});
  Lane lane({1, 4}, false, 5 * kMillisecond);
  Admit("a", lane);
  EXPECT_EQ(Next(), "-");
  now_ = 2 * kMillisecond;
  Admit("b", lane, {.rows = 3});
  EXPECT_EQ(Next(), "ab");
  EXPECT_EQ(running_[0].ripe, 2 * kMillisecond);  // full
  Admit("c", lane);
  now_ = 9 * kMillisecond;
  Done();
  EXPECT_EQ(Next(), "c");
  EXPECT_EQ(running_[0].ripe, 7 * kMillisecond);  // its patience ended
}

TEST_F(SchedulerTest, HighFirstThenByDeadlineThenByArrival) {
  Make({.slots = 1});
  Lane lane({1});
  Admit("a", lane, kLow);
  Admit("b", lane, {.deadline = 900 * kMillisecond});
  Admit("c", lane, {.deadline = 500 * kMillisecond});
  Admit("d", lane);
  Admit("e", lane);
  Admit("f", lane, kHigh);
  std::string order;
  for (int i = 0; i < 6; ++i) order += Next(), Done();
  EXPECT_EQ(order, "fcbdea");
}

TEST_F(SchedulerTest, ReservedSlotsAreForTheHighClass) {
  Make({.slots = 2, .reserved = 1});
  Lane lane({1});
  Admit("a", lane, kLow);
  Admit("b", lane);
  EXPECT_EQ(Next(), "b");
  EXPECT_EQ(Next(), "-");  // one slot is free, but reserved
  Admit("h", lane, kHigh);
  EXPECT_EQ(Next(), "h");
  Admit("g", lane, kHigh);
  EXPECT_EQ(Next(), "-");
  Done(0);
  EXPECT_EQ(Next(), "g");
}

TEST_F(SchedulerTest, ABatchIsFilledWithOthersOfItsLaneOnly) {
  Make({.slots = 2});
  Lane lane({1, 4, 8}), other({1, 4, 8});
  Admit("a", lane, kLow);
  Admit("b", lane, {.rows = 2});
  Admit("x", other);
  Admit("h", lane, kHigh);
  Admit("c", lane, {.rows = 5});
  // h is the best; b and c come before the low one, which does not fit any more.
  EXPECT_EQ(Next(), "hbc");
  EXPECT_EQ(running_[0].rows, 8);
  EXPECT_EQ(Next(), "x");  // came before a, and is of a higher class
}

TEST_F(SchedulerTest, RowsBeyondTheLargestBucketWait) {
  Make({.slots = 2});
  Lane lane({1, 4, 8});
  Admit("a", lane, {.rows = 5});
  Admit("b", lane, {.rows = 5});
  Admit("c", lane, {.rows = 3});
  EXPECT_EQ(Next(), "ac");
  EXPECT_EQ(running_[0].bucket, 2u);
  EXPECT_EQ(Next(), "b");
  EXPECT_EQ(running_[1].bucket, 2u);
}

// Many short runs that take several times their best say little about the cores.
TEST_F(SchedulerTest, RunsCountByTheirTime) {
  Make({.slots = 8, .max_queue_delay = kNever / 2, .least_slots = 1});
  Lane quick({1}, true), slow({1}, true);
  quick.Learn(0, kMicrosecond), slow.Learn(0, kMillisecond);
  for (int i = 0; i < 2000; ++i) {
    for (int k = 0; k < 4; ++k) Admit("q", quick), Admit("s", slow);
    while (Next() != "-") {
    }
    const Time begin = now_;
    now_ += 20 * kMicrosecond;
    for (size_t at = 0; at < running_.size();) running_[at].lane == &quick ? Done(at) : void(++at);
    now_ = begin + kMillisecond;
    while (!running_.empty()) Done();
  }
  EXPECT_EQ(scheduler_->limit(), 8);
}

TEST_F(SchedulerTest, ABatchCountsAsItsHighestMember) {
  Make({.slots = 2, .reserved = 1});
  Lane lane({1, 8});
  Admit("a", lane, kLow);
  Admit("h", lane, kHigh);
  EXPECT_EQ(Next(), "ha");
  EXPECT_EQ(running_[0].priority, Priority::kHigh);
  Admit("b", lane, kLow);
  EXPECT_EQ(Next(), "b");  // the slot that is not reserved is still free
}

TEST_F(SchedulerTest, ASmallerBucketWhereThatPays) {
  Make({.slots = 1});
  Lane lane({8, 32});
  lane.Learn(0, 10 * kMicrosecond);
  lane.Learn(1, 40 * kMicrosecond);
  for (char c = 'a'; c <= 'i'; ++c) Admit(std::string(1, c), lane);
  EXPECT_EQ(Next(), "abcdefgh");  // 8 rows in 10 us, rather than 9 in 40
  Done();
  EXPECT_EQ(Next(), "i");
  Lane flat({8, 32});
  flat.Learn(0, 10 * kMicrosecond);
  flat.Learn(1, 11 * kMicrosecond);
  Done();
  for (char c = 'a'; c <= 'i'; ++c) Admit(std::string(1, c), flat);
  EXPECT_EQ(Next(), "abcdefghi");
}

TEST_F(SchedulerTest, ExpiredOnesNeverRun) {
  Make({.slots = 1});
  Lane lane({1});
  now_ = 100;
  EXPECT_EQ(Admit("z", lane, {.deadline = 100}).verdict, Verdict::kExpired);
  Admit("a", lane);
  EXPECT_EQ(Next(), "a");
  Admit("b", lane, {.deadline = 200});
  Admit("c", lane);
  EXPECT_EQ(Next(), "-");
  EXPECT_EQ(wake_, 200);  // to be told in time
  now_ = 200;
  EXPECT_EQ(Next(), "-");
  EXPECT_EQ(expired_, "b");
  Done();
  EXPECT_EQ(Next(), "c");
}

TEST_F(SchedulerTest, OldOnesAreNotStarved) {
  Make({.slots = 1, .ageing = 10 * kMillisecond});
  Lane lane({1});
  Admit("a", lane, kLow);
  std::string order;
  for (int i = 0; i < 4; ++i) {
    Admit("h", lane, kHigh);
    order += Next();
    now_ += 10 * kMillisecond;
    Done();
  }
  EXPECT_EQ(order, "hhah");  // after twice the ageing it counts as high, and came first
}

TEST_F(SchedulerTest, WhatCannotBeDoneInTimeIsTurnedAwayAtOnce) {
  Make({.slots = 1, .max_queue_delay = 100 * kMillisecond});
  Lane lane({1});
  lane.Learn(0, 10 * kMillisecond);
  Admit("a", lane);
  EXPECT_EQ(Next(), "a");
  for (int i = 0; i < 9; ++i) EXPECT_EQ(Admit("b", lane).verdict, Verdict::kAdmitted) << i;
  // 9 wait and one runs: 100 ms.
  auto late = Admit("c", lane, {.deadline = 50 * kMillisecond});
  EXPECT_EQ(late.verdict, Verdict::kTooLate);
  EXPECT_EQ(late.retry_after, 100 * kMillisecond);
  EXPECT_EQ(Admit("d", lane).verdict, Verdict::kAdmitted);
  EXPECT_EQ(Admit("e", lane).verdict, Verdict::kTooLate);
  // The high class does not wait for them.
  EXPECT_EQ(Admit("h", lane, {.priority = Priority::kHigh, .deadline = 50 * kMillisecond}).verdict,
            Verdict::kAdmitted);
}

// What would begin just in time is answered too late: half of what is left may be waited.
TEST_F(SchedulerTest, ADeadlineIsNotWaitedFor) {
  Make({.slots = 1});
  Lane lane({1});
  lane.Learn(0, 10 * kMillisecond);
  Admit("a", lane);
  EXPECT_EQ(Next(), "a");
  for (int i = 0; i < 3; ++i) Admit("b", lane);
  // 40 ms of work are before it.
  EXPECT_EQ(Admit("c", lane, {.deadline = 80 * kMillisecond}).verdict, Verdict::kTooLate);
  EXPECT_EQ(Admit("d", lane, {.deadline = 95 * kMillisecond}).verdict, Verdict::kAdmitted);
}

TEST_F(SchedulerTest, AFullQueueTurnsAwayTheLastOfTheLowestClass) {
  Make({.slots = 1, .max_queue = 2});
  Lane lane({1});
  Admit("r", lane);
  Next();
  Admit("a", lane, kLow);
  Admit("b", lane, kLow);
  EXPECT_EQ(Admit("c", lane, kLow).verdict, Verdict::kQueueFull);
  auto admission = Admit("d", lane);
  EXPECT_EQ(admission.verdict, Verdict::kAdmitted);
  ASSERT_NE(admission.displaced, nullptr);
  EXPECT_EQ(static_cast<Named&>(*admission.displaced).name, "b");
  Done();
  EXPECT_EQ(Next(), "d");
}

TEST_F(SchedulerTest, ADelayWaitsForOthers) {
  Make({.slots = 1});
  Lane lane({1, 2}, false, 5 * kMillisecond);
  Admit("a", lane);
  EXPECT_EQ(Next(), "-");
  EXPECT_EQ(wake_, 5 * kMillisecond);
  Admit("b", lane);
  EXPECT_EQ(Next(), "ab");  // full: no need to wait
  Done();
  Admit("c", lane);
  now_ += 5 * kMillisecond;
  EXPECT_EQ(Next(), "c");
}

TEST_F(SchedulerTest, WithdrawnOnesAreGone) {
  Make({.slots = 1});
  Lane lane({1});
  auto task = std::make_shared<Named>();
  task->lane = &lane;
  scheduler_->Admit(task, 0);
  EXPECT_EQ(scheduler_->Withdraw(*task), task);
  EXPECT_EQ(scheduler_->Withdraw(*task), nullptr);
  EXPECT_TRUE(scheduler_->Idle());
  EXPECT_EQ(Next(), "-");
}

TEST_F(SchedulerTest, RequestsThatCannotShareRunAlone) {
  Make({.slots = 2});
  Lane lane({8}, true);
  Admit("a", lane);
  Admit("b", lane);
  EXPECT_EQ(Next(), "a");
  EXPECT_EQ(Next(), "b");
}

}  // namespace
}  // namespace weft::serve
