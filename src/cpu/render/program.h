// A Program as LLVM modules. The control flow of its steps is
//   i32 @weft_run(ptr ctx, ptr addresses)
// which there is only if there are loops or conditionals, and then `i32 @weft_list_N(ptr ctx, ptr
// addresses)` for each asynchronous list. A kernel that steps launch is
//   void @weft_task_N(ptr parameters, i64 begin, i64 end)
// for ranges of its grid, and one that routines call by name is `void @weft_call_N(ptr
// parameters)`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cpu/plan.h"
#include "cpu/render/ir_text.h"
#include "program/program.h"

namespace weft::cpu {

// What the code finds behind its first argument.
struct NativeContext {
  // Runs the steps of Plan::sequences[number]; anything but 0 ends the run.
  int32_t (*sequence)(NativeContext* context, int64_t number, std::byte* const* addresses);
  const std::byte* cancel;  // not 0: end
  int32_t region = -1;      // the one of Plan::regions that runs
  // Called where a region begins and where it ends; null: nobody wants to know.
  void (*note_region)(NativeContext* context, int64_t number, int64_t is_end) = nullptr;
};
using TaskFunction = void (*)(std::byte* const* parameters, int64_t begin, int64_t end);
using RunFunction = int32_t (*)(NativeContext* context, std::byte* const* addresses);
enum RunStatus : int32_t { kRunFine, kRunCancelled, kRunFailed };  // what RunFunction returns

struct RenderedModule {
  std::string name, text;
  bool loops = false;     // wants loop optimisations, not only clean-up
  bool integers = false;  // divides integers or widens them, of which LLVM may know the ranges
  int64_t kernels = 0;
};
// At most about `parts` modules of kernels, and the control flow in one of them or its own.
// `only_kernels`: tasks for every kernel, and of the control flow only the regions, each as a
// function `i32 @weft_region_N(ptr ctx, ptr addresses)`: for running step by step.
std::vector<RenderedModule> RenderProgram(const program::Program& program, const Plan& plan,
                                          const RenderTarget& target, int parts, bool only_kernels);

bool HasControlFlow(const program::Program& program);
std::string TaskName(int32_t kernel);
std::string CalledName(int32_t kernel);
std::string RegionName(int32_t region);
std::string ListName(int32_t list);  // of the function of an asynchronous list, as weft_run

}  // namespace weft::cpu
