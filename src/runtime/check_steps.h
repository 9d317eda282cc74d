// Compares every step of a run with the interpreter, on the same inputs.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "program/program.h"
#include "runtime/device.h"

namespace weft::runtime {

class StepChecker {
 public:
  // `device`: the number of the one that runs.
  explicit StepChecker(const program::Program& program, int64_t device = 0);
  StepChecker(const StepChecker&) = delete;

  // Sets the hooks of a call; the checker must outlive it. A step whose memory differs from what
  // the interpreter makes of the same inputs ends the run with an error that names it.
  void Watch(Call& call);

  int64_t checked() const { return checked_; }
  // Steps that would take the interpreter too long, and routines that it does not know.
  int64_t left_out() const { return left_out_; }
  const program::Step* failed() const { return failed_; }

 private:
  using Memory = std::span<const std::span<std::byte>>;
  Status Before(const program::Step& step, Memory memory);
  Status After(const program::Step& step, Memory memory);
  Result<bool> Interpret(const program::Step& step, Memory memory) const;
  Status CompareStep(const program::Step& step, Memory wanted, Memory got);

  const program::Program& program_;
  const int64_t device_;
  std::function<Status(const program::Step&, Memory)> before_;
  std::function<Status(const program::Step&, double, Memory)> after_;
  std::vector<std::vector<std::byte>> old_;  // what the step's uses held before
  int64_t checked_ = 0, left_out_ = 0;
  const program::Step* failed_ = nullptr;
};

}  // namespace weft::runtime
