#include "compiler/passes/collectives/loop_copies.h"

#include <algorithm>

#include "compiler/analysis/backend_config.h"
#include "compiler/passes/rewrite.h"
#include "hlo/builder.h"

namespace weft::compiler {

using hlo::Builder;
using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

std::vector<Computation*> ExecutedComputations(hlo::Module& module) {
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

int64_t ExecutedSize(const Computation& c) {
  int64_t size = c.size();
  for (const Instruction* i : c) {
    if (i->op() != Op::kWhile && i->op() != Op::kConditional && i->op() != Op::kCall) continue;
    for (const Computation* inside : i->called_computations()) size += ExecutedSize(*inside);
  }
  return size;
}

bool HoldsCollectives(const Computation& c) {
  for (const Instruction* i : c) {
    if (IsCollective(i->op())) return true;
    for (const Computation* inside : i->called_computations()) {
      if (i->op() != Op::kFusion && HoldsCollectives(*inside)) return true;
    }
  }
  return false;
}

Result<std::vector<Instruction*>> CopyBody(const Computation& body, Instruction* before,
                                           std::vector<Instruction*> state, FreshIds& ids,
                                           hlo::CloneMap& map) {
  Computation& into = *before->parent();
  ids.NextCopy();
  Instruction* whole = nullptr;
  for (const Instruction* i : body) {
    if (i->IsParameter() || map.instructions.contains(i)) continue;
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
    ids.Rename(*CloneInstruction(*i, into, map, before));
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

// Control edges to the end of an iteration, which stay edges to the end of all of them.
static void CollectEnds(const Computation& body, const hlo::CloneMap& map,
                        std::vector<Instruction*>& ends) {
  for (Instruction* p : body.root()->control_predecessors()) {
    Instruction* copy = map.Find(p);
    if (copy != p) ends.push_back(copy);
  }
}

Status UnrollWhole(Instruction* loop, int64_t trips, FreshIds& ids) {
  const Computation& body = *loop->attrs<hlo::WhileAttrs>().body;
  Builder b(*loop->parent(), loop);
  std::vector<Instruction*> state;
  for (int64_t k = 0; k < loop->shape().tuple_size(); ++k) {
    state.push_back(TRY(ElementOf(b, loop->operand(0), k)));
  }
  std::vector<Instruction*> ends;
  for (int64_t t = 0; t < trips; ++t) {
    hlo::CloneMap map;
    state = TRY(CopyBody(body, loop, std::move(state), ids, map));
    CollectEnds(body, map, ends);
  }
  Instruction* result = TRY(b.Tuple(state));
  for (Instruction* end : ends) result->AddControlPredecessor(end);
  loop->ReplaceAllUsesWith(result);
  loop->parent()->Remove(loop);
  return {};
}

Status UnrollBy(Instruction* loop, int64_t trips, int64_t factor, FreshIds& ids) {
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
  std::vector<Instruction*> ends;
  for (int64_t t = 0; t < factor; ++t) {
    hlo::CloneMap map;
    state = TRY(CopyBody(body, end, std::move(state), ids, map));
    CollectEnds(body, map, ends);
  }
  Instruction* root = TRY(b.Tuple(state));
  for (Instruction* last : ends) root->AddControlPredecessor(last);
  wide->set_root(root);
  wide->Remove(end);
  loop->mutable_attrs<hlo::WhileAttrs>().body = wide;
  // The counter now grows in several steps, from which the count cannot be read any more.
  SetKnownTripCount(*loop, trips / factor);
  return {};
}

}  // namespace weft::compiler
