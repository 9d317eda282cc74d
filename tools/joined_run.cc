#include "joined_run.h"

#include <utility>

#include "compiler/pipeline.h"
#include "compiler/spmd/joined.h"
#include "compiler/spmd/values.h"
#include "hlo/clone.h"
#include "hlo/evaluate.h"
#include "hlo/random_arguments.h"
#include "inspect/fault.h"
#include "native.h"

namespace weft::tools {
namespace {

// Whole arguments: those given, the others random.
Result<std::vector<Literal>> WholeArguments(const hlo::Module& whole, const RunOptions& options) {
  std::vector<Literal> leaves, random = TRY(hlo::RandomArguments(*whole.entry(), options.seed));
  for (const Literal& argument : random) inspect::AppendArrays(argument, leaves);
  if (options.inputs.size() > leaves.size()) {
    return InvalidArgument(options.inputs.size(), " inputs are given, the parameters have ",
                           leaves.size());
  }
  for (size_t k = 0; k < options.inputs.size(); ++k) leaves[k] = options.inputs[k];
  return inspect::ArgumentsFromLeaves(whole, leaves);
}

void AppendLeavesOf(const Literal& value, std::vector<Literal>& leaves) {
  if (!value.shape().IsTuple()) return leaves.push_back(value);
  for (const Literal& element : value.tuple()) AppendLeavesOf(element, leaves);
}

RunResult ResultOf(const Literal& joined) {
  RunResult result;
  AppendLeavesOf(joined, result.devices.emplace_back());
  result.is_tuple = joined.shape().IsTuple();
  return result;
}

// Arrays in order, as values of the shape; what is no array is not among them.
Literal TreeOf(const Shape& shape, std::vector<Literal>& arrays, size_t& next) {
  if (shape.IsArray()) return std::move(arrays[next++]);
  if (!shape.IsTuple()) return Literal::Token();
  std::vector<Literal> elements;
  for (const Shape& element : shape.elements_of_tuple()) {
    elements.push_back(TreeOf(element, arrays, next));
  }
  return Literal::Tuple(std::move(elements));
}

// With collectives, or its own number, outside of manual computations: split already.
bool IsOfOneDevice(const hlo::Module& module) {
  bool meets = false;
  for (const auto& computation : module.computations()) {
    for (const hlo::Instruction* i : *computation) {
      meets |= hlo::IsCollective(i->op()) || i->op() == hlo::Op::kPartitionId;
      if (i->op() == hlo::Op::kCustomCall &&
          i->attrs<hlo::CustomCallAttrs>().custom_call_target == compiler::spmd::kFullToShard) {
        return false;
      }
    }
  }
  return meets;
}

}  // namespace

bool IsToSplit(const hlo::Module& module) {
  if (module.config().num_partitions <= 1 || compiler::spmd::IsPartitioned(module)) return false;
  if (IsOfOneDevice(module)) return false;
  for (const hlo::Instruction* parameter : module.entry()->parameters()) {
    if (parameter->sharding() != nullptr) return true;
  }
  return module.entry()->root()->sharding() != nullptr;
}

Result<std::unique_ptr<hlo::Module>> Split(const hlo::Module& whole) {
  std::unique_ptr<hlo::Module> parts = hlo::CloneModule(whole);
  std::vector<const compiler::Pass*> passes =
      TRY(compiler::FindPasses("propagate-shardings,partition"));
  TRY(compiler::RunPasses(*parts, passes, compiler::CompileOptions()));
  return parts;
}

Result<RunResult> EvaluateParts(const hlo::Module& whole, const hlo::Module& parts,
                                const RunOptions& options) {
  std::vector<Literal> arguments = TRY(WholeArguments(whole, options));
  hlo::EvalOptions eval;
  eval.seed = options.seed;
  eval.flush_subnormals = options.flush_subnormals;
  if (options.max_loop_steps > 0) eval.max_loop_steps = options.max_loop_steps;
  return ResultOf(TRY(compiler::spmd::EvaluateJoined(whole, parts, arguments, eval)));
}

Result<RunResult> RunPartsNatively(const hlo::Module& whole, const hlo::Module& parts,
                                   const RunOptions& options,
                                   const compiler::CompileOptions& compile) {
  std::vector<Literal> arguments = TRY(WholeArguments(whole, options));
  NativeModule native = TRY(CompileNative(parts, compile));
  auto run = [&](std::span<std::vector<Literal>> own) -> Result<std::vector<Literal>> {
    std::vector<Literal> results;
    for (std::vector<Literal>& arrays : TRY(RunNativeOnDevices(native, own))) {
      size_t next = 0;
      results.push_back(TreeOf(parts.entry()->root()->shape(), arrays, next));
    }
    return results;
  };
  return ResultOf(TRY(compiler::spmd::RunJoined(whole, parts, arguments, run)));
}

}  // namespace weft::tools
