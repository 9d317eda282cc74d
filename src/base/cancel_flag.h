// Whether the work of a thread shall end early: long work looks now and then, and what it makes
// from then on is thrown away. A thread of a pool that helps another one looks at that one's flag.
#pragma once

#include <atomic>

namespace weft {

class CancelFlag {
 public:
  // While one lives, this thread's work ends early once `flag` is set, which stays set until all
  // who work for it have ended. Null: it does not.
  explicit CancelFlag(const std::atomic<bool>* flag) : outer_(flag_) { flag_ = flag; }
  ~CancelFlag() { flag_ = outer_; }
  CancelFlag(const CancelFlag&) = delete;

  static bool IsSet() { return flag_ != nullptr && flag_->load(std::memory_order_relaxed); }
  static const std::atomic<bool>* current() { return flag_; }

 private:
  const std::atomic<bool>* const outer_;
  [[gnu::tls_model("initial-exec")]] static constinit thread_local const std::atomic<bool>* flag_;
};

}  // namespace weft
