#include "gpu/cuda_device.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <utility>

#include "base/metrics.h"
#include "base/str.h"
#include "gpu/cuda_program.h"
#include "gpu/cuda_stream.h"
#include "gpu/libraries/libraries.h"
#include "gpu/nvtx.h"

namespace weft::gpu {

using runtime::Allocation;
using runtime::kDeviceAlignment;
using runtime::MemorySpace;

CudaCore::CudaCore(std::shared_ptr<const CudaDriver> driver, int number, int64_t memory_limit,
                   std::unique_ptr<Libraries> shared_libraries)
    : cuda(std::move(driver)),
      number(number),
      name(StrCat("cuda:", number)),
      ledger(name, memory_limit),
      libraries(std::move(shared_libraries)) {}

CudaCore::~CudaCore() {
  if (context == nullptr) return;
  if (MakeCurrent()) {
    cuda->CtxSynchronize();
    libraries.reset();
    timeline.reset();
    MutexLock lock(mutex_);
    for (const Pinned& pinned : kept_) cuda->MemFreeHost(pinned.address);
    MutexLock events_lock(event_mutex_);
    for (void* event : events_) cuda->EventDestroy(event);
    if (pool != nullptr) cuda->MemPoolDestroy(pool);
  }
  cuda->PrimaryCtxRelease(device);
}

Status CudaCore::Start() {
  TRY(cuda->Check(cuda->DeviceGet(&device, number), StrCat("device ", number)));
  TRY(cuda->Check(cuda->PrimaryCtxRetain(&context, device), "context"));
  TRY(MakeCurrent());
  auto attribute = [&](int which) {
    int value = 0;
    cuda->DeviceGetAttribute(&value, which, device);
    return value;
  };
  if (attribute(kMemoryPools) == 0) {
    return MakeError(Code::kUnavailable, name, ": the device has no memory pools");
  }
  CudaPoolProperties properties;
  properties.location = device;
  TRY(cuda->Check(cuda->MemPoolCreate(&pool, &properties), "memory pool"));
  uint64_t keep = UINT64_MAX;  // what is freed stays with the pool
  TRY(cuda->Check(cuda->MemPoolSetAttribute(pool, kPoolReleaseThreshold, &keep), "memory pool"));
  if (cuda->EventElapsed != nullptr) timeline = std::make_unique<GpuTimeline>(*cuda, context);
  major = attribute(kCapabilityMajor);
  minor = attribute(kCapabilityMinor);
  limits = {attribute(kMaxThreadsPerBlock), attribute(kMaxGridX), attribute(kRegistersPerBlock),
            attribute(kSharedPerBlockOptIn)};
  size_t bytes = 0;
  TRY(cuda->Check(cuda->DeviceTotalMem(&bytes, device), "memory"));
  if (ledger.stats().limit == 0) ledger.set_limit(static_cast<int64_t>(bytes));
  target = program::TargetInfo::H200();  // where nothing better is known
  target.cores = attribute(kMultiprocessors);
  target.l2_bytes = attribute(kL2Bytes);
  target.memory_bytes = ledger.stats().limit;
  target.tf32 = major >= 8;
  target.warp = attribute(kWarpSize);
  target.max_threads = limits.threads;
  target.threads_per_core = attribute(kThreadsPerMultiprocessor);
  target.shared_bytes = limits.shared_bytes;
  target.shared_bytes_per_core = attribute(kSharedPerMultiprocessor);
  target.registers_per_core = attribute(kRegistersPerMultiprocessor);
  return {};
}

Result<std::byte*> CudaCore::TakeDevice(CudaStream& stream, int64_t bytes) {
  CudaAddress address = 0;
  auto n = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  int code = cuda->MemAllocFromPoolAsync(&address, n, pool, stream.handle());
  if (code == kCudaOutOfMemory) {
    // Once all that was freed has come back, in one piece.
    metrics::Add(metrics::kDeviceSyncs);
    TRY(cuda->Check(cuda->CtxSynchronize(), "allocate"));
    cuda->MemPoolTrimTo(pool, 0);
    code = cuda->MemAllocFromPoolAsync(&address, n, pool, stream.handle());
  }
  if (code == kCudaOutOfMemory) {
    size_t free = 0, total = 0;
    uint64_t reserved = 0;
    cuda->MemGetInfo(&free, &total);
    cuda->MemPoolGetAttribute(pool, kPoolReservedBytes, &reserved);
    const int64_t holes =
        std::max<int64_t>(static_cast<int64_t>(reserved) - ledger.stats().in_use + bytes, 0);
    return std::unexpected(
        ledger.Exhausted(bytes, StrCat("the GPU has ", free >> 20, " MB free, of ", total >> 20,
                                       "; holes between ", "arrays have ", holes >> 20, " MB")));
  }
  TRY(cuda->Check(code, "allocate"));
  return reinterpret_cast<std::byte*>(static_cast<uintptr_t>(address));
}

Result<std::byte*> CudaCore::TakePinned(int64_t bytes) {
  int64_t size = std::max<int64_t>(
      4096,
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(bytes, 1)))));
  MutexLock lock(mutex_);
  for (size_t i = kept_.size(); i-- > 0;) {  // what was used last is in caches
    if (kept_[i].bytes != size || (kept_[i].after != nullptr && !kept_[i].after->done())) continue;
    lent_.push_back({kept_[i].address, size, nullptr});
    kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
    return static_cast<std::byte*>(lent_.back().address);
  }
  constexpr unsigned kPortable = 1;  // to every context
  void* address = nullptr;
  int code = cuda->MemHostAlloc(&address, static_cast<size_t>(size), kPortable);
  if (code == kCudaOutOfMemory) {
    return ResourceExhausted(name, ": no ", size, " bytes of pinned memory");
  }
  TRY(cuda->Check(code, "pinned memory"));
  lent_.push_back({address, size, nullptr});
  return static_cast<std::byte*>(address);
}

Result<void*> CudaCore::TakeEvent() {
  constexpr unsigned kNoTiming = 2;
  {
    MutexLock lock(event_mutex_);
    if (!events_.empty()) {
      void* handle = events_.back();
      events_.pop_back();
      return handle;
    }
  }
  void* handle = nullptr;
  TRY(cuda->Check(cuda->EventCreate(&handle, kNoTiming), "new event"));
  return handle;
}

void CudaCore::KeepEvent(void* handle) {
  MutexLock lock(event_mutex_);
  events_.push_back(handle);
}

void CudaCore::KeepPinned(std::byte* address, runtime::EventPtr after) {
  MutexLock lock(mutex_);
  for (size_t i = 0; i < lent_.size(); ++i) {
    if (lent_[i].address != address) continue;
    lent_[i].after = std::move(after);
    kept_.push_back(std::move(lent_[i]));
    lent_.erase(lent_.begin() + static_cast<std::ptrdiff_t>(i));
    return;
  }
}

bool CudaCore::IsPinned(const std::byte* at) {
  MutexLock lock(mutex_);
  return std::ranges::any_of(lent_, [at](const Pinned& pinned) {
    auto* begin = static_cast<const std::byte*>(pinned.address);
    return at >= begin && at < begin + pinned.bytes;
  });
}

Result<Allocation> CudaCore::Allocate(CudaStream& stream, int64_t bytes, MemorySpace space,
                                      std::string_view label) {
  if (bytes < 0) return InvalidArgument("allocate: ", bytes, " bytes");
  TRY(MakeCurrent());
  if (space == MemorySpace::kPinned) {
    return Allocation(TRY(TakePinned(bytes)), bytes, space, stream.shared_from_this());
  }
  if (space == MemorySpace::kHost) {
    int64_t size = (bytes + kDeviceAlignment) / kDeviceAlignment * kDeviceAlignment;
    auto* address = static_cast<std::byte*>(
        std::aligned_alloc(static_cast<size_t>(kDeviceAlignment), static_cast<size_t>(size)));
    if (address == nullptr) return ResourceExhausted("no ", bytes, " bytes of host memory");
    return Allocation(address, bytes, space, stream.shared_from_this());
  }
  TRY(ledger.Take(bytes));
  auto address = TakeDevice(stream, bytes);
  if (!address) {
    ledger.Untake(bytes);
    return std::unexpected(std::move(address).error());
  }
  ledger.Add(*address, bytes, label);
  return Allocation(*address, bytes, space, stream.shared_from_this());
}

namespace {

class CudaDevice : public runtime::Device {
 public:
  CudaDevice(std::shared_ptr<CudaCore> core, std::unique_ptr<Nvrtc> nvrtc, CudaMachine machine)
      : core_(std::move(core)), nvrtc_(std::move(nvrtc)), machine_(std::move(machine)) {}

  const program::TargetInfo& target() const override { return core_->target; }
  std::string description() const override {
    char name[256] = {};
    if (core_->cuda->DeviceGetName(name, sizeof(name) - 1, core_->device) != 0) return core_->name;
    return name;
  }
  Result<std::unique_ptr<runtime::LoadedProgram>> Load(
      program::Program program, const runtime::LoadOptions& options) override {
    return LoadCudaProgram(std::move(program), options, core_, *nvrtc_, machine_);
  }
  Result<Allocation> AllocateOn(runtime::Stream& stream, int64_t bytes, MemorySpace space,
                                std::string_view label) override {
    auto* own = dynamic_cast<CudaStream*>(&stream);
    if (own == nullptr || own->core() != core_) {
      return InvalidArgument("allocate: a stream of another device than ", core_->name);
    }
    return core_->Allocate(*own, bytes, space, label);
  }
  runtime::MemoryStats memory() const override {
    runtime::MemoryStats stats = core_->ledger.stats();
    uint64_t reserved = 0;
    if (core_->MakeCurrent() &&
        core_->cuda->MemPoolGetAttribute(core_->pool, kPoolReservedBytes, &reserved) == 0) {
      stats.reserved = static_cast<int64_t>(reserved);
    }
    return stats;
  }
  bool IsPinned(const std::byte* at) const override { return core_->IsPinned(at); }
  Result<runtime::StreamPtr> NewStream(runtime::StreamKind kind) override {
    return TRY(CudaStream::Create(kind, core_));
  }
  Result<runtime::EventPtr> RecordOn(void* native_stream) override {
    TRY(core_->MakeCurrent());
    void* handle = TRY(core_->TakeEvent());
    auto event = std::make_shared<CudaEvent>(core_, handle, core_->NextStream());
    TRY(core_->cuda->Check(core_->cuda->EventRecord(handle, native_stream), "event"));
    event->SetScope(std::make_shared<FaultScope>(), 0, "work of another library");
    return event;
  }
  bool host_visible() const override { return false; }

 private:
  const std::shared_ptr<CudaCore> core_;
  const std::unique_ptr<Nvrtc> nvrtc_;
  const CudaMachine machine_;
};

}  // namespace

Result<std::unique_ptr<runtime::Device>> CreateCudaDevice(const CudaOptions& options) {
  auto driver = options.driver ? options.driver : TRY(CudaDriver::Load());
  if (options.number < 0 || options.number >= driver->devices()) {
    return InvalidArgument("cuda: no GPU ", options.number, ", there are ", driver->devices());
  }
  auto nvrtc = Nvrtc::Load(options.nvrtc_folders);
  if (!nvrtc) return MakeError(Code::kUnavailable, "cuda: ", nvrtc.error().message());
  auto libraries = std::make_unique<Libraries>(
      *driver, options.driver == nullptr,
      std::vector<std::string>(options.nvrtc_folders.begin(), options.nvrtc_folders.end()));
  libraries->set_tunes(options.tunes);
  auto core = std::make_shared<CudaCore>(driver, options.number, options.memory_limit,
                                         std::move(libraries));
  TRY(core->Start());
  core->nvtx = Nvtx::OfProcess(options.nvtx_library);  // tools want to be asked behind CUDA
  // A driver older than the compiler may not read what it writes.
  int version = std::min((*nvrtc)->version(), driver->version());
  CudaMachine machine = MachineFor(core->major, core->minor, version);
  if (machine.name.empty()) {
    return MakeError(Code::kUnavailable, core->name, ": no code for compute capability ",
                     core->major, ".", core->minor);
  }
  core->target.name = machine.name;
  return std::make_unique<CudaDevice>(std::move(core), std::move(*nvrtc), std::move(machine));
}

}  // namespace weft::gpu
