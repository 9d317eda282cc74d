#include "host_cuda_device.h"

#ifdef WEFT_CXX_COMPILER
#include "base/mutex.h"
#include "gpu/cuda_device.h"
#include "gpu/host_cuda.h"
#endif

namespace weft::tools {
#ifdef WEFT_CXX_COMPILER
namespace {

constexpr int64_t kHostCudaBytes = int64_t{1} << 30;

// Programs are loaded one at a time: texts reach the driver through one place.
class HostCudaDevice : public runtime::Device {
 public:
  explicit HostCudaDevice(std::unique_ptr<runtime::Device> device) : device_(std::move(device)) {}

  const program::TargetInfo& target() const override { return device_->target(); }
  Result<std::unique_ptr<runtime::LoadedProgram>> Load(program::Program program,
                                                       const runtime::LoadOptions&) override {
    MutexLock lock(mutex_);
    return device_->Load(std::move(program), gpu::HostCudaOptions());
  }
  Result<runtime::Allocation> AllocateOn(runtime::Stream& stream, int64_t bytes,
                                         runtime::MemorySpace space,
                                         std::string_view label) override {
    return device_->AllocateOn(stream, bytes, space, label);
  }
  runtime::MemoryStats memory() const override { return device_->memory(); }
  Result<runtime::StreamPtr> NewStream(runtime::StreamKind kind) override {
    return device_->NewStream(kind);
  }
  bool host_visible() const override { return false; }

 private:
  std::unique_ptr<runtime::Device> device_;
  Mutex mutex_;
};

}  // namespace

Result<std::shared_ptr<runtime::Device>> OpenHostCudaDevice() {
  gpu::CudaOptions options;
  options.driver = gpu::MakeHostCudaDriver(kHostCudaBytes);
  return std::shared_ptr<runtime::Device>(
      std::make_shared<HostCudaDevice>(TRY(gpu::CreateCudaDevice(options))));
}
#else
Result<std::shared_ptr<runtime::Device>> OpenHostCudaDevice() {
  return Unimplemented("this build has no compiler for kernels on the host");
}
#endif

}  // namespace weft::tools
