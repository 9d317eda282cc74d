#include "base/thread_pool.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <memory>
#include <span>

#include "base/cancel_flag.h"
#include "base/doing.h"
#include "base/float_mode.h"
#include "base/thread_limit.h"

namespace weft {
namespace {

// More pieces do not balance better, and each costs a little.
constexpr int64_t kMaxPieces = 1024;
// After so long a helper looks whether another loop waits for it.
constexpr std::chrono::microseconds kTurn(500);

// Waking a thread takes 5 to 50 us: twice as long one that has nothing to do looks for more first.
// Loops follow each other within a few microseconds, and the last pieces of one end together.
constexpr auto kLookFor = std::chrono::microseconds(100);

thread_local int thread_limit = std::numeric_limits<int>::max();
thread_local constinit const std::atomic<int>* busy_beside = nullptr;
thread_local int share_of_thread = 0;  // of a loop: 0 is that of threads of no pool

// While one lives, the threads but the caller do not start on its core, unless they have no other.
class OffThisCore {
 public:
  explicit OffThisCore(std::span<const pid_t> threads) {
    if (threads.empty() || busy_.test_and_set(std::memory_order_acquire)) return;
    holds_ = true;
    if (sched_getaffinity(threads[0], sizeof(all_), &all_) != 0) return;
    cpu_set_t others = all_;
    CPU_CLR(static_cast<size_t>(std::max(0, sched_getcpu())), &others);
    if (CPU_COUNT(&others) == 0 || CPU_EQUAL(&others, &all_)) return;
    threads_ = threads;
    SetTo(others);
  }
  ~OffThisCore() {
    SetTo(all_);
    if (holds_) busy_.clear(std::memory_order_release);
  }
  OffThisCore(const OffThisCore&) = delete;

 private:
  void SetTo(const cpu_set_t& cores) {
    for (pid_t thread : threads_) {
      if (thread != caller_) sched_setaffinity(thread, sizeof(cores), &cores);
    }
  }

  // One at a time: a second would take the first one's cores for all there are.
  static inline constinit std::atomic_flag busy_{};
  bool holds_ = false;
  std::span<const pid_t> threads_;
  const pid_t caller_ = gettid();
  cpu_set_t all_;
};

// About half a microsecond without getting in the way of the other threads.
void Pause() {
  for (int i = 0; i < 16; ++i) {
#if defined(__aarch64__)
    asm volatile("isb" ::: "memory");
#elif defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
}

}  // namespace

constinit thread_local const std::atomic<bool>* CancelFlag::flag_ = nullptr;

ThreadLimit::ThreadLimit(int threads, const std::atomic<int>* busy)
    : outer_(thread_limit), outer_busy_(busy_beside) {
  thread_limit = std::min(outer_, std::max(threads, 1));
  if (busy != nullptr) busy_beside = busy;
}

ThreadLimit::~ThreadLimit() {
  thread_limit = outer_;
  busy_beside = outer_busy_;
}

int ThreadLimit::current() {
  if (busy_beside == nullptr) return thread_limit;
  const int others = busy_beside->load(std::memory_order_relaxed) - 1;
  return std::max(thread_limit - std::max(others, 0), 1);
}

// One ParallelFor. Helpers that come late find no piece left and never touch `fn`. Pieces are dealt
// out in shares: a thread begins with its own one, the same in every loop, so that what it wrote in
// the last loop is in its own cache; then it takes what others have left.
struct ThreadPool::Loop {
  struct alignas(64) Share {
    std::atomic<int32_t> next;
    int32_t end;
  };
  int64_t n, piece_size;
  int32_t pieces, share_count;
  const void* fn;
  RangeFn call;
  std::unique_ptr<Share[]> shares;
  bool flush = FloatMode::Flushes();  // as its caller computes
  const Doing* doing = Doing::Top();  // what its caller is at
  const std::atomic<bool>* cancel = CancelFlag::current();
  std::atomic<bool> used_up{false};
  std::atomic<int32_t> left;

  void DealOut() {
    shares = std::make_unique<Share[]>(static_cast<size_t>(share_count));
    left = pieces;
    for (int64_t i = 0; i < share_count; ++i) {
      shares[static_cast<size_t>(i)].next = static_cast<int32_t>(i * pieces / share_count);
      shares[static_cast<size_t>(i)].end = static_cast<int32_t>((i + 1) * pieces / share_count);
    }
  }
  bool IsUsedUp() const { return used_up.load(std::memory_order_relaxed); }
  void RunPiece(int32_t piece) const {
    Doing::Helping helping(doing);  // who waits for the piece is still there
    int64_t begin = piece * piece_size;
    call(fn, begin, begin + std::min(piece_size, n - begin));
  }
  // Pieces until there is none left or another loop waits, if `yields`. False: none is left.
  bool RunPieces(const ThreadPool* yields) {
    auto start = std::chrono::steady_clock::now();
    int32_t done = 0;
    bool gave_way = false;
    for (int32_t i = 0; i < share_count && !gave_way; ++i) {
      Share& share = shares[static_cast<size_t>((share_of_thread + i) % share_count)];
      while (!gave_way && share.next.load(std::memory_order_relaxed) < share.end) {
        int32_t piece = share.next.fetch_add(1, std::memory_order_relaxed);
        if (piece >= share.end) break;
        RunPiece(piece);
        ++done;
        if (yields == nullptr) continue;
        auto now = std::chrono::steady_clock::now();
        if (now - start < kTurn) continue;
        start = now;
        gave_way = yields->waiting_ != 0;
      }
    }
    if (!gave_way) used_up.store(true, std::memory_order_relaxed);
    if (done > 0 && left.fetch_sub(done, std::memory_order_acq_rel) == done) left.notify_all();
    return gave_way;
  }
  // What a thread of the pool does. Loops that wait get their turn, so that a long one does not
  // keep all threads from the others.
  static void Help(ThreadPool& pool, const std::shared_ptr<Loop>& loop) {
    FloatMode mode(loop->flush);
    CancelFlag cancel(loop->cancel);
    if (loop->RunPieces(&pool)) pool.Enqueue({nullptr, loop});
  }
  void WaitForHelpers() {
    auto stop = std::chrono::steady_clock::now() + kLookFor;
    while (left.load(std::memory_order_acquire) != 0) {
      if (std::chrono::steady_clock::now() > stop) break;
      Pause();
    }
    while (int32_t value = left.load(std::memory_order_acquire)) left.wait(value);
  }
};

ThreadPool::ThreadPool(int threads) : threads_(std::max(1, threads)), limit_(threads_) {}

ThreadPool::~ThreadPool() {
  std::vector<std::thread> workers;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    limit_ = threads_;
    workers = std::move(workers_);
    WakeAll();
  }
  for (std::thread& worker : workers) worker.join();
}

void ThreadPool::SetLimit(int n) {
  MutexLock lock(mutex_);
  limit_ = std::clamp(n, 1, threads_);
  WakeAll();
}

void ThreadPool::WakeAll() {
  for (Sleeper& sleeper : sleepers_) sleeper.wake.notify_one();
}

void ThreadPool::Schedule(std::function<void()> task) {
  Enqueue({std::move(task), nullptr});
}

void ThreadPool::Enqueue(Entry entry) {
  ToWake to_wake;
  {
    MutexLock lock(mutex_);
    waiting_ += entry.copies;
    queue_.push_back(std::move(entry));
    while (!stopping_ && idle_ < waiting_ && static_cast<int>(workers_.size()) < AllowedWorkers()) {
      int index = static_cast<int>(workers_.size());
      sleepers_.emplace_back(index);
      workers_.emplace_back([this, index] { Work(index); });
      ++idle_;  // until it takes its first task
    }
    to_wake = ThreadsToWake();
  }
  WakeSome(to_wake);
}

// Those that look for work find it themselves. Who wakes wakes others in turn: each takes its time.
// The last to fall asleep come first: their caches are warm and their cores sleep less deeply.
ThreadPool::ToWake ThreadPool::ThreadsToWake() {
  ToWake result;
  const int allowed = AllowedWorkers(), looking = idle_ - static_cast<int>(asleep_.size());
  // Above the limit it may be the wrong ones that look.
  const bool above = static_cast<int>(workers_.size()) > allowed;
  int count = above ? waiting_.load() : std::clamp(waiting_ - looking, 0, 2);
  for (auto at = asleep_.end(); count > 0 && at != asleep_.begin();) {
    --at;
    if ((*at)->index >= allowed) continue;
    result.sleepers.push_back(*at);
    at = asleep_.erase(at);
    --count;
  }
  if (!result.sleepers.empty() && workers_.size() <= kFewWorkers) result.workers = started_;
  return result;
}

// A thread is often woken onto the core of the one that wakes it, when no core is free at that
// moment, and waits there for milliseconds although another core has become free. Where there are
// many workers a core is free.
void ThreadPool::WakeSome(const ToWake& which) {
  if (which.sleepers.empty()) return;
  OffThisCore elsewhere(which.workers);
  for (Sleeper* sleeper : which.sleepers) sleeper->wake.notify_one();
}

ThreadPool::Entry ThreadPool::Take() {
  Entry& first = queue_.front();
  bool used_up = first.loop && first.loop->IsUsedUp();
  int copies = used_up ? first.copies : 1;
  waiting_ -= copies;
  first.copies -= copies;
  if (first.copies > 0) return {nullptr, first.loop};
  Entry last = std::move(first);
  queue_.pop_front();
  return last;
}

void ThreadPool::LookForWork() const {
  auto stop = std::chrono::steady_clock::now() + kLookFor;
  while (waiting_.load(std::memory_order_relaxed) == 0) {
    if (std::chrono::steady_clock::now() > stop) break;
    Pause();
  }
}

// Many come at once and hold it for a moment only: they would sleep longer than they have to wait.
void ThreadPool::LockSoon() {
  for (int i = 0; i < 100; ++i) {
    if (mutex_.TryLock()) return;
    Pause();
  }
  mutex_.Lock();
}

void ThreadPool::Work(int index) {
  SignalStack stack;
  share_of_thread = index + 1;
  LockSoon();
  Sleeper& self = sleepers_[static_cast<size_t>(index)];
  if (started_.size() < kFewWorkers) started_.push_back(gettid());
  while (true) {
    if (queue_.empty() && !stopping_ && index < AllowedWorkers()) {
      mutex_.Unlock();
      LookForWork();
      LockSoon();
    }
    while (!(stopping_ && queue_.empty()) && (queue_.empty() || index >= AllowedWorkers())) {
      asleep_.push_back(&self);
      mutex_.Wait(self.wake);
      std::erase(asleep_, &self);  // unless who woke it has done so
    }
    if (queue_.empty()) break;
    Entry entry = Take();
    --idle_;
    ToWake to_wake = ThreadsToWake();
    mutex_.Unlock();
    WakeSome(to_wake);
    if (entry.loop) {
      Loop::Help(*this, entry.loop);
    } else {
      entry.task();
    }
    entry = {};  // what it holds goes before the lock is taken
    LockSoon();
    ++idle_;
  }
  mutex_.Unlock();
}

int64_t ThreadPool::PieceSize(int64_t n, int64_t grain) {
  int64_t even = n / kMaxPieces + (n % kMaxPieces != 0 ? 1 : 0);
  return std::max({grain, even, int64_t{1}});
}

void ThreadPool::Run(int64_t n, int64_t grain, const void* fn, RangeFn call) {
  if (n <= 0) return;
  int64_t size = PieceSize(n, grain);
  int64_t pieces = n / size + (n % size != 0 ? 1 : 0);
  int most = std::min(limit(), ThreadLimit::current());
  int helpers = pieces == 1 ? 0 : static_cast<int>(std::min<int64_t>(most, pieces)) - 1;
  if (helpers == 0) {
    for (int64_t i = 0; i < pieces; ++i) {
      call(fn, i * size, i * size + std::min(size, n - i * size));
    }
    return;
  }
  auto loop = std::make_shared<Loop>(n, size, static_cast<int32_t>(pieces), helpers + 1, fn, call);
  loop->DealOut();
  Enqueue({nullptr, loop, helpers});
  loop->RunPieces(nullptr);
  loop->WaitForHelpers();
}

ThreadPool& DefaultPool() {
  static ThreadPool& pool = *new ThreadPool(AvailableCores());
  return pool;
}

}  // namespace weft
