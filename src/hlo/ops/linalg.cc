#include "hlo/evaluate/linalg.h"

#include "hlo/attrs.h"
#include "hlo/instruction.h"
#include "hlo/op.h"
#include "hlo/ops/dim_rules.h"
#include "hlo/ops/shape_rules.h"

namespace weft::hlo {
namespace {

// Square matrices of floats or complex numbers in the last two dimensions.
Status CheckSquare(const InferArgs& args) {
  TRY(ExpectArrayOperand(args, 0));
  const Shape& a = args.operand(0);
  int64_t rank = a.rank();
  if ((IsFloat(a.dtype()) || IsComplex(a.dtype())) && rank >= 2 &&
      SizesAgree(a.dim(rank - 1), a.dim(rank - 2))) {
    return {};
  }
  return InvalidArgument(Mnemonic(args.op),
                         ": operand 0 must hold square float or complex matrices, got ",
                         a.ToStringWithoutLayout());
}

Result<Shape> InferCholesky(const InferArgs& args) {
  TRY(CheckSquare(args));
  return WithoutLayout(args.operand(0));
}

Result<Shape> InferTriangularSolve(const InferArgs& args) {
  TRY(CheckSquare(args));
  TRY(ExpectArrayOperand(args, 1));
  const TriangularSolveAttrs& attrs = args.attrs.As<TriangularSolveAttrs>();
  const Shape& a = args.operand(0);
  const Shape& b = args.operand(1);
  int64_t rank = a.rank();
  bool fits = b.rank() == rank && a.dtype() == b.dtype();
  for (int64_t i = 0; fits && i < rank - 2; ++i) fits = a.dim(i) == b.dim(i);
  fits = fits && SizesAgree(a.dim(rank - 1), b.dim(rank - (attrs.left_side ? 2 : 1)));
  if (!fits) {
    return InvalidArgument("triangular-solve: operands do not fit with left_side=", attrs.left_side,
                           ": ", a.ToStringWithoutLayout(), " and ", b.ToStringWithoutLayout());
  }
  if (attrs.transpose_a == TransposeA::kUnset) {
    return InvalidArgument("triangular-solve: transpose_a must be given");
  }
  return WithoutLayout(b);
}

}  // namespace

template <>
OpRow Define<Op::kCholesky>() {
  return {.doc =
              "The triangular L with a = L L^H (lower) or U with a = U^H U, of which only that "
              "triangle of a is read; the other triangle of the result is 0. A matrix that is "
              "not positive definite gives NaN.",
          .infer = InferCholesky,
          .evaluate = EvaluateCholesky,
          .dim_rule = RuleCholesky};
}

template <>
OpRow Define<Op::kTriangularSolve>() {
  return {.doc =
              "x with op(a) x = b (left_side) or x op(a) = b; op is identity, transpose or "
              "adjoint. Only the triangle of a that `lower` names is read, and its diagonal "
              "unless unit_diagonal.",
          .infer = InferTriangularSolve,
          .evaluate = EvaluateTriangularSolve,
          .dim_rule = RuleTriangularSolve};
}

}  // namespace weft::hlo
