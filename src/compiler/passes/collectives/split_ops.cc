#include "compiler/passes/collectives/split_ops.h"

#include <algorithm>
#include <unordered_set>

#include "compiler/analysis/collectives.h"
#include "compiler/passes/effects.h"
#include "hlo/dim_rule.h"
#include "hlo/ops/elementwise.h"

namespace weft::compiler {
namespace {

using hlo::DimRule;
using hlo::Instruction;
using hlo::Op;

bool IsPlainCollective(const Instruction& i) {
  if (!IsCollective(i.op()) || HasTrait(i.op(), hlo::kAsyncStart) || i.operand_count() != 1 ||
      !i.shape().IsArray() || i.attrs().Collective()->constrain_layout) {
    return false;
  }
  switch (i.op()) {
    case Op::kAllReduce:
    case Op::kAllGather:
    case Op::kReduceScatter:
    case Op::kCollectivePermute: return true;
    case Op::kAllToAll: return !i.attrs<hlo::AllToAllAttrs>().dimensions.empty();
    default: return false;
  }
}

// Ops whose attributes have a form for a part of the operands.
bool MaySplit(const Instruction& i) {
  const bool is_marked = i.FrontendAttributeValue("_scheduling_group_id") != nullptr;
  if (!i.shape().IsArray() || i.shape().HasDynamicDims() || HasControlDependencies(i) ||
      is_marked) {
    return false;
  }
  for (const Instruction* operand : i.operands()) {
    if (!operand->shape().IsArray() || operand->shape().HasDynamicDims()) return false;
  }
  switch (i.op()) {
    case Op::kBroadcast:
    case Op::kConcatenate:
    case Op::kCopy:
    case Op::kDot:
    case Op::kDynamicSlice:
    case Op::kDynamicUpdateSlice:
    case Op::kIota:
    case Op::kOptBarrier:
    case Op::kPad:
    case Op::kReduce:
    case Op::kReshape:
    case Op::kReverse:
    case Op::kSlice:
    case Op::kTranspose: return true;
    default:
      if (IsPlainCollective(i)) return true;
      return IsElementwise(i.op()) && i.called_computations().empty();
  }
}

// A part of the summands may be reduced by itself: they are added afterwards.
bool AddsUp(const Instruction& i) {
  if (i.op() == Op::kDot) return IsFloat(i.shape().dtype()) && i.operand_count() == 2;
  if (i.op() != Op::kReduce) return false;
  const Instruction& init = *i.operand(1);
  return SimpleReduction(*i.attrs<hlo::ReduceAttrs>().to_apply) == program::ReduceOp::kAdd &&
         hlo::IsConstantOf(&init, 0);
}

// A barrier of one array lies as its operand does.
DimRule RuleFor(const Instruction& i) {
  if (i.op() != Op::kOptBarrier) return hlo::RuleOf(i);
  DimRule rule;
  DimRule::Tensor tensor;
  for (int64_t size : i.shape().dims()) {
    tensor.push_back({static_cast<int>(rule.factors.size())});
    rule.factors.push_back({size, hlo::FactorKind::kParallel});
  }
  rule.operands = rule.results = {tensor};
  return rule;
}

// The dimension of a tensor that begins with the factor; -1: none. Nothing: it lies there in a way
// that parts do not follow.
std::optional<int64_t> DimOf(const DimRule::Tensor& tensor, int factor) {
  int64_t found = -1;
  for (size_t d = 0; d < tensor.size(); ++d) {
    for (size_t k = 0; k < tensor[d].size(); ++k) {
      if (tensor[d][k] != factor) continue;
      if (k > 0 || found >= 0) return {};
      found = static_cast<int64_t>(d);
    }
  }
  return found;
}

bool FitsAttributes(const Instruction& i, const OpSplit& split) {
  switch (i.op()) {
    case Op::kDynamicUpdateSlice: return split.operands[0] >= 0 && split.operands[1] >= 0;
    case Op::kIota: return i.attrs<hlo::IotaAttrs>().iota_dimension != split.result;
    case Op::kPad:
    case Op::kReduce: return split.operands[1] < 0;
    default: return true;
  }
}

std::optional<OpSplit> SplitAlong(const Instruction& i, const DimRule& rule, int factor,
                                  int64_t parts) {
  const hlo::Factor& f = rule.factors[static_cast<size_t>(factor)];
  const bool is_sum = f.kind == hlo::FactorKind::kReduced && AddsUp(i);
  if ((f.kind != hlo::FactorKind::kParallel && !is_sum) || f.size % parts != 0) return {};
  OpSplit split;
  for (const DimRule::Tensor& tensor : rule.operands) {
    const std::optional<int64_t> dim = DimOf(tensor, factor);
    if (!dim) return {};
    split.operands.push_back(*dim);
  }
  const std::optional<int64_t> dim = DimOf(rule.results[0], factor);
  if (!dim || (*dim < 0) != is_sum) return {};
  split.result = *dim;
  if (!FitsAttributes(i, split)) return {};
  return split;
}

// What lies between products: collectives that neither prefetching nor doing them later hides.
std::vector<const Instruction*> BetweenProducts(const hlo::Computation& computation) {
  std::unordered_set<const Instruction*> behind, before;
  std::vector<const Instruction*> found;
  auto is_product = [](const Instruction& i) {
    return i.op() == Op::kDot || i.op() == Op::kConvolution;
  };
  const std::vector<Instruction*> all = computation.Snapshot();
  for (const Instruction* i : all) {
    for (const Instruction* operand : i->operands()) {
      if (is_product(*operand) || behind.contains(operand)) behind.insert(i);
    }
  }
  for (auto it = all.rbegin(); it != all.rend(); ++it) {
    for (const Instruction* user : (*it)->users()) {
      if (is_product(*user) || before.contains(user)) before.insert(*it);
    }
    if (IsPlainCollective(**it) && behind.contains(*it) && before.contains(*it))
      found.push_back(*it);
  }
  std::reverse(found.begin(), found.end());
  return found;
}

}  // namespace

const Instruction* BarrierOf(const Instruction& tuple) {
  if (tuple.op() != Op::kTuple || tuple.users().size() != 1 || tuple.IsRoot()) return nullptr;
  const Instruction* barrier = tuple.users()[0];
  if (barrier->op() != Op::kOptBarrier || barrier->IsRoot() || HasControlDependencies(*barrier) ||
      HasControlDependencies(tuple)) {
    return nullptr;
  }
  const bool is_read = std::ranges::all_of(barrier->users(), [](const Instruction* user) {
    return user->op() == Op::kGetTupleElement && !HasControlDependencies(*user);
  });
  return is_read ? barrier : nullptr;
}

const Instruction* BarredTuple(const Instruction& element) {
  if (element.op() != Op::kGetTupleElement || element.operand(0)->op() != Op::kOptBarrier) {
    return nullptr;
  }
  const Instruction* tuple = element.operand(0)->operand(0);
  return BarrierOf(*tuple) != nullptr ? tuple : nullptr;
}

void SplitOps::Run(const Instruction* seed, int64_t dim) {
  Set(seed, dim);
  while (!work_.empty()) {
    const Instruction* value = work_.back();
    work_.pop_back();
    const int64_t at = dims_.at(value);
    Adopt(*value, -1, at);
    ThroughBarriers(*value, at);
    if (IsSource(*value)) continue;
    for (const Instruction* user : value->users()) {
      for (int64_t k = 0; k < user->operand_count(); ++k) {
        if (user->operand(k) == value) Adopt(*user, k, at);
      }
    }
  }
}

// What has the cut dimension of nobody: other users may be none of ours.
bool SplitOps::IsSource(const Instruction& i) const {
  const OpSplit* own = Of(&i);
  if (i.IsConstant() || own == nullptr) return i.IsConstant();
  return std::ranges::all_of(own->operands, [](int64_t dim) { return dim < 0; });
}

void SplitOps::Set(const Instruction* value, int64_t dim) {
  if (value->shape().HasDynamicDims() || value->shape().dim(dim) % parts_ != 0) return;
  if (dims_.try_emplace(value, dim).second) work_.push_back(value);
}

// `operand`: of the tensor whose dimension is cut; -1: the result.
void SplitOps::Adopt(const Instruction& i, int64_t operand, int64_t dim) {
  if (ops_.contains(&i) || !MaySplit(i)) return;
  const DimRule rule = RuleFor(i);
  const DimRule::Tensor& tensor =
      operand < 0 ? rule.results[0] : rule.operands[static_cast<size_t>(operand)];
  const DimRule::Dim& factors = tensor[static_cast<size_t>(dim)];
  if (factors.empty()) return;
  std::optional<OpSplit> split = SplitAlong(i, rule, factors[0], parts_);
  if (!split) return;
  const OpSplit& own = ops_.try_emplace(&i, *std::move(split)).first->second;
  for (size_t k = 0; k < own.operands.size(); ++k) {
    if (own.operands[k] >= 0) Set(i.operand(static_cast<int64_t>(k)), own.operands[k]);
  }
  if (own.result >= 0) Set(&i, own.result);
}

// Elements lie as what went into the barrier's tuple.
void SplitOps::ThroughBarriers(const Instruction& value, int64_t dim) {
  if (const Instruction* tuple = BarredTuple(value)) Set(tuple->operand(value.tuple_index()), dim);
  for (const Instruction* user : value.users()) {
    const Instruction* barrier = BarrierOf(*user);
    if (barrier == nullptr) continue;
    for (const Instruction* element : barrier->users()) {
      if (user->operand(element->tuple_index()) == &value) Set(element, dim);
    }
  }
}

// Whether it is cut though it comes as a whole, or put together though it is made in parts.
bool SplitOps::IsCopied(const Instruction& i, int64_t dim) const {
  if (i.IsConstant()) return false;
  const OpSplit* made = Of(&i);
  const bool is_whole = BarredTuple(i) == nullptr && (made == nullptr || made->result != dim);
  bool is_joined = false;
  for (const Instruction* user : i.users()) {
    if (BarrierOf(*user) != nullptr) continue;
    const OpSplit* read = Of(user);
    for (int64_t k = 0; k < user->operand_count(); ++k) {
      if (user->operand(k) != &i) continue;
      is_joined |= read == nullptr || read->operands[static_cast<size_t>(k)] != dim;
    }
  }
  return is_whole != is_joined;
}

int64_t SplitOps::Score(const std::vector<const Instruction*>& between) const {
  int64_t score = 0;
  for (const Instruction* i : between) {
    if (ops_.contains(i)) score += i->shape().ByteSize();
  }
  for (const auto& [i, dim] : dims_) {
    if (IsCopied(*i, dim)) score -= i->shape().ByteSize();
  }
  return score;
}

std::optional<SplitOps> SplitOps::Find(const hlo::Computation& computation, int64_t parts) {
  const std::vector<const Instruction*> between = BetweenProducts(computation);
  std::optional<SplitOps> best;
  std::unordered_map<const Instruction*, std::unordered_set<int64_t>> tried;
  int64_t best_score = 0;
  for (const Instruction* i : between) {
    for (int64_t d = 0; d < i->shape().rank(); ++d) {
      if (i->shape().dim(d) % parts != 0 || tried[i].contains(d)) continue;
      SplitOps found(parts);
      found.Run(i, d);
      for (const Instruction* other : between) {
        if (int64_t at = found.DimOf(other); at >= 0) tried[other].insert(at);
      }
      const int64_t score = found.Score(between);
      if (score <= best_score) continue;
      best_score = score;
      best = std::move(found);
    }
  }
  return best;
}

}  // namespace weft::compiler
