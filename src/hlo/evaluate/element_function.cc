#include <vector>

#include "base/elements.h"
#include "hlo/evaluate.h"
#include "hlo/evaluate/reduction.h"

namespace weft::hlo {
namespace {

Literal ElementLiteral(DType from, const std::byte* element, DType to) {
  Literal scalar = Literal::Uninitialized(Shape::Scalar(to));
  ConvertElements(from, element, to, scalar.mutable_data(), 1);
  return scalar;
}

}  // namespace

ElementFunction::ElementFunction(EvalContext& context, const Computation& computation)
    : context_(context), computation_(computation), compiled_(context.Compiled(computation)) {}

Status ElementFunction::Call(std::span<const ScalarFunction::In> in,
                             std::span<const ScalarFunction::Out> out) {
  if (compiled_ != nullptr) {
    if (!frame_) frame_.emplace(*compiled_, 1);
    compiled_->Run(*frame_, in, out, 1);
    return {};
  }
  std::vector<Literal> arguments;
  for (size_t i = 0; i < in.size(); ++i) {
    DType to = computation_.parameter(static_cast<int64_t>(i))->shape().dtype();
    arguments.push_back(ElementLiteral(in[i].dtype, in[i].data, to));
  }
  Literal result = TRY(context_.Call(computation_, arguments));
  for (size_t i = 0; i < out.size(); ++i) {
    const Literal& part = result.shape().IsTuple() ? result.tuple()[i] : result;
    ConvertElements(part.dtype(), part.data(), out[i].dtype, out[i].data, 1);
  }
  return {};
}

Status ElementFunction::CallMany(std::span<const ScalarFunction::In> in,
                                 std::span<const ScalarFunction::Out> out, int64_t n) {
  if (compiled_ != nullptr) {
    compiled_->Run(in, out, n);
    return {};
  }
  std::vector<ScalarFunction::In> one_in(in.begin(), in.end());
  std::vector<ScalarFunction::Out> one_out(out.begin(), out.end());
  for (int64_t i = 0; i < n; ++i) {
    TRY(Call(one_in, one_out));
    for (auto& x : one_in) x.data += x.broadcast ? 0 : ByteWidth(x.dtype);
    for (auto& x : one_out) x.data += ByteWidth(x.dtype);
  }
  return {};
}

}  // namespace weft::hlo
