// Top-k: sorts of which only the beginning is read. JAX's lax.top_k comes through PJRT as one,
// since chlo.top_k is no part of portable StableHLO.
#include <algorithm>

#include "compiler/passes.h"
#include "compiler/passes/rewrite.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Op;

// Whether larger elements of the first operand come first; nothing for other comparators.
std::optional<bool> LargestFirst(const hlo::Computation& comparator) {
  const Instruction& compare = *comparator.root();
  if (compare.op() != Op::kCompare) return std::nullopt;
  const auto& attrs = compare.attrs<hlo::CompareAttrs>();
  DType dtype = compare.operand(0)->shape().dtype();
  if (!attrs.total_order() && !IsInteger(dtype)) return std::nullopt;
  hlo::Direction direction = attrs.direction;
  if (compare.operand(0) == comparator.parameter(1) &&
      compare.operand(1) == comparator.parameter(0)) {
    direction = hlo::Swapped(direction);
  } else if (compare.operand(0) != comparator.parameter(0) ||
             compare.operand(1) != comparator.parameter(1)) {
    return std::nullopt;
  }
  if (direction == hlo::Direction::kGt) return true;
  if (direction == hlo::Direction::kLt) return false;
  return std::nullopt;
}

// The end of a slice from the start of dimension d and of all of the others; nothing for any other
// user of a result.
std::optional<int64_t> EndOfPrefix(const Instruction& slice, int64_t d) {
  if (slice.op() != Op::kSlice || !IsStaticallyShaped(slice)) return std::nullopt;
  const auto& dims = slice.attrs<hlo::SliceAttrs>().slice;
  for (size_t i = 0; i < dims.size(); ++i) {
    bool whole = dims[i].limit == slice.operand(0)->shape().dim(static_cast<int64_t>(i));
    if (dims[i].start != 0 || dims[i].stride != 1) return std::nullopt;
    if (static_cast<int64_t>(i) != d && !whole) return std::nullopt;
  }
  return dims[static_cast<size_t>(d)].limit;
}

Result<bool> RecognizeOne(Instruction* sort) {
  if (sort->op() != Op::kSort || !IsStaticallyShaped(*sort) || sort->IsRoot()) return false;
  const auto& attrs = sort->attrs<hlo::SortAttrs>();
  const Shape& from = sort->operand(0)->shape();
  int64_t d = attrs.dimensions[0], numbered = sort->operand_count() - 1;
  std::optional<bool> largest = LargestFirst(*attrs.to_apply);
  if (!largest || d != from.rank() - 1 || numbered > 1 || from.elements() == 0) return false;
  if (numbered == 1) {
    const Instruction& iota = *sort->operand(1);
    if (iota.op() != Op::kIota || iota.shape().dtype() != DType::kS32 || !attrs.is_stable ||
        iota.attrs<hlo::IotaAttrs>().iota_dimension != d) {
      return false;
    }
  }
  // The slices, with the number of the result that they are of.
  std::vector<std::pair<Instruction*, int64_t>> slices;
  int64_t k = 0;
  auto collect = [&](Instruction* result, int64_t number) {
    for (Instruction* user : result->users()) {
      std::optional<int64_t> end = EndOfPrefix(*user, d);
      if (!end) return false;
      k = std::max(k, *end);
      slices.emplace_back(user, number);
    }
    return !result->IsRoot();
  };
  if (sort->shape().IsTuple()) {
    for (Instruction* user : sort->users()) {
      bool reads = user->op() == Op::kGetTupleElement && collect(user, user->tuple_index());
      if (!reads) return false;
    }
  } else if (!collect(sort, 0)) {
    return false;
  }
  if (k == 0 || 2 * k > from.dim(d)) return false;
  Builder b(*sort->parent(), sort, sort);
  hlo::TopKAttrs top_attrs;
  top_attrs.k = k;
  top_attrs.largest = *largest;
  Instruction* top = TRY(b.Add(Op::kTopK, {sort->operand(0)}, top_attrs));
  Instruction* parts[] = {TRY(b.GetTupleElement(top, 0)), TRY(b.GetTupleElement(top, 1))};
  for (auto [slice, number] : slices) {
    Instruction* part = parts[number];
    if (slice->shape().dim(d) != k) {
      Builder at(*slice->parent(), slice, slice);
      part = TRY(at.Add(Op::kSlice, {part}, slice->attrs<hlo::SliceAttrs>()));
    }
    slice->ReplaceAllUsesWith(part);
  }
  return true;
}

}  // namespace

Result<bool> RecognizeTopK(hlo::Module& module, const PassContext&) {
  bool changed = TRY(RewriteEach(module, RecognizeOne));
  if (changed) module.RemoveUnusedComputations();
  return changed;
}

}  // namespace weft::compiler
