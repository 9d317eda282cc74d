#include "base/thread_pool.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <memory>

#include "base/cancel_flag.h"
#include "base/doing.h"
#include "base/float_mode.h"
#include "base/off_this_core.h"
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

// Threads that share out loops, by when they first did: those of several devices each prefer
// helpers of their own, whose caches hold what the last loop wrote.
std::atomic<int> sharers = 0;
thread_local const int home = sharers.fetch_add(1, std::memory_order_relaxed);

// For so many times 10 to 50 ns out of the way of other threads.
void Pause(int times) {
  for (int i = 0; i < times; ++i) {
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

// Each of those that are busy has an even part: were one to ask for all the cores that the others
// leave, threads would take turns on cores, and all wait for whoever is late.
int ThreadLimit::current() {
  if (busy_beside == nullptr) return thread_limit;
  return std::max(thread_limit / std::max(busy_beside->load(std::memory_order_relaxed), 1), 1);
}

// One ParallelFor. Helpers that come late find no piece left and never touch `fn`. Pieces are dealt
// out in shares: a thread begins with its own one, the same in every loop, so that what it wrote in
// the last loop is in its own cache; then it takes what others have left. The first is the
// caller's.
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
  alignas(64) std::atomic<int32_t> left;  // pieces that are not done
  std::atomic<int32_t> shares_left;       // with pieces that nobody has begun

  void DealOut() {
    shares = std::make_unique<Share[]>(static_cast<size_t>(share_count));
    left = pieces;
    shares_left = share_count;
    for (int64_t i = 0; i < share_count; ++i) {
      shares[static_cast<size_t>(i)].next = static_cast<int32_t>(i * pieces / share_count);
      shares[static_cast<size_t>(i)].end = static_cast<int32_t>((i + 1) * pieces / share_count);
    }
  }
  bool IsUsedUp() const { return shares_left.load(std::memory_order_relaxed) == 0; }
  void RunPiece(int32_t piece) const {
    Doing::Helping helping(doing);  // who waits for the piece is still there
    int64_t begin = piece * piece_size;
    call(fn, begin, begin + std::min(piece_size, n - begin));
  }
  // Pieces until there is none left or another loop waits, if `yields`. False: none is left.
  bool RunPieces(const ThreadPool* yields, int own_share) {
    auto start = std::chrono::steady_clock::now();
    int32_t done = 0;
    bool gave_way = false;
    for (int32_t i = 0; i < share_count && !gave_way && !IsUsedUp(); ++i) {
      Share& share = shares[static_cast<size_t>((own_share + i) % share_count)];
      while (!gave_way && share.next.load(std::memory_order_relaxed) < share.end) {
        int32_t piece = share.next.fetch_add(1, std::memory_order_relaxed);
        if (piece >= share.end) break;
        if (piece + 1 == share.end) shares_left.fetch_sub(1, std::memory_order_relaxed);
        RunPiece(piece);
        ++done;
        if (yields == nullptr) continue;
        auto now = std::chrono::steady_clock::now();
        if (now - start < kTurn) continue;
        start = now;
        gave_way = yields->waiting_ != 0;
      }
    }
    if (done > 0 && left.fetch_sub(done, std::memory_order_acq_rel) == done) left.notify_all();
    return gave_way;
  }
  // What a thread of the pool does. Loops that wait get their turn, so that a long one does not
  // keep all threads from the others.
  static void Help(ThreadPool& pool, const std::shared_ptr<Loop>& loop, int index) {
    FloatMode mode(loop->flush);
    CancelFlag cancel(loop->cancel);
    const int share = 1 + index % (loop->share_count - 1);
    if (loop->RunPieces(&pool, share)) pool.Enqueue({nullptr, loop});
  }
  void WaitForHelpers() {
    auto stop = std::chrono::steady_clock::now() + kLookFor;
    while (left.load(std::memory_order_acquire) != 0) {
      if (std::chrono::steady_clock::now() > stop) break;
      Pause(4);
    }
    while (int32_t value = left.load(std::memory_order_acquire)) left.wait(value);
  }
};

// The queue's mutex changes hands once for each helper of a loop, which takes longer than a short
// loop. So who looks for work opens its mailbox, and a loop is put there by who shares it out.
struct alignas(64) ThreadPool::Mailbox {
  enum State { kShut, kOpen, kHeld, kFull };
  std::atomic<State> state = kShut;
  std::shared_ptr<Loop> loop;  // of who has made it kHeld, then of the worker

  bool Put(ThreadPool& pool, const std::shared_ptr<Loop>& what) {
    State open = kOpen;
    if (state.load(std::memory_order_relaxed) != kOpen) return false;
    if (!state.compare_exchange_strong(open, kHeld, std::memory_order_acquire)) return false;
    pool.looking_ -= 1;
    loop = what;
    state.store(kFull, std::memory_order_release);
    return true;
  }
  bool IsFull() const { return state.load(std::memory_order_acquire) == kFull; }
  // False: it holds a loop, or is about to.
  bool Shut() {
    State open = kOpen;
    return state.compare_exchange_strong(open, kShut, std::memory_order_acquire);
  }
};

ThreadPool::ThreadPool(int threads)
    : threads_(std::max(1, threads)),
      boxes_(std::make_unique<Mailbox[]>(static_cast<size_t>(std::max(1, threads - 1)))),
      limit_(threads_) {}

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
    auto idle = [&]() WEFT_REQUIRES(mutex_) { return looking_ + static_cast<int>(asleep_.size()); };
    while (!stopping_ && idle() < waiting_ &&
           static_cast<int>(workers_.size()) < AllowedWorkers()) {
      int index = static_cast<int>(workers_.size());
      sleepers_.emplace_back(index);
      workers_.emplace_back([this, index] { Work(index); });
      ++looking_;  // until it takes its first task
    }
    to_wake = ThreadsToWake();
  }
  WakeSome(to_wake);
}

// Those that look for work find it themselves. Who wakes wakes others in turn: each takes its time.
// The last to fall asleep come first: their caches are warm and their cores sleep less deeply.
ThreadPool::ToWake ThreadPool::ThreadsToWake() {
  ToWake result;
  const int allowed = AllowedWorkers();
  // Above the limit it may be the wrong ones that look.
  const bool above = static_cast<int>(workers_.size()) > allowed;
  int count = above ? waiting_.load() : std::clamp(waiting_ - looking_, 0, 2);
  for (auto at = asleep_.end(); count > 0 && at != asleep_.begin();) {
    --at;
    if ((*at)->index >= allowed) continue;
    result.sleepers.push_back(*at);
    at = asleep_.erase(at);
    ++looking_;
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

// True: a loop has come, and the mailbox is full. False: something is in the queue, or nothing
// came.
bool ThreadPool::LookForLoop(int index) {
  Mailbox& box = boxes_[static_cast<size_t>(index)];
  box.state.store(Mailbox::kOpen, std::memory_order_release);
  const auto stop = std::chrono::steady_clock::now() + kLookFor;
  while (!box.IsFull() && waiting_.load(std::memory_order_relaxed) == 0) {
    if (std::chrono::steady_clock::now() > stop) break;
    Pause(2);
  }
  if (!box.IsFull() && box.Shut()) return false;
  while (!box.IsFull()) Pause(1);
  return true;
}

void ThreadPool::HelpOffered(int index) {
  Mailbox& box = boxes_[static_cast<size_t>(index)];
  std::shared_ptr<Loop> loop = std::move(box.loop);
  box.state.store(Mailbox::kShut, std::memory_order_relaxed);
  // Who put something into the queue may have counted on this worker.
  if (waiting_ != 0) WakeForQueue();
  Loop::Help(*this, loop, index);
  loop.reset();
  ++looking_;
}

void ThreadPool::WakeForQueue() {
  ToWake to_wake;
  {
    MutexLock lock(mutex_);
    to_wake = ThreadsToWake();
  }
  WakeSome(to_wake);
}

// To workers that look for work, as many as are to help if there are so many; returns how many.
int ThreadPool::Offer(const std::shared_ptr<Loop>& loop, int helpers) {
  const int workers = AllowedWorkers();
  int given = 0;
  for (int i = 0; i < workers && given < helpers; ++i) {
    const auto at = static_cast<size_t>((int64_t{home} * helpers + i) % workers);
    if (boxes_[at].Put(*this, loop)) ++given;
  }
  return given;
}

// Many come at once and hold it for a moment only: they would sleep longer than they have to wait.
void ThreadPool::LockSoon() {
  for (int i = 0; i < 100; ++i) {
    if (mutex_.TryLock()) return;
    Pause(16);
  }
  mutex_.Lock();
}

void ThreadPool::Work(int index) {
  SignalStack stack;
  LockSoon();
  Sleeper& self = sleepers_[static_cast<size_t>(index)];
  if (started_.size() < kFewWorkers) started_.push_back(gettid());
  mutex_.Unlock();
  while (true) {
    while (index < AllowedWorkers() && LookForLoop(index)) HelpOffered(index);
    LockSoon();
    while (!(stopping_ && queue_.empty()) && (queue_.empty() || index >= AllowedWorkers())) {
      asleep_.push_back(&self);
      --looking_;
      mutex_.Wait(self.wake);
      if (std::erase(asleep_, &self) != 0) ++looking_;  // unless who woke it has done so
    }
    if (queue_.empty()) break;
    Entry entry = Take();
    --looking_;
    ToWake to_wake = ThreadsToWake();
    mutex_.Unlock();
    WakeSome(to_wake);
    if (entry.loop) {
      Loop::Help(*this, entry.loop, index);
    } else {
      entry.task();
    }
    entry = {};  // what it holds goes before the lock is taken
    ++looking_;
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
  const int given = Offer(loop, helpers);
  if (given < helpers) Enqueue({nullptr, loop, helpers - given});
  loop->RunPieces(nullptr, 0);
  loop->WaitForHelpers();
}

ThreadPool& DefaultPool() {
  static ThreadPool& pool = *new ThreadPool(AvailableCores());
  return pool;
}

}  // namespace weft
