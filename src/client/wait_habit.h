// Whether callers wait for a program's results as soon as they have started it. Such a program may
// as well run on their thread: that saves handing it to another one and being woken by it.
#pragma once

#include <atomic>
#include <memory>

namespace weft::client {

class WaitHabit {
 public:
  WaitHabit() : state_(std::make_shared<State>()) {}

  // A call begins: whether the last ones were waited for at once.
  bool Begin();
  // It returns to the caller.
  void End() const;
  // The caller on this thread asks for some result.
  static void Asked();

 private:
  struct State {
    std::atomic<bool> asked = false;  // since the last call returned
    std::atomic<int> times = 0;       // in a row
  };
  struct Last;
  static Last& OfThread();
  std::shared_ptr<State> state_;
};

}  // namespace weft::client
