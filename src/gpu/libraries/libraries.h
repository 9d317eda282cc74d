// What the library routines of a device share, made when first asked for: NVIDIA's libraries and
// modules of kernels.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "gpu/cuda_driver.h"
#include "gpu/cuda_machines.h"
#include "gpu/libraries/cublaslt.h"
#include "gpu/libraries/cudnn.h"
#include "gpu/libraries/cufft.h"
#include "gpu/libraries/cusolver.h"
#include "gpu/nvrtc.h"
#include "runtime/device.h"

namespace weft::gpu {

// How kernel texts become code while a program is loaded.
struct KernelCompiler {
  const Nvrtc& nvrtc;
  const CudaMachine& machine;
  const runtime::LoadOptions& options;
  runtime::LoadStats& stats;
};

class Libraries {
 public:
  // `folders`: as DynamicLibrary. NVIDIA's libraries need its driver: without it, as in tests, only
  // kernels of ours are used.
  Libraries(const CudaDriver& cuda, bool with_nvidia, std::vector<std::string> folders)
      : cuda_(cuda), with_nvidia_(with_nvidia), folders_(std::move(folders)) {}
  ~Libraries();  // in the device's context, when nothing of it runs

  // UNAVAILABLE says why there is none.
  Result<const Cublas*> cublas();
  Result<const CublasLt*> cublaslt();
  Result<const Cudnn*> cudnn();
  Result<const Cufft*> cufft();
  Result<const Cusolver*> cusolver();
  // Autotuning (routines/tune.h): whether algorithms are tried, and what was chosen, by its key.
  bool tunes() const { return tunes_; }
  void set_tunes(bool tunes) { tunes_ = tunes; }
  std::optional<int64_t> FindChoice(const std::string& key);
  void KeepChoice(const std::string& key, int64_t choice);
  // A function of a text; equal texts are compiled and loaded once.
  Result<void*> Function(const KernelCompiler& compiler, const std::string& name,
                         const std::string& text, const std::string& function);

 private:
  template <class T>
  struct Once {
    bool tried = false;
    Result<std::unique_ptr<T>> value = std::unique_ptr<T>();
  };
  template <class T>
  Result<const T*> Get(Once<T>& once);

  const CudaDriver& cuda_;
  const bool with_nvidia_;
  bool tunes_ = true;
  const std::vector<std::string> folders_;
  Mutex mutex_;
  Once<Cublas> cublas_ WEFT_GUARDED_BY(mutex_);
  Once<CublasLt> cublaslt_ WEFT_GUARDED_BY(mutex_);
  Once<Cudnn> cudnn_ WEFT_GUARDED_BY(mutex_);
  Once<Cufft> cufft_ WEFT_GUARDED_BY(mutex_);
  Once<Cusolver> cusolver_ WEFT_GUARDED_BY(mutex_);
  std::map<std::string, int64_t> choices_ WEFT_GUARDED_BY(mutex_);
  std::map<std::string, void*> modules_ WEFT_GUARDED_BY(mutex_);  // by the digest of the text
};

}  // namespace weft::gpu
