// What the code of one kernel's elements shares: values, coordinates and the context of emission.
//
// Values that are the same in all lanes stay scalars; they are spread to lanes where they meet
// others. Narrow types follow kernel.h: bf16 and the like are f32 values, rounded after every
// operation that may leave the format; integers of less than a byte are wrapped.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/inline_vec.h"
#include "base/literal.h"
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

// Where an element stands: by its coordinates, or by its row-major number.
struct Index {
  InlineVec<Coord, 6> coords;
  Coord linear;
  bool is_linear = false;
};

inline constexpr std::string_view kDivisionByFloats = "division-by-floats";  // integers.cc
inline constexpr std::string_view kBitmapLookup = "bitmap-lookup";           // memory.cc

struct ElementContext {
  // `the_value_ranges`: what is known of indices; null: nothing.
  explicit ElementContext(KernelBuilder& builder, ValueRanges* the_value_ranges = nullptr)
      : b(builder), value_ranges(the_value_ranges) {}

  // The instruction's elements lie in memory (row-major, complex as pairs of reals).
  void Bind(const hlo::Instruction& instruction, KernelBuilder::MemoryId memory);
  // The same, with the element's place in memory computed from its index.
  using Place = std::function<Coord(const Index&)>;
  void BindAt(const hlo::Instruction& instruction, KernelBuilder::MemoryId memory, Place place);
  // What is known of the elements of a bound instruction.
  void Know(const hlo::Instruction& instruction, Literal its_numbers);
  bool IsBound(const hlo::Instruction& instruction) const { return bound.contains(&instruction); }
  // The instruction's element is this value wherever it is asked for, until the block ends.
  void SetValue(const hlo::Instruction& instruction, Element value);
  // What was computed in a block that is still open; null: nothing.
  const Element* FindCached(const hlo::Instruction& instruction, const Index& index);

  KernelBuilder& b;
  ValueRanges* value_ranges;
  const hlo::Instruction* lowered = nullptr;  // what the kernel is of; null: not one instruction
  int lanes = 1;                              // of what is emitted from now on
  // Of `a and b`, `a or b` the second is computed only where the first does not decide, if it reads
  // at an index of its own: for conditions of loops.
  bool short_circuit = false;
  // Rules of elements that are left out (lower.disable): strength reductions of single operations.
  std::span<const std::string> disabled;
  bool Leaves(std::string_view rule) const {
    return std::find(disabled.begin(), disabled.end(), rule) != disabled.end();
  }

  // Parameters of fusions that are computed here: what they stand for.
  std::unordered_map<const hlo::Instruction*, const hlo::Instruction*> arguments;
  std::unordered_map<const hlo::Instruction*, KernelBuilder::MemoryId> bound;
  std::unordered_map<const hlo::Instruction*, Literal> numbers;  // of bound ones
  std::unordered_map<const hlo::Instruction*, Place> places;     // of bound ones, if not row-major
  struct Cached {
    Index index;
    Element value;
    int64_t block;
    int lanes;
  };
  std::unordered_map<const hlo::Instruction*, std::vector<Cached>> cache;
  std::unordered_map<ValueId, std::vector<int64_t>> listed;       // coordinates known lane by lane
  std::unordered_map<ValueId, std::vector<double>> lane_numbers;  // floats known lane by lane
  std::unordered_map<ValueId, int64_t> at_most;                   // what chosen indices are at most
  struct KnownStart {                                             // of a dynamic slice
    const hlo::Instruction* start;
    int64_t room, block;
    Coord coord;
  };
  std::vector<KnownStart> starts;
  int depth = 0;
  // Within each other: each one doubles the code.
  static constexpr int kMaxBranches = program::CodeBounds::kCopies / 2;
  int branches = 0;    // of EmitEither that have code twice, open
  int open_tests = 0;  // of concatenations
};

}  // namespace weft::compiler
