// Runs a module as native code.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>

#include "client/evaluator_runner.h"
#include "client/executable.h"
#include "client/host_calls.h"
#include "compiler/options.h"
#include "hlo/evaluate.h"
#include "runtime/device.h"
#include "runtime/device_group.h"
#include "runtime/literals.h"

namespace weft::client {

class Client;

class NativeRunner : public Runner {
 public:
  ~NativeRunner() override;
  // Compiles the module, which is not changed. Unimplemented when it has something that native code
  // cannot do yet: the evaluator takes it then.
  static Result<std::unique_ptr<NativeRunner>> Create(Client& client, const hlo::Module& module,
                                                      const compiler::CompileOptions& options,
                                                      inspect::CompileWatch& watch);
  Result<std::vector<std::vector<Literal>>> Run(std::span<std::vector<Literal>> arguments,
                                                const std::atomic<bool>* cancel) const override;
  Result<std::vector<Literal>> RunAlone(std::vector<Literal>& arguments,
                                        const std::atomic<bool>* cancel) const override;
  bool TakesAddresses() const override;
  Status RunAt(int64_t device, std::span<std::byte* const> arguments,
               std::span<std::byte* const> results, const std::atomic<bool>* cancel) const override;
  bool IsTiny() const override;
  bool EndsSoon() const override { return tiny_; }
  bool IsShort() const override;
  const program::Program* program() const override { return &program_->program(); }
  int64_t temp_bytes() const override { return program_->temp_bytes() + calls_->scratch().bytes; }
  runtime::Scratch scratch() const override {
    runtime::Scratch own = program_->scratch();
    return own.bytes > calls_->scratch().bytes ? own : calls_->scratch();
  }
  const hlo::Module* compiled() const override { return module_.get(); }

  const runtime::LoadStats& stats() const { return program_->stats(); }

 private:
  NativeRunner() = default;
  void DescribeLeaves(const hlo::Module& module);
  void ExplainCache(Client& client, const hlo::Module& module,
                    const compiler::CompileOptions& options) const;
  // Arrays only, tokens left out.
  Result<std::vector<Literal>> RunArrays(std::vector<Literal>& arguments, runtime::Call call) const;
  Result<std::vector<Literal>> RunOn(std::vector<Literal>& arguments,
                                     const runtime::Call& call) const;
  Result<std::vector<Literal>> RunChecked(std::vector<Literal>& arguments,
                                          runtime::Call call) const;
  Result<std::vector<Literal>> RunShowingSteps(std::vector<Literal>& arguments,
                                               runtime::Call call) const;
  Client* client_ = nullptr;
  std::unique_ptr<hlo::Module> module_;
  std::unique_ptr<hlo::Module> input_;  // as it came; only to check results
  compiler::CompileOptions options_;
  std::unique_ptr<runtime::LoadedProgram> program_;
  std::unique_ptr<runtime::LiteralRunner> literals_;
  std::unique_ptr<HostCalls> calls_;
  std::vector<bool> parameter_is_token_, result_is_token_;
  hlo::EvalOptions eval_options_;  // of custom calls
  // All devices, each by `run`; those of a group wait for each other.
  using RunDevice = std::function<Status(int64_t device, runtime::DeviceGroup* group)>;
  Status RunMeeting(int64_t devices, const RunDevice& run) const;
  Status RunApart(int64_t devices, const RunDevice& run) const;
  class TimedRun;
  // Tiny: all devices together.
  bool tiny_ = false, has_tokens_ = false, calls_out_ = false;
  bool meets_ = false;    // its devices wait for each other
  bool async_ = false;    // ... and compute while collectives are under way
  double work_once_ = 0;  // of its steps, those of loops counted once
  // Nobody knows how long programs take, but the last run may tell.
  bool may_be_tiny_ = false;
  mutable std::atomic<std::chrono::microseconds> last_run_ = std::chrono::microseconds::max();
};

}  // namespace weft::client
