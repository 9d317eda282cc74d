#include "hlo/clone.h"

#include <algorithm>
#include <vector>

namespace weft::hlo {
namespace {

// Stack frame ids mean something in their module alone: elsewhere the position is written out.
void ResolveStackFrame(const Instruction& from, Metadata& metadata) {
  const StackFrames& frames = from.parent()->module()->stack_frames();
  int32_t id = metadata.stack_frame_id;
  metadata.stack_frame_id = 0;
  if (!metadata.source_file.empty() || id <= 0 || id > std::ssize(frames.frames)) return;
  int32_t location = frames.frames[id - 1].location;
  if (location <= 0 || location > std::ssize(frames.locations)) return;
  const FileLocation& at = frames.locations[location - 1];
  if (at.file <= 0 || at.file > std::ssize(frames.files)) return;
  metadata.source_file = frames.files[at.file - 1];
  metadata.source_line = at.line;
  metadata.source_end_line = at.end_line;
  metadata.source_column = at.column;
  metadata.source_end_column = at.end_column;
}

void CopyExtrasFields(const Instruction& from, Instruction& to, bool resolve_frames) {
  if (from.metadata() != nullptr) {
    Metadata& metadata = to.mutable_metadata();
    metadata = *from.metadata();
    if (resolve_frames && metadata.stack_frame_id != 0) ResolveStackFrame(from, metadata);
  }
  if (from.extras() == nullptr) return;
  const InstructionExtras& source = *from.extras();
  InstructionExtras& target = to.mutable_extras();
  target.sharding = source.sharding;
  target.frontend_attributes = source.frontend_attributes;
  target.backend_config = source.backend_config;
  target.statistics = source.statistics;
  target.parameter_replication = source.parameter_replication;
  target.origin = source.origin;
}

Instruction* CloneWith(const Instruction& from, Computation& into, CloneMap& map,
                       Instruction* before, std::string name, const CloneChanges& changes,
                       bool resolve_frames) {
  std::vector<Instruction*> operands;
  if (changes.operands) {
    operands.assign(changes.operands->begin(), changes.operands->end());
  } else {
    for (Instruction* operand : from.operands()) operands.push_back(map.Find(operand));
  }
  Instruction* copy =
      into.Add(from.op(), std::move(name), changes.shape ? *changes.shape : from.shape(), operands,
               from.attrs(), before);
  for (Computation* called : from.called_computations()) {
    Computation* mapped = map.Find(called);
    if (mapped != called) copy->ReplaceCalledComputation(called, mapped);
  }
  CopyExtrasFields(from, *copy, resolve_frames);
  for (Instruction* predecessor : from.control_predecessors()) {
    Instruction* mapped = map.Find(predecessor);
    if (mapped->parent() == &into) copy->AddControlPredecessor(mapped);
  }
  map.instructions[&from] = copy;
  return copy;
}

}  // namespace

Instruction* CloneInstruction(const Instruction& from, Computation& into, CloneMap& map,
                              Instruction* before, const CloneChanges& changes) {
  std::string name = changes.name ? *changes.name : into.module()->UniqueName(from.name());
  bool other_module = from.parent()->module() != into.module();
  return CloneWith(from, into, map, before, std::move(name), changes, other_module);
}

void CopyExtras(const Instruction& from, Instruction& to) {
  CopyExtrasFields(from, to, from.parent()->module() != to.parent()->module());
}

Computation* CloneComputation(const Computation& from, Module& module, CloneMap& map,
                              std::string name, Computation* before) {
  Computation* copy = module.AddComputation(std::move(name), before);
  copy->set_execution_thread(from.execution_thread());
  for (const Instruction* i : from) CloneInstruction(*i, *copy, map);
  if (from.root() != nullptr) copy->set_root(map.Find(from.root()));
  map.computations[&from] = copy;
  return copy;
}

std::unique_ptr<Module> CloneModule(const Module& from) {
  auto module = std::make_unique<Module>(from.name());
  module->config() = from.config();
  module->stack_frames() = from.stack_frames();
  CloneMap map;
  for (const auto& computation : from.computations()) {
    Computation* copy = module->AddComputation(computation->name());
    copy->set_execution_thread(computation->execution_thread());
    map.computations[computation.get()] = copy;
  }
  for (const auto& computation : from.computations()) {
    Computation* copy = map.Find(computation.get());
    for (const Instruction* i : *computation) {
      CloneWith(*i, *copy, map, nullptr, i->name(), {}, /*resolve_frames=*/false);
    }
    if (computation->root() != nullptr) copy->set_root(map.Find(computation->root()));
  }
  if (from.entry() != nullptr) module->set_entry(map.Find(from.entry()));
  return module;
}

}  // namespace weft::hlo
