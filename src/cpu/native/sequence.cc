#include "cpu/native/sequence.h"

#include <algorithm>
#include <cstring>

#include "program/target_facts.h"

namespace weft::cpu {

std::vector<SequenceStep::Argument> ArgumentsOf(const program::Program& program, const Plan& plan,
                                                const program::Step& step) {
  std::vector<SequenceStep::Argument> arguments;
  for (const program::Use& use : step.uses) {
    program::Slice slice = Resolve(program, use.slice);
    const Place& place = plan.places[slice.buffer];
    arguments.push_back({place.slot, place.offset + slice.offset});
  }
  return arguments;
}

void CopyMemory(ThreadPool& pool, std::byte* to, const std::byte* from, int64_t bytes) {
  // Bytes that a thread copies at once.
  constexpr int64_t kPiece = program::TargetFacts::kSecondLevelBytes / 4;
  if (bytes < 4 * kPiece) {
    if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
    return;
  }
  pool.ParallelFor(bytes, kPiece, [&](int64_t begin, int64_t end) {
    std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
  });
}

void FillMemory(std::byte* to, int64_t bytes, std::span<const std::byte> pattern) {
  if (bytes == 0) return;
  bool same =
      std::all_of(pattern.begin(), pattern.end(), [&](std::byte b) { return b == pattern[0]; });
  size_t size = static_cast<size_t>(bytes);
  if (same) {
    std::memset(to, static_cast<int>(pattern[0]), size);
    return;
  }
  // Doubling what is there already.
  size_t done = std::min(pattern.size(), size);
  std::memcpy(to, pattern.data(), done);
  while (done < size) {
    size_t more = std::min(done, size - done);
    std::memcpy(to + done, to, more);
    done += more;
  }
}

}  // namespace weft::cpu
