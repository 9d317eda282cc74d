#include "client/executor.h"

#include <pthread.h>

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

#include "base/doing.h"
#include "base/trace.h"

namespace weft::client {

struct WorkerState {
  Executor* executor = nullptr;  // null: not a worker
  // How many reasons there are to count it as blocked; written with the executor's mutex held.
  std::atomic<int> blocked = 0;
  int leavable = 0;  // of them
  bool finishing = false;
};

namespace {

thread_local WorkerState this_worker;

}  // namespace

// The threads of an executor are not there in a process that forked off. Its executors, found whole
// because nobody was inside one when the process forked, start again without them.
struct Executor::Forking {
  Mutex mutex;
  std::vector<Executor*> executors;

  static Forking& Get() {
    static Forking& all = *new Forking;
    static std::once_flag once;
    std::call_once(once, [] { pthread_atfork(Before, InParent, InChild); });
    return all;
  }
  static void Before() WEFT_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
    Get().mutex.Lock();
    for (Executor* executor : Get().executors) executor->mutex_.Lock();
  }
  static void InParent() WEFT_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
    for (Executor* executor : Get().executors) executor->mutex_.Unlock();
    Get().mutex.Unlock();
  }
  static void InChild() WEFT_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
    for (Executor* executor : Get().executors) executor->StartAgain();
    Get().mutex.Unlock();
  }
};

Executor::Executor(int threads) : limit_(std::max(threads, 1)) {
  MutexLock lock(Forking::Get().mutex);
  Forking::Get().executors.push_back(this);
}

void Executor::StartAgain() {
  // Not destroyed, but left behind: they count on threads that are gone.
  new (&mutex_) Mutex;
  new (&wake_) std::condition_variable;
  new (&threads_) std::vector<std::thread>;
  idle_ = 0;
  working_ = IsWorker() && this_worker.blocked == 0 ? 1 : 0;
  unfinished_ = static_cast<int64_t>(queue_.size()) + (IsWorker() ? 1 : 0);
}

Executor::~Executor() {
  {
    MutexLock lock(Forking::Get().mutex);
    std::erase(Forking::Get().executors, this);
  }
  std::vector<std::thread> threads;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    StartWorkerIfNeeded();
    threads.swap(threads_);
    wake_.notify_all();
  }
  for (std::thread& thread : threads) thread.join();
  // Workers that started meanwhile, in place of blocked ones.
  while (true) {
    {
      MutexLock lock(mutex_);
      if (threads_.empty()) break;
      threads.clear();
      threads.swap(threads_);
      wake_.notify_all();
    }
    for (std::thread& thread : threads) thread.join();
  }
}

bool Executor::IsWorker() const {
  return this_worker.executor == this;
}

void Executor::Schedule(std::function<void()> task) {
  unfinished_.fetch_add(1, std::memory_order_relaxed);
  MutexLock lock(mutex_);
  queue_.push_back(std::move(task));
  // This worker comes back for the task itself.
  if (this_worker.finishing && this_worker.executor == this && queue_.size() == 1) return;
  StartWorkerIfNeeded();
}

// One more thread takes up work when there is some and fewer than allowed are at it.
void Executor::StartWorkerIfNeeded() {
  if (queue_.empty() || working_ >= limit_) return;
  if (idle_ > 0) {
    wake_.notify_one();
    return;
  }
  ++working_;
  threads_.emplace_back([this] { Work(); });
}

void Executor::Work() {
  SignalStack stack;
  this_worker.executor = this;
  trace::NameThread("weft executor");
  mutex_.Lock();
  while (true) {
    // Counted as working here. Step back when a blocked worker returned and there are too many.
    if (queue_.empty() || working_ > limit_) {
      if (queue_.empty() && stopping_) break;
      --working_;
      ++idle_;
      mutex_.Wait(wake_);
      --idle_;
      ++working_;
      continue;
    }
    std::function<void()> task = std::move(queue_.front());
    queue_.pop_front();
    if (!queue_.empty()) StartWorkerIfNeeded();
    mutex_.Unlock();
    task();
    task = nullptr;
    unfinished_.fetch_sub(1, std::memory_order_relaxed);
    mutex_.Lock();
  }
  --working_;
  wake_.notify_all();
  mutex_.Unlock();
}

void Executor::Block(WorkerState& worker, bool leavable) {
  MutexLock lock(mutex_);
  if (leavable && worker.leavable++ == 0) ++leavable_;
  if (worker.blocked++ > 0) return;
  --working_;
  StartWorkerIfNeeded();
}

void Executor::Unblock(WorkerState& worker, bool leavable) {
  MutexLock lock(mutex_);
  if (leavable && --worker.leavable == 0) --leavable_;
  if (--worker.blocked == 0) ++working_;
}

Executor::BlockingScope::BlockingScope(bool leavable)
    : executor_(this_worker.executor), leavable_(leavable) {
  if (executor_ != nullptr) executor_->Block(this_worker, leavable_);
}

Executor::BlockingScope::~BlockingScope() {
  if (executor_ != nullptr) executor_->Unblock(this_worker, leavable_);
}

Executor::GiveUpScope::GiveUpScope() : executor_(this_worker.executor), worker_(&this_worker) {}

Executor::GiveUpScope::~GiveUpScope() {
  if (given_up_) executor_->Unblock(*worker_, true);
}

void Executor::GiveUpScope::GiveUp() {
  if (executor_ == nullptr || std::exchange(given_up_, true)) return;
  executor_->Block(*worker_, true);
}

bool Executor::WaitForAllButLeavable(std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kLook(2);
  for (auto stop = std::chrono::steady_clock::now() + patience; HasLeavable();) {
    const bool alone = unfinished_ == leavable_;
    if (alone && std::chrono::steady_clock::now() > stop) return false;
    std::this_thread::sleep_for(kLook);
  }
  return true;
}

Executor::FinishingScope::FinishingScope()
    : outer_(std::exchange(this_worker.finishing,
                           this_worker.executor != nullptr && this_worker.blocked == 0)) {}

Executor::FinishingScope::~FinishingScope() {
  this_worker.finishing = outer_;
}

}  // namespace weft::client
