// Running an order of jobs on the model, one job at a time.
#include <algorithm>

#include "compiler/schedule/problem.h"

namespace weft::compiler::schedule {

Walker::Walker(const Problem& problem, bool follows_ready)
    : problem_(problem),
      follows_ready_(follows_ready),
      wire_(static_cast<size_t>(problem.overlap), 0.0),
      copy_(1, 0.0),
      gate_(problem.rules),
      end_(problem.size(), -1),
      left_(problem.readers),
      is_open_(problem.size(), 0) {
  events_.reserve(problem.size());
  if (!follows_ready) return;
  waiting_.resize(problem.size());
  left_set_ = problem.reader_set;
  release_.assign(problem.size(), 0);
  for (size_t n = 0; n < problem.size(); ++n) {
    waiting_[n] = static_cast<int32_t>(problem.jobs[n].preds.size());
    if (waiting_[n] == 0) fresh_.push_back(static_cast<int32_t>(n));
  }
  for (size_t b = 0; b < left_.size(); ++b) {
    if (left_[b] == 1) NoteRelease(static_cast<int32_t>(b));
  }
  released_.clear();
}

double Walker::FreeWire() const {
  return *std::min_element(wire_.begin(), wire_.end());
}

double Walker::ReadyTime(int32_t job) const {
  double at = now_;
  for (int32_t p : problem_.jobs[static_cast<size_t>(job)].preds) at = std::max(at, end(p));
  return at;
}

double Walker::SlotTime(int32_t job) const {
  const Job& j = problem_.jobs[static_cast<size_t>(job)];
  double at = ReadyTime(job);
  if (problem_.metric == Metric::kQueues || j.stream != Stream::kWire) return at;
  return std::max(at, FreeWire());
}

int64_t Walker::Increase(int32_t job) const {
  int64_t bytes = 0;
  for (int32_t b : problem_.jobs[static_cast<size_t>(job)].makes) {
    bytes += problem_.bytes[static_cast<size_t>(b)];
  }
  return bytes;
}

// One reader is left: what it would let go of.
void Walker::NoteRelease(int32_t buffer) {
  int32_t reader = left_set_[static_cast<size_t>(buffer)];
  if (reader == Problem::kKept) return;
  release_[static_cast<size_t>(reader)] += problem_.bytes[static_cast<size_t>(buffer)];
  released_.push_back(reader);
}

void Walker::Free(int32_t number) {
  for (int32_t b : problem_.jobs[static_cast<size_t>(number)].reads) {
    int32_t left = --left_[static_cast<size_t>(b)];
    if (left == 0) live_ -= problem_.bytes[static_cast<size_t>(b)];
    if (!follows_ready_) continue;
    left_set_[static_cast<size_t>(b)] ^= number;
    if (left == 1) NoteRelease(b);
  }
}

void Walker::Close(int32_t job) {
  if (!is_open_[static_cast<size_t>(job)]) return;
  is_open_[static_cast<size_t>(job)] = 0;
  flying_ -= problem_.jobs[static_cast<size_t>(job)].stream == Stream::kWire;
  events_.push_back(~job);
  Free(job);
}

void Walker::CloseFinished() {
  while (!open_.empty() && open_.top().first <= now_) {
    int32_t job = open_.top().second;
    open_.pop();
    Close(job);
  }
}

// Waits for the transfers that end first, where with those to come more than may be would be
// between start and done.
void Walker::MakeRoom(int64_t needed) {
  while (flying_ > 0 && flying_ + needed > problem_.overlap && !open_wires_.empty()) {
    auto [end, first] = open_wires_.top();
    open_wires_.pop();
    if (is_open_[static_cast<size_t>(first)]) now_ = std::max(now_, end);
    Close(first);
  }
}

// When it ends: its transfers are issued first and take their turns on the wire, its compute runs
// beside them.
double Walker::PlaceGroup(const Job& job) {
  double end = now_ + job.beside;
  for (double seconds : job.transfers) {
    auto lane = std::min_element(wire_.begin(), wire_.end());
    last_wire_ = std::max({now_, last_wire_, *lane});
    *lane = last_wire_ + seconds;
    end = std::max(end, *lane);
  }
  return end;
}

void Walker::Place(int32_t number) {
  const Job& job = problem_.jobs[static_cast<size_t>(number)];
  fresh_.clear();
  released_.clear();
  now_ = ReadyTime(number);
  for (int32_t p : job.preds) Close(p);
  double end = 0;
  if (job.stream == Stream::kCompute) {
    if (job.wires_inside > 0 && problem_.metric == Metric::kInFlight) MakeRoom(job.wires_inside);
    CloseFinished();
    end = now_ = job.transfers.empty() ? now_ + job.seconds : PlaceGroup(job);
  } else {
    bool is_copy = job.stream == Stream::kCopy;
    std::vector<double>& lanes = is_copy ? copy_ : wire_;
    double& last = is_copy ? last_copy_ : last_wire_;
    auto lane = std::min_element(lanes.begin(), lanes.end());
    double begin = 0;
    if (problem_.metric == Metric::kQueues) {
      begin = std::max({now_, last, *lane});
      if (!is_copy) begin = gate_.Earliest(job.wire_class, begin);
    } else if (is_copy) {
      begin = now_;
    } else {
      now_ = gate_.Earliest(job.wire_class, std::max(now_, *lane));
      MakeRoom(1);
      begin = now_;
    }
    last = begin;
    end = begin + job.seconds;
    *lane = std::max(*lane, end);
    if (!is_copy) gate_.Take(job.wire_class, end);
    if (!job.is_async) now_ = end;
  }
  end_[static_cast<size_t>(number)] = end;
  length_ = std::max(length_, end);
  events_.push_back(number);
  for (int32_t b : job.makes) live_ += problem_.bytes[static_cast<size_t>(b)];
  peak_ = std::max(peak_, live_);
  if (job.is_async) {
    open_.emplace(end + kDoneSlack * job.seconds, number);
    is_open_[static_cast<size_t>(number)] = 1;
    if (job.stream == Stream::kWire) {
      ++flying_;
      if (problem_.metric == Metric::kInFlight) open_wires_.emplace(end, number);
    }
  } else {
    Free(number);
  }
  for (int32_t b : job.makes) {
    if (left_[static_cast<size_t>(b)] == 0) live_ -= problem_.bytes[static_cast<size_t>(b)];
  }
  if (!follows_ready_) return;
  for (int32_t s : job.succs) {
    if (--waiting_[static_cast<size_t>(s)] == 0) fresh_.push_back(s);
  }
}

void Walker::Finish() {
  for (size_t k = 0, placed = events_.size(); k < placed; ++k) {
    if (events_[k] >= 0) Close(events_[k]);
  }
}

Evaluation Evaluate(const Problem& problem, const std::vector<int32_t>& order) {
  Walker walker(problem);
  for (int32_t job : order) walker.Place(job);
  return {walker.length(), walker.peak()};
}

}  // namespace weft::compiler::schedule
