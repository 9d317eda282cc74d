// Horizontal (multi-output) fusion. Groups that share their loops: reductions of one operand over
// the same dimensions, loops over the same elements.
#include <algorithm>

#include "compiler/analysis/element_cost.h"
#include "compiler/passes/fuse/fuse.h"

namespace weft::compiler {

using hlo::Instruction;
using hlo::Op;

void Fuser::MergeReduces() {
  std::unordered_map<const Instruction*, std::vector<size_t>> by_input;
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (!Merges(groups_[g])) continue;
    const Dims& dims = groups_[g].kind == GroupKind::kRow
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
int32_t Fuser::MadeAt(const Instruction& i) const {
  int32_t at = position_.at(&i);
  auto it = in_.find(&i);
  if (it == in_.end()) return at;
  for (int32_t g : it->second) {
    const FusionGroup& group = groups_[static_cast<size_t>(g)];
    bool output = std::find(group.outputs.begin(), group.outputs.end(), &i) != group.outputs.end();
    if (output && !group.dead) at = std::max(at, group.position);
  }
  return at;
}

bool Fuser::Merges(const FusionGroup& group) {
  return group.kind == GroupKind::kRow ||
         (group.kind == GroupKind::kReduce && !group.root->shape().IsTuple());
}

// The loops of both groups are the same.
bool Fuser::SameLoops(const FusionGroup& a, const FusionGroup& b) {
  if (a.kind == GroupKind::kLoop && b.kind == GroupKind::kLoop) {
    return a.root->shape().dims() == b.root->shape().dims();
  }
  if (a.kind == GroupKind::kRow && b.kind == GroupKind::kRow) return a.space == b.space;
  if (a.kind == GroupKind::kRow) return !a.space.IsShort() && IsRowReduce(*b.root, a.space);
  if (b.kind == GroupKind::kRow) return !b.space.IsShort() && IsRowReduce(*a.root, b.space);
  return a.root->attrs<hlo::ReduceAttrs>().dimensions ==
             b.root->attrs<hlo::ReduceAttrs>().dimensions &&
         a.root->operand(0)->shape().dims() == b.root->operand(0)->shape().dims();
}

// Loops that need the same instruction at the same index are one loop, which computes it once and
// reads what they share once.
void Fuser::MergeUsers(const Instruction& i, std::vector<int32_t>& groups) {
  if (groups.size() < 2 || i.shape().IsScalar() || IsFree(i)) return;
  auto takes = [&](const FusionGroup& group) {
    if (group.kind != GroupKind::kLoop || group.root->shape().dims() != i.shape().dims() ||
        group.root->op() == Op::kConcatenate || group.root->op() == Op::kTranspose) {
      return false;
    }
    return std::all_of(i.users().begin(), i.users().end(), [&](const Instruction* user) {
      if (!group.evaluations.contains(user)) return true;
      for (int64_t k = 0; k < user->operand_count(); ++k) {
        if (user->operand(k) == &i && !EdgeTo(*user, k).same_index) return false;
      }
      return true;
    });
  };
  for (size_t a = 0; a < groups.size(); ++a) {
    for (size_t b = a + 1; b < groups.size();) {
      size_t into = static_cast<size_t>(groups[a]), from = static_cast<size_t>(groups[b]);
      if (takes(groups_[into]) && takes(groups_[from]) && TryMerge(into, from)) {
        groups.erase(groups.begin() + static_cast<int64_t>(b));
      } else {
        ++b;
      }
    }
  }
}

// Neither depends on the other: everything that the later one reads stands before the earlier one.
bool Fuser::AreIndependent(const FusionGroup& early, const FusionGroup& late) const {
  // A member that another group makes, too, is read from there.
  auto made_elsewhere = [&](const Instruction* operand) {
    auto it = in_.find(operand);
    if (it == in_.end()) return false;
    return std::any_of(it->second.begin(), it->second.end(), [&](int32_t g) {
      const FusionGroup& group = groups_[static_cast<size_t>(g)];
      return &group != &late && !group.dead &&
             std::find(group.outputs.begin(), group.outputs.end(), operand) != group.outputs.end();
    });
  };
  for (const Instruction* m : late.members) {
    for (const Instruction* operand : m->operands()) {
      bool from_outside = !late.evaluations.contains(operand) || made_elsewhere(operand);
      if (from_outside && MadeAt(*operand) > early.position) return false;
      if (std::find(early.outputs.begin(), early.outputs.end(), operand) != early.outputs.end()) {
        return false;
      }
    }
  }
  return true;
}

bool Fuser::TryMerge(size_t a, size_t b) {
  FusionGroup &into = groups_[a], &from = groups_[b];
  if (!SameLoops(into, from)) return false;
  if (into.members.size() + from.members.size() > kMaxFusionMembers ||
      into.outputs.size() + from.outputs.size() > kMaxFusionOutputs) {
    return false;
  }
  bool is_first = into.position < from.position;
  if (!AreIndependent(is_first ? into : from, is_first ? from : into)) return false;
  for (Instruction* m : from.members) {
    if (!into.evaluations.contains(m)) into.members.push_back(m);
    into.evaluations[m] = std::max(into.evaluations[m], from.evaluations[m]);
    double& repeats = into.repeats.try_emplace(m, 1).first->second;
    repeats = std::max(repeats, from.repeats[m]);
    if (into.sites.try_emplace(m, from.sites[m]).second && !IsFree(*m)) {
      into.emitted += static_cast<double>(from.sites[m].size());
      into.written += static_cast<double>(from.sites[m].size()) * repeats;
    }
  }
  into.next_site = std::max(into.next_site, from.next_site);
  for (Instruction* o : from.outputs) into.outputs.push_back(o);
  for (Instruction* m : from.members) {
    std::vector<int32_t>& in = in_[m];
    std::erase(in, static_cast<int32_t>(b));
    if (std::find(in.begin(), in.end(), static_cast<int32_t>(a)) == in.end()) {
      in.push_back(static_cast<int32_t>(a));
    }
  }
  // Users of the earlier one stand behind it: the fused loop takes the earlier place.
  if (from.position < into.position) {
    into.position = from.position;
    into.place = from.place;
  }
  if (from.kind == GroupKind::kRow) {
    into.kind = GroupKind::kRow;
    into.space = from.space;
  }
  from.dead = true;
  return true;
}

}  // namespace weft::compiler
