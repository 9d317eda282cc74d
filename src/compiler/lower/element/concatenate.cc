// Elements of a concatenation.
//
// A vector of lanes mostly comes from one of them: then it is read as a run, and only one that
// reaches over an edge is gathered.
#include <algorithm>
#include <bit>

#include "compiler/lower/element/element.h"
#include "hlo/computation.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Op;
using HloOp = hlo::Op;

namespace {

constexpr int kMaxOpenTests = program::WorkBounds::kDepth;  // of concatenations, within each other

}  // namespace

// Lanes go along dimension d, one element each.
bool ElementEmitter::IsRun(const Index& at, size_t d) const {
  if (lanes_ == 1) return false;
  for (size_t i = 0; i < at.coords.size(); ++i) {
    const Coord& c = at.coords[i];
    if (b_.type(c.base).lanes > 1 || c.step != (i == d ? 1 : 0) || c.each != 1) {
      return false;
    }
  }
  return true;
}

Element ElementEmitter::Spread(Element value) {
  auto spread = [&](ValueId v) {
    return v < 0 || b_.type(v).lanes == lanes_ ? v : b_.Splat(v, lanes_);
  };
  return {spread(value.re), spread(value.im)};
}

Result<Element> ElementEmitter::EmitConcatenate(const Instruction& concatenate,
                                                const Index& index) {
  size_t d = static_cast<size_t>(concatenate.attrs<hlo::DimensionsAttrs>().dimensions[0]);
  Index at = Coordinates(concatenate.shape().dims(), index);
  const Coord along = at.coords[d];
  std::optional<int64_t> first = b_.IntConstant(along.base);
  if (!IsRun(at, d)) {
    bool one = b_.type(along.base).lanes == 1 && (along.step == 0 || lanes_ == 1);
    if (!one || !first) return EmitConcatenateChosen(concatenate, d, at);
    for (const Instruction* operand : concatenate.operands()) {
      int64_t size = operand->shape().dim(static_cast<int64_t>(d));
      if (*first < size) {
        at.coords[d] = Constant(*first);
        return Emit(*operand, at);
      }
      *first -= size;
    }
    return EmitConcatenateChosen(concatenate, d, at);
  }
  if (first) return EmitConcatenateAt(concatenate, d, at, *first);
  return EmitConcatenateRun(concatenate, d, at, {});
}

// A run of lanes that lies within one operand is read as one, the largest tried first; `tried` are
// those that it does not lie within.
Result<Element> ElementEmitter::EmitConcatenateRun(const Instruction& concatenate, size_t d,
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
  if (most < 2 * lanes_ || branches_ >= kMaxBranches) {
    return EmitConcatenateChosen(concatenate, d, at);
  }
  ValueId inside = -1;
  if (along.low < begin) inside = b_.Emit(Op::kGe, {along.base, b_.Int(begin)});
  if (along.high >= begin + most) {
    ValueId below = b_.Emit(Op::kLe, {along.base, b_.Int(begin + most - lanes_)});
    inside = inside < 0 ? below : b_.Emit(Op::kAnd, {inside, below});
  }
  Index moved = at;
  auto within = [&]() -> Result<Element> {
    Coord& c = moved.coords[d] = AddConstant(along, -begin);
    c.low = std::max(c.low, int64_t{0});
    c.high = std::min(c.high, most - 1);
    return Emit(*concatenate.operand(which), moved);
  };
  if (inside < 0) return within();
  tried.push_back(which);
  ++branches_;
  auto value = EmitEither(inside, within,
                          [&] { return EmitConcatenateRun(concatenate, d, at, std::move(tried)); });
  --branches_;
  return value;
}

// Elements of an operand that is shorter than a vector, in their lanes: two shorter vectors that
// overlap, not one element after the other.
Result<Element> ElementEmitter::EmitShortRun(const Instruction& operand, Index at, size_t d,
                                             ShortRun run) {
  const int lanes = lanes_;
  const auto count = static_cast<uint64_t>(run.end - run.begin);
  const int width = static_cast<int>(std::bit_floor(count));
  Element result;
  for (int64_t from : {run.begin, run.end - width}) {
    if (result.re >= 0 && static_cast<uint64_t>(width) == count) break;
    Coord whole{b_.Int(from), 1, from == 0 ? int64_t{width} : from, from, from + width - 1};
    at.coords[d] = width == 1 ? Constant(from) : whole;
    lanes_ = width;
    auto emitted = Emit(operand, at);
    if (emitted) *emitted = Spread(*emitted);
    lanes_ = lanes;
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
      ValueId wide = width == 1 ? b_.Splat(v, lanes) : b_.Shuffle(v, v, spread);
      return before < 0 ? wide : b_.Shuffle(before, wide, blend);
    };
    result = {widen(part.re, result.re), widen(part.im, result.im)};
  }
  return result;
}

// Lanes [first, first + lanes), which operands they come from being known: runs of the operands,
// moved to their lanes.
Result<Element> ElementEmitter::EmitConcatenateAt(const Instruction& concatenate, size_t d,
                                                  const Index& at, int64_t first) {
  int lanes = lanes_;
  auto shuffle = [&](Element a, Element b, const std::vector<int32_t>& from) {
    Element result{b_.Shuffle(a.re, b.re, from), -1};
    if (a.im >= 0) result.im = b_.Shuffle(a.im, b.im, from);
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
      moved.coords[d] = {b_.Int(from), 1, from == 0 ? int64_t{lanes} : from, from,
                         from + lanes - 1};
      part = Spread(TRY(Emit(*operand, moved)));
      if (shift != 0) {
        std::vector<int32_t> lane_from;
        for (int64_t l = 0; l < lanes; ++l) {
          lane_from.push_back(static_cast<int32_t>(std::clamp<int64_t>(l + shift, 0, lanes - 1)));
        }
        part = shuffle(part, part, lane_from);
      }
    } else {
      part = TRY(EmitShortRun(*operand, moved, d, {begin, end, lane}));
    }
    result = result.re < 0 ? part : blend(result, part, lane, lane + end - begin);
  }
  return result;
}

// Operands [begin, end), which of them is asked for not being known: halves, one of them behind a
// test where the coordinate is the same in all lanes, else both.
Result<Element> ElementEmitter::EmitConcatenateRange(const Instruction& concatenate, size_t d,
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
    moved.coords[d] = Clamp(AddConstant(along, -range.offset), 0, size_of(range.begin) - 1);
    return Emit(operand, moved);
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
        concatenate, d, in,
        first ? Operands{range.begin, middle, range.offset} : Operands{middle, range.end, offset});
  };
  ValueId inside = IsWithin(along, 0, offset, concatenate.shape().dims()[d] + 1);
  bool loads = lanes_ == 1 && middle - range.begin == 1 && range.end - middle == 1 &&
               IsBound(*concatenate.operand(range.begin)) && IsBound(*concatenate.operand(middle));
  if (b_.type(inside).lanes == 1 && !loads && open_tests_ < kMaxOpenTests) {
    ++open_tests_;
    auto value = EmitEither(inside, [&] { return part(true); }, [&] { return part(false); });
    --open_tests_;
    return value;
  }
  // Both are computed: neither may count on being asked for.
  Element left = TRY(EmitConcatenateRange(concatenate, d, at, {range.begin, middle, range.offset}));
  Element right = TRY(EmitConcatenateRange(concatenate, d, at, {middle, range.end, offset}));
  return Select(inside, left, right);
}

Result<Element> ElementEmitter::EmitConcatenateChosen(const Instruction& concatenate, size_t d,
                                                      const Index& at) {
  return EmitConcatenateRange(concatenate, d, at, {0, concatenate.operand_count(), 0});
}

}  // namespace weft::compiler
