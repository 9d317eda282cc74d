// Where asynchronous calls begin and end in the order of their computation.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "compiler/analysis/in_place.h"
#include "compiler/passes.h"
#include "hlo/computation.h"

namespace weft::compiler {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

using Order = std::vector<Instruction*>;

// All that has to come before an instruction, or behind it.
Order Neighbours(const Instruction& i, bool is_before) {
  Order all(i.control_predecessors().begin(), i.control_predecessors().end());
  if (is_before) {
    all.insert(all.end(), i.operands().begin(), i.operands().end());
    return all;
  }
  all.assign(i.control_successors().begin(), i.control_successors().end());
  all.insert(all.end(), i.users().begin(), i.users().end());
  return all;
}

// The same order, but that the eager ones come as soon as all that they follow has come.
Order TakeEagerly(const Order& order, const std::unordered_set<Instruction*>& eager,
                  bool is_forward) {
  std::unordered_map<const Instruction*, size_t> left;
  for (Instruction* i : eager) {
    Order before = Neighbours(*i, is_forward);
    std::sort(before.begin(), before.end());
    left[i] = static_cast<size_t>(std::unique(before.begin(), before.end()) - before.begin());
  }
  std::unordered_set<const Instruction*> taken;
  Order result, work;
  for (Instruction* next : order) {
    if (taken.contains(next)) continue;
    work.push_back(next);
    while (!work.empty()) {
      Instruction* i = work.back();
      work.pop_back();
      taken.insert(i);
      result.push_back(i);
      Order behind = Neighbours(*i, !is_forward);
      std::sort(behind.begin(), behind.end(),
                [](const Instruction* a, const Instruction* b) { return a->name() > b->name(); });
      behind.erase(std::unique(behind.begin(), behind.end()), behind.end());
      for (Instruction* other : behind) {
        auto found = left.find(other);
        if (found != left.end() && --found->second == 0) work.push_back(other);
      }
    }
  }
  return result;
}

// Starts with what only hands on to them, or dones with what only hands on from them.
std::unordered_set<Instruction*> EagerOnes(const Order& order, bool is_forward) {
  std::unordered_set<Instruction*> eager;
  for (Instruction* i : order) {
    const bool is_start = i->op() == Op::kAsyncStart && IsAsyncCall(*i);
    const bool is_done = i->op() == Op::kAsyncDone && i->operand(0)->op() == Op::kAsyncStart &&
                         IsAsyncCall(*i->operand(0));
    if (!(is_forward ? is_start : is_done)) continue;
    Order work = {i};
    while (!work.empty()) {
      Instruction* at = work.back();
      work.pop_back();
      if (!eager.insert(at).second) continue;
      for (Instruction* other : Neighbours(*at, is_forward)) {
        if (IsForwarding(*other) && !other->IsRoot()) work.push_back(other);
      }
    }
  }
  return eager;
}

}  // namespace

Result<bool> OverlapCalls(hlo::Module& module, const PassContext&) {
  bool changed = false;
  for (const auto& computation : module.computations()) {
    const Order before = computation->Snapshot();
    const auto starts = EagerOnes(before, true), dones = EagerOnes(before, false);
    if (starts.empty()) continue;
    Order order = TakeEagerly(before, starts, true);
    std::reverse(order.begin(), order.end());
    order = TakeEagerly(order, dones, false);
    std::reverse(order.begin(), order.end());
    if (order == before) continue;
    for (Instruction* i : order) computation->MoveBefore(i, nullptr);
    changed = true;
  }
  return changed;
}

}  // namespace weft::compiler
