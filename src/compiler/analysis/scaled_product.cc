#include "compiler/analysis/scaled_product.h"

#include "hlo/module.h"

namespace weft::compiler {
namespace {

using hlo::Instruction;

// Products below which scaled numbers had better be part of a kernel.
constexpr int64_t kFewScaledProducts = 1 << 16;

bool IsScaledNumber(DType dtype) {
  return (IsFloat(dtype) && BitWidth(dtype) <= 32) || (IsInteger(dtype) && BitWidth(dtype) <= 8);
}

// One side: vectors of k elements, k last unless it is transposed.
struct ScaledSide {
  int64_t vectors, k, batch;
  bool k_first;
  std::optional<ScaledProduct::Scale> scale;
};

std::optional<ScaledSide> SideOf(const Shape& value, const Shape& scale, const hlo::Ints& batch,
                                 const hlo::Ints& contracting) {
  int64_t rank = value.rank(), outer = std::ssize(batch);
  bool fits = outer <= 1 && rank == outer + 2 && contracting.size() == 1 &&
              (outer == 0 || batch[0] == 0) && contracting[0] >= outer &&
              IsScaledNumber(value.dtype()) && value.elements() > 0;
  if (!fits) return std::nullopt;
  bool k_first = contracting[0] == outer;
  int64_t k_dim = contracting[0], other = k_first ? rank - 1 : outer;
  ScaledSide side = {
      value.dim(other), value.dim(k_dim), outer == 1 ? value.dim(0) : 1, k_first, {}};
  if (scale.rank() != rank || scale.IsScalar()) return side;
  if (!IsFloat(scale.dtype()) || BitWidth(scale.dtype()) > 32 || scale.elements() == 0) {
    return std::nullopt;
  }
  if (outer == 1 && scale.dim(0) != value.dim(0)) return std::nullopt;
  side.scale = {side.vectors / scale.dim(other), side.k / scale.dim(k_dim)};
  return side;
}

}  // namespace

std::optional<ScaledProduct> ScaledProductOf(const Instruction& dot,
                                             const program::TargetInfo& target) {
  if (dot.op() != hlo::Op::kScaledDot || target.HasThreadGrid()) return std::nullopt;
  const auto& a = dot.attrs<hlo::DotAttrs>();
  auto shape = [&](int64_t n) -> const Shape& { return dot.operand(n)->shape(); };
  auto lhs = SideOf(shape(0), shape(2), a.lhs_batch_dims, a.lhs_contracting_dims);
  auto rhs = SideOf(shape(1), shape(3), a.rhs_batch_dims, a.rhs_contracting_dims);
  DType result = dot.shape().dtype();
  bool types = result == DType::kF32 || result == DType::kBF16 || result == DType::kF16;
  if (!lhs || !rhs || !types || lhs->vectors * rhs->vectors * lhs->k < kFewScaledProducts) {
    return std::nullopt;
  }
  return ScaledProduct{lhs->vectors, rhs->vectors,  lhs->k,     lhs->batch,
                       lhs->k_first, !rhs->k_first, lhs->scale, rhs->scale};
}

}  // namespace weft::compiler
