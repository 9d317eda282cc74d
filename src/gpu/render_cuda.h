// A kernel as CUDA C:
//   extern "C" __global__ void NAME(const f32* __restrict__ m0, f32* __restrict__ m1)
// A kernel with thread loops runs one iteration of its grid a block, a thread for each iteration of
// the largest nest of thread loops; where these are a warp at most, several, a warp each. One
// without runs one iteration of the grid a thread, 256 of them a block. The kernel must verify.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "gpu/cuda_text.h"
#include "program/kernel.h"

namespace weft::gpu {

struct Launch {
  int64_t blocks = 1;  // 0: nothing to run
  int64_t threads = 1;
  int64_t shared_bytes = 0;  // of dynamic shared memory
};
Launch LaunchOf(const program::Kernel& kernel);
// A block runs several iterations of the grid, a warp each.
bool RunsByWarps(const program::Kernel& kernel);

void RenderKernel(const program::Kernel& kernel, std::string_view name, std::string& out);

// The whole of it as statements that the one block of a function runs: all iterations of the grid.
// Its parameters are pointers m0, m1, ... in scope. Whether there must be a barrier before other
// threads see what was stored is left to the caller.
void RenderInBlock(const program::Kernel& kernel, int64_t threads, CudaText& text);

}  // namespace weft::gpu
