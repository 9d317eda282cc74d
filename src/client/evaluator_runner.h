// Runs a module by the evaluator: one device, or replicas and partitions that each have their own
// arguments.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "client/executable.h"
#include "hlo/evaluator.h"

namespace weft::client {

struct EvaluatorRunnerOptions {
  int64_t num_replicas = 1, num_partitions = 1;
  int64_t max_tensor_bytes = int64_t{8} << 30;
  const std::atomic<bool>* cancel = nullptr;
  bool tupled_arguments = false;  // the entry takes one tuple of all arguments
  bool flush_subnormals = false;  // hlo::EvalOptions
};

class EvaluatorRunner : public Runner {
 public:
  // The module must stay as it is for as long as the runner lives.
  static Result<std::unique_ptr<EvaluatorRunner>> Create(const hlo::Module& module,
                                                         const EvaluatorRunnerOptions& options);
  Result<std::vector<std::vector<Literal>>> Run(std::span<std::vector<Literal>> arguments,
                                                const std::atomic<bool>* cancel) const override;
  Result<std::vector<Literal>> RunAlone(std::vector<Literal>& arguments,
                                        const std::atomic<bool>* cancel) const override;
  bool IsTiny() const override { return tiny_; }
  bool EndsSoon() const override { return tiny_; }

 private:
  EvaluatorRunner() = default;
  void PutTokens(std::vector<Literal>& arguments) const;
  std::unique_ptr<hlo::Evaluator> evaluator_;
  bool tiny_ = false, calls_out_ = false, tupled_arguments_ = false, takes_tokens_ = false;
};

// What a token is outside of a program, where buffers hold arrays only. Frameworks hand such arrays
// from program to program to order what they do.
inline Shape TokenStandIn() {
  return Shape(DType::kPred, {0});
}

// The leaves of a result, in order; stand-ins for its tokens.
std::vector<Literal> FlattenResult(Literal result);
// The options that every evaluation on behalf of a client has.
hlo::EvalOptions EvalOptionsFor(const EvaluatorRunnerOptions& options);

}  // namespace weft::client
