// Streams and events of CUDA, and what a device's parts share.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "gpu/cuda_driver.h"
#include "gpu/cuda_machines.h"
#include "gpu/gpu_timeline.h"
#include "gpu/nvrtc.h"
#include "program/target.h"
#include "runtime/memory.h"
#include "runtime/stream.h"

namespace weft::gpu {

class CudaStream;
class Libraries;  // libraries/libraries.h
class Nvtx;       // nvtx.h

inline CudaAddress AddressOf(const std::byte* at) {
  return static_cast<CudaAddress>(reinterpret_cast<uintptr_t>(at));
}

// Limits that launches are checked against.
struct CudaLimits {
  int64_t threads = 0;       // of a block
  int64_t blocks = 0;        // of a grid
  int64_t registers = 0;     // of a block
  int64_t shared_bytes = 0;  // of a block, static and dynamic
};

// The device, as long as anything of it is in use: its primary context and a pool of memory.
class CudaCore : public std::enable_shared_from_this<CudaCore> {
 public:
  CudaCore(std::shared_ptr<const CudaDriver> driver, int number, int64_t memory_limit,
           std::unique_ptr<Libraries> shared_libraries);
  ~CudaCore();
  Status Start();

  // Of this thread, for the calls that follow.
  Status MakeCurrent() const { return cuda->Check(cuda->CtxSetCurrent(context), "context"); }
  Result<runtime::Allocation> Allocate(CudaStream& stream, int64_t bytes,
                                       runtime::MemorySpace space, std::string_view label);

  const std::shared_ptr<const CudaDriver> cuda;
  const int number;
  const std::string name;
  runtime::MemoryLedger ledger;
  int device = 0, major = 0, minor = 0;
  void *context = nullptr, *pool = nullptr;
  CudaLimits limits;
  program::TargetInfo target;
  std::unique_ptr<Libraries> libraries;   // what routines of its programs share
  std::unique_ptr<GpuTimeline> timeline;  // null: the driver has no times of events
  const Nvtx* nvtx = nullptr;             // null: no tool listens

  // Pinned memory is dear to get: what is freed is kept for the next who asks.
  struct Pinned {
    void* address;
    int64_t bytes;            // a power of two
    runtime::EventPtr after;  // null: nobody uses it
  };
  void KeepPinned(std::byte* address, runtime::EventPtr after);
  bool IsPinned(const std::byte* at) WEFT_EXCLUDES(mutex_);
  // Likewise events: one is recorded for each execution.
  Result<void*> TakeEvent();
  void KeepEvent(void* handle);
  int64_t NextStream() { return streams_.fetch_add(1, std::memory_order_relaxed); }

 private:
  Result<std::byte*> TakeDevice(CudaStream& stream, int64_t bytes);
  Result<std::byte*> TakePinned(int64_t bytes);

  Mutex mutex_;
  std::vector<Pinned> kept_ WEFT_GUARDED_BY(mutex_), lent_ WEFT_GUARDED_BY(mutex_);
  Mutex event_mutex_;  // taken while the other is held
  std::vector<void*> events_ WEFT_GUARDED_BY(event_mutex_);
  std::atomic<int64_t> streams_ = 0;
};

// Errors of a stream since they were last forgotten, by place. Those that come with events waited
// for are asked for when somebody wants to know.
class FaultScope {
 public:
  void Report(int64_t place, Error error);
  void Inherit(int64_t place, runtime::EventPtr event);
  bool Failed(int64_t place) const;      // by itself, before the place
  Status StatusAt(int64_t place) const;  // when the device has come there

 private:
  mutable Mutex mutex_;
  std::optional<std::pair<int64_t, Error>> first_ WEFT_GUARDED_BY(mutex_);
  std::vector<std::pair<int64_t, runtime::EventPtr>> waits_ WEFT_GUARDED_BY(mutex_);
};

class CudaEvent : public runtime::Event {
 public:
  CudaEvent(std::shared_ptr<CudaCore> core, void* handle, int64_t stream)
      : core_(std::move(core)), handle_(handle), stream_(stream) {}
  ~CudaEvent() override;
  bool done() const override;
  Status Wait() const override;

  void* handle() const { return handle_; }
  int64_t stream() const { return stream_; }  // the number of the one it was recorded on
  const std::shared_ptr<CudaCore>& core() const { return core_; }
  void SetScope(std::shared_ptr<FaultScope> scope, int64_t place, std::string after);

 private:
  Status Resolve(int code) const WEFT_EXCLUDES(mutex_);

  const std::shared_ptr<CudaCore> core_;
  void* const handle_;
  const int64_t stream_;
  mutable Mutex mutex_;
  mutable std::shared_ptr<FaultScope> scope_ WEFT_GUARDED_BY(mutex_);  // null: the status is known
  mutable Status status_ WEFT_GUARDED_BY(mutex_);
  int64_t place_ WEFT_GUARDED_BY(mutex_) = 0;
  std::string after_ WEFT_GUARDED_BY(mutex_);  // the last work before it
};

class CudaStream : public runtime::Stream {
 public:
  static Result<std::shared_ptr<CudaStream>> Create(runtime::StreamKind kind,
                                                    std::shared_ptr<CudaCore> core);
  ~CudaStream() override;

  runtime::StreamKind kind() const override { return kind_; }
  void* native_handle() const override { return handle_; }
  Status Copy(runtime::CopyKind kind, std::byte* to, const std::byte* from, int64_t bytes) override;
  Status Fill(std::byte* to, int64_t bytes, std::span<const std::byte> pattern) override;
  Status Call(std::string name, std::function<Status()> fn) override;
  Result<runtime::EventPtr> Record() override;
  Status WaitFor(runtime::EventPtr event) override;
  Status Synchronize() override;
  Status ForgetError() override;

  const std::shared_ptr<CudaCore>& core() const { return core_; }
  void* handle() const { return handle_; }
  // An error that the host has met while it enqueued the stream's work.
  void Report(Error error);
  void NoteWork(std::string_view name);  // for errors that do not say where they come from

  // Whether what it does goes to a timeline now, and to which line of it.
  bool is_traced() const { return trace::IsOn() && traced_ && core_->timeline != nullptr; }
  void LeaveOutOfTimelines() { traced_ = false; }  // its work is recorded for a graph
  std::shared_ptr<trace::Track> track() WEFT_EXCLUDES(mutex_);

 protected:
  void Free(std::byte* address, runtime::MemorySpace space) override;

 private:
  CudaStream(runtime::StreamKind kind, std::shared_ptr<CudaCore> core)
      : kind_(kind),
        core_(std::move(core)),
        number_(core_->NextStream()),
        scope_(std::make_shared<FaultScope>()) {}
  Status LaunchCall(std::string name, std::function<Status()> fn, bool always);
  Status CopyNow(runtime::CopyKind kind, std::byte* to, const std::byte* from, int64_t bytes);

  const runtime::StreamKind kind_;
  const std::shared_ptr<CudaCore> core_;
  const int64_t number_;  // of the core's streams
  void* handle_ = nullptr;
  bool traced_ = true;
  Mutex mutex_;  // places are in the order of the device's queue
  std::shared_ptr<FaultScope> scope_ WEFT_GUARDED_BY(mutex_);
  int64_t place_ WEFT_GUARDED_BY(mutex_) = 0;
  std::string last_ WEFT_GUARDED_BY(mutex_);
  std::shared_ptr<trace::Track> track_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft::gpu
