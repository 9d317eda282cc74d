// Collectives as functions of their groups: those that nobody reads go, equal ones become one, and
// small all-reduces that do not depend on each other become one that takes them all.
#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "compiler/analysis/collectives.h"
#include "compiler/passes.h"
#include "hlo/builder.h"
#include "hlo/clone.h"

namespace weft::compiler {
namespace {

using hlo::Attrs;
using hlo::Instruction;
using hlo::Op;

// A meeting costs tens of microseconds, as long as moving so many bytes takes.
constexpr int64_t kMostBytes = 256 << 10;   // of one all-reduce that is combined
constexpr int64_t kMostCombined = 4 << 20;  // of all together: they are held at once

// Halves of asynchronous ops and what is annotated or ordered stay as they are.
bool IsFree(const Instruction& i) {
  return hlo::IsCollective(i.op()) && !HasTrait(i.op(), hlo::kAsyncStart) &&
         i.control_predecessors().empty() && i.control_successors().empty() &&
         i.FrontendAttributeValue("_scheduling_group_id") == nullptr &&
         i.FrontendAttributeValue("_xla_stream_annotation") == nullptr;
}

bool RemoveUnused(hlo::Computation& computation) {
  bool changed = false;
  std::vector<Instruction*> all = computation.Snapshot();
  for (auto it = all.rbegin(); it != all.rend(); ++it) {
    if (!IsFree(**it) || (*it)->IsRoot() || !(*it)->users().empty()) continue;
    computation.Remove(*it);
    changed = true;
  }
  return changed;
}

// What it does, its channel aside: channels tell meetings apart, not results.
Attrs WithoutChannel(const Instruction& i) {
  Attrs attrs = i.attrs();
  hlo::CollectiveAttrs* collective = attrs.MutableCollective();
  if (collective->channel_id) collective->channel_id = 1;
  return attrs;
}

bool MergeEqual(hlo::Computation& computation) {
  bool changed = false;
  std::vector<Instruction*> kept;
  for (Instruction* i : computation.Snapshot()) {
    if (!IsFree(*i)) continue;
    auto same = std::ranges::find_if(kept, [&](const Instruction* other) {
      return other->op() == i->op() && other->shape() == i->shape() &&
             std::ranges::equal(other->operands(), i->operands()) &&
             WithoutChannel(*other) == WithoutChannel(*i);
    });
    if (same == kept.end()) {
      kept.push_back(i);
      continue;
    }
    const bool root = i->IsRoot();
    i->ReplaceAllUsesWith(*same);
    if (root) computation.set_root(*same);
    computation.Remove(i);
    changed = true;
  }
  return changed;
}

bool MayCombine(const Instruction& i) {
  return i.op() == Op::kAllReduce && IsFree(i) && i.operand_count() == 1 && i.shape().IsArray() &&
         !i.shape().HasDynamicDims() && i.shape().ByteSize() <= kMostBytes &&
         SimpleReduction(*i.attrs<hlo::AllReduceAttrs>().to_apply).has_value();
}

// All-reduces with as many others on the longest path to them cannot depend on each other.
using Alike = std::tuple<int64_t, std::string, DType, int, bool, bool>;

std::map<Alike, std::vector<Instruction*>> FindAlike(const hlo::Computation& computation) {
  std::map<Alike, std::vector<Instruction*>> alike;
  std::unordered_map<const Instruction*, int64_t> depth;
  for (Instruction* i : computation) {
    int64_t deepest = 0;
    auto follow = [&](const Instruction* from) {
      deepest = std::max(deepest, depth[from] + (MayCombine(*from) ? 1 : 0));
    };
    for (const Instruction* operand : i->operands()) follow(operand);
    for (const Instruction* before : i->control_predecessors()) follow(before);
    depth[i] = deepest;
    if (!MayCombine(*i)) continue;
    const auto& attrs = i->attrs<hlo::AllReduceAttrs>();
    alike[{deepest, attrs.replica_groups.ToString(), i->shape().dtype(),
           static_cast<int>(*SimpleReduction(*attrs.to_apply)), attrs.use_global_device_ids,
           attrs.channel_id.has_value()}]
        .push_back(i);
  }
  return alike;
}

Status Combine(hlo::Computation& computation, std::span<Instruction* const> members) {
  std::vector<Instruction*> operands;
  std::vector<Shape> shapes;
  for (const Instruction* member : members) {
    operands.push_back(member->operand(0));
    shapes.push_back(member->shape());
  }
  hlo::Builder b(computation, nullptr, members[0]);
  Shape shape = Shape::Tuple(std::move(shapes));
  Instruction* all = TRY(b.Add(Op::kAllReduce, operands, members[0]->attrs(), &shape));
  for (size_t k = 0; k < members.size(); ++k) {
    Instruction* member = members[k];
    Instruction* part = TRY(
        hlo::Builder(computation, nullptr, member).GetTupleElement(all, static_cast<int64_t>(k)));
    const bool root = member->IsRoot();
    member->ReplaceAllUsesWith(part);
    if (root) computation.set_root(part);
    computation.Remove(member);
  }
  return {};
}

Result<bool> CombineSmall(hlo::Computation& computation) {
  bool changed = false;
  for (const auto& [key, members] : FindAlike(computation)) {
    for (size_t first = 0; first < members.size();) {
      int64_t bytes = 0;
      size_t end = first;
      while (end < members.size() && bytes + members[end]->shape().ByteSize() <= kMostCombined) {
        bytes += members[end++]->shape().ByteSize();
      }
      if (end - first > 1) {
        TRY(Combine(computation, std::span(members).subspan(first, end - first)));
        changed = true;
      }
      first = std::max(end, first + 1);
    }
  }
  if (changed) {
    CHECK(computation.SortTopologically()) << "all-reduces that depend on each other";
  }
  return changed;
}

}  // namespace

Result<bool> CombineCollectives(hlo::Module& module, const PassContext&) {
  if (module.config().is_scheduled) return false;
  bool changed = false;
  for (const auto& computation : module.computations()) {
    changed |= RemoveUnused(*computation);
    changed |= MergeEqual(*computation);
    changed |= TRY(CombineSmall(*computation));
  }
  return changed;
}

}  // namespace weft::compiler
