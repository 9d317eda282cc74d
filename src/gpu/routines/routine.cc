#include "gpu/routines/routine.h"

#include <algorithm>

#include "base/log.h"
#include "base/str.h"
#include "gpu/routines/gemm_epilogue.h"
#include "gpu/routines/ways.h"
#include "program/library.h"

namespace weft::gpu {

DType RoutineInputs::type(size_t use) const {
  return program.buffers[static_cast<size_t>(step.uses[use].slice.buffer)].shape.dtype();
}

int64_t RoutineInputs::elements(size_t use) const {
  return step.uses[use].slice.size / ByteWidth(type(use));
}

int64_t RoutineInputs::alignment(const program::Use& use) const {
  program::Slice slice = Resolve(program, use.slice);
  const program::Buffer& buffer = program.buffers[static_cast<size_t>(slice.buffer)];
  // Arguments may be memory of the user's own (runtime::Call).
  bool ours = buffer.kind == program::BufferKind::kTemp;
  int64_t align = std::min<int64_t>(buffer.align, ours ? 256 : 16);
  while (align > 1 && slice.offset % align != 0) align /= 2;
  return align;
}

std::span<const RoutineWay> RoutineWays() {
  static constexpr RoutineWay kWays[] = {
      {"gemm", "few rows", PrepareThinGemm},
      {"gemm", "cuBLASLt", PrepareCublasLtGemm},
      {"gemm", "kernel", PrepareGemmKernel},
      {"fft", "cuFFT", PrepareCufft},
      {"device_id", "fill", PrepareDeviceId},
      {"cholesky", "cuSOLVER", PrepareCholeskySolver},
      {"cholesky", "kernel", PrepareCholeskyKernel},
      {"convolution", "cuDNN", PrepareCudnnConvolution},
      {"convolution", "kernel", PrepareConvolutionKernel},
      {"householder_product", "cuSOLVER", PrepareHouseholderProductSolver},
      {"householder_product", "kernel", PrepareHouseholderProductKernel},
      {"householder_qr", "cuSOLVER", PrepareHouseholderQrSolver},
      {"householder_qr", "kernel", PrepareHouseholderQrKernel},
      {"lu", "cuSOLVER", PrepareLuSolver},
      {"lu", "kernel", PrepareLuKernel},
      {"rng", "kernel", PrepareRngKernel},
      {"rng_bit_generator", "kernel", PrepareBitGeneratorKernel},
      {"sort", "kernel", PrepareSortKernel},
      {"topk", "kernel", PrepareTopKKernel},
      {"triangular_solve", "cuBLAS", PrepareTriangularSolveCublas},
      {"triangular_solve", "kernel", PrepareTriangularSolveKernel},
  };
  return kWays;
}

Result<PreparedPtr> PrepareRoutine(const RoutineInputs& inputs) {
  const std::string& name = inputs.call().routine;
  std::string reasons;
  for (const RoutineWay& way : RoutineWays()) {
    if (way.name != name) continue;
    auto prepared = way.prepare(inputs);
    if (prepared) {
      VLOG("gpu", 2) << name << " " << inputs.step.name << ": " << way.way
                     << (reasons.empty() ? "" : ", as ") << reasons;
      return prepared;
    }
    const Error& error = prepared.error();
    bool refused = error.code() == Code::kUnimplemented || error.code() == Code::kNotFound ||
                   error.code() == Code::kUnavailable;
    if (!refused) return prepared;
    StrAppend(reasons, reasons.empty() ? "" : "; ", way.way, ": ", error.message());
  }
  VLOG("gpu", 1) << name << " " << inputs.step.name << ": runs on the host: "
                 << (reasons.empty() ? "GPUs have no such routine" : reasons);
  return PreparedPtr();
}

PreparedPtr PrepareWithEpilogue(const RoutineInputs& inputs, const program::Step& next) {
  static constexpr EpilogueWay kWays[] = {
      {"gemm", "cuBLASLt", PrepareCublasLtGemmWithEpilogue},
      {"gemm", "matrix units", PrepareGemmWithEpilogue},
      {"convolution", "cuDNN", PrepareCudnnConvolutionWithEpilogue},
  };
  const std::string& name = inputs.call().routine;
  std::string reasons;
  for (const EpilogueWay& way : kWays) {
    if (way.name != name) continue;
    auto prepared = way.prepare(inputs, next);
    if (prepared) {
      VLOG("gpu", 2) << name << " " << inputs.step.name << ": " << way.way << ", with "
                     << next.name;
      return std::move(*prepared);
    }
    StrAppend(reasons, reasons.empty() ? "" : "; ", way.way, ": ", prepared.error().message());
  }
  if (!reasons.empty()) {
    VLOG("gpu", 2) << name << " " << inputs.step.name << ": alone: " << reasons;
  }
  return nullptr;
}

}  // namespace weft::gpu
