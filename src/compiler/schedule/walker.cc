// Running an order of jobs on the model, one job at a time.
#include <algorithm>

#include "compiler/schedule/problem.h"

namespace weft::compiler::schedule {
namespace {

// A done that nothing waits for is put where its transfer has ended even if the link is slower than
// the model says by this part of it.
constexpr double kDoneSlack = 0.3;

}  // namespace

Walker::Walker(const Problem& problem)
    : problem_(problem),
      wire_(static_cast<size_t>(problem.overlap), 0.0),
      copy_(1, 0.0),
      end_(problem.size(), -1),
      waiting_(problem.size()),
      left_(problem.readers),
      is_open_(problem.size(), 0) {
  for (size_t n = 0; n < problem.size(); ++n) {
    waiting_[n] = static_cast<int32_t>(problem.jobs[n].preds.size());
    if (waiting_[n] == 0) ready_.push_back(static_cast<int32_t>(n));
  }
}

double Walker::Backlog(Stream stream) const {
  const std::vector<double>& lanes = stream == Stream::kCopy ? copy_ : wire_;
  return std::max(0.0, *std::min_element(lanes.begin(), lanes.end()) - now_);
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
  return std::max(at, *std::min_element(wire_.begin(), wire_.end()));
}

int64_t Walker::Increase(int32_t job) const {
  int64_t bytes = 0;
  for (int32_t b : problem_.jobs[static_cast<size_t>(job)].makes) {
    bytes += problem_.bytes[static_cast<size_t>(b)];
  }
  return bytes;
}

int64_t Walker::Release(int32_t job) const {
  int64_t bytes = 0;
  for (int32_t b : problem_.jobs[static_cast<size_t>(job)].reads) {
    if (left_[static_cast<size_t>(b)] == 1) bytes += problem_.bytes[static_cast<size_t>(b)];
  }
  return bytes;
}

void Walker::Free(const Job& job) {
  for (int32_t b : job.reads) {
    if (--left_[static_cast<size_t>(b)] == 0) live_ -= problem_.bytes[static_cast<size_t>(b)];
  }
}

void Walker::Close(int32_t job) {
  if (!is_open_[static_cast<size_t>(job)]) return;
  is_open_[static_cast<size_t>(job)] = 0;
  open_.erase(std::find(open_.begin(), open_.end(), job));
  events_.push_back(~job);
  Free(problem_.jobs[static_cast<size_t>(job)]);
}

void Walker::CloseFinished() {
  for (size_t k = 0; k < open_.size();) {
    int32_t job = open_[k];
    double slack = kDoneSlack * problem_.jobs[static_cast<size_t>(job)].seconds;
    if (end(job) + slack <= now_) {
      Close(job);
    } else {
      ++k;
    }
  }
}

// Waits for the transfers that end first, where as many as may be are between start and done.
void Walker::MakeRoom() {
  auto is_wire = [&](int32_t job) {
    return problem_.jobs[static_cast<size_t>(job)].stream == Stream::kWire;
  };
  while (std::count_if(open_.begin(), open_.end(), is_wire) >= problem_.overlap) {
    int32_t first = -1;
    for (int32_t job : open_) {
      if (is_wire(job) && (first < 0 || end(job) < end(first))) first = job;
    }
    Close(first);
  }
}

void Walker::Place(int32_t number) {
  const Job& job = problem_.jobs[static_cast<size_t>(number)];
  now_ = ReadyTime(number);
  for (int32_t p : job.preds) Close(p);
  double end = 0;
  if (job.stream == Stream::kCompute) {
    CloseFinished();
    end = now_ += job.seconds;
  } else {
    bool is_copy = job.stream == Stream::kCopy;
    std::vector<double>& lanes = is_copy ? copy_ : wire_;
    double& last = is_copy ? last_copy_ : last_wire_;
    auto lane = std::min_element(lanes.begin(), lanes.end());
    double begin = 0;
    if (problem_.metric == Metric::kQueues) {
      begin = std::max({now_, last, *lane});
    } else if (is_copy) {
      begin = now_;
    } else {
      begin = now_ = std::max(now_, *lane);
      MakeRoom();
    }
    last = begin;
    end = begin + job.seconds;
    *lane = std::max(*lane, end);
    if (!job.is_async) now_ = end;
  }
  end_[static_cast<size_t>(number)] = end;
  length_ = std::max(length_, end);
  events_.push_back(number);
  for (int32_t b : job.makes) live_ += problem_.bytes[static_cast<size_t>(b)];
  peak_ = std::max(peak_, live_);
  if (job.is_async) {
    open_.push_back(number);
    is_open_[static_cast<size_t>(number)] = 1;
  } else {
    Free(job);
  }
  for (int32_t b : job.makes) {
    if (left_[static_cast<size_t>(b)] == 0) live_ -= problem_.bytes[static_cast<size_t>(b)];
  }
  ready_.erase(std::find(ready_.begin(), ready_.end(), number));
  for (int32_t s : job.succs) {
    if (--waiting_[static_cast<size_t>(s)] == 0) ready_.push_back(s);
  }
}

void Walker::Finish() {
  while (!open_.empty()) Close(open_.front());
}

Evaluation Evaluate(const Problem& problem, const std::vector<int32_t>& order) {
  Walker walker(problem);
  for (int32_t job : order) walker.Place(job);
  return {walker.length(), walker.peak()};
}

}  // namespace weft::compiler::schedule
