// Gradients of weights arrive as transpose(dot), or transpose(reduce-scatter(dot)). Lowering lets
// collectives cut the leading dimension only, so that one along another dimension costs a copy
// before and one behind it; a product that is made transposed at once costs none.
#include <algorithm>
#include <utility>

#include "compiler/passes.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/rewrite.h"
#include "hlo/clone.h"

namespace weft::compiler {
namespace {

using hlo::Instruction;
using hlo::Op;

// The dimension that a collective cuts or joins; null: it works element by element.
int64_t* CutDimension(hlo::Attrs& attrs, Op op) {
  if (op == Op::kAllGather) return &attrs.Mutable<hlo::AllGatherAttrs>().dimensions[0];
  if (op == Op::kReduceScatter) return &attrs.Mutable<hlo::ReduceScatterAttrs>().dimensions[0];
  return nullptr;
}

bool MovesPastTranspose(const Instruction& i) {
  bool known = i.op() == Op::kAllReduce || i.op() == Op::kAllGather || i.op() == Op::kReduceScatter;
  return known && i.operand_count() == 1 && i.users().size() == 1 && !i.IsRoot() &&
         !HasControlDependencies(i);
}

// The same product with its operands in the other order, which transposes it; null: the transpose
// does something else.
Result<Instruction*> SwappedDot(Instruction* dot, const hlo::Ints& permutation, hlo::Builder& b) {
  const auto& attrs = dot->attrs<hlo::DotAttrs>();
  if (dot->operand_count() != 2 || !attrs.lhs_batch_dims.empty()) return nullptr;
  const int64_t rank = dot->shape().rank();
  const int64_t left = dot->operand(0)->shape().rank() - std::ssize(attrs.lhs_contracting_dims);
  for (int64_t d = 0; d < rank; ++d) {
    if (permutation[static_cast<size_t>(d)] != (d + left) % rank) return nullptr;
  }
  hlo::DotAttrs swapped = attrs;
  std::swap(swapped.lhs_contracting_dims, swapped.rhs_contracting_dims);
  std::reverse(swapped.operand_precision.begin(), swapped.operand_precision.end());
  Shape shape = dot->shape();
  for (int64_t d = 0; d < rank; ++d) {
    shape.set_dim(d, dot->shape().dim(permutation[static_cast<size_t>(d)]));
  }
  Instruction* operands[] = {dot->operand(1), dot->operand(0)};
  Instruction* turned =
      TRY(b.Add(Op::kDot, operands, hlo::Attrs(std::move(swapped)), &shape, dot->name()));
  hlo::CopyFacts(*dot, *turned);
  return turned;
}

// A dot that nobody else reads is made transposed at once, unless its rows are longer than its
// columns: matrix products like long rows.
Result<bool> HoistToDot(Instruction* transpose, Instruction* dot) {
  if (dot->users().size() != 1 || dot->IsRoot() || HasControlDependencies(*dot)) return false;
  if (dot->shape().rank() != 2 || dot->shape().dim(0) < dot->shape().dim(1)) return false;
  hlo::Builder b(*transpose->parent(), dot, transpose);
  Instruction* turned =
      TRY(SwappedDot(dot, transpose->attrs<hlo::DimensionsAttrs>().dimensions, b));
  if (turned == nullptr) return false;
  transpose->ReplaceAllUsesWith(turned);
  transpose->parent()->Remove(transpose);
  dot->parent()->Remove(dot);
  return true;
}

Result<bool> HoistTranspose(Instruction* transpose) {
  if (transpose->op() != Op::kTranspose || HasControlDependencies(*transpose)) return false;
  if (transpose->operand(0)->op() == Op::kDot) return HoistToDot(transpose, transpose->operand(0));
  Instruction* collective = transpose->operand(0);
  if (!MovesPastTranspose(*collective)) return false;
  Instruction* product = collective->operand(0);
  if (product->op() != Op::kDot || product->users().size() != 1) return false;
  const hlo::Ints permutation = transpose->attrs<hlo::DimensionsAttrs>().dimensions;
  hlo::Builder b(*transpose->parent(), collective, transpose);
  Instruction* turned = TRY(SwappedDot(product, permutation, b));
  if (turned == nullptr) return false;
  hlo::Attrs attrs = collective->attrs();
  if (int64_t* dimension = CutDimension(attrs, collective->op())) {
    auto at = std::find(permutation.begin(), permutation.end(), *dimension);
    *dimension = at - permutation.begin();
  }
  Shape shape = transpose->shape();
  Instruction* moved = TRY(
      b.Add(collective->op(), std::span(&turned, 1), std::move(attrs), &shape, collective->name()));
  hlo::CopyFacts(*collective, *moved);
  transpose->ReplaceAllUsesWith(moved);
  transpose->parent()->Remove(transpose);
  collective->parent()->Remove(collective);
  product->parent()->Remove(product);
  return true;
}

}  // namespace

Result<bool> HoistTransposes(hlo::Module& module, const PassContext&) {
  if (module.config().is_scheduled) return false;
  return RewriteEach(module, HoistTranspose);
}

}  // namespace weft::compiler
