// The CUDA driver, loaded when it is found. Its functions with the types of its ABI: codes and
// devices are ints, handles pointers, device addresses 64-bit numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"

namespace weft::gpu {

using CudaAddress = unsigned long long;
struct CudaPoolProperties;

// name in the library, name here, parameters
#define WEFT_CUDA_FUNCTIONS(F)                                                                    \
  F(cuInit, Init, (unsigned flags))                                                               \
  F(cuDriverGetVersion, DriverGetVersion, (int* version))                                         \
  F(cuGetErrorName, GetErrorName, (int code, const char** name))                                  \
  F(cuGetErrorString, GetErrorString, (int code, const char** text))                              \
  F(cuDeviceGetCount, DeviceGetCount, (int* count))                                               \
  F(cuDeviceGet, DeviceGet, (int* device, int number))                                            \
  F(cuDeviceGetName, DeviceGetName, (char* name, int length, int device))                         \
  F(cuDeviceGetAttribute, DeviceGetAttribute, (int* value, int attribute, int device))            \
  F(cuDeviceTotalMem_v2, DeviceTotalMem, (size_t* bytes, int device))                             \
  F(cuDevicePrimaryCtxRetain, PrimaryCtxRetain, (void** context, int device))                     \
  F(cuDevicePrimaryCtxRelease_v2, PrimaryCtxRelease, (int device))                                \
  F(cuCtxSetCurrent, CtxSetCurrent, (void* context))                                              \
  F(cuCtxSynchronize, CtxSynchronize, ())                                                         \
  F(cuMemGetInfo_v2, MemGetInfo, (size_t* free, size_t* total))                                   \
  F(cuStreamCreate, StreamCreate, (void** stream, unsigned flags))                                \
  F(cuStreamDestroy_v2, StreamDestroy, (void* stream))                                            \
  F(cuStreamSynchronize, StreamSynchronize, (void* stream))                                       \
  F(cuStreamWaitEvent, StreamWaitEvent, (void* stream, void* event, unsigned flags))              \
  F(cuLaunchHostFunc, LaunchHostFunc, (void* stream, void (*function)(void*), void* data))        \
  F(cuEventCreate, EventCreate, (void** event, unsigned flags))                                   \
  F(cuEventDestroy_v2, EventDestroy, (void* event))                                               \
  F(cuEventRecord, EventRecord, (void* event, void* stream))                                      \
  F(cuEventQuery, EventQuery, (void* event))                                                      \
  F(cuEventSynchronize, EventSynchronize, (void* event))                                          \
  F(cuMemPoolCreate, MemPoolCreate, (void** pool, const CudaPoolProperties* properties))          \
  F(cuMemPoolDestroy, MemPoolDestroy, (void* pool))                                               \
  F(cuMemPoolSetAttribute, MemPoolSetAttribute, (void* pool, int attribute, void* value))         \
  F(cuMemPoolGetAttribute, MemPoolGetAttribute, (void* pool, int attribute, void* value))         \
  F(cuMemPoolTrimTo, MemPoolTrimTo, (void* pool, size_t bytes))                                   \
  F(cuMemAllocFromPoolAsync, MemAllocFromPoolAsync,                                               \
    (CudaAddress * address, size_t bytes, void* pool, void* stream))                              \
  F(cuMemFreeAsync, MemFreeAsync, (CudaAddress address, void* stream))                            \
  F(cuMemHostAlloc, MemHostAlloc, (void** address, size_t bytes, unsigned flags))                 \
  F(cuMemFreeHost, MemFreeHost, (void* address))                                                  \
  F(cuMemcpyAsync, MemcpyAsync, (CudaAddress to, CudaAddress from, size_t bytes, void* stream))   \
  F(cuMemcpyHtoDAsync_v2, MemcpyToDevice,                                                         \
    (CudaAddress to, const void* from, size_t bytes, void* stream))                               \
  F(cuMemcpyDtoHAsync_v2, MemcpyToHost, (void* to, CudaAddress from, size_t bytes, void* stream)) \
  F(cuMemsetD8Async, MemsetD8, (CudaAddress to, unsigned char value, size_t n, void* stream))     \
  F(cuMemsetD16Async, MemsetD16, (CudaAddress to, unsigned short value, size_t n, void* stream))  \
  F(cuMemsetD32Async, MemsetD32, (CudaAddress to, unsigned value, size_t n, void* stream))        \
  F(cuMemsetD2D32Async, MemsetD2D32,                                                              \
    (CudaAddress to, size_t pitch, unsigned value, size_t width, size_t height, void* stream))    \
  F(cuModuleLoadData, ModuleLoadData, (void** module, const void* image))                         \
  F(cuModuleUnload, ModuleUnload, (void* module))                                                 \
  F(cuModuleGetFunction, ModuleGetFunction, (void** function, void* module, const char* name))    \
  F(cuFuncGetAttribute, FuncGetAttribute, (int* value, int attribute, void* function))            \
  F(cuFuncSetAttribute, FuncSetAttribute, (void* function, int attribute, int value))             \
  F(cuLaunchKernel, LaunchKernel,                                                                 \
    (void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,         \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, void* stream, void** parameters,  \
     void** extra))

// Those that a program can do without.
#define WEFT_CUDA_OPTIONAL_FUNCTIONS(F)                                    \
  F(cuStreamBeginCapture_v2, StreamBeginCapture, (void* stream, int mode)) \
  F(cuStreamEndCapture, StreamEndCapture, (void* stream, void** graph))    \
  F(cuGraphInstantiateWithFlags, GraphInstantiate,                         \
    (void** executable, void* graph, unsigned long long flags))            \
  F(cuGraphLaunch, GraphLaunch, (void* executable, void* stream))          \
  F(cuEventElapsedTime, EventElapsed, (float* ms, void* begin, void* end)) \
  F(cuGraphExecDestroy, GraphExecDestroy, (void* executable))              \
  F(cuGraphDestroy, GraphDestroy, (void* graph))

struct CudaPoolProperties {
  int allocation_type = 1;  // pinned
  int handle_types = 0;
  int location_type = 1;  // a device ...
  int location = 0;       // ... this one
  void* security = nullptr;
  size_t most_bytes = 0;  // 0: what the system allows
  unsigned short usage = 0;
  unsigned char reserved[54] = {};
};
static_assert(sizeof(CudaPoolProperties) == 88);

// Numbers of the ABI.
enum CudaCode : int { kCudaSuccess = 0, kCudaOutOfMemory = 2, kCudaNotReady = 600 };
enum CudaDeviceAttribute : int {
  kMaxThreadsPerBlock = 1,
  kMaxGridX = 5,
  kWarpSize = 10,
  kRegistersPerBlock = 12,
  kMultiprocessors = 16,
  kL2Bytes = 38,
  kThreadsPerMultiprocessor = 39,
  kCapabilityMajor = 75,
  kCapabilityMinor = 76,
  kSharedPerMultiprocessor = 81,
  kRegistersPerMultiprocessor = 82,
  kSharedPerBlockOptIn = 97,
  kMemoryPools = 115,
};
enum CudaFunctionAttribute : int {
  kFunctionMaxThreads = 0,
  kFunctionSharedBytes = 1,
  kFunctionRegisters = 4,
  kFunctionMaxDynamicShared = 8,
  kFunctionSharedCarveout = 9,
};
inline void* const kDefaultStream = reinterpret_cast<void*>(1);  // of all threads
enum CudaPoolAttribute : int { kPoolReleaseThreshold = 4, kPoolReservedBytes = 5 };

class CudaDriver {
 public:
  // UNAVAILABLE without the library, or where it finds no GPU.
  static Result<std::shared_ptr<const CudaDriver>> Load(const std::string& path = "libcuda.so.1");
  // Without a library: for tests, which set the functions.
  CudaDriver(int version, int devices) : version_(version), devices_(devices) {}
  ~CudaDriver();
  CudaDriver(const CudaDriver&) = delete;
  CudaDriver& operator=(const CudaDriver&) = delete;

  int version() const { return version_; }  // of CUDA, 13000 is 13.0
  int devices() const { return devices_; }

#define WEFT_CUDA_DECLARE(symbol, name, parameters) int(*name) parameters = nullptr;
  WEFT_CUDA_FUNCTIONS(WEFT_CUDA_DECLARE)
  WEFT_CUDA_OPTIONAL_FUNCTIONS(WEFT_CUDA_DECLARE)
#undef WEFT_CUDA_DECLARE

  bool has_graphs() const {
    return StreamBeginCapture != nullptr && StreamEndCapture != nullptr &&
           GraphInstantiate != nullptr && GraphLaunch != nullptr && GraphExecDestroy != nullptr &&
           GraphDestroy != nullptr;
  }
  // "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)"
  std::string Describe(int code) const;
  Status Check(int code, std::string_view what) const;  // "what: " and the description

 private:
  CudaDriver() = default;

  void* library_ = nullptr;
  int version_ = 0, devices_ = 0;
};

}  // namespace weft::gpu
