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

}  // namespace

std::string FindDifference(const hlo::Module& before, const hlo::Module& after, double tolerance) {
  // A whole program that was partitioned is compared with what its devices compute together.
  const bool joined =
      compiler::spmd::IsPartitioned(after) && !compiler::spmd::IsPartitioned(before);
  const bool alone = before.config().replica_count == 1 && before.config().num_partitions == 1;
  if (!alone && !joined) return "";
  int64_t bytes = 0;
  for (const hlo::Instruction* p : before.entry()->parameters()) {
    bytes += std::min(p->shape().ByteSize(), kMaxArgumentBytes + 1);
  }
  if (bytes > kMaxArgumentBytes) return "";
  hlo::EvalOptions options;
  options.max_loop_steps = 10'000;
  options.max_tensor_bytes = int64_t{256} << 20;
  for (uint64_t round = 0; round < (tolerance > 0 ? 2 : 4); ++round) {
    Result<std::vector<Literal>> arguments = hlo::RandomArguments(*before.entry(), round);
    if (!arguments) return "";
    int64_t turn = static_cast<int64_t>(round);
    for (Literal& argument : *arguments) {
      if (round >= 2) FillWithEdges(argument, turn);
    }
    Result<Literal> x = hlo::Evaluate(before, *arguments, options);
    if (!x) continue;
    Result<Literal> y = joined ? compiler::spmd::EvaluateJoined(before, after, *arguments, options)
                               : hlo::Evaluate(after, *arguments, options);
    if (!y) return StrCat("the result does not evaluate: ", y.error().message());
    std::string what = CompareLiterals(*x, *y, tolerance);
    if (!what.empty()) return StrCat("another value on arguments ", round, ": ", what);
  }
  return "";
}

}  // namespace weft::tools
