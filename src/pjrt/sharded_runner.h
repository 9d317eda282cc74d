// Runs a module in whole shapes on several devices: each parameter is put together from its shards,
// the program is evaluated, and the results are cut up by their shardings. Where it has manual
// computations (jax.shard_map), every device evaluates all of it and the manual parts on its own
// block; see hlo/import/import.h for their form.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "pjrt/evaluator_runner.h"
#include "pjrt/shards.h"

namespace weft::pjrt {

class ShardedRunner : public Runner {
 public:
  // The module must stay as it is for as long as the runner lives.
  // `whole` makes the runner of programs in whole shapes; null, or an error of it: the evaluator.
  using MakeWhole = std::function<Result<std::unique_ptr<Runner>>(const hlo::Module&)>;
  static Result<std::unique_ptr<ShardedRunner>> Create(const hlo::Module& module,
                                                       const EvaluatorRunnerOptions& options,
                                                       const MakeWhole& whole = nullptr);
  Result<std::vector<std::vector<Literal>>> Run(
      std::span<std::vector<Literal>> arguments) const override;
  bool IsTiny() const override { return false; }
  // With the gathers that linear algebra on matrices in pieces takes; null: there is none.
  const hlo::Module* compiled() const override { return shown_.get(); }

  const std::vector<Shards>& parameters() const { return parameters_; }
  const std::vector<Shards>& results() const { return results_; }

 private:
  ShardedRunner() = default;
  Status ShowGathers(const hlo::Module& module);
  std::vector<Shape> parameter_shapes_;  // whole
  std::vector<Shards> parameters_, results_;
  std::unique_ptr<hlo::Module> rewritten_;  // null: the module as it is
  std::unique_ptr<hlo::Module> shown_;
  bool everywhere_ = false;        // every device evaluates all of it
  std::unique_ptr<Runner> whole_;  // null: the evaluator
  std::unique_ptr<hlo::Evaluator> evaluator_;
  int64_t devices_ = 1;
};

// Manual computations become what one device does: its block is cut out of the whole value, and the
// results of all devices are gathered. For a module that runs on `devices` partitions.
Status SpellOutManual(hlo::Module& module, int64_t devices);
bool HasManual(const hlo::Module& module);
// What is started and waited for is called where it is waited for.
Status MakeSynchronous(hlo::Module& module);

}  // namespace weft::pjrt
