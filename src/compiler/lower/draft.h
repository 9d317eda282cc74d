// A kernel in the making: the instructions computed in it, the buffers that they read and write,
// and the loops around them.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compiler/analysis/element_cost.h"
#include "compiler/buffers/buffers.h"
#include "compiler/lower/element/element.h"
#include "hlo/instruction.h"
#include "program/program.h"
#include "program/target.h"

namespace weft::compiler {

// What a kernel is made of. For a lone instruction inputs are its operands; for a fusion, the
// parameters of the fused computation stand for the fusion's operands.
struct KernelInput {
  const hlo::Instruction* inside;  // what code for elements meets
  MemValue value;
};
struct KernelOutput {
  const hlo::Instruction* inside;
  MemValue value;
  int64_t leaf = 0;  // of `inside`, when that is a tuple
};

// The kernels of a program, by what they do.
class UniqueKernels {
 public:
  // The number of the kernel that does the same, or of this one, which is added then.
  int32_t Add(program::Program& program, program::Kernel kernel);

 private:
  std::unordered_multimap<size_t, int32_t> by_hash_;
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, int> taken_;  // numbers behind a name that are given away
};

// Coordinates of an outer dimension for which the body is written once more, knowing the range.
struct IndexSet {
  size_t dim;
  int64_t begin, end;
};

// Work of an element (ElementCost) from which on vectors pay for few of them, too.
inline constexpr double kStraightCost = 30;

struct LoopShape {
  Dims dims;              // of what is iterated over
  double cost = 1;        // of one element
  int64_t width = 4;      // bytes of the widest element computed
  bool flat = false;      // elements are wanted by their row-major number
  bool in_place = false;  // an element must not be computed twice
  bool serial = false;    // never in parallel: part of a loop that runs as one native function
  bool scalar = false;    // no lanes
  bool by_rows = false;   // a round of the grid for each row, however little that is
  // Coordinates of the innermost dimension (of more than one element) where a case distinction in
  // the body changes: loops stop there. Sorted, inside the dimension.
  std::vector<int64_t> cuts;
  bool cuts_gather = false;     // lanes on both sides of a cut would be read one by one
  std::vector<IndexSet> outer;  // those of one dimension do not overlap
};

// Predicates that are put together come in parts of one register (masks.cc).
void SplitMasks(program::Kernel& kernel, const program::TargetInfo& target);

class KernelDraft {
 public:
  KernelDraft(std::string name, program::Program& program, Memory& memory,
              const program::TargetInfo& target, ValueRanges* value_ranges = nullptr);

  // Declares the parameters: one for each buffer, updated where it is both read and written.
  void Declare(std::span<const KernelInput> inputs, std::span<const KernelOutput> outputs);
  // One more parameter, for a buffer that is not a value's. After Declare.
  KernelBuilder::MemoryId DeclareBuffer(program::BufferId buffer, program::Access access);
  KernelBuilder& builder() { return builder_; }
  ElementContext& elements() { return elements_; }
  KernelBuilder::MemoryId MemoryOf(MemValue value) const;

  // Calls body for every index, lanes set in elements(), in parallel chunks where it pays.
  using Body = std::function<Status(const Index&)>;
  Status ForEach(const LoopShape& shape, const Body& body);
  // The same over rows: `rows` is iterated, body gets one row's index.
  Status ForEachRow(const Dims& rows, double cost_of_row, bool serial, const Body& body);
  // One iteration of the grid for each index (gpu/loops.cc). At the top of a kernel.
  // Of flat ones each iteration takes as many elements as there are lanes.
  Status ForEachOnGrid(const Dims& dims, bool flat, const Body& body, int lanes = 1);
  // One loop over [begin, end) by lanes; what does not fill them comes last.
  Status OverLanes(int64_t size, int lanes, bool in_place,
                   const std::function<Status(Coord)>& body);
  Status OverLanes(int64_t begin, int64_t end, int lanes, bool in_place,
                   const std::function<Status(Coord)>& body);
  // Over [0, size) without a loop, the last ones by fewer lanes.
  Status StraightLanes(int64_t size, int lanes, const std::function<Status(Coord)>& body);
  int LanesFor(int64_t width, int64_t size) const;
  int64_t ChunksOf(double work) const;  // that a loop is cut in for threads
  int RowLanes(const Dims& dims) const;

  // The step that launches it.
  program::Step Finish(UniqueKernels& kernels, std::string source);

  const program::TargetInfo& target() const { return target_; }

 private:
  int64_t AlignOf(program::BufferId buffer) const;
  int GridLanes(const LoopShape& shape) const;
  int64_t WidestOf(int64_t n) const;
  // Loops begun now are the grid of a GPU.
  bool UsesGrid() const { return target_.HasThreadGrid() && builder_.block() == 0; }
  Status ForFew(const LoopShape& shape, int64_t n, const Body& body);
  Status ForMany(const LoopShape& shape, const Body& body);
  struct RowPart {
    ValueId begin, end, is_last;
  };
  RowPart PartOf(ValueId number, int64_t parts, int64_t size, int64_t n);
  Status OverPart(const RowPart& part, int64_t n, int lanes, bool in_place,
                  const std::function<Status(Coord)>& body);
  Status OverTwo(int64_t begin, int64_t end, int lanes, const std::function<Status(Coord)>& body);
  Status ForFlat(const LoopShape& shape, const Body& body);
  // loop_nest.cc
  struct Nest;
  Status ForNest(const LoopShape& shape, const Body& body);
  Status OverRow(const Nest& nest, const Index& outer);
  Status OverRows(const Nest& nest, size_t from, Index& index);
  int64_t PartOfRows(const Nest& nest, int64_t chunks) const;
  Status OverPieces(const LoopShape& shape, size_t next, const Index& index, const Body& body);
  Status OverChunks(int64_t n, int64_t chunk, const std::function<Status(ValueId)>& body);
  Status NestFrom(const LoopShape& shape, size_t d, size_t end, Index& index, const Body& body);

  program::Program& program_;
  Memory& memory_;
  const program::TargetInfo& target_;
  KernelBuilder builder_;
  ElementContext elements_;
  struct Parameter {
    program::BufferId buffer;
    program::Access access;
    KernelBuilder::MemoryId id;
  };
  std::vector<Parameter> parameters_;
};

}  // namespace weft::compiler
