// Gradients of weights arrive as transpose(reduce-scatter(dot)). Lowering lets collectives cut the
// leading dimension only, so that one along another dimension costs a copy before and one behind
// it; a product that is made transposed at once costs none.
#include <algorithm>

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

Result<bool> HoistTranspose(Instruction* transpose) {
  if (transpose->op() != Op::kTranspose || HasControlDependencies(*transpose)) return false;
  Instruction* collective = transpose->operand(0);
  if (!MovesPastTranspose(*collective)) return false;
  Instruction* product = collective->operand(0);
  if (product->op() != Op::kDot || product->users().size() != 1) return false;
  const hlo::Ints permutation = transpose->attrs<hlo::DimensionsAttrs>().dimensions;
  hlo::Builder b(*transpose->parent(), collective, transpose);
  Instruction* turned = TRY(b.Transpose(product, permutation));
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
  return true;
}

}  // namespace

Result<bool> HoistTransposes(hlo::Module& module, const PassContext&) {
  if (module.config().is_scheduled) return false;
  return RewriteEach(module, HoistTranspose);
}

}  // namespace weft::compiler
