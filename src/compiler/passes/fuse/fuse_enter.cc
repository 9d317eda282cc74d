// Instructions that enter a group in a way of their own: reductions of its rows, short reductions
// of several operands, further outputs.
#include <algorithm>
#include <unordered_set>

#include "compiler/analysis/element_cost.h"
#include "compiler/passes/fuse/fuse.h"

namespace weft::compiler {

using hlo::Instruction;
using hlo::Op;

// A short reduction of several operands is computed where its results are needed, if that is in
// one group: its get-tuple-elements come first, and join only if all of them do.
bool Fuser::VisitShortTuple(Instruction& i) {
  bool leaf = i.op() == Op::kGetTupleElement;
  const Instruction& reduce = leaf ? *i.operand(0) : i;
  if (reduce.op() != Op::kReduce || !reduce.shape().IsTuple() || reduce.IsRoot() ||
      GroupKindOf(reduce) != GroupKind::kReduce || ReduceLength(reduce) > kShortReduce) {
    return false;
  }
  int32_t group = -1;
  double evaluations = 0;
  for (const Instruction* get : reduce.users()) {
    if (get->op() != Op::kGetTupleElement || get->IsRoot()) return false;
    for (const Instruction* user : get->users()) {
      auto it = in_.find(user);
      if (it == in_.end() || it->second.size() != 1) return false;
      if (group >= 0 && it->second[0] != group) return false;
      group = it->second[0];
    }
  }
  if (group < 0) return false;
  const FusionGroup& to = groups_[static_cast<size_t>(group)];
  if (to.kind == GroupKind::kUpdate || to.kind == GroupKind::kScatter ||
      to.members.size() + 20 > kMaxFusionMembers)
    return false;
  for (const Instruction* get : reduce.users()) {
    if (!MayEnter(*get, to)) return false;
    evaluations = std::max(evaluations, Evaluations(*get, to));
  }
  double elements = static_cast<double>(reduce.shape().tuple_element(0).elements());
  if (evaluations > 1.01 * elements) return false;
  Join(i, group, evaluations);
  return true;
}

// A reduction of rows, or a value of one element a row that comes from such reductions and goes
// nowhere else, joins a group that works on the same rows.
bool Fuser::EnterRows(Instruction& i, int32_t g) {
  std::vector<const Instruction*> cone = {&i};  // down to the reductions
  const Instruction* reduce = nullptr;
  std::optional<RowSpace> space;
  for (size_t at = 0; at < cone.size(); ++at) {
    auto own = RowSpaceOfReduce(*cone[at]);
    if (own) {
      if (space && !(*own == *space)) return false;
      space = own;
      reduce = cone[at];
      continue;
    }
    bool passes = hlo::IsElementwise(cone[at]->op()) || cone[at]->op() == Op::kReshape ||
                  cone[at]->op() == Op::kCopy;
    if (!passes || GroupKindOf(*cone[at]) != GroupKind::kLoop) return false;
    for (const Instruction* operand : cone[at]->operands()) {
      if (operand->shape().elements() != i.shape().elements() || operand->IsParameter() ||
          operand->IsConstant() || operand->op() == Op::kBroadcast) {
        continue;
      }
      if (std::find(cone.begin(), cone.end(), operand) == cone.end()) cone.push_back(operand);
    }
    if (cone.size() > 40) return false;
  }
  if (reduce == nullptr || GroupKindOf(*reduce) != GroupKind::kReduce) return false;
  FusionGroup& group = groups_[static_cast<size_t>(g)];
  if (!MayEnter(i, group) || group.members.size() + cone.size() > kMaxFusionMembers) return false;
  if (!CanWorkOnRows(group, *space)) return false;
  // Nothing in the cone is wanted elsewhere, and rows stay rows on the way to the results.
  std::vector<const Instruction*> work = cone;
  std::unordered_set<const Instruction*> seen(work.begin(), work.end());
  for (size_t at = 0; at < work.size(); ++at) {
    if (at < cone.size() && work[at]->IsRoot()) return false;
    for (const Instruction* user : work[at]->users()) {
      bool inside = group.evaluations.contains(user) || seen.contains(user);
      if (!inside && at < cone.size()) return false;
      if (!inside) continue;
      if (!KeepsRows(*user, *work[at], *space)) return false;
      if (seen.insert(user).second) work.push_back(user);
    }
  }
  group.kind = GroupKind::kRow;
  group.space = *space;
  Join(i, g, static_cast<double>(space->rows));
  return true;
}

bool Fuser::CanWorkOnRows(const FusionGroup& group, const RowSpace& space) const {
  bool ends =
      std::ranges::any_of(group.members, [&](const Instruction* m) { return EndsWithinLanes(*m); });
  if (ends && RunsOverRows(space)) return false;
  if (group.kind == GroupKind::kRow) return group.space == space;
  if (group.kind == GroupKind::kReduce) {
    return !space.IsShort() && IsRowReduce(*group.root, space);
  }
  if (group.kind != GroupKind::kLoop || group.root->op() == Op::kConcatenate) return false;
  bool wide = false;
  for (const Instruction* o : group.outputs) {
    wide |= space.IsWide(o->shape());
    if (!space.IsWide(o->shape()) && !space.IsNarrow(o->shape())) return false;
  }
  // Lone results of short rows are better off with a row in each lane, where the rows do not fill
  // vectors or much is computed from their results.
  if (space.IsShort() && !wide) {
    double cost = 0;
    for (const Instruction* m : group.members) cost += IsFree(*m) ? 0 : ElementCost(*m);
    if (space.length < kVectorReduce || cost > kCheapElement) return false;
  }
  for (const Instruction* m : group.members) {
    auto own = m->op() == Op::kReduce ? RowSpaceOfReduce(*m) : std::nullopt;
    if (own && (space.IsShort() || !own->IsShort())) return false;
  }
  return true;
}

bool Fuser::TryOutput(Instruction& i, int32_t g, bool wanted) {
  FusionGroup& group = groups_[static_cast<size_t>(g)];
  double elements = static_cast<double>(i.shape().elements());
  if (group.kind == GroupKind::kRow) {
    if (!group.space.IsWide(i.shape()) && !group.space.IsNarrow(i.shape())) return false;
    if (EndsWithinLanes(i) && RunsOverRows(group.space)) return false;
  } else if (group.kind != GroupKind::kLoop || group.root->shape().dims() != i.shape().dims()) {
    return false;
  }
  if (group.root->op() == Op::kConcatenate || !MayEnter(i, group)) return false;
  if (group.outputs.size() >= kMaxFusionOutputs) return false;
  // Only reached through ops at the same index.
  for (const Instruction* user : i.users()) {
    if (!group.evaluations.contains(user)) continue;
    if (group.kind == GroupKind::kRow) {
      if (!KeepsRows(*user, i, group.space)) return false;
      continue;
    }
    for (int64_t k = 0; k < user->operand_count(); ++k) {
      if (user->operand(k) == &i && !EdgeTo(*user, k).same_index) return false;
    }
    if (user->op() == Op::kReshape) return false;
    if (group.evaluations.at(user) > elements + 0.5) return false;
  }
  // Nobody between this one and the group's place may need it.
  auto comes_earlier = [&](const Instruction* user) {
    auto it = in_.find(user);
    if (it == in_.end()) return false;
    return std::any_of(it->second.begin(), it->second.end(), [&](int32_t other) {
      return other != g && groups_[static_cast<size_t>(other)].position < group.position;
    });
  };
  for (const Instruction* user : i.users()) {
    if (IsFree(*user) && position_.at(user) < group.position) {
      // It may stay where it is for those outside of groups.
      for (const Instruction* next : user->users()) {
        if (!in_.contains(next) || comes_earlier(next)) return false;
      }
      if (user->IsRoot()) return false;
    }
    if (!group.evaluations.contains(user) && position_.at(user) < group.position) return false;
    if (comes_earlier(user)) return false;
  }
  Join(i, g, elements);
  if (wanted) group.outputs.push_back(&i);
  return true;
}

}  // namespace weft::compiler
