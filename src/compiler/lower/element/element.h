// One element (or one for each lane) of an instruction as kernel operations: its operands' elements
// are computed where they are needed, memory is read where an instruction is bound to it.
//
// Values that are the same in all lanes stay scalars; they are spread to lanes where they meet
// others. Narrow types follow kernel.h: bf16 and the like are f32 values, rounded after every
// operation that may leave the format; integers of less than a byte are wrapped.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/inline_vec.h"
#include "compiler/analysis/value_range.h"
#include "hlo/instruction.h"
#include "program/builder.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using program::KernelBuilder;
using program::ValueId;

struct Element {
  ValueId re = -1;
  ValueId im = -1;  // complex types
};

// A coordinate in all lanes: base + step * (lane / each), or a value for each lane when base has
// lanes.
struct Coord {
  ValueId base = -1;
  int64_t step = 0;
  int64_t multiple = 1;  // base is a multiple of this
  // What is known of the values in all lanes: low <= value <= high.
  int64_t low = -kUnknownCoord, high = kUnknownCoord;
  int64_t modulus = 1, residue = 0;  // base is as much more than a multiple of modulus
  int64_t each = 1;                  // neighbouring lanes with one value; 1 where step is 0
  ValueId origin = -1;               // base is origin + offset; -1: nothing known
  int64_t offset = 0;
  static constexpr int64_t kUnknownCoord = int64_t{1} << 60;
};

inline bool FitsS32(int64_t size) {
  return size < (int64_t{1} << 31);
}
// What a coordinate's lanes are computed in: vectors hold twice as many of 32 bits.
inline DType LaneType(int64_t low, int64_t high) {
  return low > -(int64_t{1} << 31) && FitsS32(high) ? DType::kS32 : DType::kS64;
}
inline DType LaneType(const Coord& c) {
  return LaneType(c.low, c.high);
}

// Where an element stands: by its coordinates, or by its row-major number.
struct Index {
  InlineVec<Coord, 6> coords;
  Coord linear;
  bool is_linear = false;
};

// In every group of as many lanes as there are vectors: rows to columns, or back.
void TurnGroups(KernelBuilder& b, std::span<ValueId> vectors);

class ElementEmitter {
 public:
  // `value_ranges`: what is known of indices; null: nothing.
  explicit ElementEmitter(KernelBuilder& builder, ValueRanges* value_ranges = nullptr)
      : b_(builder), value_ranges_(value_ranges) {}

  // Lanes of what is emitted from now on.
  void set_lanes(int lanes) { lanes_ = lanes; }
  int lanes() const { return lanes_; }

  // The instruction's elements lie in memory (row-major, complex as pairs of reals).
  void Bind(const hlo::Instruction& instruction, KernelBuilder::MemoryId memory);
  // The same, with the element's place in memory computed from its index.
  using Place = std::function<Coord(const Index&)>;
  void BindAt(const hlo::Instruction& instruction, KernelBuilder::MemoryId memory, Place place);
  // What is known of the elements of a bound instruction.
  void Know(const hlo::Instruction& instruction, Literal numbers);
  // Whether elements are read in the order of their numbers, however they are arranged: what is
  // made element by element of arrays in memory.
  bool IsInOrder(const hlo::Instruction& i) const;
  bool IsBound(const hlo::Instruction& instruction) const { return bound_.contains(&instruction); }
  // The instruction's element is this value wherever it is asked for, until the block ends.
  void SetValue(const hlo::Instruction& instruction, Element value);

  // `index` is into the instruction's shape. Not for instructions of tuple shape.
  Result<Element> Emit(const hlo::Instruction& instruction, const Index& index);
  // The same for one array of a tuple: of a reduce or reduce-window of several operands.
  Result<Element> EmitLeaf(const hlo::Instruction& instruction, int64_t leaf, const Index& index);
  // Calls a computation on scalars; one result, or the elements of the tuple at its root.
  Result<std::vector<Element>> Call(const hlo::Computation& computation,
                                    std::span<const Element> arguments);

  Element LoadAt(KernelBuilder::MemoryId memory, DType dtype, const Coord& at);
  void StoreAt(KernelBuilder::MemoryId memory, DType dtype, const Coord& at, Element value,
               ValueId mask = -1);
  // Whole rows of as many elements as there are columns, a row for each lane, from `begin` on.
  void StoreColumns(KernelBuilder::MemoryId memory, ValueId begin,
                    std::span<const ValueId> columns);

  // Coordinates.
  Coord Constant(int64_t value) const;
  Coord Add(const Coord& a, const Coord& b);
  Coord AddConstant(const Coord& a, int64_t c);
  Coord Scale(const Coord& a, int64_t factor);
  Coord Divide(const Coord& a, int64_t divisor);     // of values >= 0
  Coord Remainder(const Coord& a, int64_t divisor);  // of values >= 0
  Coord Linear(std::span<const int64_t> dims, const Index& index);
  Index Coordinates(std::span<const int64_t> dims, const Index& index);
  Coord CoordinateAt(std::span<const int64_t> dims, const Index& index, size_t d);
  // One value a lane, or a scalar when all are the same.
  ValueId LaneValue(const Coord& coord, DType type);
  // low <= coord < high; -1: always so. `size_known`: coord is below it.
  ValueId IsWithin(const Coord& coord, int64_t low, int64_t high, int64_t size_known);
  Coord Clamp(const Coord& coord, int64_t low, int64_t high);
  // A coordinate computed by the program: an integer element.
  Coord FromElement(Element element);
  // The same, of an instruction: within its range.
  Result<Coord> EmitCoord(const hlo::Instruction& instruction, const Index& index);
  // The same, clamped to [0, room].
  Result<Coord> EmitClamped(const hlo::Instruction& instruction, const Index& index, int64_t room);
  // Where a dynamic slice starts: a scalar, clamped to [0, room].
  Result<Coord> EmitStart(const hlo::Instruction& start, int64_t room);

  // Of `a and b`, `a or b` the second is computed only where the first does not decide, if it reads
  // at an index of its own: for conditions of loops.
  void ShortCircuit() { short_circuit_ = true; }

  KernelBuilder& builder() { return b_; }
  // Both with as many lanes as the wider one has.
  void Match(ValueId& a, ValueId& b);
  Element Select(ValueId pred, Element a, Element b);
  Element Zero(DType dtype);
  Result<Element> Number(const Literal& literal, int64_t i);  // an element of a constant

 private:
  using Args = std::span<Element>;
  const Element* FindCached(const hlo::Instruction& instruction, const Index& index);
  Status EmitChain(const hlo::Instruction& instruction, const Index& index);
  Result<Element> EmitUncached(const hlo::Instruction& instruction, const Index& index);
  Result<Element> EmitMoved(const hlo::Instruction& instruction, const Index& index);
  Result<Element> EmitPad(const hlo::Instruction& pad, const Index& index);
  Result<Element> EmitConcatenate(const hlo::Instruction& concatenate, const Index& index);
  // concatenate.cc
  struct ShortRun {
    int64_t begin, end;  // of elements
    int64_t lane;        // of the first of them
  };
  Result<Element> EmitShortRun(const hlo::Instruction& operand, Index at, size_t d, ShortRun run);
  Result<Element> EmitConcatenateAt(const hlo::Instruction& concatenate, size_t d, const Index& at,
                                    int64_t first);
  Result<Element> EmitConcatenateRun(const hlo::Instruction& concatenate, size_t d, const Index& at,
                                     std::vector<int64_t> tried);
  Result<Element> EmitConcatenateChosen(const hlo::Instruction& concatenate, size_t d,
                                        const Index& at);
  struct Operands {  // [begin, end) of a concatenation; where the first begins
    int64_t begin, end, offset;
  };
  Result<Element> EmitConcatenateRange(const hlo::Instruction& concatenate, size_t d,
                                       const Index& at, Operands range);
  Result<Element> EmitEither(ValueId condition, const std::function<Result<Element>()>& yes,
                             const std::function<Result<Element>()>& no);
  Result<std::optional<Element>> EmitOneSide(const hlo::Instruction& select, const Index& index);
  double OwnCost(const hlo::Instruction& side, const hlo::Instruction& select, const Index& index);
  Result<std::optional<Element>> EmitLeastOf(const hlo::Instruction& select, const Index& index);
  bool IsShortCircuited(const hlo::Instruction& instruction) const;
  bool ReadsAtIndex(const hlo::Instruction& instruction) const;
  Result<Element> EmitShortCircuit(const hlo::Instruction& instruction, const Index& index);
  bool IsRun(const Index& at, size_t d) const;
  ValueId SmallLaneValue(const Coord& a, int64_t span, int64_t divisor);
  ValueId LoadRepeated(KernelBuilder::MemoryId memory, const Coord& at);
  ValueId LoadSpread(KernelBuilder::MemoryId memory, const Coord& at);
  // columns.cc: -1 where lanes do not go down a column of an array of short rows.
  ValueId LoadColumn(KernelBuilder::MemoryId memory, const Coord& at);
  ValueId PiecesOfRows(KernelBuilder::MemoryId memory, ValueId begin, int64_t length, int64_t first,
                       int size);
  // Lanes at the places that `lanes` lists.
  ValueId LoadListed(KernelBuilder::MemoryId memory, std::span<const int64_t> lanes);
  Result<std::optional<Element>> EmitKnown(const hlo::Instruction& instruction, const Coord& at);
  std::optional<Coord> KnownRemainder(const Coord& a, int64_t divisor);
  Element Spread(Element value);
  // What is known of the alignment of an access to all lanes; 0: nothing.
  int AlignOf(KernelBuilder::MemoryId memory, const Coord& at) const;
  Result<Element> EmitGather(const hlo::Instruction& gather, const Index& index);
  Result<Element> EmitDynamicSlice(const hlo::Instruction& slice, const Index& index);
  Result<Element> EmitDynamicUpdateSlice(const hlo::Instruction& update, const Index& index);
  // acc = step(k, acc) for k from 0 to rounds - 1. `sums`: elements that are sums of f32, which are
  // cut in runs (sums.h).
  using FoldStep = std::function<Result<std::vector<Element>>(const Coord&, std::vector<Element>)>;
  Result<std::vector<Element>> Fold(int64_t rounds, int64_t unrolled, std::vector<Element> acc,
                                    const std::vector<bool>& sums, const FoldStep& step);
  Result<Element> EmitReduce(const hlo::Instruction& reduce, int64_t output, const Index& index);
  Result<Element> EmitDot(const hlo::Instruction& dot, const Index& index);
  Result<Element> EmitReduceWindow(const hlo::Instruction& op, int64_t output, const Index& index);
  Result<Element> EmitBitcastConvert(const hlo::Instruction& convert, const Index& index);
  Result<Element> EmitConstant(const hlo::Instruction& constant, const Index& index);
  bool IsInOrder(const hlo::Instruction& i, int& budget) const;
  Index ReshapedIndex(const Shape& from, const Shape& to, const Index& index);
  // elementwise.cc: the operation on elements of known types.
  Result<Element> EmitElementwise(const hlo::Instruction& instruction, Args args);
  Result<Element> EmitComplex(const hlo::Instruction& instruction, Args args);
  Result<Element> EmitCompare(const hlo::Instruction& compare, Args args);
  Element Convert(Element value, DType from, DType to);
  ValueId Round(ValueId value, DType to);  // to what the storage type holds
  ValueId EmitFloatUnary(const hlo::Instruction& instruction, ValueId x);
  ValueId ReducePrecision(const hlo::Instruction& instruction, ValueId x);
  ValueId IntegerPower(ValueId x, ValueId y);
  ValueId HighProduct(ValueId x, ValueId y);
  ValueId TotalOrderKey(ValueId x, DType dtype);

  struct Cached {
    Index index;
    Element value;
    int64_t block;
    int lanes;
  };
  // The instruction of a fused computation that the fusion, or a leaf of it, is.
  const hlo::Instruction& Enter(const hlo::Instruction& fusion, int64_t leaf);
  struct KnownStart {
    const hlo::Instruction* start;
    int64_t room, block;
    Coord coord;
  };
  KernelBuilder& b_;
  ValueRanges* value_ranges_;
  std::vector<KnownStart> starts_;
  // Parameters of fusions that are computed here: what they stand for.
  std::unordered_map<const hlo::Instruction*, const hlo::Instruction*> arguments_;
  int lanes_ = 1;
  bool short_circuit_ = false;
  std::unordered_map<const hlo::Instruction*, KernelBuilder::MemoryId> bound_;
  std::unordered_map<const hlo::Instruction*, Literal> numbers_;   // of bound ones
  std::unordered_map<ValueId, std::vector<int64_t>> listed_;       // coordinates known lane by lane
  std::unordered_map<ValueId, std::vector<double>> lane_numbers_;  // floats known lane by lane
  std::unordered_map<const hlo::Instruction*, Place> places_;  // of bound ones, where not row-major
  std::unordered_map<const hlo::Instruction*, std::vector<Cached>> cache_;
  std::unordered_map<ValueId, int64_t> at_most_;  // what chosen indices are at most
  int depth_ = 0;
  // Within each other: each one doubles the code.
  static constexpr int kMaxBranches = program::CodeBounds::kCopies / 2;
  int branches_ = 0;    // of EmitEither that have code twice, open
  int open_tests_ = 0;  // of EmitConcatenateRange
};

}  // namespace weft::compiler
