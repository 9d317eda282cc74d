// Induction variables and trip counts of loops.
#include "compiler/analysis/trip_count.h"

#include <cstdint>
#include <limits>
#include <vector>

#include "compiler/analysis/queries.h"
#include "compiler/analysis/search.h"
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
    if (side == 1) direction = Swapped(direction);
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

std::optional<LoopCounter> FindLoopCounter(const Instruction& loop) {
  const auto& attrs = loop.attrs<hlo::WhileAttrs>();
  const Instruction& next = *attrs.body->root();
  Seen compare = Seen::Of(*attrs.condition->root());
  if (next.op() != Op::kTuple || compare.op->op() != Op::kCompare) return std::nullopt;
  Direction direction = compare.op->attrs<hlo::CompareAttrs>().direction;
  if (direction != Direction::kLt && direction != Direction::kGt) return std::nullopt;
  int64_t side = direction == Direction::kLt ? 0 : 1;
  Seen number = compare.operand(side), limit = compare.operand(1 - side);
  LoopCounter counter;
  counter.index = StateElement(number);
  const Shape& shape = number.op->shape();
  if (counter.index < 0) return std::nullopt;
  if (shape != Shape::Scalar(DType::kS32) && shape != Shape::Scalar(DType::kS64)) {
    return std::nullopt;
  }
  Seen sum = Seen::Of(*next.operand(counter.index));
  std::optional<int64_t> step = FindStep(loop, sum, counter.index);
  if (!step || *step <= 0 || sum.op->op() != Op::kAdd) return std::nullopt;
  counter.step = *step;
  counter.sum = sum.op;
  counter.value = InvariantInteger(loop, limit);
  if (counter.value) return counter;
  int64_t k = StateElement(limit);
  if (k < 0 || StateElement({next.operand(k)}) != k) return std::nullopt;
  counter.limit = limit.op;
  return counter;
}

std::optional<int64_t> TripCount(const Instruction& loop) {
  std::optional<LoopBounds> bounds = FindLoopBounds(loop);
  if (!bounds) return std::nullopt;
  return bounds->trips;
}

namespace {

// first + t * step in iteration t.
struct Line {
  __int128 first, step;
};

class StateLines {
 public:
  StateLines(const Instruction& loop, int64_t trips)
      : loop_(loop), root_(*loop.attrs<hlo::WhileAttrs>().body->root()), trips_(trips) {}

  // What an integer of the body is, where it is a line and no iteration leaves 32 bits.
  std::optional<Line> Find(const Seen& i, int depth = 0) const {
    if (depth > kMaxTree || !i.op->shape().IsScalar() || !IsInteger(i.op->shape().dtype())) {
      return std::nullopt;
    }
    std::optional<Line> line = FindAny(i, depth);
    if (!line || !Fits(line->first) || !Fits(Last(*line))) return std::nullopt;
    return line;
  }

 private:
  static bool Fits(__int128 x) { return x >= INT32_MIN && x <= INT32_MAX; }
  __int128 Last(const Line& line) const { return line.first + line.step * (trips_ - 1); }

  std::optional<Line> FindAny(const Seen& i, int depth) const {
    if (int64_t k = StateElement(i); k >= 0) return FindState(i, k);
    switch (i.op->op()) {
      case Op::kConstant:
        if (std::optional<int64_t> value = IntegerValue(*i.op)) return Line{*value, 0};
        return std::nullopt;
      case Op::kConvert:
        return BitWidth(i.op->shape().dtype()) >= 32 && IsSigned(i.op->shape().dtype())
                   ? Find(i.operand(0), depth + 1)
                   : std::nullopt;
      case Op::kAdd:
      case Op::kSubtract: {
        std::optional<Line> a = Find(i.operand(0), depth + 1), b = Find(i.operand(1), depth + 1);
        if (!a || !b) return std::nullopt;
        __int128 sign = i.op->op() == Op::kAdd ? 1 : -1;
        return Line{a->first + sign * b->first, a->step + sign * b->step};
      }
      case Op::kNegate: {
        std::optional<Line> a = Find(i.operand(0), depth + 1);
        if (!a) return std::nullopt;
        return Line{-a->first, -a->step};
      }
      case Op::kMultiply: {
        std::optional<Line> a = Find(i.operand(0), depth + 1), b = Find(i.operand(1), depth + 1);
        if (!a || !b || (a->step != 0 && b->step != 0)) return std::nullopt;
        return Line{a->first * b->first, a->first * b->step + a->step * b->first};
      }
      case Op::kMaximum:
      case Op::kMinimum: {
        std::optional<Line> a = Find(i.operand(0), depth + 1), b = Find(i.operand(1), depth + 1);
        return i.op->op() == Op::kMaximum ? Larger(a, b) : Smaller(a, b);
      }
      case Op::kClamp: {
        std::optional<Line> low = Find(i.operand(0), depth + 1), x = Find(i.operand(1), depth + 1);
        return Smaller(Larger(x, low), Find(i.operand(2), depth + 1));
      }
      case Op::kSelect: {
        std::optional<bool> chosen = IsLess(i.operand(0), depth + 1);
        if (!chosen) return std::nullopt;
        return Find(i.operand(*chosen ? 1 : 2), depth + 1);
      }
      default: return std::nullopt;
    }
  }

  std::optional<Line> FindState(const Seen& i, int64_t k) const {
    if (std::optional<int64_t> value = InvariantInteger(loop_, i)) return Line{*value, 0};
    std::optional<int64_t> first = IntegerValue(*loop_.operand(0)->operand(k));
    std::optional<int64_t> step = FindStep(loop_, Seen::Of(*root_.operand(k)), k);
    if (!first || !step) return std::nullopt;
    return Line{*first, *step};
  }

  // The one of two lines that is never the smaller one: lines that do not cross between the first
  // and the last iteration do not cross at all.
  std::optional<Line> Larger(const std::optional<Line>& a, const std::optional<Line>& b) const {
    if (!a || !b) return std::nullopt;
    if (a->first >= b->first && Last(*a) >= Last(*b)) return a;
    if (b->first >= a->first && Last(*b) >= Last(*a)) return b;
    return std::nullopt;
  }
  std::optional<Line> Smaller(const std::optional<Line>& a, const std::optional<Line>& b) const {
    if (!a || !b) return std::nullopt;
    if (a->first <= b->first && Last(*a) <= Last(*b)) return a;
    if (b->first <= a->first && Last(*b) <= Last(*a)) return b;
    return std::nullopt;
  }

  // Of a comparison that comes out the same in all iterations.
  std::optional<bool> IsLess(const Seen& i, int depth) const {
    if (i.op->op() != Op::kCompare) return std::nullopt;
    if (i.op->attrs<hlo::CompareAttrs>().direction != Direction::kLt) return std::nullopt;
    std::optional<Line> a = Find(i.operand(0), depth), b = Find(i.operand(1), depth);
    if (!a || !b) return std::nullopt;
    bool at_first = a->first < b->first, at_last = Last(*a) < Last(*b);
    if (at_first != at_last) return std::nullopt;
    return at_first;
  }

  const Instruction& loop_;
  const Instruction& root_;
  __int128 trips_;
};

// The update of the k-th array, if nothing else in the loop reads the array.
std::optional<Seen> OnlyUpdate(const Instruction& loop, int64_t k) {
  const auto& attrs = loop.attrs<hlo::WhileAttrs>();
  auto reads_of = [k](const Computation& c) -> std::optional<std::vector<const Instruction*>> {
    std::vector<const Instruction*> reads;
    for (const Instruction* user : c.parameter(0)->users()) {
      if (user->op() != Op::kGetTupleElement) return std::nullopt;
      if (user->tuple_index() == k) reads.push_back(user);
    }
    return reads;
  };
  auto in_condition = reads_of(*attrs.condition), in_body = reads_of(*attrs.body);
  if (!in_condition || !in_condition->empty() || !in_body || in_body->size() != 1) {
    return std::nullopt;
  }
  const Instruction *array = in_body->front(), *next = attrs.body->root()->operand(k);
  if (array->users().size() != 1 || array->users()[0] != next) return std::nullopt;
  const Instruction* root = attrs.body->root();
  int64_t handed_on = 0;
  for (const Instruction* operand : root->operands()) handed_on += operand == next;
  if (handed_on != 1 || next->users().size() != 1 || next->users()[0] != root) return std::nullopt;
  Seen update = Seen::Of(*next);
  if (update.op->op() != Op::kDynamicUpdateSlice ||
      update.op->operand(1) == update.op->operand(0)) {
    return std::nullopt;
  }
  if (update.operand(0).op != array) return std::nullopt;
  if (update.fusion != nullptr) {
    int64_t times = 0;
    for (const Instruction* operand : update.fusion->operands()) times += operand == array;
    if (times != 1 || update.op->operand(0)->users().size() != 1) return std::nullopt;
  } else if (next->operand(1) == array) {
    return std::nullopt;
  }
  return update;
}

}  // namespace

bool WritesWholeState(const Instruction& loop, int64_t k) {
  const Instruction &init = *loop.operand(0), &root = *loop.attrs<hlo::WhileAttrs>().body->root();
  if (init.op() != Op::kTuple || root.op() != Op::kTuple) return false;
  std::optional<LoopBounds> bounds = FindLoopBounds(loop);
  if (!bounds || bounds->trips < 1) return false;
  std::optional<Seen> update = OnlyUpdate(loop, k);
  if (!update) return false;
  const Shape &array = update->op->shape(), &row = update->op->operand(1)->shape();
  int64_t along = -1;
  for (int64_t d = 0; d < array.rank(); ++d) {
    if (array.dim(d) == row.dim(d)) continue;
    if (along >= 0 || row.dim(d) != 1 || array.dim(d) != bounds->trips) return false;
    along = d;
  }
  if (along < 0) return false;
  std::optional<Line> at = StateLines(loop, bounds->trips).Find(update->operand(along + 2));
  if (!at) return false;
  bool up = at->first == 0 && at->step == 1;
  bool down = at->first == bounds->trips - 1 && at->step == -1;
  return up || down;
}

}  // namespace weft::compiler
