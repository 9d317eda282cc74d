// Ops that read or write at indices, along dimensions that are cut.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "compiler/spmd/emit.h"
#include "compiler/spmd/partitioner.h"

namespace weft::compiler::spmd {

class IndexedOp {
 public:
  // A dimension of operand 0 that is cut, and along which there are indices.
  struct CutDim {
    int64_t dim, size, part;  // of the whole, of the part
    AxisList axes;
  };
  // Those of an op whose operand 0 is `local`.
  static std::vector<CutDim> CutDims(const hlo::Instruction& i, const Cut& cut,
                                     const hlo::Instruction* local, const DeviceMesh& mesh);
  // `operands`: parts, which Prepare* put in order.
  IndexedOp(Emitter& emitter, const hlo::Instruction& i, std::vector<hlo::Instruction*>& operands,
            std::vector<CutDim> dims)
      : e_(emitter), i_(i), operands_(operands), dims_(std::move(dims)) {}

  bool IsCut() const { return !dims_.empty(); }
  Status PrepareSlice();
  Result<hlo::Instruction*> FinishSlice(hlo::Instruction* local);
  Result<hlo::Instruction*> EmitUpdate();
  Status PrepareGather();
  Result<hlo::Instruction*> FinishGather(hlo::Instruction* local);
  Status PrepareScatter(AxisSpan reduced);

 private:
  // An index along `dim`, and where this device's part is.
  struct Mask {
    int64_t dim;
    hlo::Instruction* start;
    hlo::Instruction* own;
    int64_t part;
  };
  Result<std::vector<hlo::Instruction*>> StartsAsWide(size_t first);
  Result<hlo::Instruction*> ByComponent(hlo::Instruction* indices, int64_t vector_dim,
                                        std::span<hlo::Instruction* const> values);
  Status ShiftIndices(size_t operand, int64_t vector_dim, const hlo::Ints& map,
                      const hlo::Ints* slice_sizes);

  Emitter& e_;
  const hlo::Instruction& i_;
  std::vector<hlo::Instruction*>& operands_;
  std::vector<CutDim> dims_;
  std::vector<Mask> masks_;
  hlo::Instruction* there_ = nullptr;  // gather: which indices are in this device's part
};

}  // namespace weft::compiler::spmd
