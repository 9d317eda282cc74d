#include "cpu/native/sequence.h"

#include <algorithm>
#include <cstring>

#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::cpu {
namespace {

// Kernels: each is compared with all of them.
constexpr int64_t kMostTogether = program::WorkBounds::kPath;

// Whether one of both writes what the other one uses.
bool Conflict(const SequenceStep& a, const SequenceStep& b) {
  for (size_t i = 0; i < a.arguments.size(); ++i) {
    const program::Use& x = a.step->uses[i];
    for (size_t j = 0; j < b.arguments.size(); ++j) {
      const program::Use& y = b.step->uses[j];
      if (a.arguments[i].slot != b.arguments[j].slot) continue;
      if (x.access == program::Access::kRead && y.access == program::Access::kRead) continue;
      int64_t p = a.arguments[i].offset, q = b.arguments[j].offset;
      if (p < q + y.slice.size && q < p + x.slice.size) return true;
    }
  }
  return false;
}

}  // namespace

void JoinIndependentKernels(std::vector<SequenceStep>& steps) {
  auto is_kernel = [](const SequenceStep& s) { return s.kind == SequenceStep::Kind::kKernel; };
  for (size_t first = 0; first < steps.size();) {
    size_t end = first + 1;
    bool parallel = steps[first].n > 1;
    auto joins = [&](const SequenceStep& next) {
      return is_kernel(next) &&
             std::none_of(steps.begin() + static_cast<ptrdiff_t>(first),
                          steps.begin() + static_cast<ptrdiff_t>(end),
                          [&](const SequenceStep& s) { return Conflict(s, next); });
    };
    while (is_kernel(steps[first]) && end < steps.size() &&
           static_cast<int64_t>(end - first) < kMostTogether && joins(steps[end])) {
      parallel |= steps[end++].n > 1;
    }
    // Kernels of one piece each are over before another thread is awake.
    if (parallel) steps[first].together = static_cast<int64_t>(end - first);
    first = end;
  }
}

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
