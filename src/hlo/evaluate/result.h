// Making result literals within the limits of an evaluation.
#pragma once

#include "base/elements.h"
#include "base/error.h"
#include "base/literal.h"
#include "hlo/evaluate.h"

namespace weft::hlo {

// An error when a value of this shape is larger than the evaluation allows or has `?` dimensions.
inline Status CheckResultSize(const EvalContext& context, const Shape& shape) {
  if (shape.HasUnboundedDims()) {
    return Unimplemented("evaluate: result ", shape.ToStringWithoutLayout(),
                         " has a dimension without a bound");
  }
  int64_t bytes = shape.ByteSize();
  if (bytes <= context.options().max_tensor_bytes) return {};
  return ResourceExhausted("evaluate: result ", shape.ToStringWithoutLayout(), " takes ", bytes,
                           " bytes, the limit is ", context.options().max_tensor_bytes);
}

// A zeroed result (zeroing costs little: large ones come as fresh pages).
inline Result<Literal> NewResult(const EvalContext& context, const Shape& shape) {
  TRY(CheckResultSize(context, shape));
  return Literal::Allocate(shape);
}

// An array with its elements converted, as the `convert` op does; itself when it has that type.
// Used where an instruction declares another precision than its operands have.
inline Result<Literal> ConvertedTo(Literal value, DType dtype) {
  if (value.dtype() == dtype || !value.shape().IsArray()) return value;
  Shape shape = value.shape();
  shape.ClearLayout();
  shape.set_dtype(dtype);
  Literal out = TRY(Literal::Allocate(shape));
  ConvertElements(value.dtype(), value.data(), dtype, out.mutable_data(), value.size());
  if (value.HasDynamicSizes()) {
    for (int64_t i = 0; i < shape.rank(); ++i) out.set_dynamic_size(i, value.dynamic_size(i));
  }
  return out;
}

}  // namespace weft::hlo
