// A mutex and its lock that clang's thread-safety analysis understands.
#pragma once

#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define WEFT_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define WEFT_THREAD_ATTRIBUTE(x)
#endif
#define WEFT_GUARDED_BY(x) WEFT_THREAD_ATTRIBUTE(guarded_by(x))
#define WEFT_REQUIRES(...) WEFT_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define WEFT_EXCLUDES(...) WEFT_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))

namespace weft {

class WEFT_THREAD_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  void Lock() WEFT_THREAD_ATTRIBUTE(acquire_capability()) { mutex_.lock(); }
  bool TryLock() WEFT_THREAD_ATTRIBUTE(try_acquire_capability(true)) { return mutex_.try_lock(); }
  void Unlock() WEFT_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }
  // Releases the mutex until woken, then holds it again; may return without a reason.
  void Wait(std::condition_variable& condition) WEFT_REQUIRES(this) {
    std::unique_lock<std::mutex> lock(mutex_, std::adopt_lock);
    condition.wait(lock);
    lock.release();
  }
  // The same, until then at most.
  template <class Time>
  void WaitUntil(std::condition_variable& condition, const Time& until) WEFT_REQUIRES(this) {
    std::unique_lock<std::mutex> lock(mutex_, std::adopt_lock);
    condition.wait_until(lock, until);
    lock.release();
  }

 private:
  std::mutex mutex_;
};

class WEFT_THREAD_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) WEFT_THREAD_ATTRIBUTE(acquire_capability(mutex))
      : mutex_(mutex) {
    mutex_.Lock();
  }
  ~MutexLock() WEFT_THREAD_ATTRIBUTE(release_capability()) { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace weft
