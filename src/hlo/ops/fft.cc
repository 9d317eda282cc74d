#include "hlo/evaluate/fft.h"

#include "hlo/attrs.h"
#include "hlo/evaluate/result.h"
#include "hlo/instruction.h"
#include "hlo/op.h"
#include "hlo/ops/dim_rules.h"
#include "hlo/ops/shape_rules.h"

namespace weft::hlo {
namespace {

Result<Shape> InferFft(const InferArgs& args) {
  TRY(ExpectArrayOperand(args, 0));
  const FftAttrs& a = args.attrs.As<FftAttrs>();
  const Shape& from = args.operand(0);
  auto error = [&](const auto&... what) {
    return InvalidArgument("fft: ", what..., ": ", Name(a.fft_type),
                           " with fft_length=", DimList(a.fft_length), " of ",
                           from.ToStringWithoutLayout());
  };
  int64_t rank = static_cast<int64_t>(a.fft_length.size());
  if (rank < 1 || rank > 3) return error("1 to 3 dimensions can be transformed");
  if (from.rank() < rank) return error("the operand has too few dimensions");
  for (int64_t n : a.fft_length) {
    if (n < 0) return error("negative length");
  }
  bool real = a.fft_type == FftType::kRfft;
  if (real ? from.dtype() != DType::kF32 && from.dtype() != DType::kF64
           : !IsComplex(from.dtype())) {
    return error("the operand must have ", real ? "f32 or f64" : "complex", " elements");
  }
  bool half = a.fft_type == FftType::kIrfft;  // of the last dimension, the rest is its mirror image
  int64_t last = from.rank() - 1, length = a.fft_length.back();
  for (int64_t i = 0; i < rank; ++i) {
    int64_t dim = from.rank() - rank + i;
    int64_t want = a.fft_length[static_cast<size_t>(i)];
    if (half && dim == last) want = length == 0 && from.dim(dim) == 0 ? 0 : length / 2 + 1;
    if (!SizesAgree(from.dim(dim), want)) {
      return error("dimension ", dim, " must have size ", want);
    }
  }
  Shape to = WithoutLayout(from);
  if (!real && !half) return to;
  to.set_dtype(real ? ComplexType(from.dtype()) : RealType(from.dtype()));
  bool dynamic = from.is_dynamic(last) && !from.is_unbounded(last);
  if (!real || length != 0) {
    to.set_dim(last, real ? length / 2 + 1 : length);
    to.set_dynamic(last, dynamic);
  }
  return to;
}

// Two transforms of one dimension each cost as much as one of two dimensions; the last dimension
// goes first for real input and last for real output.
Result<Literal> EvaluateFft(EvalContext& context, const Instruction& instruction,
                            std::span<Literal> operands) {
  const FftAttrs& a = instruction.attrs<FftAttrs>();
  const Literal& from = operands[0];
  Literal out = TRY(NewResult(context, instruction.shape()));
  if (out.size() == 0 || from.size() == 0) return out;
  const Shape& shape = from.shape();
  int64_t rank = static_cast<int64_t>(a.fft_length.size());
  bool inverse = a.fft_type == FftType::kIfft || a.fft_type == FftType::kIrfft;
  // IRFFT works on the whole spectrum, RFFT throws half of it away.
  Dims sizes = shape.dims();
  int64_t full_last = a.fft_type == FftType::kIrfft ? a.fft_length.back() : sizes.back();
  if (a.fft_type == FftType::kFft || a.fft_type == FftType::kIfft) full_last = sizes.back();
  int64_t in_last = sizes.back(), out_last = out.shape().dims().back();
  int64_t rows = from.size() / in_last;
  sizes[sizes.size() - 1] = full_last;
  TRY(CheckResultSize(context, Shape(DType::kC128, sizes)));
  std::vector<std::complex<double>> data(static_cast<size_t>(rows * full_last));
  auto pass = [&](int64_t dim) {
    int64_t stride = 1;
    for (int64_t d = dim + 1; d < shape.rank(); ++d) stride *= sizes[static_cast<size_t>(d)];
    TransformDimension(data, sizes[static_cast<size_t>(dim)], stride, inverse);
  };
  int64_t width = ByteWidth(from.dtype());
  int64_t kept = std::min(in_last, full_last);
  for (int64_t r = 0; r < rows; ++r) {
    LoadC128(from.dtype(), from.data() + r * in_last * width, kept, &data[r * full_last]);
  }
  for (int64_t d = shape.rank() - rank; d < shape.rank() - 1; ++d) pass(d);
  if (a.fft_type == FftType::kIrfft) {
    for (int64_t r = 0; r < rows; ++r) MirrorSpectrum(&data[r * full_last], full_last);
  }
  pass(shape.rank() - 1);
  int64_t out_width = ByteWidth(out.dtype());
  std::byte* to = out.mutable_data();
  for (int64_t r = 0; r < rows; ++r) {
    StoreC128(out.dtype(), &data[r * full_last], out_last, to + r * out_last * out_width);
  }
  return out;
}

}  // namespace

template <>
OpRow Define<Op::kFft>() {
  return {.doc =
              "Discrete Fourier transforms of the last 1 to 3 dimensions. RFFT gives the first "
              "n/2+1 coefficients of real input, IRFFT takes them; IFFT and IRFFT divide by the "
              "number of elements.",
          .infer = InferFft,
          .evaluate = EvaluateFft,
          .dim_rule = RuleFft};
}

}  // namespace weft::hlo
