// Rules of simplify about dot.
#include <algorithm>

#include "compiler/passes/simplify/simplify_rules.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::DotAttrs;
using hlo::Instruction;
using hlo::Ints;
using hlo::Op;

// One side of a dot.
struct ProductSide {
  Instruction* value;
  Ints batch, contracting;

  bool IsFree(int64_t d) const {
    return std::find(batch.begin(), batch.end(), d) == batch.end() &&
           std::find(contracting.begin(), contracting.end(), d) == contracting.end();
  }
};

Result<Instruction*> DotWith(Builder& b, const DotAttrs& like, const ProductSide& lhs,
                             const ProductSide& rhs, DType dtype) {
  DotAttrs attrs = like;
  attrs.lhs_batch_dims = lhs.batch, attrs.lhs_contracting_dims = lhs.contracting;
  attrs.rhs_batch_dims = rhs.batch, attrs.rhs_contracting_dims = rhs.contracting;
  Shape shape = Shape::Scalar(dtype);
  for (int64_t d : lhs.batch) shape.AppendDim(lhs.value->shape().dim(d));
  for (const ProductSide* side : {&lhs, &rhs}) {
    for (int64_t d = 0; d < side->value->shape().rank(); ++d) {
      if (side->IsFree(d)) shape.AppendDim(side->value->shape().dim(d));
    }
  }
  Instruction* operands[] = {lhs.value, rhs.value};
  return b.Add(Op::kDot, operands, std::move(attrs), &shape);
}

// A side converted, with its dimensions spread over those of the product: batch ones first, free
// ones from `first_free` on; contracted ones (of size 1) are reshaped away.
Result<Instruction*> SpreadSide(Builder& b, const ProductSide& side, const Shape& product,
                                int64_t first_free) {
  Instruction* x = TRY(b.Convert(side.value, product.dtype()));
  Ints sizes, dims;
  int64_t rank = x->shape().rank(), free = first_free;
  for (int64_t d = 0; d < rank; ++d) {
    auto at = std::find(side.batch.begin(), side.batch.end(), d);
    if (at == side.batch.end() && !side.IsFree(d)) continue;
    sizes.push_back(x->shape().dim(d));
    dims.push_back(at != side.batch.end() ? at - side.batch.begin() : free++);
  }
  if (std::ssize(sizes) != rank) x = TRY(b.Reshape(x, sizes));
  bool is_whole = std::is_sorted(dims.begin(), dims.end()) && std::ssize(dims) == product.rank();
  if (is_whole) return x;
  return b.Broadcast(x, product, std::move(dims));
}

// The operand's values are values of the result's type, so that no product is rounded twice.
bool WidensTo(const ProductSide& side, DType dtype) {
  DType own = side.value->shape().dtype();
  return own == dtype || (BitWidth(own) < BitWidth(dtype) && IsFloat(own) == IsFloat(dtype) &&
                          IsComplex(own) == IsComplex(dtype));
}

// dot over one element = lhs * rhs;  over none = 0
Result<Instruction*> DotAsProduct(Instruction& i, const ProductSide& lhs, const ProductSide& rhs,
                                  Builder& b) {
  int64_t terms = 1;
  for (int64_t d : lhs.contracting) terms *= lhs.value->shape().dim(d);
  Shape product = WithoutLayoutOf(i.shape());
  if (terms == 0) return b.Fill(product, 0);
  if (terms != 1 || i.attrs<DotAttrs>().algorithm != hlo::DotAlgorithm::kUnset) return nullptr;
  if (!WidensTo(lhs, product.dtype()) || !WidensTo(rhs, product.dtype())) return nullptr;
  if (!std::is_sorted(lhs.batch.begin(), lhs.batch.end()) ||
      !std::is_sorted(rhs.batch.begin(), rhs.batch.end())) {
    return nullptr;
  }
  int64_t batch = std::ssize(lhs.batch), contracting = std::ssize(lhs.contracting);
  int64_t free_of_lhs = lhs.value->shape().rank() - batch - contracting;
  Instruction* x = TRY(SpreadSide(b, lhs, product, batch));
  Instruction* y = TRY(SpreadSide(b, rhs, product, batch + free_of_lhs));
  return b.Add(Op::kMultiply, {x, y});
}

// dot(transpose(x), y) = dot(x, y) with other dimension numbers, when free dimensions of x stay in
// order. Whether the side has changed.
bool AbsorbTranspose(ProductSide& side) {
  Instruction& transpose = *side.value;
  if (transpose.op() != Op::kTranspose || !IsStaticArray(*transpose.operand(0)) ||
      transpose.shape().dtype() != transpose.operand(0)->shape().dtype()) {
    return false;
  }
  const Ints& permutation = transpose.attrs<hlo::DimensionsAttrs>().dimensions;
  int64_t last = -1;
  for (size_t d = 0; d < permutation.size(); ++d) {
    if (!side.IsFree(static_cast<int64_t>(d))) continue;
    if (permutation[d] < last) return false;
    last = permutation[d];
  }
  for (Ints* dims : {&side.batch, &side.contracting}) {
    for (int64_t& d : *dims) d = permutation[static_cast<size_t>(d)];
  }
  side.value = transpose.operand(0);
  return true;
}

// dot(x, y) = transpose(dot(y, x)), which pays where both operands lie the other way round (x by
// its contracted dimension first, y by it last) and only products read the result, which take the
// transpose in. What an einsum of three operands makes is of this form.
bool IsDotOfTransposed(const Instruction& i, const ProductSide& lhs, const ProductSide& rhs) {
  const int64_t batch = std::ssize(lhs.batch), rank = batch + 2;
  if (std::ssize(lhs.contracting) != 1 || lhs.contracting[0] != batch) return false;
  if (rhs.contracting.size() != 1 || rhs.contracting[0] != batch + 1) return false;
  if (lhs.value->shape().rank() != rank || rhs.value->shape().rank() != rank) return false;
  for (int64_t d = 0; d < batch; ++d) {
    if (lhs.batch[static_cast<size_t>(d)] != d || rhs.batch[static_cast<size_t>(d)] != d) {
      return false;
    }
  }
  return !i.IsRoot() && !i.users().empty() &&
         std::ranges::all_of(i.users(), [](const Instruction* user) {
           return user->op() == Op::kDot && IsStaticArray(*user);
         });
}

Result<Instruction*> TransposedDot(Instruction& i, const ProductSide& lhs, const ProductSide& rhs,
                                   Builder& b) {
  DotAttrs attrs = i.attrs<DotAttrs>();
  if (attrs.operand_precision.size() == 2) {
    std::swap(attrs.operand_precision[0], attrs.operand_precision[1]);
  }
  Instruction* dot = TRY(DotWith(b, attrs, rhs, lhs, i.shape().dtype()));
  Ints order;
  for (int64_t d = 0; d < i.shape().rank(); ++d) order.push_back(d);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return b.Transpose(dot, order);
}

// The side without contracted dimensions of size 1.
Result<ProductSide> WithoutSingles(Builder& b, const ProductSide& side) {
  const Shape& shape = side.value->shape();
  Ints sizes, where(static_cast<size_t>(shape.rank()), -1);
  for (int64_t d = 0; d < shape.rank(); ++d) {
    bool contracted =
        std::find(side.contracting.begin(), side.contracting.end(), d) != side.contracting.end();
    if (contracted && shape.dim(d) == 1) continue;
    where[static_cast<size_t>(d)] = std::ssize(sizes);
    sizes.push_back(shape.dim(d));
  }
  ProductSide result{TRY(b.Reshape(side.value, sizes)), {}, {}};
  for (int64_t d : side.batch) result.batch.push_back(where[static_cast<size_t>(d)]);
  for (int64_t d : side.contracting) {
    if (shape.dim(d) != 1) result.contracting.push_back(where[static_cast<size_t>(d)]);
  }
  return result;
}

}  // namespace

Result<Instruction*> SimplifyDots(Instruction& i, Builder& b) {
  if (i.op() != Op::kDot || !IsStaticArray(i)) return nullptr;
  for (const Instruction* operand : i.operands()) {
    if (!IsStaticArray(*operand) || BitWidth(operand->shape().dtype()) < 8) return nullptr;
  }
  const auto& attrs = i.attrs<DotAttrs>();
  ProductSide lhs{i.operand(0), attrs.lhs_batch_dims, attrs.lhs_contracting_dims};
  ProductSide rhs{i.operand(1), attrs.rhs_batch_dims, attrs.rhs_contracting_dims};
  if (i.shape().elements() == 0) return nullptr;
  if (Instruction* product = TRY(DotAsProduct(i, lhs, rhs, b))) return product;
  bool absorbed = AbsorbTranspose(lhs);
  absorbed |= AbsorbTranspose(rhs);
  if (absorbed) return DotWith(b, attrs, lhs, rhs, i.shape().dtype());
  if (attrs.algorithm == hlo::DotAlgorithm::kUnset && IsDotOfTransposed(i, lhs, rhs)) {
    return TransposedDot(i, lhs, rhs, b);
  }
  bool has_single = std::any_of(lhs.contracting.begin(), lhs.contracting.end(),
                                [&](int64_t d) { return lhs.value->shape().dim(d) == 1; });
  if (!has_single) return nullptr;
  return DotWith(b, attrs, TRY(WithoutSingles(b, lhs)), TRY(WithoutSingles(b, rhs)),
                 i.shape().dtype());
}

}  // namespace weft::compiler
