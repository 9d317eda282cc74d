// Launch configurations: blocks, threads and shared memory of kernels.
#include <algorithm>

#include "gpu/kernel_context.h"
#include "program/cost.h"

namespace weft::gpu {

using program::Instr;
using program::Kernel;
using program::LoopKind;
using program::Memory;
using program::Op;

namespace {

constexpr int64_t kFlatThreads = 256;  // of a block without thread loops

}  // namespace

bool RunsByWarps(const Kernel& kernel) {
  int64_t grid = GridSize(kernel);
  return HasThreadLoops(kernel) && Extents(kernel).threads <= kWarp && grid >= kWarpsOfBlock &&
         grid <= kMaxBlocks && SharedArrayBytes(kernel) * kWarpsOfBlock <= kStaticShared;
}

Launch LaunchOf(const Kernel& kernel) {
  Launch launch;
  int64_t grid = GridSize(kernel);
  launch.blocks = std::min(grid, kMaxBlocks);
  if (RunsByWarps(kernel)) {
    launch.threads = kWarp * kWarpsOfBlock;
    launch.blocks = (grid + kWarpsOfBlock - 1) / kWarpsOfBlock;
  } else if (HasThreadLoops(kernel)) {
    // Whole warps: those that shuffle must all be there.
    launch.threads = std::max<int64_t>((Extents(kernel).threads + kWarp - 1) / kWarp * kWarp, 1);
    int64_t shared = SharedArrayBytes(kernel);
    if (shared > kStaticShared) launch.shared_bytes = shared;
  } else if (grid > 1) {
    launch.threads = std::min(kFlatThreads, (grid + 31) / 32 * 32);
    launch.blocks = std::min((grid + launch.threads - 1) / launch.threads, kMaxBlocks);
  }
  return launch;
}

}  // namespace weft::gpu
