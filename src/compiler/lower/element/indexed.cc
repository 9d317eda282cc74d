// Elements at places that the program computes, or that may lie outside: pad, dynamic-slice,
// gather.
#include <algorithm>

#include "compiler/lower/element/element.h"
#include "hlo/computation.h"

namespace weft::compiler {

using hlo::Instruction;
using program::FitsInteger;
using program::Op;
using program::Type;
using HloOp = hlo::Op;

Result<Coord> ElementEmitter::EmitCoord(const Instruction& instruction, const Index& index) {
  Coord coord = FromElement(TRY(Emit(instruction, index)));
  if (!value_ranges_) return coord;
  if (std::optional<ValueRange> range = value_ranges_->Of(instruction)) {
    coord.low = std::max(range->low, -Coord::kUnknownCoord);
    coord.high = std::min(range->high, Coord::kUnknownCoord);
  }
  return coord;
}

// Many indices are clamped as they are, before they become wide.
Result<Coord> ElementEmitter::EmitClamped(const Instruction& instruction, const Index& index,
                                          int64_t room) {
  Element element = TRY(Emit(instruction, index));
  Type type = b_.type(element.re);
  bool fits = BitWidth(type.dtype) == 32 && FitsInteger(room, type.dtype);
  if (type.lanes == 1 || !fits) return Clamp(TRY(EmitCoord(instruction, index)), 0, room);
  std::optional<ValueRange> range = value_ranges_ ? value_ranges_->Of(instruction) : std::nullopt;
  if (!range || range->high > room) element.re = b_.Min(element.re, b_.Int(room, type));
  bool negative = IsSigned(type.dtype) && (!range || range->low < 0);
  if (negative) element.re = b_.Max(element.re, b_.Int(0, type));
  return Coord{b_.Cast(element.re, FitsS32(room) ? DType::kS32 : DType::kS64), 0, 1, 0, room};
}

// Numpy's indices, x < 0 ? x + size : x, are nearly always in range as they are: that is asked
// first, so that the others cost nothing.
Result<Coord> ElementEmitter::EmitStart(const Instruction& start, int64_t room) {
  auto wraps = [&]() -> const Instruction* {
    if (start.op() != HloOp::kSelect || bound_.contains(&start)) return nullptr;
    const Instruction *compare = start.operand(0), *x = start.operand(2);
    bool negative = compare->op() == HloOp::kCompare && compare->operand(0) == x &&
                    compare->attrs<hlo::CompareAttrs>().direction == hlo::Direction::kLt &&
                    compare->operand(1)->IsConstant() && !bound_.contains(compare);
    if (!negative || !IsSigned(x->shape().dtype()) || BitWidth(x->shape().dtype()) < 32) {
      return nullptr;
    }
    return compare->operand(1)->literal().GetInt(0) == 0 ? x : nullptr;
  };
  std::optional<ValueRange> range = value_ranges_ ? value_ranges_->Of(start) : std::nullopt;
  const Instruction* x = range && (range->low < 0 || range->high > room) ? wraps() : nullptr;
  if (x == nullptr || branches_ > 0) return Clamp(TRY(EmitCoord(start, Index())), 0, room);
  for (const KnownStart& known : starts_) {
    if (known.start == &start && known.room == room && b_.IsOpen(known.block)) return known.coord;
  }
  int64_t block = b_.block();
  Coord plain = TRY(EmitCoord(*x, Index()));
  Type wide{DType::kU64, 1};
  ValueId inside = b_.Emit(Op::kLe, {b_.Cast(plain.base, wide.dtype), b_.Int(room, wide)});
  b_.BeginIf(inside, program::Branch::kGuard);
  b_.BeginElse(std::vector<ValueId>{plain.base});
  Coord clamped = Clamp(TRY(EmitCoord(start, Index())), 0, room);
  Coord coord{b_.End(std::vector<ValueId>{clamped.base})[0], 0, 1, 0, room};
  starts_.push_back({&start, room, block, coord});
  return coord;
}

Result<Element> ElementEmitter::EmitPad(const Instruction& pad, const Index& index) {
  const auto& padding = pad.attrs<hlo::PadAttrs>().padding;
  const Shape &shape = pad.shape(), &from = pad.operand(0)->shape();
  Index at = Coordinates(shape.dims(), index), moved;
  moved.coords.resize(padding.size());
  ValueId inside = -1;
  auto both = [&](ValueId a, ValueId b) {
    if (a < 0) return b;
    if (b < 0) return a;
    Match(a, b);
    return b_.Emit(Op::kAnd, {a, b});
  };
  for (size_t i = 0; i < padding.size(); ++i) {
    const hlo::PaddingDim& p = padding[i];
    Coord c = at.coords[i];
    int64_t step = p.interior + 1, size = from.dims()[i], width = (size - 1) * step + 1;
    if (c.high < p.low || c.low >= p.low + width) return Emit(*pad.operand(1), Index());
    inside = both(inside, IsWithin(c, p.low, p.low + width, shape.dims()[i]));
    c = AddConstant(c, -p.low);
    bool clamps = p.low > 0 || p.low + width < shape.dims()[i];
    if (clamps) {
      // A run of lanes that may leave the operand is gathered; one that cannot is read as it is.
      c = Clamp(c, 0, width - 1);
    }
    if (step > 1) {
      Coord rest = Remainder(c, step);
      ValueId r = LaneValue(rest, DType::kS64);
      inside = both(inside, b_.Emit(Op::kEq, {r, b_.Int(0, b_.type(r))}));
      c = Divide(c, step);
    }
    moved.coords[i] = c;
  }
  Element value = TRY(Emit(*pad.operand(0), moved));
  Element fill = TRY(Emit(*pad.operand(1), Index()));
  return Select(inside, value, fill);
}

Result<Element> ElementEmitter::EmitDynamicSlice(const Instruction& slice, const Index& index) {
  const Instruction& operand = *slice.operand(0);
  Index at = Coordinates(slice.shape().dims(), index);
  for (int64_t d = 0; d < operand.shape().rank(); ++d) {
    int64_t room = operand.shape().dim(d) - slice.shape().dim(d);
    if (room == 0) continue;
    Coord& c = at.coords[static_cast<size_t>(d)];
    c = Add(c, TRY(EmitStart(*slice.operand(d + 1), room)));
  }
  return Emit(operand, at);
}

Result<Element> ElementEmitter::EmitGather(const Instruction& gather, const Index& index) {
  const auto& attrs = gather.attrs<hlo::GatherAttrs>();
  const Shape &operand = gather.operand(0)->shape(), &indices = gather.operand(1)->shape();
  Index at = Coordinates(gather.shape().dims(), index);
  auto contains = [](const auto& list, int64_t x) {
    return std::find(list.begin(), list.end(), x) != list.end();
  };
  // Batch coordinates, in order, index the start indices without the index vector dimension.
  std::vector<Coord> batch, offsets;
  for (int64_t d = 0; d < gather.shape().rank(); ++d) {
    (contains(attrs.offset_dims, d) ? offsets : batch).push_back(at.coords[static_cast<size_t>(d)]);
  }
  auto start_index = [&](int64_t component) {
    Index i;
    size_t next = 0;
    for (int64_t d = 0; d < indices.rank(); ++d) {
      i.coords.push_back(d == attrs.index_vector_dim ? Constant(component) : batch[next++]);
    }
    return i;
  };
  Index moved;
  moved.coords.resize(static_cast<size_t>(operand.rank()));
  size_t next_offset = 0;
  for (int64_t d = 0; d < operand.rank(); ++d) {
    bool dropped =
        contains(attrs.collapsed_slice_dims, d) || contains(attrs.operand_batching_dims, d);
    moved.coords[static_cast<size_t>(d)] = dropped ? Constant(0) : offsets[next_offset++];
  }
  for (size_t k = 0; k < attrs.operand_batching_dims.size(); ++k) {
    int64_t d = attrs.start_indices_batching_dims[k];
    if (attrs.index_vector_dim < d) --d;
    moved.coords[static_cast<size_t>(attrs.operand_batching_dims[k])] =
        batch[static_cast<size_t>(d)];
  }
  for (size_t k = 0; k < attrs.start_index_map.size(); ++k) {
    size_t d = static_cast<size_t>(attrs.start_index_map[k]);
    int64_t room = operand.dims()[d] - attrs.slice_sizes[d];
    Coord start = TRY(EmitClamped(*gather.operand(1), start_index(static_cast<int64_t>(k)), room));
    moved.coords[d] = Add(moved.coords[d], start);
  }
  return Emit(*gather.operand(0), moved);
}

}  // namespace weft::compiler
