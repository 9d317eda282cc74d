// The custom calls of a compiled module, done on memory of the host: evaluated, or foreign code.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <unordered_map>

#include "base/error.h"
#include "hlo/evaluate.h"
#include "hlo/module.h"
#include "program/program.h"
#include "runtime/device.h"

namespace weft::client {

class ForeignCall;

class HostCalls {
 public:
  // The module and the program made of it stay as they are for as long as the calls are used.
  static Result<std::unique_ptr<HostCalls>> Create(const hlo::Module& module,
                                                   const program::Program& program,
                                                   const hlo::EvalOptions& options);
  ~HostCalls();
  HostCalls(const HostCalls&) = delete;

  bool empty() const { return calls_.empty(); }
  // The most that one of them takes for itself.
  const runtime::Scratch& scratch() const { return scratch_; }
  // For runtime::Call: the step on its operands and results.
  using Hook = std::function<Status(const program::Step&, std::span<const std::span<std::byte>>)>;
  const Hook& hook() const { return hook_; }

 private:
  struct CustomCall {
    const hlo::Instruction* instruction = nullptr;
    std::unique_ptr<ForeignCall> foreign;
  };
  HostCalls(const hlo::Module& module, const hlo::EvalOptions& options);
  Status Add(const hlo::Instruction& call);
  void FindScratch(const program::Program& program);
  const CustomCall* Find(const program::Step& step) const;
  Status Run(const program::Step& step, std::span<const std::span<std::byte>> memory) const;
  Status Evaluate(const hlo::Instruction& call, std::span<const std::span<std::byte>> memory) const;

  const hlo::Module& module_;
  const hlo::EvalOptions options_;
  std::unordered_map<int64_t, CustomCall> calls_;  // by the instruction's id
  runtime::Scratch scratch_;
  Hook hook_;
};

}  // namespace weft::client
