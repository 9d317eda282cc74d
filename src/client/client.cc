#include "client/client.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/cores.h"
#include "base/log.h"
#include "base/storage.h"
#include "base/thread_pool.h"
#include "client/build.h"
#include "client/cache.h"
#include "client/environment.h"
#include "client/execute_values.h"
#include "client/memory_limit.h"
#include "client/reporting.h"
#include "client/tracing.h"
#include "cpu/device.h"
#include "gpu/cuda_device.h"
#include "inspect/crash_report.h"
#include "runtime/buffers.h"
#include "runtime/pretend/pretend_device.h"

namespace weft::client {
namespace {

// Free blocks of arrays that stay with the process: a sixteenth of its memory, so that a program
// that runs again finds the place of its results without pages to be cleared.
size_t KeptOf(int64_t memory) {
  constexpr size_t kShare = 16, kMost = size_t{1} << 30;  // parts; bytes
  return std::clamp(static_cast<size_t>(memory) / kShare, kKeptStorageBytes, kMost);
}

// Native code among the compiled programs of the cache. The device's keys say all but which
// compiler it was.
class CachedObjects : public runtime::ObjectCache {
 public:
  explicit CachedObjects(const Cache& cache) : cache_(cache) {}
  std::optional<std::string> Find(std::string_view key) override { return cache_.Find(Own(key)); }
  void Store(std::string_view key, std::string_view object) override {
    cache_.Store(Own(key), object);
  }

 private:
  static std::string Own(std::string_view key) { return StrCat(key, "-", SourceHash()); }
  const Cache& cache_;
};

bool IsPlatformName(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, allowed);
}

// As much as programs of tests take, and a little delay here and there.
constexpr int64_t kPretendBytes = int64_t{2} << 30;
constexpr int64_t kPretendDelay = 20;  // microseconds

// The GPU that the options ask for; null: none is there and none need be.
Result<std::shared_ptr<runtime::Device>> FindGpu(const ClientOptions& options) {
  if (options.platform == Platform::kPretend) {
    runtime::PretendOptions pretend;
    pretend.memory_bytes = options.memory_limit > 0 ? options.memory_limit : kPretendBytes;
    pretend.most_delay = kPretendDelay;
    return std::shared_ptr<runtime::Device>(TRY(runtime::PretendDevice::Create(pretend)));
  }
  // Whoever asks for the name of XLA's CPU wants one.
  bool any = options.platform == Platform::kAny && options.platform_name != "cpu";
  if (!any && options.platform != Platform::kGpu) return nullptr;
  gpu::CudaOptions cuda;
  cuda.memory_limit = options.memory_limit;
  cuda.tunes = options.gpu_tune;
  if (const char* tool = std::getenv(gpu::kNvtxVariable)) cuda.nvtx_library = tool;
  Result<std::unique_ptr<runtime::Device>> device = gpu::CreateCudaDevice(cuda);
  if (device) return std::shared_ptr<runtime::Device>(std::move(*device));
  if (any) {
    if (device.error().code() == Code::kUnavailable) return nullptr;
    LOG(warn) << "the GPU is not used: " << device.error();
    return nullptr;
  }
  device.error().Hint("WEFT_PLATFORM=cpu takes the processor");
  return std::unexpected(device.error());
}

}  // namespace

void SetThreads(int threads) {
  DefaultPool().SetLimit(std::clamp(threads, 1, DefaultPool().threads()));
}

runtime::Device* Client::native_device() {
  std::call_once(native_once_, [this] {
    if (!cpu::IsAvailable()) return;
    Result<std::unique_ptr<runtime::Device>> device = cpu::CreateDevice();
    if (device) {
      native_device_ = std::move(*device);
    } else {
      LOG(warn) << "no native code: " << device.error();
    }
  });
  return native_device_.get();
}

const runtime::Roofline& Client::roofline() {
  std::call_once(roofline_once_, [this] {
    if (native_device() == nullptr) return;
    Result<runtime::Roofline> measured = runtime::MeasureRoofline(*native_device());
    if (!measured) {
      LOG(warn) << "the roofline cannot be measured: " << measured.error();
      return;
    }
    roofline_ = *measured;
    NOTE("step", 2) << "this machine: " << std::lround(roofline_.flops_per_second / 1e9)
                    << " GFLOP/s (f32), " << std::lround(roofline_.bytes_per_second / 1e9)
                    << " GB/s (copy) on " << DefaultPool().limit() << " threads";
  });
  return roofline_;
}

Result<ClientOptions> ClientOptions::FromEnvironment() {
  Environment environment = TRY(ReadEnvironment());
  ClientOptions options;
  options.platform = environment.platform;
  options.cpu_devices = environment.cpu_devices;
  options.gpu_devices = environment.gpu_devices;
  options.gpu_tune = environment.gpu_tune;
  options.threads = environment.threads;
  options.memory_limit = environment.memory_limit;
  options.cache_directory = std::move(environment.cache);
  options.cache_chosen = environment.cache_chosen;
  options.dump_directory = std::move(environment.dump);
  options.check = environment.check;
  options.compiler_options = std::move(environment.options);
  options.crash_report = environment.crash_report;
  options.provoke_crash = std::move(environment.provoke_crash);
  options.report_file = std::move(environment.report);
  options.trace_file = std::move(environment.trace);
  return options;
}

Client::Client(ClientOptions options)
    : options_(std::move(options)),
      platform_version_(StrCat("weft ", Version(), " ", SourceHash())) {}

Result<std::unique_ptr<Client>> Client::Create(ClientOptions options) {
  if (options.cpu_devices < 1 || options.cpu_devices > kMaxCpuDevices) {
    return InvalidArgument("client: ", options.cpu_devices, " devices; from 1 to ", kMaxCpuDevices,
                           " are possible");
  }
  if (options.gpu_devices < 1 || options.gpu_devices > kMaxGpuDevices) {
    return InvalidArgument("client: ", options.gpu_devices, " devices on a GPU; from 1 to ",
                           kMaxGpuDevices, " are possible");
  }
  if (options.threads < 0 || options.threads > kMaxThreads || options.memory_limit < 0) {
    return InvalidArgument("client: ", options.threads, " threads, memory limit ",
                           options.memory_limit);
  }
  if (!IsPlatformName(options.platform_name)) {
    return InvalidArgument("client: platform name \"", options.platform_name,
                           "\": expected lower-case letters, digits and _");
  }
  if (!options.trace_file.empty()) TraceProcess(options.trace_file);
  std::unique_ptr<Client> client(new Client(std::move(options)));
  const ClientOptions& chosen = client->options_;
  client->gpu_ = TRY(FindGpu(chosen));
  const program::TargetInfo target = client->gpu_ ? client->gpu_->target() : cpu::HostTarget();
  client->machine_ = StrCat(target.name, " ", target.features);
  if (chosen.crash_report) {
    inspect::CrashReportOptions report;
    if (!chosen.dump_directory.empty()) report.directory = chosen.dump_directory;
    report.provoke = chosen.provoke_crash;
    inspect::InstallCrashReport(report);
  }
  bool limited = chosen.memory_limit > 0 && client->gpu_ == nullptr;
  client->memory_limit_ = limited ? chosen.memory_limit : AvailableMemory();
  KeepStorage(KeptOf(client->memory_limit_));
  client->executor_ =
      std::make_unique<Executor>(chosen.threads > 0 ? chosen.threads : AvailableCores());
  client->compilers_ = std::make_unique<Executor>(kMaxThreads);  // as many as callers ask
  // The pool that kernels run on is the process's.
  if (chosen.threads > 0) SetThreads(chosen.threads);
  if (!chosen.report_file.empty()) client->report_ = ReportProcess(chosen.report_file, *client);
  client->gate_ = std::make_shared<TaskGate>(client->executor_.get());
  TRY(client->MakeDevices());
  if (!chosen.cache_directory.empty()) {
    if (auto cache = Cache::Open(chosen.cache_directory); cache) {
      client->cache_ = std::move(*cache);
      client->object_cache_ = std::make_unique<CachedObjects>(*client->cache_);
    } else if (chosen.cache_chosen) {
      LOG(warn) << "no persistent cache: " << cache.error();
    } else {
      LOG(info) << "no persistent cache: " << cache.error();
    }
  }
  client->gauges_ = std::make_unique<metrics::Source>(
      [self = client.get()](std::vector<metrics::Sample>& samples) { self->ReadGauges(samples); });
  return client;
}

Status Client::MakeDevices() {
  const int count = gpu_ ? options_.gpu_devices : options_.cpu_devices;
  const std::string kind = gpu_ ? StrCat("Weft GPU: ", gpu_->description()) : "Weft CPU";
  for (int i = 0; i < count; ++i) {
    Accelerator* accelerator = nullptr;
    if (gpu_) accelerator = accelerators_.emplace_back(TRY(Accelerator::Create(gpu_))).get();
    auto& device = devices_.emplace_back(std::make_unique<Device>(this, i, kind, accelerator));
    for (Memory::Kind memory : Memory::kKinds) {
      int id = static_cast<int>(memories_.size());
      memories_.push_back(std::make_unique<Memory>(this, device.get(), memory, id));
      device->AddMemory(memories_.back().get());
    }
  }
  return {};
}

void Client::ReadGauges(std::vector<metrics::Sample>& samples) const {
  samples.push_back({metrics::kQueueDepth, "", static_cast<double>(executor_->depth())});
  samples.push_back({metrics::kMemoryLimit, "", static_cast<double>(memory_limit_)});
  for (const auto& memory : memories_) {
    std::string labels =
        StrCat("device=\"", memory->device()->id(), "\",memory=\"", memory->kind_name(), "\"");
    const MemoryUse& use = *memory->shared_use();
    samples.push_back({metrics::kMemoryInUse, labels, static_cast<double>(use.bytes.load())});
    samples.push_back({metrics::kMemoryPeak, labels, static_cast<double>(use.peak_bytes.load())});
  }
}

void Client::CancelWork() {
  cancelled_ = true;
  cancels_->CancelAll();
  gate_->Close();
}

void Client::End(std::unique_ptr<Client> client) {
  constexpr std::chrono::milliseconds kPatience(100);
  client->CancelWork();
  if (client->executor_->WaitForAllButLeavable(kPatience)) return;
  // Called before the destructors of a library that the routine may use.
  on_exit(
      [](int status, void* executor) {
        if (!static_cast<Executor*>(executor)->HasLeavable()) return;
        std::fflush(nullptr);
        _exit(status);
      },
      client->executor_.get());
  (void)client.release();
}

Client::~Client() {
  gauges_.reset();
  CancelWork();
  compilers_.reset();
  executor_.reset();
  for (const auto& accelerator : accelerators_) accelerator->Finish();
}

Result<Device*> Client::FindDevice(int64_t id) const {
  if (id < 0 || id >= static_cast<int64_t>(devices_.size())) {
    return InvalidArgument("no device has id ", id, ", there are ", devices_.size());
  }
  return devices_[static_cast<size_t>(id)].get();
}

Result<std::vector<int64_t>> Client::DefaultAssignment(int64_t replicas, int64_t partitions) const {
  int64_t devices = static_cast<int64_t>(devices_.size());
  if (replicas < 1 || partitions < 1 || replicas > devices || partitions > devices ||
      replicas * partitions > devices) {
    auto error = InvalidArgument(replicas, " replicas by ", partitions,
                                 " partitions do not fit on ", devices, " devices");
    error.error().Hint(gpu_ ? "set WEFT_GPU_DEVICES" : "set WEFT_CPU_DEVICES");
    return error;
  }
  std::vector<int64_t> assignment;
  for (int64_t i = 0; i < replicas * partitions; ++i) assignment.push_back(devices_[i]->id());
  return assignment;
}

Status Client::CheckMemory(int64_t bytes) const {
  int64_t used = 0;
  for (const auto& memory : memories_) {
    if (memory->accelerator() != nullptr) continue;  // which keeps books of its own
    used += memory->use().bytes.load(std::memory_order_relaxed);
  }
  if (bytes <= memory_limit_ - std::min(used, memory_limit_)) return {};
  auto error = ResourceExhausted("out of memory: ", runtime::HumanBytes(bytes),
                                 " more do not fit: ", runtime::HumanBytes(used), " of ",
                                 runtime::HumanBytes(memory_limit_), " are in use");
  HintAtMemory(error.error());
  return error;
}

}  // namespace weft::client
