// NVIDIA's run-time compiler, CUDA C text to cubins. It is loaded when it is found and needs no
// GPU.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace weft::gpu {

class DynamicLibrary;  // libraries/dynamic_library.h

class Nvrtc {
 public:
  // Looks where DynamicLibrary does.
  static Result<std::unique_ptr<Nvrtc>> Load(std::span<const std::string> folders = {});
  ~Nvrtc();
  Nvrtc(const Nvrtc&) = delete;
  Nvrtc& operator=(const Nvrtc&) = delete;

  int version() const { return version_; }  // 13000 is 13.0
  const std::string& path() const;

  // The cubin for a machine such as "sm_90a", or PTX for "compute_90". An error has the compiler's
  // messages, each with the line it is about.
  Result<std::string> Compile(const std::string& text, const std::string& name,
                              std::string_view machine) const;

 private:
  struct Functions;
  Nvrtc() = default;

  std::unique_ptr<DynamicLibrary> library_;
  std::unique_ptr<Functions> call_;
  int version_ = 0;
};

}  // namespace weft::gpu
