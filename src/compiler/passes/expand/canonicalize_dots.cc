#include <algorithm>
#include <limits>
#include <numeric>

#include "compiler/passes.h"
#include "compiler/passes/expand/dots.h"
#include "compiler/passes/rewrite.h"
#include "hlo/clone.h"
#include "program/target_facts.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::DotAttrs;
using hlo::Instruction;
using hlo::Ints;
using hlo::Op;

// The dimensions of one operand by role.
struct DotSide {
  Ints batch, free, contracting;
};

DotSide SideOf(int64_t rank, const Ints& batch, const Ints& contracting) {
  DotSide side{batch, {}, contracting};
  for (int64_t d = 0; d < rank; ++d) {
    bool taken = std::ranges::count(batch, d) + std::ranges::count(contracting, d) > 0;
    if (!taken) side.free.push_back(d);
  }
  return side;
}

Ints InOrder(const Ints& dims, const Ints& order) {
  Ints result;
  for (int64_t i : order) result.push_back(dims[static_cast<size_t>(i)]);
  return result;
}

Ints Joined(const Ints& a, const Ints& b, const Ints& c) {
  Ints all = a;
  all.insert(all.end(), b.begin(), b.end());
  all.insert(all.end(), c.begin(), c.end());
  return all;
}

int64_t ProductOf(const Shape& shape, const Ints& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= shape.dim(d);
  return n;
}

// How an operand becomes [batch..., rows, columns].
struct Arrangement {
  Ints batch, rows, columns;
  bool contracting_last = false;
  bool moves = false;  // it takes a transpose

  Ints order() const { return Joined(batch, rows, columns); }
};

// Where both orders need a transpose, the one that keeps the last dimension last moves whole rows;
// else `prefer_last` says where the contracting dimensions go.
Arrangement Arrange(const Shape& shape, const DotSide& side, const Ints& batch_order,
                    const Ints& contracting_order, bool prefer_last) {
  Ints batch = InOrder(side.batch, batch_order);
  Ints contracting = InOrder(side.contracting, contracting_order);
  Arrangement last{batch, side.free, contracting, true};
  Arrangement first{batch, contracting, side.free, false};
  last.moves = MovesElements(shape.dims(), last.order());
  first.moves = MovesElements(shape.dims(), first.order());
  if (last.moves && first.moves) {
    bool rows_kept = last.order().back() == shape.rank() - 1;
    if (rows_kept != (first.order().back() == shape.rank() - 1)) return rows_kept ? last : first;
  }
  if (last.moves == first.moves) return prefer_last ? last : first;
  return last.moves ? first : last;
}

// 0..n-1 sorted by the dimensions that they number.
Ints OrderBy(const Ints& dims) {
  Ints order(dims.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return dims[static_cast<size_t>(a)] < dims[static_cast<size_t>(b)];
  });
  return order;
}

std::vector<Ints> CandidateOrders(const Ints& lhs, const Ints& rhs) {
  Ints written(lhs.size());
  std::iota(written.begin(), written.end(), 0);
  return {written, OrderBy(lhs), OrderBy(rhs)};
}

struct DotPlan {
  Ints batch_order;
  Arrangement lhs, rhs;
  int64_t moved = std::numeric_limits<int64_t>::max();  // elements that transposes move
};

// Orders of batch and contracting dimensions are free; the one that moves least.
DotPlan PlanDot(const Instruction& dot) {
  const DotAttrs& a = dot.attrs<DotAttrs>();
  const Shape &left = dot.operand(0)->shape(), &right = dot.operand(1)->shape();
  DotSide lhs = SideOf(left.rank(), a.lhs_batch_dims, a.lhs_contracting_dims);
  DotSide rhs = SideOf(right.rank(), a.rhs_batch_dims, a.rhs_contracting_dims);
  DotPlan best;
  for (const Ints& batch : CandidateOrders(lhs.batch, rhs.batch)) {
    Ints sizes;
    for (int64_t d : lhs.batch) sizes.push_back(left.dim(d));
    bool result_moves = MovesElements(sizes, batch);
    for (const Ints& contracting : CandidateOrders(lhs.contracting, rhs.contracting)) {
      DotPlan plan{batch, Arrange(left, lhs, batch, contracting, true),
                   Arrange(right, rhs, batch, contracting, false), 0};
      plan.moved = (plan.lhs.moves ? left.elements() : 0) +
                   (plan.rhs.moves ? right.elements() : 0) +
                   (result_moves ? dot.shape().elements() : 0);
      if (plan.moved < best.moved) best = plan;
    }
  }
  return best;
}

bool IsCanonicalForm(const Instruction& dot) {
  const DotAttrs& a = dot.attrs<DotAttrs>();
  int64_t batch = static_cast<int64_t>(a.lhs_batch_dims.size());
  auto fits = [&](const Shape& shape, const Ints& batch_dims, const Ints& contracting) {
    for (int64_t i = 0; i < batch; ++i) {
      if (batch_dims[static_cast<size_t>(i)] != i) return false;
    }
    return shape.rank() == batch + 2 && contracting.size() == 1;
  };
  return fits(dot.operand(0)->shape(), a.lhs_batch_dims, a.lhs_contracting_dims) &&
         fits(dot.operand(1)->shape(), a.rhs_batch_dims, a.rhs_contracting_dims);
}

Result<Instruction*> Arranged(Builder& b, Instruction* operand, const Arrangement& how,
                              DType dtype) {
  Shape shape = operand->shape();
  Instruction* value = TRY(TransposeTo(b, operand, how.order()));
  Ints sizes;
  for (int64_t d : how.batch) sizes.push_back(shape.dim(d));
  sizes.push_back(ProductOf(shape, how.rows));
  sizes.push_back(ProductOf(shape, how.columns));
  value = TRY(ReshapeTo(b, value, sizes));
  return b.Convert(value, dtype);
}

// [batch..., m, n] with the batch in another order to the shape of the dot.
Result<Instruction*> Restored(Builder& b, Instruction* value, const Instruction& dot,
                              const DotPlan& plan) {
  const Shape& shape = dot.shape();
  size_t batch = plan.batch_order.size();
  Ints sizes, back(static_cast<size_t>(shape.rank()));
  std::iota(back.begin(), back.end(), 0);
  for (size_t i = 0; i < batch; ++i) {
    sizes.push_back(shape.dim(plan.batch_order[i]));
    back[static_cast<size_t>(plan.batch_order[i])] = static_cast<int64_t>(i);
  }
  for (int64_t d = static_cast<int64_t>(batch); d < shape.rank(); ++d) {
    sizes.push_back(shape.dim(d));
  }
  value = TRY(ReshapeTo(b, value, sizes));
  value = TRY(TransposeTo(b, value, back));
  return b.Convert(value, shape.dtype());
}

Result<bool> CanonicalizeDot(Instruction* dot) {
  if (dot->op() != Op::kDot || !IsStaticallyShaped(*dot)) return false;
  DotTypes types = DotTypesFor(dot->operand(0)->shape().dtype(), dot->operand(1)->shape().dtype(),
                               dot->shape().dtype());
  bool typed = dot->operand(0)->shape().dtype() == types.operands &&
               dot->operand(1)->shape().dtype() == types.operands &&
               dot->shape().dtype() == types.result;
  if (typed && IsCanonicalForm(*dot)) return false;
  DotPlan plan = PlanDot(*dot);
  Builder b(*dot->parent(), dot, dot);
  Instruction* lhs = TRY(Arranged(b, dot->operand(0), plan.lhs, types.operands));
  Instruction* rhs = TRY(Arranged(b, dot->operand(1), plan.rhs, types.operands));
  DotAttrs attrs = dot->attrs<DotAttrs>();
  int64_t batch = static_cast<int64_t>(plan.batch_order.size());
  attrs.lhs_batch_dims.resize(static_cast<size_t>(batch));
  std::iota(attrs.lhs_batch_dims.begin(), attrs.lhs_batch_dims.end(), 0);
  attrs.rhs_batch_dims = attrs.lhs_batch_dims;
  attrs.lhs_contracting_dims = {plan.lhs.contracting_last ? batch + 1 : batch};
  attrs.rhs_contracting_dims = {plan.rhs.contracting_last ? batch + 1 : batch};
  Shape shape(types.result, std::span(lhs->shape().dims()).first(static_cast<size_t>(batch)));
  shape.AppendDim(lhs->shape().dim(plan.lhs.contracting_last ? batch : batch + 1));
  shape.AppendDim(rhs->shape().dim(plan.rhs.contracting_last ? batch : batch + 1));
  Instruction* operands[] = {lhs, rhs};
  Instruction* product = TRY(b.Add(Op::kDot, operands, std::move(attrs), &shape));
  hlo::ReplaceInstruction(dot, TRY(Restored(b, product, *dot, plan)));
  return true;
}

// A dot without free dimensions is a sum of products, which is fused with what makes its operands
// and runs on all cores. Small ones stay: they are unrolled where they stand.
Result<bool> DotToSum(Instruction* dot, ScalarFunctions& functions) {
  constexpr int64_t kLeastElements = program::TargetFacts::kCachedNumbers;  // else summed in place
  const DotAttrs& a = dot->attrs<DotAttrs>();
  Instruction *lhs = dot->operand(0), *rhs = dot->operand(1);
  DType dtype = dot->shape().dtype();
  bool same_type = lhs->shape().dtype() == dtype && rhs->shape().dtype() == dtype;
  bool plain = (dtype == DType::kF32 || dtype == DType::kF64) && same_type &&
               a.algorithm == hlo::DotAlgorithm::kUnset;
  bool alike = lhs->shape().dims() == rhs->shape().dims() && a.lhs_batch_dims == a.rhs_batch_dims &&
               a.lhs_contracting_dims == a.rhs_contracting_dims &&
               std::ranges::is_sorted(a.lhs_batch_dims);
  int64_t named = std::ssize(a.lhs_batch_dims) + std::ssize(a.lhs_contracting_dims);
  if (!plain || !alike || named != lhs->shape().rank()) return false;
  if (lhs->shape().elements() < kLeastElements || a.lhs_contracting_dims.empty()) return false;
  Builder b(*dot->parent(), dot, dot);
  Instruction* product = TRY(b.Add(Op::kMultiply, {lhs, rhs}));
  Ints dims = a.lhs_contracting_dims;
  std::ranges::sort(dims);
  hlo::ReplaceInstruction(dot, TRY(b.Reduce(product, b.ScalarConstant(dtype, 0), std::move(dims),
                                            TRY(functions.Get(Op::kAdd, dtype)))));
  return true;
}

}  // namespace

Result<bool> CanonicalizeDots(hlo::Module& module, const PassContext&) {
  ScalarFunctions functions(module);
  bool changed = TRY(RewriteEach(module, [&](Instruction* i) -> Result<bool> {
    if (!IsStaticallyShaped(*i)) return false;
    if (i->op() == Op::kRaggedDot) return ExpandRaggedDot(i, functions);
    if (i->op() == Op::kScaledDot) return ExpandScaledDot(i);
    if (i->op() == Op::kDot) return DotToSum(i, functions);
    return false;
  }));
  changed |= TRY(RewriteEach(module, CanonicalizeDot));
  return changed;
}

}  // namespace weft::compiler
