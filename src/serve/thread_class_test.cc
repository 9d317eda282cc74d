#include "serve/thread_class.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

#include "serve/run_handler.h"

namespace weft::serve {
namespace {

cpu_set_t CoresNow() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof(set), &set);
  return set;
}

bool AreCores(const cpu_set_t& wanted) {
  cpu_set_t now = CoresNow();
  return CPU_EQUAL(&now, &wanted);
}

TEST(ThreadClass, CoresAreOfTheThreadAndComeBack) {
  const cpu_set_t before = CoresNow();
  std::thread([&] {
    UseCores(0, 1);
    cpu_set_t one = CoresNow();
    EXPECT_EQ(CPU_COUNT(&one), 1);
    UseCores(CPU_COUNT(&before), 1);  // there is none: all
    EXPECT_TRUE(AreCores(before));
    UseCores(0, 0);
    EXPECT_TRUE(AreCores(before));
  }).join();
  EXPECT_TRUE(AreCores(before));
}

TEST(ThreadClass, OnlyThoseThatReceiveKeepToTheirCores) {
  EXPECT_EQ(CoresForReceivers(1), 0);
  EXPECT_EQ(CoresForReceivers(2), 1);
  EXPECT_EQ(CoresForReceivers(8), 2);
  const cpu_set_t before = CoresNow();
  const int all = CPU_COUNT(&before);
  if (CoresForReceivers(all) == 0) GTEST_SKIP() << all << " cores";
  std::thread([&] {
    KeepToReceiverCores(all, Now() + kSecond);
    EXPECT_TRUE(AreCores(before));
    BecomeReceiver(true);
    EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
    KeepToReceiverCores(all, Now() + kSecond);
    cpu_set_t half = CoresNow();
    EXPECT_EQ(CPU_COUNT(&half), CoresForReceivers(all));
    LeaveReceiverCores();  // too early
    EXPECT_TRUE(AreCores(half));
    KeepToReceiverCores(all, Now() - 1);
    LeaveReceiverCores();
    EXPECT_TRUE(AreCores(before));
  }).join();
}

TEST(ThreadClass, StandingBehindIsForGood) {
  std::thread([] {
    EXPECT_FALSE(StandsBehind());
    StandBehind(false);
    EXPECT_TRUE(StandsBehind());
  }).join();
  EXPECT_FALSE(StandsBehind());
}

}  // namespace
}  // namespace weft::serve
