// The context of one lowering, and what all ways to lower an instruction are made of.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/analysis/row_space.h"
#include "compiler/buffers/buffers.h"
#include "compiler/lower/draft.h"
#include "compiler/lower/lower.h"
#include "compiler/lower/reduce.h"
#include "hlo/computation.h"

namespace weft::compiler {

using Steps = std::vector<program::Step>;

// What a kernel computes: a lone instruction, or a fused computation.
struct KernelBody {
  const hlo::Instruction* instruction = nullptr;  // in the executed computation
  std::vector<KernelInput> inputs;
  std::vector<KernelOutput> outputs;
  std::vector<const hlo::Instruction*> members;  // computed inside
};

// [batch, m, k] x [batch, k, n], either side possibly transposed.
struct DotSizes {
  int64_t batch, m, n, k;
  bool trans_a, trans_b;
};

// cpu/index_set_splitting.cc: where loops over `dims` that compute the roots from the members are
// to be cut.
std::vector<int64_t> MinorSplitPoints(std::span<const hlo::Instruction* const> members,
                                      std::span<const hlo::Instruction* const> roots,
                                      const Dims& dims);
// Whether lanes across a cut of the minor dimension are gathered: windows of updates and what is
// padded are shorter than it. Those of concatenates are shuffles of vectors.
bool GathersAtCuts(std::span<const hlo::Instruction* const> members, const Dims& dims);
// Dimensions outside the minor one that are best cut too, with the ranges between the cuts that
// take much of the dimension; `cuts` of the minor one are there already.
std::vector<IndexSet> OuterIndexSets(std::span<const hlo::Instruction* const> members,
                                     std::span<const hlo::Instruction* const> roots,
                                     const Dims& dims, size_t cuts);

// interleave.cc: whole rows, a row for each lane, from element `first` on; `columns` may be
// scalars.
void StoreRows(ElementContext& e, KernelBuilder::MemoryId memory, DType dtype, const Coord& first,
               std::vector<ValueId> columns);
// row.cc: the index of a value of one element a row, whatever dimensions of size 1 its shape has.
Index NarrowIndex(ElementContext& e, const RowSpace& space, const Shape& shape, const Index& row);

// What all parts of one lowering share.
struct LowerContext {
  const hlo::Module& module;
  const program::TargetInfo& target;
  Memory memory;
  ValueRanges value_ranges;
  program::Program program;
  UniqueKernels kernels;
  bool in_condition = false;  // of a loop
  bool serial = false;        // inside a loop that is to run as one native function
  bool in_loop = false;
  std::vector<CopyNote> copies;
  std::vector<FusionNote> not_fused;
  std::vector<LoweringChoice>* choices = nullptr;  // noted where somebody asks
  std::span<const std::string> disabled;           // rows and rules of elements (lower.disable)
  int scratch_count = 0;
  program::BufferId random_counter = -1;  // of the stream that rng reads, 0 when a run begins

  LowerContext(const hlo::Module& the_module, const program::TargetInfo& the_target,
               Memory the_memory)
      : module(the_module),
        target(the_target),
        memory(std::move(the_memory)),
        value_ranges(the_module) {}
  program::BufferId Buffer(MemValue value) { return memory.Buffer(program, value); }
  // A temporary that only this step and the next ones use.
  program::BufferId Scratch(const Shape& shape, std::string_view name);
};

// lower.cc: the steps of a computation.
Status LowerComputation(LowerContext& cx, const hlo::Computation& computation, Steps& steps);

// kernels.cc
KernelBody BodyOf(const LowerContext& cx, const hlo::Instruction& instruction);
LoopShape ShapeOf(const LowerContext& cx, const KernelBody& body, const Dims& dims);
KernelDraft NewDraft(LowerContext& cx, const KernelBody& body);
void Finish(LowerContext& cx, KernelDraft& draft, const KernelBody& body, Steps& steps);

// lower.cc: bytes of the first, from `start` on, into the second, from `offset` on.
void CopyInto(LowerContext& cx, program::BufferId from, int64_t bytes, program::BufferId to,
              int64_t offset, const hlo::Instruction& at, Steps& steps, int64_t start = 0);
// Where the part of its operand begins that a slice takes, in bytes; none: its elements do not
// follow each other there.
std::optional<int64_t> StartOfPart(const hlo::Instruction& slice);
void CopyBytes(LowerContext& cx, program::BufferId from, program::BufferId to,
               std::string_view reason, const hlo::Instruction& at, Steps& steps);
void Copy(LowerContext& cx, MemValue from, MemValue to, std::string_view reason,
          const hlo::Instruction& at, Steps& steps);
// Copies that all read before any of them writes.
void CopyTogether(LowerContext& cx, std::vector<std::pair<MemValue, MemValue>> moves,
                  std::string_view reason, const hlo::Instruction& at, Steps& steps);
// routines.cc: a call of a library routine with the instruction's operands and results.
program::Step Routine(LowerContext& cx, std::string name, const hlo::Instruction& instruction,
                      std::vector<program::Attr> attrs);

}  // namespace weft::compiler
