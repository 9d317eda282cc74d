#include "gpu/routines/routine.h"

#include <algorithm>

#include "base/log.h"
#include "base/str.h"
#include "gpu/routines/ways.h"
#include "program/library.h"

namespace weft::gpu {

DType RoutineInputs::type(size_t use) const {
  return program.buffers[static_cast<size_t>(step.uses[use].slice.buffer)].shape.dtype();
}

int64_t RoutineInputs::elements(size_t use) const {
  return step.uses[use].slice.size / ByteWidth(type(use));
}

int64_t RoutineInputs::alignment(size_t use) const {
  program::Slice slice = Resolve(program, step.uses[use].slice);
  const program::Buffer& buffer = program.buffers[static_cast<size_t>(slice.buffer)];
  // Arguments may be memory of the user's own (runtime::Call).
  bool ours = buffer.kind == program::BufferKind::kTemp;
  int64_t align = std::min<int64_t>(buffer.align, ours ? 256 : 16);
  while (align > 1 && slice.offset % align != 0) align /= 2;
  return align;
}

std::span<const RoutineWay> RoutineWays() {
  static constexpr RoutineWay kWays[] = {
      {"gemm", "cuBLASLt", PrepareCublasLtGemm},
      {"gemm", "kernel", PrepareGemmKernel},
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

}  // namespace weft::gpu
