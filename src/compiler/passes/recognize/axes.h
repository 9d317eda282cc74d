// Arrays whose dimensions are known by the axes they go along, through transposes, broadcasts and
// reshapes: what a recognizer of patterns over many elementwise ops looks at.
#pragma once

#include <optional>
#include <vector>

#include "hlo/instruction.h"

namespace weft::compiler {

// For each dimension the axis, or kUnitAxis for one of size 1.
inline constexpr int kUnitAxis = -1;
using AxisList = std::vector<int>;

struct AxisView {
  hlo::Instruction* value = nullptr;
  AxisList axes;
  bool operator==(const AxisView&) const = default;
  bool Has(int axis) const;
};

// New axes, 0 and on, for the dimensions of an array.
AxisList NumberAxes(const Shape& shape);

// The operand of a transpose, copy or reshape that adds or removes dimensions of size 1, with the
// axes of its dimensions; nothing for other ops.
std::optional<AxisView> BehindMove(const AxisView& view);
// The other way: the axes of the result of such an op, from those of its operand.
std::optional<AxisList> AxesAfterMove(const hlo::Instruction& move, const AxisList& axes);
// Behind all of them; and behind broadcasts too, where some axes are left out.
AxisView BehindMoves(AxisView view);
AxisView BehindBroadcasts(AxisView view);

// The scalar constant in every element, behind broadcasts and moves.
std::optional<double> SplatOf(const AxisView& view);

// An integer that is `offset` more than the index along an axis: an iota, a constant like one, sums
// with constants.
struct IndexAlong {
  int axis;
  int64_t offset;
};
std::optional<IndexAlong> IndexAlongAxis(const AxisView& view);

// A predicate as a conjunction: `key - query` of two axes bounded by first and last, and what is
// left, each of which may be negated.
struct Conjunction {
  struct Term {
    AxisView view;
    bool negated;
  };
  int key_axis = kUnitAxis;
  int query_axis = kUnitAxis;  // of the bounds; kUnitAxis: there are none yet
  std::optional<int64_t> first, last;
  std::vector<Term> terms;

  void Add(const AxisView& predicate, bool negated);

 private:
  bool AddBound(const AxisView& compare, bool negated);
};

}  // namespace weft::compiler
