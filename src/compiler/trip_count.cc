#include "compiler/trip_count.h"

#include <limits>

#include "compiler/passes/simplify_rules.h"
#include "hlo/computation.h"

namespace weft::compiler {
namespace {

using hlo::Computation;
using hlo::Direction;
using hlo::Instruction;
using hlo::Op;

// An instruction, also as the root of a fusion: its operands are then those of the fusion.
struct Seen {
  const Instruction* op;
  const Instruction* fusion = nullptr;

  static Seen Of(const Instruction& i) {
    if (i.op() != Op::kFusion) return {&i};
    return {i.attrs<hlo::FusionAttrs>().calls->root(), &i};
  }
  Seen operand(int64_t k) const {
    const Instruction* inside = op->operand(k);
    if (fusion == nullptr) return Of(*inside);
    if (inside->IsParameter()) return Of(*fusion->operand(inside->parameter_number()));
    return {inside, fusion};
  }
};

// The element of the loop's state that this instruction reads; -1: none.
int64_t StateElement(const Seen& i) {
  bool reads = i.op->op() == Op::kGetTupleElement && i.op->operand(0)->IsParameter();
  return reads && i.fusion == nullptr ? i.op->tuple_index() : -1;
}

// The loop's value of an instruction of its body or condition, where it is the same constant
// always.
std::optional<int64_t> InvariantInteger(const Instruction& loop, const Seen& i) {
  int64_t k = StateElement(i);
  if (k < 0) return IntegerValue(*i.op);
  const Instruction& init = *loop.operand(0);
  const Instruction& root = *loop.attrs<hlo::WhileAttrs>().body->root();
  if (init.op() != Op::kTuple || root.op() != Op::kTuple) return std::nullopt;
  if (StateElement({root.operand(k)}) != k) return std::nullopt;
  return IntegerValue(*init.operand(k));
}

std::optional<int64_t> FindStep(const Instruction& loop, const Seen& next, int64_t index) {
  Op op = next.op->op();
  if (op != Op::kAdd && op != Op::kSubtract) return std::nullopt;
  int64_t counter = StateElement(next.operand(0)) == index ? 0 : 1;
  if (StateElement(next.operand(counter)) != index) return std::nullopt;
  if (op == Op::kSubtract && counter != 0) return std::nullopt;
  std::optional<int64_t> step = InvariantInteger(loop, next.operand(1 - counter));
  if (!step || *step == std::numeric_limits<int64_t>::min()) return std::nullopt;
  return op == Op::kSubtract ? -*step : *step;
}

// Trips of a counter that goes up while it is below `bound`.
__int128 CountUp(__int128 init, __int128 step, __int128 bound) {
  return init >= bound ? 0 : (bound - init + step - 1) / step;
}

// Negative: not known, or for ever.
__int128 CountTrips(Direction direction, __int128 init, __int128 step, __int128 bound) {
  switch (direction) {
    case Direction::kLe: return CountTrips(Direction::kLt, init, step, bound + 1);
    case Direction::kGe: return CountTrips(Direction::kGt, init, step, bound - 1);
    case Direction::kLt: return step > 0 ? CountUp(init, step, bound) : init >= bound ? 0 : -1;
    case Direction::kGt: return step < 0 ? CountUp(-init, -step, -bound) : init <= bound ? 0 : -1;
    case Direction::kEq: return init != bound ? 0 : step != 0 ? 1 : -1;
    case Direction::kNe:
      if (init == bound) return 0;
      return step != 0 && (bound - init) % step == 0 ? (bound - init) / step : -1;
  }
  return -1;
}

// A counter of this type holds the value.
bool FitsCounter(DType dtype, __int128 value) {
  int bits = BitWidth(dtype);
  if (dtype == DType::kU64) bits = 63;  // larger ones are not followed
  if (IsUnsigned(dtype)) return value >= 0 && value < (static_cast<__int128>(1) << bits);
  __int128 half = static_cast<__int128>(1) << (bits - 1);
  return value >= -half && value < half;
}

Direction Mirrored(Direction d) {
  switch (d) {
    case Direction::kLt: return Direction::kGt;
    case Direction::kLe: return Direction::kGe;
    case Direction::kGt: return Direction::kLt;
    case Direction::kGe: return Direction::kLe;
    default: return d;
  }
}

}  // namespace

std::optional<LoopBounds> FindLoopBounds(const Instruction& loop) {
  const auto& attrs = loop.attrs<hlo::WhileAttrs>();
  const Instruction &init = *loop.operand(0), &next = *attrs.body->root();
  Seen compare = Seen::Of(*attrs.condition->root());
  if (init.op() != Op::kTuple || next.op() != Op::kTuple || compare.op->op() != Op::kCompare) {
    return std::nullopt;
  }
  for (int64_t side = 0; side < 2; ++side) {
    LoopBounds bounds{.index = StateElement(compare.operand(side))};
    if (bounds.index < 0) continue;
    std::optional<int64_t> first = IntegerValue(*init.operand(bounds.index));
    std::optional<int64_t> step =
        FindStep(loop, Seen::Of(*next.operand(bounds.index)), bounds.index);
    std::optional<int64_t> bound = InvariantInteger(loop, compare.operand(1 - side));
    if (!first || !step || !bound) continue;
    DType dtype = compare.operand(side).op->shape().dtype();
    if (IsUnsigned(dtype)) {
      // As large as the type's range: a step down.
      int bits = BitWidth(dtype);
      if (bits < 64 && *step >= int64_t{1} << (bits - 1)) *step -= int64_t{1} << bits;
      if (bits == 64 && (*first < 0 || *bound < 0)) continue;
    }
    Direction direction = compare.op->attrs<hlo::CompareAttrs>().direction;
    if (side == 1) direction = Mirrored(direction);
    __int128 trips = CountTrips(direction, *first, *step, *bound);
    __int128 last = *first + trips * *step;
    if (trips < 0 || !FitsCounter(dtype, last) || trips > std::numeric_limits<int64_t>::max()) {
      continue;
    }
    bounds.init = *first;
    bounds.step = *step;
    bounds.trips = static_cast<int64_t>(trips);
    return bounds;
  }
  return std::nullopt;
}

std::optional<int64_t> TripCount(const Instruction& loop) {
  std::optional<LoopBounds> bounds = FindLoopBounds(loop);
  if (!bounds) return std::nullopt;
  return bounds->trips;
}

}  // namespace weft::compiler
