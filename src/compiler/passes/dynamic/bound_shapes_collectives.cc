// bound-dynamic-shapes: collectives, whose devices have arrays of the same sizes.
#include "compiler/passes/dynamic/bound_shapes.h"
#include "compiler/passes/rewrite.h"
#include "hlo/clone.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Op;

std::unexpected<Error> NotBounded(const Instruction& i) {
  return Unimplemented(hlo::Mnemonic(i.op()), ": no native lowering of dynamic shapes");
}

// The parts of a group, each as long as its size, one behind the other.
Result<BoundValue> GatherSized(Instruction* i, Instruction* x, const Sizes& own,
                               const KnownSizes& known) {
  Builder b(*i->parent(), i, i);
  hlo::AllGatherAttrs attrs = i->attrs<hlo::AllGatherAttrs>();
  const int64_t dim = attrs.dimensions[0];
  if (x->shape().dim(dim) == 0) return BoundValue{i, {own}};  // nothing of nothing
  const int64_t group = i->shape().dim(dim) / x->shape().dim(dim);
  std::vector<int64_t> part = {1};
  for (int64_t d : x->shape().dims()) part.push_back(d);
  Instruction* row = TRY(b.Reshape(x, part));
  part[0] = group;
  Shape gathered(x->shape().dtype(), part);
  attrs.dimensions = {0};
  Instruction* all = TRY(b.Add(Op::kAllGather, std::span(&row, 1), std::move(attrs), &gathered));
  KnownSizes with_parts = known;
  std::vector<Instruction*> parts;
  for (int64_t g = 0; g < group; ++g) {
    hlo::SliceAttrs slice;
    for (int64_t d = 0; d < std::ssize(part); ++d) {
      slice.slice.push_back({d == 0 ? g : 0, d == 0 ? g + 1 : part[static_cast<size_t>(d)], 1});
    }
    Instruction* one = TRY(b.Add(Op::kSlice, {all}, std::move(slice)));
    parts.push_back(TRY(b.Reshape(one, x->shape().dims())));
    with_parts.Note(*parts.back(), {own});
  }
  Instruction* joined =
      TRY(b.Add(Op::kConcatenate, parts, hlo::DimensionsAttrs{.dimensions = {dim}}));
  hlo::ReplaceInstruction(i, joined);
  return BoundOp(joined, with_parts);
}

// The dimension that is cut or joined; -1: none.
int64_t SplitDimension(const Instruction& i) {
  auto first = [](const hlo::Ints& dims) { return dims.empty() ? -1 : dims[0]; };
  switch (i.op()) {
    case Op::kAllGather: return first(i.attrs<hlo::AllGatherAttrs>().dimensions);
    case Op::kAllToAll: return first(i.attrs<hlo::AllToAllAttrs>().dimensions);
    case Op::kReduceScatter: return first(i.attrs<hlo::ReduceScatterAttrs>().dimensions);
    default: return -1;
  }
}

}  // namespace

Result<BoundValue> BoundCollective(Instruction* i, const KnownSizes& known) {
  switch (i->op()) {
    case Op::kAllGather:
    case Op::kAllReduce:
    case Op::kAllToAll:
    case Op::kCollectiveBroadcast:
    case Op::kCollectivePermute:
    case Op::kCollectiveReduce:
    case Op::kReduceScatter: break;
    default: return NotBounded(*i);
  }
  if (i->op() == Op::kCollectivePermute &&
      !i->attrs<hlo::CollectivePermuteAttrs>().slice_sizes.empty()) {
    return NotBounded(*i);
  }
  const int64_t split = SplitDimension(*i);
  const size_t results = LeavesOf(i->shape()).size();
  std::vector<Sizes> leaves;
  for (size_t k = 0; k < results; ++k) {
    Instruction* operand = i->operand(static_cast<int64_t>(k));
    leaves.push_back(known.OfArray(*operand));
    if (split < 0 || leaves.back()[static_cast<size_t>(split)] == nullptr) continue;
    if (i->op() != Op::kAllGather || results != 1 || i->shape().IsTuple()) return NotBounded(*i);
    return GatherSized(i, operand, leaves.back(), known);
  }
  return BoundValue{i, leaves};
}

}  // namespace weft::compiler
