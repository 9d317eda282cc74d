// Instructions to groups: which join those of their users, which are repeated, which start one.
#include <algorithm>
#include <limits>
#include <unordered_set>

#include "base/log.h"
#include "compiler/analysis/element_cost.h"
#include "compiler/analysis/in_place.h"
#include "compiler/passes/fuse/fuse.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Instruction;
using hlo::Op;

namespace {

// Elements: cheap to read across.
constexpr int64_t kSmallTranspose = program::TargetFacts::kFirstLevelBytes / sizeof(float);
constexpr int kMaxRepeatDepth = 3;  // consumers that compute it again, behind each other
// Instructions of a scatter's kernel.
constexpr size_t kMaxScatterMembers = program::CodeBounds::kMembers / 10;
// Cost of what is computed again for an element: more than writing and reading it takes.
constexpr double kMostRecomputed = 2 * kCheapElement;
constexpr int64_t kMuchSmaller = program::CodeBounds::kMinorPart;  // times, of two arrays

// Computed in a few steps from positions, numbers and small arrays, as masks are: that is no more
// than reading it would be.
bool IsOfPositions(const Instruction& i) {
  constexpr size_t kFewSteps = program::WorkBounds::kTree / 2;  // instructions
  std::vector<const Instruction*> steps = {&i};
  for (size_t at = 0; at < steps.size(); ++at) {
    const Instruction& step = *steps[at];
    if (!hlo::IsElementwise(step.op()) || step.IsConstant() || ElementCost(step) > 1) return false;
    for (const Instruction* operand : step.operands()) {
      if (operand->shape().IsScalar() || operand->op() == Op::kIota) continue;
      if (operand->op() == Op::kBroadcast) {
        const Instruction& from = *operand->operand(0);
        if (from.op() == Op::kIota) continue;
        if (from.shape().elements() * kMuchSmaller <= i.shape().elements()) continue;
        return false;
      }
      if (std::find(steps.begin(), steps.end(), operand) == steps.end()) steps.push_back(operand);
      if (steps.size() > kFewSteps) return false;
    }
  }
  return true;
}

// How often an element may be computed in one group instead of once.
double RepeatLimit(const Instruction& i) {
  // Times that an element may be read.
  constexpr double kViewLimit = program::CodeBounds::kShortLoop;
  if (IsFree(i) || IsOfPositions(i)) return std::numeric_limits<double>::max();
  // Reading through a slice costs no more than reading what it would have been copied to.
  if (i.op() == Op::kSlice || i.op() == Op::kReverse) return kViewLimit;
  double cost = i.op() == Op::kReduce ? static_cast<double>(ReduceLength(i)) : ElementCost(i);
  return cost <= 1 ? 6 : cost <= 4 ? 3 : 1.01;
}

// What the arithmetic of one element of `i` takes, with what is computed for it alone or for the
// group too: that would follow it there. Moves are another matter: lowering splits loops at them.
double ConeCost(const Instruction& i, const FusionGroup& group) {
  std::vector<const Instruction*> cone = {&i};
  double cost = 0;
  for (size_t at = 0; at < cone.size() && at < program::WorkBounds::kPath; ++at) {
    if (hlo::IsElementwise(cone[at]->op()) && !IsFree(*cone[at])) cost += ElementCost(*cone[at]);
    for (const Instruction* operand : cone[at]->operands()) {
      auto inside = [&](const Instruction* user) {
        return group.evaluations.contains(user) || std::ranges::find(cone, user) != cone.end();
      };
      if (GroupKindOf(*operand) != GroupKind::kLoop || operand->shape().IsScalar()) continue;
      if (operand->IsRoot() || !std::ranges::all_of(operand->users(), inside)) continue;
      if (std::ranges::find(cone, operand) == cone.end()) cone.push_back(operand);
    }
  }
  return cost;
}

// A transpose that keeps runs of memory: rows change places, and are read as they lie.
bool MovesRows(const Instruction& transpose) {
  const auto& from = transpose.attrs<hlo::DimensionsAttrs>().dimensions;
  const Shape& shape = transpose.shape();
  int64_t minor = shape.rank() - 1;
  return minor >= 0 && from[static_cast<size_t>(minor)] == minor &&
         shape.dim(minor) * ByteWidth(shape.dtype()) >= program::TargetFacts::kLineBytes;
}

}  // namespace

int32_t Fuser::OwnGroup(Instruction& i, GroupKind kind) {
  FusionGroup group;
  group.root = &i;
  group.kind = kind;
  group.outputs = {&i};
  group.members = {&i};
  double elements =
      static_cast<double>(kind == GroupKind::kUpdate    ? i.operand(1)->shape().elements()
                          : kind == GroupKind::kScatter ? i.operand(2)->shape().elements()
                          : i.shape().IsTuple()         ? i.shape().tuple_element(0).elements()
                                                        : i.shape().elements());
  group.evaluations[&i] = elements;
  group.sites[&i] = {0};
  group.repeats[&i] = 1;
  group.emitted = group.written = 1;
  group.place = &i;
  group.position = position_[&i];
  groups_.push_back(std::move(group));
  int32_t id = static_cast<int32_t>(groups_.size()) - 1;
  in_[&i].push_back(id);
  return id;
}

void Fuser::Join(Instruction& i, int32_t g, double evaluations) {
  FusionGroup& group = groups_[static_cast<size_t>(g)];
  group.members.push_back(&i);
  group.evaluations[&i] = evaluations;
  const std::vector<int32_t>& sites = group.sites[&i] = SitesIn(group, i);
  if (!sites.empty()) group.next_site = std::max(group.next_site, sites.back() + 1);
  double repeats = group.repeats[&i] = RepeatsIn(group, i);
  if (!IsFree(i)) {
    group.emitted += static_cast<double>(sites.size());
    group.written += static_cast<double>(sites.size()) * repeats;
  }
  in_[&i].push_back(g);
}

// Of the evaluations of a member that keeps rows, those elsewhere than in its place in the row.
static double EvaluationsOffRows(const Instruction& member, double evaluations) {
  if (!member.shape().IsArray()) return 0;
  return std::max(0.0, evaluations - static_cast<double>(member.shape().elements()));
}

// How often an element of `i` is computed in a group, all its uses there together.
double Fuser::Evaluations(const Instruction& i, const FusionGroup& group) const {
  double same = 0, other = 0;
  for (const Instruction* user : i.users()) {
    auto it = group.evaluations.find(user);
    if (it == group.evaluations.end()) continue;
    for (int64_t k = 0; k < user->operand_count(); ++k) {
      if (user->operand(k) != &i) continue;
      FusionEdge edge = EdgeTo(*user, k);
      bool rows = group.kind == GroupKind::kRow && KeepsRows(*user, i, group.space);
      if (i.shape().IsScalar()) {
        same = std::max(same, 1.0);
      } else if (rows) {
        same = std::max(same, static_cast<double>(i.shape().elements()) +
                                  EvaluationsOffRows(*user, it->second) * edge.ratio);
      } else if (edge.same_index) {
        same = std::max(same, it->second);
      } else {
        other += it->second * edge.ratio;
      }
    }
  }
  return same + other;
}

namespace {

// Whether an update could no longer be made in place because `i` reads other elements of the array
// below it, or of what that array was before the updates that made it. Where most of the array is
// new that does not matter.
bool SpoilsUpdate(const Instruction& i, const Instruction& update) {
  constexpr int kMaxUpdates = program::WorkBounds::kAlternatives;  // updates behind each other
  bool scatters = update.op() == Op::kScatter;
  if (!scatters && 2 * update.operand(1)->shape().elements() > update.shape().elements()) {
    return false;
  }
  // Another array that is updated itself: what reads it should come before that.
  for (const Instruction* operand : i.operands()) {
    for (const Instruction* user : operand->users()) {
      bool is_update = user->op() == Op::kDynamicUpdateSlice || user->op() == Op::kScatter;
      if (is_update && user != &update && user->operand(0) == operand) return true;
    }
  }
  int64_t arrays = scatters ? (update.operand_count() - 1) / 2 : 1;
  for (int64_t k = 0; k < arrays; ++k) {
    const Instruction* below = BehindNames(update.operand(k));
    for (int n = 0; n < kMaxUpdates; ++n) {
      for (const Instruction* operand : i.operands()) {
        if (BehindNames(operand) != below) continue;
        bool at_the_place = n == 0 && !scatters && operand == update.operand(0);
        if (!at_the_place || ReadsElsewhere(i, update)) return true;
      }
      bool updated = below->op() == Op::kDynamicUpdateSlice ||
                     (below->op() == Op::kScatter && below->shape().IsArray());
      if (!updated) break;
      below = BehindNames(below->operand(0));
    }
  }
  return false;
}

}  // namespace

// Whether the kernel stays of a size that compiles quickly with `i` emitted wherever it is read.
bool Fuser::CodeFits(const Instruction& i, const FusionGroup& group) {
  // Operations of straight code; compiling takes longer than in proportion to them.
  constexpr double kMostWrittenOut = program::TargetFacts::kDecodedOps / 4;
  if (IsFree(i)) return true;
  double sites = static_cast<double>(SitesIn(group, i).size()), repeats = RepeatsIn(group, i);
  if (double all = group.written + sites * repeats; repeats > 1 && all > kMostWrittenOut) {
    VLOG("fuse", 3) << i.name() << " would make " << all << " operations written out in "
                    << group.root->name() << ", of at most " << kMostWrittenOut;
    return false;
  }
  return sites <= 1 || group.emitted + sites <= static_cast<double>(kMaxFusionMembers);
}

// The group may read `i` as computed, not only from memory.
bool Fuser::MayEnter(const Instruction& i, const FusionGroup& group) const {
  // Numbers are part of the code, however much of it there is: as parameters they cost more.
  bool number =
      i.op() == Op::kConstant || (i.op() == Op::kBroadcast && i.operand(0)->shape().IsScalar());
  if (group.members.size() >= kMaxFusionMembers && !number) return false;
  for (const Instruction* user : i.users()) {
    if (!group.evaluations.contains(user)) continue;
    // The array below an update stays in memory; so do initial values of reductions.
    bool updates = user->op() == Op::kDynamicUpdateSlice || user->op() == Op::kScatter;
    if (updates && user->operand(0) == &i) return false;
  }
  bool updates = group.kind == GroupKind::kUpdate || group.kind == GroupKind::kScatter;
  return !updates || !SpoilsUpdate(i, *group.root);
}

void Fuser::Refuse(const Instruction& i, std::string_view reason) const {
  VLOG("fuse", 3) << i.name() << " (" << hlo::Mnemonic(i.op()) << "): " << reason;
  if (not_fused_ != nullptr) not_fused_->push_back(MakeFusionNote(i, reason));
}

// What no loop computes; lowering decides whether products take what reads them.
void Fuser::NoteStep(const Instruction& i) const {
  if (!i.shape().IsArray() || i.IsParameter() || i.IsConstant() || i.operand_count() == 0 ||
      i.op() == Op::kGetTupleElement || i.op() == Op::kDot || i.op() == Op::kConvolution) {
    return;
  }
  bool read = std::any_of(i.users().begin(), i.users().end(),
                          [&](const Instruction* user) { return in_.contains(user); });
  if (read) Refuse(i, "it is a step of its own: a routine, loop or branch");
}

namespace {

// Elements of the shortest operand that follow each other in a concatenation.
int64_t ShortestRun(const Instruction& concatenate) {
  const Shape& shape = concatenate.shape();
  int64_t along = concatenate.attrs<hlo::DimensionsAttrs>().dimensions[0];
  int64_t inside = 1, shortest = shape.dim(along);
  for (int64_t d = along + 1; d < shape.rank(); ++d) inside *= shape.dim(d);
  for (const Instruction* operand : concatenate.operands()) {
    shortest = std::min(shortest, operand->shape().dim(along));
  }
  return shortest * inside;
}

}  // namespace

// A concatenation of runs that end within vectors.
bool Fuser::EndsWithinLanes(const Instruction& i) const {
  return i.op() == Op::kConcatenate && !on_gpu_ &&
         i.shape().elements() > program::CodeBounds::kShortLoop &&
         ShortestRun(i) < program::TargetFacts::kUsualLanes;
}

// Whether the group may compute it, at most `limit` times an element.
bool Fuser::Fits(const Instruction& i, int32_t g, double limit) const {
  const FusionGroup& group = groups_[static_cast<size_t>(g)];
  if (!MayEnter(i, group)) return false;
  double elements = static_cast<double>(i.shape().elements());
  if (i.op() == Op::kTranspose && elements > kSmallTranspose && !(on_gpu_ && MovesRows(i))) {
    return false;
  }
  // Lanes that reach over the ends of runs are gathered, and of levels of pairs (butterflies) twice
  // as many at each level.
  if (EndsWithinLanes(i) && (SitesIn(group, i).size() > 1 ||
                             (group.kind == GroupKind::kRow && RunsOverRows(group.space)))) {
    return false;
  }
  // Among short rows it would be taken for one of them.
  if (i.op() == Op::kReduce && group.kind == GroupKind::kRow && group.space.IsShort()) return false;
  // There it is computed without lanes.
  if (group.kind == GroupKind::kScatter &&
      (ElementCost(i) > 1 || i.op() == Op::kReduce || group.members.size() >= kMaxScatterMembers)) {
    return false;
  }
  double evaluations = Evaluations(i, group);
  if (evaluations > limit * elements + 0.5 || !CodeFits(i, group)) return false;
  // Each op of a stencil is cheap; a stencil of a stencil computes all of them again.
  double again = evaluations / std::max(elements, 1.0) - 1;
  bool counts = hlo::IsElementwise(i.op()) && !on_gpu_ && !IsOfPositions(i);
  return !counts || again * ConeCost(i, group) <= kMostRecomputed;
}

// Whether it is computed wherever it is used rather than kept.
bool Fuser::Repeats(const Instruction& i, std::span<const int32_t> groups, bool must) const {
  if (groups.empty()) return false;
  if (i.op() == Op::kReshape && must) return false;  // costs nothing outside either
  double cost =
      GroupKindOf(i) == GroupKind::kReduce ? static_cast<double>(ReduceLength(i)) : ElementCost(i);
  bool nearly_free = IsFree(i) || (i.shape().IsScalar() && cost <= 1 &&
                                   RepeatDepth(i) < kMaxRepeatDepth && groups.size() <= 8);
  auto all_fit = [&](double limit) {
    return std::all_of(groups.begin(), groups.end(), [&](int32_t g) { return Fits(i, g, limit); });
  };
  if (nearly_free || (!must && IsOfPositions(i)))
    return all_fit(std::numeric_limits<double>::max());
  // Cheap, and made of one array: reading that one is no more than reading the result would be.
  bool large = i.shape().ByteSize() >= large_.bytes;
  bool moves_rows = large && i.op() == Op::kTranspose && MovesRows(i);
  return !must && (hlo::IsElementwise(i.op()) || moves_rows) && cost <= (large ? large_.cost : 1) &&
         std::ssize(groups) <= (large ? large_.readers : 3) &&
         RepeatDepth(i) < (large ? large_.depth : kMaxRepeatDepth) && LargeOperands(i) <= 1 &&
         all_fit(2);
}

// A small part of a large array that is computed here: taken out at once, so that the array need
// not be kept until the part is used.
bool Fuser::ShedsMemory(const Instruction& i) {
  // Worth shedding: a second-level cache.
  constexpr int64_t kLargeBytes = program::TargetFacts::kSecondLevelBytes;
  if (i.op() != Op::kSlice && i.op() != Op::kDynamicSlice && i.op() != Op::kGather) return false;
  const Instruction& from = *i.operand(0);
  if (from.shape().ByteSize() < kLargeBytes || from.users().size() != 1) return false;
  if (i.shape().ByteSize() * kMuchSmaller > from.shape().ByteSize()) return false;
  if (from.op() == Op::kGetTupleElement) return !from.operand(0)->IsParameter();
  return GroupKindOf(from) == GroupKind::kNone && !from.IsParameter() && !from.IsConstant();
}

void Fuser::Visit(Instruction& i) {
  if (VisitShortTuple(i)) return;
  GroupKind kind = GroupKindOf(i);
  if (kind == GroupKind::kNone) return NoteStep(i);
  if (i.users().empty() && !i.IsRoot()) return;
  bool must = i.IsRoot();
  std::vector<int32_t> groups;  // of the users
  for (const Instruction* user : i.users()) {
    auto it = in_.find(user);
    if (it == in_.end()) {
      must = true;
      continue;
    }
    for (int32_t g : it->second) {
      if (std::find(groups.begin(), groups.end(), g) == groups.end()) groups.push_back(g);
    }
  }
  if (kind == GroupKind::kLoop) MergeUsers(i, groups);
  if (!must && groups.size() == 1 && EnterRows(i, groups[0])) return;
  if (!must && ShedsMemory(i)) return static_cast<void>(OwnGroup(i, kind));
  bool inlinable = kind == GroupKind::kLoop || (kind == GroupKind::kReduce && i.shape().IsArray() &&
                                                ReduceLength(i) <= kShortReduce);
  if (inlinable && !must && groups.size() == 1 && Fits(i, groups[0], RepeatLimit(i))) {
    Join(i, groups[0], Evaluations(i, groups_[static_cast<size_t>(groups[0])]));
    return;
  }
  bool repeats = inlinable && Repeats(i, groups, must);
  if (repeats) {
    for (int32_t g : groups) Join(i, g, Evaluations(i, groups_[static_cast<size_t>(g)]));
    repeat_depth_[&i] = RepeatDepth(i) + 1;
    if (!must) return;
    if (IsFree(i) && i.op() != Op::kBroadcast && i.op() != Op::kIota) return;
  }
  // Also wanted elsewhere: one more output of a group that computes it anyway, once an element.
  if (kind == GroupKind::kLoop && !IsFree(i) && !repeats) {
    for (int32_t g : groups) {
      if (TryOutput(i, g, must || groups.size() > 1)) return;
    }
  }
  if (!groups.empty() && !repeats) {
    Refuse(i, groups.size() > 1 ? "several kernels use it"
              : must            ? "its value is wanted in memory"
                                : "it would be repeated");
  }
  if (i.op() == Op::kReshape || i.op() == Op::kConstant) return;
  OwnGroup(i, kind);
}

// Operands that have to be read or computed for every element.
int Fuser::LargeOperands(const Instruction& i) {
  int count = 0;
  for (int64_t k = 0; k < i.operand_count(); ++k) {
    const Instruction* operand = i.operand(k);
    bool counted = false;
    for (int64_t j = 0; j < k; ++j) counted |= i.operand(j) == operand;
    count += !counted && !operand->shape().IsScalar() && !IsFree(*operand);
  }
  return count;
}

int Fuser::RepeatDepth(const Instruction& i) const {
  int depth = 0;
  for (const Instruction* user : i.users()) {
    auto it = repeat_depth_.find(user);
    if (it != repeat_depth_.end()) depth = std::max(depth, it->second);
  }
  return depth;
}

}  // namespace weft::compiler
