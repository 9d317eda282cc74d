// Elements of a loop's state that are made of each other, such as lengths that are kept in an array
// and the last of them: how much the greatest of them grows in a round. After as many rounds as the
// loop has it is no greater than it was at first and as often that much.
#include <algorithm>
#include <limits>

#include "compiler/analysis/trip_count.h"
#include "compiler/analysis/value_range.h"
#include "hlo/computation.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Instruction;
using hlo::Op;

namespace {

constexpr int kMaxGrowthDepth = program::WorkBounds::kPath;  // operations behind each other
// States that are computed from each other.
constexpr size_t kMaxGroup = program::WorkBounds::kTree / 2;
constexpr int64_t kMaxGrowth = kLargestFactor;  // in a round

}  // namespace

struct ValueRanges::Group {
  const Instruction* loop;
  std::vector<int64_t> members;       // elements of the state
  int64_t most;                       // of what else they may be
  std::map<StateKey, int64_t> inner;  // growth of elements of loops inside
  int depth = 0;
};

std::optional<int64_t> ValueRanges::GrowthOf(const Instruction& instruction, Group& group) {
  const Instruction& i = Peel(instruction);
  DType dtype = i.shape().dtype();
  if (dtype != DType::kS32 && dtype != DType::kS64) return std::nullopt;
  if (group.depth > kMaxGrowthDepth || --budget_ < 0) return std::nullopt;
  ++group.depth;
  std::optional<int64_t> growth = FindGrowth(i, group);
  --group.depth;
  if (growth && *growth > kMaxGrowth) growth = std::nullopt;
  return growth;
}

std::optional<int64_t> ValueRanges::FindGrowth(const Instruction& i, Group& group) {
  auto greater = [&](int64_t a, int64_t b) -> std::optional<int64_t> {
    std::optional<int64_t> x = GrowthOf(*i.operand(a), group), y = GrowthOf(*i.operand(b), group);
    if (!x || !y) return std::nullopt;
    return std::max(*x, *y);
  };
  switch (i.op()) {
    case Op::kGetTupleElement: return GrowthOfState(i, group);
    case Op::kSelect: return greater(1, 2);
    case Op::kMaximum:
    case Op::kDynamicUpdateSlice: return greater(0, 1);
    case Op::kGather: return GrowthOf(*i.operand(0), group);
    case Op::kScatter: {
      const Instruction& root = *i.attrs<hlo::ScatterAttrs>().to_apply->root();
      return i.operand_count() == 3 && root.IsParameter() ? greater(0, 2) : std::nullopt;
    }
    case Op::kAdd: {
      std::optional<ValueRange> added = Of(*i.operand(1));
      std::optional<int64_t> before = GrowthOf(*i.operand(0), group);
      if (!before || !added || added->low < 0 || added->high > kMaxGrowth) return std::nullopt;
      return *before + added->high;
    }
    default: break;
  }
  std::optional<ValueRange> range = Of(i);
  if (!range || range->high > kMaxGrowth) return std::nullopt;
  group.most = std::max(group.most, range->high);
  return 0;
}

std::optional<int64_t> ValueRanges::GrowthOfState(const Instruction& get, Group& group) {
  const Instruction* from = get.operand(0);
  const Instruction* loop = from->IsParameter() ? CallerOf(*from) : from;
  if (loop == nullptr || loop->op() != Op::kWhile) return std::nullopt;
  int64_t k = get.tuple_index();
  if (loop == group.loop) {
    auto& members = group.members;
    if (std::find(members.begin(), members.end(), k) == members.end()) members.push_back(k);
    return members.size() > kMaxGroup ? std::nullopt : std::optional<int64_t>(0);
  }
  const Instruction &init = *loop->operand(0), &root = *loop->attrs<hlo::WhileAttrs>().body->root();
  if (init.op() != Op::kTuple || root.op() != Op::kTuple) return std::nullopt;
  StateKey key{loop, k};
  if (auto it = group.inner.find(key); it != group.inner.end()) return it->second;
  std::optional<int64_t> first = GrowthOf(*init.operand(k), group);
  if (!first) return std::nullopt;
  group.inner[key] = *first;  // to be shown
  std::optional<int64_t> next = GrowthOf(*root.operand(k), group);
  if (!next || *next > *first) return std::nullopt;
  return first;
}

// What element k of the state does not exceed: before a round, and after the last.
std::optional<ValueRanges::Limits> ValueRanges::LimitsByGrowth(const Instruction& loop, int64_t k) {
  std::optional<int64_t> trips = TripCount(loop);
  const Instruction &init = *loop.operand(0), &root = *loop.attrs<hlo::WhileAttrs>().body->root();
  if (!trips || *trips < 1 || in_growth_) return std::nullopt;
  in_growth_ = true;
  Group group{&loop, {k}, 0, {}, 0};
  int64_t growth = 0;
  bool known = true;
  for (size_t n = 0; n < group.members.size() && known; ++n) {
    std::optional<int64_t> own = GrowthOf(*root.operand(group.members[n]), group);
    std::optional<ValueRange> first = Of(*init.operand(group.members[n]));
    known = own && first;
    if (!known) break;
    growth = std::max(growth, *own);
    group.most = std::max(group.most, first->high);
  }
  in_growth_ = false;
  if (!known) return std::nullopt;
  __int128 last = group.most + __int128{growth} * *trips;
  if (last > std::numeric_limits<int32_t>::max()) return std::nullopt;
  return Limits{group.most + growth * (*trips - 1), static_cast<int64_t>(last)};
}

}  // namespace weft::compiler
