// Halo exchange: elements that move along a dimension that is cut. Each device gets a stretch of
// the dimension that begins elsewhere than its part does (windows, slices, padding, reversal), by
// collective-permutes of the parts that hold it.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/error.h"
#include "compiler/spmd/emit.h"
#include "compiler/spmd/partitioner.h"

namespace weft::compiler::spmd {

// What device number k along the axes reads of a dimension: `length` elements from first + k * step
// on, of which some may lie outside of the dimension.
struct Stretch {
  int64_t first = 0, step = 0, length = 0;
  // Where elements stand apart (base dilation): positions before the first and behind the last.
  int64_t pad_low = 0, pad_high = 0;
  int64_t Start(int64_t k) const { return first + k * step; }
};

// How they come: what the rounds bring, one behind the other, holds the stretch of device k from
// offsets[k] on. What lies outside of the dimension may be anything.
struct WindowPlan {
  struct Round {
    int64_t begin = 0, end = 0;  // of a part
    bool local = false;          // everybody's own part
    // Numbers along the axes, sender and receiver; several lists where a part has several
    // receivers, since a collective-permute sends it once.
    std::vector<std::vector<std::pair<int64_t, int64_t>>> pairs;
    std::vector<int64_t> own;  // receivers whose own part it is
  };
  std::vector<Round> rounds;
  std::vector<int64_t> offsets;
  int64_t moved = 0;  // elements of the dimension that a device sends at most
};
WindowPlan PlanWindow(int64_t part, int64_t parts, const Stretch& stretch);

// The stretch of operand `operand` along its dimension `dim` that one part of the op's result
// needs, `part` elements of `size` along dimension `result_dim`; false: it is none.
bool StretchOf(const hlo::Instruction& i, int64_t operand, int64_t dim, int64_t part,
               Stretch& stretch);
// The dimension along which the op is cumulative, each element with all before or behind it; -1:
// none.
int64_t CumulativeDim(const hlo::Instruction& i);
// A concatenation of two pieces of a value that turns it around: element k along the dimension is
// its element k + by, modulo the size.
struct Rotation {
  const hlo::Instruction* of = nullptr;  // null: it is none
  int64_t dim = 0, by = 0;
};
Rotation RotationOf(const hlo::Instruction& i);
// The axes by which the window of a convolution is cut along spatial dimension s: each device takes
// its part of the window over what that reaches of the input.
const AxisList& WindowAxes(const hlo::Instruction& i, const Cut& cut, size_t s);
// How the operand lies when the op is cut so.
Form OperandForm(const hlo::Instruction& i, const Cut& cut, int64_t operand,
                 const DeviceMesh& mesh);
// Whether elements move along the factor more cheaply than all of it is gathered, when it is cut by
// these axes.
bool MovesCheaply(const hlo::Instruction& i, const hlo::DimRule& rule, int factor, int64_t parts);

// The op on parts of which some factors are permuted and cut. Operands become what the op reads.
class WindowedOp {
 public:
  WindowedOp(Emitter& emitter, const hlo::Instruction& i, const Cut& cut, const Shape& shape)
      : e_(emitter), i_(i), cut_(cut), shape_(shape) {}
  bool IsCut() const;
  // Operands are parts; afterwards they are stretches, masked where the op would have padded.
  Status Prepare(std::vector<hlo::Instruction*>& operands);
  // Of a concatenation: the result from the stretches.
  Result<hlo::Instruction*> Join(std::span<hlo::Instruction* const> operands);
  // The attributes of the op on stretches.
  void FitAttributes(hlo::Instruction& local) const;

 private:
  struct Moved {
    int64_t dim;
    AxisList axes;
    Stretch stretch;
  };
  std::vector<Moved> MovedDims(int64_t operand) const;
  void AppendCutWindows(std::vector<Moved>& moved) const;
  // From where on the result of this device lies along the dimension.
  Result<hlo::Instruction*> StartOf(const AxisList& axes, const Stretch& stretch);
  Result<hlo::Instruction*> Window(hlo::Instruction* x, const Moved& moved);
  Result<hlo::Instruction*> Permuted(hlo::Instruction* x, const AxisList& axes,
                                     const WindowPlan::Round& round, int64_t parts);
  Result<hlo::Instruction*> Inside(const Moved& moved, const Shape& like, int64_t size);
  Result<hlo::Instruction*> Spread(hlo::Instruction* x, int64_t dim);
  hlo::Instruction* FillOf(int64_t operand, std::span<hlo::Instruction* const> operands);

  Emitter& e_;
  const hlo::Instruction& i_;
  const Cut& cut_;
  const Shape shape_;
};

}  // namespace weft::compiler::spmd
