#include <algorithm>

#include "gpu/routines/convolution_cudnn.h"

namespace weft::gpu {

using Dims = DnnProblem::Dims;

namespace {

// What has to be padded behind, for so many positions; -1: no padding does that.
int64_t PostPadding(int64_t in, int64_t pre, int64_t extent, int64_t stride, int64_t out) {
  auto gives = [&](int64_t post) {
    int64_t room = in + pre + post - extent;
    return room >= 0 && room / stride + 1 == out;
  };
  if (gives(pre)) return pre;  // more engines take padding that is the same on both sides
  if (gives(0)) return 0;
  int64_t least = (out - 1) * stride + extent - in - pre;
  return least >= 0 && gives(least) ? least : -1;
}

// Sizes, strides and padding of the spatial dimensions.
Status AddAxes(const program::ConvolutionForm& f, DnnProblem& p) {
  bool forward = p.operation == kDnnForward, filter = p.operation == kDnnBackwardFilter;
  auto add = [&](int64_t in, int64_t in_stride, int64_t out, int64_t out_stride, int64_t window,
                 int64_t window_stride) {
    p.x.push_back(in), p.x_strides.push_back(in_stride);
    p.y.push_back(out), p.y_strides.push_back(out_stride);
    p.w.push_back(window), p.w_strides.push_back(window_stride);
  };
  for (const auto& a : f.axes) {
    int64_t pad = a.pad;
    if (forward) {
      add(a.in, a.in_stride, a.out, a.out_stride, a.window, a.window_stride);
      p.strides.push_back(a.stride), p.dilations.push_back(a.window_dilation);
    } else if (filter) {
      add(a.in, a.in_stride, a.window, a.window_stride, a.out, a.out_stride);
      p.strides.push_back(a.window_dilation), p.dilations.push_back(a.stride);
    } else {
      add(a.out, a.out_stride, a.in, a.in_stride, a.window, a.window_stride);
      p.strides.push_back(a.base_dilation), p.dilations.push_back(a.window_dilation);
      pad = (a.window - 1) * a.window_dilation - a.pad;
    }
    int64_t extent = (p.w.back() - 1) * p.dilations.back() + 1;
    int64_t post = PostPadding(p.x.back(), pad, extent, p.strides.back(), p.y.back());
    if (pad < 0 || post < 0) return Unimplemented("padding of ", pad, " and ", post);
    p.pre.push_back(pad), p.post.push_back(post);
  }
  return {};
}

// The library has two spatial dimensions at least: one of size 1 comes first.
void WidenOneAxis(DnnProblem& p) {
  auto widen = [](Dims& dims, Dims& strides) {
    strides.insert(strides.begin() + 2, dims[2] * strides[2]);
    dims.insert(dims.begin() + 2, 1);
  };
  widen(p.x, p.x_strides), widen(p.y, p.y_strides), widen(p.w, p.w_strides);
  for (Dims* ones : {&p.strides, &p.dilations}) ones->insert(ones->begin(), 1);
  for (Dims* zeros : {&p.pre, &p.post}) zeros->insert(zeros->begin(), 0);
}

}  // namespace

Result<DnnProblem> DnnProblemOf(const program::ConvolutionForm& f) {
  if (f.axes.empty() || f.axes.size() > 3) return Unimplemented(f.axes.size(), " dimensions");
  int64_t positions = 1, taps = 1;
  bool holes = false, strided = false, reversed = f.axes[0].reversal;
  for (const auto& a : f.axes) {
    positions *= a.out;
    taps *= a.window;
    holes |= a.base_dilation > 1;
    strided |= a.stride > 1;
    if (a.reversal != reversed) return Unimplemented("some dimensions are reversed");
  }
  DnnProblem p;
  if (holes) {
    if (strided || f.batch_groups > 1) return Unimplemented("holes with strides or batch groups");
    int64_t per = f.out_features / f.feature_groups;
    p.operation = kDnnBackwardData;
    p.y = {f.batch_in, f.in_features}, p.y_strides = {f.in_batch_stride, f.in_feature_stride};
    p.x = {f.batch, f.out_features}, p.x_strides = {f.out_batch_stride, f.out_feature_stride};
    p.w = {f.in_features, per}, p.w_strides = {f.kernel_in_stride, f.kernel_out_stride};
    p.groups = f.feature_groups, p.per_group = f.kernel_in;
    p.group_stride = per * f.kernel_out_stride;
    p.flipped = !reversed;
    p.uses[0] = 2, p.uses[1] = 1, p.uses[2] = 0;
  } else if (taps > positions && f.feature_groups == 1 && !reversed) {
    p.operation = kDnnBackwardFilter;
    p.x = {f.in_features, f.batch_in}, p.x_strides = {f.in_feature_stride, f.in_batch_stride};
    p.y = {f.kernel_in, f.kernel_out}, p.y_strides = {f.kernel_in_stride, f.kernel_out_stride};
    p.w = {f.out_features, f.batch}, p.w_strides = {f.out_feature_stride, f.out_batch_stride};
    p.uses[0] = 0, p.uses[1] = 2, p.uses[2] = 1;
  } else {
    if (f.batch_groups > 1) return Unimplemented("batch groups");
    p.x = {f.batch_in, f.in_features}, p.x_strides = {f.in_batch_stride, f.in_feature_stride};
    p.y = {f.batch, f.out_features}, p.y_strides = {f.out_batch_stride, f.out_feature_stride};
    p.w = {f.kernel_out, f.kernel_in}, p.w_strides = {f.kernel_out_stride, f.kernel_in_stride};
    p.flipped = reversed;
    p.uses[0] = 0, p.uses[1] = 1, p.uses[2] = 2;
  }
  TRY(AddAxes(f, p));
  if (f.axes.size() == 1) WidenOneAxis(p);
  return p;
}

}  // namespace weft::gpu
