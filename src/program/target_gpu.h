// Figures of GPUs that cost models of kernels of ours go by, beside TargetInfo.
#pragma once

#include <cstdint>

namespace weft::program {

struct GpuFigures {
  // Of TargetInfo::bf16_matrix_flops, what a product by our own kernel on matrix units reaches (one
  // with the kernel behind it in the same launch). Measured on an H200: at 28 and more FLOP a byte
  // it lost to cuBLASLt and a kernel (a bottleneck block: 934 against 830 us).
  static constexpr double kOwnMatrixShare = 1.0 / 12;
  // Of the one block that runs a native region, for grids without thread loops.
  static constexpr int64_t kLoopThreads = 256;
};

}  // namespace weft::program
