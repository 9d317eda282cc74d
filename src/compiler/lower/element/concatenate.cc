// Elements of a concatenation.
//
// A vector of lanes mostly comes from one of them: then it is read as a run, and only one that
// reaches over an edge is gathered.
#include <algorithm>
#include <bit>

#include "compiler/lower/element/ops.h"
#include "hlo/computation.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Op;
using HloOp = hlo::Op;

namespace {

constexpr int kMaxOpenTests = program::WorkBounds::kDepth;  // of concatenations, within each other

struct Operands {  // [begin, end) of a concatenation; where the first begins
  int64_t begin, end, offset;
};

// Operands [begin, end), which of them is asked for not being known: halves, one of them behind a
// test where the coordinate is the same in all lanes, else both.
Result<Element> EmitConcatenateRange(ElementContext& e, const Instruction& concatenate, size_t d,
                                     const Index& at, Operands range) {
  const Coord along = at.coords[d];
  auto size_of = [&](int64_t k) {
    return concatenate.operand(k)->shape().dim(static_cast<int64_t>(d));
  };
  while (range.end - range.begin > 1 && along.low >= range.offset + size_of(range.begin)) {
    range.offset += size_of(range.begin++);
  }
  int64_t middle = (range.begin + range.end) / 2, offset = range.offset;
  for (int64_t k = range.begin; k < middle; ++k) offset += size_of(k);
  while (middle > range.begin && along.high < offset) {
    range.end = middle;
    offset -= size_of(--middle);
  }
  if (middle == range.begin) {
    const Instruction& operand = *concatenate.operand(range.begin);
    Index moved = at;
    moved.coords[d] =
        ClampCoord(e, AddConstant(e, along, -range.offset), 0, size_of(range.begin) - 1);
    return EmitElement(e, operand, moved);
  }
  auto part = [&](bool first) {
    Index in = at;
    Coord& c = in.coords[d];
    if (first) {
      c.high = std::min(c.high, offset - 1);
    } else {
      c.low = std::max(c.low, offset);
    }
    return EmitConcatenateRange(
        e, concatenate, d, in,
        first ? Operands{range.begin, middle, range.offset} : Operands{middle, range.end, offset});
  };
  ValueId inside = IsWithin(e, along, 0, offset, concatenate.shape().dims()[d] + 1);
  bool loads = e.lanes == 1 && middle - range.begin == 1 && range.end - middle == 1 &&
               e.IsBound(*concatenate.operand(range.begin)) &&
               e.IsBound(*concatenate.operand(middle));
  if (e.b.type(inside).lanes == 1 && !loads && e.open_tests < kMaxOpenTests) {
    ++e.open_tests;
    auto value = EmitEither(e, inside, [&] { return part(true); }, [&] { return part(false); });
    --e.open_tests;
    return value;
  }
  // Both are computed: neither may count on being asked for.
  Element left =
      TRY(EmitConcatenateRange(e, concatenate, d, at, {range.begin, middle, range.offset}));
  Element right = TRY(EmitConcatenateRange(e, concatenate, d, at, {middle, range.end, offset}));
  return SelectElement(e, inside, left, right);
}

Result<Element> EmitConcatenateChosen(ElementContext& e, const Instruction& concatenate, size_t d,
                                      const Index& at) {
  return EmitConcatenateRange(e, concatenate, d, at, {0, concatenate.operand_count(), 0});
}

// A run of lanes that lies within one operand is read as one, the largest tried first; `tried` are
// those that it does not lie within.
Result<Element> EmitConcatenateRun(ElementContext& e, const Instruction& concatenate, size_t d,
                                   const Index& at, std::vector<int64_t> tried) {
  const Coord along = at.coords[d];
  int64_t offset = 0, most = -1, begin = 0, which = -1;
  for (int64_t k = 0; k < concatenate.operand_count(); ++k) {
    int64_t size = concatenate.operand(k)->shape().dim(static_cast<int64_t>(d));
    bool reached = along.high >= offset && along.low < offset + size;
    if (size > most && reached && std::find(tried.begin(), tried.end(), k) == tried.end()) {
      which = k;
      most = size;
      begin = offset;
    }
    offset += size;
  }
  if (most < 2 * e.lanes || e.branches >= ElementContext::kMaxBranches) {
    return EmitConcatenateChosen(e, concatenate, d, at);
  }
  ValueId inside = -1;
  if (along.low < begin) inside = e.b.Emit(Op::kGe, {along.base, e.b.Int(begin)});
  if (along.high >= begin + most) {
    ValueId below = e.b.Emit(Op::kLe, {along.base, e.b.Int(begin + most - e.lanes)});
    inside = inside < 0 ? below : e.b.Emit(Op::kAnd, {inside, below});
  }
  Index moved = at;
  auto within = [&]() -> Result<Element> {
    Coord& c = moved.coords[d] = AddConstant(e, along, -begin);
    c.low = std::max(c.low, int64_t{0});
    c.high = std::min(c.high, most - 1);
    return EmitElement(e, *concatenate.operand(which), moved);
  };
  if (inside < 0) return within();
  tried.push_back(which);
  ++e.branches;
  auto value = EmitEither(e, inside, within, [&] {
    return EmitConcatenateRun(e, concatenate, d, at, std::move(tried));
  });
  --e.branches;
  return value;
}

// Elements of an operand that is shorter than a vector, in their lanes: two shorter vectors that
// overlap, not one element after the other.
struct ShortRun {
  int64_t begin, end;  // of elements
  int64_t lane;        // of the first of them
};
Result<Element> EmitShortRun(ElementContext& e, const Instruction& operand, Index at, size_t d,
                             ShortRun run) {
  const int lanes = e.lanes;
  const auto count = static_cast<uint64_t>(run.end - run.begin);
  const int width = static_cast<int>(std::bit_floor(count));
  Element result;
  for (int64_t from : {run.begin, run.end - width}) {
    if (result.re >= 0 && static_cast<uint64_t>(width) == count) break;
    Coord whole{e.b.Int(from), 1, from == 0 ? int64_t{width} : from, from, from + width - 1};
    at.coords[d] = width == 1 ? ConstantCoord(e, from) : whole;
    e.lanes = width;
    auto emitted = EmitElement(e, operand, at);
    if (emitted) *emitted = SpreadToLanes(e, *emitted);
    e.lanes = lanes;
    Element part = TRY(std::move(emitted));
    int64_t lane = run.lane + from - run.begin;
    std::vector<int32_t> spread, blend;
    for (int64_t l = 0; l < lanes; ++l) {
      int64_t place = std::clamp<int64_t>(l - lane, 0, width - 1);
      spread.push_back(static_cast<int32_t>(place));
      blend.push_back(static_cast<int32_t>(place == l - lane ? lanes + l : l));
    }
    auto widen = [&](ValueId v, ValueId before) {
      if (v < 0) return v;
      ValueId wide = width == 1 ? e.b.Splat(v, lanes) : e.b.Shuffle(v, v, spread);
      return before < 0 ? wide : e.b.Shuffle(before, wide, blend);
    };
    result = {widen(part.re, result.re), widen(part.im, result.im)};
  }
  return result;
}

// Lanes [first, first + lanes), which operands they come from being known: runs of the operands,
// moved to their lanes.
Result<Element> EmitConcatenateAt(ElementContext& e, const Instruction& concatenate, size_t d,
                                  const Index& at, int64_t first) {
  int lanes = e.lanes;
  auto shuffle = [&](Element a, Element b, const std::vector<int32_t>& from) {
    Element result{e.b.Shuffle(a.re, b.re, from), -1};
    if (a.im >= 0) result.im = e.b.Shuffle(a.im, b.im, from);
    return result;
  };
  auto blend = [&](Element a, Element b, int64_t begin, int64_t end) {
    std::vector<int32_t> from;
    for (int32_t l = 0; l < lanes; ++l) from.push_back(l >= begin && l < end ? lanes + l : l);
    return shuffle(a, b, from);
  };
  Element result;
  int64_t offset = 0;
  for (const Instruction* operand : concatenate.operands()) {
    int64_t size = operand->shape().dim(static_cast<int64_t>(d));
    int64_t begin = std::max(first - offset, int64_t{0});
    int64_t end = std::min(first - offset + lanes, size);
    int64_t lane = offset + begin - first;  // of the operand's first element
    offset += size;
    if (begin >= end) continue;
    Index moved = at;
    Element part;
    if (size >= lanes) {
      int64_t from = std::min(begin, size - lanes), shift = begin - from - lane;
      moved.coords[d] = {e.b.Int(from), 1, from == 0 ? int64_t{lanes} : from, from,
                         from + lanes - 1};
      part = SpreadToLanes(e, TRY(EmitElement(e, *operand, moved)));
      if (shift != 0) {
        std::vector<int32_t> lane_from;
        for (int64_t l = 0; l < lanes; ++l) {
          lane_from.push_back(static_cast<int32_t>(std::clamp<int64_t>(l + shift, 0, lanes - 1)));
        }
        part = shuffle(part, part, lane_from);
      }
    } else {
      part = TRY(EmitShortRun(e, *operand, moved, d, {begin, end, lane}));
    }
    result = result.re < 0 ? part : blend(result, part, lane, lane + end - begin);
  }
  return result;
}

}  // namespace

// Lanes go along dimension d, one element each.
bool IsLaneRun(const ElementContext& e, const Index& at, size_t d) {
  if (e.lanes == 1) return false;
  for (size_t i = 0; i < at.coords.size(); ++i) {
    const Coord& c = at.coords[i];
    if (e.b.type(c.base).lanes > 1 || c.step != (i == d ? 1 : 0) || c.each != 1) {
      return false;
    }
  }
  return true;
}

Result<Element> EmitConcatenate(ElementContext& e, const Instruction& concatenate,
                                const Index& index) {
  size_t d = static_cast<size_t>(concatenate.attrs<hlo::DimensionsAttrs>().dimensions[0]);
  Index at = Coordinates(e, concatenate.shape().dims(), index);
  const Coord along = at.coords[d];
  std::optional<int64_t> first = e.b.IntConstant(along.base);
  if (!IsLaneRun(e, at, d)) {
    bool one = e.b.type(along.base).lanes == 1 && (along.step == 0 || e.lanes == 1);
    if (!one || !first) return EmitConcatenateChosen(e, concatenate, d, at);
    for (const Instruction* operand : concatenate.operands()) {
      int64_t size = operand->shape().dim(static_cast<int64_t>(d));
      if (*first < size) {
        at.coords[d] = ConstantCoord(e, *first);
        return EmitElement(e, *operand, at);
      }
      *first -= size;
    }
    return EmitConcatenateChosen(e, concatenate, d, at);
  }
  if (first) return EmitConcatenateAt(e, concatenate, d, at, *first);
  return EmitConcatenateRun(e, concatenate, d, at, {});
}

}  // namespace weft::compiler
