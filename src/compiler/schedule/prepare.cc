#include "compiler/schedule/prepare.h"

#include <algorithm>
#include <map>
#include <optional>

#include "compiler/analysis/collectives.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/rewrite.h"
#include "compiler/schedule/costs.h"
#include "hlo/builder.h"
#include "hlo/call_graph.h"
#include "hlo/clone.h"

namespace weft::compiler::schedule {
namespace {

using hlo::Builder;
using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

// Computations that run as instructions do, but not what async ops wrap.
std::vector<Computation*> Executed(hlo::Module& module) {
  std::vector<Computation*> found = {module.entry()};
  for (size_t at = 0; at < found.size(); ++at) {
    for (const Instruction* i : *found[at]) {
      if (i->op() != Op::kWhile && i->op() != Op::kConditional && i->op() != Op::kCall) continue;
      for (Computation* c : i->called_computations()) {
        if (std::find(found.begin(), found.end(), c) == found.end()) found.push_back(c);
      }
    }
  }
  return found;
}

Result<Instruction*> AddPair(Instruction* i) {
  hlo::Module& module = *i->parent()->module();
  std::string name = i->name();
  Computation* wrapped =
      module.AddComputation(module.UniqueName(StrCat("async_", name)), i->parent());
  Builder w(*wrapped);
  std::vector<Instruction*> parameters;
  std::vector<Shape> shapes;
  for (int64_t k = 0; k < i->operand_count(); ++k) {
    parameters.push_back(TRY(w.Parameter(k, i->operand(k)->shape())));
    shapes.push_back(i->operand(k)->shape());
  }
  hlo::CloneMap map;
  hlo::CloneChanges changes;
  changes.operands = std::span<Instruction* const>(parameters);
  wrapped->set_root(CloneInstruction(*i, *wrapped, map, nullptr, changes));
  Shape shape = Shape::Tuple({Shape::Tuple(std::move(shapes)), i->shape()});
  Builder b(*i->parent(), i, i);
  std::vector<Instruction*> operands(i->operands().begin(), i->operands().end());
  hlo::AsyncAttrs attrs;
  attrs.calls = wrapped;
  Instruction* start = TRY(b.Add(Op::kAsyncStart, operands, attrs, &shape, StrCat(name, "-start")));
  Shape result = i->shape();
  Instruction* done =
      TRY(b.Add(Op::kAsyncDone, std::span(&start, 1), attrs, &result, StrCat(name, "-done")));
  // What waited for the collective waits for its done; what it waited for, its start.
  if (i->extras() != nullptr) {
    start->mutable_extras().backend_config = i->extras()->backend_config;
    // Whoever made it synchronous wrote so; it is not any more.
    std::string& config = start->mutable_extras().backend_config.text;
    constexpr std::string_view kMark = "\"is_sync\":true";
    if (size_t at = config.find(kMark); at != config.npos) {
      config.replace(at, kMark.size(), "\"is_sync\":false");
    }
    start->mutable_extras().frontend_attributes = i->extras()->frontend_attributes;
    done->mutable_extras().frontend_attributes = i->extras()->frontend_attributes;
    if (i->sharding() != nullptr) done->mutable_extras().sharding = i->extras()->sharding;
  }
  for (Instruction* before :
       std::vector(i->control_predecessors().begin(), i->control_predecessors().end())) {
    start->AddControlPredecessor(before);
  }
  for (Instruction* after :
       std::vector(i->control_successors().begin(), i->control_successors().end())) {
    after->AddControlPredecessor(done);
  }
  i->DropControlDependencies();
  i->ReplaceAllUsesWith(done);
  i->parent()->Remove(i);
  return start;
}

Result<bool> SplitBarrier(Instruction* i) {
  if (!i->shape().IsTuple() || i->shape().tuple_size() < 2 || HasControlDependencies(*i))
    return false;
  Builder b(*i->parent(), i, i);
  std::vector<Instruction*> elements;
  for (int64_t k = 0; k < i->shape().tuple_size(); ++k) {
    Instruction* element = TRY(ElementOf(b, i->operand(0), k));
    Instruction* barrier = TRY(b.Add(Op::kOptBarrier, {element}));
    hlo::CopyFacts(*i, *barrier);
    elements.push_back(barrier);
  }
  Instruction* tuple = TRY(b.Tuple(elements));
  i->ReplaceAllUsesWith(tuple);
  i->parent()->Remove(i);
  return true;
}

// Channels, scheduling groups and wrapped computations of a copy are its own.
class FreshNames {
 public:
  explicit FreshNames(hlo::Module& module) : module_(module) {
    for (const auto& c : module.computations()) {
      for (const Instruction* i : *c) {
        if (const hlo::CollectiveAttrs* a = i->attrs().Collective()) {
          channel_ = std::max(channel_, a->channel_id.value_or(0) + 1);
        }
        if (const std::string* id = i->FrontendAttributeValue("_scheduling_group_id")) {
          group_ = std::max(group_, ParseInt(id->substr(0, id->find(':'))).value_or(0) + 1);
        }
      }
    }
  }

  void NextCopy() { groups_.clear(); }

  void Rename(Instruction& i) {
    if (hlo::CollectiveAttrs* a = i.mutable_attrs().MutableCollective()) {
      if (a->channel_id) a->channel_id = channel_++;
    }
    const std::string* id = i.FrontendAttributeValue("_scheduling_group_id");
    if (id != nullptr && ParseInt(id->substr(0, id->find(':')))) {
      std::string old = *id;
      auto [it, is_new] = groups_.try_emplace(old.substr(0, old.find(':')), group_);
      if (is_new) ++group_;
      std::string rest = old.find(':') != old.npos ? old.substr(old.find(':')) : "";
      for (hlo::FrontendAttribute& a : i.mutable_extras().frontend_attributes) {
        if (a.key == "_scheduling_group_id") a.value = StrCat(it->second, rest);
      }
    }
    if (i.op() != Op::kAsyncStart && i.op() != Op::kAsyncUpdate && i.op() != Op::kAsyncDone) return;
    auto& attrs = i.mutable_attrs<hlo::AsyncAttrs>();
    if (attrs.calls == nullptr) return;
    if (i.op() != Op::kAsyncStart) {
      const Instruction& before = *i.operand(0);
      if (before.attrs().Is<hlo::AsyncAttrs>()) attrs.calls = before.attrs<hlo::AsyncAttrs>().calls;
      return;
    }
    hlo::CloneMap map;
    attrs.calls = CloneComputation(*attrs.calls, module_, map,
                                   module_.UniqueName(attrs.calls->name()), i.parent());
    for (Instruction* inside : *attrs.calls) Rename(*inside);
  }

 private:
  hlo::Module& module_;
  int64_t channel_ = 1, group_ = 1;
  std::map<std::string, int64_t> groups_;
};

bool HoldsCollectives(const Computation& c) {
  for (const Instruction* i : c) {
    if (IsCollective(i->op())) return true;
    for (const Computation* inside : i->called_computations()) {
      if (i->op() != Op::kFusion && HoldsCollectives(*inside)) return true;
    }
  }
  return false;
}

// One iteration in front of `before`, on the given state; the new state, element by element.
Result<std::vector<Instruction*>> CopyBody(const Computation& body, Instruction* before,
                                           std::vector<Instruction*> state, FreshNames& names) {
  Computation& into = *before->parent();
  hlo::CloneMap map;
  names.NextCopy();
  Instruction* whole = nullptr;
  for (const Instruction* i : body) {
    if (i->IsParameter()) continue;
    bool reads_state = i->op() == Op::kGetTupleElement && i->operand(0)->IsParameter();
    if (reads_state) {
      map.instructions[i] = state[static_cast<size_t>(i->tuple_index())];
      continue;
    }
    bool takes_all = std::any_of(i->operands().begin(), i->operands().end(),
                                 [](const Instruction* o) { return o->IsParameter(); });
    if (takes_all && whole == nullptr) {
      Builder b(into, before);
      whole = TRY(b.Tuple(state));
      map.instructions[body.parameter(0)] = whole;
    }
    names.Rename(*CloneInstruction(*i, into, map, before));
  }
  const Instruction* root = body.root();
  if (root->IsParameter()) return state;
  Builder b(into, before);
  std::vector<Instruction*> next;
  for (int64_t k = 0; k < root->shape().tuple_size(); ++k) {
    next.push_back(TRY(ElementOf(b, map.Find(body.root()), k)));
  }
  return next;
}

Status UnrollWhole(Instruction* loop, int64_t trips, FreshNames& names) {
  const Computation& body = *loop->attrs<hlo::WhileAttrs>().body;
  Builder b(*loop->parent(), loop);
  std::vector<Instruction*> state;
  for (int64_t k = 0; k < loop->shape().tuple_size(); ++k) {
    state.push_back(TRY(ElementOf(b, loop->operand(0), k)));
  }
  for (int64_t t = 0; t < trips; ++t) {
    state = TRY(CopyBody(body, loop, std::move(state), names));
  }
  Instruction* result = TRY(b.Tuple(state));
  loop->ReplaceAllUsesWith(result);
  loop->parent()->Remove(loop);
  return {};
}

// `factor` iterations become one; the condition is asked less often, which is right where the
// factor divides the trip count.
Status UnrollBy(Instruction* loop, int64_t trips, int64_t factor, FreshNames& names) {
  hlo::Module& module = *loop->parent()->module();
  const Computation& body = *loop->attrs<hlo::WhileAttrs>().body;
  Computation* wide = module.AddComputation(module.UniqueName(body.name()), loop->parent());
  Builder b(*wide);
  Instruction* p = TRY(b.Parameter(0, body.parameter(0)->shape()));
  std::vector<Instruction*> state;
  for (int64_t k = 0; k < p->shape().tuple_size(); ++k) {
    state.push_back(TRY(b.GetTupleElement(p, k)));
  }
  Instruction* end = TRY(b.Tuple(state));  // a place to put the copies before
  for (int64_t t = 0; t < factor; ++t) state = TRY(CopyBody(body, end, std::move(state), names));
  Instruction* root = TRY(b.Tuple(state));
  wide->set_root(root);
  wide->Remove(end);
  loop->mutable_attrs<hlo::WhileAttrs>().body = wide;
  // The counter now grows in several steps, from which the count cannot be read any more.
  hlo::BackendConfig& config = loop->mutable_extras().backend_config;
  std::string& text = config.text;
  if (ConfigInts(*loop, "known_trip_count").empty()) {
    std::string count = StrCat("\"known_trip_count\":{\"n\":\"", trips / factor, "\"}");
    bool has_others = text.size() > 2 && text[0] == '{';
    text = has_others ? StrCat("{", count, ",", text.substr(1)) : StrCat("{", count, "}");
    config.is_dict = true;
  } else {
    size_t at = text.find_first_of("0123456789", text.find("known_trip_count"));
    text.replace(at, text.find_first_not_of("0123456789", at) - at, StrCat(trips / factor));
  }
  return {};
}

}  // namespace

Result<int64_t> MakeAsync(hlo::Module& module, const std::vector<std::string>& disabled) {
  int64_t made = 0;
  for (Computation* c : Executed(module)) {
    for (Instruction* i : c->Snapshot()) {
      if (!IsCollective(i->op()) || HasTrait(i->op(), hlo::kAsyncStart)) continue;
      auto stays = [&](const std::string& name) {
        return name == "all" || name == Mnemonic(i->op());
      };
      if (std::any_of(disabled.begin(), disabled.end(), stays)) continue;
      TRY(AddPair(i));
      ++made;
    }
  }
  return made;
}

Status WriteOutGroups(hlo::Module& module) {
  int64_t devices = DeviceCount(module);
  for (const auto& c : module.computations()) {
    for (Instruction* i : *c) {
      const hlo::CollectiveAttrs* attrs = i->attrs().Collective();
      if (attrs == nullptr || attrs->replica_groups.form != hlo::ReplicaGroups::Form::kMesh)
        continue;
      hlo::ReplicaGroups list;
      list.groups = TRY(attrs->replica_groups.Expand(devices));
      i->mutable_attrs().MutableCollective()->replica_groups = std::move(list);
    }
  }
  return {};
}

Result<bool> SplitTuples(hlo::Module& module) {
  bool changed = false;
  for (Computation* c : Executed(module)) {
    for (bool again = true; again;) {
      again = false;
      for (Instruction* i : c->Snapshot()) {
        if (i->op() == Op::kOptBarrier) {
          again |= TRY(SplitBarrier(i));
        } else if (i->op() == Op::kGetTupleElement && i->operand(0)->op() == Op::kTuple &&
                   !HasControlDependencies(*i)) {
          Instruction* tuple = i->operand(0);
          i->ReplaceAllUsesWith(tuple->operand(i->tuple_index()));
          c->Remove(i);
          if (tuple->users().empty() && !tuple->IsRoot() && !HasControlDependencies(*tuple)) {
            c->Remove(tuple);
          }
          changed = true;
        }
      }
      changed |= again;
    }
  }
  return changed;
}

Result<int64_t> UnrollLoops(hlo::Module& module, int64_t most) {
  FreshNames names(module);
  int64_t unrolled = 0;
  std::vector<Computation*> executed = Executed(module);
  for (size_t at = executed.size(); at-- > 0;) {
    for (Instruction* i : executed[at]->Snapshot()) {
      if (i->op() != Op::kWhile || !i->shape().IsTuple() || HasControlDependencies(*i)) continue;
      const Computation& body = *i->attrs<hlo::WhileAttrs>().body;
      int64_t trips = KnownTripCount(*i);
      if (trips < 2 || !HoldsCollectives(body)) continue;
      int64_t room = most - module.instruction_count();
      if (body.size() == 0 || room <= 0) continue;
      if (trips <= room / body.size()) {
        TRY(UnrollWhole(i, trips, names));
        ++unrolled;
        continue;
      }
      int64_t factor = std::min<int64_t>({room / body.size(), 8, trips / 2});
      while (factor > 1 && trips % factor != 0) --factor;
      if (factor < 2) continue;
      TRY(UnrollBy(i, trips, factor, names));
      ++unrolled;
    }
  }
  if (unrolled > 0) module.RemoveUnusedComputations();
  return unrolled;
}

}  // namespace weft::compiler::schedule
