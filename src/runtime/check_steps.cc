#include "runtime/check_steps.h"

#include <algorithm>
#include <utility>

#include "program/interpret.h"
#include "program/library.h"
#include "runtime/compare.h"

namespace weft::runtime {
namespace {

using program::Step;

constexpr int64_t kMostInstructions = 300'000'000;  // some seconds of interpreting a step

// Only these are run beside; the others move bytes or hold steps that are checked themselves.
bool IsChecked(const Step& step) {
  return std::holds_alternative<program::KernelStep>(step.op) ||
         std::holds_alternative<program::LibraryStep>(step.op);
}

}  // namespace

StepChecker::StepChecker(const program::Program& program, int64_t device)
    : program_(program), device_(device) {
  before_ = [this](const Step& step, Memory memory) { return Before(step, memory); };
  after_ = [this](const Step& step, double, Memory memory) { return After(step, memory); };
}

void StepChecker::Watch(Call& call) {
  call.before_step = &before_;
  call.after_step = &after_;
  call.inside_regions = true;
}

Status StepChecker::Before(const Step& step, Memory memory) {
  if (!IsChecked(step)) return {};
  old_.clear();
  for (std::span<std::byte> bytes : memory) old_.emplace_back(bytes.begin(), bytes.end());
  return {};
}

// False: nobody knows what the step does.
Result<bool> StepChecker::Interpret(const Step& step, Memory memory) const {
  if (auto* launch = std::get_if<program::KernelStep>(&step.op)) {
    program::detail::Budget budget{kMostInstructions, int64_t{1} << 30};
    Status run = RunKernel(program_.kernels[launch->kernel], memory, budget, false);
    if (!run && run.error().code() == Code::kResourceExhausted) return false;
    TRY(std::move(run));
    return true;
  }
  const auto& call = std::get<program::LibraryStep>(step.op);
  const program::Routine* routine = program::FindRoutine(call.routine);
  if (routine == nullptr || routine->cost(program_, step) > kMostInstructions) return false;
  TRY(routine->interpret(program_, step, device_, memory));
  return true;
}

Status StepChecker::After(const Step& step, Memory memory) {
  if (!IsChecked(step)) return {};
  std::vector<std::span<std::byte>> wanted(old_.begin(), old_.end());
  if (!TRY(Interpret(step, wanted))) {
    ++left_out_;
    return {};
  }
  ++checked_;
  return CompareStep(step, wanted, memory);
}

Status StepChecker::CompareStep(const Step& step, Memory wanted, Memory got) {
  double scale = 0;
  auto dtype = [&](size_t i) {
    const program::Buffer& buffer = program_.buffers[step.uses[i].slice.buffer];
    return buffer.packed ? DType::kU8 : buffer.shape.dtype();
  };
  for (size_t i = 0; i < step.uses.size(); ++i) {
    scale = std::max(scale, LargestOf(dtype(i), wanted[i]));
  }
  bool routine = std::holds_alternative<program::LibraryStep>(step.op);
  for (size_t i = 0; i < step.uses.size(); ++i) {
    if (!program::Writes(step.uses[i].access)) continue;
    Difference difference = Compare(dtype(i), wanted[i], got[i], SlackOf(dtype(i), routine), scale);
    if (!difference.any()) continue;
    failed_ = &step;
    const program::Buffer& buffer = program_.buffers[step.uses[i].slice.buffer];
    int64_t elements = step.uses[i].slice.size / std::max<int64_t>(ByteWidth(dtype(i)), 1);
    Error error(Code::kInternal,
                StrCat(step.name.empty() ? std::string(KindName(step)) : step.name,
                       ": native code is wrong: ", difference.ToString(elements), " of ",
                       buffer.name, " ", buffer.shape.ToStringWithoutLayout()));
    if (!step.source.empty()) error.Source(step.source);
    return std::unexpected(std::move(error));
  }
  return {};
}

}  // namespace weft::runtime
