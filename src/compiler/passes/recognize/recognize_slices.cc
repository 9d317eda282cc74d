// x[(arange(n) - 1) % n] and the like: contiguous loads in the place of a gather.
#include "compiler/passes/recognize/recognize_slices.h"

#include <algorithm>

#include "compiler/analysis/search.h"
#include "compiler/passes.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/rewrite.h"
#include "hlo/clone.h"
#include "hlo/evaluate.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Ints;
using hlo::Op;

constexpr size_t kMaxRuns = program::CodeBounds::kCopies;  // each is a piece of a loop of its own
// Elements that are worth a piece: a vector of them.
constexpr int64_t kLongRun = 2 * program::TargetFacts::kUsualLanes;

bool IsKnownFunction(const Instruction& i) {
  switch (i.op()) {
    case Op::kBroadcast:
    case Op::kConcatenate:
    case Op::kIota:
    case Op::kReshape:
    case Op::kReverse:
    case Op::kSlice:
    case Op::kTranspose: return true;
    default: return HasTrait(i.op(), hlo::kElementwise) && i.called_computations().empty();
  }
}

// Elements begin, begin + stride, ... of a dimension.
struct Run {
  int64_t begin = 0, length = 1, stride = 1;
};

// The dimension that the gather takes elements of, whole in all others: x[places] along it.
std::optional<int64_t> TakenDimension(const Instruction& gather) {
  const auto& attrs = gather.attrs<hlo::GatherAttrs>();
  const Shape &x = gather.operand(0)->shape(), &indices = gather.operand(1)->shape();
  if (attrs.collapsed_slice_dims.size() != 1 || !attrs.operand_batching_dims.empty() ||
      attrs.start_index_map != attrs.collapsed_slice_dims) {
    return std::nullopt;
  }
  int64_t taken = attrs.collapsed_slice_dims[0];
  bool one_dimension = indices.rank() == (attrs.index_vector_dim < indices.rank() ? 2 : 1);
  if (!one_dimension || gather.shape().rank() != x.rank()) return std::nullopt;
  Ints others;
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (d != taken && attrs.slice_sizes[static_cast<size_t>(d)] != x.dim(d)) return std::nullopt;
    if (d != taken) others.push_back(d);
  }
  if (attrs.offset_dims != others || x.dim(taken) == 0) return std::nullopt;
  return taken;
}

// The places as runs: one of any stride, or few of neighbours. Empty: they are not.
std::vector<Run> RunsOf(const Literal& places, int64_t size) {
  std::vector<Run> runs;
  auto at = [&](int64_t k) { return std::clamp<int64_t>(places.GetInt(k), 0, size - 1); };
  int64_t count = places.size(), stride = count > 1 ? at(1) - at(0) : 1;
  bool one = stride != 0;
  for (int64_t k = 1; one && k < count; ++k) one = at(k) - at(k - 1) == stride;
  if (one) return {{at(0), count, stride}};
  for (int64_t k = 0; k < count; ++k) {
    if (!runs.empty() && at(k) == runs.back().begin + runs.back().length) {
      ++runs.back().length;
      continue;
    }
    if (runs.size() == kMaxRuns) return {};
    runs.push_back({at(k)});
  }
  if (count < kLongRun * static_cast<int64_t>(runs.size())) return {};
  return runs;
}

Result<Instruction*> SliceOf(Builder& b, Instruction* x, int64_t dim, const Run& run) {
  int64_t last = run.begin + (run.length - 1) * run.stride;
  hlo::SliceDims dims;
  for (int64_t d = 0; d < x->shape().rank(); ++d) dims.push_back({0, x->shape().dim(d), 1});
  dims[static_cast<size_t>(dim)] = {std::min(run.begin, last), std::max(run.begin, last) + 1,
                                    std::abs(run.stride)};
  Instruction* slice = TRY(b.Add(Op::kSlice, {x}, hlo::SliceAttrs{.slice = std::move(dims)}));
  if (run.stride > 0) return slice;
  return b.Add(Op::kReverse, {slice}, hlo::DimensionsAttrs{.dimensions = {dim}});
}

Result<bool> SliceKnownGather(Instruction* gather, KnownIntegers& known) {
  if (!IsStaticallyShaped(*gather) || gather->shape().elements() == 0) return false;
  if (HasControlDependencies(*gather) || gather->sharding() != nullptr) return false;
  std::optional<int64_t> dim = TakenDimension(*gather);
  if (!dim || gather->operand(1)->shape().dtype() == DType::kU64) return false;
  std::optional<Literal> places = known.Of(*gather->operand(1));
  if (!places) return false;
  std::vector<Run> runs = RunsOf(*places, gather->operand(0)->shape().dim(*dim));
  if (runs.empty()) return false;
  Builder b(*gather->parent(), gather, gather);
  std::vector<Instruction*> pieces;
  for (const Run& run : runs) pieces.push_back(TRY(SliceOf(b, gather->operand(0), *dim, run)));
  Instruction* joined = pieces[0];
  if (pieces.size() > 1) {
    joined = TRY(b.Add(Op::kConcatenate, pieces, hlo::DimensionsAttrs{.dimensions = {*dim}}));
  }
  hlo::ReplaceInstruction(gather, joined);
  return true;
}

}  // namespace

std::optional<Literal> KnownIntegers::Of(const Instruction& i) {
  if (i.IsConstant()) {
    if (i.attrs<hlo::ConstantAttrs>().elided) return std::nullopt;
    return i.literal();
  }
  auto found = known_.find(&i);
  if (found != known_.end()) return found->second;
  ++depth_;
  std::optional<Literal> value = Compute(i);
  --depth_;
  return known_[&i] = std::move(value);
}

std::optional<Literal> KnownIntegers::Compute(const Instruction& i) {
  if (depth_ > kMaxChain || !IsKnownFunction(i) || !i.shape().IsArray() || !i.shape().IsStatic() ||
      HasControlDependencies(i)) {
    return std::nullopt;
  }
  DType dtype = i.shape().dtype();
  int64_t elements = i.shape().elements();
  if (!IsInteger(dtype) && dtype != DType::kPred) return std::nullopt;
  if (elements > kMaxLookedAt || elements > work_left_) return std::nullopt;
  std::vector<Literal> operands;
  for (const Instruction* operand : i.operands()) {
    std::optional<Literal> value = Of(*operand);
    if (!value) return std::nullopt;
    operands.push_back(*std::move(value));
  }
  work_left_ -= elements;
  Result<Literal> value = hlo::EvaluateInstruction(i, operands);
  if (!value) return std::nullopt;
  return *std::move(value);
}

void KnownIntegers::KnowInvariants(const Loop& loop) {
  for (const Instruction* i : loop.body_state->users()) {
    const int64_t k = i->tuple_index();
    const Instruction* init = loop.IsInvariant(k) ? loop.Init(k) : nullptr;
    if (init == nullptr || !init->IsConstant() || !init->shape().IsArray()) continue;
    DType dtype = init->shape().dtype();
    if (IsInteger(dtype) || dtype == DType::kPred) known_[i] = Of(*init);
  }
}

Result<bool> SliceKnownGathers(hlo::Computation& computation, KnownIntegers known) {
  bool changed = false;
  for (Instruction* i : computation.Snapshot()) {
    if (i->op() == Op::kGather) changed |= TRY(SliceKnownGather(i, known));
  }
  return changed;
}

Result<bool> RecognizeSlices(hlo::Module& module, const PassContext&) {
  if (module.config().is_scheduled) return false;
  bool changed = false;
  for (const auto& computation : module.computations()) {
    changed |= TRY(SliceKnownGathers(*computation));
  }
  return changed;
}

}  // namespace weft::compiler
