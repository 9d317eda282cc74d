#include "client/wait_habit.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace weft::client {
namespace {

bool Call(WaitHabit& habit, bool ask) {
  bool waits = habit.Begin();
  habit.End();
  if (ask) WaitHabit::Asked();
  return waits;
}

TEST(WaitHabit, TwoCallsThatWereWaitedFor) {
  WaitHabit habit;
  EXPECT_FALSE(Call(habit, true));
  EXPECT_FALSE(Call(habit, true));
  EXPECT_TRUE(Call(habit, false));
  EXPECT_FALSE(Call(habit, true));
  EXPECT_FALSE(Call(habit, true));
  EXPECT_TRUE(Call(habit, true));
}

TEST(WaitHabit, WhoComesLateHadOtherThingsToDo) {
  WaitHabit habit;
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(Call(habit, false));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    WaitHabit::Asked();
  }
}

TEST(WaitHabit, AsksForTheLastCallOfItsThread) {
  WaitHabit first, second;
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(Call(first, false));
    Call(second, true);
  }
  EXPECT_TRUE(second.Begin());
  second.End();
  std::thread(WaitHabit::Asked).join();
  EXPECT_FALSE(second.Begin());
}

}  // namespace
}  // namespace weft::client
