#include "cpu/routines/scratch.h"

#include <algorithm>

namespace weft::cpu {
namespace {

int64_t WholeUnits(int64_t bytes) {
  constexpr auto kUnit = static_cast<int64_t>(kStorageAlignment);
  return (bytes + kUnit - 1) / kUnit * kUnit;
}

}  // namespace

ScratchRoom::ScratchRoom(std::span<std::byte> room) {
  if (!room.empty()) free_.push_back({room.data(), room.data() + room.size()});
}

std::byte* ScratchRoom::Take(int64_t bytes) {
  bytes = WholeUnits(bytes);
  MutexLock lock(mutex_);
  for (size_t i = 0; i < free_.size(); ++i) {
    Part& part = free_[i];
    if (part.end - part.begin < bytes) continue;
    std::byte* taken = part.begin;
    part.begin += bytes;
    if (part.begin == part.end) free_.erase(free_.begin() + static_cast<ptrdiff_t>(i));
    return taken;
  }
  return nullptr;
}

void ScratchRoom::Give(std::byte* part, int64_t bytes) {
  Part given = {part, part + WholeUnits(bytes)};
  MutexLock lock(mutex_);
  auto next =
      std::find_if(free_.begin(), free_.end(), [&](const Part& p) { return p.begin >= given.end; });
  if (next != free_.end() && next->begin == given.end) {
    next->begin = given.begin;
  } else {
    next = free_.insert(next, given);
  }
  if (next == free_.begin()) return;
  auto before = next - 1;
  if (before->end != next->begin) return;
  before->end = next->end;
  free_.erase(next);
}

}  // namespace weft::cpu
