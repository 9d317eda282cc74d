// Which ops are computed together. Instructions are visited from the last to the first; each joins
// the group of its users if they are all in one and computing it there does not repeat much work,
// is repeated in several groups if it is nearly free, or starts a group of its own. A group's
// outputs all have the loop's dimensions; in groups of rows (fusion kind kOutput) they may also
// have one element for each row.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/log.h"
#include "compiler/element_cost.h"
#include "compiler/in_place.h"
#include "compiler/passes.h"
#include "compiler/passes/effects.h"
#include "compiler/row_space.h"
#include "hlo/clone.h"
#include "hlo/computation.h"

namespace weft::compiler {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

constexpr int64_t kShortReduce = 16;       // elements of a reduction that may be repeated
constexpr int64_t kSmallTranspose = 8192;  // elements: cheap to read across
constexpr size_t kMaxMembers = 400;        // of one group
constexpr int kMaxRepeatDepth = 3;

enum class Kind : uint8_t {
  kNone,    // a step of its own: library calls, control flow, scatter, ...
  kLoop,    // one element of the result from any index
  kReduce,  // loops of its own around the operand's elements
  kUpdate,  // dynamic-update-slice: a loop over the update
  kRow,     // reductions of rows and what is computed from them, row by row
};

int64_t ReduceLength(const Instruction& reduce) {
  int64_t length = 1;
  for (int64_t d : reduce.attrs<hlo::ReduceAttrs>().dimensions) {
    length *= reduce.operand(0)->shape().dim(d);
  }
  return length;
}

Kind KindOf(const Instruction& i) {
  if (!i.control_predecessors().empty() || !i.control_successors().empty()) return Kind::kNone;
  bool reduces = i.op() == Op::kReduce;
  if (!i.shape().IsArray() && !reduces) return Kind::kNone;
  if (i.shape().IsArray() && (i.shape().HasDynamicDims() || i.shape().elements() == 0)) {
    return Kind::kNone;
  }
  for (const Instruction* operand : i.operands()) {
    const Shape& shape = operand->shape();
    if (!shape.IsArray() || shape.HasDynamicDims() || shape.elements() == 0) return Kind::kNone;
  }
  if (reduces) return Kind::kReduce;
  if (hlo::IsElementwise(i.op())) {
    return i.op() == Op::kStochasticConvert ? Kind::kNone : Kind::kLoop;
  }
  switch (i.op()) {
    case Op::kBroadcast:
    case Op::kReshape:
    case Op::kIota:
    case Op::kSlice:
    case Op::kReverse:
    case Op::kTranspose:
    case Op::kPad:
    case Op::kConcatenate:
    case Op::kGather:
    case Op::kDynamicSlice:
    case Op::kBitcastConvert: return Kind::kLoop;
    case Op::kConstant: return IsFree(i) ? Kind::kLoop : Kind::kNone;
    case Op::kDynamicUpdateSlice: return Kind::kUpdate;
    default: return Kind::kNone;
  }
}

// How many elements of operand k one evaluation of `user` asks for, and whether at the same index.
struct Edge {
  bool same_index = false;
  double ratio = 1;
};

Edge EdgeTo(const Instruction& user, int64_t k) {
  if (hlo::IsElementwise(user.op())) {
    return {user.operand(k)->shape().dims() == user.shape().dims(), 1};
  }
  switch (user.op()) {
    case Op::kReduce: return {false, static_cast<double>(ReduceLength(user))};
    case Op::kCopy:
    case Op::kReshape: return {true, 1};
    case Op::kConcatenate: {
      // A small operand is computed at its own elements; a large one also beside the edges.
      double part = static_cast<double>(user.operand(k)->shape().elements()) /
                    static_cast<double>(user.shape().elements());
      return {false, part < 0.25 ? part : 2};
    }
    default: return {false, 1};
  }
}

class Fuser {
 public:
  explicit Fuser(Computation& computation) : computation_(computation) {}

  Result<bool> Run() {
    int32_t position = 0;
    for (Instruction* i : computation_) position_[i] = position++;
    for (Instruction* i = computation_.last(); i != nullptr; i = i->prev()) Visit(*i);
    MergeReduces();
    bool changed = false;
    for (Group& group : groups_) changed |= TRY(Materialise(group));
    return changed;
  }

 private:
  struct Group {
    Instruction* root = nullptr;
    Kind kind = Kind::kLoop;
    std::vector<Instruction*> outputs;                           // the root first
    std::vector<Instruction*> members;                           // users before what they use
    std::unordered_map<const Instruction*, double> evaluations;  // of members, a run
    Instruction* place = nullptr;                                // where it will stand
    int32_t position = 0;                                        // of that
    RowSpace space;                                              // of a kRow
    bool dead = false;                                           // merged into another
  };

  int32_t OwnGroup(Instruction& i, Kind kind) {
    Group group;
    group.root = &i;
    group.kind = kind;
    group.outputs = {&i};
    group.members = {&i};
    double elements =
        kind == Kind::kReduce
            ? static_cast<double>(i.shape().IsTuple() ? i.shape().tuple_element(0).elements()
                                                      : i.shape().elements())
            : static_cast<double>(kind == Kind::kUpdate ? i.operand(1)->shape().elements()
                                                        : i.shape().elements());
    group.evaluations[&i] = elements;
    group.place = &i;
    group.position = position_[&i];
    groups_.push_back(std::move(group));
    int32_t id = static_cast<int32_t>(groups_.size()) - 1;
    in_[&i].push_back(id);
    return id;
  }

  void Join(Instruction& i, int32_t g, double evaluations) {
    Group& group = groups_[static_cast<size_t>(g)];
    group.members.push_back(&i);
    group.evaluations[&i] = evaluations;
    in_[&i].push_back(g);
  }

  // How often an element of `i` is computed in a group, all its uses there together.
  double Evaluations(const Instruction& i, const Group& group) const {
    double same = 0, other = 0;
    for (const Instruction* user : i.users()) {
      auto it = group.evaluations.find(user);
      if (it == group.evaluations.end()) continue;
      for (int64_t k = 0; k < user->operand_count(); ++k) {
        if (user->operand(k) != &i) continue;
        Edge edge = EdgeTo(*user, k);
        bool rows = group.kind == Kind::kRow && KeepsRows(*user, i, group.space);
        if (i.shape().IsScalar()) {
          same = std::max(same, 1.0);
        } else if (rows) {
          same = std::max(same, static_cast<double>(i.shape().elements()));
        } else if (edge.same_index) {
          same = std::max(same, it->second);
        } else {
          other += it->second * edge.ratio;
        }
      }
    }
    return same + other;
  }

  // The group may read `i` as computed, not only from memory.
  bool MayEnter(const Instruction& i, const Group& group) const {
    if (group.members.size() >= kMaxMembers) return false;
    for (const Instruction* user : i.users()) {
      if (!group.evaluations.contains(user)) continue;
      // The array below an update stays in memory; so do initial values of reductions.
      if (user->op() == Op::kDynamicUpdateSlice && user->operand(0) == &i) return false;
    }
    return group.kind != Kind::kUpdate || !SpoilsUpdate(i, *group.root);
  }

  // Whether an update could no longer be made in place because `i` reads other elements of the
  // array below it. Where most of the array is new that does not matter.
  static bool SpoilsUpdate(const Instruction& i, const Instruction& update) {
    auto behind_names = [](const Instruction* x) {
      while (x->op() == Op::kReshape || x->op() == Op::kBitcast || x->op() == Op::kCopy) {
        x = x->operand(0);
      }
      return x;
    };
    if (2 * update.operand(1)->shape().elements() > update.shape().elements()) return false;
    const Instruction* below = behind_names(update.operand(0));
    for (const Instruction* operand : i.operands()) {
      if (behind_names(operand) != below) continue;
      if (operand != update.operand(0) || ReadsElsewhere(i, update)) return true;
    }
    return false;
  }

  void Refuse(const Instruction& i, std::string_view reason) const {
    VLOG("fuse", 3) << i.name() << " (" << hlo::Mnemonic(i.op()) << "): " << reason;
  }

  // A short reduction of several operands is computed where its results are needed, if that is in
  // one group: its get-tuple-elements come first, and join only if all of them do.
  bool VisitShortTuple(Instruction& i) {
    bool leaf = i.op() == Op::kGetTupleElement;
    const Instruction& reduce = leaf ? *i.operand(0) : i;
    if (reduce.op() != Op::kReduce || !reduce.shape().IsTuple() || reduce.IsRoot() ||
        KindOf(reduce) != Kind::kReduce || ReduceLength(reduce) > kShortReduce) {
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
    const Group& to = groups_[static_cast<size_t>(group)];
    if (to.kind == Kind::kUpdate || to.members.size() + 20 > kMaxMembers) return false;
    for (const Instruction* get : reduce.users()) {
      if (!MayEnter(*get, to)) return false;
      evaluations = std::max(evaluations, Evaluations(*get, to));
    }
    double elements = static_cast<double>(reduce.shape().tuple_element(0).elements());
    if (evaluations > 1.01 * elements) return false;
    Join(i, group, evaluations);
    return true;
  }

  void Visit(Instruction& i) {
    if (VisitShortTuple(i)) return;
    Kind kind = KindOf(i);
    if (kind == Kind::kNone) return;
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
    double elements = i.shape().IsArray() ? static_cast<double>(i.shape().elements()) : 0;
    double cost = ElementCost(i);
    bool inlinable = kind == Kind::kLoop || (kind == Kind::kReduce && i.shape().IsArray() &&
                                             ReduceLength(i) <= kShortReduce);
    if (kind == Kind::kReduce)
      cost = static_cast<double>(i.shape().IsArray() ? ReduceLength(i) : 0);
    auto fits = [&](int32_t g, double limit) {
      const Group& group = groups_[static_cast<size_t>(g)];
      if (!MayEnter(i, group)) return false;
      if (i.op() == Op::kTranspose && elements > kSmallTranspose) return false;
      return Evaluations(i, group) <= limit * elements + 0.5;
    };
    if (!must && groups.size() == 1 && EnterRows(i, groups[0])) return;
    if (!must && ShedsMemory(i)) return static_cast<void>(OwnGroup(i, kind));
    double limit = IsFree(i) ? 1e30 : cost <= 1 ? 6 : cost <= 4 ? 3 : 1.01;
    if (inlinable && !must && groups.size() == 1 && fits(groups[0], limit)) {
      Join(i, groups[0], Evaluations(i, groups_[static_cast<size_t>(groups[0])]));
      return;
    }
    // Nearly free, or a cheap scalar: repeated wherever it is used.
    bool repeats = inlinable && !groups.empty() &&
                   (IsFree(i) || (i.shape().IsScalar() && cost <= 1 &&
                                  RepeatDepth(i) < kMaxRepeatDepth && groups.size() <= 8));
    // Cheap, and made of one array: reading that one is no more than reading the result would be.
    if (!repeats && inlinable && !must && kind == Kind::kLoop && cost <= 1 && groups.size() <= 3 &&
        hlo::IsElementwise(i.op()) && RepeatDepth(i) < kMaxRepeatDepth && LargeOperands(i) <= 1) {
      repeats = std::all_of(groups.begin(), groups.end(), [&](int32_t g) { return fits(g, 2); });
    }
    if (repeats && i.op() == Op::kReshape && must) repeats = false;  // costs nothing outside either
    if (repeats) {
      bool all = true;
      for (int32_t g : groups) all &= fits(g, 1e30);
      if (all) {
        for (int32_t g : groups) Join(i, g, Evaluations(i, groups_[static_cast<size_t>(g)]));
        repeat_depth_[&i] = RepeatDepth(i) + 1;
        if (!must) return;
        if (IsFree(i) && i.op() != Op::kBroadcast && i.op() != Op::kIota) return;
      }
    }
    // Also wanted elsewhere: one more output of a group that computes it anyway, once an element.
    if (kind == Kind::kLoop && !IsFree(i) && !repeats) {
      for (int32_t g : groups) {
        if (TryOutput(i, g, elements, must || groups.size() > 1)) return;
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

  // A small part of a large array that is computed here: taken out at once, so that the array need
  // not be kept until the part is used.
  static bool ShedsMemory(const Instruction& i) {
    constexpr int64_t kLargeBytes = 1 << 20, kTimes = 8;
    if (i.op() != Op::kSlice && i.op() != Op::kDynamicSlice && i.op() != Op::kGather) return false;
    const Instruction& from = *i.operand(0);
    if (from.shape().ByteSize() < kLargeBytes || from.users().size() != 1) return false;
    if (i.shape().ByteSize() * kTimes > from.shape().ByteSize()) return false;
    if (from.op() == Op::kGetTupleElement) return !from.operand(0)->IsParameter();
    return KindOf(from) == Kind::kNone && !from.IsParameter() && !from.IsConstant();
  }

  // Operands that have to be read or computed for every element.
  static int LargeOperands(const Instruction& i) {
    int count = 0;
    for (int64_t k = 0; k < i.operand_count(); ++k) {
      const Instruction* operand = i.operand(k);
      bool counted = false;
      for (int64_t j = 0; j < k; ++j) counted |= i.operand(j) == operand;
      count += !counted && !operand->shape().IsScalar() && !IsFree(*operand);
    }
    return count;
  }

  // A reduction of rows, or a value of one element a row that comes from such reductions and goes
  // nowhere else, joins a group that works on the same rows.
  bool EnterRows(Instruction& i, int32_t g) {
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
      if (!passes || KindOf(*cone[at]) != Kind::kLoop) return false;
      for (const Instruction* operand : cone[at]->operands()) {
        if (operand->shape().elements() != i.shape().elements() || operand->IsParameter() ||
            operand->IsConstant() || operand->op() == Op::kBroadcast) {
          continue;
        }
        if (std::find(cone.begin(), cone.end(), operand) == cone.end()) cone.push_back(operand);
      }
      if (cone.size() > 40) return false;
    }
    if (reduce == nullptr || KindOf(*reduce) != Kind::kReduce) return false;
    Group& group = groups_[static_cast<size_t>(g)];
    if (!MayEnter(i, group) || group.members.size() + cone.size() > kMaxMembers) return false;
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
    group.kind = Kind::kRow;
    group.space = *space;
    Join(i, g, static_cast<double>(space->rows));
    return true;
  }

  bool CanWorkOnRows(const Group& group, const RowSpace& space) const {
    if (group.kind == Kind::kRow) return group.space == space;
    if (group.kind == Kind::kReduce) return IsRowReduce(*group.root, space);
    if (group.kind != Kind::kLoop || group.root->op() == Op::kConcatenate) return false;
    for (const Instruction* o : group.outputs) {
      if (!space.IsWide(o->shape()) && !space.IsNarrow(o->shape())) return false;
    }
    for (const Instruction* m : group.members) {
      if (m->op() == Op::kReduce && RowSpaceOfReduce(*m)) return false;
    }
    return true;
  }

  int RepeatDepth(const Instruction& i) const {
    int depth = 0;
    for (const Instruction* user : i.users()) {
      auto it = repeat_depth_.find(user);
      if (it != repeat_depth_.end()) depth = std::max(depth, it->second);
    }
    return depth;
  }

  // As one more output of a group, or, if nobody else wants it, inside of it.
  bool TryOutput(Instruction& i, int32_t g, double elements, bool wanted) {
    Group& group = groups_[static_cast<size_t>(g)];
    if (group.kind == Kind::kRow) {
      if (!group.space.IsWide(i.shape()) && !group.space.IsNarrow(i.shape())) return false;
    } else if (group.kind != Kind::kLoop || group.root->shape().dims() != i.shape().dims()) {
      return false;
    }
    if (group.root->op() == Op::kConcatenate || !MayEnter(i, group)) return false;
    if (group.outputs.size() >= 16) return false;
    // Only reached through ops at the same index.
    for (const Instruction* user : i.users()) {
      if (!group.evaluations.contains(user)) continue;
      if (group.kind == Kind::kRow) {
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
    for (const Instruction* user : i.users()) {
      if (IsFree(*user) && position_.at(user) < group.position) {
        // It may stay where it is for those outside of groups.
        for (const Instruction* next : user->users()) {
          if (!in_.contains(next)) return false;
        }
        if (user->IsRoot()) return false;
      }
      if (!group.evaluations.contains(user) && position_.at(user) < group.position) return false;
      auto it = in_.find(user);
      if (it == in_.end()) continue;
      for (int32_t other : it->second) {
        if (other != g && groups_[static_cast<size_t>(other)].position < group.position)
          return false;
      }
    }
    Join(i, g, elements);
    if (wanted) group.outputs.push_back(&i);
    return true;
  }

  // Reductions of one operand over the same dimensions are one loop.
  void MergeReduces() {
    std::unordered_map<const Instruction*, std::vector<size_t>> by_input;
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (!Merges(groups_[g])) continue;
      const Dims& dims = groups_[g].kind == Kind::kRow
                             ? groups_[g].space.wide
                             : groups_[g].root->operand(0)->shape().dims();
      for (const Instruction* m : groups_[g].members) {
        for (const Instruction* operand : m->operands()) {
          if (operand->shape().IsArray() && operand->shape().dims() == dims &&
              !groups_[g].evaluations.contains(operand)) {
            std::vector<size_t>& list = by_input[operand];
            if (list.empty() || list.back() != g) list.push_back(g);
          }
        }
      }
    }
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].dead || !Merges(groups_[g])) continue;
      for (auto* m : std::vector<Instruction*>(groups_[g].members)) {
        for (const Instruction* operand : m->operands()) {
          auto it = by_input.find(operand);
          if (it == by_input.end()) continue;
          for (size_t other : it->second) {
            if (other != g && !groups_[other].dead) TryMerge(g, other);
          }
        }
      }
    }
  }

  // Where the value is there: its own place, or that of the group that has it as an output.
  int32_t MadeAt(const Instruction& i) const {
    int32_t at = position_.at(&i);
    auto it = in_.find(&i);
    if (it == in_.end()) return at;
    for (int32_t g : it->second) {
      const Group& group = groups_[static_cast<size_t>(g)];
      bool output =
          std::find(group.outputs.begin(), group.outputs.end(), &i) != group.outputs.end();
      if (output && !group.dead) at = std::max(at, group.position);
    }
    return at;
  }

  static bool Merges(const Group& group) {
    return group.kind == Kind::kRow ||
           (group.kind == Kind::kReduce && !group.root->shape().IsTuple());
  }

  // The loops of both groups are the same.
  static bool SameLoops(const Group& a, const Group& b) {
    if (a.kind == Kind::kRow && b.kind == Kind::kRow) return a.space == b.space;
    if (a.kind == Kind::kRow) return IsRowReduce(*b.root, a.space);
    if (b.kind == Kind::kRow) return IsRowReduce(*a.root, b.space);
    return a.root->attrs<hlo::ReduceAttrs>().dimensions ==
               b.root->attrs<hlo::ReduceAttrs>().dimensions &&
           a.root->operand(0)->shape().dims() == b.root->operand(0)->shape().dims();
  }

  void TryMerge(size_t a, size_t b) {
    Group &into = groups_[a], &from = groups_[b];
    if (!SameLoops(into, from)) return;
    if (into.members.size() + from.members.size() > kMaxMembers ||
        into.outputs.size() + from.outputs.size() > 16) {
      return;
    }
    // Neither may depend on the other: everything that the later one reads stands before the
    // earlier one.
    const Group &early = into.position < from.position ? into : from,
                &late = into.position < from.position ? from : into;
    for (const Instruction* m : late.members) {
      for (const Instruction* operand : m->operands()) {
        if (!late.evaluations.contains(operand) && MadeAt(*operand) > early.position) return;
        if (std::find(early.outputs.begin(), early.outputs.end(), operand) != early.outputs.end()) {
          return;
        }
      }
    }
    for (Instruction* m : from.members) {
      if (!into.evaluations.contains(m)) into.members.push_back(m);
      into.evaluations[m] = std::max(into.evaluations[m], from.evaluations[m]);
    }
    for (Instruction* o : from.outputs) {
      into.outputs.push_back(o);
      in_[o].push_back(static_cast<int32_t>(a));
    }
    // Users of the earlier one stand behind it: the fused loop takes the earlier place.
    if (from.position < into.position) {
      into.position = from.position;
      into.place = from.place;
    }
    if (from.kind == Kind::kRow) {
      into.kind = Kind::kRow;
      into.space = from.space;
    }
    from.dead = true;
  }

  // Members that other groups have made and this one reads from memory are not computed here.
  void KeepReached(Group& group) {
    std::vector<Instruction*> reached = group.outputs;
    std::unordered_set<const Instruction*> seen(reached.begin(), reached.end());
    for (size_t at = 0; at < reached.size(); ++at) {
      for (Instruction* operand : reached[at]->operands()) {
        if (group.evaluations.contains(operand) && seen.insert(operand).second) {
          reached.push_back(operand);
        }
      }
    }
    std::unordered_map<const Instruction*, double> evaluations;
    for (Instruction* m : reached) evaluations[m] = group.evaluations.at(m);
    group.members = std::move(reached);
    group.evaluations = std::move(evaluations);
  }

  // Members that only rename what comes from outside stay outside.
  void Trim(Group& group) {
    for (bool again = true; again;) {
      again = false;
      for (size_t k = 0; k < group.members.size(); ++k) {
        Instruction* m = group.members[k];
        bool renames = m->op() == Op::kReshape || m->op() == Op::kCopy || m->op() == Op::kBitcast;
        if (!renames || group.evaluations.contains(m->operand(0))) continue;
        if (MadeAt(*m->operand(0)) > position_.at(m)) continue;
        if (std::find(group.outputs.begin(), group.outputs.end(), m) != group.outputs.end())
          continue;
        group.evaluations.erase(m);
        group.members.erase(group.members.begin() + static_cast<int64_t>(k));
        again = true;
        break;
      }
    }
  }

  Result<bool> Materialise(Group& group) {
    if (group.dead) return false;
    KeepReached(group);
    Trim(group);
    if (group.members.size() < 2) return false;
    auto by_position = [&](const Instruction* a, const Instruction* b) {
      return position_.at(a) < position_.at(b);
    };
    std::sort(group.members.begin(), group.members.end(), by_position);
    std::vector<Instruction*> inputs;
    std::unordered_map<const Instruction*, int64_t> number;
    for (Instruction* m : group.members) {
      for (Instruction* operand : m->operands()) {
        if (group.evaluations.contains(operand) || number.contains(operand)) continue;
        number[operand] = static_cast<int64_t>(inputs.size());
        inputs.push_back(operand);
      }
    }
    hlo::Module& module = *computation_.module();
    Instruction* root = group.root;
    Computation* fused =
        module.AddComputation(module.UniqueName(StrCat("fused.", root->name())), &computation_);
    hlo::CloneMap map;
    for (size_t k = 0; k < inputs.size(); ++k) {
      Shape shape = inputs[k]->shape();
      map.instructions[inputs[k]] =
          fused->Add(Op::kParameter, module.UniqueName("p"), std::move(shape), {},
                     hlo::ParameterAttrs{static_cast<int64_t>(k)});
    }
    for (Instruction* m : group.members) hlo::CloneInstruction(*m, *fused, map);
    std::vector<Instruction*> outputs;
    for (Instruction* o : group.outputs) outputs.push_back(map.Find(o));
    Shape shape = root->shape();
    if (outputs.size() > 1) {
      std::vector<Shape> shapes;
      for (Instruction* o : group.outputs) shapes.push_back(o->shape());
      shape = Shape::Tuple(std::move(shapes));
      fused->set_root(fused->Add(Op::kTuple, module.UniqueName("tuple"), shape, outputs,
                                 hlo::Attrs(hlo::GetOp(Op::kTuple).attrs)));
    } else {
      fused->set_root(outputs[0]);
    }
    hlo::FusionAttrs attrs;
    attrs.kind = group.kind == Kind::kReduce ? hlo::FusionKind::kInput
                 : group.kind == Kind::kRow  ? hlo::FusionKind::kOutput
                                             : hlo::FusionKind::kLoop;
    attrs.calls = fused;
    Instruction* at = group.place;
    Instruction* fusion = computation_.Add(Op::kFusion, module.UniqueName(NameOf(group)), shape,
                                           inputs, hlo::Attrs(std::move(attrs)), at);
    hlo::CopyFacts(*root, *fusion);
    position_[fusion] = position_.at(at);
    for (size_t k = 0; k < group.outputs.size(); ++k) {
      Instruction* o = group.outputs[k];
      Instruction* with = fusion;
      if (group.outputs.size() > 1) {
        with =
            computation_.Add(Op::kGetTupleElement, module.UniqueName("get"), o->shape(),
                             {&fusion, 1}, hlo::GetTupleElementAttrs{static_cast<int64_t>(k)}, at);
        position_[with] = position_.at(at);
      }
      o->ReplaceAllUsesWith(with);
    }
    // What nobody reads any more goes, users first.
    for (size_t k = group.members.size(); k-- > 0;) {
      Instruction* m = group.members[k];
      if (m->users().empty() && !m->IsRoot()) {
        computation_.Remove(m);
      }
    }
    return true;
  }

  // What is inside, in a few words: the costly and the last ops.
  std::string NameOf(const Group& group) const {
    std::string name;
    std::vector<std::string_view> words;
    for (const Instruction* m : group.members) {
      std::string_view word = hlo::Mnemonic(m->op());
      if (IsFree(*m) || std::find(words.begin(), words.end(), word) != words.end()) continue;
      words.push_back(word);
    }
    size_t skip = words.size() > 4 ? words.size() - 4 : 0;
    for (size_t k = skip; k < words.size(); ++k) StrAppend(name, k == skip ? "" : "_", words[k]);
    if (name.empty()) name = "move";
    return StrCat(name, "_fusion");
  }

  Computation& computation_;
  std::unordered_map<const Instruction*, int32_t> position_;
  std::unordered_map<const Instruction*, std::vector<int32_t>> in_;
  std::unordered_map<const Instruction*, int> repeat_depth_;
  std::vector<Group> groups_;
};

}  // namespace

Result<bool> Fuse(hlo::Module& module, const PassContext&) {
  bool changed = false;
  std::vector<Computation*> work = {module.entry()};
  for (size_t at = 0; at < work.size(); ++at) {
    for (Instruction* i : *work[at]) {
      if (i->op() != Op::kWhile && i->op() != Op::kConditional && i->op() != Op::kCall) continue;
      for (Computation* c : i->called_computations()) work.push_back(c);
    }
  }
  for (Computation* computation : work) changed |= TRY(Fuser(*computation).Run());
  return changed;
}

}  // namespace weft::compiler
