// Panels that the tasks of one product share: packed once, by whoever comes to them first, while
// tasks that have theirs run already.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "program/target_facts.h"

namespace weft::cpu {

// Units of panels that are packed together. A thread waits for units that others are packing, never
// for those that nobody has begun, and packing waits for nothing.
class PanelUnits {
 public:
  explicit PanelUnits(int64_t count) : states_(static_cast<size_t>(count)) {}

  int64_t count() const { return static_cast<int64_t>(states_.size()); }

  // Calls pack() unless somebody has begun with the unit.
  template <class Fn>
  void Pack(int64_t unit, const Fn& pack) {
    std::atomic<int32_t>& state = At(unit);
    int32_t free = kFree;
    if (state.load(std::memory_order_relaxed) != kFree) return;
    if (!state.compare_exchange_strong(free, kBegun, std::memory_order_relaxed)) return;
    pack();
    state.store(kPacked, std::memory_order_release);
  }

  // Until the unit is packed; somebody has begun with it, and is done before a thread that sleeps
  // would wake. Where threads are more than cores, it may be that thread's turn. A look takes some
  // hundred nanoseconds.
  void Await(int64_t unit) {
    constexpr auto kLooks = static_cast<int>(program::TargetFacts::kPieceNanoseconds / 100);
    std::atomic<int32_t>& state = At(unit);
    for (int look = 0; state.load(std::memory_order_acquire) != kPacked; ++look) {
      if (look >= kLooks) std::this_thread::yield();
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  }

 private:
  enum State : int32_t { kFree, kBegun, kPacked };
  std::atomic<int32_t>& At(int64_t unit) { return states_[static_cast<size_t>(unit)]; }

  std::vector<std::atomic<int32_t>> states_;
};

// In which order threads take units and tasks up: of each share of a loop (base/thread_pool.h) the
// units come first. No fewer tasks than shares.
struct UnitsThenTasks {
  int64_t units, tasks, shares;

  int64_t count() const { return units + tasks; }
  // A task, or less than 0: -1 - unit.
  int64_t At(int64_t index) const {
    int64_t share = ((index + 1) * shares - 1) / count();
    int64_t begin = share * count() / shares, unit = share * units / shares;
    int64_t own_units = (share + 1) * units / shares - unit, place = index - begin;
    return place < own_units ? -1 - (unit + place) : begin - unit + place - own_units;
  }
};

}  // namespace weft::cpu
