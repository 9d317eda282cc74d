// Long work says how far it is: a line on the terminal that changes, and goes when the work is
// done. Where standard error is no terminal, nothing, or a line now and then.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>

#include "base/mutex.h"

namespace weft {

struct ProgressOptions {
  double after = 0.5;  // seconds from which on something is shown
  bool lines = false;  // where there is no terminal: a line every 5 s
  // The line is shown by a thread of its own, also while nothing new is said. Not for those who
  // fork: the thread may be writing then.
  bool ticks = false;
};

class Progress {
 public:
  // "weft: WHAT: SAID, 12 s".
  explicit Progress(std::string what, ProgressOptions options = {});
  ~Progress();
  Progress(const Progress&) = delete;

  // What is being done now; any thread.
  void Say(std::string text) WEFT_EXCLUDES(mutex_);
  void Say(int64_t done, int64_t of, std::string_view text = "");  // "12 of 40 TEXT"
  // Takes the line off a terminal, before something else is written there.
  void Clear() WEFT_EXCLUDES(mutex_);
  // Whether anything that is said can be seen.
  bool shows() const { return shows_; }

 private:
  using Clock = std::chrono::steady_clock;
  void Watch() WEFT_EXCLUDES(mutex_);
  void Draw() WEFT_REQUIRES(mutex_);
  void Erase() WEFT_REQUIRES(mutex_);

  const std::string what_;
  const bool terminal_, shows_;
  const Clock::time_point start_;
  Mutex mutex_;
  std::condition_variable wake_;
  Clock::time_point next_ WEFT_GUARDED_BY(mutex_);  // when to draw again
  std::string text_ WEFT_GUARDED_BY(mutex_);
  bool drawn_ WEFT_GUARDED_BY(mutex_) = false, stopping_ WEFT_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace weft
