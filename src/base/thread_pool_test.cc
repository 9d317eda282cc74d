#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <limits>
#include <mutex>
#include <set>
#include <thread>

#include "base/file.h"
#include "base/thread_limit.h"

namespace weft {
namespace {

TEST(ThreadPool, CoversTheRangeOnce) {
  for (int threads : {1, 2, 8}) {
    ThreadPool pool(threads);
    for (int64_t n : {0, 1, 7, 1000, 5000}) {
      for (int64_t grain : {1, 3, 10000}) {
        std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
        pool.ParallelFor(n, grain, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
        });
        for (auto& s : seen) ASSERT_EQ(s, 1);
      }
    }
  }
}

TEST(ThreadPool, PiecesDependOnTheRangeAlone) {
  auto pieces = [](int threads, int limit) {
    ThreadPool pool(threads);
    pool.SetLimit(limit);
    Mutex mutex;
    std::set<std::pair<int64_t, int64_t>> set;
    pool.ParallelFor(12345, 7, [&](int64_t begin, int64_t end) {
      MutexLock lock(mutex);
      set.emplace(begin, end);
    });
    return set;
  };
  auto want = pieces(1, 1);
  EXPECT_EQ(want.size(), 950u);
  EXPECT_EQ(pieces(2, 2), want);
  EXPECT_EQ(pieces(16, 16), want);
  EXPECT_EQ(pieces(16, 3), want);
  EXPECT_EQ(ThreadPool::PieceSize(INT64_MAX, 1), INT64_MAX / 1024 + 1);
}

TEST(ThreadPool, ALimitHoldsForTheLoopsOfOneThread) {
  ThreadPool pool(4);
  auto helped = [&] {
    std::atomic<bool> other = false;
    std::thread::id self = std::this_thread::get_id();
    pool.ParallelFor(64, 1, [&](int64_t, int64_t) {
      if (std::this_thread::get_id() != self) other = true;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    });
    return other.load();
  };
  EXPECT_TRUE(helped());
  {
    ThreadLimit one(1);
    ThreadLimit more(3);  // the outer one holds
    EXPECT_EQ(ThreadLimit::current(), 1);
    EXPECT_FALSE(helped());
    std::async(std::launch::async, [&] { EXPECT_TRUE(helped()); }).get();
  }
  EXPECT_TRUE(helped());
}

// Those that work beside each other share the cores evenly.
TEST(ThreadPool, LoopsLeaveCoresToTheBusy) {
  std::atomic<int> busy = 2;
  {
    ThreadLimit limit(2, &busy);
    EXPECT_EQ(ThreadLimit::current(), 1);
    busy = 1;
    EXPECT_EQ(ThreadLimit::current(), 2);
    ThreadLimit one(1);
    EXPECT_EQ(ThreadLimit::current(), 1);
    busy = 5;
    EXPECT_EQ(ThreadLimit::current(), 1);
  }
  EXPECT_EQ(ThreadLimit::current(), std::numeric_limits<int>::max());
}

TEST(ThreadPool, NestsAndRunsFromManyThreads) {
  ThreadPool pool(4);
  std::atomic<int64_t> sum{0};
  auto work = [&] {
    pool.ParallelFor(8, 1, [&](int64_t, int64_t) {
      pool.ParallelFor(8, 1, [&](int64_t, int64_t) {
        pool.ParallelFor(50, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
      });
    });
  };
  std::vector<std::thread> callers;
  for (int i = 0; i < 6; ++i) callers.emplace_back(work);
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(sum, 6 * 8 * 8 * 50);
}

// Short loops find workers that look for work, tasks come in between, and some workers fall asleep.
TEST(ThreadPool, ManyShortLoopsAndTasks) {
  ThreadPool pool(6);
  std::atomic<int> tasks = 0;
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&, c] {
      for (int round = 0; round < 2000; ++round) {
        const int64_t n = 1 + (round * 7 + c) % 40;
        std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
        pool.ParallelFor(n, 1, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
        });
        for (auto& s : seen) ASSERT_EQ(s, 1);
        if (round % 50 == c) pool.Schedule([&] { ++tasks; });
        if (round % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (round % 300 == 0) pool.SetLimit(1 + round / 300 % 6);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  std::promise<void> last;
  pool.Schedule([&] { last.set_value(); });
  last.get_future().wait();
  while (tasks < 160) std::this_thread::yield();
}

TEST(ThreadPool, KeepsToTheLimit) {
  ThreadPool pool(8);
  for (int limit : {8, 3, 1, 5}) {
    pool.SetLimit(limit);
    EXPECT_EQ(pool.limit(), limit);
    std::atomic<int> now{0}, most{0};
    pool.ParallelFor(200, 1, [&](int64_t, int64_t) {
      int n = ++now;
      for (int m = most; m < n && !most.compare_exchange_weak(m, n);) {
      }
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      --now;
    });
    EXPECT_LE(most, limit);
  }
  pool.SetLimit(100);
  EXPECT_EQ(pool.limit(), 8);
}

// A long loop leaves threads to one that comes later.
TEST(ThreadPool, LoopsShareTheThreads) {
  ThreadPool pool(4);
  std::atomic<bool> done = false;
  auto rest = [] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); };
  std::thread first([&] {
    pool.ParallelFor(600, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) rest();
    });
    done = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));  // all threads are in it
  std::mutex mutex;
  std::set<std::thread::id> threads;
  pool.ParallelFor(60, 1, [&](int64_t, int64_t) {
    rest();
    std::lock_guard lock(mutex);
    if (!done) threads.insert(std::this_thread::get_id());
  });
  first.join();
  EXPECT_GE(threads.size(), 2);
}

TEST(ThreadPool, SchedulesTasks) {
  std::atomic<int> done{0};
  {
    ThreadPool pool(3);
    for (int i = 0; i < 100; ++i) {
      pool.Schedule([&] {
        pool.Schedule([&] { ++done; });  // also while the pool is being destroyed
        ++done;
      });
    }
    pool.SetLimit(1);
  }
  EXPECT_EQ(done, 200);
  ThreadPool single(1);
  std::promise<void> ran;
  single.Schedule([&] { ran.set_value(); });
  ran.get_future().wait();
}

TEST(ThreadPool, Default) {
  EXPECT_GE(AvailableCores(), 1);
  EXPECT_EQ(DefaultPool().threads(), AvailableCores());
}

// A folder of fake /proc and /sys files.
class CgroupTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "weft_cgroup_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void Put(const std::string& path, std::string_view text) {
    std::string full = root_ + path;
    for (size_t i = root_.size() + 1; (i = full.find('/', i)) != full.npos; ++i) {
      mkdir(full.substr(0, i).c_str(), 0700);
    }
    ASSERT_TRUE(WriteFile(full, text).has_value());
  }
  std::optional<double> Quota() { return detail::CgroupCpuQuota(root_); }
  std::string root_;
};

TEST_F(CgroupTest, NoFiles) {
  EXPECT_EQ(Quota(), std::nullopt);
}

TEST_F(CgroupTest, Version2TakesTheSmallestOnTheWay) {
  Put("/proc/self/cgroup", "0::/a/b/c\n");
  Put("/sys/fs/cgroup/a/b/c/cpu.max", "max 100000\n");
  EXPECT_EQ(Quota(), std::nullopt);
  Put("/sys/fs/cgroup/a/cpu.max", "250000 100000\n");
  EXPECT_EQ(Quota(), 2.5);
  Put("/sys/fs/cgroup/a/b/cpu.max", "400000 100000\n");
  EXPECT_EQ(Quota(), 2.5);
  Put("/sys/fs/cgroup/a/b/c/cpu.max", "50000 100000\n");
  EXPECT_EQ(Quota(), 0.5);
}

TEST_F(CgroupTest, Version2InsideAContainer) {
  Put("/proc/self/cgroup", "0::/docker/0123\n");
  Put("/sys/fs/cgroup/cpu.max", "300000 100000\n");
  EXPECT_EQ(Quota(), 3.0);
}

TEST_F(CgroupTest, Version1) {
  Put("/proc/self/cgroup", "12:cpuset:/x\n4:cpu,cpuacct:/job/1\n1:name=systemd:/\n");
  Put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "150000\n");
  Put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "50000\n");
  Put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  Put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Quota(), 3.0);
}

TEST_F(CgroupTest, Nonsense) {
  Put("/proc/self/cgroup", "0:\n::::\nx\n0::/../..\n");
  Put("/sys/fs/cgroup/cpu.max", "12 x\n");
  EXPECT_EQ(Quota(), std::nullopt);
}

}  // namespace
}  // namespace weft
