#include "base/device_threads.h"

#include <algorithm>
#include <utility>

#include "base/doing.h"
#include "base/float_mode.h"
#include "base/str.h"
#include "base/thread_limit.h"
#include "base/thread_pool.h"

namespace weft {

DeviceThreads::DeviceThreads(int64_t devices)
    : devices_(devices), state_(static_cast<size_t>(devices)), running_(devices) {}

// Neighbours share a thread.
void DeviceThreads::MakeCrews(int64_t threads) {
  MutexLock lock(mutex_);
  std::vector<int64_t> pieces;
  for (int64_t thread = 0, d = 0; thread < threads; ++thread) {
    pieces.clear();
    for (; d < devices_ && d * threads / devices_ == thread; ++d) pieces.push_back(d);
    crews_.push_back(std::make_unique<Fibers>(pieces, &busy_));
    for (int64_t piece : pieces) state_[static_cast<size_t>(piece)].crew = crews_.back().get();
  }
}

Status DeviceThreads::RunThreads(const std::function<Status(int64_t)>& fn, KeptThreads* kept,
                                 int64_t threads, const std::function<void()>* beside) {
  KeptThreads own;
  if (threads <= 0 || threads > devices_) threads = devices_;
  MakeCrews(threads);
  const bool flush = FloatMode::Flushes();
  const Doing* doing = Doing::Top();
  // A core is a device's first: helpers of one's loops would take it from the others.
  const int cores = std::min(ThreadLimit::current(), DefaultPool().threads());
  busy_ = static_cast<int>(threads);
  const int64_t all = threads + (beside != nullptr ? 1 : 0);
  (kept != nullptr ? *kept : own).Run(all, [&](int64_t thread) {
    if (thread == threads) {
      FloatMode mode(flush);
      Doing::Helping helping(doing);
      return (*beside)();
    }
    ThreadLimit limit(cores, &busy_);
    crews_[static_cast<size_t>(thread)]->Run([&](int64_t d) {
      FloatMode mode(flush);
      Doing::Helping helping(doing);
      Status status = fn(d);
      Finish(d, status ? nullptr : &status.error());
    });
    busy_.fetch_sub(1, std::memory_order_relaxed);
  });
  MutexLock lock(mutex_);
  if (error_) return std::unexpected(*error_);
  return {};
}

void DeviceThreads::Fail(Error error) {
  if (!error_) error_ = std::move(error);
  for (int64_t d = 0; d < devices_; ++d) Nudge(d);
}

void DeviceThreads::Finish(int64_t device, const Error* error) {
  MutexLock lock(mutex_);
  state_[device].finished = true;
  --running_;
  if (error != nullptr && !error_) {
    Error named = *error;
    if (devices_ > 1) named.Note(StrCat("on device ", device));
    Fail(std::move(named));
  }
  CheckDeadlock();
}

void DeviceThreads::CheckDeadlock() {
  if (running_ > 0 || error_) return;
  std::string waiting;
  std::vector<std::pair<int64_t, const std::string*>> lines;
  int64_t finished = 0;
  for (int64_t d = 0; d < devices_; ++d) {
    finished += state_[d].finished;
    const Where& where = state_[d].waits_at;
    if (where.name == nullptr) continue;
    StrAppend(waiting, waiting.empty() ? " " : ", ", "device ", d, " waits at ", *where.name);
    if (where.source != nullptr && !where.source->empty()) lines.emplace_back(d, where.source);
  }
  if (waiting.empty()) return;
  if (finished > 0) StrAppend(waiting, ", ", finished, " finished");
  Error error(Code::kFailedPrecondition, StrCat("deadlock:", waiting));
  if (!lines.empty()) error.Source(*lines[0].second);
  for (const auto& [device, line] : lines) {
    if (*line != *lines[0].second) error.Note(StrCat("device ", device, " at ", *line));
  }
  Fail(std::move(error));
}

void DeviceThreads::Wake(int64_t device) {
  if (std::exchange(state_[device].waits_at, {}).name == nullptr) return;
  ++running_;
  Nudge(device);
}

void DeviceThreads::Nudge(int64_t device) {
  Device& state = state_[static_cast<size_t>(device)];
  if (state.crew != nullptr) state.crew->Tell(state.news);  // null: one that nobody runs beside
}

void DeviceThreads::Sleep(int64_t device) {
  Device& state = state_[static_cast<size_t>(device)];
  const uint32_t seen = state.news.load(std::memory_order_acquire);
  mutex_.Unlock();
  state.crew->Wait(state.news, seen);
  mutex_.Lock();
}

void DeviceThreads::WaitRegardless(int64_t device, const std::function<bool()>& done) {
  while (!done()) Sleep(device);
}

Status DeviceThreads::WaitUntil(int64_t device, Where where, const std::function<bool()>& ready) {
  while (!ready() && !error_) {
    if (state_[device].waits_at.name == nullptr) {
      state_[device].waits_at = where;
      --running_;
      CheckDeadlock();
    } else {
      Sleep(device);
    }
  }
  Wake(device);
  if (!ready()) return std::unexpected(*error_);
  return {};
}

void DeviceThreads::Yield(int64_t device) {
  Fibers* crew = nullptr;
  {
    MutexLock lock(mutex_);
    crew = state_[static_cast<size_t>(device)].crew;
  }
  crew->Yield();
}

int64_t DeviceThreads::CountVisit(int64_t device, const std::vector<int64_t>& place) {
  return state_[device].visits[place]++;
}

}  // namespace weft
