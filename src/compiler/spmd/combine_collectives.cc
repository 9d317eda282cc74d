// Collectives as functions of their groups: those that nobody reads go, equal ones become one, and
// all-reduces, all-gathers and reduce-scatters that do not depend on each other become one that
// takes several of them.
#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>

#include "compiler/analysis/collectives.h"
#include "compiler/passes.h"
#include "compiler/spmd/reshard.h"
#include "hlo/builder.h"
#include "hlo/clone.h"

namespace weft::compiler {
namespace {

using hlo::Attrs;
using hlo::Instruction;
using hlo::Op;

// As many bytes as the link moves while so many collectives begin are combined at most: beyond that
// little is gained, and all of them are held at once.
constexpr int64_t kMostLatencies = 32;
// Where transfers are to hide behind computing (a simulated link), the first and the last cannot:
// no combined one is more than such a part of what the computation moves.
constexpr int64_t kLeastTransfers = kMostLatencies / 2;

int64_t MostBytes(const program::TargetInfo& target) {
  const spmd::LinkModel link = spmd::LinkModel::Of(target);
  return static_cast<int64_t>(kMostLatencies * link.seconds * link.bytes_per_second);
}

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

bool SaidAlike(const Instruction& a, const Instruction& b) {
  static const hlo::FrontendAttributes kNothing;
  auto said = [](const Instruction& i) -> const hlo::FrontendAttributes& {
    return i.extras() != nullptr ? i.extras()->frontend_attributes : kNothing;
  };
  return said(a) == said(b);
}

bool MergeEqual(hlo::Computation& computation) {
  bool changed = false;
  std::vector<Instruction*> kept;
  for (Instruction* i : computation.Snapshot()) {
    if (!IsFree(*i)) continue;
    auto same = std::ranges::find_if(kept, [&](const Instruction* other) {
      return other->op() == i->op() && other->shape() == i->shape() && SaidAlike(*other, *i) &&
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

// What is gathered or reduced, on one device.
int64_t CombinedBytes(const Instruction& i) {
  return std::max(i.shape().ByteSize(), i.operand(0)->shape().ByteSize());
}

bool MayCombine(const Instruction& i, int64_t most_bytes) {
  if (!IsFree(i) || i.operand_count() != 1 || !i.shape().IsArray() || i.shape().HasDynamicDims() ||
      CombinedBytes(i) > most_bytes) {
    return false;
  }
  switch (i.op()) {
    case Op::kAllGather: return true;
    case Op::kAllReduce:
      return SimpleReduction(*i.attrs<hlo::AllReduceAttrs>().to_apply).has_value();
    case Op::kReduceScatter:
      return SimpleReduction(*i.attrs<hlo::ReduceScatterAttrs>().to_apply).has_value();
    default: return false;
  }
}

// Those that one instruction can do: what they do aside from the function's name and the channel.
std::string MeetingKind(const Instruction& i) {
  const hlo::CollectiveAttrs& attrs = *i.attrs().Collective();
  std::string kind =
      StrCat(Mnemonic(i.op()), " ", attrs.replica_groups.ToString(), " ", Name(i.shape().dtype()),
             attrs.channel_id ? " channel" : "", attrs.use_global_device_ids ? " global" : "");
  auto add = [&](const hlo::Computation* function, const hlo::Ints& dimensions) {
    if (function != nullptr) StrAppend(kind, " ", static_cast<int>(*SimpleReduction(*function)));
    for (int64_t d : dimensions) StrAppend(kind, " along ", d);
  };
  if (i.op() == Op::kAllReduce) add(i.attrs<hlo::AllReduceAttrs>().to_apply, {});
  if (i.op() == Op::kAllGather) add(nullptr, i.attrs<hlo::AllGatherAttrs>().dimensions);
  if (i.op() == Op::kReduceScatter) {
    const auto& own = i.attrs<hlo::ReduceScatterAttrs>();
    add(own.to_apply, own.dimensions);
  }
  // What was said of one is not said of another.
  if (i.extras() != nullptr) {
    for (const hlo::FrontendAttribute& said : i.extras()->frontend_attributes) {
      StrAppend(kind, " ", said.key, "=", said.value);
    }
  }
  return kind;
}

// Those with as many others on the longest path to them cannot depend on each other, also not once
// others have become one.
using Alike = std::pair<int64_t, std::string>;

std::map<Alike, std::vector<Instruction*>> FindAlike(const hlo::Computation& computation,
                                                     int64_t most_bytes) {
  std::map<Alike, std::vector<Instruction*>> alike;
  std::unordered_map<const Instruction*, int64_t> depth;
  for (Instruction* i : computation) {
    int64_t deepest = 0;
    auto follow = [&](const Instruction* from) {
      deepest = std::max(deepest, depth[from] + (MayCombine(*from, most_bytes) ? 1 : 0));
    };
    for (const Instruction* operand : i->operands()) follow(operand);
    for (const Instruction* before : i->control_predecessors()) follow(before);
    depth[i] = deepest;
    if (MayCombine(*i, most_bytes)) alike[{deepest, MeetingKind(*i)}].push_back(i);
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
  Instruction* all = TRY(b.Add(members[0]->op(), operands, members[0]->attrs(), &shape));
  if (const hlo::InstructionExtras* said = members[0]->extras()) {
    if (!said->frontend_attributes.empty()) {
      all->mutable_extras().frontend_attributes = said->frontend_attributes;
    }
  }
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

int64_t MovedBytes(const hlo::Computation& computation) {
  int64_t bytes = 0;
  for (const Instruction* i : computation) {
    if (IsFree(*i) && i->shape().IsArray()) bytes += CombinedBytes(*i);
  }
  return bytes;
}

Result<bool> CombineSmall(hlo::Computation& computation, int64_t most_bytes) {
  bool changed = false;
  for (const auto& [key, members] : FindAlike(computation, most_bytes)) {
    for (size_t first = 0; first < members.size();) {
      int64_t bytes = 0;
      size_t end = first;
      while (end < members.size() && bytes + CombinedBytes(*members[end]) <= most_bytes) {
        bytes += CombinedBytes(*members[end++]);
      }
      if (end - first > 1) {
        TRY(Combine(computation, std::span(members).subspan(first, end - first)));
        changed = true;
      }
      first = std::max(end, first + 1);
    }
  }
  if (changed) {
    CHECK(computation.SortTopologically()) << "collectives that depend on each other";
  }
  return changed;
}

}  // namespace

Result<bool> CombineCollectives(hlo::Module& module, const PassContext& context) {
  if (module.config().is_scheduled) return false;
  bool changed = false;
  for (const auto& computation : module.computations()) {
    changed |= RemoveUnused(*computation);
    changed |= MergeEqual(*computation);
    int64_t most_bytes = MostBytes(context.target);
    if (context.options.collectives.link > 0) {
      most_bytes = std::min(most_bytes, MovedBytes(*computation) / kLeastTransfers);
    }
    changed |= TRY(CombineSmall(*computation, most_bytes));
  }
  return changed;
}

}  // namespace weft::compiler
