#include "reduce_edits.h"

#include <algorithm>

#include "base/literal.h"
#include "compiler/pipeline.h"
#include "hlo/clone.h"
#include "hlo/text.h"

namespace weft::tools {
namespace {

using hlo::Instruction;
using hlo::Module;

// Facts about parameters and results that no longer hold.
void ClearBoundary(Module& module) {
  hlo::ModuleConfig& config = module.config();
  config.is_scheduled = false;
  config.input_output_alias.clear();
  config.buffer_donors.clear();
  config.entry_layout.reset();
  config.propagate_sharding_to_parameters.clear();
  config.propagate_sharding_to_output.clear();
  config.frontend_attributes.clear();
}

std::unordered_set<int64_t> Needed(const Roots& roots, const std::unordered_set<int64_t>& cut) {
  std::unordered_set<int64_t> needed;
  std::vector<const Instruction*> work(roots.begin(), roots.end());
  while (!work.empty()) {
    const Instruction* i = work.back();
    work.pop_back();
    if (!needed.insert(i->id()).second || cut.contains(i->id())) continue;
    for (const Instruction* operand : i->operands()) work.push_back(operand);
  }
  return needed;
}

bool MayBeParameter(const Instruction& i) {
  return !i.IsParameter() && (i.shape().IsArray() || i.shape().IsTuple());
}

bool RunOnePass(Module& module, std::string_view name) {
  compiler::CompileOptions options;
  options.pipeline.verify = false;
  auto passes = compiler::FindPasses(name);
  return passes && compiler::RunPasses(module, *passes, options);
}

// After instructions were put in the place of others.
ModulePtr Sweep(ModulePtr module) {
  if (!RunOnePass(*module, "eliminate-dead-code")) return nullptr;
  return CutEntry(*module, RootsOf(*module), {});
}

Instruction* SameShapeOperand(const Instruction& i) {
  for (Instruction* operand : i.operands()) {
    if (Shape::CompatibleIgnoringDynamic(i.shape(), operand->shape())) return operand;
  }
  return nullptr;
}

// Zeros before the instruction.
Instruction* ZerosFor(Module& module, Instruction& i) {
  hlo::Computation& in = *i.parent();
  Literal zero{Shape::Scalar(i.shape().dtype())};
  Instruction* constant = in.Add(hlo::Op::kConstant, module.UniqueName("zero"), zero.shape(), {},
                                 hlo::ConstantAttrs{zero}, &i);
  if (i.shape().rank() == 0) return constant;
  return in.Add(hlo::Op::kBroadcast, module.UniqueName("zeros"),
                Shape(i.shape().dtype(), i.shape().dims()), {&constant, 1}, hlo::DimensionsAttrs{},
                &i);
}

bool ResizeShape(Shape& shape, int64_t from, int64_t to, bool multiples) {
  bool changed = false;
  if (shape.IsTuple()) {
    std::vector<Shape> elements(shape.elements_of_tuple().begin(), shape.elements_of_tuple().end());
    for (Shape& element : elements) changed |= ResizeShape(element, from, to, multiples);
    if (changed) shape = Shape::Tuple(std::move(elements));
  } else if (shape.IsArray()) {
    Dims dims = shape.dims();
    for (int64_t& dim : dims) {
      if (dim != from && !(multiples && dim > from && dim % from == 0)) continue;
      dim = dim / from * to;
      changed = true;
    }
    if (changed) shape = Shape(shape.dtype(), dims);
  }
  return changed;
}

}  // namespace

Roots RootsOf(const Module& module) {
  const Instruction* root = module.entry()->root();
  if (root->op() == hlo::Op::kTuple && root->operand_count() > 0) {
    return Roots(root->operands().begin(), root->operands().end());
  }
  return {root};
}

ModulePtr CutEntry(const Module& module, const Roots& roots,
                   const std::unordered_set<int64_t>& parameters) {
  std::unordered_set<int64_t> needed = Needed(roots, parameters);
  ModulePtr out = hlo::CloneModule(module);  // keeps ids
  hlo::Computation* old = out->entry();
  hlo::Computation* entry = out->AddComputation(old->name());
  hlo::CloneMap map;
  std::unordered_map<int64_t, Instruction*> by_id;
  int64_t next = 0;
  for (const Instruction* i : *old) {
    if (!needed.contains(i->id())) continue;
    Instruction* made = nullptr;
    if (i->IsParameter() || parameters.contains(i->id())) {
      made =
          entry->Add(hlo::Op::kParameter, i->name(), i->shape(), {}, hlo::ParameterAttrs{next++});
      map.instructions[i] = made;
    } else {
      made = hlo::CloneInstruction(*i, *entry, map, nullptr,
                                   {.name = i->name(), .shape = {}, .operands = {}});
    }
    by_id[i->id()] = made;
  }
  std::vector<Instruction*> results;
  for (const Instruction* root : roots) results.push_back(by_id.at(root->id()));
  if (results.size() == 1) {
    entry->set_root(results[0]);
  } else {
    std::vector<Shape> shapes;
    for (const Instruction* i : results) shapes.push_back(i->shape());
    entry->set_root(entry->Add(hlo::Op::kTuple, out->UniqueName("results"),
                               Shape::Tuple(std::move(shapes)), results, {}));
  }
  out->set_entry(entry);
  out->RemoveComputation(old);
  out->RemoveUnusedComputations();
  ClearBoundary(*out);
  return out;
}

ModulePtr TakePrefix(const Module& module, size_t n) {
  std::unordered_set<int64_t> inside;
  for (const Instruction* i : *module.entry()) {
    if (inside.size() == n) break;
    inside.insert(i->id());
  }
  Roots roots;
  for (const Instruction* i : *module.entry()) {
    if (!inside.contains(i->id()) || !MayBeParameter(*i)) continue;
    bool read = std::any_of(i->users().begin(), i->users().end(),
                            [&](const Instruction* user) { return inside.contains(user->id()); });
    if (!read) roots.push_back(i);
  }
  return roots.empty() ? nullptr : CutEntry(module, roots, {});
}

ModulePtr CutRange(const Module& module, size_t begin, size_t count) {
  std::unordered_set<int64_t> cut;
  size_t number = 0;
  for (const Instruction* i : *module.entry()) {
    if (number >= begin && number < begin + count && MayBeParameter(*i) && !i->IsRoot()) {
      cut.insert(i->id());
    }
    ++number;
  }
  return cut.empty() ? nullptr : CutEntry(module, RootsOf(module), cut);
}

ModulePtr StripFacts(const Module& module, bool all) {
  hlo::PrintOptions print;
  print.metadata = print.stack_frames = print.origin = print.backend_config = false;
  print.control_dependencies = false;
  if (all) print.sharding = print.frontend_attributes = print.layouts = false;
  Result<ModulePtr> read = hlo::ParseModule(hlo::PrintModule(module, print));
  if (!read) return nullptr;
  (*read)->config().origin_recovery_table.clear();
  (*read)->config().debug_attributes.clear();
  if (all) ClearBoundary(**read);
  (*read)->RemoveUnusedComputations();
  return std::move(*read);
}

ModulePtr InlineCalls(const Module& module) {
  ModulePtr out = hlo::CloneModule(module);
  if (!RunOnePass(*out, "inline-calls")) return nullptr;
  return Sweep(std::move(out));
}

ModulePtr Promote(const Module& module, const hlo::Computation& computation) {
  ModulePtr out = hlo::CloneModule(module);
  hlo::Computation* entry = out->FindComputation(computation.name());
  if (entry == nullptr || entry->IsEntry()) return nullptr;
  out->set_entry(entry);
  out->RemoveUnusedComputations();
  ClearBoundary(*out);
  return out;
}

ModulePtr Bypass(const Module& module, size_t begin, size_t count) {
  ModulePtr out = hlo::CloneModule(module);
  size_t number = 0;
  for (const auto& computation : out->computations()) {
    for (Instruction* i : *computation) {
      if (number >= begin && number < begin + count) {
        if (Instruction* operand = SameShapeOperand(*i)) i->ReplaceAllUsesWith(operand);
      }
      ++number;
    }
  }
  return Sweep(std::move(out));
}

ModulePtr PutZeros(const Module& module, size_t begin, size_t count) {
  ModulePtr out = hlo::CloneModule(module);
  size_t number = 0;
  for (const auto& computation : out->computations()) {
    if (computation->IsEntry()) continue;
    for (Instruction* i : computation->Snapshot()) {
      bool chosen = number >= begin && number < begin + count;
      ++number;
      if (!chosen || i->IsParameter() || !i->shape().IsArray() || !i->shape().IsStatic() ||
          i->operand_count() == 0 || i->op() == hlo::Op::kBroadcast) {
        continue;
      }
      i->ReplaceAllUsesWith(ZerosFor(*out, *i));
    }
  }
  return Sweep(std::move(out));
}

ModulePtr MakeConstant(const Module& module, int64_t parameter) {
  ModulePtr out = hlo::CloneModule(module);
  Instruction* old = out->entry()->parameter(parameter);
  if (!old->shape().IsArray() || old->shape().rank() != 0) return nullptr;
  Literal one{old->shape()};
  one.SetDouble(0, 1);
  old->ReplaceAllUsesWith(out->entry()->Add(hlo::Op::kConstant, out->UniqueName("one"),
                                            old->shape(), {}, hlo::ConstantAttrs{one},
                                            out->entry()->first()));
  return CutEntry(*out, RootsOf(*out), {});
}

ModulePtr Resize(const Module& module, int64_t size, int64_t smaller, bool multiples) {
  ModulePtr out = hlo::CloneModule(module);
  for (const auto& computation : out->computations()) {
    for (Instruction* i : *computation) {
      if (ResizeShape(i->mutable_shape(), size, smaller, multiples) && i->IsConstant()) {
        return nullptr;
      }
    }
  }
  ClearBoundary(*out);
  return out;
}

ModulePtr ForOneDevice(const Module& module) {
  if (module.config().replica_count <= 1 && module.config().num_partitions <= 1) return nullptr;
  ModulePtr out = hlo::CloneModule(module);
  out->config().replica_count = out->config().num_partitions = 1;
  return out;
}

}  // namespace weft::tools
