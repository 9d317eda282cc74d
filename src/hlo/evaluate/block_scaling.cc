// Custom calls of block-scaled numbers: data in blocks along the last dimension, each with a scale.
#include "hlo/evaluate/block_scaling.h"

#include <algorithm>
#include <cmath>

#include "base/elements.h"
#include "hlo/evaluate/custom_calls.h"
#include "hlo/evaluate/result.h"
#include "hlo/ops/called.h"

namespace weft::hlo {
namespace {

std::vector<float> NumbersOf(const Literal& literal) {
  std::vector<float> out(static_cast<size_t>(literal.size()));
  LoadF32(literal.dtype(), literal.data(), literal.size(), out.data());
  return out;
}

int64_t LastDim(const Shape& shape) {
  return shape.dim(shape.rank() - 1);
}

bool IsScaledBy(const Shape& data, const Shape& scale) {
  if (data.rank() < 1 || scale.rank() != data.rank()) return false;
  for (int64_t d = 0; d + 1 < data.rank(); ++d) {
    if (data.dim(d) != scale.dim(d)) return false;
  }
  return LastDim(scale) > 0 && LastDim(data) % LastDim(scale) == 0;
}

// value * scale of the matrices [batch, rows, k] of one side.
std::vector<float> ScaledSide(const Literal& data, const Literal* scale, int64_t block) {
  std::vector<float> out = NumbersOf(data);
  if (scale == nullptr) return out;
  std::vector<float> factors = NumbersOf(*scale);
  const Shape &of = data.shape(), &by = scale->shape();
  int64_t rank = of.rank(), rows = of.dim(rank - 2), k = LastDim(of);
  int64_t batch = rank == 3 ? of.dim(0) : 1, scale_rows = by.dim(rank - 2), blocks = LastDim(by);
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < rows; ++i) {
      const float* row = factors.data() + (b * scale_rows + i) * blocks;
      float* to = out.data() + (b * rows + i) * k;
      for (int64_t p = 0; p < k; ++p) to[p] *= row[p / block];
    }
  }
  return out;
}

Result<Literal> BlockScaledDot(EvalContext& context, const Instruction& call,
                               const BlockScaledForm& form, std::span<Literal> operands) {
  auto lhs = ScaledSide(operands[0], &operands[2], form.lhs_block);
  auto rhs = ScaledSide(operands[1], operands.size() > 3 ? &operands[3] : nullptr, form.rhs_block);
  auto global = operands.size() > 4 ? NumbersOf(operands[4]) : std::vector<float>{1};
  Literal result = TRY(NewResult(context, StripLayout(call.shape())));
  std::vector<float> row(static_cast<size_t>(form.n));
  DType dtype = result.dtype();
  for (int64_t i = 0; i < form.batch * form.m; ++i) {
    const float* a = lhs.data() + i * form.k;
    for (int64_t j = 0; j < form.n; ++j) {
      const float* b = rhs.data() + (i / form.m * form.n + j) * form.k;
      double sum = 0;
      for (int64_t p = 0; p < form.k; ++p) sum += double{a[p]} * b[p];
      row[static_cast<size_t>(j)] = static_cast<float>(sum);
    }
    std::byte* to = result.mutable_data() + i * form.n * ByteWidth(dtype);
    StoreF32(dtype, row.data(), form.n, to);
    if (operands.size() < 5) continue;
    LoadF32(dtype, to, form.n, row.data());  // the product is of the result's type, then scaled
    for (float& x : row) x *= global[0];
    StoreF32(dtype, row.data(), form.n, to);
  }
  return result;
}

Result<Literal> Quantized(EvalContext& context, const Instruction& call, const Literal& value) {
  const Shape &data_shape = call.shape().tuple_element(0),
              &scale_shape = call.shape().tuple_element(1);
  std::vector<float> x = NumbersOf(value);
  Literal data = TRY(NewResult(context, StripLayout(data_shape)));
  Literal scale = TRY(NewResult(context, StripLayout(scale_shape)));
  int64_t block = LastDim(data_shape) / LastDim(scale_shape);
  auto unit = static_cast<float>(1 / LargestPowerOf(data_shape.dtype()));
  std::vector<float> factors(static_cast<size_t>(scale.size()));
  for (size_t i = 0; i < factors.size(); ++i) {
    float most = 0;
    const float* from = x.data() + static_cast<int64_t>(i) * block;
    for (int64_t p = 0; p < block; ++p) {
      if (!(std::abs(from[p]) <= most)) most = std::abs(from[p]);  // NaN stays
    }
    factors[i] = most * unit;
  }
  StoreF32(scale.dtype(), factors.data(), scale.size(), scale.mutable_data());
  LoadF32(scale.dtype(), scale.data(), scale.size(), factors.data());
  for (size_t i = 0; i < x.size(); ++i) x[i] /= factors[i / static_cast<size_t>(block)];
  StoreF32(data.dtype(), x.data(), data.size(), data.mutable_data());
  return Literal::Tuple({std::move(data), std::move(scale)});
}

Result<Literal> Dequantized(EvalContext& context, const Instruction& call, const Literal& data,
                            const Literal& scale) {
  std::vector<float> x = NumbersOf(data), factors = NumbersOf(scale);
  auto block = static_cast<size_t>(LastDim(data.shape()) / LastDim(scale.shape()));
  for (size_t i = 0; i < x.size(); ++i) x[i] *= factors[i / block];
  Literal result = TRY(NewResult(context, StripLayout(call.shape())));
  StoreF32(result.dtype(), x.data(), result.size(), result.mutable_data());
  return result;
}

// The number of elements that a scale covers; 0: the scale does not fit.
int64_t BlockOf(const Instruction& call, const Shape& data, const Shape& scale) {
  int64_t rank = data.rank(), k = LastDim(data), blocks = LastDim(scale);
  if (scale.rank() != rank || (rank == 3 && scale.dim(0) != data.dim(0))) return 0;
  std::optional<int64_t> said = ConfigIntOfCustomCall(call, "block_size");
  if (said && *said > 0) {  // then scales may be padded
    bool covers = scale.dim(rank - 2) >= data.dim(rank - 2) && blocks >= (k + *said - 1) / *said;
    return covers ? *said : 0;
  }
  bool divides = blocks > 0 && k % blocks == 0 && scale.dim(rank - 2) == data.dim(rank - 2);
  return divides ? std::max<int64_t>(1, k / blocks) : 0;
}

}  // namespace

double LargestPowerOf(DType dtype) {
  // Numbers of 4 and 8 bits: the largest one is found among all.
  double most = 0;
  for (int code = 0; code < 1 << std::min(BitWidth(dtype), 8); ++code) {
    auto bits = static_cast<std::byte>(code);
    float x;
    LoadF32(dtype, &bits, 1, &x);
    if (std::isfinite(x)) most = std::max(most, static_cast<double>(x));
  }
  return std::exp2(std::floor(std::log2(most)));
}

bool IsBlockScalingCall(std::string_view target) {
  return target == "__op$block_scaled_dot" || target == "__op$quantize" ||
         target == "__op$dequantize";
}

Result<BlockScaledForm> BlockScaledFormOf(const Instruction& call) {
  int64_t count = call.operand_count();
  if (count < 3 || count > 5) {
    return InvalidArgument("__op$block_scaled_dot: takes 3 to 5 operands, has ", count);
  }
  const Shape &lhs = call.operand(0)->shape(), &rhs = call.operand(1)->shape();
  int64_t rank = lhs.rank();
  bool fits = (rank == 2 || rank == 3) && rhs.rank() == rank && LastDim(lhs) == LastDim(rhs) &&
              (rank == 2 || lhs.dim(0) == rhs.dim(0)) && IsFloat(lhs.dtype()) &&
              IsFloat(rhs.dtype()) && call.shape().IsArray() && IsFloat(call.shape().dtype());
  BlockScaledForm form;
  if (fits) {
    form = {rank == 3 ? lhs.dim(0) : 1, lhs.dim(rank - 2), rhs.dim(rank - 2), LastDim(lhs), 1, 1};
    const Shape& to = call.shape();
    fits = to.rank() == rank && to.dim(rank - 2) == form.m && to.dim(rank - 1) == form.n &&
           (rank == 2 || to.dim(0) == form.batch);
  }
  if (!fits) {
    return InvalidArgument(
        "__op$block_scaled_dot: shapes do not fit: ", lhs.ToStringWithoutLayout(), " by ",
        rhs.ToStringWithoutLayout(), " to ", call.shape().ToStringWithoutLayout());
  }
  form.lhs_block = BlockOf(call, lhs, call.operand(2)->shape());
  if (count > 3) form.rhs_block = BlockOf(call, rhs, call.operand(3)->shape());
  if (form.lhs_block == 0 || form.rhs_block == 0) {
    const Shape& bad = call.operand(form.lhs_block == 0 ? 2 : 3)->shape();
    return InvalidArgument("__op$block_scaled_dot: scale does not fit its operand: ",
                           bad.ToStringWithoutLayout());
  }
  if (count > 4 && (!call.operand(4)->shape().IsScalar() ||
                    call.operand(4)->shape().dtype() != call.shape().dtype())) {
    return InvalidArgument(
        "__op$block_scaled_dot: the global scale is no scalar of the result's "
        "type: ",
        call.operand(4)->shape().ToStringWithoutLayout());
  }
  return form;
}

Status CheckQuantize(const Instruction& call) {
  if (call.operand_count() != 1) {
    return InvalidArgument("__op$quantize: takes 1 operand, has ", call.operand_count());
  }
  const Shape &from = call.operand(0)->shape(), &to = call.shape();
  bool fits = to.IsTuple() && to.tuple_size() == 2 && from.IsArray() && IsFloat(from.dtype()) &&
              from.rank() >= 1;
  fits = fits && to.tuple_element(0).dims() == from.dims() &&
         IsScaledBy(to.tuple_element(0), to.tuple_element(1)) &&
         BitWidth(to.tuple_element(0).dtype()) <= 8 && IsFloat(to.tuple_element(0).dtype()) &&
         IsFloat(to.tuple_element(1).dtype());
  if (fits) return {};
  return InvalidArgument("__op$quantize: shapes do not fit: ", from.ToStringWithoutLayout(), " to ",
                         to.ToStringWithoutLayout());
}

Status CheckDequantize(const Instruction& call) {
  if (call.operand_count() != 2) {
    return InvalidArgument("__op$dequantize: takes 2 operands, has ", call.operand_count());
  }
  const Shape &data = call.operand(0)->shape(), &scale = call.operand(1)->shape();
  if (call.shape().IsArray() && IsFloat(call.shape().dtype()) && IsFloat(data.dtype()) &&
      IsFloat(scale.dtype()) && IsScaledBy(data, scale) && call.shape().dims() == data.dims()) {
    return {};
  }
  return InvalidArgument("__op$dequantize: shapes do not fit: ", data.ToStringWithoutLayout(),
                         " and ", scale.ToStringWithoutLayout(), " to ",
                         call.shape().ToStringWithoutLayout());
}

Result<Literal> EvaluateBlockScaling(EvalContext& context, const Instruction& call,
                                     std::span<Literal> operands) {
  const std::string& target = call.attrs<CustomCallAttrs>().custom_call_target;
  if (target == "__op$quantize") {
    TRY(CheckQuantize(call));
    return Quantized(context, call, operands[0]);
  }
  if (target == "__op$dequantize") {
    TRY(CheckDequantize(call));
    return Dequantized(context, call, operands[0], operands[1]);
  }
  BlockScaledForm form = TRY(BlockScaledFormOf(call));
  return BlockScaledDot(context, call, form, operands);
}

}  // namespace weft::hlo
