// Copying instructions, computations and modules. Every rewrite that makes an instruction out of
// another one goes through CloneInstruction or CopyFacts, so that metadata, frontend attributes,
// sharding, backend config, control dependencies, statistics and origin are never forgotten.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

#include "hlo/module.h"

namespace weft::hlo {

// What became of what. Lookups only: the maps are never iterated.
struct CloneMap {
  std::unordered_map<const Instruction*, Instruction*> instructions;
  std::unordered_map<const Computation*, Computation*> computations;

  // The clone, or the thing itself when it was not cloned.
  Instruction* Find(Instruction* i) const {
    auto it = instructions.find(i);
    return it != instructions.end() ? it->second : i;
  }
  Computation* Find(Computation* c) const {
    auto it = computations.find(c);
    return it != computations.end() ? it->second : c;
  }
};

// What is to differ from the original.
struct CloneChanges {
  std::optional<std::string> name;  // absent: a new name made from the old one
  std::optional<Shape> shape;
  std::optional<std::span<Instruction* const>> operands;  // absent: the original's, mapped
};

// Adds a copy of `from` to `into` before `before` (null: at the end) and notes it in the map.
// Operands, called computations and control predecessors are mapped; those that the map does not
// know stay what they are (a control predecessor in another computation is dropped, and so are
// control successors, which follow when they are cloned themselves).
Instruction* CloneInstruction(const Instruction& from, Computation& into, CloneMap& map,
                              Instruction* before = nullptr, const CloneChanges& changes = {});

// Copies what an instruction carries beside op, shape, operands and attributes: for a rewrite that
// puts a new instruction `to` in the place of `from`. Metadata, sharding, frontend attributes,
// statistics and origin always; the backend config when the op is the same; control dependencies
// when both are of one computation, so `to` must stand next to `from` in the list.
void CopyFacts(const Instruction& from, Instruction& to);

// CopyFacts, then all users of `from` read `to`, a new instruction next to it, and `from` goes.
void ReplaceInstruction(Instruction* from, Instruction* to);

// Adds a copy of a computation to `module`, before `before` (null: at the end). Called computations
// are mapped; those that the map does not know are shared. Instructions get new names.
Computation* CloneComputation(const Computation& from, Module& module, CloneMap& map,
                              std::string name, Computation* before = nullptr);

// The whole module, same names, same ids, same order.
std::unique_ptr<Module> CloneModule(const Module& from);

}  // namespace weft::hlo
