#include "base/doing.h"

#include <signal.h>
#include <sys/mman.h>

namespace weft {
namespace {

constexpr size_t kStackBytes = 64 << 10;  // AVX-512 and SME make frames of several KiB

}  // namespace

constinit thread_local const Doing* Doing::top_ = nullptr;

const DoingItem* Doing::item() const {
  const DoingItem* items = items_.load(std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_acquire);
  if (items != nullptr && *number_ >= 0) return items + *number_;
  return item_.load(std::memory_order_relaxed);
}

SignalStack::SignalStack() {
  stack_t old;
  if (sigaltstack(nullptr, &old) != 0 || (old.ss_flags & SS_DISABLE) == 0) return;
  void* memory = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return;
  stack_t own{};
  own.ss_sp = memory;
  own.ss_size = kStackBytes;
  if (sigaltstack(&own, nullptr) != 0) {
    munmap(memory, kStackBytes);
    return;
  }
  memory_ = memory;
}

SignalStack::~SignalStack() {
  if (memory_ == nullptr) return;
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  sigaltstack(&none, nullptr);
  munmap(memory_, kStackBytes);
}

}  // namespace weft
