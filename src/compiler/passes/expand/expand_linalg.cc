#include "compiler/passes.h"
#include "compiler/passes/rewrite.h"
#include "hlo/clone.h"
#include "hlo/evaluate/custom_calls.h"
#include "hlo/ops/called.h"
#include "hlo/verify.h"
#include "program/target_facts.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::CustomCallAttrs;
using hlo::Instruction;
using hlo::Op;

// "lapack_sgetrf_ffi" is "getrf"; empty: no such name.
std::string_view LapackRoutine(std::string_view target) {
  constexpr std::string_view kPrefix = "lapack_", kSuffix = "_ffi";
  if (!target.starts_with(kPrefix) || !target.ends_with(kSuffix) ||
      target.size() <= kPrefix.size() + kSuffix.size()) {
    return "";
  }
  target.remove_prefix(kPrefix.size() + 1);  // and the letter of the type
  target.remove_suffix(kSuffix.size());
  return target;
}

bool HoldsMatrices(const Instruction& operand) {
  const Shape& shape = operand.shape();
  return shape.IsArray() && shape.IsStatic() && shape.rank() >= 2 &&
         (IsFloat(shape.dtype()) || IsComplex(shape.dtype()));
}

// A letter of the configuration, e.g. 'L' of `uplo = 76 : ui8`; 0: not there.
char ConfigLetter(const Instruction& call, std::string_view key) {
  int64_t code = hlo::ConfigIntOfCustomCall(call, key).value_or(0);
  return code > 0 && code < 128 ? static_cast<char>(code) : '\0';
}

// s32 per matrix: 1 where its first element is NaN, else 0.
Result<Instruction*> FailureOf(Builder& b, Instruction* factor, const Shape& info) {
  const Shape& shape = factor->shape();
  if (shape.elements() == 0) return ZeroesOf(b, info);
  hlo::SliceAttrs first;
  for (int64_t d = 0; d < shape.rank(); ++d) {
    first.slice.push_back({0, d < shape.rank() - 2 ? shape.dim(d) : 1, 1});
  }
  Instruction* corner = TRY(b.Add(Op::kSlice, {factor}, std::move(first)));
  corner = TRY(ReshapeTo(b, corner, info.dims()));
  if (IsComplex(shape.dtype())) corner = TRY(b.Add(Op::kReal, {corner}));
  Instruction* failed = TRY(b.Compare(corner, corner, hlo::Direction::kNe));
  return b.Convert(failed, info.dtype());
}

// (factor, info). The cholesky op gives NaN in all elements where there is no factor.
Result<bool> ExpandPotrf(Instruction* call) {
  char triangle = ConfigLetter(*call, "uplo");
  const Shape& shape = call->shape();
  if (call->operand_count() != 1 || !HoldsMatrices(*call->operand(0)) ||
      (triangle != 'L' && triangle != 'U') || !shape.IsTuple() || shape.tuple_size() != 2 ||
      !hlo::ShapesMatch(shape.tuple_element(0), call->operand(0)->shape()) ||
      shape.tuple_element(1).rank() != shape.tuple_element(0).rank() - 2) {
    return false;
  }
  const Shape& matrices = call->operand(0)->shape();
  if (matrices.dim(matrices.rank() - 1) != matrices.dim(matrices.rank() - 2)) return false;
  Builder b(*call->parent(), call, call);
  Instruction* factor =
      TRY(b.Add(Op::kCholesky, {call->operand(0)}, hlo::CholeskyAttrs{.lower = triangle == 'L'}));
  Shape info = hlo::StripLayout(shape.tuple_element(1));
  Instruction* results[] = {factor, TRY(FailureOf(b, factor, info))};
  hlo::ReplaceInstruction(call, TRY(b.Tuple(results)));
  return true;
}

Result<bool> ExpandTrsm(Instruction* call) {
  char side = ConfigLetter(*call, "side"), triangle = ConfigLetter(*call, "uplo");
  char transpose = ConfigLetter(*call, "trans_x"), diagonal = ConfigLetter(*call, "diag");
  if (call->operand_count() != 2 || !HoldsMatrices(*call->operand(0)) || side == '\0' ||
      triangle == '\0' || transpose == '\0' || diagonal == '\0') {
    return false;
  }
  hlo::TriangularSolveAttrs attrs;
  attrs.left_side = side == 'L';
  attrs.lower = triangle == 'L';
  attrs.unit_diagonal = diagonal == 'U';
  attrs.transpose_a = transpose == 'T'   ? hlo::TransposeA::kTranspose
                      : transpose == 'C' ? hlo::TransposeA::kAdjoint
                                         : hlo::TransposeA::kNoTranspose;
  const Shape* shapes[] = {&call->operand(0)->shape(), &call->operand(1)->shape()};
  Result<Shape> shape = hlo::InferShape(Op::kTriangularSolve, shapes, hlo::Attrs(attrs), nullptr);
  const Shape& written = call->shape().IsTuple() && call->shape().tuple_size() == 1
                             ? call->shape().tuple_element(0)
                             : call->shape();
  if (!shape || !hlo::ShapesMatch(*shape, written)) return false;
  Builder b(*call->parent(), call, call);
  Instruction* value = TRY(b.Add(Op::kTriangularSolve, call->operands(), attrs));
  if (call->shape().IsTuple()) value = TRY(b.Tuple(std::span(&value, 1)));
  hlo::ReplaceInstruction(call, value);
  return true;
}

// (lu, pivots, info)
Result<bool> ExpandGetrf(Instruction* call) {
  const Shape& shape = call->shape();
  if (call->operand_count() != 1 || !HoldsMatrices(*call->operand(0)) || !shape.IsTuple() ||
      shape.tuple_size() != 3 ||
      !hlo::ShapesMatch(shape.tuple_element(0), call->operand(0)->shape()) ||
      shape.tuple_element(1).dtype() != DType::kS32 ||
      shape.tuple_element(2).dtype() != DType::kS32) {
    return false;
  }
  Builder b(*call->parent(), call, call);
  CustomCallAttrs attrs;
  attrs.custom_call_target = "weft.lu";
  Shape result = hlo::StripLayout(shape);
  Instruction* lu = TRY(b.Add(Op::kCustomCall, call->operands(), std::move(attrs), &result));
  hlo::ReplaceInstruction(call, lu);
  lu->mutable_extras().backend_config = {};
  return true;
}

// Factors of small matrices, where a call costs more than the work.
constexpr int64_t kSmallReflectors = program::TargetFacts::kCachedNumbers;

// Factors of complex matrices that LAPACK is better at: kernels for products here are for real
// numbers.
bool IsLargeComplex(const Instruction& call) {
  constexpr int64_t kLargeComplex = kSmallReflectors / program::TargetFacts::kNarrowLanes;
  if (call.operand_count() == 0 || !HoldsMatrices(*call.operand(0))) return false;
  const Shape& first = call.operand(0)->shape();
  return IsComplex(first.dtype()) &&
         first.dim(first.rank() - 1) * first.dim(first.rank() - 2) > kLargeComplex;
}

// geqrf: (factors, taus); orgqr and ungqr: the product of reflectors.
Result<bool> ExpandReflectors(Instruction* call, std::string_view target, int64_t operands,
                              int64_t results) {
  const Shape& shape = call->shape();
  const Shape& first = shape.IsTuple() && shape.tuple_size() > 0 ? shape.tuple_element(0) : shape;
  if (call->operand_count() != operands || !HoldsMatrices(*call->operand(0)) ||
      (shape.IsTuple() ? shape.tuple_size() : 1) != results || !first.IsArray() ||
      !hlo::ShapesMatch(first, call->operand(0)->shape())) {
    return false;
  }
  if (first.dim(first.rank() - 1) * first.dim(first.rank() - 2) > kSmallReflectors) return false;
  Builder b(*call->parent(), call, call);
  CustomCallAttrs attrs;
  attrs.custom_call_target = target;
  Shape result = hlo::StripLayout(results == 1 ? first : shape);
  Instruction* value = TRY(b.Add(Op::kCustomCall, call->operands(), std::move(attrs), &result));
  Instruction* made = value;
  if (results == 1 && shape.IsTuple()) made = TRY(b.Tuple(std::span(&value, 1)));
  hlo::ReplaceInstruction(call, made);
  value->mutable_extras().backend_config = {};
  made->mutable_extras().backend_config = {};
  return true;
}

}  // namespace

Result<bool> ExpandLinalg(hlo::Module& module, const PassContext& context) {
  return RewriteEach(module, [&](Instruction* i) -> Result<bool> {
    if (i->op() != Op::kCustomCall) return false;
    if (context.options.cpu.lapack && IsLargeComplex(*i)) return false;
    std::string_view routine = LapackRoutine(i->attrs<CustomCallAttrs>().custom_call_target);
    if (routine == "potrf") return ExpandPotrf(i);
    if (routine == "trsm") return ExpandTrsm(i);
    if (routine == "getrf") return ExpandGetrf(i);
    if (routine == "geqrf") return ExpandReflectors(i, "Qr", 1, 2);
    if (routine == "orgqr" || routine == "ungqr") {
      return ExpandReflectors(i, "ProductOfElementaryHouseholderReflectors", 2, 1);
    }
    return false;
  });
}

}  // namespace weft::compiler
