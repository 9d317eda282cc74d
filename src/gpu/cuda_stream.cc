#include "gpu/cuda_stream.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/metrics.h"
#include "base/str.h"

namespace weft::gpu {

using runtime::CopyKind;
using runtime::EventPtr;
using runtime::MemorySpace;

void FaultScope::Report(int64_t place, Error error) {
  MutexLock lock(mutex_);
  if (!first_ || place < first_->first) first_.emplace(place, std::move(error));
}

void FaultScope::Inherit(int64_t place, EventPtr event) {
  std::vector<std::pair<int64_t, EventPtr>> waits;
  {
    MutexLock lock(mutex_);
    waits_.emplace_back(place, std::move(event));
    waits = waits_;
  }
  // Nothing more is to be learned from those that were fine. They are asked without the lock, as
  // they may ask this scope.
  std::erase_if(waits, [](const auto& wait) {
    return !wait.second->done() || !wait.second->Wait().has_value();
  });
  MutexLock lock(mutex_);
  std::erase_if(waits_, [&](const auto& wait) {
    return std::find(waits.begin(), waits.end(), wait) != waits.end();
  });
}

bool FaultScope::Failed(int64_t place) const {
  MutexLock lock(mutex_);
  return first_ && first_->first < place;
}

Status FaultScope::StatusAt(int64_t place) const {
  // Other scopes are asked without the lock: they may ask this one.
  std::vector<std::pair<int64_t, EventPtr>> waits;
  std::optional<std::pair<int64_t, Error>> first;
  {
    MutexLock lock(mutex_);
    waits = waits_;
    first = first_;
  }
  if (first && first->first > place) first.reset();
  for (const auto& [at, event] : waits) {
    if (at > (first ? first->first : place)) break;
    if (Status status = event->Wait(); !status) return status;
  }
  if (first) return std::unexpected(first->second);
  return {};
}

// Streams that wait for it do so for what was recorded when they were told to.
CudaEvent::~CudaEvent() {
  core_->KeepEvent(handle_);
}

void CudaEvent::SetScope(std::shared_ptr<FaultScope> scope, int64_t place, std::string after) {
  MutexLock lock(mutex_);
  scope_ = std::move(scope);
  place_ = place;
  after_ = std::move(after);
}

bool CudaEvent::done() const {
  {
    MutexLock lock(mutex_);
    if (scope_ == nullptr) return true;
  }
  if (!core_->MakeCurrent()) return true;
  int code = core_->cuda->EventQuery(handle_);
  if (code == kCudaNotReady) return false;
  (void)Resolve(code);
  return true;
}

Status CudaEvent::Wait() const {
  {
    MutexLock lock(mutex_);
    if (scope_ == nullptr) return status_;
  }
  TRY(core_->MakeCurrent());
  return Resolve(core_->cuda->EventSynchronize(handle_));
}

Status CudaEvent::Resolve(int code) const {
  std::shared_ptr<FaultScope> scope;
  int64_t place = 0;
  std::string after;
  {
    MutexLock lock(mutex_);
    if (scope_ == nullptr) return status_;
    scope = scope_;
    place = place_;
    after = after_;
  }
  Status status =
      code == kCudaSuccess
          ? scope->StatusAt(place)
          : core_->cuda->Check(code, after.empty() ? "work" : StrCat("in or before ", after));
  MutexLock lock(mutex_);
  if (scope_ == nullptr) return status_;
  scope_.reset();
  status_ = status;
  return status;
}

Result<std::shared_ptr<CudaStream>> CudaStream::Create(runtime::StreamKind kind,
                                                       std::shared_ptr<CudaCore> core) {
  constexpr unsigned kNonBlocking = 1;
  TRY(core->MakeCurrent());
  auto stream = std::shared_ptr<CudaStream>(new CudaStream(kind, core));
  TRY(core->cuda->Check(core->cuda->StreamCreate(&stream->handle_, kNonBlocking), "new stream"));
  return stream;
}

// What was enqueued still runs.
CudaStream::~CudaStream() {
  if (handle_ != nullptr && core_->MakeCurrent()) core_->cuda->StreamDestroy(handle_);
}

Status CudaStream::Copy(CopyKind kind, std::byte* to, const std::byte* from, int64_t bytes) {
  TRY(runtime::CheckCopy(to, from, bytes));
  if (bytes == 0) return {};
  TRY(core_->MakeCurrent());
  // Copies on the device are steps, or small.
  if (kind == CopyKind::kOnDevice || !is_traced()) return CopyNow(kind, to, from, bytes);
  GpuTimeline& timeline = *core_->timeline;
  GpuTimeline::MomentPtr begin = timeline.Mark(handle_);
  TRY(CopyNow(kind, to, from, bytes));
  timeline.Add({.what = runtime::TracedCopy(kind),
                .begin = std::move(begin),
                .end = timeline.Mark(handle_),
                .track = track(),
                .bytes = bytes});
  return {};
}

std::shared_ptr<trace::Track> CudaStream::track() {
  MutexLock lock(mutex_);
  if (track_ == nullptr) {
    track_ = std::make_shared<trace::Track>(
        StrCat(core_->name, " ", runtime::NameOf(kind_), " (stream ", number_, ")"));
  }
  return track_;
}

Status CudaStream::CopyNow(CopyKind kind, std::byte* to, const std::byte* from, int64_t bytes) {
  const CudaDriver& cuda = *core_->cuda;
  auto n = static_cast<size_t>(bytes);
  switch (kind) {
    case CopyKind::kToDevice:
      return cuda.Check(cuda.MemcpyToDevice(AddressOf(to), from, n, handle_), "copy to device");
    case CopyKind::kToHost:
      return cuda.Check(cuda.MemcpyToHost(to, AddressOf(from), n, handle_), "copy to host");
    case CopyKind::kOnDevice:
      return cuda.Check(cuda.MemcpyAsync(AddressOf(to), AddressOf(from), n, handle_), "copy");
  }
  return {};
}

Status CudaStream::Fill(std::byte* to, int64_t bytes, std::span<const std::byte> pattern) {
  TRY(runtime::CheckFill(to, bytes, pattern.size()));
  if (bytes == 0) return {};
  TRY(core_->MakeCurrent());
  const CudaDriver& cuda = *core_->cuda;
  // The shortest pattern that means the same.
  size_t width = pattern.size();
  while (width > 1 && std::memcmp(pattern.data(), pattern.data() + width / 2, width / 2) == 0) {
    width /= 2;
  }
  // Sets of 2 and 4 bytes must be aligned to that.
  bool aligned = AddressOf(to) % std::min<size_t>(width, 4) == 0;
  size_t n = static_cast<size_t>(bytes) / width;
  if (!aligned) {
    std::vector<std::byte> all(static_cast<size_t>(bytes));
    runtime::FillBytes(all, pattern);
    TRY(cuda.Check(cuda.MemcpyToDevice(AddressOf(to), all.data(), all.size(), handle_), "fill"));
    metrics::Add(metrics::kDeviceSyncs);
    return cuda.Check(cuda.StreamSynchronize(handle_), "fill");
  }
  uint32_t words[4] = {};
  std::memcpy(words, pattern.data(), width);
  int code = kCudaSuccess;
  if (width == 1) {
    code = cuda.MemsetD8(AddressOf(to), static_cast<unsigned char>(words[0]), n, handle_);
  } else if (width == 2) {
    code = cuda.MemsetD16(AddressOf(to), static_cast<unsigned short>(words[0]), n, handle_);
  } else if (width == 4) {
    code = cuda.MemsetD32(AddressOf(to), words[0], n, handle_);
  } else {
    for (size_t i = 0; i < width / 4 && code == kCudaSuccess; ++i) {
      code = cuda.MemsetD2D32(AddressOf(to) + i * 4, width, words[i], 1, n, handle_);
    }
  }
  return cuda.Check(code, "fill");
}

namespace {

struct HostCall {
  std::string name;
  std::function<Status()> fn;
  std::shared_ptr<FaultScope> scope;
  int64_t place;
  bool always = false;  // whatever went wrong before

  static void Run(void* data) {
    std::unique_ptr<HostCall> call(static_cast<HostCall*>(data));
    if (!call->always && call->scope->Failed(call->place)) return;
    Status status = call->fn();
    if (status) return;
    if (!call->name.empty()) status.error().Prefix(StrCat(call->name, ": "));
    call->scope->Report(call->place, status.error());
  }
};

}  // namespace

Status CudaStream::Call(std::string name, std::function<Status()> fn) {
  return LaunchCall(std::move(name), std::move(fn), false);
}

Status CudaStream::LaunchCall(std::string name, std::function<Status()> fn, bool always) {
  TRY(core_->MakeCurrent());
  MutexLock lock(mutex_);
  std::unique_ptr<HostCall> call(
      new HostCall{std::move(name), std::move(fn), scope_, ++place_, always});
  TRY(core_->cuda->Check(core_->cuda->LaunchHostFunc(handle_, &HostCall::Run, call.get()),
                         "host function"));
  (void)call.release();  // Run has it
  return {};
}

Result<EventPtr> CudaStream::Record() {
  TRY(core_->MakeCurrent());
  const CudaDriver& cuda = *core_->cuda;
  void* handle = TRY(core_->TakeEvent());
  auto event = std::make_shared<CudaEvent>(core_, handle, number_);
  MutexLock lock(mutex_);
  TRY(cuda.Check(cuda.EventRecord(handle, handle_), "event"));
  event->SetScope(scope_, place_, last_);
  return event;
}

Status CudaStream::WaitFor(EventPtr event) {
  if (event == nullptr) return InvalidArgument("wait: no event");
  auto* own = dynamic_cast<CudaEvent*>(event.get());
  if (own == nullptr) {
    return Call({}, [event = std::move(event)] { return event->Wait(); });
  }
  TRY(core_->MakeCurrent());
  MutexLock lock(mutex_);
  // What this stream has done itself comes before, and only its error is of interest.
  if (own->stream() != number_ || own->core() != core_) {
    TRY(core_->cuda->Check(core_->cuda->StreamWaitEvent(handle_, own->handle(), 0), "wait"));
  }
  scope_->Inherit(++place_, std::move(event));
  return {};
}

Status CudaStream::Synchronize() {
  metrics::Add(metrics::kDeviceSyncs);
  return TRY(Record())->Wait();
}

Status CudaStream::ForgetError() {
  MutexLock lock(mutex_);
  scope_ = std::make_shared<FaultScope>();
  return {};
}

void CudaStream::Report(Error error) {
  MutexLock lock(mutex_);
  scope_->Report(++place_, std::move(error));
}

void CudaStream::NoteWork(std::string_view name) {
  MutexLock lock(mutex_);
  last_ = name;
}

void CudaStream::Free(std::byte* address, MemorySpace space) {
  (void)core_->MakeCurrent();
  if (space == MemorySpace::kDevice) {
    core_->ledger.Remove(address);
    core_->cuda->MemFreeAsync(AddressOf(address), handle_);
  } else if (space == MemorySpace::kPinned) {
    auto after = Record();
    core_->KeepPinned(address, after ? std::move(*after) : nullptr);
  } else {
    auto free = [address]() -> Status {
      std::free(address);
      return {};
    };
    (void)LaunchCall({}, free, true);
  }
}

}  // namespace weft::gpu
