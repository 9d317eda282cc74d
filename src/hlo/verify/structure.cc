// What holds before shapes are looked at.
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "hlo/verify/rules.h"

namespace weft::hlo {
namespace {

Status CheckNames(const Module& module) {
  std::unordered_set<std::string_view> computations;
  for (const auto& computation : module.computations()) {
    if (!computations.insert(computation->name()).second) {
      return InvalidArgument("two computations have the name ", computation->name());
    }
    std::unordered_set<std::string_view> instructions;
    for (const Instruction* instruction : *computation) {
      if (!instructions.insert(instruction->name()).second) {
        return InvalidArgument("two instructions of ", computation->name(), " have the name ",
                               instruction->name());
      }
    }
  }
  return {};
}

Status CheckParameterNumbers(const Computation& computation) {
  std::vector<bool> seen(computation.parameters().size());
  for (const Instruction* instruction : computation) {
    if (!instruction->IsParameter()) continue;
    int64_t number = instruction->parameter_number();
    if (number < 0 || number >= static_cast<int64_t>(seen.size())) {
      return InvalidArgument("parameter: number ", number, " of ", instruction->name(),
                             " is out of range");
    }
    if (seen[number]) {
      return InvalidArgument("parameter: number ", number, " occurs twice in ", computation.name());
    }
    seen[number] = true;
  }
  for (size_t i = 0; i < seen.size(); ++i) {
    if (!seen[i] || computation.parameters()[i] == nullptr) {
      return InvalidArgument("parameter: number ", i, " is missing in ", computation.name());
    }
  }
  return {};
}

// `what` is in the computation and before the instruction. One that is not in the computation may
// have gone with the computation it was in: it is not looked at.
Status CheckBefore(const Instruction& instruction, const Instruction* it, std::string_view what,
                   const std::unordered_map<const Instruction*, bool>& is_before) {
  auto found = is_before.find(it);
  if (found == is_before.end()) {
    return InvalidArgument(instruction.name(), ": ", what, " is not in ",
                           instruction.parent()->name());
  }
  if (found->second) return {};
  return InvalidArgument(instruction.name(), ": ", what, " ", it->name(),
                         " does not come before it");
}

// Operands and control predecessors come first in the list: no cycles, and a schedule holds.
Status CheckOrder(const Computation& computation) {
  std::unordered_map<const Instruction*, bool> is_before;
  is_before.reserve(static_cast<size_t>(computation.size()));
  for (const Instruction* instruction : computation) is_before.emplace(instruction, false);
  for (const Instruction* instruction : computation) {
    for (const Instruction* operand : instruction->operands()) {
      TRY(CheckBefore(*instruction, operand, "operand", is_before));
    }
    for (const Instruction* predecessor : instruction->control_predecessors()) {
      TRY(CheckBefore(*instruction, predecessor, "control predecessor", is_before));
    }
    is_before[instruction] = true;
  }
  if (!is_before.contains(computation.root())) {
    return InvalidArgument("computation ", computation.name(), " has no root");
  }
  return {};
}

enum class Visit : uint8_t { kNew, kOpen, kDone };

// Depth first without native recursion; an open computation that is met again calls itself.
Status CheckNoRecursion(const Module& module) {
  std::unordered_map<const Computation*, std::vector<const Computation*>> calls;
  std::unordered_map<const Computation*, Visit> visits;
  for (const auto& computation : module.computations()) {
    std::vector<const Computation*>& callees = calls[computation.get()];
    std::unordered_set<const Computation*> seen;
    for (const Instruction* instruction : *computation) {
      for (const Computation* callee : instruction->called_computations()) {
        if (seen.insert(callee).second) callees.push_back(callee);
      }
    }
  }
  for (const auto& [computation, callees] : calls) {
    for (const Computation* callee : callees) {
      if (!calls.contains(callee)) {
        return InvalidArgument("computation ", computation->name(),
                               " calls a computation of another module");
      }
    }
  }
  for (const auto& start : module.computations()) {
    std::vector<std::pair<const Computation*, size_t>> stack;
    if (visits[start.get()] == Visit::kNew) stack.emplace_back(start.get(), 0);
    while (!stack.empty()) {
      auto& [at, next] = stack.back();
      visits[at] = Visit::kOpen;
      const std::vector<const Computation*>& callees = calls[at];
      if (next == callees.size()) {
        visits[at] = Visit::kDone;
        stack.pop_back();
        continue;
      }
      const Computation* callee = callees[next++];
      if (visits[callee] == Visit::kOpen) {
        return InvalidArgument("computation ", callee->name(), " calls itself, through ",
                               at->name());
      }
      if (visits[callee] == Visit::kNew) stack.emplace_back(callee, 0);
    }
  }
  return {};
}

}  // namespace

Status VerifyStructure(const Module& module) {
  if (module.name().empty()) return InvalidArgument("the module has no name");
  if (module.entry() == nullptr) {
    return InvalidArgument("module ", module.name(), " has no entry computation");
  }
  TRY(CheckNames(module));
  for (const auto& computation : module.computations()) {
    TRY(CheckParameterNumbers(*computation));
    TRY(CheckOrder(*computation));
  }
  return CheckNoRecursion(module);
}

}  // namespace weft::hlo
