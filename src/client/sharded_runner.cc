#include "client/sharded_runner.h"

#include <algorithm>
#include <utility>

#include "base/str.h"
#include "client/custom_calls.h"
#include "client/executor.h"
#include "hlo/builder.h"
#include "hlo/clone.h"
#include "hlo/ops/called.h"
#include "hlo/verify.h"

namespace weft::client {
namespace {

using hlo::Instruction;
using hlo::Op;

constexpr std::string_view kToShard = "SPMDFullToShardShape", kToWhole = "SPMDShardToFullShape";

bool IsCallTo(const Instruction& instruction, std::string_view target) {
  return instruction.op() == Op::kCustomCall &&
         instruction.attrs<hlo::CustomCallAttrs>().custom_call_target == target;
}

std::vector<std::string> ManualAxes(const Instruction& instruction) {
  std::vector<std::string> axes;
  const std::string* text = instruction.FrontendAttributeValue("manual.axes");
  for (size_t at = 0; text != nullptr && at < text->size();) {
    size_t end = std::min(text->find(',', at), text->size());
    axes.push_back(text->substr(at, end - at));
    at = end + 1;
  }
  return axes;
}

// A number for each device: a table looked up by partition id.
Result<Instruction*> LookUp(hlo::Builder& b, const std::vector<int64_t>& by_device,
                            Instruction* partition) {
  int64_t devices = static_cast<int64_t>(by_device.size());
  Literal table(Shape(DType::kS32, {devices}));
  for (int64_t i = 0; i < devices; ++i) table.SetInt(i, by_device[static_cast<size_t>(i)]);
  hlo::DynamicSliceAttrs one;
  one.dynamic_slice_sizes = {1};
  Instruction* found = TRY(b.Add(Op::kDynamicSlice, {b.Constant(std::move(table)), partition},
                                 hlo::Attrs(std::move(one))));
  return b.Reshape(found, {});
}

Result<Instruction*> PartitionId(hlo::Builder& b) {
  Shape u32 = Shape::Scalar(DType::kU32);
  Instruction* id = TRY(b.Add(Op::kPartitionId, {}, hlo::Attrs(), &u32));
  return b.Convert(id, DType::kS32);
}

// The first element that a device's block begins with, for one dimension.
Result<Instruction*> BlockStart(hlo::Builder& b, const Shards& shards, int64_t dim, int64_t size,
                                Instruction* partition) {
  std::vector<int64_t> starts;
  for (const Dims& block : shards.blocks) starts.push_back(block[dim] * size);
  return LookUp(b, starts, partition);
}

// The first part of a sum is all of it, the others are zero.
Result<Instruction*> KeepFirstPart(hlo::Builder& b, Instruction* block, const Shards& shards,
                                   Instruction* partition) {
  if (shards.parts == 1 || shards.reduction != hlo::ReductionKind::kSum) return block;
  Instruction* part = TRY(LookUp(b, shards.part_of, partition));
  Shape predicates(DType::kPred, block->shape().dims());
  Instruction* later = TRY(b.Convert(part, DType::kPred));
  Instruction* others = TRY(b.Broadcast(later, predicates, {}));
  Instruction* zeroes = TRY(b.Fill(block->shape(), 0));
  return b.Add(Op::kSelect, {others, zeroes, block});
}

// Pads a dimension that does not divide evenly, cuts the block out.
Result<Instruction*> CutBlock(hlo::Builder& b, Instruction* whole, const Shards& shards) {
  const Shape& shape = whole->shape();
  hlo::PadAttrs pad;
  hlo::DynamicSliceAttrs cut;
  bool uneven = false;
  for (int64_t d = 0; d < shape.rank(); ++d) {
    int64_t size = shards.BlockSize(shape, d), high = size * shards.counts[d] - shape.dim(d);
    pad.padding.push_back({0, high, 0});
    uneven |= high > 0;
    cut.dynamic_slice_sizes.push_back(size);
  }
  std::vector<Instruction*> operands = {whole};
  if (uneven) {
    Instruction* zero = b.Constant(Literal(Shape::Scalar(shape.dtype())));
    operands[0] = TRY(b.Add(Op::kPad, {whole, zero}, hlo::Attrs(std::move(pad))));
  }
  Instruction* partition = TRY(PartitionId(b));
  for (int64_t d = 0; d < shape.rank(); ++d) {
    operands.push_back(TRY(BlockStart(b, shards, d, shards.BlockSize(shape, d), partition)));
  }
  Instruction* block = TRY(b.Add(Op::kDynamicSlice, operands, hlo::Attrs(std::move(cut))));
  return KeepFirstPart(b, block, shards, partition);
}

Op CombiningOp(hlo::ReductionKind reduction) {
  switch (reduction) {
    case hlo::ReductionKind::kMax: return Op::kMaximum;
    case hlo::ReductionKind::kMin: return Op::kMinimum;
    default: return Op::kAdd;
  }
}

// One tile out of those of a group's devices, its parts combined.
Result<Instruction*> JoinParts(hlo::Builder& b, Instruction* all, const Shards& shards,
                               std::span<const int64_t> group, const Dims& at) {
  std::vector<int64_t> dims(all->shape().dims().begin() + 1, all->shape().dims().end());
  Instruction* joined = nullptr;
  for (int64_t part = 0; part < shards.parts; ++part) {
    auto holder = std::ranges::find_if(group, [&](int64_t device) {
      size_t d = static_cast<size_t>(device);
      return shards.blocks[d] == at && shards.part(d) == part;
    });
    if (holder == group.end()) return InvalidArgument("sharding: no device holds a block");
    hlo::SliceAttrs slice;
    int64_t first = holder - group.begin();
    slice.slice.push_back({first, first + 1, 1});
    for (int64_t dim : dims) slice.slice.push_back({0, dim, 1});
    Instruction* block = TRY(b.Add(Op::kSlice, {all}, hlo::Attrs(std::move(slice))));
    block = TRY(b.Reshape(block, dims));
    joined = joined == nullptr ? block : TRY(b.Add(CombiningOp(shards.reduction), {joined, block}));
  }
  return joined;
}

// [1, block...] of every device of a group gathered to [group, block...], then block by block in
// place.
Result<Instruction*> GatherBlocks(hlo::Builder& b, Instruction* shard, const Shape& whole,
                                  const Shards& shards) {
  int64_t rank = whole.rank();
  std::vector<int64_t> dims = {1};
  for (int64_t d = 0; d < rank; ++d) dims.push_back(shard->shape().dim(d));
  Instruction* one = TRY(b.Reshape(shard, dims));
  hlo::AllGatherAttrs gather;
  gather.channel_id = 1;
  gather.use_global_device_ids = true;
  gather.dimensions = {0};
  auto& groups = gather.replica_groups.groups;
  groups = shards.groups;
  if (groups.empty()) {
    groups.emplace_back();
    for (int64_t i = 0; i < std::ssize(shards.blocks); ++i) groups[0].push_back(i);
  }
  const std::vector<int64_t> group = groups[0];  // devices stand in the same order in the others
  dims[0] = std::ssize(group);
  Shape gathered(shard->shape().dtype(), dims);
  Instruction* all =
      TRY(b.Add(Op::kAllGather, std::span(&one, 1), hlo::Attrs(std::move(gather)), &gathered));
  // Concatenated dimension by dimension, from the last to the first.
  std::vector<Instruction*> blocks;  // in row-major order of the tiles
  int64_t tiles = 1;
  for (int64_t n : shards.counts) tiles *= n;
  for (int64_t t = 0; t < tiles; ++t) {
    Dims at(static_cast<size_t>(rank), 0);
    int64_t rest = t;
    for (int64_t d = rank; d-- > 0; rest /= shards.counts[d]) at[d] = rest % shards.counts[d];
    blocks.push_back(TRY(JoinParts(b, all, shards, group, at)));
  }
  for (int64_t d = rank; d-- > 0;) {
    size_t n = static_cast<size_t>(shards.counts[d]);
    if (n == 1) continue;
    std::vector<Instruction*> joined;
    for (size_t i = 0; i < blocks.size(); i += n) {
      hlo::DimensionsAttrs along;
      along.dimensions = {d};
      joined.push_back(TRY(
          b.Add(Op::kConcatenate, std::span(blocks).subspan(i, n), hlo::Attrs(std::move(along)))));
    }
    blocks = std::move(joined);
  }
  hlo::SliceAttrs trim;  // the padding goes
  for (int64_t d = 0; d < rank; ++d) trim.slice.push_back({0, whole.dim(d), 1});
  return b.Add(Op::kSlice, {blocks[0]}, hlo::Attrs(std::move(trim)));
}

Status SpellOut(Instruction* call, int64_t devices) {
  bool to_shard = IsCallTo(*call, kToShard);
  std::vector<std::string> axes = ManualAxes(*call);
  const Shape& whole = to_shard ? call->operand(0)->shape() : call->shape();
  Shards shards = TRY(Shards::Of(call->sharding(), whole, devices, axes));
  hlo::Builder b(*call->parent(), call, call);
  Instruction* value = call->operand(0);
  if (!shards.IsReplicated()) {
    value = to_shard ? TRY(CutBlock(b, value, shards))
                     : TRY(GatherBlocks(b, value, call->shape(), shards));
  }
  if (!Shape::SameDims(value->shape(), call->shape())) {
    return InvalidArgument(to_shard ? kToShard : kToWhole, ": ", call->name(), " is ",
                           call->shape().ToStringWithoutLayout(), ", by its sharding it would be ",
                           value->shape().ToStringWithoutLayout());
  }
  call->ReplaceAllUsesWith(value);
  call->parent()->Remove(call);
  return {};
}

bool HasPartitioned(const hlo::Module& module) {
  for (const auto& computation : module.computations()) {
    for (const Instruction* instruction : *computation) {
      if (IsPartitionedCallback(*instruction)) return true;
    }
  }
  return false;
}

// One call for each device.
Status SplitCall(Instruction* call, std::span<const Shards> operands, int64_t devices) {
  hlo::Builder b(*call->parent(), call, call);
  Instruction* last = nullptr;
  for (int64_t device = 0; device < devices; ++device) {
    std::vector<Instruction*> parts(call->operands().begin(), call->operands().end());
    for (size_t k = 0; k < parts.size() && k < operands.size(); ++k) {
      const Shape& shape = parts[k]->shape();
      if (!shape.IsArray() || operands[k].IsReplicated()) continue;
      hlo::SliceAttrs slice;
      for (int64_t d = 0; d < shape.rank(); ++d) {
        int64_t size = operands[k].BlockSize(shape, d);
        int64_t start = operands[k].blocks[static_cast<size_t>(device)][d] * size;
        slice.slice.push_back({start, start + size, 1});
      }
      parts[k] = TRY(b.Add(Op::kSlice, {parts[k]}, hlo::Attrs(std::move(slice))));
    }
    hlo::Attrs attrs = call->attrs();
    attrs.Mutable<hlo::CustomCallAttrs>().operand_layout_constraints.clear();
    last = TRY(b.Add(Op::kCustomCall, parts, std::move(attrs), &call->shape()));
    hlo::CopyFacts(*call, *last);
  }
  call->ReplaceAllUsesWith(last);
  call->parent()->Remove(call);
  return {};
}

Status SplitCalls(hlo::Module& module, const ShardsOfCalls& calls, int64_t devices) {
  for (const auto& computation : module.computations()) {
    for (Instruction* instruction : computation->Snapshot()) {
      auto operands = calls.find(instruction);
      if (operands == calls.end() || !IsPartitionedCallback(*instruction)) continue;
      TRY(SplitCall(instruction, operands->second, devices));
    }
  }
  return hlo::Verify(module);
}

// jax.debug.inspect_array_sharding: a call whose operand's sharding a Python function wants to
// hear.
constexpr std::string_view kInspect = "InspectSharding", kInspectPrefix = "weft:";

bool IsInspected(const Instruction& instruction) {
  return IsCallTo(instruction, kInspect) && BackendConfig(instruction).starts_with(kInspectPrefix);
}

Status TellInspected(const hlo::Module& module, const ShardsOfCalls& calls) {
  for (const auto& computation : module.computations()) {
    for (const Instruction* instruction : *computation) {
      auto operands = calls.find(instruction);
      if (operands == calls.end() || operands->second.empty() || !IsInspected(*instruction)) {
        continue;
      }
      std::optional<int64_t> id =
          ParseInt(BackendConfig(*instruction).substr(kInspectPrefix.size()));
      if (!id) continue;
      TRY(TellFramework(static_cast<uint64_t>(*id), SerializeSharding(operands->second[0])));
    }
  }
  return {};
}

// The sharding of one result; null: none.
const hlo::Sharding* ResultSharding(const Instruction& root, int64_t index) {
  const hlo::Sharding* sharding = root.sharding();
  if (sharding == nullptr || sharding->kind != hlo::Sharding::Kind::kTuple) return sharding;
  if (index >= static_cast<int64_t>(sharding->elements.size())) return nullptr;
  return &sharding->elements[static_cast<size_t>(index)];
}

}  // namespace

bool HasManual(const hlo::Module& module) {
  for (const auto& computation : module.computations()) {
    for (const Instruction* instruction : *computation) {
      if (IsCallTo(*instruction, kToShard) || IsCallTo(*instruction, kToWhole) ||
          hlo::IsCollective(instruction->op()) || instruction->op() == Op::kPartitionId) {
        return true;
      }
    }
  }
  return false;
}

Status MakeSynchronous(hlo::Module& module) {
  for (const auto& computation : module.computations()) {
    for (Instruction* done : computation->Snapshot()) {
      if (done->op() != Op::kAsyncDone || done->operand(0)->op() != Op::kAsyncStart) continue;
      Instruction* start = done->operand(0);
      hlo::Builder b(*computation, done, done);
      Instruction* call = TRY(b.Call(start->attrs<hlo::AsyncAttrs>().calls, start->operands()));
      hlo::ReplaceInstruction(done, call);
      if (start->users().empty() && !start->IsRoot()) computation->Remove(start);
    }
  }
  return {};
}

Status SpellOutManual(hlo::Module& module, int64_t devices) {
  for (const auto& computation : module.computations()) {
    for (Instruction* instruction : computation->Snapshot()) {
      if (IsCallTo(*instruction, kToShard) || IsCallTo(*instruction, kToWhole)) {
        TRY(SpellOut(instruction, devices));
      }
    }
  }
  return hlo::Verify(module);
}

namespace {

// Whether the instruction hands out, or takes in, exactly these shards.
bool HasShards(const Instruction& call, std::string_view target, const Shards& shards,
               int64_t devices) {
  if (!IsCallTo(call, target)) return false;
  const Shape& whole = target == kToShard ? call.operand(0)->shape() : call.shape();
  Result<Shards> own = Shards::Of(call.sharding(), whole, devices, ManualAxes(call));
  if (own) own->groups.clear();
  const Shape& shard = target == kToShard ? call.shape() : call.operand(0)->shape();
  return own && *own == shards && Shape::SameDims(shards.ShardShape(whole), shard);
}

// The parameter becomes the shard that all its users cut out of it.
bool PassParameter(Instruction* parameter, const Shards& shards, int64_t devices) {
  std::vector<Instruction*> users(parameter->users().begin(), parameter->users().end());
  if (users.empty() || parameter->IsRoot()) return false;
  for (const Instruction* user : users) {
    if (!HasShards(*user, kToShard, shards, devices)) return false;
  }
  parameter->mutable_shape() = shards.ShardShape(parameter->shape());
  for (Instruction* user : users) {
    user->ReplaceAllUsesWith(parameter);
    user->parent()->Remove(user);
  }
  return true;
}

// Element k of the root tuple becomes the shard that it is put together from.
bool PassResult(Instruction* root, int64_t k, const Shards& shards, int64_t devices) {
  Instruction* value = root->operand(k);
  if (!HasShards(*value, kToWhole, shards, devices)) return false;
  root->ReplaceOperand(k, value->operand(0));
  root->mutable_shape().mutable_tuple()[static_cast<size_t>(k)] =
      hlo::StripLayout(value->operand(0)->shape());
  if (value->users().empty()) value->parent()->Remove(value);
  return true;
}

bool IsRowMajorEntry(const hlo::ModuleConfig& config) {
  if (!config.entry_layout) return true;
  auto row_major = [](const Shape& shape) {
    return !shape.IsArray() || shape.layout() == nullptr || shape.layout()->IsRowMajor();
  };
  const Shape& result = config.entry_layout->result;
  return std::ranges::all_of(config.entry_layout->parameters, row_major) && row_major(result) &&
         (!result.IsTuple() || std::ranges::all_of(result.elements_of_tuple(), row_major));
}

}  // namespace

// Where a device's shard is all that the program wants of an array, no whole one is made.
void ShardedRunner::PassShards() {
  hlo::ModuleConfig& config = rewritten_->config();
  Instruction* root = rewritten_->entry()->root();
  if (!IsRowMajorEntry(config)) return;
  config.entry_layout.reset();
  for (size_t p = 0; p < parameters_.size(); ++p) {
    Instruction* parameter = rewritten_->entry()->parameters()[p];
    passed_parameters_[p] =
        parameter->shape().IsArray() && PassParameter(parameter, parameters_[p], devices_);
  }
  for (size_t k = 0; root->op() == Op::kTuple && k < results_.size(); ++k) {
    passed_results_[k] = PassResult(root, static_cast<int64_t>(k), results_[k], devices_);
  }
  // A result of one size does not take the place of an argument of another.
  std::erase_if(config.input_output_alias, [&](const auto& alias) {
    size_t p = static_cast<size_t>(alias.parameter);
    size_t k = alias.output.empty() ? 0 : static_cast<size_t>(alias.output[0]);
    return p >= parameters_.size() || k >= results_.size() ||
           passed_parameters_[p] != passed_results_[k];
  });
}

Status ShardedRunner::MakeManual() {
  PassShards();
  TRY(SpellOutManual(*rewritten_, devices_));
  rewritten_->RemoveUnusedComputations();
  return {};
}

Result<std::unique_ptr<ShardedRunner>> ShardedRunner::Create(const hlo::Module& module,
                                                             const EvaluatorRunnerOptions& options,
                                                             const MakeNative& make) {
  std::unique_ptr<ShardedRunner> runner(new ShardedRunner);
  runner->devices_ = options.num_partitions;
  for (const Instruction* parameter : module.entry()->parameters()) {
    const bool token = parameter->shape().IsToken();
    runner->takes_token_.push_back(token);
    runner->parameter_shapes_.push_back(token ? TokenStandIn() : parameter->shape());
    runner->parameter_shapes_.back().ClearLayout();
    runner->parameters_.push_back(
        TRY(Shards::Of(token ? nullptr : parameter->sharding(), runner->parameter_shapes_.back(),
                       options.num_partitions)));
  }
  const Instruction& root = *module.entry()->root();
  const bool manual = HasManual(module), partitioned = !manual && HasPartitioned(module);
  if (manual || partitioned) runner->rewritten_ = hlo::CloneModule(module);
  const hlo::Module& evaluated = runner->rewritten_ ? *runner->rewritten_ : module;
  ShardsOfCalls calls;
  std::vector<Shards> own =
      PropagateShards(*evaluated.entry(), runner->parameters_, options.num_partitions, &calls);
  TRY(TellInspected(evaluated, calls));
  int64_t results = root.shape().IsTuple() ? root.shape().tuple_size() : 1;
  for (int64_t i = 0; i < results; ++i) {
    const Shape& shape = root.shape().IsTuple() ? root.shape().tuple_element(i) : root.shape();
    const bool token = shape.IsToken();
    const hlo::Sharding* stated = token ? nullptr : ResultSharding(root, i);
    if (stated == nullptr && static_cast<size_t>(i) < own.size() && shape.IsArray()) {
      runner->results_.push_back(std::move(own[static_cast<size_t>(i)]));
      continue;
    }
    runner->results_.push_back(
        TRY(Shards::Of(stated, token ? TokenStandIn() : shape, options.num_partitions)));
  }
  EvaluatorRunnerOptions evaluation = options;
  runner->everywhere_ = manual;
  runner->passed_parameters_.resize(runner->parameters_.size());
  runner->passed_results_.resize(runner->results_.size());
  if (manual) {
    TRY(runner->MakeManual());
  } else {
    evaluation.num_partitions = 1;
  }
  if (partitioned) TRY(SplitCalls(*runner->rewritten_, calls, options.num_partitions));
  if (make) {
    Result<std::unique_ptr<Runner>> made = make(evaluated, evaluation.num_partitions);
    if (made) runner->native_ = std::move(*made);
  }
  if (!runner->native_) {
    runner->evaluator_ = TRY(hlo::Evaluator::Prepare(evaluated, EvalOptionsFor(evaluation)));
  }
  return runner;
}

Result<Literal> ShardedRunner::WholeArgument(std::span<std::vector<Literal>> arguments,
                                             size_t p) const {
  if (takes_token_[p]) return Literal::Token();
  std::vector<const Literal*> shards;
  for (const std::vector<Literal>& of_device : arguments) shards.push_back(&of_device[p]);
  return JoinShards(parameter_shapes_[p], parameters_[p], shards);
}

// Once, or on every device.
Result<std::vector<std::vector<Literal>>> ShardedRunner::RunModule(
    std::span<std::vector<Literal>> arguments, const std::atomic<bool>* cancel) const {
  if (native_) return native_->Run(arguments, cancel);
  std::vector<std::vector<Literal>> results;
  if (!everywhere_) {
    results.push_back(FlattenResult(TRY(evaluator_->Run(arguments[0], cancel))));
    return results;
  }
  Executor::BlockingScope blocking;  // the devices run on threads of their own
  for (Literal& value : TRY(evaluator_->RunOnDevices(arguments, cancel))) {
    results.push_back(FlattenResult(std::move(value)));
  }
  return results;
}

Result<std::vector<std::vector<Literal>>> ShardedRunner::Run(
    std::span<std::vector<Literal>> arguments, const std::atomic<bool>* cancel) const {
  std::vector<std::vector<Literal>> taken(everywhere_ ? arguments.size() : 1);
  for (size_t p = 0; p < parameters_.size(); ++p) {
    Literal whole;
    if (!passed_parameters_[p]) whole = TRY(WholeArgument(arguments, p));
    for (size_t d = 0; d < taken.size(); ++d) {
      taken[d].push_back(passed_parameters_[p] ? std::move(arguments[d][p]) : whole);
    }
  }
  for (std::vector<Literal>& of_device : arguments) of_device.clear();
  std::vector<std::vector<Literal>> given = TRY(RunModule(taken, cancel));
  for (const std::vector<Literal>& values : given) {
    if (values.size() == results_.size()) continue;
    return MakeError(Code::kInternal, "execute: ", values.size(), " results, expected ",
                     results_.size());
  }
  std::vector<std::vector<Literal>> by_device(static_cast<size_t>(devices_));
  for (size_t k = 0; k < results_.size(); ++k) {
    for (size_t d = 0; d < by_device.size(); ++d) {
      // Every device has the same whole results.
      by_device[d].push_back(
          passed_results_[k] ? std::move(given[d][k])
                             : TRY(TakeShard(given[0][k], results_[k], static_cast<int64_t>(d))));
    }
  }
  return by_device;
}

}  // namespace weft::client
