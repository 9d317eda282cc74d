#include "same_results.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/spmd/joined.h"
#include "hlo/evaluate.h"
#include "hlo/random_arguments.h"
#include "run_input.h"

namespace weft::tools {
namespace {

constexpr int64_t kMaxArgumentBytes = int64_t{16} << 20;
constexpr int64_t kMaxDevices = 16;  // threads of the evaluator
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kEdgeFloats[] = {0.0, -0.0, 1.0,  -1.0,  kInfinity, -kInfinity, kNan, 0.5,
                                  2.0, -3.0, 1e30, -1e30, 1e-30,     7.0,        -0.25};
constexpr int64_t kEdgeIntegers[] = {
    0,  1,   -1,  std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(), 2, -7,
    64, 127, -128};

// Elements take the edge values in turn, from another one on for each array.
void FillWithEdges(Literal& value, int64_t& turn) {
  for (Literal& element : value.mutable_tuple()) FillWithEdges(element, turn);
  if (!value.shape().IsArray()) return;
  int bits = BitWidth(value.dtype());
  for (int64_t i = 0; i < value.size(); ++i, ++turn) {
    if (IsFloat(value.dtype())) {
      value.SetDouble(i, kEdgeFloats[static_cast<size_t>(turn) % std::size(kEdgeFloats)]);
    } else if (IsComplex(value.dtype())) {
      value.SetComplex(i, kEdgeFloats[static_cast<size_t>(turn) % std::size(kEdgeFloats)]);
    } else {
      int64_t edge = kEdgeIntegers[static_cast<size_t>(turn) % std::size(kEdgeIntegers)];
      bool extreme = edge == std::numeric_limits<int64_t>::min() ||
                     edge == std::numeric_limits<int64_t>::max();
      if (extreme && bits < 64) edge >>= 64 - bits;
      value.SetInt(i, value.dtype() == DType::kPred ? (edge & 1) : edge);
    }
  }
  turn += 3;
}

// The same bits, or NaN both.
std::string FindFirstDifference(const Literal& x, const Literal& y) {
  if (!Shape::Compatible(x.shape(), y.shape())) {
    return StrCat(x.shape().ToStringWithoutLayout(), " became ", y.shape().ToStringWithoutLayout());
  }
  for (size_t k = 0; k < x.tuple().size(); ++k) {
    std::string inner = FindFirstDifference(x.tuple()[k], y.tuple()[k]);
    if (!inner.empty()) return StrCat("element ", k, ": ", inner);
  }
  if (!x.shape().IsArray() || x == y) return "";
  for (int64_t i = 0; i < x.size(); ++i) {
    std::string a, b;
    x.AppendElement(a, i);
    y.AppendElement(b, i);
    if (a == b || (a.contains("nan") && b.contains("nan"))) continue;
    return StrCat("at ", i, ": ", a, " became ", b);
  }
  return "";
}

std::string CompareLiterals(const Literal& x, const Literal& y, double tolerance) {
  if (tolerance <= 0) return FindFirstDifference(x, y);
  if (!x.shape().IsTuple())
    return x.shape().IsArray() ? CompareLeaves(x, y, {.relative = tolerance}) : "";
  for (size_t k = 0; k < x.tuple().size(); ++k) {
    std::string inner = CompareLiterals(x.tuple()[k], y.tuple()[k], tolerance);
    if (!inner.empty()) return StrCat("element ", k, ": ", inner);
  }
  return "";
}

// Devices that a module runs on: what it says, or else as many as its collectives name.
int64_t DevicesOf(const hlo::Module& module) {
  const hlo::ModuleConfig& config = module.config();
  int64_t devices = config.replica_count * config.num_partitions;
  if (devices > 1) return devices;
  auto name = [&](int64_t device) { devices = std::max(devices, device + 1); };
  for (const auto& c : module.computations()) {
    for (const hlo::Instruction* i : *c) {
      const hlo::CollectiveAttrs* attrs = i->attrs().Collective();
      if (attrs == nullptr) continue;
      if (auto groups = attrs->replica_groups.Expand(0)) {
        for (const auto& group : *groups) std::for_each(group.begin(), group.end(), name);
      }
      if (!i->attrs().Is<hlo::CollectivePermuteAttrs>()) continue;
      for (auto [from, to] : i->attrs<hlo::CollectivePermuteAttrs>().source_target_pairs) {
        name(from), name(to);
      }
    }
  }
  return devices;
}

using ByDevice = std::vector<std::vector<Literal>>;

// Other arguments on each device.
Result<ByDevice> ArgumentsOf(const hlo::Module& module, uint64_t round, int64_t devices) {
  ByDevice arguments;
  for (int64_t d = 0; d < devices; ++d) {
    uint64_t seed = round + 4 * static_cast<uint64_t>(d);
    arguments.push_back(TRY(hlo::RandomArguments(*module.entry(), seed)));
    int64_t turn = static_cast<int64_t>(seed);
    for (Literal& argument : arguments.back()) {
      if (round >= 2) FillWithEdges(argument, turn);
    }
  }
  return arguments;
}

Result<std::vector<Literal>> EvaluateEach(const hlo::Module& module, const ByDevice& arguments,
                                          const hlo::EvalOptions& options) {
  if (arguments.size() > 1) return hlo::EvaluateOnDevices(module, arguments, options);
  return std::vector{TRY(hlo::Evaluate(module, arguments[0], options))};
}

}  // namespace

std::string FindDifference(const hlo::Module& before, const hlo::Module& after, double tolerance) {
  // A whole program that was partitioned is compared with what its devices compute together.
  const bool joined =
      compiler::spmd::IsPartitioned(after) && !compiler::spmd::IsPartitioned(before);
  const int64_t devices = joined ? 1 : DevicesOf(before);
  if (devices > kMaxDevices) return "";
  int64_t bytes = 0;
  for (const hlo::Instruction* p : before.entry()->parameters()) {
    bytes += std::min(p->shape().ByteSize(), kMaxArgumentBytes + 1);
  }
  if (bytes * devices > kMaxArgumentBytes) return "";
  hlo::EvalOptions options;
  options.max_loop_steps = 10'000;
  options.max_tensor_bytes = int64_t{256} << 20;
  const hlo::ModuleConfig& config = before.config();
  if (config.replica_count * config.num_partitions == 1) options.num_partitions = devices;
  for (uint64_t round = 0; round < (tolerance > 0 ? 2 : 4); ++round) {
    Result<ByDevice> arguments = ArgumentsOf(before, round, devices);
    if (!arguments) return "";
    Result<std::vector<Literal>> x = EvaluateEach(before, *arguments, options);
    if (!x) continue;
    Result<std::vector<Literal>> y;
    if (joined) {
      y = [&]() -> Result<std::vector<Literal>> {
        return std::vector{
            TRY(compiler::spmd::EvaluateJoined(before, after, (*arguments)[0], options))};
      }();
    } else {
      y = EvaluateEach(after, *arguments, options);
    }
    if (!y) return StrCat("the result does not evaluate: ", y.error().message());
    for (size_t d = 0; d < x->size(); ++d) {
      std::string what = CompareLiterals((*x)[d], (*y)[d], tolerance);
      if (what.empty()) continue;
      std::string where = x->size() > 1 ? StrCat(" of device ", d) : "";
      return StrCat("another value on arguments ", round, where, ": ", what);
    }
  }
  return "";
}

}  // namespace weft::tools
