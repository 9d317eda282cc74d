// What every device would compute alike from a sum over devices, element by element (an activation,
// the update of weights), each computes for a part of it: the same bytes on the wire, a fraction of
// the work and of what memory moves.
#include <algorithm>
#include <limits>
#include <unordered_map>
#include <vector>

#include "compiler/analysis/collectives.h"
#include "compiler/passes.h"
#include "compiler/passes/collectives/fresh_ids.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/rewrite.h"
#include "hlo/clone.h"
#include "program/target_links.h"

namespace weft::compiler {
namespace {

using hlo::Instruction;
using hlo::Op;
using Groups = std::vector<std::vector<int64_t>>;

// The sum and what follows from it, in the order of the list; only the last one is read by others.
using Cone = std::vector<Instruction*>;

Cone ConeOf(Instruction* sum) {
  Cone cone;
  std::unordered_map<const Instruction*, int64_t> places;  // looked up only
  bool is_behind = false;
  for (Instruction* i : *sum->parent()) {
    if (i != sum) {
      if (!is_behind || !hlo::IsElementwise(i->op()) || !MayChange(*i)) continue;
      if (!i->shape().IsArray() || !std::ranges::equal(i->shape().dims(), sum->shape().dims()) ||
          std::ranges::none_of(i->operands(), [&](auto* o) { return places.contains(o); })) {
        continue;
      }
    }
    is_behind = true;
    places[i] = std::ssize(cone);
    cone.push_back(i);
  }
  // As far as there is a last one that all others lead to.
  int64_t read_until = 0, end = 1;
  for (int64_t at = 0; at < std::ssize(cone); ++at) {
    if (read_until <= at) end = at + 1;
    const Instruction& i = *cone[static_cast<size_t>(at)];
    if (i.IsRoot()) break;
    for (const Instruction* user : i.users()) {
      auto place = places.find(user);
      read_until = std::max(
          read_until, place != places.end() ? place->second : std::numeric_limits<int64_t>::max());
    }
  }
  cone.resize(static_cast<size_t>(end));
  return cone;
}

// The dimension whose parts lie one after the other in memory, if it divides; else -1.
int64_t DimensionOfParts(const Shape& shape, int64_t parts) {
  for (int64_t d = 0; d < shape.rank(); ++d) {
    if (shape.dim(d) > 1) return shape.dim(d) % parts == 0 ? d : -1;
  }
  return -1;
}

// Makes the parts of one cone.
class Scattering {
 public:
  Scattering(const Cone& cone, const Groups& groups, int64_t dim, FreshIds& ids)
      : cone_(cone),
        groups_(groups),
        dim_(dim),
        ids_(ids),
        b_(*cone[0]->parent(), cone.back(), cone[0]) {}

  Status Run() {
    Instruction *sum = cone_[0], *last = cone_.back();
    for (Instruction* i : std::span(cone_).subspan(1)) {
      for (Instruction* operand : i->operands()) TRY(Part(operand));
      std::vector<Instruction*> operands;
      for (Instruction* operand : i->operands()) operands.push_back(parts_.at(operand));
      hlo::CloneMap map;
      parts_[i] =
          hlo::CloneInstruction(*i, *sum->parent(), map, last,
                                {.name = {}, .shape = PartOf(i->shape()), .operands = operands});
    }
    hlo::AllGatherAttrs gather;
    static_cast<hlo::CollectiveAttrs&>(gather) = sum->attrs<hlo::AllReduceAttrs>();
    gather.dimensions = {dim_};
    Instruction* part = parts_.at(last);
    const Shape shape = last->shape();
    Instruction* whole =
        TRY(b_.Add(Op::kAllGather, std::span(&part, 1), hlo::Attrs(std::move(gather)), &shape));
    ids_.Renumber(*whole);
    ReplaceWithValue(last, whole);
    for (auto i = cone_.rbegin() + 1; i != cone_.rend(); ++i) (*i)->parent()->Remove(*i);
    return {};
  }

 private:
  Shape PartOf(Shape shape) const {
    if (shape.rank() > 0) shape.set_dim(dim_, shape.dim(dim_) / std::ssize(groups_[0]));
    return shape;
  }

  Status Part(Instruction* x) {
    if (parts_.contains(x)) return {};
    parts_[x] = x->shape().rank() == 0 ? x : x == cone_[0] ? TRY(Scatter()) : TRY(Slice(x));
    return {};
  }

  Result<Instruction*> Scatter() {
    const Instruction& sum = *cone_[0];
    const auto& attrs = sum.attrs<hlo::AllReduceAttrs>();
    hlo::ReduceScatterAttrs scatter;
    static_cast<hlo::CollectiveAttrs&>(scatter) = attrs;
    scatter.to_apply = attrs.to_apply;
    scatter.mode = attrs.mode;
    scatter.dimensions = {dim_};
    const Shape shape = PartOf(sum.shape());
    Instruction* whole = cone_[0]->operand(0);
    Instruction* part = TRY(
        b_.Add(Op::kReduceScatter, std::span(&whole, 1), hlo::Attrs(std::move(scatter)), &shape));
    hlo::CopyFacts(sum, *part);
    return part;
  }

  // This device's part of what it has whole.
  Result<Instruction*> Slice(Instruction* x) {
    if (x->op() == Op::kBroadcast) {
      const hlo::Ints dims = x->attrs<hlo::BroadcastAttrs>().dimensions;
      if (std::ranges::find(dims, dim_) == dims.end()) {
        return b_.Broadcast(x->operand(0), PartOf(x->shape()), dims);
      }
    }
    if (start_ == nullptr) TRY(MakeStart());
    std::vector<Instruction*> operands = {x};
    hlo::DynamicSliceAttrs attrs;
    for (int64_t d = 0; d < x->shape().rank(); ++d) {
      operands.push_back(d == dim_ ? start_ : zero_);
      attrs.dynamic_slice_sizes.push_back(PartOf(x->shape()).dim(d));
    }
    return b_.Add(Op::kDynamicSlice, operands, hlo::Attrs(std::move(attrs)));
  }

  Status MakeStart() {
    Literal table(Shape(DType::kS32, {DeviceCount(*cone_[0]->parent()->module())}));
    const int64_t part = PartOf(cone_[0]->shape()).dim(dim_);
    for (const std::vector<int64_t>& group : groups_) {
      for (int64_t k = 0; k < std::ssize(group); ++k) {
        table.SetInt(group[static_cast<size_t>(k)], k * part);
      }
    }
    Instruction* device = TRY(b_.Add(Op::kPartitionId, {}));
    Instruction* one = TRY(b_.Add(Op::kDynamicSlice, {b_.Constant(std::move(table)), device},
                                  hlo::DynamicSliceAttrs{.dynamic_slice_sizes = {1}}));
    start_ = TRY(b_.Reshape(one, {}));
    zero_ = b_.ScalarConstant(DType::kS32, 0);
    return {};
  }

  const Cone& cone_;
  const Groups& groups_;
  const int64_t dim_;
  FreshIds& ids_;
  hlo::Builder b_;
  std::unordered_map<const Instruction*, Instruction*> parts_;  // looked up only
  Instruction *start_ = nullptr, *zero_ = nullptr;
};

// Of memory, in all devices, that need not be read and written any more.
double BytesSaved(const Cone& cone, int64_t devices, int64_t parts) {
  double bytes = 0;
  for (const Instruction* i : std::span(cone).subspan(1)) {
    for (const Instruction* operand : i->operands()) {
      const bool is_new = std::ranges::find(cone, operand) == cone.end();
      const bool is_read = operand == cone[0] || (is_new && operand->op() != Op::kBroadcast);
      bytes += is_read ? static_cast<double>(operand->shape().ByteSize()) : 0;
    }
  }
  bytes += static_cast<double>(cone.back()->shape().ByteSize());
  return bytes * static_cast<double>(devices * (parts - 1)) / static_cast<double>(parts);
}

Result<bool> ScatterFrom(Instruction* sum, const program::TargetInfo& target, FreshIds& ids) {
  if (sum->op() != Op::kAllReduce || sum->operand_count() != 1 || !IsStaticallyShaped(*sum) ||
      !MayChange(*sum) || !SimpleReduction(*sum->attrs<hlo::AllReduceAttrs>().to_apply)) {
    return false;
  }
  const Result<Groups> groups = DeviceGroups(*sum);
  const int64_t devices = DeviceCount(*sum->parent()->module());
  if (!groups || groups->empty() ||
      groups->size() * (*groups)[0].size() != static_cast<size_t>(devices))
    return false;
  const int64_t parts = std::ssize((*groups)[0]);
  for (const std::vector<int64_t>& group : *groups) {
    if (std::ssize(group) != parts) return false;
  }
  const int64_t dim = DimensionOfParts(sum->shape(), parts);
  if (parts == 1 || dim < 0) return false;
  const Cone cone = ConeOf(sum);
  // One more collective has to pay.
  if (cone.size() == 1 || BytesSaved(cone, devices, parts) / target.bytes_per_second <
                              program::TargetLinks::Of(target).seconds) {
    return false;
  }
  TRY(Scattering(cone, *groups, dim, ids).Run());
  return true;
}

}  // namespace

Result<bool> ScatterElementwise(hlo::Module& module, const PassContext& context) {
  const bool in_memory = context.target.RunsOnHost() && context.options.collectives.link <= 0;
  if (module.config().is_scheduled || !in_memory || DeviceCount(module) == 1 ||
      module.config().replica_count > 1) {
    return false;
  }
  std::vector<Instruction*> sums;
  for (const auto& computation : module.computations()) {
    for (Instruction* i : *computation) {
      if (i->op() == Op::kAllReduce) sums.push_back(i);
    }
  }
  FreshIds ids(module);
  bool changed = false;
  for (Instruction* sum : sums) changed |= TRY(ScatterFrom(sum, context.target, ids));
  return changed;
}

}  // namespace weft::compiler
