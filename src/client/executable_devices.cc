// Programs of several devices: the part of each.
#include <utility>

#include "base/str.h"
#include "client/client.h"
#include "client/executable.h"
#include "client/partitioned.h"
#include "hlo/builder.h"
#include "hlo/clone.h"

namespace weft::client {
namespace {

using hlo::Instruction;
using hlo::Op;

// Devices of a GPU client do not talk to each other yet.
Status CheckCollectives(const hlo::Module& module, const CompileRequest& request) {
  for (const auto& computation : module.computations()) {
    for (const Instruction* i : *computation) {
      if (!hlo::IsCollective(i->op())) continue;
      Error error(Code::kUnimplemented,
                  StrCat(i->def().mnemonic, ": between ", request.device_count(),
                         " devices of a GPU client: not implemented yet"));
      error.Source(i->SourceLocation());
      error.Hint("WEFT_PLATFORM=cpu runs it on devices of the processor");
      return std::unexpected(std::move(error));
    }
  }
  return {};
}

// The module of one device alone. Whether it asks which one it is.
Result<bool> NumberDevice(hlo::Module& module, int64_t device) {
  bool asks = false;
  hlo::ModuleConfig& config = module.config();
  const int64_t partitions = std::max<int64_t>(config.num_partitions, 1);
  for (const auto& computation : module.computations()) {
    for (Instruction* i : computation->Snapshot()) {
      const bool partition = i->op() == Op::kPartitionId;
      if (!partition && i->op() != Op::kReplicaId) continue;
      asks = true;
      hlo::Builder b(*computation, i, i);
      const int64_t number = partition ? device % partitions : device / partitions;
      hlo::ReplaceInstruction(i, b.ScalarConstant(i->shape().dtype(), number));
    }
  }
  config.replica_count = config.num_partitions = 1;
  return asks;
}

}  // namespace

Status Executable::SplitModule(Client& client, const compiler::CompileOptions& options,
                               inspect::CompileWatch& watch) {
  PartitionedProgram program =
      TRY(PartitionProgram(*module_, request_, options, client.native_device(), watch));
  if (program.parameters.size() != parameters_.size() ||
      program.results.size() != outputs_.size()) {
    return Unimplemented("compile: ", name_, " has nested tuples and runs on several devices");
  }
  for (size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i] = program.parameters[i].ShardShape(parameters_[i]);
    parameter_shardings_[i] = SerializeSharding(program.parameters[i]);
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    outputs_[i].shape = program.results[i].ShardShape(outputs_[i].shape);
    outputs_[i].sharding = SerializeSharding(program.results[i]);
  }
  part_ = std::move(program.module);
  DescribeDonation();
  DescribeAliases();
  return {};
}

Status Executable::MakeParts(Client& client, inspect::CompileWatch& watch) {
  TRY(CheckCollectives(Local(), request_));
  CompileRequest alone = request_;
  alone.num_replicas = alone.num_partitions = 1;
  alone.device_assignment.clear();
  bool asks = true;
  for (int64_t device = 0; device < request_.device_count(); ++device) {
    if (!asks) {
      parts_.push_back(parts_[0]);
      continue;
    }
    std::unique_ptr<hlo::Module> own = hlo::CloneModule(Local());
    own->config().num_partitions = request_.num_partitions;
    asks = TRY(NumberDevice(*own, device));
    parts_.push_back(TRY(Make(client, std::move(own), alone, fingerprint_, watch)));
  }
  how_ = parts_[0]->how_;
  return {};
}

}  // namespace weft::client
