#include "client/evaluator_runner.h"

#include <limits>
#include <optional>
#include <utility>

#include "client/cost.h"
#include "client/custom_calls.h"
#include "client/executor.h"

namespace weft::client {
namespace {

// Evaluating takes about a nanosecond a unit; handing a task to another thread takes 5 to 50 us.
constexpr double kTinyWork = 50'000;

void FlattenInto(Literal value, std::vector<Literal>& leaves) {
  if (!value.shape().IsTuple()) {
    leaves.push_back(value.shape().IsToken() ? Literal(TokenStandIn()) : std::move(value));
    return;
  }
  for (Literal& element : std::move(value).TakeTuple()) FlattenInto(std::move(element), leaves);
}

// Elements of two and four bits lie packed in arrays; the evaluator has a byte for each.
Status UnpackAll(std::vector<Literal>& values) {
  for (Literal& value : values) {
    if (value.packed()) value = TRY(value.Unpacked());
  }
  return {};
}

// The arguments as the one tuple (of any depth) that the entry takes.
Literal TupleUp(const Shape& shape, std::vector<Literal>& leaves, size_t& next) {
  if (!shape.IsTuple()) {
    Literal leaf = std::move(leaves[next++]);
    return shape.IsToken() ? Literal::Token() : std::move(leaf);
  }
  std::vector<Literal> elements;
  for (const Shape& element : shape.elements_of_tuple()) {
    elements.push_back(TupleUp(element, leaves, next));
  }
  return Literal::Tuple(std::move(elements));
}

}  // namespace

Status Runner::RunAt(int64_t, std::span<std::byte* const>, std::span<std::byte* const>,
                     const std::atomic<bool>*) const {
  return Unimplemented("this program does not run on addresses");
}

Result<std::vector<Literal>> Runner::RunAlone(std::vector<Literal>& arguments,
                                              const std::atomic<bool>* cancel) const {
  std::vector<std::vector<Literal>> results = TRY(Run(std::span(&arguments, 1), cancel));
  return std::move(results[0]);
}

std::vector<Literal> FlattenResult(Literal result) {
  bool flat = result.shape().IsTuple();
  for (const Literal& element : result.tuple()) flat &= element.shape().IsArray();
  if (flat) return std::move(result).TakeTuple();
  std::vector<Literal> leaves;
  FlattenInto(std::move(result), leaves);
  return leaves;
}

hlo::EvalOptions EvalOptionsFor(const EvaluatorRunnerOptions& options) {
  hlo::EvalOptions eval;
  eval.num_replicas = options.num_replicas;
  eval.num_partitions = options.num_partitions;
  eval.max_tensor_bytes = options.max_tensor_bytes;
  eval.max_loop_steps = std::numeric_limits<int64_t>::max();  // cancelled from outside instead
  eval.cancel = options.cancel;
  eval.flush_subnormals = options.flush_subnormals;
  eval.custom_call = [](const hlo::Instruction& call, std::span<Literal> operands) {
    Executor::BlockingScope blocking;  // Python may run programs in there and wait for them
    return RunCustomCall(call, operands);
  };
  return eval;
}

Result<std::unique_ptr<EvaluatorRunner>> EvaluatorRunner::Create(
    const hlo::Module& module, const EvaluatorRunnerOptions& options) {
  std::unique_ptr<EvaluatorRunner> runner(new EvaluatorRunner);
  runner->evaluator_ = TRY(hlo::Evaluator::Prepare(module, EvalOptionsFor(options)));
  runner->calls_out_ = CallsOut(module);
  runner->tupled_arguments_ = options.tupled_arguments;
  for (const hlo::Instruction* parameter : module.entry()->parameters()) {
    runner->takes_tokens_ |= parameter->shape().IsToken();
  }
  runner->tiny_ = !runner->calls_out_ && options.num_replicas * options.num_partitions == 1 &&
                  EstimateWork(module) < kTinyWork;
  return runner;
}

Result<std::vector<Literal>> EvaluatorRunner::RunAlone(std::vector<Literal>& arguments,
                                                       const std::atomic<bool>* cancel) const {
  TRY(UnpackAll(arguments));
  if (tupled_arguments_) {
    size_t next = 0;
    Literal tuple = TupleUp(evaluator_->module().entry()->parameter(0)->shape(), arguments, next);
    return FlattenResult(TRY(evaluator_->Run(std::span(&tuple, 1), cancel)));
  }
  PutTokens(arguments);
  return FlattenResult(TRY(evaluator_->Run(arguments, cancel)));
}

void EvaluatorRunner::PutTokens(std::vector<Literal>& arguments) const {
  if (!takes_tokens_) return;
  const auto& parameters = evaluator_->module().entry()->parameters();
  for (size_t i = 0; i < parameters.size() && i < arguments.size(); ++i) {
    if (parameters[i]->shape().IsToken()) arguments[i] = Literal::Token();
  }
}

Result<std::vector<std::vector<Literal>>> EvaluatorRunner::Run(
    std::span<std::vector<Literal>> arguments, const std::atomic<bool>* cancel) const {
  std::vector<std::vector<Literal>> results;
  if (arguments.size() == 1) {
    results.push_back(TRY(RunAlone(arguments[0], cancel)));
    return results;
  }
  // The devices run on threads of their own while this one waits.
  std::optional<Executor::BlockingScope> blocking;
  if (calls_out_) blocking.emplace();
  for (std::vector<Literal>& of_device : arguments) {
    TRY(UnpackAll(of_device));
    PutTokens(of_device);
  }
  std::vector<Literal> values = TRY(evaluator_->RunOnDevices(arguments, cancel));
  for (Literal& value : values) results.push_back(FlattenResult(std::move(value)));
  return results;
}

}  // namespace weft::client
