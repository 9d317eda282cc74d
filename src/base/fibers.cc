#include "base/fibers.h"

#include <sys/mman.h>

#include <mutex>

#include "base/cancel_flag.h"
#include "base/check.h"
#include "base/doing.h"
#include "base/stack.h"
#include "base/stack_switch.h"

// Sanitizers are told of stacks that they did not make.
#if defined(__SANITIZE_THREAD__)
#define WEFT_FIBERS_TSAN 1
#elif defined(__SANITIZE_ADDRESS__)
#define WEFT_FIBERS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WEFT_FIBERS_TSAN 1
#elif __has_feature(address_sanitizer)
#define WEFT_FIBERS_ASAN 1
#endif
#endif
#ifdef WEFT_FIBERS_TSAN
#include <sanitizer/tsan_interface.h>
#endif
#ifdef WEFT_FIBERS_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

namespace weft {
namespace {

constexpr size_t kFiberStackBytes =
    8 << 20;  // as threads have; pages that are not touched cost nothing
constexpr size_t kFiberGuardBytes = 64 << 10;  // a page at least, whatever pages are
constexpr size_t kKeptFiberStacks = 64;

void* NewFiberStack() {
  void* memory = mmap(nullptr, kFiberStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  CHECK(memory != MAP_FAILED) << "no memory for the stack of a fiber";
  mprotect(memory, kFiberGuardBytes, PROT_NONE);
  return memory;
}

// Stacks that nobody runs on, for the next who needs some.
class FiberStacks {
 public:
  void* Take() {
    std::lock_guard lock(mutex_);
    if (kept_.empty()) return NewFiberStack();
    void* stack = kept_.back();
    kept_.pop_back();
    return stack;
  }
  void Give(void* stack) {
    std::lock_guard lock(mutex_);
    if (kept_.size() < kKeptFiberStacks) {
      kept_.push_back(stack);
    } else {
      munmap(stack, kFiberStackBytes);
    }
  }

 private:
  std::mutex mutex_;
  std::vector<void*> kept_;
};

FiberStacks& FreeStacks() {
  static FiberStacks* store = new FiberStacks;  // threads may end after static objects have
  return *store;
}

thread_local constinit Fibers* entering = nullptr;  // whose fiber begins

}  // namespace

struct Fibers::Fiber {
  StackSwitch context;
  void* stack = nullptr;  // null: the thread's own
  int64_t piece = 0;
  size_t place = 0;
  // What it waits for; null: nothing.
  const std::atomic<uint32_t>* news = nullptr;
  uint32_t seen = 0;
  bool finished = false;
#ifdef WEFT_FIBERS_TSAN
  void* tsan = nullptr;
#endif
#ifdef WEFT_FIBERS_ASAN
  void* fake = nullptr;
  const void* bottom = nullptr;
  size_t size = 0;
#endif
};

Fibers::Fibers(std::span<const int64_t> pieces, std::atomic<int>* busy)
    : busy_(busy), caller_(std::make_unique<Fiber>()), left_(pieces.size()) {
  for (int64_t piece : pieces) {
    Fiber& fiber = *fibers_.emplace_back(std::make_unique<Fiber>());
    fiber.piece = piece;
    fiber.place = fibers_.size() - 1;
  }
}

Fibers::~Fibers() {
  for (std::unique_ptr<Fiber>& fiber : fibers_) {
    if (fiber->stack == nullptr) continue;
#ifdef WEFT_FIBERS_TSAN
    __tsan_destroy_fiber(fiber->tsan);
#endif
    FreeStacks().Give(fiber->stack);
  }
}

void Fibers::SwitchTo(Fiber& from, Fiber& to) {
  current_ = &to;
  entering = this;
  Doing::Helping keep(Doing::Top());
  CancelFlag flag(CancelFlag::current());  // back here, the thread's flag is this fiber's again
  const uintptr_t stack_end = StackEnd();
#ifdef WEFT_FIBERS_TSAN
  if (from.tsan == nullptr) from.tsan = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(to.tsan, 0);
#endif
#ifdef WEFT_FIBERS_ASAN
  __sanitizer_start_switch_fiber(from.finished ? nullptr : &from.fake, to.bottom, to.size);
#endif
  from.context.SwitchTo(to.context);
#ifdef WEFT_FIBERS_ASAN
  __sanitizer_finish_switch_fiber(from.fake, nullptr, nullptr);
#endif
  SetStackEnd(stack_end);
}

void Fibers::Sleep(const std::atomic<uint32_t>& news, uint32_t seen) {
  if (busy_ != nullptr) busy_->fetch_sub(1, std::memory_order_relaxed);
  news.wait(seen, std::memory_order_acquire);
  if (busy_ != nullptr) busy_->fetch_add(1, std::memory_order_relaxed);
}

// Waits until there is one; the caller's own when all others are finished.
Fibers::Fiber* Fibers::NextReady(size_t after) {
  if (left_ == 0) return caller_.get();
  for (;;) {
    const uint32_t heard = bell_.load(std::memory_order_acquire);
    for (size_t k = 1; k <= fibers_.size(); ++k) {
      Fiber& fiber = *fibers_[(after + k) % fibers_.size()];
      if (fiber.finished) continue;
      if (fiber.news == nullptr || fiber.news->load(std::memory_order_acquire) != fiber.seen) {
        return &fiber;
      }
    }
    Sleep(bell_, heard);
  }
}

void Fibers::RunOne(Fiber& fiber) {
  (*fn_)(fiber.piece);
  fiber.finished = true;
  --left_;
}

void Fibers::Enter() {
  Fibers& all = *entering;
  Fiber& me = *all.current_;
#ifdef WEFT_FIBERS_ASAN
  const void** bottom = all.caller_->bottom == nullptr ? &all.caller_->bottom : nullptr;
  size_t* size = bottom != nullptr ? &all.caller_->size : nullptr;
  __sanitizer_finish_switch_fiber(nullptr, bottom, size);
#endif
  SetStackEnd(reinterpret_cast<uintptr_t>(me.stack) + kFiberGuardBytes);
  all.RunOne(me);
  all.SwitchTo(me, *all.NextReady(me.place));
}

void Fibers::Start(Fiber& fiber) {
  fiber.stack = FreeStacks().Take();
  void* bottom = static_cast<char*>(fiber.stack) + kFiberGuardBytes;
  constexpr size_t kBytes = kFiberStackBytes - kFiberGuardBytes;
  fiber.context.Prepare(bottom, kBytes, &Enter);
#ifdef WEFT_FIBERS_TSAN
  fiber.tsan = __tsan_create_fiber(0);
#endif
#ifdef WEFT_FIBERS_ASAN
  fiber.bottom = bottom;
  fiber.size = kBytes;
#endif
}

void Fibers::Run(const std::function<void(int64_t)>& fn) {
  fn_ = &fn;
  if (fibers_.empty()) return;
  if (fibers_.size() == 1) return RunOne(*fibers_[0]);  // needs no other stack
  for (std::unique_ptr<Fiber>& fiber : fibers_) Start(*fiber);
  SwitchTo(*caller_, *fibers_[0]);
}

void Fibers::Wait(const std::atomic<uint32_t>& news, uint32_t seen) {
  if (fibers_.size() == 1) {
    Sleep(news, seen);
    return;
  }
  Fiber& me = *current_;
  me.news = &news;
  me.seen = seen;
  Fiber& next = *NextReady(me.place);
  if (&next != &me) SwitchTo(me, next);
  me.news = nullptr;
}

void Fibers::Yield() {
  if (fibers_.size() == 1) return;
  Fiber& me = *current_;  // waits for nothing, so that there is a next one
  Fiber& next = *NextReady(me.place);
  if (&next != &me) SwitchTo(me, next);
}

void Fibers::Tell(std::atomic<uint32_t>& news) {
  news.fetch_add(1, std::memory_order_release);
  if (fibers_.size() == 1) return news.notify_one();
  bell_.fetch_add(1, std::memory_order_release);
  bell_.notify_one();
}

}  // namespace weft
