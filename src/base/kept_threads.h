// Threads that stay between uses, for work that must all be under way at once: pieces may wait for
// each other, which a pool of fewer threads would not survive.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/mutex.h"

namespace weft {

class KeptThreads {
 public:
  KeptThreads();
  ~KeptThreads();  // nothing runs any more
  KeptThreads(const KeptThreads&) = delete;

  // Calls fn(0) here and fn(1) to fn(n - 1) on a thread each, all at once; returns when all have.
  // Several callers may do so at a time.
  void Run(int64_t n, const std::function<void(int64_t)>& fn) WEFT_EXCLUDES(mutex_);

 private:
  struct Worker;
  struct Join;
  std::vector<std::unique_ptr<Worker>> Take(int64_t n) WEFT_EXCLUDES(mutex_);

  Mutex mutex_;
  std::vector<std::unique_ptr<Worker>> idle_ WEFT_GUARDED_BY(mutex_);
  int64_t process_ WEFT_GUARDED_BY(mutex_);  // threads do not follow into one that forks off
};

}  // namespace weft
