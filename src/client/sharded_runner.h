// Runs a module in whole shapes on several devices: each parameter is put together from its shards,
// the program runs, and the results are cut up by their shardings. Where it has manual computations
// (jax.shard_map), every device runs all of it and the manual parts on its own block, as they are
// where nothing else reads them; see hlo/import/import.h for their form.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "client/evaluator_runner.h"
#include "client/shards.h"

namespace weft::client {

class ShardedRunner : public Runner {
 public:
  // The module must stay as it is for as long as the runner lives.
  // `make` makes the runner of a program on one device or on all; null, or an error of it: the
  // evaluator.
  using MakeNative =
      std::function<Result<std::unique_ptr<Runner>>(const hlo::Module&, int64_t devices)>;
  static Result<std::unique_ptr<ShardedRunner>> Create(const hlo::Module& module,
                                                       const EvaluatorRunnerOptions& options,
                                                       const MakeNative& make = nullptr);
  Result<std::vector<std::vector<Literal>>> Run(std::span<std::vector<Literal>> arguments,
                                                const std::atomic<bool>* cancel) const override;
  bool IsTiny() const override { return false; }
  const hlo::Module* compiled() const override {
    return everywhere_ && native_ ? native_->compiled() : nullptr;
  }

  const std::vector<Shards>& parameters() const { return parameters_; }
  const std::vector<Shards>& results() const { return results_; }

 private:
  ShardedRunner() = default;
  Status MakeManual();
  void PassShards();
  Result<Literal> WholeArgument(std::span<std::vector<Literal>> arguments, size_t p) const;
  Result<std::vector<std::vector<Literal>>> RunModule(std::span<std::vector<Literal>> arguments,
                                                      const std::atomic<bool>* cancel) const;
  std::vector<Shape> parameter_shapes_;  // whole
  std::vector<Shards> parameters_, results_;
  std::unique_ptr<hlo::Module> rewritten_;  // null: the module as it is
  bool everywhere_ = false;                 // every device runs all of it
  // Parameters and results of which every device takes or gives its shard as it is.
  std::vector<bool> passed_parameters_, passed_results_;
  std::unique_ptr<Runner> native_;  // null: the evaluator
  std::unique_ptr<hlo::Evaluator> evaluator_;
  std::vector<bool> takes_token_;  // by parameter
  int64_t devices_ = 1;
};

// Manual computations become what one device does: its block is cut out of the whole value, and the
// results of all devices are gathered. For a module that runs on `devices` partitions.
Status SpellOutManual(hlo::Module& module, int64_t devices);
bool HasManual(const hlo::Module& module);
// What is started and waited for is called where it is waited for.
Status MakeSynchronous(hlo::Module& module);

}  // namespace weft::client
