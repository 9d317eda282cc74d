#include "cpu/routines/panel_units.h"

#include <gtest/gtest.h>

#include <thread>

namespace weft::cpu {
namespace {

TEST(UnitsThenTasks, TakesEachOnceAndUnitsOfAShareFirst) {
  for (int64_t units : {0, 1, 5, 16, 37, 228}) {
    for (int64_t tasks : {1, 2, 7, 16, 64}) {
      for (int64_t shares = 1; shares <= std::min<int64_t>(tasks, 16); ++shares) {
        UnitsThenTasks order = {units, tasks, shares};
        std::vector<int> unit(static_cast<size_t>(units)), task(static_cast<size_t>(tasks));
        for (int64_t share = 0; share < shares; ++share) {
          bool began = false;
          for (int64_t i = share * order.count() / shares; i < (share + 1) * order.count() / shares;
               ++i) {
            int64_t item = order.At(i);
            EXPECT_FALSE(began && item < 0) << "a unit behind a task";
            began = item >= 0;
            ++(began ? task.at(static_cast<size_t>(item))
                     : unit.at(static_cast<size_t>(-1 - item)));
          }
        }
        EXPECT_EQ(unit, std::vector<int>(unit.size(), 1));
        EXPECT_EQ(task, std::vector<int>(task.size(), 1));
      }
    }
  }
}

TEST(PanelUnits, AreThereForAllWhenOneHasPackedThem) {
  constexpr int kThreads = 8, kRounds = 200;
  constexpr int64_t kUnits = 20;
  for (int round = 0; round < kRounds; ++round) {
    PanelUnits units(kUnits);
    std::vector<int> packed(kUnits);
    auto work = [&](int64_t first) {
      for (int64_t i = 0; i < kUnits; ++i) {
        int64_t unit = (first + i) % kUnits;
        units.Pack(unit, [&] { ++packed[static_cast<size_t>(unit)]; });
      }
      for (int64_t unit = 0; unit < kUnits; ++unit) {
        units.Await(unit);
        EXPECT_EQ(packed[static_cast<size_t>(unit)], 1);
      }
    };
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) threads.emplace_back(work, 3 * t % kUnits);
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace weft::cpu
