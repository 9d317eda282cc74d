// The reference interpreter: slow, obvious, the oracle. It walks computations and calls the op
// rows' `evaluate`. It is independent of every backend.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/literal.h"
#include "hlo/module.h"

namespace weft::hlo {

struct EvalOptions {
  int64_t num_replicas = 0;    // 0: the module's replica_count
  int64_t num_partitions = 0;  // 0: the module's num_partitions
  int64_t max_loop_steps =
      100'000'000;  // iterations of all while loops of one device together; then an error
  int64_t max_call_depth = 1024;
  int64_t max_tensor_bytes = int64_t{8} << 30;  // a larger result is an error
  uint64_t seed = 0;                            // for rng and rng-get-and-update-state
  bool flush_subnormals = false;  // arithmetic takes them as zeros (base/float_mode.h)
  // When given and true the evaluation ends with a Cancelled error before its next instruction.
  const std::atomic<bool>* cancel = nullptr;
  // Evaluates a custom call by target; returns an Unimplemented error for targets it does not know.
  // The targets that HLO itself gives a meaning to (Sharding, TopK, ...) are tried first.
  std::function<Result<Literal>(const Instruction&, std::span<Literal>)> custom_call;
};

// Evaluates the entry computation on one device, once; a module that is run again and again is
// better prepared as an Evaluator (hlo/evaluator.h). Arguments match the entry's parameters in
// shape (layouts ignored).
Result<Literal> Evaluate(const Module& module, std::span<const Literal> arguments,
                         const EvalOptions& options = {});

// Evaluates on replicas x partitions simulated devices at once; arguments[d] are those of device d
// = replica * num_partitions + partition. Collectives, send/recv and partition/replica ids work; a
// deadlock is an error that names the ops that wait.
Result<std::vector<Literal>> EvaluateOnDevices(const Module& module,
                                               std::span<const std::vector<Literal>> arguments,
                                               const EvalOptions& options = {});

// Evaluates one instruction on constant operands, e.g. for folding.
Result<Literal> EvaluateInstruction(const Instruction& instruction, std::span<Literal> operands);

class DeviceGroup;  // collectives between the devices of one evaluation (evaluate/device_group.h)
struct EvalPlan;    // one computation prepared for evaluation (evaluate/plan.h)
class EvalPlans;
struct EvalFrames;
class ScalarFunction;

// State of one device's evaluation, passed to the op rows.
class EvalContext {
 public:
  // Plans are made as computations are called.
  EvalContext(const Module& module, const EvalOptions& options);
  // With the plans of the module's computations made before, and room to run them in.
  EvalContext(const Module& module, const EvalOptions& options, const EvalPlans& plans,
              EvalFrames& frames);
  ~EvalContext();
  EvalContext(const EvalContext&) = delete;
  EvalContext& operator=(const EvalContext&) = delete;

  // Evaluates a computation on arguments (moved from).
  Result<Literal> Call(const Computation& computation, std::span<Literal> arguments);
  // The same, with arguments that are only read.
  Result<Literal> CallReading(const Computation& computation, std::span<const Literal> arguments);

  // The computation as a function of scalars; null when it is none.
  const ScalarFunction* Compiled(const Computation& computation);

  const Module& module() const { return module_; }
  const EvalOptions& options() const { return options_; }
  int64_t replica() const { return replica_; }
  int64_t partition() const { return partition_; }
  int64_t device() const { return replica_ * num_partitions_ + partition_; }
  int64_t num_replicas() const { return num_replicas_; }
  int64_t num_partitions() const { return num_partitions_; }
  DeviceGroup* group() {  // null: one instruction alone
    return group_ != nullptr || !alone_ ? group_ : MakeGroup();
  }
  Status CountLoopStep(const Instruction& loop);  // an error when the limit is reached
  bool IsCancelled() const {
    return cancel_ != nullptr && cancel_->load(std::memory_order_relaxed);
  }
  uint64_t NextRandom();  // a counter-based stream, deterministic in options().seed

  // Another flag than that of the options; null: the same.
  void SetCancel(const std::atomic<bool>* cancel) {
    if (cancel != nullptr) cancel_ = cancel;
  }
  // A device that is the only one: its group is made when asked for.
  void SetAlone() { alone_ = true; }
  // Used by Evaluator::RunOnDevices.
  void SetDevice(DeviceGroup* group, int64_t replica, int64_t partition, int64_t num_replicas,
                 int64_t num_partitions) {
    group_ = group, replica_ = replica, partition_ = partition;
    num_replicas_ = num_replicas, num_partitions_ = num_partitions;
  }

 private:
  const EvalPlan& PlanOf(const Computation& computation);
  DeviceGroup* MakeGroup();
  Result<Literal> Run(const EvalPlan& plan, std::span<Literal> owned,
                      std::span<const Literal> read);
  Error Place(Error error, const Instruction& instruction);

  const Module& module_;
  const EvalOptions& options_;
  const std::atomic<bool>* cancel_ = options_.cancel;
  DeviceGroup* group_ = nullptr;
  int64_t replica_ = 0, partition_ = 0, num_replicas_ = 1, num_partitions_ = 1;
  int64_t loop_steps_ = 0, call_depth_ = 0;
  uint64_t random_counter_ = 0;
  bool error_has_place_ = false;  // the error on its way out names its instruction
  bool alone_ = false;
  const EvalPlans* plans_ = nullptr;  // made before
  EvalFrames* frames_ = nullptr;
  std::unique_ptr<EvalPlans> own_plans_;  // made when needed
  std::unique_ptr<EvalFrames> own_frames_;
  std::unique_ptr<DeviceGroup> own_group_;
};

}  // namespace weft::hlo
