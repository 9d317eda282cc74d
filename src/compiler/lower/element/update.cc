// Elements of an updated array (dynamic-update-slice): of the update, or of what is below.
#include <algorithm>

#include "compiler/lower/element/element.h"
#include "hlo/computation.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Op;

// Dimensions in which all lanes are known to lie inside or outside the update ask nothing.
Result<Element> ElementEmitter::EmitDynamicUpdateSlice(const Instruction& update,
                                                       const Index& index) {
  const Instruction &operand = *update.operand(0), &slice = *update.operand(1);
  Index at = Coordinates(update.shape().dims(), index), from = at, inner = at;
  int64_t rank = operand.shape().rank();
  size_t minor = static_cast<size_t>(rank) - 1;
  bool run = rank > 0 && IsRun(at, minor) && branches_ < kMaxBranches &&
             slice.shape().dims()[minor] >= 2 * lanes_;
  auto both = [&](ValueId& a, ValueId b) {
    if (a >= 0) Match(a, b);
    a = a < 0 ? b : b_.Emit(Op::kAnd, {a, b});
  };
  std::vector<int64_t> asked;     // dimensions
  ValueId inside = -1, all = -1;  // each lane; all lanes
  for (int64_t d = 0; d < rank; ++d) {
    int64_t size = slice.shape().dim(d), room = operand.shape().dim(d) - size;
    if (room == 0) continue;
    size_t i = static_cast<size_t>(d);
    Coord start = TRY(EmitStart(*update.operand(d + 2), room));
    Coord& c = from.coords[i] = Add(at.coords[i], Scale(start, -1));
    if (c.high < 0 || c.low >= size) return Emit(operand, at);
    inner.coords[i] = c;
    if (c.low >= 0 && c.high < size) continue;
    asked.push_back(d);
    if (run) {
      int64_t last = i == minor ? size - lanes_ : size - 1;
      if (c.low < 0) both(all, b_.Emit(Op::kGe, {c.base, b_.Int(0)}));
      if (c.high >= size) both(all, b_.Emit(Op::kLe, {c.base, b_.Int(last)}));
    }
  }
  auto chosen = [&]() -> Result<Element> {
    for (int64_t d : asked) {
      int64_t size = slice.shape().dim(d);
      size_t i = static_cast<size_t>(d);
      const Coord& c = from.coords[i];
      bool wide = b_.type(c.base).lanes > 1 || (c.step != 0 && lanes_ > 1);
      ValueId x = wide ? LaneValue(c, DType::kS64) : c.base;
      both(inside, b_.Emit(Op::kAnd, {b_.Emit(Op::kGe, {x, b_.Int(0, b_.type(x))}),
                                      b_.Emit(Op::kLt, {x, b_.Int(size, b_.type(x))})}));
      inner.coords[i] = Clamp(c, 0, size - 1);
    }
    Element value = TRY(Emit(slice, inner));
    if (inside < 0) return value;
    Element old = TRY(Emit(operand, at));
    return Select(inside, value, old);
  };
  if (!run || all < 0) return chosen();
  auto within = [&]() -> Result<Element> {
    Index moved = from;
    for (int64_t d = 0; d < rank; ++d) {
      Coord& c = moved.coords[static_cast<size_t>(d)];
      c.low = std::max(c.low, int64_t{0});
      c.high = std::min(c.high, slice.shape().dim(d) - 1);
    }
    return Emit(slice, moved);
  };
  ++branches_;
  auto value = EmitEither(all, within, chosen);
  --branches_;
  return value;
}

}  // namespace weft::compiler
