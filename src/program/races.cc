#include "program/races.h"

#include "program/work_bounds.h"

namespace weft::program::detail {

namespace {
constexpr size_t kMaxTasks = 4 * WorkBounds::kModule;  // after that it gives up looking
}  // namespace

void RaceDetector::BeginLoop(int64_t counter) {
  if (!enabled_) return;
  tasks_.push_back({current_, tasks_[current_].depth + 1, ++runs_, counter});
  current_ = static_cast<int32_t>(tasks_.size()) - 1;
}

void RaceDetector::NextIteration(int64_t counter) {
  if (!enabled_) return;
  if (tasks_.size() >= kMaxTasks) {
    enabled_ = false;
    return;
  }
  Task task = tasks_[current_];
  task.counter = counter;
  tasks_.push_back(task);
  current_ = static_cast<int32_t>(tasks_.size()) - 1;
}

void RaceDetector::EndLoop() {
  if (enabled_) current_ = tasks_[current_].parent;
}

void RaceDetector::NewArray(int32_t memory) {
  if (enabled_) last_[memory].clear();
}

// Two tasks may run at once if, below their last common ancestor, they are different iterations of
// one run of a loop. Different runs follow each other.
bool RaceDetector::Concurrent(int32_t a, int32_t b) const {
  while (tasks_[a].depth > tasks_[b].depth) a = tasks_[a].parent;
  while (tasks_[b].depth > tasks_[a].depth) b = tasks_[b].parent;
  while (a != b) {
    if (tasks_[a].parent == tasks_[b].parent) return tasks_[a].run == tasks_[b].run;
    a = tasks_[a].parent;
    b = tasks_[b].parent;
  }
  return false;
}

std::unexpected<Error> RaceDetector::Race(int32_t memory, int64_t element, bool write) const {
  return InvalidArgument("kernel ", kernel_.name, ": iterations of a concurrent loop ",
                         write ? "write" : "read and write", " the same element ", element, " of '",
                         kernel_.memories[memory].name, "'");
}

Status RaceDetector::Touch(int32_t memory, int64_t element, bool write) {
  if (!enabled_) return {};
  Touched& touched = last_[memory][element];
  bool race = touched.writer >= 0 && Concurrent(touched.writer, current_);
  race |= touched.updater >= 0 && Concurrent(touched.updater, current_);
  race |= write && touched.reader >= 0 && Concurrent(touched.reader, current_);
  if (race) return Race(memory, element, write);
  (write ? touched.writer : touched.reader) = current_;
  return {};
}

Status RaceDetector::TouchAtomic(int32_t memory, int64_t element, Op op) {
  if (!enabled_) return {};
  Touched& touched = last_[memory][element];
  bool race = touched.writer >= 0 && Concurrent(touched.writer, current_);
  race |= touched.reader >= 0 && Concurrent(touched.reader, current_);
  race |= touched.updater >= 0 && touched.atomic != op && Concurrent(touched.updater, current_);
  if (race) return Race(memory, element, true);
  touched.updater = current_;
  touched.atomic = op;
  return {};
}

}  // namespace weft::program::detail
