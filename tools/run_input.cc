#include "run_input.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "hlo/evaluate.h"
#include "hlo/evaluate/contract.h"
#include "hlo/random_arguments.h"
#include "program/interpret.h"

namespace weft::tools {
namespace {

constexpr int64_t kMaxDevices = 1024;

void AppendLeaves(const Shape& shape, std::vector<Shape>& leaves) {
  if (!shape.IsTuple()) {
    leaves.push_back(shape);
    return;
  }
  for (const Shape& element : shape.elements_of_tuple()) AppendLeaves(element, leaves);
}

void AppendLeaves(const Literal& value, std::vector<Literal>& leaves) {
  if (!value.shape().IsTuple()) {
    leaves.push_back(value);
    return;
  }
  for (const Literal& element : value.tuple()) AppendLeaves(element, leaves);
}

// Replaces the leaves of `value` by those of `given` from `next` on.
void ReplaceLeaves(Literal& value, const std::vector<Literal>& given, size_t& next) {
  if (value.shape().IsTuple()) {
    for (Literal& element : value.mutable_tuple()) ReplaceLeaves(element, given, next);
  } else if (next < given.size()) {
    value = given[next++];
  }
}

const program::Buffer* FindParameter(const program::Program& program, int64_t number) {
  for (const program::Buffer& b : program.buffers) {
    if (b.kind == program::BufferKind::kParameter && b.index == number) return &b;
  }
  return nullptr;
}

Result<std::vector<Literal>> MakeArguments(const Input& input, const RunOptions& options,
                                           int64_t device) {
  std::vector<Literal> arguments;
  if (const auto* program = std::get_if<program::Program>(&input)) {
    uint64_t seed = options.seed + static_cast<uint64_t>(device) * 0x9e3779b97f4a7c15;
    for (int64_t i = 0; const program::Buffer* b = FindParameter(*program, i); ++i) {
      arguments.push_back(
          TRY(hlo::RandomLiteral(b->shape, seed + static_cast<uint64_t>(i) * 0x632be59bd9b4e019)));
    }
  } else {
    const hlo::Module& like = options.inputs_of ? *options.inputs_of : *std::get<0>(input);
    arguments = TRY(hlo::RandomArguments(*like.entry(), options.seed, device));
  }
  size_t next = 0;
  for (Literal& argument : arguments) ReplaceLeaves(argument, options.inputs, next);
  return arguments;
}

Status CheckGivenInputs(const Input& input, const RunOptions& options) {
  std::vector<Shape> leaves = ParameterLeaves(input);
  if (options.inputs.size() > leaves.size()) {
    return InvalidArgument(options.inputs.size(), " inputs are given, the parameters have ",
                           leaves.size());
  }
  for (size_t i = 0; i < options.inputs.size(); ++i) {
    const Shape& given = options.inputs[i].shape();
    if (!Shape::CompatibleIgnoringDynamic(given, leaves[i])) {
      return InvalidArgument("input ", i, " is ", given.ToStringWithoutLayout(),
                             ", the parameter is ", leaves[i].ToStringWithoutLayout());
    }
  }
  return {};
}

// Loops whose end depends on an input often do not end on a random one.
constexpr int64_t kLoopStepsOnRandomInputs = 1'000'000;

Result<std::vector<Literal>> EvaluateModule(const hlo::Module& module, int64_t devices,
                                            const RunOptions& options, bool all_given,
                                            std::span<const std::vector<Literal>> arguments) {
  hlo::EvalOptions eval;
  eval.seed = options.seed;
  eval.flush_subnormals = options.flush_subnormals;
  if (options.max_loop_steps > 0) {
    eval.max_loop_steps = options.max_loop_steps;
  } else if (!all_given) {
    eval.max_loop_steps = kLoopStepsOnRandomInputs;
  }
  if (devices == 1) {
    eval.num_replicas = eval.num_partitions = 1;
    std::vector<Literal> result;
    result.push_back(TRY(hlo::Evaluate(module, arguments[0], eval)));
    return result;
  }
  int64_t partitions = std::max<int64_t>(module.config().num_partitions, 1);
  eval.num_partitions = devices % partitions == 0 ? partitions : 1;
  eval.num_replicas = devices / eval.num_partitions;
  return hlo::EvaluateOnDevices(module, arguments, eval);
}

}  // namespace

Result<int64_t> DeviceCount(const Input& input, const RunOptions& options) {
  if (const auto* program = std::get_if<program::Program>(&input)) {
    if (options.devices != 0 && options.devices != program->devices) {
      return InvalidArgument("the program is for ", program->devices, " devices, not ",
                             options.devices);
    }
    return program->devices;
  }
  if (options.devices > 0) return options.devices;
  const hlo::ModuleConfig& config = std::get<0>(input)->config();
  int64_t replicas = std::max<int64_t>(config.replica_count, 1);
  int64_t partitions = std::max<int64_t>(config.num_partitions, 1);
  if (replicas > kMaxDevices || partitions > kMaxDevices || replicas * partitions > kMaxDevices) {
    return ResourceExhausted("the module is for more than ", kMaxDevices,
                             " devices; say how many to simulate");
  }
  return replicas * partitions;
}

std::vector<Shape> ParameterLeaves(const Input& input) {
  std::vector<Shape> leaves;
  if (const auto* program = std::get_if<program::Program>(&input)) {
    for (int64_t i = 0; const program::Buffer* b = FindParameter(*program, i); ++i) {
      leaves.push_back(b->shape);
    }
    return leaves;
  }
  for (const hlo::Instruction* p : std::get<0>(input)->entry()->parameters()) {
    if (p != nullptr) AppendLeaves(p->shape(), leaves);
  }
  return leaves;
}

Result<std::vector<std::vector<Literal>>> ArgumentsOf(const Input& input,
                                                      const RunOptions& options) {
  TRY(CheckGivenInputs(input, options));
  int64_t devices = TRY(DeviceCount(input, options));
  std::vector<std::vector<Literal>> arguments;
  for (int64_t d = 0; d < devices; ++d) {
    arguments.push_back(TRY(MakeArguments(input, options, d)));
  }
  return arguments;
}

Result<RunResult> RunInput(const Input& input, const RunOptions& options) {
  std::vector<std::vector<Literal>> arguments = TRY(ArgumentsOf(input, options));
  int64_t devices = std::ssize(arguments);
  RunResult result;
  if (const auto* program = std::get_if<program::Program>(&input)) {
    result.devices = TRY(program::InterpretDevices(*program, arguments));
    result.is_tuple = true;
    return result;
  }
  const hlo::Module& module = *std::get<0>(input);
  result.is_tuple = module.entry()->root()->shape().IsTuple();
  bool all_given = options.inputs.size() == ParameterLeaves(input).size();
  for (Literal& value : TRY(EvaluateModule(module, devices, options, all_given, arguments))) {
    AppendLeaves(value, result.devices.emplace_back());
  }
  return result;
}

std::string FormatResults(const RunResult& result, int64_t max_elements) {
  std::string out;
  for (size_t d = 0; d < result.devices.size(); ++d) {
    if (result.devices.size() > 1) StrAppend(out, "dev", d, ":\n");
    for (size_t i = 0; i < result.devices[d].size(); ++i) {
      const Literal& leaf = result.devices[d][i];
      if (result.is_tuple) StrAppend(out, i, ": ");
      StrAppend(out, leaf.shape().ToStringWithoutLayout());
      if (leaf.shape().IsArray()) {
        out += ' ';
        leaf.AppendTo(out, max_elements);
      }
      out += '\n';
    }
  }
  return out;
}

namespace {

// What lies beyond run-time sizes means nothing.
std::string CompareSized(const Literal& want, const Literal& got,
                         const runtime::Tolerance& tolerance) {
  Literal values[] = {want, got};
  if (std::string what = CompareSizes(values[0], values[1]); !what.empty()) return what;
  for (Literal& value : values) {
    Literal plain = Literal::Uninitialized(Shape(value.dtype(), value.shape().dims()));
    if (value.size() > 0) {
      std::memcpy(plain.mutable_data(), value.data(), static_cast<size_t>(value.byte_size()));
    }
    value = std::move(plain);
  }
  return CompareLeaves(values[0], values[1], tolerance);
}

}  // namespace

std::string CompareSizes(Literal& want, Literal& got) {
  for (int64_t d = 0; d < std::min(want.shape().rank(), got.shape().rank()); ++d) {
    if (want.dynamic_size(d) == got.dynamic_size(d)) continue;
    return StrCat("sizes of dimension ", d, " differ: ", want.dynamic_size(d), " and ",
                  got.dynamic_size(d));
  }
  if (want.HasDynamicSizes()) hlo::ZeroBeyondDynamicSizes(want);
  if (got.HasDynamicSizes()) hlo::ZeroBeyondDynamicSizes(got);
  return "";
}

std::string CompareLeaves(const Literal& want, const Literal& got,
                          const runtime::Tolerance& tolerance) {
  if (!Shape::CompatibleIgnoringDynamic(want.shape(), got.shape())) {
    return StrCat("shapes differ: ", want.shape().ToStringWithoutLayout(), " and ",
                  got.shape().ToStringWithoutLayout());
  }
  if (!want.shape().IsArray()) return "";
  if (want.HasDynamicSizes() || got.HasDynamicSizes()) return CompareSized(want, got, tolerance);
  auto bytes = [](const Literal& x) {
    return std::span(x.data(), static_cast<size_t>(x.byte_size()));
  };
  runtime::Difference d = runtime::Compare(want.dtype(), bytes(want), bytes(got), tolerance);
  if (!d.any()) return "";
  std::string out = StrCat(d.count, " of ", want.size(), " elements differ; first at ", d.first,
                           ": ", d.wanted, " and ", d.got);
  if (IsFloat(want.dtype()) || IsComplex(want.dtype())) {
    StrAppend(out, "; largest difference ", d.largest);
  }
  return out;
}

runtime::Tolerance ToleranceOf(const Literal& want, double tolerance) {
  DType dtype = want.dtype();
  if (!IsFloat(dtype) || BitWidth(dtype) > 16) return {.relative = tolerance};
  std::span bytes(want.data(), static_cast<size_t>(want.byte_size()));
  return {.ulps = runtime::kFunctionUlps,
          .scale = runtime::LargestOf(dtype, bytes),
          .relative = tolerance};
}

Status CheckDevices(const RunResult& wanted, const DeviceResults& got, double tolerance) {
  for (size_t d = 0; d < got.size(); ++d) {
    size_t next = 0;
    for (const Literal& want : wanted.devices[d]) {
      if (!want.shape().IsArray()) continue;
      std::string what = CompareLeaves(want, got[d][next], ToleranceOf(want, tolerance));
      if (!what.empty()) {
        return MakeError(Code::kInternal, "result ", next, " of device ", d,
                         " differs from the evaluator's: ", what);
      }
      ++next;
    }
  }
  std::printf("same as the evaluator\n");
  return {};
}

}  // namespace weft::tools
