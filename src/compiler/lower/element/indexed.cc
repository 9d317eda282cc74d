// Elements at places that the program computes, or that may lie outside: pad, dynamic-slice,
// gather.
#include <algorithm>

#include "compiler/analysis/element_cost.h"
#include "compiler/lower/element/ops.h"
#include "hlo/computation.h"

namespace weft::compiler {

using hlo::Instruction;
using program::FitsInteger;
using program::Op;
using program::Type;
using HloOp = hlo::Op;

Result<Coord> EmitCoord(ElementContext& e, const Instruction& instruction, const Index& index) {
  Coord coord = CoordOfElement(e, TRY(EmitElement(e, instruction, index)));
  if (!e.value_ranges) return coord;
  if (std::optional<ValueRange> range = e.value_ranges->Of(instruction)) {
    coord.low = std::max(range->low, -Coord::kUnknownCoord);
    coord.high = std::min(range->high, Coord::kUnknownCoord);
  }
  return coord;
}

namespace {

// Sums and multiples of positions (iotas) that their type holds, as coordinates: how they rise from
// lane to lane is known, so that windows x[i[:, None] + j] are runs. nullopt: other numbers.
std::optional<Coord> CoordOfPositions(ElementContext& e, const Instruction* i, const Index& index,
                                      int depth) {
  if (auto it = e.arguments.find(i); it != e.arguments.end()) i = it->second;
  if (depth == 0 || e.bound.contains(i) || !IsInteger(i->shape().dtype())) return std::nullopt;
  auto of = [&](const Instruction* operand, const Index& at) {
    return CoordOfPositions(e, operand, at, depth - 1);
  };
  const Dims& dims = i->shape().dims();
  Index at = Coordinates(e, dims, index);
  switch (i->op()) {
    case HloOp::kIota:
      return at.coords[static_cast<size_t>(i->attrs<hlo::IotaAttrs>().iota_dimension)];
    case HloOp::kBroadcast: {
      Index inside;
      for (int64_t d : i->attrs<hlo::BroadcastAttrs>().dimensions) {
        inside.coords.push_back(at.coords[static_cast<size_t>(d)]);
      }
      bool spreads = i->operand(0)->shape().rank() == std::ssize(inside.coords);
      return spreads ? of(i->operand(0), inside) : std::nullopt;
    }
    case HloOp::kReshape:
      return of(i->operand(0), ReshapedIndex(e, i->shape(), i->operand(0)->shape(), at));
    case HloOp::kAdd:
    case HloOp::kMultiply: {
      if (!e.value_ranges->NeverWraps(*i)) return std::nullopt;
      std::optional<Coord> a = of(i->operand(0), at);
      std::optional<Coord> b = a ? of(i->operand(1), at) : std::nullopt;
      if (!b) return std::nullopt;
      if (i->op() == HloOp::kAdd) return AddCoords(e, *a, *b);
      if (b->low != b->high) std::swap(a, b);
      return b->low == b->high ? std::optional(ScaleCoord(e, *a, b->low)) : std::nullopt;
    }
    case HloOp::kConstant:
      if (i->shape().elements() != 1 || i->attrs<hlo::ConstantAttrs>().elided) return std::nullopt;
      return ConstantCoord(e, i->literal().GetInt(0));
    default: return std::nullopt;
  }
}

}  // namespace

// Many indices are clamped as they are, before they become wide.
Result<Coord> EmitClamped(ElementContext& e, const Instruction& instruction, const Index& index,
                          int64_t room) {
  if (e.lanes > 1 && e.value_ranges != nullptr) {
    std::optional<ValueRange> known = e.value_ranges->Of(instruction);
    bool inside = known && known->low >= 0 && known->high <= room;
    std::optional<Coord> run =
        inside ? CoordOfPositions(e, &instruction, index, program::WorkBounds::kTree)
               : std::nullopt;
    if (run && run->step != 0) return *run;
  }
  Element element = TRY(EmitElement(e, instruction, index));
  Type type = e.b.type(element.re);
  bool fits = BitWidth(type.dtype) == 32 && FitsInteger(room, type.dtype);
  if (type.lanes == 1 || !fits)
    return ClampCoord(e, TRY(EmitCoord(e, instruction, index)), 0, room);
  std::optional<ValueRange> range = e.value_ranges ? e.value_ranges->Of(instruction) : std::nullopt;
  if (!range || range->high > room) element.re = e.b.Min(element.re, e.b.Int(room, type));
  bool negative = IsSigned(type.dtype) && (!range || range->low < 0);
  if (negative) element.re = e.b.Max(element.re, e.b.Int(0, type));
  return Coord{e.b.Cast(element.re, FitsS32(room) ? DType::kS32 : DType::kS64), 0, 1, 0, room};
}

// Numpy's indices, x < 0 ? x + size : x, are nearly always in range as they are: that is asked
// first, so that the others cost nothing.
Result<Coord> EmitStart(ElementContext& e, const Instruction& start, int64_t room) {
  auto wraps = [&]() -> const Instruction* {
    if (start.op() != HloOp::kSelect || e.bound.contains(&start)) return nullptr;
    const Instruction *compare = start.operand(0), *x = start.operand(2);
    bool negative = compare->op() == HloOp::kCompare && compare->operand(0) == x &&
                    compare->attrs<hlo::CompareAttrs>().direction == hlo::Direction::kLt &&
                    compare->operand(1)->IsConstant() && !e.bound.contains(compare);
    if (!negative || !IsSigned(x->shape().dtype()) || BitWidth(x->shape().dtype()) < 32) {
      return nullptr;
    }
    return compare->operand(1)->literal().GetInt(0) == 0 ? x : nullptr;
  };
  std::optional<ValueRange> range = e.value_ranges ? e.value_ranges->Of(start) : std::nullopt;
  const Instruction* x = range && (range->low < 0 || range->high > room) ? wraps() : nullptr;
  if (x == nullptr || e.branches > 0)
    return ClampCoord(e, TRY(EmitCoord(e, start, Index())), 0, room);
  for (const ElementContext::KnownStart& known : e.starts) {
    if (known.start == &start && known.room == room && e.b.IsOpen(known.block)) return known.coord;
  }
  int64_t block = e.b.block();
  Coord plain = TRY(EmitCoord(e, *x, Index()));
  Type wide{DType::kU64, 1};
  ValueId inside = e.b.Emit(Op::kLe, {e.b.Cast(plain.base, wide.dtype), e.b.Int(room, wide)});
  e.b.BeginIf(inside, program::Branch::kGuard);
  e.b.BeginElse(std::vector<ValueId>{plain.base});
  Coord clamped = ClampCoord(e, TRY(EmitCoord(e, start, Index())), 0, room);
  Coord coord{e.b.End(std::vector<ValueId>{clamped.base})[0], 0, 1, 0, room};
  e.starts.push_back({&start, room, block, coord});
  return coord;
}

Result<Element> EmitPad(ElementContext& e, const Instruction& pad, const Index& index) {
  const auto& padding = pad.attrs<hlo::PadAttrs>().padding;
  const Shape &shape = pad.shape(), &from = pad.operand(0)->shape();
  Index at = Coordinates(e, shape.dims(), index), moved;
  moved.coords.resize(padding.size());
  ValueId inside = -1;
  auto both = [&](ValueId a, ValueId b) {
    if (a < 0) return b;
    if (b < 0) return a;
    MatchLanes(e, a, b);
    return e.b.Emit(Op::kAnd, {a, b});
  };
  for (size_t i = 0; i < padding.size(); ++i) {
    const hlo::PaddingDim& p = padding[i];
    Coord c = at.coords[i];
    int64_t step = p.interior + 1, size = from.dims()[i], width = (size - 1) * step + 1;
    if (c.high < p.low || c.low >= p.low + width) return EmitElement(e, *pad.operand(1), Index());
    inside = both(inside, IsWithin(e, c, p.low, p.low + width, shape.dims()[i]));
    c = AddConstant(e, c, -p.low);
    bool clamps = p.low > 0 || p.low + width < shape.dims()[i];
    if (clamps) {
      // A run of lanes that may leave the operand is gathered; one that cannot is read as it is.
      c = ClampCoord(e, c, 0, width - 1);
    }
    if (step > 1) {
      Coord rest = CoordRemainder(e, c, step);
      ValueId r = LaneValue(e, rest, DType::kS64);
      inside = both(inside, e.b.Emit(Op::kEq, {r, e.b.Int(0, e.b.type(r))}));
      c = DivideCoord(e, c, step);
    }
    moved.coords[i] = c;
  }
  Element value = TRY(EmitElement(e, *pad.operand(0), moved));
  Element fill = TRY(EmitElement(e, *pad.operand(1), Index()));
  return SelectElement(e, inside, value, fill);
}

Result<Element> EmitDynamicSlice(ElementContext& e, const Instruction& slice, const Index& index) {
  const Instruction& operand = *slice.operand(0);
  Index at = Coordinates(e, slice.shape().dims(), index);
  for (int64_t d = 0; d < operand.shape().rank(); ++d) {
    int64_t room = operand.shape().dim(d) - slice.shape().dim(d);
    if (room == 0) continue;
    Coord& c = at.coords[static_cast<size_t>(d)];
    c = AddCoords(e, c, TRY(EmitStart(e, *slice.operand(d + 1), room)));
  }
  return EmitElement(e, operand, at);
}

namespace {

// An iota along the only dimension, with numbers added, then held within bounds: lanes rise by one
// but for those at a bound. Bounds come last, so that sums which wrap around fall and do not rise.
bool IsClampedRun(const ElementContext& e, const Instruction& indices) {
  auto number = [](const Instruction* i) {
    while (i->op() == HloOp::kBroadcast || i->op() == HloOp::kReshape) i = i->operand(0);
    return i->shape().elements() == 1;
  };
  const Instruction* at = &indices;
  bool bounded = false, summed = false;
  for (int steps = 0; steps < program::WorkBounds::kTree; ++steps) {
    if (auto it = e.arguments.find(at); it != e.arguments.end()) at = it->second;
    if (e.bound.contains(at) || at->shape().elements() != indices.shape().elements()) return false;
    if (at->op() == HloOp::kIota) return bounded && summed;
    if (at->op() == HloOp::kReshape) {
      at = at->operand(0);
      continue;
    }
    bool bounds = at->op() == HloOp::kMaximum || at->op() == HloOp::kMinimum;
    bool sums = at->op() == HloOp::kAdd || at->op() == HloOp::kSubtract;
    if ((!bounds && !sums) || (bounds && summed)) return false;
    bool first = number(at->operand(1));  // the other one leads on
    if (!first && (!number(at->operand(0)) || at->op() == HloOp::kSubtract)) return false;
    (bounds ? bounded : summed) = true;
    at = at->operand(first ? 0 : 1);
  }
  return false;
}

// Loop versioning by vectors: where lanes are a run, as nearly all are, one load.
Result<Element> EmitRun(ElementContext& e, const Instruction& array, const Index& at) {
  const Coord& c = at.coords[0];
  ValueId first = e.b.Extract(c.base, 0), last = e.b.Extract(c.base, e.lanes - 1);
  ValueId rise = e.b.Int(e.lanes - 1, e.b.type(first));
  e.b.BeginIf(e.b.Emit(Op::kEq, {e.b.Sub(last, first), rise}), program::Branch::kLikely);
  ++e.branches;
  Index run;
  run.coords.push_back(Coord{e.b.Cast(first, DType::kS64), 1, 1, c.low, c.high});
  Element loaded = TRY(EmitElement(e, array, run));
  e.b.BeginElse(std::vector<ValueId>{loaded.re});
  Element gathered = TRY(EmitElement(e, array, at));
  --e.branches;
  return Element{e.b.End(std::vector<ValueId>{gathered.re})[0], -1};
}

}  // namespace

Result<Element> EmitGather(ElementContext& e, const Instruction& gather, const Index& index) {
  const auto& attrs = gather.attrs<hlo::GatherAttrs>();
  const Shape &operand = gather.operand(0)->shape(), &indices = gather.operand(1)->shape();
  Index at = Coordinates(e, gather.shape().dims(), index);
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
      i.coords.push_back(d == attrs.index_vector_dim ? ConstantCoord(e, component) : batch[next++]);
    }
    return i;
  };
  Index moved;
  moved.coords.resize(static_cast<size_t>(operand.rank()));
  size_t next_offset = 0;
  for (int64_t d = 0; d < operand.rank(); ++d) {
    bool dropped =
        contains(attrs.collapsed_slice_dims, d) || contains(attrs.operand_batching_dims, d);
    moved.coords[static_cast<size_t>(d)] = dropped ? ConstantCoord(e, 0) : offsets[next_offset++];
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
    Coord start =
        TRY(EmitClamped(e, *gather.operand(1), start_index(static_cast<int64_t>(k)), room));
    moved.coords[d] = AddCoords(e, moved.coords[d], start);
  }
  // Of few lanes the test costs what the loads do.
  bool few = e.lanes < kVectorReduce || e.branches > 0 || IsComplex(operand.dtype());
  if (!few && operand.rank() == 1 && e.b.type(moved.coords[0].base).lanes == e.lanes &&
      e.bound.contains(gather.operand(0)) && IsClampedRun(e, *gather.operand(1))) {
    return EmitRun(e, *gather.operand(0), moved);
  }
  return EmitElement(e, *gather.operand(0), moved);
}

}  // namespace weft::compiler
