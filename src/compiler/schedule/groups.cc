#include "compiler/schedule/groups.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/log.h"
#include "base/str.h"
#include "compiler/passes/collectives/loop_copies.h"
#include "compiler/schedule/resources.h"

namespace weft::compiler::schedule {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::Op;
using Members = std::map<int64_t, std::vector<Instruction*>>;  // by group, in list order

bool IsAsyncHalf(const Instruction& i) {
  return HasTrait(i.op(), hlo::kAsyncStart | hlo::kAsyncDone) || i.op() == Op::kAsyncUpdate;
}
bool IsTransfer(const Instruction& i) {
  return IsAsyncHalf(i) || IsCollective(i.op()) || IsMarkedCollective(i);
}
bool IsProduct(const Instruction& i) {
  if (i.op() == Op::kDot || i.op() == Op::kConvolution || i.op() == Op::kCustomCall) return true;
  if (i.op() != Op::kFusion) return false;
  for (const Instruction* inside : *i.attrs<hlo::FusionAttrs>().calls) {
    if (inside->op() == Op::kDot) return true;
  }
  return false;
}

template <class... Args>
std::unexpected<Error> BadGroup(const Instruction& i, int64_t group, const Args&... args) {
  auto error =
      InvalidArgument("schedule: group ", group, " of ", i.parent()->name(), ": ", args...);
  error.error().Source(i.SourceLocation());
  error.error().Hint("--groups=drop schedules its members as if they had no annotation");
  return error;
}

Members MembersOf(Computation& c) {
  Members members;
  for (Instruction* i : c) {
    if (std::optional<int64_t> group = GroupOf(*i)) members[*group].push_back(i);
  }
  return members;
}

void DropGroup(const std::vector<Instruction*>& members) {
  for (Instruction* i : members) SetGroup(*i, std::nullopt);
}

// Annotations inside of fusions are the fusion's: all of them the same.
Status LiftFromFusion(Instruction& fusion) {
  std::optional<int64_t> found = GroupOf(fusion);
  for (Instruction* i : *fusion.attrs<hlo::FusionAttrs>().calls) {
    std::optional<int64_t> own = GroupOf(*i);
    if (!own) continue;
    if (found && *found != *own) {
      return BadGroup(fusion, *own, fusion.name(), " holds members of group ", *found, " too");
    }
    found = own;
    SetGroup(*i, std::nullopt);
  }
  if (found) SetGroup(fusion, found);
  return {};
}

// A start without its done, or the other way round, gets the other's group.
Status JoinPairs(Computation& c) {
  for (Instruction* i : c) {
    if (!HasTrait(i->op(), hlo::kAsyncDone) && i->op() != Op::kAsyncUpdate) continue;
    Instruction* before = i->operand(0);
    if (!IsAsyncHalf(*before)) continue;
    std::optional<int64_t> mine = GroupOf(*i), theirs = GroupOf(*before);
    if (mine && theirs && *mine != *theirs) {
      return BadGroup(*i, *mine, i->name(), " ends ", before->name(), ", which is of group ",
                      *theirs);
    }
    if (mine && !theirs) SetGroup(*before, mine);
    if (theirs && !mine) SetGroup(*i, theirs);
  }
  return {};
}

// member -> one op after the other, each with one operand and one user -> member.
void FillChains(Computation& c) {
  for (Instruction* i : c) {
    std::optional<int64_t> group = GroupOf(*i);
    if (!group) continue;
    for (Instruction* user : i->users()) {
      std::vector<Instruction*> chain;
      Instruction* at = user;
      while (!GroupOf(*at) && at->operand_count() == 1 && at->users().size() == 1 &&
             !at->IsRoot()) {
        chain.push_back(at);
        at = at->users()[0];
      }
      if (chain.empty() || GroupOf(*at) != group) continue;
      for (Instruction* between : chain) SetGroup(*between, group);
    }
  }
}

// An op outside of the group that needs one member and that another member needs; null: none.
const Instruction* FindGap(const std::vector<Instruction*>& members) {
  std::set<const Instruction*> inside(members.begin(), members.end());  // lookups only
  std::unordered_map<const Instruction*, const Instruction*> by;        // reached, from where first
  std::vector<const Instruction*> work;
  auto visit = [&](const Instruction* from, const Instruction* to) -> bool {
    if (inside.contains(to)) return !inside.contains(from);
    if (by.emplace(to, inside.contains(from) ? to : by.at(from)).second) work.push_back(to);
    return false;
  };
  auto visit_all = [&](const Instruction* from) -> const Instruction* {
    for (const Instruction* user : from->users()) {
      if (visit(from, user)) return by.at(from);
    }
    for (const Instruction* after : from->control_successors()) {
      if (visit(from, after)) return by.at(from);
    }
    return nullptr;
  };
  for (const Instruction* m : members) visit_all(m);
  for (size_t at = 0; at < work.size(); ++at) {
    if (const Instruction* gap = visit_all(work[at])) return gap;
  }
  return nullptr;
}

// Groups that wait for each other in a circle, when each is one thing. Kahn's algorithm over groups
// and single instructions; what is left over holds the circles.
std::vector<int64_t> InCircles(Computation& c, const Members& members) {
  std::unordered_map<const Instruction*, const Instruction*> head;  // of a member's group
  for (const auto& [group, list] : members) {
    for (const Instruction* m : list) head[m] = list[0];
  }
  auto node = [&](const Instruction* i) {
    auto it = head.find(i);
    return it == head.end() ? i : it->second;
  };
  std::unordered_map<const Instruction*, int64_t> waiting;
  std::unordered_map<const Instruction*, std::vector<const Instruction*>> next;
  for (const Instruction* i : c) {
    waiting.try_emplace(node(i), 0);
    auto edge = [&](const Instruction* from) {
      if (node(from) == node(i)) return;
      ++waiting[node(i)];
      next[node(from)].push_back(node(i));
    };
    for (const Instruction* operand : i->operands()) edge(operand);
    for (const Instruction* before : i->control_predecessors()) edge(before);
  }
  std::vector<const Instruction*> ready;
  for (const Instruction* i : c) {
    if (node(i) == i && waiting[i] == 0) ready.push_back(i);
  }
  for (size_t at = 0; at < ready.size(); ++at) {
    for (const Instruction* to : next[ready[at]]) {
      if (--waiting[to] == 0) ready.push_back(to);
    }
  }
  std::vector<int64_t> stuck;
  for (const auto& [group, list] : members) {
    if (waiting[list[0]] > 0) stuck.push_back(group);
  }
  return stuck;
}

// Each group can be placed in one piece, and all of them together.
Result<int64_t> CheckPlaceable(Computation& c, const GroupOptions& options) {
  int64_t dropped = 0;
  auto drop = [&](int64_t group, const std::vector<Instruction*>& list, std::string_view why) {
    VLOG("schedule", 1) << "group " << group << " of " << c.name() << " is dropped: " << why;
    DropGroup(list);
    ++dropped;
  };
  for (const auto& [group, list] : MembersOf(c)) {
    const Instruction* gap = FindGap(list);
    if (gap == nullptr) continue;
    std::string why = StrCat(gap->name(), " stands between its members and is none");
    if (options.on_bad == OnBadGroup::kError) return BadGroup(*gap, group, why);
    drop(group, list, why);
  }
  while (true) {
    Members members = MembersOf(c);
    std::vector<int64_t> stuck = InCircles(c, members);
    if (stuck.empty()) return dropped;
    auto smallest = std::min_element(stuck.begin(), stuck.end(), [&](int64_t a, int64_t b) {
      return members[a].size() < members[b].size();
    });
    const std::vector<Instruction*>& list = members[*smallest];
    std::string why = "it waits for another group, which waits for it";
    if (options.on_bad == OnBadGroup::kError) return BadGroup(*list[0], *smallest, why);
    drop(*smallest, list, why);
  }
}

}  // namespace

Result<GroupAnnotation> ParseGroupAnnotation(std::string_view text) {
  GroupAnnotation found;
  if (text == "noop") return found;
  size_t colon = text.find(':');
  std::string_view group = text.substr(0, colon);
  std::string_view iteration = colon == text.npos ? "" : text.substr(colon + 1);
  if (!group.empty()) found.group = ParseInt(group);
  if (!iteration.empty()) found.iteration = ParseInt(iteration);
  bool bad = (!group.empty() && (!found.group || *found.group < 0)) ||
             (colon != text.npos && !found.iteration) || text.empty();
  if (bad) {
    return InvalidArgument(kGroupAttribute, ": not `group`, `group:iteration`, `:iteration` or ",
                           "`noop`: ", text);
  }
  return found;
}

std::optional<int64_t> GroupOf(const Instruction& i) {
  const std::string* text = i.FrontendAttributeValue(kGroupAttribute);
  if (text == nullptr) return std::nullopt;
  Result<GroupAnnotation> found = ParseGroupAnnotation(*text);
  return found ? found->group : std::nullopt;
}

void SetGroup(Instruction& i, std::optional<int64_t> group) {
  if (i.extras() == nullptr && !group) return;
  auto& attributes = i.mutable_extras().frontend_attributes;
  std::erase_if(attributes, [](const auto& a) { return a.key == kGroupAttribute; });
  if (group) attributes.push_back({std::string(kGroupAttribute), StrCat(*group)});
}

Result<int64_t> LegalizeGroups(hlo::Module& module, const GroupOptions& options) {
  bool has_any = false;
  for (const auto& c : module.computations()) {
    for (Instruction* i : *c) {
      const std::string* text = i->FrontendAttributeValue(kGroupAttribute);
      if (text == nullptr) continue;
      Result<GroupAnnotation> found = ParseGroupAnnotation(*text);
      if (!found) {
        found.error().Source(i->SourceLocation());
        return std::unexpected(found.error());
      }
      has_any = true;
      SetGroup(*i, found->group);
    }
  }
  if (!has_any) return 0;
  int64_t dropped = 0;
  std::set<int64_t> with_transfer;
  std::vector<Computation*> executed = ExecutedComputations(module);
  for (Computation* c : executed) {
    for (Instruction* i : *c) {
      if (i->op() == Op::kFusion) TRY(LiftFromFusion(*i));
      if (options.selective && !IsTransfer(*i) && !IsProduct(*i)) SetGroup(*i, std::nullopt);
    }
    TRY(JoinPairs(*c));
    for (Instruction* i : *c) {
      std::optional<int64_t> group = GroupOf(*i);
      if (group && IsTransfer(*i)) with_transfer.insert(*group);
    }
  }
  for (Computation* c : executed) {
    for (const auto& [group, list] : MembersOf(*c)) {
      if (list.size() < 2 || !with_transfer.contains(group)) DropGroup(list);
    }
    FillChains(*c);
    dropped += TRY(CheckPlaceable(*c, options));
  }
  return dropped;
}

}  // namespace weft::compiler::schedule
