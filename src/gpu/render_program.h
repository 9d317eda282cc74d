// A Program as one CUDA source: its kernels, and a function for each loop that runs as one kernel.
//
// A native loop is a `while` whose steps are kernels, copies, fills and conditionals of little
// work: one block runs all of it, so that an iteration costs no launch. Its threads share the work
// of each kernel; buffers that are small lie in registers (one thread) or shared memory. Other
// steps are the executor's; the text lists them all in comments.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/render_cuda.h"
#include "program/program.h"

namespace weft::gpu {

struct CudaFunction {
  std::string name;
  Launch launch;
  int32_t kernel = -1;                     // that it is; or else ...
  const program::Step* loop = nullptr;     // ... the `while` step, in the program given, whose ...
  std::vector<program::BufferId> buffers;  // ... arguments are these, which have storage
};

struct CudaProgram {
  std::string text;
  std::vector<CudaFunction> functions;
};

// The program must verify, and stay where it is while functions point into it.
CudaProgram RenderProgram(const program::Program& program);

// What every source starts with: the parts of lib/ that the text uses.
std::string Prelude(std::string_view text);

}  // namespace weft::gpu
