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

// All but control dependencies and what belongs to the op.
void CopyCarried(const Instruction& from, Instruction& to) {
  bool other_module = from.parent()->module() != to.parent()->module();
  if (from.metadata() != nullptr) {
    Metadata& metadata = to.mutable_metadata();
    metadata = *from.metadata();
    if (other_module && metadata.stack_frame_id != 0) ResolveStackFrame(from, metadata);
  }
  if (from.extras() == nullptr) return;
  const InstructionExtras& source = *from.extras();
  InstructionExtras& target = to.mutable_extras();
  target.sharding = source.sharding;
  target.frontend_attributes = source.frontend_attributes;
  target.statistics = source.statistics;
  target.origin = source.origin;
}

void CopyOpFacts(const Instruction& from, Instruction& to) {
  if (from.extras() == nullptr) return;
  to.mutable_extras().backend_config = from.extras()->backend_config;
  to.mutable_extras().parameter_replication = from.extras()->parameter_replication;
}

// All at once: a map may send a to b and b to c.
void MapCalledComputations(const CloneMap& map, Instruction& to) {
  if (!HasTrait(to.op(), kCalls) || map.computations.empty()) return;
  for (const FieldRef& field : to.mutable_attrs().MutableFields()) {
    if (field.type == FieldType::kComputation) {
      Computation*& c = field.As<Computation*>();
      c = map.Find(c);
    } else if (field.type == FieldType::kComputationList) {
      for (Computation*& c : field.As<std::vector<Computation*>>()) c = map.Find(c);
    }
  }
}

Instruction* CloneWith(const Instruction& from, Computation& into, CloneMap& map,
                       Instruction* before, std::string name, const CloneChanges& changes) {
  std::vector<Instruction*> operands;
  if (changes.operands) {
    operands.assign(changes.operands->begin(), changes.operands->end());
  } else {
    for (Instruction* operand : from.operands()) operands.push_back(map.Find(operand));
  }
  Instruction* copy =
      into.Add(from.op(), std::move(name), changes.shape ? *changes.shape : from.shape(), operands,
               from.attrs(), before);
  MapCalledComputations(map, *copy);
  CopyCarried(from, *copy);
  CopyOpFacts(from, *copy);
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
  return CloneWith(from, into, map, before, std::move(name), changes);
}

void CopyFacts(const Instruction& from, Instruction& to) {
  CopyCarried(from, to);
  if (from.op() == to.op()) CopyOpFacts(from, to);
  if (from.parent() != to.parent()) return;
  for (Instruction* p : from.control_predecessors()) to.AddControlPredecessor(p);
  for (Instruction* s : from.control_successors()) s->AddControlPredecessor(&to);
}

void ReplaceInstruction(Instruction* from, Instruction* to) {
  CopyFacts(*from, *to);
  from->ReplaceAllUsesWith(to);
  from->parent()->Remove(from);
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
  CloneMap map;
  for (const auto& computation : from.computations()) {
    module->set_next_id(computation->id());
    Computation* copy = module->AddComputation(computation->name());
    copy->set_execution_thread(computation->execution_thread());
    map.computations[computation.get()] = copy;
  }
  for (const auto& computation : from.computations()) {
    Computation* copy = map.Find(computation.get());
    for (const Instruction* i : *computation) {
      module->set_next_id(i->id());
      Instruction* cloned = CloneWith(*i, *copy, map, nullptr, i->name(), {});
      // Stack frame ids keep their meaning here, since the frames come along.
      if (i->metadata() != nullptr) cloned->mutable_metadata() = *i->metadata();
    }
    if (computation->root() != nullptr) copy->set_root(map.Find(computation->root()));
  }
  module->stack_frames() = from.stack_frames();
  module->set_next_id(from.id_limit());
  if (from.entry() != nullptr) module->set_entry(map.Find(from.entry()));
  return module;
}

}  // namespace weft::hlo
