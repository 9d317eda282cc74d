// Loads and stores of elements: contiguous, strided, repeated, gathered.
#include "compiler/lower/element/memory.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "compiler/lower/element/coords.h"
#include "compiler/lower/element/values.h"
#include "program/math.h"
#include "program/target_facts.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Op;
using program::Type;

namespace {

// Distance of lanes that are read by runs.
constexpr int64_t kNearLanes = program::TargetFacts::kNarrowLanes;

// Neighbouring lanes read the same element: a short run of elements, each in several lanes.
ValueId LoadRepeated(ElementContext& e, KernelBuilder::MemoryId memory, const Coord& at) {
  int elements = static_cast<int>((e.lanes + at.each - 1) / at.each);
  ValueId part = e.b.Load(memory, at.base, elements);
  if (elements == 1) return e.b.Splat(part, e.lanes);
  std::vector<int32_t> from;
  for (int64_t lane = 0; lane < e.lanes; ++lane) {
    from.push_back(static_cast<int32_t>(lane / at.each));
  }
  return e.b.Shuffle(part, part, from);
}

// Lanes a few elements from each other: the runs in which they lie, shuffled.
ValueId LoadSpread(ElementContext& e, KernelBuilder::MemoryId memory, const Coord& at) {
  int64_t distance = std::abs(at.step), last = distance * (e.lanes - 1);  // from the first lane
  ValueId begin = at.step > 0 ? at.base : e.b.Add(at.base, e.b.Int(-last));
  int64_t shift = 0;
  if (std::max(at.modulus, at.multiple) % distance == 0 && at.step > 0 &&
      e.b.count(memory) % distance == 0) {
    // Neighbours, such as the coordinates of a point, are read by the same runs.
    shift = at.modulus >= at.multiple ? at.residue % distance : 0;
    begin = e.b.Add(at.origin >= 0 ? at.origin : at.base, e.b.Int(at.offset - shift));
    last = distance * e.lanes - 1;
  }
  ValueId result = -1;
  for (int64_t run = 0; run < distance; ++run) {
    int64_t offset = std::min(run * e.lanes, last - (e.lanes - 1));
    ValueId part = e.b.Load(memory, e.b.Add(begin, e.b.Int(offset)), e.lanes);
    std::vector<int32_t> from;
    for (int32_t lane = 0; lane < e.lanes; ++lane) {
      int64_t place = (at.step > 0 ? lane : e.lanes - 1 - lane) * distance + shift - offset;
      bool here = place >= 0 && place < e.lanes;
      int32_t other = result < 0 ? 0 : e.lanes;
      from.push_back(here ? other + static_cast<int32_t>(place) : lane);
    }
    result = e.b.Shuffle(result < 0 ? part : result, part, from);
  }
  return result;
}

ValueId LoadListed(ElementContext& e, KernelBuilder::MemoryId memory,
                   std::span<const int64_t> lanes) {
  ValueId result = -1;
  std::vector<int64_t> done;
  for (int64_t place : lanes) {
    if (std::find(done.begin(), done.end(), place) != done.end()) continue;
    done.push_back(place);
    ValueId part = e.b.Splat(e.b.Load(memory, e.b.Int(place)), e.lanes);
    std::vector<int32_t> from;
    for (int32_t lane = 0; lane < e.lanes; ++lane) {
      from.push_back(lanes[static_cast<size_t>(lane)] == place ? e.lanes + lane : lane);
    }
    result = result < 0 ? part : e.b.Shuffle(result, part, from);
  }
  return result;
}

int AlignOf(const ElementContext& e, KernelBuilder::MemoryId memory, const Coord& at) {
  const program::Memory& m = e.b.memory(memory);
  if (m.align == 0) return 0;
  int64_t width = ByteWidth(m.dtype), all = std::min(m.align, width * e.lanes);
  return at.multiple * width % all == 0 && all > width ? static_cast<int>(all) : 0;
}

}  // namespace

// A lookup table of few small integers as a bitmap: their bits side by side in one number, of which
// each lane shifts its own to the end. No machine gathers as fast. -1: they are too many or too
// large.
ValueId LookUpInBits(ElementContext& e, const Literal& table, const Coord& at) {
  constexpr int64_t kBits = BitWidth(DType::kU32);
  DType dtype = table.dtype();
  int64_t count = table.shape().elements();
  bool takes = IsInteger(dtype) || dtype == DType::kPred || dtype == DType::kF32;
  if (!takes || count > kBits || count < 2 || LaneType(at) != DType::kS32) return -1;
  if (e.Leaves(kBitmapLookup)) return -1;
  int64_t most = 0;
  uint64_t all = 0;
  for (int64_t i = 0; i < count; ++i) {
    double number = table.GetDouble(i);
    bool small = number >= 0 && number < kBits && number == std::floor(number);
    if (!small || std::signbit(number)) return -1;
    most = std::max(most, static_cast<int64_t>(number));
  }
  int64_t width = std::max<int64_t>(std::bit_width(static_cast<uint64_t>(most)), 1);
  if (count * width > kBits) return -1;
  for (int64_t i = 0; i < count; ++i) {
    all |= static_cast<uint64_t>(table.GetDouble(i)) << (i * width);
  }
  ValueId lane = e.b.Cast(LaneValue(e, at, DType::kS32), DType::kU32);
  Type type = e.b.type(lane);
  ValueId shift =
      e.b.Emit(Op::kAnd, {e.b.Mul(lane, e.b.Int(width, type)), e.b.Int(kBits - 1, type)});
  ValueId bits = e.b.Emit(Op::kShr, {e.b.Int(static_cast<int64_t>(all), type), shift});
  bits = e.b.Emit(Op::kAnd, {bits, e.b.Int((int64_t{1} << width) - 1, type)});
  if (dtype != DType::kPred) return e.b.Cast(bits, program::ComputeType(dtype));
  return e.b.Emit(Op::kNe, {bits, e.b.Int(0, type)});
}

// An element whose number is known, in all lanes or in each.
Result<std::optional<Element>> EmitKnown(ElementContext& e, const Instruction& instruction,
                                         const Coord& at) {
  auto it = e.numbers.find(&instruction);
  if (it == e.numbers.end()) return std::optional<Element>();
  const Literal& literal = it->second;
  std::optional<int64_t> place = e.b.IntConstant(at.base);
  bool one = e.b.type(at.base).lanes == 1 && (at.step == 0 || e.lanes == 1);
  if (place && one) return std::optional(TRY(ConstantElement(e, literal, *place)));
  auto lanes = e.listed.find(at.base);
  DType dtype = literal.dtype();
  if (lanes == e.listed.end() && e.b.type(at.base).lanes > 1) {
    ValueId bits = LookUpInBits(e, literal, at);
    return bits < 0 ? std::optional<Element>() : std::optional(Element{bits, -1});
  }
  if (lanes == e.listed.end() || !IsFloat(dtype) || IsComplex(dtype)) {
    return std::optional<Element>();
  }
  std::vector<double> numbers;
  for (int64_t lane : lanes->second) numbers.push_back(literal.GetDouble(lane));
  ValueId value = program::math::LaneNumbers(e.b, numbers, program::ComputeType(dtype));
  e.lane_numbers[value] = std::move(numbers);
  return std::optional(Element{value, -1});
}

Element LoadAt(ElementContext& e, KernelBuilder::MemoryId memory, DType dtype, const Coord& at) {
  int64_t parts = IsComplex(dtype) ? 2 : 1;
  bool runs = at.step == 0 || (at.step == 1 && at.each == 1);
  bool gathers = e.b.type(at.base).lanes > 1 || (e.lanes > 1 && !runs);
  bool one = !gathers && (e.lanes == 1 || at.step == 0);
  if (parts == 1) {
    bool near = e.b.type(at.base).lanes == 1 && std::abs(at.step) <= kNearLanes && at.each == 1;
    bool repeats = gathers && e.b.type(at.base).lanes == 1 && at.step == 1 &&
                   std::has_single_bit(static_cast<uint64_t>(at.each));
    if (auto it = e.listed.find(at.base); it != e.listed.end()) {
      return {LoadListed(e, memory, it->second), -1};
    }
    if (repeats) return {LoadRepeated(e, memory, at), -1};
    if (ValueId column = gathers ? LoadColumn(e, memory, at) : -1; column >= 0) return {column, -1};
    if (gathers && near) return {LoadSpread(e, memory, at), -1};
    if (gathers) return {e.b.Load(memory, LaneValue(e, at, LaneType(at))), -1};
    return {e.b.Load(memory, at.base, one ? 1 : e.lanes, -1, one ? 0 : AlignOf(e, memory, at)), -1};
  }
  if (one || gathers || e.lanes * 2 > program::kMaxLanes) {
    ValueId first = one ? at.base : LaneValue(e, at, DType::kS64);
    first = e.b.Mul(first, e.b.Int(2, e.b.type(first)));
    ValueId re = e.b.Load(memory, first);
    return {re, e.b.Load(memory, e.b.Add(first, e.b.Int(1, e.b.type(first))))};
  }
  ValueId pairs = e.b.Load(memory, e.b.Mul(at.base, e.b.Int(2)), e.lanes * 2);
  std::vector<int32_t> even, odd;
  for (int i = 0; i < e.lanes; ++i) {
    even.push_back(2 * i);
    odd.push_back(2 * i + 1);
  }
  ValueId re = e.b.Shuffle(pairs, pairs, even);
  return {re, e.b.Shuffle(pairs, pairs, odd)};
}

void StoreAt(ElementContext& e, KernelBuilder::MemoryId memory, DType dtype, const Coord& at,
             Element value, ValueId mask) {
  bool runs = at.step == 0 || (at.step == 1 && at.each == 1);
  bool scatters = e.b.type(at.base).lanes > 1 || (e.lanes > 1 && !runs);
  bool one = !scatters && (e.lanes == 1 || at.step == 0);
  int lanes = one ? 1 : e.lanes;
  auto spread = [&](ValueId v) { return e.b.type(v).lanes == lanes ? v : e.b.Splat(v, lanes); };
  if (mask >= 0) mask = spread(mask);
  if (!IsComplex(dtype)) {
    int align = one || scatters || mask >= 0 ? 0 : AlignOf(e, memory, at);
    e.b.Store(memory, scatters ? LaneValue(e, at, DType::kS64) : at.base, spread(value.re), mask,
              align);
    return;
  }
  ValueId re = spread(value.re), im = spread(value.im);
  if (one || scatters || mask >= 0 || lanes * 2 > program::kMaxLanes) {
    ValueId first = one ? at.base : LaneValue(e, at, DType::kS64);
    first = e.b.Mul(first, e.b.Int(2, e.b.type(first)));
    e.b.Store(memory, first, re, mask);
    e.b.Store(memory, e.b.Add(first, e.b.Int(1, e.b.type(first))), im, mask);
    return;
  }
  std::vector<int32_t> order;
  for (int i = 0; i < lanes; ++i) {
    order.push_back(i);
    order.push_back(lanes + i);
  }
  e.b.Store(memory, e.b.Mul(at.base, e.b.Int(2)), e.b.Shuffle(re, im, order));
}

}  // namespace weft::compiler
