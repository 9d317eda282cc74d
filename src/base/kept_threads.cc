#include "base/kept_threads.h"

#include <unistd.h>

#include <atomic>
#include <thread>

namespace weft {

// How many calls have not returned; the last one wakes who waits.
struct KeptThreads::Join {
  std::atomic<int64_t> left;
};

// A thread and the call that it is to make: 0 sleeps, 1 calls, 2 ends.
struct KeptThreads::Worker {
  std::atomic<int> state = 0;
  const std::function<void(int64_t)>* fn = nullptr;
  int64_t index = 0;
  std::shared_ptr<Join> join;  // a thread may still wake the caller after that has gone on
  std::thread thread;

  void Set(int to) {
    state.store(to, std::memory_order_release);
    state.notify_one();
  }
  void Loop() {
    for (;;) {
      state.wait(0, std::memory_order_acquire);
      if (state.load(std::memory_order_acquire) == 2) return;
      (*fn)(index);
      const std::shared_ptr<Join> mine = std::move(join);
      state.store(0, std::memory_order_relaxed);  // before the caller may hand out the next call
      if (mine->left.fetch_sub(1, std::memory_order_acq_rel) == 1) mine->left.notify_one();
    }
  }
};

KeptThreads::KeptThreads() : process_(getpid()) {}

KeptThreads::~KeptThreads() {
  MutexLock lock(mutex_);
  for (std::unique_ptr<Worker>& worker : idle_) {
    if (process_ != getpid()) {
      worker.release();  // the thread is another process's
      continue;
    }
    worker->Set(2);
    worker->thread.join();
  }
}

std::vector<std::unique_ptr<KeptThreads::Worker>> KeptThreads::Take(int64_t n) {
  std::vector<std::unique_ptr<Worker>> taken;
  {
    MutexLock lock(mutex_);
    if (process_ != getpid()) {
      for (std::unique_ptr<Worker>& worker : idle_) worker.release();
      idle_.clear();
      process_ = getpid();
    }
    while (static_cast<int64_t>(taken.size()) < n && !idle_.empty()) {
      taken.push_back(std::move(idle_.back()));
      idle_.pop_back();
    }
  }
  while (static_cast<int64_t>(taken.size()) < n) {
    taken.push_back(std::make_unique<Worker>());
    taken.back()->thread = std::thread([worker = taken.back().get()] { worker->Loop(); });
  }
  return taken;
}

void KeptThreads::Run(int64_t n, const std::function<void(int64_t)>& fn) {
  if (n <= 0) return;
  if (n == 1) return fn(0);
  std::vector<std::unique_ptr<Worker>> workers = Take(n - 1);
  auto join = std::make_shared<Join>(n - 1);
  for (int64_t k = 1; k < n; ++k) {
    Worker& worker = *workers[static_cast<size_t>(k - 1)];
    worker.fn = &fn;
    worker.index = k;
    worker.join = join;
    worker.Set(1);
  }
  fn(0);
  for (int64_t left = join->left.load(std::memory_order_acquire); left > 0;
       left = join->left.load(std::memory_order_acquire)) {
    join->left.wait(left, std::memory_order_acquire);
  }
  MutexLock lock(mutex_);
  for (std::unique_ptr<Worker>& worker : workers) idle_.push_back(std::move(worker));
}

}  // namespace weft
