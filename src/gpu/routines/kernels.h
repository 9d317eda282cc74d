// Kernels of routines: their texts put together for types, compiled, launched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "gpu/routines/routine.h"

namespace weft::gpu {

// The numbers that an element is computed with: f32, f64, "Cx<f32>", or unsigned integers.
std::string ValueTypeOf(DType dtype);
// A struct with the types Storage and Value and the functions Load and Store.
std::string ElementText(std::string_view name, DType dtype, std::string_view value_type);
inline std::string ElementText(std::string_view name, DType dtype) {
  return ElementText(name, dtype, ValueTypeOf(dtype));
}

struct RoutineKernel {
  void* function = nullptr;
  std::string name;
};
// Kernel `function` of the text, which stands behind lib/ and elements.cuh.
Result<RoutineKernel> MakeKernel(const RoutineInputs& inputs, const std::string& text,
                                 const std::string& function);

// Blocks for one thread an element, of kThreads each.
inline constexpr int64_t kRoutineThreads = 256;
int64_t BlocksFor(int64_t elements, int64_t each = kRoutineThreads);

Status LaunchRoutine(const RoutineCall& call, const RoutineKernel& kernel, int64_t blocks,
                     int64_t threads, std::initializer_list<void*> parameters);
template <class... Args>
Status LaunchWith(const RoutineCall& call, const RoutineKernel& kernel, int64_t blocks,
                  int64_t threads, Args... args) {
  return LaunchRoutine(call, kernel, blocks, threads, {static_cast<void*>(&args)...});
}

// Scratch memory in parts, each aligned to 256 bytes.
class ScratchPlan {
 public:
  int64_t Add(int64_t bytes) {
    int64_t at = bytes_;
    bytes_ += (bytes + 255) / 256 * 256;
    return at;
  }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_ = 0;
};

}  // namespace weft::gpu
