// A module prepared for evaluation once, to be run many times and from many threads at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/literal.h"
#include "base/mutex.h"
#include "hlo/evaluate.h"
#include "hlo/evaluate/plan.h"
#include "hlo/module.h"

namespace weft::hlo {

class Evaluator {
 public:
  // The module must stay as it is for as long as the Evaluator lives.
  static Result<std::unique_ptr<Evaluator>> Prepare(const Module& module, EvalOptions options = {});

  // Evaluates the entry computation on one device. Arguments are moved from: one whose bytes nobody
  // else holds may be updated in place and come back in the result.
  // `cancel`, where given, is looked at instead of that of the options.
  Result<Literal> Run(std::span<Literal> arguments,
                      const std::atomic<bool>* cancel = nullptr) const;

  // Evaluates on num_replicas() x num_partitions() devices at once, each a thread; arguments[d] are
  // those of device d = replica * num_partitions() + partition.
  Result<std::vector<Literal>> RunOnDevices(std::span<std::vector<Literal>> arguments,
                                            const std::atomic<bool>* cancel = nullptr) const;

  const Module& module() const { return module_; }
  const EvalOptions& options() const { return options_; }
  int64_t num_replicas() const { return num_replicas_; }
  int64_t num_partitions() const { return num_partitions_; }

 private:
  Evaluator(const Module& module, EvalOptions options);
  Status CheckArguments(std::span<const Literal> arguments) const;
  std::unique_ptr<EvalFrames> TakeFrames() const WEFT_EXCLUDES(mutex_);
  void GiveFrames(std::unique_ptr<EvalFrames> frames) const WEFT_EXCLUDES(mutex_);

  const Module& module_;
  const EvalOptions options_;
  int64_t num_replicas_ = 1, num_partitions_ = 1;
  EvalPlans plans_;
  const EvalPlan* entry_ = nullptr;
  mutable Mutex mutex_;
  mutable std::vector<std::unique_ptr<EvalFrames>> free_frames_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft::hlo
