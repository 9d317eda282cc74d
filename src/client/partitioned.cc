#include "client/partitioned.h"

#include <utility>

#include "base/str.h"
#include "client/custom_calls.h"
#include "client/custom_partitioning.h"
#include "client/evaluator_runner.h"
#include "compiler/pipeline.h"
#include "compiler/spmd/joined.h"
#include "hlo/builder.h"
#include "hlo/clone.h"
#include "hlo/text.h"
#include "hlo/verify.h"

namespace weft::client {
namespace {

using hlo::Instruction;
using hlo::Op;

// jax.debug.inspect_array_sharding: a call whose operand's sharding a Python function wants to
// hear.
constexpr std::string_view kInspectTarget = "InspectSharding", kInspectId = "weft:";

Status TellOne(const Instruction& call, int64_t devices) {
  std::string_view config = BackendConfig(call);
  if (!config.starts_with(kInspectId) || call.operand_count() != 1) return {};
  std::optional<int64_t> id = ParseInt(config.substr(kInspectId.size()));
  if (!id) return {};
  const Instruction& value = *call.operand(0);
  Shards shards = TRY(Shards::Of(value.sharding(), value.shape(), devices));
  return TellFramework(static_cast<uint64_t>(*id), SerializeSharding(shards));
}

// Once shardings are settled the calls have done their work.
Status TellAndRemove(hlo::Module& module, int64_t devices) {
  for (const auto& computation : module.computations()) {
    for (Instruction* i : computation->Snapshot()) {
      if (i->op() != Op::kCustomCall ||
          i->attrs<hlo::CustomCallAttrs>().custom_call_target != kInspectTarget) {
        continue;
      }
      TRY(TellOne(*i, devices));
      if (i->users().empty() && !i->IsRoot()) computation->Remove(i);
    }
  }
  return {};
}

// Axes go from the minor end until the parts of every dimension are equal.
void TrimUneven(hlo::Sharding& sharding, const Shape& shape) {
  if (sharding.kind != hlo::Sharding::Kind::kNamed || !shape.IsArray()) return;
  hlo::NamedSharding& named = *sharding.named;
  for (size_t d = 0; d < named.dims.size() && static_cast<int64_t>(d) < shape.rank(); ++d) {
    std::vector<hlo::AxisRef>& axes = named.dims[d].axes;
    auto parts = [&] {
      int64_t count = 1;
      for (const hlo::AxisRef& ref : axes) {
        count *= ref.sub ? ref.sub->second : named.mesh.axes[static_cast<size_t>(ref.axis)].size;
      }
      return count;
    };
    while (!axes.empty() && shape.dim(static_cast<int64_t>(d)) % parts() != 0) axes.pop_back();
  }
}

// Frameworks hold arrays in equal parts only; inside of the program others may lie otherwise.
Status CutResultsEvenly(hlo::Module& module) {
  hlo::Computation& entry = *module.entry();
  Instruction* root = entry.root();
  if (root->sharding() == nullptr) return {};
  hlo::Sharding even = *root->sharding();
  if (root->shape().IsTuple()) {
    for (size_t k = 0; k < even.elements.size(); ++k) {
      TrimUneven(even.elements[k], root->shape().tuple_element(static_cast<int64_t>(k)));
    }
    root->mutable_extras().sharding.Make() = std::move(even);
    return {};
  }
  TrimUneven(even, root->shape());
  if (even == *root->sharding()) return {};
  hlo::Builder b(entry, nullptr, root);
  Instruction* copy = TRY(b.Add(Op::kCopy, {root}));
  copy->mutable_extras().sharding.Make() = std::move(even);
  entry.set_root(copy);
  return {};
}

// The shardings that the partitioned module notes, taken out of it.
Result<std::vector<Shards>> TakeNoted(hlo::Module& module, std::string_view key,
                                      std::span<const Shape* const> leaves, int64_t devices) {
  auto& attributes = module.config().frontend_attributes;
  for (auto it = attributes.begin(); it != attributes.end(); ++it) {
    if (it->key != key) continue;
    const hlo::Sharding all = TRY(hlo::ParseSharding(it->value));
    attributes.erase(it);
    if (all.elements.size() != leaves.size()) break;
    std::vector<Shards> shards;
    for (size_t k = 0; k < leaves.size(); ++k) {
      const bool token = !leaves[k]->IsArray();
      shards.push_back(TRY(Shards::Of(token ? nullptr : &all.elements[k],
                                      token ? TokenStandIn() : *leaves[k], devices)));
    }
    return shards;
  }
  return MakeError(Code::kInternal, "partition: no ", key, " for ", leaves.size(), " arrays");
}

// Sizes of parts decide whether a donated argument can be a result's place; one that cannot stays
// its owner's. Where the shapes are the same too, the result is promised that place.
void MatchDonors(hlo::Module& module) {
  hlo::ModuleConfig& config = module.config();
  const Shape& root = module.entry()->root()->shape();
  const int64_t outputs = root.IsTuple() ? root.tuple_size() : 1;
  std::vector<bool> taken(static_cast<size_t>(outputs), false);
  for (const hlo::InputOutputAlias& alias : config.input_output_alias) {
    const size_t output = alias.output.empty() ? 0 : static_cast<size_t>(alias.output[0]);
    if (output < taken.size()) taken[output] = true;
  }
  // The first result that is free and fits; -1: none.
  auto take = [&](const Shape& from, bool same_shape) -> int64_t {
    for (int64_t k = 0; from.IsArray() && k < outputs; ++k) {
      const Shape& to = root.IsTuple() ? root.tuple_element(k) : root;
      if (taken[static_cast<size_t>(k)] || !to.IsArray()) continue;
      const bool same = from.dtype() == to.dtype() && Shape::SameDims(from, to);
      if (same_shape ? !same : from.ByteSize() != to.ByteSize()) continue;
      taken[static_cast<size_t>(k)] = true;
      return k;
    }
    return -1;
  };
  std::erase_if(config.buffer_donors, [&](const auto& donor) {
    if (!donor.index.empty()) return false;
    const int64_t k = take(module.entry()->parameter(donor.parameter)->shape(), true);
    if (k < 0) return false;
    hlo::InputOutputAlias& alias = config.input_output_alias.emplace_back();
    alias.parameter = donor.parameter;
    if (root.IsTuple()) alias.output = {k};
    return true;
  });
  std::erase_if(config.buffer_donors, [&](const auto& donor) {
    return donor.index.empty() &&
           take(module.entry()->parameter(donor.parameter)->shape(), false) < 0;
  });
}

}  // namespace

Result<PartitionedProgram> PartitionProgram(const hlo::Module& module,
                                            const CompileRequest& request,
                                            const compiler::CompileOptions& options,
                                            const runtime::Device* device,
                                            inspect::CompileWatch& watch) {
  PartitionedProgram program{.module = hlo::CloneModule(module), .parameters = {}, .results = {}};
  hlo::ModuleConfig& config = program.module->config();
  const int64_t devices = request.num_partitions;
  config.replica_count = request.num_replicas;
  config.num_partitions = devices;
  config.propagate_sharding_to_parameters = request.propagate_sharding_to_parameters;
  config.propagate_sharding_to_output = {true};  // what is not stated is ours to choose
  const program::TargetInfo target = device != nullptr ? device->target() : program::TargetInfo();
  auto run = [&](std::string_view pass) -> Status {
    std::vector<const compiler::Pass*> passes = TRY(compiler::FindPasses(pass));
    TRY(compiler::RunPasses(*program.module, passes, options, watch.Hooks(), target));
    return {};
  };
  TRY(run("propagate-shardings"));
  if (TRY(SplitCustomPartitioning(*program.module, devices))) TRY(run("propagate-shardings"));
  TRY(TellAndRemove(*program.module, devices));
  TRY(CutResultsEvenly(*program.module));
  TRY(run("partition"));
  MatchDonors(*program.module);
  TRY(hlo::Verify(*program.module));
  std::vector<const Shape*> leaves;
  for (const Instruction* p : module.entry()->parameters()) {
    for (const Shape* leaf : compiler::spmd::LeavesOf(p->shape())) leaves.push_back(leaf);
  }
  program.parameters =
      TRY(TakeNoted(*program.module, compiler::spmd::kParameterShardings, leaves, devices));
  program.results =
      TRY(TakeNoted(*program.module, compiler::spmd::kResultShardings,
                    compiler::spmd::LeavesOf(module.entry()->root()->shape()), devices));
  return program;
}

}  // namespace weft::client
