// Ending what runs before it is done: for one who waits for it (interrupt.h), or because the client
// goes.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "base/mutex.h"

namespace weft::client {

class Event;

// What will set an event: an execution, a compilation.
class Cancellable {
 public:
  virtual ~Cancellable() = default;
  // Its events fail with CANCELLED at once, whatever it is at; the work itself ends soon after.
  // What it waits for is added to `before`. From any thread, any number of times.
  virtual void Cancel(std::vector<std::shared_ptr<Event>>& before) = 0;
};

// What makes these events come, and what that waits for in turn, is cancelled.
void CancelAll(std::vector<std::shared_ptr<Event>> events);

// The flags of all work of a client that runs.
class CancelList {
 public:
  // While one lives, CancelAll sets the flag.
  class Entry {
   public:
    Entry(CancelList& list, std::atomic<bool>& flag) : list_(list), flag_(flag) {
      MutexLock lock(list_.mutex_);
      if (list_.all_) flag_ = true;
      list_.flags_.push_back(&flag_);
    }
    ~Entry() {
      MutexLock lock(list_.mutex_);
      std::erase(list_.flags_, &flag_);
    }
    Entry(const Entry&) = delete;

   private:
    CancelList& list_;
    std::atomic<bool>& flag_;
  };
  // Also of work that begins later.
  void CancelAll() WEFT_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    all_ = true;
    for (std::atomic<bool>* flag : flags_) *flag = true;
  }

 private:
  Mutex mutex_;
  bool all_ WEFT_GUARDED_BY(mutex_) = false;
  std::vector<std::atomic<bool>*> flags_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft::client
