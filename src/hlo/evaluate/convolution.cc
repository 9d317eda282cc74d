#include <algorithm>

#include "hlo/evaluate/contract.h"
#include "hlo/evaluate/matmul.h"
#include "hlo/evaluate/result.h"
#include "hlo/evaluate/strided.h"
#include "hlo/instruction.h"

namespace weft::hlo {
namespace {

// A convolution with input [batch][spatial...][features], kernel [spatial...][in][out] and result
// [batch][spatial...][features], cut into groups.
struct ConvGeometry {
  struct Axis {
    int64_t in, out;
    WindowDim window;
  };
  std::vector<Axis> axes;
  int64_t in_features = 0;                   // of the input as a whole
  int64_t group_features = 0;                // input features of one group
  int64_t batch = 0;                         // of the result
  int64_t feature_step = 0, batch_step = 0;  // what the next group adds to feature and batch

  int64_t positions() const {  // of the window, in one image
    int64_t n = 1;
    for (const Axis& a : axes) n *= a.out;
    return n;
  }
  int64_t taps() const {  // of the window
    int64_t n = 1;
    for (const Axis& a : axes) n *= a.window.size;
    return n;
  }
};

// The input element that tap `tap` of the window at `position` reads; -1 in padding and holes.
int64_t InputIndex(const ConvGeometry::Axis& axis, int64_t position, int64_t tap) {
  const WindowDim& w = axis.window;
  if (w.reversal) tap = w.size - 1 - tap;
  int64_t at;
  if (__builtin_sub_overflow(position * w.stride + tap * w.window_dilation, w.pad_low, &at) ||
      at < 0) {
    return -1;
  }
  if (w.base_dilation != 1) {
    if (at % w.base_dilation != 0) return -1;
    at /= w.base_dilation;
  }
  return at < axis.in ? at : -1;
}

// The matrix of windows: a row per image and position, a column per tap and feature. One matrix per
// group.
template <class T>
class WindowSource : public MatrixSource<T> {
 public:
  WindowSource(const ConvGeometry& geometry, DType dtype, const std::byte* input)
      : g_(geometry), dtype_(dtype), input_(input) {}

  void Load(int64_t group, int64_t row, int64_t rows, int64_t col, int64_t cols,
            T* out) const override {
    Dims position(g_.axes.size(), 0), tap(g_.axes.size(), 0);
    int64_t first_tap = col / g_.group_features;
    for (int64_t r = 0; r < rows; ++r) {
      int64_t image = Split(row + r, position, [](const auto& axis) { return axis.out; });
      image += group * g_.batch_step;
      Split(first_tap, tap, [](const auto& axis) { return axis.window.size; });
      int64_t feature = col % g_.group_features;
      for (int64_t c = 0; c < cols;) {
        int64_t n = std::min(cols - c, g_.group_features - feature);
        LoadTap(image, position, tap, group * g_.feature_step + feature, n, out);
        c += n;
        out += n;
        feature = 0;
        NextTap(tap);
      }
    }
  }

 private:
  // Splits a number into one digit per axis; returns what is left.
  template <class SizeFn>
  int64_t Split(int64_t number, Dims& digits, SizeFn size) const {
    for (size_t d = digits.size(); d-- > 0;) {
      digits[d] = number % size(g_.axes[d]);
      number /= size(g_.axes[d]);
    }
    return number;
  }

  void NextTap(Dims& tap) const {
    for (size_t d = tap.size(); d-- > 0;) {
      if (++tap[d] < g_.axes[d].window.size) return;
      tap[d] = 0;
    }
  }

  void LoadTap(int64_t image, const Dims& position, const Dims& tap, int64_t feature, int64_t n,
               T* out) const {
    int64_t at = image;
    for (size_t d = 0; d < g_.axes.size(); ++d) {
      int64_t index = InputIndex(g_.axes[d], position[d], tap[d]);
      if (index < 0) return static_cast<void>(std::fill_n(out, n, T()));
      at = at * g_.axes[d].in + index;
    }
    LoadElements<T>(dtype_, input_ + (at * g_.in_features + feature) * ByteWidth(dtype_), n, out);
  }

  const ConvGeometry& g_;
  DType dtype_;
  const std::byte* input_;
};

// {first, spatial..., last}, or with `first` after the spatial dimensions.
Ints ConvOrder(int64_t first, const Ints& spatial, int64_t last) {
  Ints order = {first};
  order.insert(order.end(), spatial.begin(), spatial.end());
  order.push_back(last);
  return order;
}

}  // namespace

Result<Literal> EvaluateConvolution(EvalContext& context, const Instruction& instruction,
                                    std::span<Literal> operands) {
  const ConvolutionAttrs& attrs = instruction.attrs<ConvolutionAttrs>();
  const ConvDims& d = attrs.dim_labels;
  const Shape& input_shape = instruction.operand(0)->shape();
  const Shape& kernel_shape = instruction.operand(1)->shape();
  const Shape& result_shape = instruction.shape();
  if (attrs.sparsity_config != SparsityConfig() || operands.size() != 2) {
    return Unimplemented("convolution: sparse operands are not evaluated");
  }
  if (attrs.convolution_kind == ConvKind::kDgrad || attrs.convolution_kind == ConvKind::kWgrad) {
    return Unimplemented("convolution: convolution_kind=", Name(attrs.convolution_kind),
                         " is not evaluated");
  }
  int64_t groups = attrs.feature_group_count * attrs.batch_group_count;
  int64_t out_features = kernel_shape.dim(d.kernel_output);
  ConvGeometry g;
  for (size_t i = 0; i < attrs.window.dims.size(); ++i) {
    g.axes.push_back({input_shape.dim(d.input_spatial[i]), result_shape.dim(d.output_spatial[i]),
                      attrs.window.dims[i]});
  }
  g.in_features = input_shape.dim(d.input_feature);
  g.group_features = kernel_shape.dim(d.kernel_input);
  g.batch = result_shape.dim(d.output_batch);
  if (attrs.feature_group_count > 1) g.feature_step = g.group_features;
  if (attrs.batch_group_count > 1) g.batch_step = g.batch;

  Ints result_order = ConvOrder(d.output_batch, d.output_spatial, d.output_feature);
  Shape canonical = Shape::Scalar(result_shape.dtype());
  for (int64_t dim : result_order) canonical.AppendDim(result_shape.dim(dim));
  Literal out = TRY(NewResult(context, result_shape));
  if (out.size() == 0 || g.group_features == 0) return out;
  Literal input = TRY(Permuted(context, std::move(operands[0]),
                               ConvOrder(d.input_batch, d.input_spatial, d.input_feature)));
  Ints kernel_order = d.kernel_spatial;
  kernel_order.push_back(d.kernel_input);
  kernel_order.push_back(d.kernel_output);
  Literal kernel = TRY(Permuted(context, std::move(operands[1]), kernel_order));
  bool in_order = std::is_sorted(result_order.begin(), result_order.end());
  Literal product = in_order ? std::move(out) : TRY(NewResult(context, canonical));
  int64_t per_group = out_features / groups;
  MatMulSizes sizes = {groups, g.batch * g.positions(), per_group, g.taps() * g.group_features,
                       HasExactProducts(input.dtype(), kernel.dtype())};
  WithComputeType(input.dtype(), kernel.dtype(), product.dtype(), [&]<class T>() {
    WindowSource<T> windows(g, input.dtype(), input.data());
    DenseSource<T> filters({kernel.dtype(), out_features, per_group}, kernel.data());
    MatMul<T>(sizes, windows, filters, {product.dtype(), out_features, per_group},
              product.mutable_data());
  });
  if (in_order) return product;
  Dims strides = RowMajorStrides(result_shape.dims()), to_strides;
  for (int64_t dim : result_order) to_strides.push_back(strides[static_cast<size_t>(dim)]);
  CopyStrided(canonical.dims(), product.data(), RowMajorStrides(canonical.dims()),
              out.mutable_data(), to_strides, ByteWidth(out.dtype()));
  return out;
}

}  // namespace weft::hlo
