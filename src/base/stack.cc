#include "base/stack.h"

#include <pthread.h>

namespace weft {
namespace {

// The lowest address of this thread's stack; 0 where it is not known.
uintptr_t EndOfThread() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 0;
  void* lowest = nullptr;
  size_t size = 0;
  bool known = pthread_attr_getstack(&attributes, &lowest, &size) == 0;
  pthread_attr_destroy(&attributes);
  return known ? reinterpret_cast<uintptr_t>(lowest) : 0;
}

thread_local uintptr_t stack_end = EndOfThread();

}  // namespace

uintptr_t StackEnd() {
  return stack_end;
}

void SetStackEnd(uintptr_t end) {
  stack_end = end;
}

bool IsStackShort() {
  constexpr uintptr_t kSpare = 256 << 10;  // for what a level calls that does not nest
  const uintptr_t end = stack_end;
  auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  return here > end && here - end < kSpare;
}

}  // namespace weft
