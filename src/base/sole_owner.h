// Copy on write: whether bytes behind a shared_ptr may be written in place.
#pragma once

#include <atomic>
#include <memory>

#if defined(__SANITIZE_THREAD__)
#define WEFT_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WEFT_TSAN 1
#endif
#endif

namespace weft {

// Nobody else holds what `pointer` holds, and whatever others did with it before they let go has
// happened. The caller must be the only one to use `pointer` itself.
template <class T>
bool IsSoleOwner(const std::shared_ptr<T>& pointer) {
  if (pointer.use_count() != 1) return false;
  // use_count() is a relaxed load; together with the fence it synchronizes with the release in the
  // other holders' decrements. ThreadSanitizer does not know fences, it is shown a
  // read-modify-write of the same counter instead.
#ifdef WEFT_TSAN
  std::shared_ptr<T> acquire = pointer;
#else
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
  return true;
}

}  // namespace weft
