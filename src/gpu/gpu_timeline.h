// What a GPU's streams do and when, for timelines: events of CUDA with times, compared with one
// whose time the host knows. Nothing is recorded on a stream unless a timeline is.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/trace.h"
#include "base/trace_track.h"
#include "gpu/cuda_driver.h"
#include "runtime/device.h"
#include "runtime/step_trace.h"

namespace weft::gpu {

class CudaStream;

// Of one device. From any thread.
class GpuTimeline {
 public:
  GpuTimeline(const CudaDriver& cuda, void* context);
  ~GpuTimeline();
  GpuTimeline(const GpuTimeline&) = delete;

  // A place in a stream; null: there is none to be had.
  struct Moment;
  using MomentPtr = std::shared_ptr<Moment>;
  MomentPtr Mark(void* stream) WEFT_EXCLUDES(mutex_);
  struct Span {
    const trace::What* what = nullptr;
    MomentPtr begin = nullptr, end = nullptr;
    std::shared_ptr<trace::Track> track = nullptr;
    uint64_t flow = 0;  // that ends here
    int64_t bytes = 0;
    int64_t device = 0;
  };
  void Add(Span span) WEFT_EXCLUDES(mutex_);  // nothing where a place is null
  void Flush() WEFT_EXCLUDES(mutex_);         // what is done goes to the timeline

 private:
  // A place whose time is known on both sides.
  struct Anchor {
    MomentPtr moment;
    int64_t count = 0, nanoseconds = 0;  // by trace::Now() and by the clock
  };
  struct Pending {
    Span span;
    std::shared_ptr<const Anchor> anchor;
  };
  MomentPtr NewMoment() WEFT_REQUIRES(mutex_);
  std::shared_ptr<const Anchor> AnchorNow() WEFT_REQUIRES(mutex_);
  void FlushLocked() WEFT_REQUIRES(mutex_);

  const CudaDriver& cuda_;
  void* const context_;
  struct Handles;  // events to be used again
  const std::shared_ptr<Handles> handles_;
  Mutex mutex_;
  void* stream_ WEFT_GUARDED_BY(mutex_) = nullptr;  // for anchors alone
  std::shared_ptr<const Anchor> anchor_ WEFT_GUARDED_BY(mutex_);
  std::deque<Pending> pending_ WEFT_GUARDED_BY(mutex_);
  trace::LateSource late_;  // last: uses the rest
};

// The steps of one run, each from where the one before ended; the run itself when this goes.
class RunTimeline {
 public:
  // Records nothing where no timeline is recorded.
  RunTimeline(CudaStream& stream, const runtime::StepTraces& traces, const runtime::Call& call);
  ~RunTimeline();
  RunTimeline(const RunTimeline&) = delete;
  void End(const program::Step& step);

 private:
  GpuTimeline* timeline_ = nullptr;  // null: nothing is recorded
  CudaStream& stream_;
  const runtime::StepTraces& traces_;
  const uint64_t flow_;
  const int64_t device_;
  GpuTimeline::MomentPtr begin_, last_;
};

}  // namespace weft::gpu
