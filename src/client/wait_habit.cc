#include "client/wait_habit.h"

#include <algorithm>
#include <chrono>

namespace weft::client {
namespace {

// JAX wraps results in this time, unless they are many.
constexpr std::chrono::microseconds kAtOnce(100);
constexpr int kHabit = 2;  // times

}  // namespace

// The last call that returned on a thread and was not waited for yet.
struct WaitHabit::Last {
  std::shared_ptr<State> state;
  std::chrono::steady_clock::time_point returned;
};

WaitHabit::Last& WaitHabit::OfThread() {
  thread_local Last last;
  return last;
}

bool WaitHabit::Begin() {
  bool asked = state_->asked.exchange(false, std::memory_order_relaxed);
  int times = asked ? std::min(state_->times.load(std::memory_order_relaxed) + 1, kHabit) : 0;
  state_->times.store(times, std::memory_order_relaxed);
  return times >= kHabit;
}

void WaitHabit::End() const {
  OfThread() = {state_, std::chrono::steady_clock::now()};
}

void WaitHabit::Asked() {
  Last& last = OfThread();
  if (!last.state) return;
  bool at_once = std::chrono::steady_clock::now() - last.returned < kAtOnce;
  if (at_once) last.state->asked.store(true, std::memory_order_relaxed);
  last.state = nullptr;
}

}  // namespace weft::client
