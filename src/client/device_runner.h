// Runs a module on a device with memory of its own: arrays stay there, and a run is enqueued.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "client/accelerator.h"
#include "client/buffer.h"
#include "client/executable.h"
#include "client/host_calls.h"
#include "compiler/options.h"
#include "runtime/device.h"

namespace weft::client {

class Client;

class DeviceRunner : public Runner {
 public:
  ~DeviceRunner() override;
  // Compiles the module, which is not changed. Unimplemented when it has something that the device
  // cannot do yet: the evaluator takes it then.
  static Result<std::unique_ptr<DeviceRunner>> Create(Client& client, const hlo::Module& module,
                                                      const compiler::CompileOptions& options,
                                                      inspect::CompileWatch& watch);

  // Arguments that are defined. A donated one that nobody else holds is handed over: its memory may
  // become that of a result.
  struct Arguments {
    std::span<ArrayRef> arrays;
    const std::vector<bool>& donated;  // empty: none
    uint64_t flow = 0;                 // timelines: from the request
  };
  struct Enqueued {
    std::vector<DeviceBytesRef> results;  // by output; tokens have no bytes
    runtime::EventPtr written;            // shared by all results; errors of the run arrive here
    // In use until then, and freed in the order of another stream.
    std::vector<std::shared_ptr<const void>> held;
  };
  // On the device's compute stream, or on one of its own where the host takes part.
  Result<Enqueued> Enqueue(Accelerator& on, Lane& lane, Arguments arguments,
                           const std::atomic<bool>* cancel) const;
  // Some steps are loops: a run may take long, or for ever, and looks whether it is cancelled.
  bool loops() const { return loops_; }
  // Some steps are the host's, or its results are checked: enqueueing waits for the device, and may
  // take long.
  bool calls_out() const { return !calls_->empty() || checks(); }
  // WEFT_CHECK: results are compared with the evaluator's. What calls out is not called twice.
  bool checks() const { return input_ != nullptr && calls_->empty(); }
  Status CheckResults(Accelerator& on, std::span<const Literal> arguments,
                      const Enqueued& enqueued) const;

  // On copies of what the host has, on the client's first device.
  Result<std::vector<std::vector<Literal>>> Run(std::span<std::vector<Literal>> arguments,
                                                const std::atomic<bool>* cancel) const override;
  bool IsTiny() const override { return false; }
  const program::Program* program() const override { return &program_->program(); }
  int64_t temp_bytes() const override { return program_->temp_bytes(); }
  runtime::Scratch scratch() const override { return program_->scratch(); }
  const hlo::Module* compiled() const override { return module_.get(); }
  const runtime::LoadStats& stats() const { return program_->stats(); }

 private:
  struct Parameter {
    int64_t bytes = 0;
    bool overwritten = false;  // the program may write there
  };
  struct Output {
    int64_t bytes = 0;
    int64_t parameter = -1;  // whose memory it takes
  };
  class Frame;  // device_runner.cc: the memory of one run
  DeviceRunner() = default;
  Status DescribeBuffers();
  void DescribeLeaves(const hlo::Module& module);
  Result<std::vector<Literal>> Fetch(Accelerator& on, const Enqueued& enqueued) const;

  Client* client_ = nullptr;
  std::unique_ptr<hlo::Module> module_;
  std::unique_ptr<hlo::Module> input_;  // as it came; only to check results
  hlo::EvalOptions eval_options_;
  std::unique_ptr<runtime::LoadedProgram> program_;
  std::unique_ptr<HostCalls> calls_;
  bool loops_ = false;
  std::vector<Parameter> parameters_;  // of the program, which has no tokens
  std::vector<Output> outputs_;        // likewise
  std::vector<bool> parameter_is_token_, result_is_token_;
};

}  // namespace weft::client
