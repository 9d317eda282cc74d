// The routines of this folder, and what their preparation shares.
#pragma once

#include <memory>
#include <string_view>

#include "cpu/routines/routine.h"
#include "program/library.h"

namespace weft::cpu {

Result<std::unique_ptr<PreparedRoutine>> PrepareAttention(const RoutineInputs& inputs);
Result<std::unique_ptr<PreparedRoutine>> PrepareAttentionGradient(const RoutineInputs& inputs);
Result<std::unique_ptr<PreparedRoutine>> PrepareCholesky(const RoutineInputs& inputs);
Result<std::unique_ptr<PreparedRoutine>> PrepareConvolution(const RoutineInputs& inputs);
Result<std::unique_ptr<PreparedRoutine>> PrepareFft(const RoutineInputs& inputs);
Result<std::unique_ptr<PreparedRoutine>> PrepareGemm(const RoutineInputs& inputs);
Result<std::unique_ptr<PreparedRoutine>> PrepareHouseholderProduct(const RoutineInputs& inputs);
Result<std::unique_ptr<PreparedRoutine>> PrepareHouseholderQr(const RoutineInputs& inputs);
Result<std::unique_ptr<PreparedRoutine>> PrepareLu(const RoutineInputs& inputs);
Result<std::unique_ptr<PreparedRoutine>> PrepareRng(const RoutineInputs& inputs);
Result<std::unique_ptr<PreparedRoutine>> PrepareRngBitGenerator(const RoutineInputs& inputs);
Result<std::unique_ptr<PreparedRoutine>> PrepareScaledGemm(const RoutineInputs& inputs);
Result<std::unique_ptr<PreparedRoutine>> PrepareSort(const RoutineInputs& inputs);
Result<std::unique_ptr<PreparedRoutine>> PrepareTopK(const RoutineInputs& inputs);
Result<std::unique_ptr<PreparedRoutine>> PrepareTriangularSolve(const RoutineInputs& inputs);

// What the verifier says of the step; preparation reads attributes without further checks.
inline Status VerifyCall(const RoutineInputs& inputs, std::string_view name) {
  return program::FindRoutine(name)->verify(inputs.program, inputs.step);
}

inline DType UseDType(const RoutineInputs& inputs, size_t use) {
  return inputs.program.buffers[static_cast<size_t>(inputs.step.uses[use].slice.buffer)]
      .shape.dtype();
}

class NothingToDo : public PreparedRoutine {
 public:
  Status Run(const RoutineContext&) const override { return {}; }
};

}  // namespace weft::cpu
