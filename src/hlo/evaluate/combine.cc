// Reductions between devices, element by element.
#include <algorithm>

#include "base/elements.h"
#include "hlo/evaluate/collectives.h"
#include "hlo/evaluate/plain_op.h"
#include "hlo/evaluate/scalar_function.h"

namespace weft::hlo {
namespace {

bool TakesType(const ScalarFunction& reducer, DType type) {
  auto fits = [&](DType t) { return t == type || (IsFloat(t) && IsFloat(type)); };
  return reducer.parameter_count() == 2 && reducer.result_count() == 1 &&
         fits(reducer.parameter_type(0)) && fits(reducer.parameter_type(1)) &&
         fits(reducer.result_type(0));
}

Literal ElementAt(const Literal& array, int64_t i) {
  Literal scalar{Shape::Scalar(array.dtype())};
  int64_t width = ByteWidth(array.dtype());
  std::copy_n(array.data() + i * width, width, scalar.mutable_data());
  return scalar;
}

}  // namespace

std::optional<Literal> CombineNarrow(const Computation& reducer,
                                     std::span<const Literal* const> values) {
  const Shape& shape = values[0]->shape();
  if (!shape.IsArray() || !IsFloat(shape.dtype()) || BitWidth(shape.dtype()) >= 32) return {};
  for (const Literal* value : values) {
    if (value->dtype() != shape.dtype() || !Shape::SameDims(value->shape(), shape)) return {};
  }
  Result<ScalarFunction> compiled = ScalarFunction::Compile(reducer);
  if (!compiled || !TakesType(*compiled, shape.dtype()) || !compiled->commutative_op()) return {};
  std::optional<PlainOp<double>> op =
      FindPlainOp<double>(*compiled->commutative_op(), shape.dtype());
  if (!op) return {};
  Literal result = *values[0];
  const int64_t n = result.size();
  std::vector<float> rounded(static_cast<size_t>(n));
  std::vector<double> sum(rounded.size()), next(rounded.size());
  LoadWide(shape.dtype(), result.data(), n, sum.data());
  for (const Literal* value : values.subspan(1)) {
    LoadWide(shape.dtype(), value->data(), n, next.data());
    op->combine(sum.data(), next.data(), n);
    std::ranges::copy(sum, rounded.begin());
    std::ranges::copy(rounded, sum.begin());
  }
  if (n > 0) StoreWide(shape.dtype(), sum.data(), n, result.mutable_data());
  return result;
}

Status CombineElements(EvalContext& context, const Computation& reducer, Literal& accumulator,
                       const Literal& value) {
  if (!accumulator.shape().IsArray() || accumulator.dtype() != value.dtype() ||
      !Shape::SameDims(accumulator.shape(), value.shape())) {
    return InvalidArgument("devices give ", accumulator.shape().ToStringWithoutLayout(), " and ",
                           value.shape().ToStringWithoutLayout());
  }
  DType type = accumulator.dtype();
  Result<ScalarFunction> compiled = ScalarFunction::Compile(reducer);
  if (compiled && TakesType(*compiled, type)) {
    std::byte* bytes = accumulator.mutable_data();
    ScalarFunction::In in[] = {{type, bytes}, {type, value.data()}};
    ScalarFunction::Out out[] = {{type, bytes}};
    compiled->Run(in, out, accumulator.size());
    return {};
  }
  // A reducer of whole arrays.
  const Instruction* first = reducer.parameters().empty() ? nullptr : reducer.parameter(0);
  if (first != nullptr && first->shape().rank() > 0) {
    Literal pair[2] = {std::move(accumulator), value};
    accumulator = TRY(context.Call(reducer, pair));
    return {};
  }
  int64_t width = ByteWidth(type);
  for (int64_t i = 0; i < accumulator.size(); ++i) {
    Literal pair[2] = {ElementAt(accumulator, i), ElementAt(value, i)};
    Literal result = TRY(context.Call(reducer, pair));
    if (!result.shape().IsScalar()) {
      return InvalidArgument("the reducer ", reducer.name(), " returns ",
                             result.shape().ToStringWithoutLayout(), ", not a scalar");
    }
    ConvertElements(result.dtype(), result.data(), type, accumulator.mutable_data() + i * width, 1);
  }
  return {};
}

}  // namespace weft::hlo
