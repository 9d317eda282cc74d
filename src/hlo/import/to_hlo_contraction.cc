// Dots, convolutions, transforms and linear algebra.
#include "hlo/import/attr_values.h"
#include "hlo/import/to_hlo.h"
#include "hlo/import/windows.h"

namespace weft::hlo::mlir {

Result<std::vector<Precision>> PrecisionOf(const Operation& op) {
  std::vector<Precision> precision;
  const Attr* config = op.Find("precision_config");
  if (config == nullptr) return precision;
  bool any = false;
  for (const Attr* one : config->elements) {
    precision.push_back(TRY(EnumOf("precision_config", one->text, Precision())));
    any |= precision.back() != Precision::kDefault;
  }
  if (!any) precision.clear();
  return precision;
}

namespace {

struct AlgorithmRow {
  DotAlgorithm algorithm;
  DType lhs, rhs, accumulation;  // kInvalid: any f8
  int64_t components, primitives;
  bool imprecise = false;
};
constexpr AlgorithmRow kAlgorithms[] = {
    {DotAlgorithm::kF16F16F16, DType::kF16, DType::kF16, DType::kF16, 1, 1},
    {DotAlgorithm::kF16F16F32, DType::kF16, DType::kF16, DType::kF32, 1, 1},
    {DotAlgorithm::kBF16BF16BF16, DType::kBF16, DType::kBF16, DType::kBF16, 1, 1},
    {DotAlgorithm::kBF16BF16F32, DType::kBF16, DType::kBF16, DType::kF32, 1, 1},
    {DotAlgorithm::kBF16BF16F32X3, DType::kBF16, DType::kBF16, DType::kF32, 1, 3},
    {DotAlgorithm::kBF16BF16F32X6, DType::kBF16, DType::kBF16, DType::kF32, 1, 6},
    {DotAlgorithm::kBF16BF16F32X9, DType::kBF16, DType::kBF16, DType::kF32, 1, 9},
    {DotAlgorithm::kF32F32F32, DType::kF32, DType::kF32, DType::kF32, 1, 1},
    {DotAlgorithm::kF64F64F64, DType::kF64, DType::kF64, DType::kF64, 1, 1},
};

// `tf32` has no element type in HLO: readers give the type as an attribute of that name.
bool IsTf32(const Attr* attr) {
  return attr != nullptr && (attr->text == "tf32" || attr->text == "TF32");
}

DType AlgorithmType(const Attr* attr) {
  if (attr == nullptr || attr->type == nullptr) return DType::kInvalid;
  return attr->type->dtype;
}

Result<DotAlgorithm> AlgorithmOf(const Operation& op) {
  const Attr* lhs = op.Find("lhs_precision_type");
  const Attr* rhs = op.Find("rhs_precision_type");
  const Attr* accumulation = op.Find("accumulation_type");
  if (accumulation == nullptr || lhs == nullptr || rhs == nullptr) return DotAlgorithm::kUnset;
  int64_t primitives = TRY(IntAttr(op, "num_primitive_operations", 1));
  bool imprecise = BoolAttr(op, "allow_imprecise_accumulation");
  if (IsTf32(lhs) && IsTf32(rhs)) {
    if (primitives == 1) return DotAlgorithm::kTF32TF32F32;
    if (primitives == 3) return DotAlgorithm::kTF32TF32F32X3;
  }
  DType l = AlgorithmType(lhs), r = AlgorithmType(rhs), a = AlgorithmType(accumulation);
  auto is_f8 = [](DType t) { return IsFloat(t) && BitWidth(t) == 8; };
  if (is_f8(l) && is_f8(r) && a == DType::kF32 && primitives == 1) {
    return imprecise ? DotAlgorithm::kAnyF8AnyF8F32FastAccum : DotAlgorithm::kAnyF8AnyF8F32;
  }
  for (const AlgorithmRow& row : kAlgorithms) {
    if (row.lhs == l && row.rhs == r && row.accumulation == a && row.primitives == primitives) {
      return row.algorithm;
    }
  }
  return Unimplemented("no such algorithm: ", Name(l), " x ", Name(r), " -> ", Name(a), ", ",
                       primitives, " primitive operations");
}

Status ConvertDotGeneral(Converter& c, const Operation& op) {
  DotAttrs attrs;
  attrs.lhs_batch_dims = TRY(IntsAttr(op, "lhs_batching_dimensions"));
  attrs.rhs_batch_dims = TRY(IntsAttr(op, "rhs_batching_dimensions"));
  attrs.lhs_contracting_dims = TRY(IntsAttr(op, "lhs_contracting_dimensions"));
  attrs.rhs_contracting_dims = TRY(IntsAttr(op, "rhs_contracting_dimensions"));
  attrs.operand_precision = TRY(PrecisionOf(op));
  attrs.algorithm = TRY(AlgorithmOf(op));
  return c.EmitAndBind(op, Op::kDot, std::move(attrs));
}

Status ConvertDot(Converter& c, const Operation& op) {
  Instruction* lhs = TRY(c.Operand(op, 0));
  DotAttrs attrs;
  attrs.lhs_contracting_dims = {lhs->shape().rank() - 1};
  attrs.rhs_contracting_dims = {0};
  attrs.operand_precision = TRY(PrecisionOf(op));
  return c.EmitAndBind(op, Op::kDot, std::move(attrs));
}

Status ConvertConvolution(Converter& c, const Operation& op) {
  std::vector<Ints> padding = TRY(IntRowsAttr(op, "padding"));
  ConvolutionAttrs attrs = TRY(ConvolutionOf(c, op, padding));
  return c.EmitAndBind(op, Op::kConvolution, std::move(attrs));
}

Status ConvertFft(Converter& c, const Operation& op) {
  FftAttrs attrs;
  attrs.fft_type = TRY(EnumOf("fft_type", TextAttr(op, "fft_type"), FftType()));
  attrs.fft_length = TRY(IntsAttr(op, "fft_length"));
  return c.EmitAndBind(op, Op::kFft, std::move(attrs));
}

Status ConvertCholesky(Converter& c, const Operation& op) {
  return c.EmitAndBind(op, Op::kCholesky, CholeskyAttrs{.lower = BoolAttr(op, "lower")});
}

Status ConvertTriangularSolve(Converter& c, const Operation& op) {
  TriangularSolveAttrs attrs;
  attrs.left_side = BoolAttr(op, "left_side");
  attrs.lower = BoolAttr(op, "lower");
  attrs.unit_diagonal = BoolAttr(op, "unit_diagonal");
  attrs.transpose_a = TRY(EnumOf("transpose_a", TextAttr(op, "transpose_a"), TransposeA()));
  return c.EmitAndBind(op, Op::kTriangularSolve, attrs);
}

template <Op kHloOp>
Status ConvertBatchNorm(Converter& c, const Operation& op) {
  BatchNormAttrs attrs;
  attrs.epsilon = TRY(FloatAttr(op, "epsilon", 0));
  attrs.feature_index = TRY(RequiredInt(op, "feature_index"));
  return c.EmitAndBind(op, kHloOp, attrs);
}

Status ConvertRng(Converter& c, const Operation& op) {
  std::string_view kind = TextAttr(op, "rng_distribution");
  RngAttrs attrs;
  attrs.distribution = TRY(EnumOf("rng_distribution", StrCat("rng_", kind), Distribution()));
  std::vector<Instruction*> operands = TRY(c.Operands(op, 0, 2));  // the third says the shape
  return c.Bind(op, c.Emit(Op::kRng, operands, attrs, TRY(c.ResultShape(op))));
}

Status ConvertRngBitGenerator(Converter& c, const Operation& op) {
  std::string_view name = TextAttr(op, "rng_algorithm");
  RngBitGeneratorAttrs attrs;
  attrs.algorithm = TRY(EnumOf("rng_algorithm", StrCat("rng_", name), RngAlgorithm()));
  return c.EmitAndBind(op, Op::kRngBitGenerator, attrs);
}

Status ConvertEinsum(Converter&, const Operation& op) {
  return Unimplemented("einsum_config = \"", TextAttr(op, "einsum_config"),
                       "\": use dot_general instead");
}

constexpr HandlerRow kContractionRows[] = {
    {"batch_norm_grad", ConvertBatchNorm<Op::kBatchNormGrad>},
    {"batch_norm_inference", ConvertBatchNorm<Op::kBatchNormInference>},
    {"batch_norm_training", ConvertBatchNorm<Op::kBatchNormTraining>},
    {"cholesky", ConvertCholesky},
    {"convolution", ConvertConvolution},
    {"dot", ConvertDot},
    {"dot_general", ConvertDotGeneral},
    {"einsum", ConvertEinsum},
    {"fft", ConvertFft},
    {"rng", ConvertRng},
    {"rng_bit_generator", ConvertRngBitGenerator},
    {"triangular_solve", ConvertTriangularSolve},
    {"unary_einsum", ConvertEinsum},
};

}  // namespace

std::span<const HandlerRow> ContractionHandlers() {
  return kContractionRows;
}

}  // namespace weft::hlo::mlir
