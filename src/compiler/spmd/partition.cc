// The pass: the program of one device.
#include <algorithm>

#include "compiler/passes.h"
#include "compiler/spmd/joined.h"
#include "compiler/spmd/partitioner.h"

namespace weft::compiler {
namespace spmd {

using hlo::Computation;
using hlo::Instruction;

Shape LocalShapeOf(const Shape& shape, std::span<const Form> forms, size_t& at,
                   const DeviceMesh& mesh) {
  if (!shape.IsTuple()) return LocalShape(shape, forms[at++], mesh);
  std::vector<Shape> elements;
  for (const Shape& element : shape.elements_of_tuple()) {
    elements.push_back(LocalShapeOf(element, forms, at, mesh));
  }
  return Shape::Tuple(std::move(elements));
}

Partitioner::Partitioner(hlo::Module& module, const DeviceMesh& mesh, ValueTable& table,
                         LinkModel link)
    : module_(module),
      mesh_(mesh),
      table_(table),
      link_(link),
      state_{.module = module, .mesh = mesh} {
  state_.replicas = std::max<int64_t>(module.config().replica_count, 1);
  for (const auto& computation : module.computations()) {
    for (const Instruction* i : *computation) {
      const hlo::CollectiveAttrs* attrs = i->attrs().Collective();
      if (attrs == nullptr || !attrs->channel_id) continue;
      state_.next_channel = std::max(state_.next_channel, *attrs->channel_id + 1);
    }
  }
}

Form Partitioner::FormOf(const Instruction* i, size_t leaf) const {
  const std::span<const int> ids = table_.ValuesOf(i);
  return table_.values()[static_cast<size_t>(ids[leaf])].form;
}

std::vector<Form> Partitioner::FormsOf(const Instruction* i) const {
  std::vector<Form> forms;
  for (int id : table_.ValuesOf(i)) {
    Form form = table_.values()[static_cast<size_t>(id)].form;
    form.order.clear();
    forms.push_back(std::move(form));
  }
  return forms;
}

bool Partitioner::IsManual(const Instruction* i) const {
  if (table_.ManualOf(i->parent()) != 0) return true;
  for (int id : table_.ValuesOf(i)) {
    const ShardedValue& value = table_.values()[static_cast<size_t>(id)];
    if ((value.form.manual | value.banned) != 0) return true;
  }
  return false;
}

Result<Computation*> Partitioner::Emit(const Computation& from, std::span<const Form> root,
                                       Computation* caller) {
  Computation* into = module_.AddComputation(module_.UniqueName(from.name()), caller);
  into->set_execution_thread(from.execution_thread());
  const bool entry = &from == module_.entry();
  TRY(ComputationPartitioner(*this, from, *into, entry).Run(root));
  return into;
}

// Names go to the program of one device; layouts, aliases and counts are of parts.
void Partitioner::UpdateConfig(const Computation& whole) {
  hlo::ModuleConfig& config = module_.config();
  config.num_partitions = mesh_.devices;
  config.num_partitions_written = true;
  config.propagate_sharding_to_parameters.clear();
  config.propagate_sharding_to_output.clear();
  std::vector<Form> parameters;
  std::vector<std::vector<Form>> by_parameter;
  for (const Instruction* p : whole.parameters()) {
    std::vector<Form>& forms = by_parameter.emplace_back();
    for (size_t leaf = 0; leaf < table_.ValuesOf(p).size(); ++leaf) {
      forms.push_back(FormOf(p, leaf));
      parameters.push_back(forms.back());
    }
  }
  std::vector<Form> results;
  for (size_t leaf = 0; leaf < table_.ValuesOf(whole.root()).size(); ++leaf) {
    results.push_back(FormOf(whole.root(), leaf));
  }
  if (config.entry_layout) {
    size_t at = 0;
    config.entry_layout->result = LocalShapeOf(config.entry_layout->result, results, at, mesh_);
    for (size_t p = 0; p < config.entry_layout->parameters.size(); ++p) {
      Shape& shape = config.entry_layout->parameters[p];
      shape = LocalShapeOf(shape, by_parameter[p], at = 0, mesh_);
    }
  }
  const Computation& entry = *module_.entry();
  std::erase_if(config.input_output_alias, [&](const hlo::InputOutputAlias& alias) {
    const Shape* from = entry.parameter(alias.parameter)->shape().SubShape(alias.parameter_index);
    const Shape* to = entry.root()->shape().SubShape(alias.output);
    return from == nullptr || to == nullptr || !Shape::Compatible(*from, *to);
  });
  auto note = [&](std::string_view key, std::span<const Form> forms) {
    hlo::Sharding all;
    all.kind = hlo::Sharding::Kind::kTuple;
    for (const Form& form : forms) all.elements.push_back(PrintForm(form, mesh_));
    config.frontend_attributes.push_back({std::string(key), all.ToString()});
  };
  note(kParameterShardings, parameters);
  note(kResultShardings, results);
}

Status Partitioner::Run() {
  Computation* whole = module_.entry();
  std::vector<Form> root;
  for (size_t leaf = 0; leaf < table_.ValuesOf(whole->root()).size(); ++leaf) {
    root.push_back(FormOf(whole->root(), leaf));
  }
  Computation* local = TRY(Emit(*whole, root, nullptr));
  const std::string name = whole->name();
  module_.set_entry(local);
  UpdateConfig(*whole);
  module_.RemoveUnusedComputations();
  local->set_name(name);
  return {};
}

}  // namespace spmd

namespace {

// Shardings of scalars in functions of reductions say nothing (JAX states them where a manual
// computation leaves axes to the compiler), and the functions would be no plain sums.
Result<bool> DropScalarShardings(hlo::Module& module) {
  std::vector<const hlo::Computation*> functions;
  for (const auto& computation : module.computations()) {
    for (const hlo::Instruction* i : *computation) {
      const bool calls = i->op() == hlo::Op::kCall || i->op() == hlo::Op::kWhile ||
                         i->op() == hlo::Op::kConditional || HasTrait(i->op(), hlo::kAsyncStart);
      if (calls) continue;
      for (const hlo::Computation* function : i->called_computations()) {
        functions.push_back(function);
      }
    }
  }
  std::ranges::sort(functions);
  return RewriteEach(module, [&](hlo::Instruction* i) -> Result<bool> {
    const bool stated = spmd::IsCallOf(*i, spmd::kSharding) && i->shape().IsArray();
    if (!stated || i->shape().rank() != 0) return false;
    if (!std::ranges::binary_search(functions, i->parent())) return false;
    ReplaceWithValue(i, i->operand(0));
    return true;
  });
}

}  // namespace

Result<bool> Partition(hlo::Module& module, const PassContext& context) {
  if (module.config().is_scheduled) return InvalidArgument("partition: the module is scheduled");
  const spmd::DeviceMesh mesh = TRY(spmd::DeviceMesh::Of(module));
  if (mesh.devices == 1) return false;
  TRY(SeparateComputations(module, context));
  TRY(DropScalarShardings(module));
  spmd::ValueTable table = TRY(spmd::ValueTable::Of(module, mesh));
  spmd::Partitioner program(module, mesh, table, spmd::LinkModel::Of(context.target));
  TRY(program.Run());
  return true;
}

}  // namespace weft::compiler
