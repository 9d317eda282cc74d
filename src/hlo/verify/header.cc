// The module's header against its entry computation.
#include <set>

#include "hlo/ops/called.h"
#include "hlo/verify/rules.h"

namespace weft::hlo {
namespace {

std::vector<int64_t> AsVector(const ShapeIndex& index) {
  return {index.begin(), index.end()};
}

Status CheckEntryLayout(const Computation& entry, const EntryLayout& layout) {
  if (layout.parameters.size() != entry.parameters().size()) {
    return InvalidArgument("entry_computation_layout has ", layout.parameters.size(),
                           " parameters, ", entry.name(), " has ", entry.parameters().size());
  }
  for (size_t i = 0; i < layout.parameters.size(); ++i) {
    TRY(VerifyShape(layout.parameters[i]));
    if (!ShapesMatch(layout.parameters[i], entry.parameters()[i]->shape())) {
      return InvalidArgument("entry_computation_layout has ",
                             layout.parameters[i].ToStringWithoutLayout(), " for parameter ", i,
                             ", which is ", entry.parameters()[i]->shape().ToStringWithoutLayout());
    }
  }
  TRY(VerifyShape(layout.result));
  if (!ShapesMatch(layout.result, entry.root()->shape())) {
    return InvalidArgument("entry_computation_layout returns ",
                           layout.result.ToStringWithoutLayout(), ", ", entry.name(), " returns ",
                           entry.root()->shape().ToStringWithoutLayout());
  }
  return {};
}

Result<const Shape*> ParameterAt(std::string_view what, const Computation& entry, int64_t parameter,
                                 const ShapeIndex& index) {
  if (parameter < 0 || parameter >= static_cast<int64_t>(entry.parameters().size())) {
    return InvalidArgument(what, " names parameter ", parameter, ", there are ",
                           entry.parameters().size());
  }
  const Shape* shape = entry.parameter(parameter)->shape().SubShape(index);
  if (shape == nullptr) {
    return InvalidArgument(what, " names index ", ShapeIndexToString(index), " of parameter ",
                           parameter, ", which is ",
                           entry.parameter(parameter)->shape().ToStringWithoutLayout());
  }
  return shape;
}

Status CheckAliasConfig(const Computation& entry, const ModuleConfig& config) {
  std::set<std::vector<int64_t>> outputs;
  std::set<std::pair<int64_t, std::vector<int64_t>>> parameters;
  for (const InputOutputAlias& alias : config.input_output_alias) {
    const Shape* output = entry.root()->shape().SubShape(alias.output);
    if (output == nullptr) {
      return InvalidArgument("input_output_alias names output ", ShapeIndexToString(alias.output),
                             ", the result is ", entry.root()->shape().ToStringWithoutLayout());
    }
    const Shape* parameter =
        TRY(ParameterAt("input_output_alias", entry, alias.parameter, alias.parameter_index));
    if (!outputs.insert(AsVector(alias.output)).second) {
      return InvalidArgument("input_output_alias names output ", ShapeIndexToString(alias.output),
                             " twice");
    }
    if (!parameters.emplace(alias.parameter, AsVector(alias.parameter_index)).second) {
      return InvalidArgument("input_output_alias names parameter ", alias.parameter, " index ",
                             ShapeIndexToString(alias.parameter_index), " twice");
    }
    if (alias.kind == AliasKind::kMust && !ShapesMatch(*output, *parameter)) {
      return InvalidArgument("input_output_alias joins ", output->ToStringWithoutLayout(), " and ",
                             parameter->ToStringWithoutLayout());
    }
  }
  for (const BufferDonor& donor : config.buffer_donors) {
    TRY(ParameterAt("buffer_donor", entry, donor.parameter, donor.index));
    if (parameters.contains({donor.parameter, AsVector(donor.index)})) {
      return InvalidArgument("buffer_donor names parameter ", donor.parameter, " index ",
                             ShapeIndexToString(donor.index), ", which is aliased too");
    }
  }
  return {};
}

}  // namespace

Status VerifyHeader(const Module& module) {
  const Computation& entry = *module.entry();
  const ModuleConfig& config = module.config();
  if (config.replica_count < 1) {
    return InvalidArgument("replica_count must be at least 1, got ", config.replica_count);
  }
  if (config.num_partitions < 1) {
    return InvalidArgument("num_partitions must be at least 1, got ", config.num_partitions);
  }
  if (config.entry_layout) TRY(CheckEntryLayout(entry, *config.entry_layout));
  return CheckAliasConfig(entry, config);
}

}  // namespace weft::hlo
