#include "gpu/gpu_timeline.h"

#include <chrono>
#include <utility>

#include "gpu/cuda_stream.h"

namespace weft::gpu {
namespace {

// Spans that wait for the device before those that are done are looked for.
constexpr size_t kManySpans = 1024;
// Times of events are floats of milliseconds: beyond this they are coarser than a microsecond.
constexpr int64_t kAnchorAge = 5'000'000'000;  // nanoseconds

int64_t Nanoseconds() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

}  // namespace

struct GpuTimeline::Handles {
  Mutex mutex;
  std::vector<void*> free WEFT_GUARDED_BY(mutex);
};

struct GpuTimeline::Moment {
  Moment(std::shared_ptr<Handles> handles, void* event)
      : handles(std::move(handles)), event(event) {}
  ~Moment() {
    MutexLock lock(handles->mutex);
    handles->free.push_back(event);
  }
  Moment(const Moment&) = delete;
  const std::shared_ptr<Handles> handles;
  void* const event;
};

GpuTimeline::GpuTimeline(const CudaDriver& cuda, void* context)
    : cuda_(cuda),
      context_(context),
      handles_(std::make_shared<Handles>()),
      late_([this] { Flush(); }) {}

// The context is current, and nothing runs on it.
GpuTimeline::~GpuTimeline() {
  MutexLock lock(mutex_);
  FlushLocked();
  pending_.clear();
  anchor_.reset();
  if (stream_ != nullptr) cuda_.StreamDestroy(stream_);
  MutexLock handles_lock(handles_->mutex);
  for (void* event : handles_->free) cuda_.EventDestroy(event);
  handles_->free.clear();
}

GpuTimeline::MomentPtr GpuTimeline::NewMoment() {
  constexpr unsigned kWithTime = 0;
  void* event = nullptr;
  {
    MutexLock lock(handles_->mutex);
    if (!handles_->free.empty()) {
      event = handles_->free.back();
      handles_->free.pop_back();
    }
  }
  if (event == nullptr && cuda_.EventCreate(&event, kWithTime) != kCudaSuccess) return nullptr;
  return std::make_shared<Moment>(handles_, event);
}

GpuTimeline::MomentPtr GpuTimeline::Mark(void* stream) {
  MutexLock lock(mutex_);
  MomentPtr moment = NewMoment();
  if (moment == nullptr || cuda_.EventRecord(moment->event, stream) != kCudaSuccess) return nullptr;
  return moment;
}

// On a stream that nothing else uses, so that the device comes by at once.
std::shared_ptr<const GpuTimeline::Anchor> GpuTimeline::AnchorNow() {
  constexpr unsigned kNonBlocking = 1;
  constexpr int kTries = 5;  // the quickest counts
  if (anchor_ != nullptr && Nanoseconds() - anchor_->nanoseconds < kAnchorAge) return anchor_;
  if (stream_ == nullptr && cuda_.StreamCreate(&stream_, kNonBlocking) != kCudaSuccess) {
    return nullptr;
  }
  auto best = std::make_shared<Anchor>();
  int64_t least = INT64_MAX;
  for (int i = 0; i < kTries; ++i) {
    MomentPtr moment = NewMoment();
    if (moment == nullptr) return nullptr;
    const int64_t before = Nanoseconds();
    const int64_t count = trace::Now();
    if (cuda_.EventRecord(moment->event, stream_) != kCudaSuccess ||
        cuda_.EventSynchronize(moment->event) != kCudaSuccess) {
      return nullptr;
    }
    const int64_t after = trace::Now(), took = Nanoseconds() - before;
    if (took >= least) continue;
    least = took;
    *best = {std::move(moment), count + (after - count) / 2, before + took / 2};
  }
  anchor_ = best;
  return anchor_;
}

void GpuTimeline::Add(Span span) {
  if (span.begin == nullptr || span.end == nullptr) return;
  MutexLock lock(mutex_);
  auto anchor = AnchorNow();
  if (anchor == nullptr) return;
  pending_.push_back({std::move(span), std::move(anchor)});
  if (pending_.size() >= kManySpans && pending_.size() % kManySpans == 0) FlushLocked();
}

void GpuTimeline::Flush() {
  if (cuda_.CtxSetCurrent(context_) != kCudaSuccess) return;
  MutexLock lock(mutex_);
  FlushLocked();
}

void GpuTimeline::FlushLocked() {
  std::deque<Pending> later;
  // One look at the clocks for all, so that what begins together does so in the timeline.
  const int64_t count_now = trace::Now(), nanoseconds_now = Nanoseconds();
  for (Pending& p : pending_) {
    const Anchor& anchor = *p.anchor;
    const int code = cuda_.EventQuery(p.span.end->event);
    if (code == kCudaNotReady) {
      later.push_back(std::move(p));
      continue;
    }
    float begin = 0, end = 0;  // milliseconds
    if (code != kCudaSuccess ||
        cuda_.EventElapsed(&begin, anchor.moment->event, p.span.begin->event) != kCudaSuccess ||
        cuda_.EventElapsed(&end, anchor.moment->event, p.span.end->event) != kCudaSuccess) {
      continue;
    }
    const double rate = static_cast<double>(count_now - anchor.count) /
                        static_cast<double>(nanoseconds_now - anchor.nanoseconds);
    auto count = [&](float ms) {
      return anchor.count + static_cast<int64_t>(static_cast<double>(ms) * 1e6 * rate);
    };
    p.span.track->Record({.begin = count(begin),
                          .end = count(end),
                          .what = p.span.what,
                          .from = p.span.flow,
                          .bytes = p.span.bytes,
                          .device = static_cast<int32_t>(p.span.device)});
  }
  pending_ = std::move(later);
}

RunTimeline::RunTimeline(CudaStream& stream, const runtime::StepTraces& traces,
                         const runtime::Call& call)
    : stream_(stream), traces_(traces), flow_(call.flow), device_(call.device) {
  if (!stream.is_traced()) return;
  timeline_ = stream.core()->timeline.get();
  begin_ = last_ = timeline_->Mark(stream.handle());
}

void RunTimeline::End(const program::Step& step) {
  if (timeline_ == nullptr) return;
  GpuTimeline::MomentPtr now = timeline_->Mark(stream_.handle());
  timeline_->Add({.what = traces_.Of(step),
                  .begin = last_,
                  .end = now,
                  .track = stream_.track(),
                  .device = device_});
  last_ = std::move(now);
}

RunTimeline::~RunTimeline() {
  if (timeline_ == nullptr || begin_ == last_) return;
  timeline_->Add({.what = traces_.Run(),
                  .begin = begin_,
                  .end = last_,
                  .track = stream_.track(),
                  .flow = flow_,
                  .device = device_});
}

}  // namespace weft::gpu
