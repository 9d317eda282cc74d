// Elements of an updated array (dynamic-update-slice): of the update, or of what is below.
#include <algorithm>

#include "compiler/lower/element/ops.h"
#include "hlo/computation.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Op;

namespace {

// `a` and `b`, where there is an `a`.
void AndWith(ElementContext& e, ValueId& a, ValueId b) {
  if (a >= 0) MatchLanes(e, a, b);
  a = a < 0 ? b : e.b.Emit(Op::kAnd, {a, b});
}

// Whether lanes lie within [0, size).
ValueId LanesWithin(ElementContext& e, const Coord& c, int64_t size) {
  bool wide = e.b.type(c.base).lanes > 1 || (c.step != 0 && e.lanes > 1);
  ValueId x = wide ? LaneValue(e, c, DType::kS64) : c.base;
  return e.b.Emit(Op::kAnd, {e.b.Emit(Op::kGe, {x, e.b.Int(0, e.b.type(x))}),
                             e.b.Emit(Op::kLt, {x, e.b.Int(size, e.b.type(x))})});
}

}  // namespace

// Dimensions in which all lanes are known to lie inside or outside the update ask nothing.
Result<Element> EmitDynamicUpdateSlice(ElementContext& e, const Instruction& update,
                                       const Index& index) {
  const Instruction &operand = *update.operand(0), &slice = *update.operand(1);
  Index at = Coordinates(e, update.shape().dims(), index), from = at, inner = at;
  int64_t rank = operand.shape().rank();
  size_t minor = static_cast<size_t>(rank) - 1;
  bool run = rank > 0 && IsLaneRun(e, at, minor) && e.branches < ElementContext::kMaxBranches &&
             slice.shape().dims()[minor] >= 2 * e.lanes;
  std::vector<int64_t> asked;     // dimensions
  ValueId inside = -1, all = -1;  // each lane; all lanes
  for (int64_t d = 0; d < rank; ++d) {
    int64_t size = slice.shape().dim(d), room = operand.shape().dim(d) - size;
    if (room == 0) continue;
    size_t i = static_cast<size_t>(d);
    Coord start = TRY(EmitStart(e, *update.operand(d + 2), room));
    Coord& c = from.coords[i] = AddCoords(e, at.coords[i], ScaleCoord(e, start, -1));
    if (c.high < 0 || c.low >= size) return EmitElement(e, operand, at);
    inner.coords[i] = c;
    if (c.low >= 0 && c.high < size) continue;
    asked.push_back(d);
    if (run) {
      int64_t last = i == minor ? size - e.lanes : size - 1;
      if (c.low < 0) AndWith(e, all, e.b.Emit(Op::kGe, {c.base, e.b.Int(0)}));
      if (c.high >= size) AndWith(e, all, e.b.Emit(Op::kLe, {c.base, e.b.Int(last)}));
    }
  }
  auto chosen = [&]() -> Result<Element> {
    for (int64_t d : asked) {
      int64_t size = slice.shape().dim(d);
      size_t i = static_cast<size_t>(d);
      const Coord& c = from.coords[i];
      AndWith(e, inside, LanesWithin(e, c, size));
      inner.coords[i] = ClampCoord(e, c, 0, size - 1);
    }
    Element value = TRY(EmitElement(e, slice, inner));
    if (inside < 0) return value;
    Element old = TRY(EmitElement(e, operand, at));
    return SelectElement(e, inside, value, old);
  };
  if (!run || all < 0) return chosen();
  auto within = [&]() -> Result<Element> {
    Index moved = from;
    for (int64_t d = 0; d < rank; ++d) {
      Coord& c = moved.coords[static_cast<size_t>(d)];
      c.low = std::max(c.low, int64_t{0});
      c.high = std::min(c.high, slice.shape().dim(d) - 1);
    }
    return EmitElement(e, slice, moved);
  };
  ++e.branches;
  auto value = EmitEither(e, all, within, chosen);
  --e.branches;
  return value;
}

}  // namespace weft::compiler
