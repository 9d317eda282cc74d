// cuFFT, loaded when it is found. Plans are ints, codes too.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "gpu/libraries/dynamic_library.h"

namespace weft::gpu {

#define WEFT_CUFFT_FUNCTIONS(F)                                                                 \
  F(cufftCreate, Create, (int* plan))                                                           \
  F(cufftDestroy, Destroy, (int plan))                                                          \
  F(cufftSetAutoAllocation, SetAutoAllocation, (int plan, int yes))                             \
  F(cufftMakePlanMany64, MakePlan,                                                              \
    (int plan, int rank, long long* lengths, long long* in_embed, long long in_stride,          \
     long long in_distance, long long* out_embed, long long out_stride, long long out_distance, \
     int type, long long batch, size_t* workspace))                                             \
  F(cufftSetStream, SetStream, (int plan, void* stream))                                        \
  F(cufftSetWorkArea, SetWorkArea, (int plan, void* memory))                                    \
  F(cufftExecC2C, ExecuteC2C, (int plan, void* in, void* out, int direction))                   \
  F(cufftExecR2C, ExecuteR2C, (int plan, void* in, void* out))                                  \
  F(cufftExecC2R, ExecuteC2R, (int plan, void* in, void* out))                                  \
  F(cufftExecZ2Z, ExecuteZ2Z, (int plan, void* in, void* out, int direction))                   \
  F(cufftExecD2Z, ExecuteD2Z, (int plan, void* in, void* out))                                  \
  F(cufftExecZ2D, ExecuteZ2D, (int plan, void* in, void* out))

enum CufftType : int {
  kCufftC2C = 0x29,
  kCufftR2C = 0x2a,
  kCufftC2R = 0x2c,
  kCufftDouble = 0x40,  // added to those
};

class Cufft {
 public:
  static Result<std::unique_ptr<Cufft>> Load(std::span<const std::string> folders);
  Status Check(int code, std::string_view what) const;
  // `type` of the plan. Transforms to real numbers overwrite their input.
  int Execute(int plan, int type, void* in, void* out, int direction) const;

  WEFT_CUFFT_FUNCTIONS(WEFT_DECLARE_SYMBOL)

 private:
  Cufft() = default;
  Status FindAll();
  std::unique_ptr<DynamicLibrary> library_;
};

}  // namespace weft::gpu
