#include "hlo/evaluator.h"

#include <utility>

#include "base/float_mode.h"
#include "base/thread_pool.h"
#include "hlo/evaluate/device_group.h"

namespace weft::hlo {
namespace {

constexpr size_t kMaxFreeFrames = 64;      // sets of frames kept for the next runs
constexpr int64_t kMaxEvalDevices = 1024;  // threads of one evaluation

}  // namespace

Evaluator::Evaluator(const Module& module, EvalOptions options)
    : module_(module), options_(std::move(options)) {}

Result<std::unique_ptr<Evaluator>> Evaluator::Prepare(const Module& module, EvalOptions options) {
  if (module.entry() == nullptr) {
    return InvalidArgument("module ", module.name(), " has no entry");
  }
  std::unique_ptr<Evaluator> evaluator(new Evaluator(module, std::move(options)));
  const EvalOptions& opts = evaluator->options_;
  evaluator->num_replicas_ =
      opts.num_replicas > 0 ? opts.num_replicas : module.config().replica_count;
  evaluator->num_partitions_ =
      opts.num_partitions > 0 ? opts.num_partitions : module.config().num_partitions;
  for (const std::unique_ptr<Computation>& computation : module.computations()) {
    evaluator->plans_.Add(*computation, opts.max_tensor_bytes);
  }
  evaluator->entry_ = &evaluator->plans_.Add(*module.entry(), opts.max_tensor_bytes);
  return evaluator;
}

Status Evaluator::CheckArguments(std::span<const Literal> arguments) const {
  std::span<Instruction* const> parameters = module_.entry()->parameters();
  if (parameters.size() != arguments.size()) {
    return InvalidArgument("module ", module_.name(), " takes ", parameters.size(),
                           " arguments, got ", arguments.size());
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (parameters[i] == nullptr || !arguments[i].IsValid() ||
        !Shape::CompatibleIgnoringDynamic(arguments[i].shape(), parameters[i]->shape())) {
      return InvalidArgument(
          "argument ", i, " has shape ", arguments[i].shape().ToStringWithoutLayout(),
          ", parameter ", parameters[i] == nullptr ? "" : parameters[i]->name(), " has shape ",
          parameters[i] == nullptr ? "" : parameters[i]->shape().ToStringWithoutLayout());
    }
  }
  return {};
}

std::unique_ptr<EvalFrames> Evaluator::TakeFrames() const {
  {
    MutexLock lock(mutex_);
    if (!free_frames_.empty()) {
      std::unique_ptr<EvalFrames> frames = std::move(free_frames_.back());
      free_frames_.pop_back();
      return frames;
    }
  }
  return std::make_unique<EvalFrames>();
}

void Evaluator::GiveFrames(std::unique_ptr<EvalFrames> frames) const {
  MutexLock lock(mutex_);
  if (free_frames_.size() < kMaxFreeFrames) free_frames_.push_back(std::move(frames));
}

Result<Literal> Evaluator::Run(std::span<Literal> arguments,
                               const std::atomic<bool>* cancel) const {
  TRY(CheckArguments(arguments));
  FloatMode mode(options_.flush_subnormals);
  std::unique_ptr<EvalFrames> frames = TakeFrames();
  EvalContext context(module_, options_, plans_, *frames);
  context.SetAlone();
  context.SetCancel(cancel);
  Result<Literal> result = context.Call(*module_.entry(), arguments);
  GiveFrames(std::move(frames));
  return result;
}

Result<std::vector<Literal>> Evaluator::RunOnDevices(std::span<std::vector<Literal>> arguments,
                                                     const std::atomic<bool>* cancel) const {
  int64_t replicas = num_replicas_, partitions = num_partitions_;
  if (replicas < 1 || partitions < 1 || replicas > kMaxEvalDevices ||
      partitions > kMaxEvalDevices || replicas * partitions > kMaxEvalDevices) {
    return InvalidArgument("cannot simulate ", replicas, " replicas of ", partitions,
                           " partitions: at most ", kMaxEvalDevices, " devices");
  }
  int64_t devices = replicas * partitions;
  if (static_cast<int64_t>(arguments.size()) != devices) {
    return InvalidArgument("module ", module_.name(), " runs on ", devices,
                           " devices, got arguments for ", arguments.size());
  }
  for (const std::vector<Literal>& of_device : arguments) TRY(CheckArguments(of_device));
  FloatMode mode(options_.flush_subnormals);
  DeviceGroup group(devices);
  auto run = [&](int64_t device) -> Result<Literal> {
    std::unique_ptr<EvalFrames> frames = TakeFrames();
    EvalContext context(module_, options_, plans_, *frames);
    context.SetDevice(&group, device / partitions, device % partitions, replicas, partitions);
    context.SetCancel(cancel);
    Result<Literal> result = context.Call(*module_.entry(), arguments[static_cast<size_t>(device)]);
    GiveFrames(std::move(frames));
    return result;
  };
  // Custom calls may block in ways of their own.
  return group.RunAll(run, options_.custom_call == nullptr ? DefaultPool().threads() : 0);
}

Result<Literal> Evaluate(const Module& module, std::span<const Literal> arguments,
                         const EvalOptions& options) {
  std::unique_ptr<Evaluator> evaluator = TRY(Evaluator::Prepare(module, options));
  std::vector<Literal> owned(arguments.begin(), arguments.end());
  return evaluator->Run(owned);
}

Result<std::vector<Literal>> EvaluateOnDevices(const Module& module,
                                               std::span<const std::vector<Literal>> arguments,
                                               const EvalOptions& options) {
  std::unique_ptr<Evaluator> evaluator = TRY(Evaluator::Prepare(module, options));
  std::vector<std::vector<Literal>> owned(arguments.begin(), arguments.end());
  return evaluator->RunOnDevices(owned);
}

}  // namespace weft::hlo
