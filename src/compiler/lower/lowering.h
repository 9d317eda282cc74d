// The state of one lowering, and the parts of it that have files of their own. Each Lower* appends
// the steps of one instruction.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/analysis/row_space.h"
#include "compiler/buffers/buffers.h"
#include "compiler/lower/draft.h"
#include "compiler/lower/lower.h"
#include "compiler/lower/reduce.h"
#include "compiler/lower/sort_order.h"
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

// small_dot.cc: operands and result are computed in f32, or all in f64.
bool IsComputedInOneFloat(const hlo::Instruction& dot);
// What lanes go along in a product of small matrices.
enum class DotLanes { kNone, kBatch, kRows, kColumns };

// cpu/index_set_splitting.cc: where loops over `dims` that compute the roots from the members are
// to be cut.
std::vector<int64_t> MinorCuts(std::span<const hlo::Instruction* const> members,
                               std::span<const hlo::Instruction* const> roots, const Dims& dims);
// Dimensions outside the minor one that are best cut too, with the ranges between the cuts that
// take much of the dimension; `cuts` of the minor one are there already.
std::vector<OuterPiece> OuterPieces(std::span<const hlo::Instruction* const> members,
                                    std::span<const hlo::Instruction* const> roots,
                                    const Dims& dims, size_t cuts);

// interleave.cc: whole rows, a row for each lane, from element `first` on; `columns` may be
// scalars.
void StoreRows(ElementEmitter& e, KernelBuilder::MemoryId memory, DType dtype, const Coord& first,
               std::vector<ValueId> columns);
// row.cc: the index of a value of one element a row, whatever dimensions of size 1 its shape has.
Index NarrowIndex(ElementEmitter& e, const RowSpace& space, const Shape& shape, const Index& row);

class Lowering {
 public:
  Lowering(const hlo::Module& module, const program::TargetInfo& target, Memory memory)
      : module_(module), target_(target), memory_(std::move(memory)), ranges_(module) {}
  Result<program::Program> Run();
  std::vector<CopyNote> TakeCopies() { return std::move(copies_); }
  std::vector<FusionNote> TakeNotFused() { return std::move(not_fused_); }

 private:
  Status LowerComputation(const hlo::Computation& computation, Steps& steps);
  Status LowerInstruction(const hlo::Instruction& instruction, Steps& steps);
  Status LowerWhile(const hlo::Instruction& loop, Steps& steps);
  void NoteCounter(const hlo::Instruction& loop, program::WhileStep& op, program::Step& step);
  void NextRound(const hlo::Instruction& loop, program::WhileStep& op, Steps& before);
  // cpu/loop_interchange.cc: all rounds of a loop over arrays, element by element; false: it is
  // another one.
  Result<bool> LowerStateLoop(const hlo::Instruction& loop, Steps& steps);
  Status EmitRounds(KernelDraft& draft, const hlo::Instruction& loop,
                    std::span<const hlo::Instruction* const> reads, bool arrays, int64_t trips,
                    const Index& index);
  Status LowerConditional(const hlo::Instruction& conditional, Steps& steps);

  // kernels.cc
  KernelBody BodyOf(const hlo::Instruction& instruction) const;
  Status LowerKernel(const hlo::Instruction& instruction, Steps& steps);
  Status LowerLoop(const KernelBody& body, Steps& steps);
  Status LowerConcatenate(const KernelBody& body, Steps& steps);
  Status LowerReduce(const KernelBody& body, Steps& steps);
  Status LowerSplitReduce(const KernelBody& body, std::span<const hlo::Instruction* const> reduces,
                          std::span<const size_t> wanted, const ReduceDims& dims,
                          const LoopShape& shape, Steps& steps);
  Status LowerReduceOnGpu(const KernelBody& body, std::span<const hlo::Instruction* const> reduces,
                          std::span<const size_t> wanted, const ReduceDims& dims,
                          const LoopShape& shape, Steps& steps);
  Status LowerUpdate(const KernelBody& body, Steps& steps);
  // columns.cc: reductions that keep the minor dimension.
  Status LowerColumnReduce(const KernelBody& body, std::span<const hlo::Instruction* const> reduces,
                           std::span<const size_t> wanted, const ReduceDims& dims, Steps& steps);
  // row.cc: reductions along rows with what is computed from their results.
  Status LowerRows(const KernelBody& body, const RowSpace& space, Steps& steps);
  // interleave.cc: the same with a row in each lane, where rows are short.
  bool FitRowsInLanes(const KernelBody& body, const RowSpace& space) const;
  Status LowerRowsInLanes(const KernelBody& body, const RowSpace& space, Steps& steps);
  // interleave.cc: a loop over an array with few elements along its minor dimension.
  bool CanInterleave(const KernelBody& body, const Dims& dims) const;
  bool IsPeriodic(const KernelBody& body, const LoopShape& whole) const;
  Status LowerPeriodic(const KernelBody& body, const LoopShape& whole, Steps& steps);
  Status LowerInterleaved(const KernelBody& body, const LoopShape& whole, Steps& steps);
  // transpose.cc: a loop whose root is a transpose, by tiles.
  bool CanTile(const KernelBody& body) const;
  Status LowerTiles(const KernelBody& body, Steps& steps);
  // epilogue.cc: loops that run as part of the call before them.
  std::optional<size_t> ProductBefore(const KernelBody& body, const LoopShape& shape,
                                      const Steps& steps);
  std::string WhyNoEpilogue(const KernelBody& body, const LoopShape& shape, const Shape& product,
                            const program::Step& call);
  void FinishEpilogue(KernelDraft& draft, const KernelBody& body, size_t product, Steps& steps);
  LoopShape ShapeOf(const KernelBody& body, const Dims& dims) const;
  KernelDraft NewDraft(const KernelBody& body);
  void Finish(KernelDraft& draft, const KernelBody& body, Steps& steps);

  // scatter.cc
  Status LowerScatter(const hlo::Instruction& instruction, Steps& steps);
  KernelBody ScatterBody(const hlo::Instruction& instruction,
                         const hlo::Instruction& scatter) const;
  Status LowerScatterToOwnArrays(const KernelBody& body, const hlo::Instruction& scatter,
                                 int64_t arrays, bool wide, int64_t piece, Steps& steps);
  // indexed.cc
  Status LowerSelectAndScatter(const hlo::Instruction& op, Steps& steps);
  // scan.cc
  Status LowerScan(const hlo::Instruction& scan, Steps& steps);
  Status LowerRunningSum(const hlo::Instruction& scan, Steps& steps);
  // column_scan.cc
  Status LowerColumnScan(const hlo::Instruction& scan, Steps& steps);
  // routines.cc: library calls
  Status LowerDot(const hlo::Instruction& dot, Steps& steps);
  bool LiesAlongContraction(const hlo::Instruction& dot, const DotSizes& sizes) const;
  Status LowerDotAlongContraction(const hlo::Instruction& dot, const DotSizes& sizes, Steps& steps);
  // row_dot.cc
  bool LiesAlongColumns(const hlo::Instruction& dot, const DotSizes& sizes) const;
  Status LowerDotAlongColumns(const hlo::Instruction& dot, const DotSizes& sizes, Steps& steps);
  // lane_dot.cc
  DotLanes LanesOfDot(const hlo::Instruction& dot, const DotSizes& sizes) const;
  Status LowerDotInLanes(const hlo::Instruction& dot, const DotSizes& sizes, DotLanes along,
                         Steps& steps);
  // long_dot.cc
  bool IsLongDot(const hlo::Instruction& dot, const DotSizes& sizes) const;
  Status LowerLongDot(const hlo::Instruction& dot, const DotSizes& sizes, Steps& steps);
  Status LowerRoutine(const hlo::Instruction& instruction, Steps& steps);
  std::optional<program::Step> HouseholderStep(const hlo::Instruction& call);
  Status LowerSort(const hlo::Instruction& sort, Steps& steps);
  // cpu/sorting_network.cc
  bool IsFewSorted(const hlo::Instruction& sort) const;
  Status LowerFewSorted(const hlo::Instruction& sort, Steps& steps);
  Status LowerOrderedSort(const hlo::Instruction& sort, const SortOrder& order,
                          std::vector<program::Attr> list, Steps& steps);
  // collectives.cc
  Status LowerCollective(const hlo::Instruction& collective, Steps& steps);
  Status LowerDeviceId(const hlo::Instruction& id, Steps& steps);
  Status LowerSend(const hlo::Instruction& send, Steps& steps);
  Status LowerRecv(const hlo::Instruction& recv, Steps& steps);
  Status LowerRecvDone(const hlo::Instruction& done, Steps& steps);
  void FillZeroes(MemValue value, const hlo::Instruction& at, Steps& steps);
  // linalg.cc
  Status LowerCholesky(const hlo::Instruction& cholesky, Steps& steps);
  Status LowerTriangularSolve(const hlo::Instruction& solve, Steps& steps);
  Status LowerLu(const hlo::Instruction& call, Steps& steps);
  // linalg_loops.cc
  Status LowerCholeskyLoops(const hlo::Instruction& cholesky, Steps& steps);
  Status LowerSolveLoops(const hlo::Instruction& solve, Steps& steps);
  Status LowerLuLoops(const hlo::Instruction& call, Steps& steps);

  program::BufferId Buffer(MemValue value) { return memory_.Buffer(program_, value); }
  // A temporary that only this step and the next ones use.
  program::BufferId Scratch(const Shape& shape, std::string_view name);
  void CopyInto(program::BufferId from, int64_t bytes, program::BufferId to, int64_t offset,
                const hlo::Instruction& at, Steps& steps);
  void CopyBytes(program::BufferId from, program::BufferId to, std::string_view reason,
                 const hlo::Instruction& at, Steps& steps);
  void Copy(MemValue from, MemValue to, std::string_view reason, const hlo::Instruction& at,
            Steps& steps);
  // Copies that all read before any of them writes.
  void CopyTogether(std::vector<std::pair<MemValue, MemValue>> moves, std::string_view reason,
                    const hlo::Instruction& at, Steps& steps);
  program::Step Routine(std::string name, const hlo::Instruction& instruction,
                        std::vector<program::Attr> attrs);

  const hlo::Module& module_;
  const program::TargetInfo& target_;
  Memory memory_;
  Ranges ranges_;
  program::Program program_;
  UniqueKernels kernels_;
  bool in_condition_ = false;  // of a loop
  bool serial_ = false;        // inside a loop that is to run as one native function
  bool in_loop_ = false;
  std::vector<CopyNote> copies_;
  std::vector<FusionNote> not_fused_;
  int scratch_count_ = 0;
  program::BufferId random_counter_ = -1;  // of the stream that rng reads, 0 when a run begins
};

}  // namespace weft::compiler
