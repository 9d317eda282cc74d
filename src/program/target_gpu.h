// Figures of GPUs that cost models of kernels of ours go by, beside TargetInfo.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::program {

struct GpuFigures {
  // Of TargetInfo::bf16_matrix_flops, what a product by our own kernel on matrix units reaches (one
  // with the kernel behind it in the same launch). Measured on an H200: at 28 and more FLOP a byte
  // it lost to cuBLASLt and a kernel (a bottleneck block: 934 against 830 us).
  static constexpr double kOwnMatrixShare = 1.0 / 12;
  // Of the one block that runs a native region, for grids without thread loops.
  static constexpr int64_t kLoopThreads = 256;
  // What such a block takes: instructions of all kernels, which NVRTC compiles in about a second;
  // bytes of shared arrays of one kernel; bytes of one copy or fill.
  static constexpr size_t kLoopCode = 3000;
  static constexpr int64_t kLoopArrayBytes = 8192, kLoopCopyBytes = 1 << 18;
  // Of a core's instructions, what the few warps of one block get done.
  static constexpr double kBlockShare = 0.25;
  // Launches that reading a predicate on the host takes as long as.
  static constexpr double kHostTurns = 5;
  // Elements that a thread computes while the threads of a block combine what they have and meet at
  // a barrier.
  static constexpr int64_t kBarrierElements = 4;
  // Launches that going on beside takes as long as: an event recorded and waited for, twice.
  static constexpr double kStreamTurns = 4;
  // As many of the machine's threads are enough where each moves several elements at once, of which
  // more bytes are under way: half of them.
  static constexpr int64_t kWideThreads = 2;
  // Bytes that a thread moves at once.
  static constexpr double kBytesAtOnce = 16;
};

}  // namespace weft::program
