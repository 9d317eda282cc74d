// Processor affinity while threads are woken.
#pragma once

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <span>

namespace weft {

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

}  // namespace weft
