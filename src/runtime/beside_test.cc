#include "runtime/beside.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>
#include <vector>

namespace weft::runtime {
namespace {

// Tasks and whoever started them meet: they run at once.
TEST(Beside, RunsWhileTheCallerGoesOn) {
  KeptThreads kept;
  std::atomic<int> come = 0;
  auto meet = [&](int all) {
    ++come;
    while (come.load() < all) std::this_thread::yield();
  };
  Status status = Beside::Run(kept, 2, [&](Beside& beside) -> Status {
    auto work = [&]() -> Status {
      meet(3);
      return {};
    };
    auto first = beside.Start(work), second = beside.Start(work);
    meet(3);
    TRY(beside.Wait(first));
    return beside.Wait(second);
  });
  EXPECT_TRUE(status) << status.error().ToString();
}

// More tasks than threads, tasks that start tasks, and waits in another order: what nobody has
// begun is done by who waits for it, also where there are no threads at all.
TEST(Beside, FewThreadsDoAnyNumberOfTasks) {
  for (int64_t threads : {0, 1, 3}) {
    KeptThreads kept;
    for (int round = 0; round < 50; ++round) {
      std::vector<int> written(64);  // plain: starting and waiting is all that orders these
      Status status = Beside::Run(kept, threads, [&](Beside& beside) -> Status {
        std::vector<Beside::TaskPtr> tasks;
        for (size_t i = 0; i < 32; ++i) {
          tasks.push_back(beside.Start([&, i]() -> Status {
            auto inner = beside.Start([&, i]() -> Status {
              written[2 * i] = static_cast<int>(i);
              return {};
            });
            written[2 * i + 1] = 1;
            return beside.Wait(inner);
          }));
        }
        for (size_t i = tasks.size(); i-- > 0;) TRY(beside.Wait(tasks[i]));
        EXPECT_EQ(std::accumulate(written.begin(), written.end(), 0), 32 + 31 * 32 / 2);
        return {};
      });
      ASSERT_TRUE(status) << status.error().ToString();
    }
  }
}

TEST(Beside, ErrorsComeWhereOneWaits) {
  KeptThreads kept;
  Status status = Beside::Run(kept, 1, [&](Beside& beside) -> Status {
    auto task = beside.Start([]() -> Status { return InvalidArgument("not so"); });
    return beside.Wait(task);
  });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message(), "not so");
}

// A run that ends without its waits: what has begun has ended, what has not never begins.
TEST(Beside, NothingGoesOnBehindTheRun) {
  KeptThreads kept;
  std::atomic<int> begun = 0, ended = 0;
  for (int round = 0; round < 20; ++round) {
    Status status = Beside::Run(kept, 2, [&](Beside& beside) -> Status {
      for (int i = 0; i < 8; ++i) {
        beside.Start([&]() -> Status {
          ++begun;
          std::this_thread::yield();
          ++ended;
          return {};
        });
      }
      return MakeError(Code::kInternal, "gave up");
    });
    EXPECT_FALSE(status);
    EXPECT_EQ(begun.load(), ended.load());
  }
}

}  // namespace
}  // namespace weft::runtime
