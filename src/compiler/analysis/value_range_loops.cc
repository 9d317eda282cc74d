// Ranges of loop state: a fixed point that no iteration leaves (widening to the constants that the
// body compares with, then narrowing by the condition).
#include <algorithm>
#include <utility>

#include "compiler/analysis/trip_count.h"
#include "compiler/analysis/value_range_math.h"
#include "hlo/computation.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Computation;
using hlo::Direction;
using hlo::Instruction;
using hlo::Op;

namespace {

// Constants that a state is compared with.
constexpr size_t kMaxThresholds = program::WorkBounds::kAlternatives;

}  // namespace

ValueRange ValueRanges::OfLoopValue(const Instruction& get, ValueRange full) {
  const Instruction& from = *get.operand(0);
  int64_t k = get.tuple_index();
  if (from.op() == Op::kConditional) return OfBranches(from, k, full);
  if (from.op() == Op::kWhile) return AfterLoop(from, k, full);
  if (!from.IsParameter()) return full;
  const Instruction* caller = CallerOf(from);
  if (!caller || caller->op() != Op::kWhile) return full;
  StateRange range = OfState(*caller, k, full);
  return caller->attrs<hlo::WhileAttrs>().body == get.parent() ? range.body : range.condition;
}

// What the condition sees, where it says that the loop is over.
ValueRange ValueRanges::AfterLoop(const Instruction& loop, int64_t k, ValueRange full) {
  ValueRange range = OfState(loop, k, full).condition;
  const Computation& condition = *loop.attrs<hlo::WhileAttrs>().condition;
  ValueRange last = RangeIntersection(range, Limit(*condition.root(), false, condition, k, full));
  return last.low <= last.high ? last : range;
}

ValueRanges::StateRange ValueRanges::OfState(const Instruction& loop, int64_t k, ValueRange full) {
  StateKey key{&loop, k};
  if (auto it = open_.find(key); it != open_.end()) return it->second;
  if (auto it = states_.find(key); it != states_.end()) return it->second;
  // What is assumed in a branch holds there, not in other iterations.
  auto refined = std::exchange(refined_, {});
  auto conditions = std::exchange(conditions_, {});
  Cache local = std::exchange(local_, {});
  StateRange range = FindState(loop, k, full);
  open_.erase(key);
  refined_ = std::move(refined);
  conditions_ = std::move(conditions);
  local_ = std::move(local);
  if (open_.empty() && budget_ >= 0) states_.emplace(key, range);
  return range;
}

ValueRanges::StateRange ValueRanges::FindState(const Instruction& loop, int64_t k,
                                               ValueRange full) {
  StateKey key{&loop, k};
  const auto& attrs = loop.attrs<hlo::WhileAttrs>();
  const Instruction &init = *loop.operand(0), &root = *attrs.body->root();
  if (init.op() != Op::kTuple || root.op() != Op::kTuple) return {full, full};
  const Instruction& next = *root.operand(k);
  // A loop around this one may ask for this state, with an assumption about its own.
  ValueRange first = *Of(*init.operand(k));
  open_[key] = {full, full};
  if (StateElement(next, *attrs.body) == k) return {first, first};
  // A counter beside the one that ends the loop.
  const Instruction& sum = Peel(next);
  std::optional<int64_t> trips = TripCount(loop);
  bool adds = sum.op() == Op::kAdd && StateElement(*sum.operand(0), *attrs.body) == k;
  if (trips && adds) {
    if (*trips == 0) return {first, first};
    ValueRange step = *Of(*sum.operand(1));
    auto after = [&](Int128 n) {
      return RangeWithin(first.low + std::min(Int128{0}, n * step.low),
                         first.high + std::max(Int128{0}, n * step.high), full);
    };
    ValueRange last = after(*trips);
    if (last != full) return {last, after(Int128{*trips} - 1)};
  }
  ValueRange limit = Limit(*attrs.condition->root(), true, *attrs.condition, k, full), most = full;
  if (std::optional<Limits> limits = LimitsByGrowth(loop, k)) {
    most.high = std::min(most.high, std::max(limits->after, first.high));
    if (limits->before >= limit.low) limit.high = std::min(limit.high, limits->before);
  }
  auto assume = [&](ValueRange range) {
    open_[key] = {range, RangeIntersection(range, limit)};
    local_.clear();
    return RangeIntersection(*Of(next), most);
  };
  std::vector<int64_t> thresholds = Thresholds(loop);
  ValueRange range = first;
  for (size_t round = 0; round < 2 * thresholds.size() + 4; ++round) {
    ValueRange reached = assume(range);
    if (RangeContains(range, reached)) {
      ValueRange narrow = RangeUnion(first, reached);
      return {narrow, RangeIntersection(narrow, limit)};
    }
    // Beyond what it reached so far, to the next number that something is compared with.
    if (reached.low < range.low) {
      auto above = std::upper_bound(thresholds.begin(), thresholds.end(), reached.low);
      range.low = above == thresholds.begin() ? full.low : *std::prev(above);
    }
    if (reached.high > range.high) {
      auto next_one = std::lower_bound(thresholds.begin(), thresholds.end(), reached.high);
      range.high = next_one == thresholds.end() ? full.high : *next_one;
    }
    range = {std::max(range.low, full.low), std::min(range.high, most.high)};
  }
  return {most, RangeIntersection(most, limit)};
}

// Numbers in the body that others are compared with, and their neighbours: where the state of a
// loop may stop to grow. In order.
std::vector<int64_t> ValueRanges::Thresholds(const Instruction& loop) const {
  std::vector<int64_t> found;
  auto look = [&](const Computation& c) {
    for (const Instruction* i : c) {
      if (i->op() != Op::kCompare && i->op() != Op::kMinimum && i->op() != Op::kMaximum) continue;
      for (const Instruction* operand : i->operands()) {
        const Instruction& number = Peel(*operand, true);
        if (number.op() != Op::kConstant || number.shape().elements() != 1) continue;
        if (!FullRangeOf(number.shape().dtype())) continue;
        if (!number.literal().IsValid() || found.size() >= kMaxThresholds) continue;
        int64_t value = number.literal().GetInt(0);
        for (int64_t near : {value - 1, value, value + 1}) found.push_back(near);
      }
    }
  };
  const Computation& body = *loop.attrs<hlo::WhileAttrs>().body;
  look(body);
  for (const Instruction* i : body) {
    if (i->op() == Op::kFusion) look(*i->attrs<hlo::FusionAttrs>().calls);
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

// What the k-th element of the state is where the condition is true, or false.
ValueRange ValueRanges::Limit(const Instruction& condition, bool value, const Computation& c,
                              int64_t k, ValueRange full) {
  const Instruction& i = Peel(condition);
  if (i.op() == (value ? Op::kAnd : Op::kOr)) {
    return RangeIntersection(Limit(*i.operand(0), value, c, k, full),
                             Limit(*i.operand(1), value, c, k, full));
  }
  if (i.op() == Op::kNot) return Limit(*i.operand(0), !value, c, k, full);
  if (i.op() != Op::kCompare) return full;
  Direction direction = i.attrs<hlo::CompareAttrs>().direction;
  if (!value) direction = hlo::Negated(direction);
  for (int64_t side : {0, 1}) {
    const Instruction& number = Peel(*i.operand(side), true);
    if (number.op() != Op::kGetTupleElement || StateElement(number, c) != k) continue;
    std::optional<ValueRange> other = Of(*i.operand(1 - side));
    if (!other) return full;
    ValueRange range = RangeWhere(side == 0 ? direction : Swapped(direction), *other, full);
    return range.low <= range.high ? range : full;
  }
  return full;
}

}  // namespace weft::compiler
