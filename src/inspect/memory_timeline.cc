#include "inspect/memory_timeline.h"

#include <algorithm>
#include <map>
#include <string>

namespace weft::inspect {
namespace {

using program::BufferKind;
using program::Program;
using program::Step;

struct Loop {
  int64_t begin, end;  // numbers of its steps, inclusive
};

int64_t CountSteps(const std::vector<Step>& steps) {
  int64_t count = 0;
  program::ForEachStep(steps, [&](const Step&) { ++count; });
  return count;
}

class LifeFinder {
 public:
  explicit LifeFinder(const Program& program)
      : program_(program),
        lives_(program.buffers.size()),
        reads_first_(program.buffers.size()),
        first_in_(program.buffers.size()) {}

  MemoryTimeline Run() {
    Walk(program_.steps);
    JoinViews();
    MemoryTimeline timeline;
    timeline.steps = next_;
    for (const BufferLife& life : lives_) {
      if (life.buffer >= 0 && IsTemporary(life.buffer)) timeline.lives.push_back(life);
    }
    FindPeak(timeline);
    return timeline;
  }

 private:
  // The arena itself is none: no step uses it.
  bool IsTemporary(program::BufferId id) const {
    const program::Buffer& buffer = program_.buffers[id];
    return buffer.kind == BufferKind::kTemp &&
           (buffer.base < 0 || program_.buffers[buffer.base].kind == BufferKind::kTemp);
  }

  void Walk(const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      int64_t at = next_++;
      for (const program::Use& use : step.uses) Touch(use, step, at);
      if (!step.event.empty()) started_[step.event] = &step;
      if (auto* wait = std::get_if<program::WaitStep>(&step.op)) TouchAll(wait->event, at);
      if (auto* loop = std::get_if<program::WhileStep>(&step.op)) {
        loops_.push_back({at, at + CountSteps(loop->condition) + CountSteps(loop->body)});
        for (const program::Use& use : step.uses) Touch(use, step, at);
        Walk(loop->condition);
        Walk(loop->body);
        loops_.pop_back();
      } else if (auto* conditional = std::get_if<program::ConditionalStep>(&step.op)) {
        for (const std::vector<Step>& branch : conditional->branches) Walk(branch);
      } else if (auto* list = std::get_if<program::ListStep>(&step.op)) {
        Walk(list->steps);
      }
    }
  }

  // What an asynchronous step uses is its own up to its wait.
  void TouchAll(const std::string& event, int64_t at) {
    auto found = started_.find(event);
    if (found == started_.end()) return;
    for (const program::Use& use : AllUses(*found->second)) Touch(use, *found->second, at);
    started_.erase(found);
  }

  void Touch(const program::Use& use, const Step& step, int64_t at) {
    BufferLife& life = lives_[use.slice.buffer];
    const bool writes = program::Writes(use.access);
    if (life.buffer < 0) {
      life = {.buffer = use.slice.buffer,
              .bytes = program::ByteSize(program_.buffers[use.slice.buffer]).value_or(0),
              .first = at,
              .last = at,
              .maker = &step};
      reads_first_[use.slice.buffer] = use.access != program::Access::kWrite;
      first_in_[use.slice.buffer] = loops_;
    }
    if (writes && !written_.contains(use.slice.buffer)) {
      written_[use.slice.buffer] = true;
      life.maker = &step;
    }
    life.last = std::max(life.last, at);
    // A round leaves it for what comes behind the loop; those before may have written parts.
    for (const Loop& loop : first_in_[use.slice.buffer]) {
      if (at > loop.end) life.first = std::min(life.first, loop.begin);
    }
    for (const Loop& loop : loops_) {
      // Set before the loop, or by a round for the next.
      if (life.first >= loop.begin && !reads_first_[use.slice.buffer]) continue;
      life.first = std::min(life.first, loop.begin);
      life.last = std::max(life.last, loop.end);
    }
  }

  // Buffers at one place, the later of which is read first: another shape of the same value.
  void JoinViews() {
    std::map<std::pair<program::BufferId, int64_t>, std::vector<program::BufferId>> places;
    for (const BufferLife& life : lives_) {
      if (life.buffer < 0 || !IsTemporary(life.buffer)) continue;
      const program::Buffer& buffer = program_.buffers[life.buffer];
      if (buffer.base >= 0) places[{buffer.base, buffer.offset}].push_back(life.buffer);
    }
    for (auto& [place, ids] : places) {
      std::sort(ids.begin(), ids.end(), [&](program::BufferId a, program::BufferId b) {
        return std::pair(lives_[a].first, a) < std::pair(lives_[b].first, b);
      });
      program::BufferId before = -1;
      for (program::BufferId id : ids) {
        BufferLife& life = lives_[id];
        bool joins = before >= 0 && (reads_first_[id] || lives_[before].last >= life.first);
        if (!joins) {
          before = id;
          continue;
        }
        lives_[before].last = std::max(lives_[before].last, life.last);
        lives_[before].bytes = std::max(lives_[before].bytes, life.bytes);
        life.buffer = -1;
      }
    }
  }

  static void FindPeak(MemoryTimeline& timeline) {
    std::vector<int64_t> change(static_cast<size_t>(timeline.steps) + 1, 0);
    for (const BufferLife& life : timeline.lives) {
      change[static_cast<size_t>(life.first)] += life.bytes;
      change[static_cast<size_t>(life.last) + 1] -= life.bytes;
    }
    int64_t bytes = 0;
    for (int64_t at = 0; at < timeline.steps; ++at) {
      bytes += change[static_cast<size_t>(at)];
      if (bytes > timeline.peak) timeline.peak = bytes, timeline.peak_at = at;
    }
  }

  const Program& program_;
  std::vector<BufferLife> lives_;  // by buffer; without one: not used
  std::vector<bool> reads_first_;
  std::vector<std::vector<Loop>> first_in_;  // the loops around the first use
  std::map<program::BufferId, bool> written_;
  std::vector<Loop> loops_;
  std::map<std::string, const Step*> started_;  // asynchronous steps under way, by event
  int64_t next_ = 0;
};

}  // namespace

MemoryTimeline TimelineOf(const Program& program) {
  return LifeFinder(program).Run();
}

}  // namespace weft::inspect
