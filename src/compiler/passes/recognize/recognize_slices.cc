// x[(arange(n) - 1) % n] and the like: contiguous loads in the place of a gather.
#include "compiler/passes/recognize/recognize_slices.h"

#include <algorithm>
#include <span>
#include <vector>

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
constexpr int64_t kLongRun = program::TargetFacts::kUsualLanes;

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

bool Contains(const Ints& dims, int64_t d) {
  return std::ranges::find(dims, d) != dims.end();
}

// Elements begin, begin + stride, ... of a dimension.
struct Run {
  int64_t begin = 0, length = 1, stride = 1;
};

// Where a gather reads one element of a dimension: places that follow one dimension of the indices
// (`along`; -1: there is one place).
struct Places {
  int64_t dim = 0, along = -1;
  std::vector<int64_t> known;
};

// The one dimension of more than one element; -1: none, -2: several.
int64_t OnlyDimension(const Shape& shape) {
  int64_t only = -1;
  for (int64_t d = 0; d < shape.rank(); ++d) {
    if (shape.dim(d) != 1) only = only == -1 ? d : -2;
  }
  return only;
}

std::vector<int64_t> NumbersOf(const Literal& literal) {
  std::vector<int64_t> numbers;
  for (int64_t k = 0; k < literal.size(); ++k) numbers.push_back(literal.GetInt(k));
  return numbers;
}

// Known numbers that follow one dimension.
std::optional<Places> FollowOne(const Shape& shape, const std::vector<int64_t>& numbers) {
  int64_t stride = std::ssize(numbers);
  for (int64_t d = 0; d < shape.rank(); ++d) {
    const int64_t size = shape.dim(d);
    stride /= size;
    if (size == 1) continue;
    Places places{.along = d, .known = {}};
    for (int64_t k = 0; k < size; ++k) places.known.push_back(numbers[k * stride]);
    bool follow = true;
    for (int64_t n = 0; follow && n < std::ssize(numbers); ++n) {
      follow = numbers[n] == places.known[n / stride % size];
    }
    if (follow) return places;
  }
  return std::nullopt;
}

// Places that follow one dimension at most.
std::optional<Places> PlacesAlongOne(const Instruction* i, KnownIntegers& known) {
  Ints to;  // dimensions of `i` by those of what it repeats
  for (int64_t d = 0; d < i->shape().rank(); ++d) to.push_back(d);
  if (i->op() == Op::kBroadcast) {
    to = i->attrs<hlo::BroadcastAttrs>().dimensions;
    i = i->operand(0);
  }
  std::optional<Literal> literal = known.Of(*i);
  if (!literal || literal->size() == 0) return std::nullopt;
  Places all{.along = OnlyDimension(i->shape()), .known = NumbersOf(*literal)};
  std::optional<Places> places = all;
  if (all.along == -2) places = FollowOne(i->shape(), all.known);
  if (places && places->along >= 0) places->along = to[static_cast<size_t>(places->along)];
  return places;
}

// The gather's places by dimension where it reads x[f(i), g(j), ...]: each follows a dimension of
// its own, and the other dimensions are read whole. Empty: it reads otherwise.
std::vector<Places> SeparatePlaces(const Instruction& gather, KnownIntegers& known) {
  const auto& attrs = gather.attrs<hlo::GatherAttrs>();
  const Instruction& indices = *gather.operand(1);
  const Shape& x = gather.operand(0)->shape();
  if (!attrs.operand_batching_dims.empty() || indices.shape().dtype() == DType::kU64) return {};
  const size_t count = attrs.start_index_map.size();
  const bool joined = indices.op() == Op::kConcatenate &&
                      indices.attrs<hlo::DimensionsAttrs>().dimensions[0] == attrs.index_vector_dim;
  if (count != (joined ? static_cast<size_t>(indices.operand_count()) : 1)) return {};
  for (int64_t d = 0; d < x.rank(); ++d) {
    bool taken = Contains(attrs.start_index_map, d);
    if (attrs.slice_sizes[static_cast<size_t>(d)] != (taken ? 1 : x.dim(d))) return {};
    if (taken && x.dim(d) == 0) return {};
  }
  std::vector<Places> all;
  std::vector<bool> followed(static_cast<size_t>(indices.shape().rank()));
  for (size_t k = 0; k < count; ++k) {
    const Instruction* part = joined ? indices.operand(static_cast<int64_t>(k)) : &indices;
    std::optional<Places> places = PlacesAlongOne(part, known);
    if (!places) return {};
    places->dim = attrs.start_index_map[k];
    if (places->along == attrs.index_vector_dim) return {};
    if (places->along >= 0) {
      if (followed[static_cast<size_t>(places->along)]) return {};
      followed[static_cast<size_t>(places->along)] = true;
    }
    all.push_back(*std::move(places));
  }
  for (int64_t d = 0; d < indices.shape().rank(); ++d) {  // the same places for each of d
    bool repeats = d != attrs.index_vector_dim && indices.shape().dim(d) != 1;
    if (repeats && !followed[static_cast<size_t>(d)]) return {};
  }
  return all;
}

// The places as runs: one of any stride, or few of neighbours. Empty: they are not.
std::vector<Run> RunsOf(std::span<const int64_t> places, int64_t size) {
  std::vector<Run> runs;
  auto at = [&](int64_t k) { return std::clamp<int64_t>(places[k], 0, size - 1); };
  int64_t count = std::ssize(places), stride = count > 1 ? at(1) - at(0) : 1;
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

// x[runs] along a dimension.
Result<Instruction*> TakeRuns(Builder& b, Instruction* x, int64_t dim,
                              const std::vector<Run>& runs) {
  if (runs.size() == 1 && runs[0].stride == 1 && runs[0].length == x->shape().dim(dim)) return x;
  std::vector<Instruction*> pieces;
  for (const Run& run : runs) pieces.push_back(TRY(SliceOf(b, x, dim, run)));
  if (pieces.size() == 1) return pieces[0];
  return b.Add(Op::kConcatenate, pieces, hlo::DimensionsAttrs{.dimensions = {dim}});
}

// The dimensions of `taken` (x with fewer elements of some) in the order in which the gather's
// result has them, without those of one element that it took.
Ints OrderOfResult(const Instruction& gather, const std::vector<Places>& all) {
  const auto& attrs = gather.attrs<hlo::GatherAttrs>();
  Ints whole, followed, order;
  for (int64_t d = 0; d < gather.operand(0)->shape().rank(); ++d) {
    if (!Contains(attrs.collapsed_slice_dims, d)) whole.push_back(d);
  }
  for (int64_t d = 0; d < gather.operand(1)->shape().rank(); ++d) {
    if (d == attrs.index_vector_dim) continue;
    auto of = std::ranges::find(all, d, &Places::along);
    followed.push_back(of == all.end() ? -1 : of->dim);
  }
  size_t next_whole = 0, next_followed = 0;
  for (int64_t d = 0; d < gather.shape().rank(); ++d) {
    bool is_whole = Contains(attrs.offset_dims, d);
    int64_t from = is_whole ? whole[next_whole++] : followed[next_followed++];
    bool taken = is_whole && Contains(attrs.start_index_map, from);
    if (from >= 0 && !taken) order.push_back(from);
  }
  return order;
}

Result<bool> SliceKnownGather(Instruction* gather, KnownIntegers& known) {
  if (!IsStaticallyShaped(*gather) || gather->shape().elements() == 0) return false;
  if (HasControlDependencies(*gather) || gather->sharding() != nullptr) return false;
  std::vector<Places> all = SeparatePlaces(*gather, known);
  std::vector<std::vector<Run>> runs;
  for (const Places& places : all) {
    runs.push_back(RunsOf(places.known, gather->operand(0)->shape().dim(places.dim)));
    if (runs.back().empty()) return false;
  }
  if (all.empty()) return false;
  Builder b(*gather->parent(), gather, gather);
  Instruction* taken = gather->operand(0);
  for (size_t k = 0; k < all.size(); ++k) taken = TRY(TakeRuns(b, taken, all[k].dim, runs[k]));
  const Ints order = OrderOfResult(*gather, all);
  Ints kept = order, permutation;
  std::ranges::sort(kept);
  Ints dims;
  for (int64_t d : kept) dims.push_back(taken->shape().dim(d));
  if (dims.size() != static_cast<size_t>(taken->shape().rank())) {
    taken = TRY(b.Reshape(taken, dims));
  }
  for (int64_t d : order) permutation.push_back(std::ranges::find(kept, d) - kept.begin());
  if (order != kept) taken = TRY(b.Transpose(taken, permutation));
  if (taken->shape().dims() != gather->shape().dims()) {
    taken = TRY(b.Reshape(taken, gather->shape().dims()));
  }
  hlo::ReplaceInstruction(gather, taken);
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
