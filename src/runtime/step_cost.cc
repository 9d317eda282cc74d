#include "runtime/step_cost.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "program/library.h"

namespace weft::runtime {
namespace {

using program::Access;
using program::Instr;
using program::Kernel;
using program::Op;
using program::OpClass;
using program::Program;
using program::Step;
using program::Use;

double FlopsOf(const Instr& instr) {
  if (!IsFloat(instr.type.dtype)) return 0;
  OpClass cls = program::Info(instr.op).cls;
  if (cls != OpClass::kArith && cls != OpClass::kFloat) return 0;
  return (instr.op == Op::kFma ? 2.0 : 1.0) * instr.type.lanes;
}

// Bytes that a use moves when all of it is touched once.
double TrafficOf(const Use& use) {
  double bytes = static_cast<double>(use.slice.size);
  return use.access == Access::kReadWrite ? 2 * bytes : bytes;
}

// Integers of a kernel in the first iteration of every loop, as far as they are known.
class FirstIteration {
 public:
  explicit FirstIteration(const Kernel& kernel) : kernel_(kernel), values_(kernel.values.size()) {}

  std::optional<int64_t> Get(program::ValueId id) const {
    const program::Value& value = kernel_.values[id];
    return value.is_constant && !IsFloat(value.type.dtype) ? value.AsInt() : values_[id];
  }
  // How often the loop runs; 1 where nobody knows.
  double Trips(const Instr& loop) {
    std::optional<int64_t> begin = Get(loop.args[0]), end = Get(loop.args[1]),
                           step = Get(loop.args[2]);
    values_[loop.results[0]] = begin;
    if (auto constant = TripCount(kernel_, loop)) return static_cast<double>(*constant);
    if (!begin || !end || !step || *step <= 0) return 1;
    return static_cast<double>(std::max<int64_t>((*end - *begin + *step - 1) / *step, 0));
  }
  void Compute(const Instr& instr) {
    if (instr.results.size() != 1 || instr.args.empty() || instr.args.size() > 3) return;
    if (instr.op == Op::kSelect) {
      std::optional<int64_t> condition = Get(instr.args[0]);
      if (condition) values_[instr.results[0]] = Get(instr.args[*condition != 0 ? 1 : 2]);
      return;
    }
    std::optional<int64_t> a = Get(instr.args[0]), b = Get(instr.args.back());
    if (!a || !b) return;
    int64_t result = 0;
    switch (instr.op) {
      case Op::kAdd: __builtin_add_overflow(*a, *b, &result); break;
      case Op::kSub: __builtin_sub_overflow(*a, *b, &result); break;
      case Op::kMul: __builtin_mul_overflow(*a, *b, &result); break;
      case Op::kDiv:
      case Op::kRem:
        if (*b <= 0) return;
        result = instr.op == Op::kDiv ? *a / *b : *a % *b;
        break;
      case Op::kMin: result = std::min(*a, *b); break;
      case Op::kMax: result = std::max(*a, *b); break;
      case Op::kCast: result = *a; break;
      case Op::kEq: result = *a == *b; break;
      case Op::kLt: result = *a < *b; break;
      default: return;
    }
    values_[instr.results[0]] = result;
  }

 private:
  const Kernel& kernel_;
  std::vector<std::optional<int64_t>> values_;
};

// Loops whose bounds depend on other counters count as in the first iteration of those; of the two
// sides of an `if` both count.
StepCost KernelCost(const Kernel& kernel, const Step& step) {
  StepCost cost;
  FirstIteration first(kernel);
  std::vector<double> times = {1}, loaded(kernel.memories.size(), 0), stored = loaded;
  for (const Instr& instr : kernel.code) {
    if (instr.op == Op::kLoop) {
      times.push_back(times.back() * first.Trips(instr));
    } else if (instr.op == Op::kIf) {
      times.push_back(times.back());
    } else if (instr.op == Op::kEnd) {
      times.pop_back();
    } else if (instr.op == Op::kLoad || instr.op == Op::kStore) {
      double bytes = times.back() * instr.type.lanes *
                     static_cast<double>(ByteWidth(kernel.memories[instr.memory].dtype));
      (instr.op == Op::kLoad ? loaded : stored)[instr.memory] += bytes;
    } else if (instr.op == Op::kAtomic) {
      double bytes =
          times.back() * static_cast<double>(ByteWidth(kernel.memories[instr.memory].dtype));
      loaded[instr.memory] += bytes;
      stored[instr.memory] += bytes;
    } else if (instr.op != Op::kCombine) {
      cost.flops += times.back() * FlopsOf(instr);
      first.Compute(instr);
    }
  }
  for (size_t i = 0; i < step.uses.size() && i < loaded.size(); ++i) {
    double size = static_cast<double>(step.uses[i].slice.size);
    cost.bytes += std::min(loaded[i], size) + std::min(stored[i], size);
  }
  return cost;
}

DType TypeOf(const Program& program, const Use& use) {
  return program.buffers[use.slice.buffer].shape.dtype();
}

std::optional<double> RoutineFlops(const Program& program, const Step& step,
                                   const program::LibraryStep& call) {
  auto number = [&](std::string_view name) {
    return static_cast<double>(program::IntAttr(call, name, 1));
  };
  double per_pair = IsComplex(TypeOf(program, step.uses[0])) ? 8 : 2;
  if (call.routine == "gemm" || call.routine == "scaled_gemm")
    return per_pair * number("m") * number("n") * number("k") * number("batch");
  if (call.routine == "convolution") {
    program::ConvolutionForm form = program::ConvolutionFormOf(call);
    double pairs = static_cast<double>(form.batch * form.out_features * form.kernel_in);
    for (const auto& axis : form.axes) pairs *= static_cast<double>(axis.out * axis.window);
    return per_pair * pairs;
  }
  if (call.routine == "fft") {
    double n = 1;
    const std::vector<int64_t>* lengths = program::IntsAttr(call, "lengths");
    for (int64_t length : lengths ? *lengths : std::vector<int64_t>())
      n *= static_cast<double>(length);
    return 5 * n * std::log2(std::max(n, 2.0)) * number("batch");
  }
  if (call.routine == "cholesky") return std::pow(number("n"), 3) / 3 * number("batch");
  if (call.routine == "triangular_solve") {
    bool left = program::BoolAttr(call, "left_side", true);
    double order = number(left ? "m" : "n"), columns = number(left ? "n" : "m");
    return order * order * columns * number("batch");
  }
  if (program::StringAttr(call, "target", "").starts_with("lapack_")) {
    // Eigenvalues and singular values, whose steps are not known beforehand: about 20 n^3.
    const Shape& matrix = program.buffers[step.uses[0].slice.buffer].shape;
    double order = matrix.rank() > 0 ? static_cast<double>(matrix.dim(matrix.rank() - 1)) : 1;
    return 20 * static_cast<double>(matrix.elements()) * order;
  }
  if (program::FindRoutine(call.routine) == nullptr) return std::nullopt;
  return 0;
}

std::optional<StepCost> CostOfList(const Program& program, const std::vector<Step>& steps) {
  StepCost sum;
  for (const Step& step : steps) {
    std::optional<StepCost> cost = CostOf(program, step);
    if (!cost) return std::nullopt;
    sum.flops += cost->flops;
    sum.bytes += cost->bytes;
  }
  return sum;
}

}  // namespace

std::optional<StepCost> CostOf(const Program& program, const Step& step) {
  if (auto* launch = std::get_if<program::KernelStep>(&step.op)) {
    return KernelCost(program.kernels[launch->kernel], step);
  }
  if (auto* loop = std::get_if<program::WhileStep>(&step.op)) {
    auto condition = CostOfList(program, loop->condition), body = CostOfList(program, loop->body);
    if (!loop->trip_count || !condition || !body) return std::nullopt;
    double n = static_cast<double>(*loop->trip_count);
    return StepCost{n * (condition->flops + body->flops), n * (condition->bytes + body->bytes)};
  }
  if (std::holds_alternative<program::ConditionalStep>(step.op)) return std::nullopt;
  if (auto* list = std::get_if<program::ListStep>(&step.op)) {
    return CostOfList(program, list->steps);
  }
  StepCost cost;
  for (const Use& use : step.uses) cost.bytes += TrafficOf(use);
  if (auto* call = std::get_if<program::LibraryStep>(&step.op)) {
    std::optional<double> flops =
        step.uses.empty() ? std::nullopt : RoutineFlops(program, step, *call);
    if (!flops) return std::nullopt;
    cost.flops = *flops;
  }
  return cost;
}

}  // namespace weft::runtime
