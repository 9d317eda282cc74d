// A Program as LLVM modules. The step list is
//   i32 @weft_run(ptr ctx, ptr addresses)
// with all its control flow. A kernel that steps launch is `void @weft_kernel_N`
// (render_kernel.h); if it has a grid, there is
//   void @weft_task_N(ptr parameters, i64 begin, i64 end)
// for ranges of it, and one that routines call by name is `void @weft_call_N(ptr parameters)`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cpu/ir_text.h"
#include "cpu/plan.h"
#include "program/program.h"

namespace weft::cpu {

// What the code finds behind its first argument.
struct NativeContext {
  using Task = void (*)(std::byte* const* parameters, int64_t begin, int64_t end);
  void (*parallel)(NativeContext* context, Task task, std::byte* const* parameters, int64_t n);
  // Runs step number `call` (Plan::calls); anything but 0 ends the run.
  int32_t (*call)(NativeContext* context, int64_t call, std::byte* const* addresses);
  const std::byte* cancel;  // not 0: end
};
using RunFunction = int32_t (*)(NativeContext* context, std::byte* const* addresses);
inline constexpr int32_t kRunCancelled = 1, kRunFailed = 2;  // what RunFunction returns, 0: fine

struct RenderedModule {
  std::string name, text;
  bool loops = false;  // wants loop optimisations, not only clean-up
  bool steps = false;  // has the step list
  int64_t kernels = 0;
};
// At most about `parts` modules of kernels, and the main one last. `all_kernels`: tasks for every
// kernel, in modules of their own, for running step by step.
std::vector<RenderedModule> RenderProgram(const program::Program& program, const Plan& plan,
                                          const RenderTarget& target, int parts, bool all_kernels);

std::string KernelName(int32_t kernel);
std::string TaskName(int32_t kernel);
std::string CalledName(int32_t kernel);

}  // namespace weft::cpu
