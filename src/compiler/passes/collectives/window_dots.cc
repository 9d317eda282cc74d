// Windowed einsum: the product of what an all-gather brings is done part by part, each as it comes
// around the ring, and that of what a reduce-scatter adds up in the order in which the ring takes
// the parts. Straight-line: the scheduler sees every transfer and every part.

#include <algorithm>
#include <numeric>
#include <optional>
#include <unordered_set>

#include "compiler/analysis/collectives.h"
#include "compiler/passes.h"
#include "compiler/passes/collectives/fresh_ids.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/expand/expand_ops.h"
#include "compiler/passes/rewrite.h"
#include "hlo/clone.h"
#include "hlo/dim_rule.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Computation;
using hlo::DimRule;
using hlo::Instruction;
using hlo::Op;
using Groups = std::vector<std::vector<int64_t>>;

bool IsDot(const Instruction& i) {
  return i.op() == Op::kDot && i.operand_count() == 2 && IsStaticallyShaped(i) &&
         IsFloat(i.shape().dtype()) && !HasControlDependencies(i);
}

// --- whether there is something else to hide behind

double Flops(const Instruction& dot) {
  const DimRule rule = hlo::RuleOf(dot);
  double flops = 2;
  for (const hlo::Factor& factor : rule.factors) flops *= static_cast<double>(factor.size);
  return flops;
}

void MarkReachable(Instruction* from, bool users, std::unordered_set<const Instruction*>& found) {
  std::vector<Instruction*> work = {from};
  while (!work.empty()) {
    Instruction* at = work.back();
    work.pop_back();
    auto visit = [&](Instruction* next) {
      if (found.insert(next).second) work.push_back(next);
    };
    if (users) {
      for (Instruction* next : at->users()) visit(next);
    } else {
      for (Instruction* next : at->operands()) visit(next);
    }
  }
}

// Products that neither wait for the collective nor are waited for by it are less than its own.
bool IsExposed(Instruction* collective, double own) {
  std::unordered_set<const Instruction*> related;
  MarkReachable(collective, true, related);
  MarkReachable(collective, false, related);
  double others = 0;
  for (const Instruction* i : *collective->parent()) {
    if (i->op() == Op::kDot && !related.contains(i)) others += Flops(*i);
    if (others >= own) return false;
  }
  return true;
}

// --- one collective over a ring

class Ring {
 public:
  static std::optional<Ring> Of(const Instruction& i) {
    const hlo::Module& module = *i.parent()->module();
    const bool is_plain = i.operand_count() == 1 && i.shape().IsArray() && IsStaticallyShaped(i) &&
                          !HasControlDependencies(i) && !i.attrs().Collective()->constrain_layout &&
                          (i.extras() == nullptr || i.extras()->frontend_attributes.empty());
    // Numbers in a permute's pairs are those of devices where one of the two is 1.
    const bool is_flat = module.config().replica_count <= 1 || module.config().num_partitions <= 1;
    if (!is_plain || !is_flat) return {};
    Result<Groups> groups = DeviceGroups(i);
    if (!groups || groups->empty()) return {};
    for (const auto& group : *groups) {
      if (group.size() != (*groups)[0].size()) return {};
    }
    Ring ring(*std::move(groups), module);
    if (ring.size() < 2) return {};
    return ring;
  }

  int64_t size() const { return static_cast<int64_t>(groups_[0].size()); }

  // From each device to the next one.
  Result<Instruction*> Send(Builder& b, Instruction* value, FreshIds& ids) const {
    hlo::CollectivePermuteAttrs attrs;
    if (module_->config().num_partitions > 1) attrs.channel_id = 1;
    for (const auto& group : groups_) {
      for (size_t k = 0; k < group.size(); ++k) {
        attrs.source_target_pairs.emplace_back(group[k], group[(k + 1) % group.size()]);
      }
    }
    Instruction* sent = TRY(b.Add(Op::kCollectivePermute, {value}, hlo::Attrs(std::move(attrs))));
    ids.Rename(*sent);
    return sent;
  }

  // Where the part of the device `back` places before this one begins.
  Result<Instruction*> StartOf(Builder& b, int64_t back, int64_t part) const {
    Literal table(Shape(DType::kS32, {DeviceCount(*module_)}));
    for (const auto& group : groups_) {
      for (int64_t k = 0; k < size(); ++k) {
        table.SetInt(group[static_cast<size_t>(k)], (k - back + 2 * size()) % size() * part);
      }
    }
    return OfThisDevice(b, *module_, std::move(table));
  }

 private:
  Ring(Groups groups, const hlo::Module& module) : groups_(std::move(groups)), module_(&module) {}
  Groups groups_;
  const hlo::Module* module_;
};

Result<std::vector<Instruction*>> StartsAt(Builder& b, const Shape& shape, int64_t dim,
                                           Instruction* start) {
  Instruction* zero = b.ScalarConstant(DType::kS32, 0);
  std::vector<Instruction*> starts(static_cast<size_t>(shape.rank()), zero);
  starts[static_cast<size_t>(dim)] = start;
  return starts;
}

// `size` of the dimension from `start` on.
Result<Instruction*> Part(Builder& b, Instruction* value, int64_t dim, Instruction* start,
                          int64_t size) {
  hlo::DynamicSliceAttrs attrs;
  for (int64_t d : value->shape().dims()) attrs.dynamic_slice_sizes.push_back(d);
  attrs.dynamic_slice_sizes[static_cast<size_t>(dim)] = size;
  std::vector<Instruction*> operands = TRY(StartsAt(b, value->shape(), dim, start));
  operands.insert(operands.begin(), value);
  return b.Add(Op::kDynamicSlice, operands, hlo::Attrs(std::move(attrs)));
}

// The dimension of a tensor that is this factor, -1: none.
int64_t DimWith(const DimRule::Tensor& tensor, int factor) {
  for (size_t d = 0; d < tensor.size(); ++d) {
    if (tensor[d] == DimRule::Dim{factor}) return static_cast<int64_t>(d);
  }
  return -1;
}

Result<Instruction*> DotOfParts(Builder& b, const Instruction& dot,
                                std::vector<Instruction*> operands, int64_t dim, int64_t size) {
  Shape shape = dot.shape();
  if (dim >= 0) shape.set_dim(dim, size);
  return b.Add(Op::kDot, operands, dot.attrs(), &shape, dot.name());
}

// --- all-gather, then products

struct GatheredDot {
  Instruction* dot = nullptr;
  int64_t operand = 0;  // which is gathered
  int64_t other = -1;   // dimension of the other operand that goes along
  int64_t result = -1;  // of the result; -1: parts are summands
};

std::optional<std::vector<GatheredDot>> DotsOf(const Instruction& gather) {
  std::vector<GatheredDot> dots;
  const int64_t dim = gather.attrs<hlo::AllGatherAttrs>().dimensions[0];
  for (Instruction* user : gather.users()) {
    if (!IsDot(*user) || user->operand(0) == user->operand(1)) return {};
    const DimRule rule = hlo::RuleOf(*user);
    GatheredDot found{user, user->operand(0) == &gather ? 0 : 1};
    const DimRule::Dim& factors =
        rule.operands[static_cast<size_t>(found.operand)][static_cast<size_t>(dim)];
    if (factors.size() != 1) return {};
    found.other = DimWith(rule.operands[static_cast<size_t>(1 - found.operand)], factors[0]);
    found.result = DimWith(rule.results[0], factors[0]);
    dots.push_back(found);
  }
  if (dots.empty() || gather.IsRoot()) return {};
  return dots;
}

// Adds part number `step` to what is there of the product.
Result<Instruction*> AddGathered(Builder& b, const GatheredDot& g, Instruction* chunk,
                                 Instruction* start, int64_t size, Instruction* sofar) {
  std::vector<Instruction*> operands = {g.dot->operand(0), g.dot->operand(1)};
  operands[static_cast<size_t>(g.operand)] = chunk;
  Instruction*& other = operands[static_cast<size_t>(1 - g.operand)];
  if (g.other >= 0) other = TRY(Part(b, other, g.other, start, size));
  Instruction* part = TRY(DotOfParts(b, *g.dot, operands, g.result, size));
  if (g.result < 0) return sofar == nullptr ? part : TRY(b.Add(Op::kAdd, {sofar, part}));
  if (sofar == nullptr) sofar = TRY(b.Fill(g.dot->shape(), 0));
  std::vector<Instruction*> update = TRY(StartsAt(b, g.dot->shape(), g.result, start));
  update.insert(update.begin(), {sofar, part});
  return b.Add(Op::kDynamicUpdateSlice, update, hlo::Attrs(hlo::NoAttrs()));
}

Result<bool> WindowGather(Instruction* gather, FreshIds& ids) {
  const std::optional<Ring> ring = Ring::Of(*gather);
  const auto dots = DotsOf(*gather);
  if (!ring || !dots) return false;
  double own = 0;
  for (const GatheredDot& g : *dots) own += Flops(*g.dot);
  if (!IsExposed(gather, own)) return false;
  const int64_t dim = gather->attrs<hlo::AllGatherAttrs>().dimensions[0];
  const int64_t size = gather->operand(0)->shape().dim(dim);
  Builder b(*gather->parent(), nullptr, gather);
  std::vector<Instruction*> results(dots->size(), nullptr);
  Instruction* chunk = gather->operand(0);
  for (int64_t step = 0; step < ring->size(); ++step) {
    if (step > 0) chunk = TRY(ring->Send(b, chunk, ids));
    Instruction* start = TRY(ring->StartOf(b, step, size));
    for (size_t k = 0; k < dots->size(); ++k) {
      results[k] = TRY(AddGathered(b, (*dots)[k], chunk, start, size, results[k]));
    }
  }
  for (size_t k = 0; k < dots->size(); ++k) {
    Instruction* dot = (*dots)[k].dot;
    dot->ReplaceAllUsesWith(results[k]);
    dot->parent()->Remove(dot);
  }
  gather->parent()->Remove(gather);
  return true;
}

// --- a product, then reduce-scatter

Result<bool> WindowScatter(Instruction* scatter, FreshIds& ids) {
  const std::optional<Ring> ring = Ring::Of(*scatter);
  Instruction* dot = scatter->operand(0);
  const auto& attrs = scatter->attrs<hlo::ReduceScatterAttrs>();
  const bool is_sum = SimpleReduction(*attrs.to_apply) == program::ReduceOp::kAdd;
  if (!ring || !is_sum || !IsDot(*dot) || dot->users().size() != 1 || dot->IsRoot()) return false;
  const int64_t dim = attrs.dimensions[0], size = scatter->shape().dim(dim);
  const DimRule rule = hlo::RuleOf(*dot);
  const DimRule::Dim& factors = rule.results[0][static_cast<size_t>(dim)];
  if (factors.size() != 1 || !IsExposed(scatter, Flops(*dot))) return false;
  Builder b(*scatter->parent(), nullptr, scatter);
  Instruction* sum = nullptr;
  for (int64_t step = 0; step < ring->size(); ++step) {
    // The part of the device before this one goes first: it has the longest way around.
    Instruction* start = TRY(ring->StartOf(b, step + 1, size));
    std::vector<Instruction*> operands = {dot->operand(0), dot->operand(1)};
    for (size_t k = 0; k < 2; ++k) {
      const int64_t at = DimWith(rule.operands[k], factors[0]);
      if (at >= 0) operands[k] = TRY(Part(b, operands[k], at, start, size));
    }
    Instruction* part = TRY(DotOfParts(b, *dot, operands, dim, size));
    sum = sum == nullptr ? part : TRY(b.Add(Op::kAdd, {TRY(ring->Send(b, sum, ids)), part}));
  }
  scatter->ReplaceAllUsesWith(sum);
  scatter->parent()->Remove(scatter);
  dot->parent()->Remove(dot);
  return true;
}

}  // namespace

Result<bool> WindowDots(hlo::Module& module, const PassContext&) {
  if (module.config().is_scheduled || DeviceCount(module) < 2) return false;
  FreshIds ids(module);
  bool changed = false;
  for (const auto& computation : module.computations()) {
    std::vector<Instruction*> found;  // products go with their collectives
    for (Instruction* i : *computation) {
      if (i->op() == Op::kAllGather || i->op() == Op::kReduceScatter) found.push_back(i);
    }
    bool here = false;
    for (Instruction* i : found) {
      here |= TRY(i->op() == Op::kAllGather ? WindowGather(i, ids) : WindowScatter(i, ids));
    }
    if (here) {
      CHECK(computation->SortTopologically()) << "parts of a product wait for themselves";
    }
    changed |= here;
  }
  return changed;
}

}  // namespace weft::compiler
