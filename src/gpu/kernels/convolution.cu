// HLO's convolution for any types and any number of spatial dimensions: a thread an element.
struct ConvAxis {
  s64 in, out, window;
  s64 in_stride, out_stride, window_stride;
  s64 stride, pad, base_dilation, window_dilation, reversal;

  // The input element under a tap of the window at a position; -1 in padding and holes.
  __device__ inline s64 Index(s64 position, s64 tap) const {
    s64 at = position * stride - pad + (reversal ? window - 1 - tap : tap) * window_dilation;
    if (at < 0 || at % base_dilation != 0) return -1;
    return at / base_dilation < in ? at / base_dilation : -1;
  }
};
template <int kAxes>
struct ConvForm {
  s64 batch, features, kernel_in, per_group, positions, taps;
  s64 in_batch_stride, in_feature_stride, kernel_in_stride, kernel_out_stride;
  s64 out_batch_stride, out_feature_stride;
  s64 feature_grouped, batch_grouped;
  ConvAxis axes[kAxes > 0 ? kAxes : 1];
};

template <class In, class K, class Out, int kAxes>
__device__ inline void Convolve(const typename In::Storage* input, const typename K::Storage* kernel,
                                typename Out::Storage* output, const ConvForm<kAxes>& f) {
  typedef typename Out::Value T;
  s64 at = s64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= f.batch * f.features * f.positions) return;
  s64 feature = at % f.features, position = at / f.features % f.positions;
  s64 batch = at / f.features / f.positions, group = feature / f.per_group;
  s64 image = batch + (f.batch_grouped ? group * f.batch : 0);
  s64 first = f.feature_grouped ? group * f.kernel_in : 0;
  T sum = Number<T>::From(0);
  for (s64 tap = 0; tap < f.taps; ++tap) {
    s64 in_at = image * f.in_batch_stride + first * f.in_feature_stride;
    s64 kernel_at = feature * f.kernel_out_stride, p = position, t = tap;
    bool inside = true;
    for (int d = kAxes; d-- > 0;) {
      const ConvAxis& a = f.axes[d];
      s64 index = a.Index(p % a.out, t % a.window);
      inside = inside && index >= 0;
      in_at += index * a.in_stride;
      kernel_at += t % a.window * a.window_stride;
      p /= a.out;
      t /= a.window;
    }
    for (s64 i = 0; inside && i < f.kernel_in; ++i) {
      sum = sum + T(In::Load(input[in_at + i * f.in_feature_stride])) *
                      T(K::Load(kernel[kernel_at + i * f.kernel_in_stride]));
    }
  }
  s64 out_at = batch * f.out_batch_stride + feature * f.out_feature_stride, p = position;
  for (int d = kAxes; d-- > 0;) {
    out_at += p % f.axes[d].out * f.axes[d].out_stride;
    p /= f.axes[d].out;
  }
  output[out_at] = Out::Store(sum);
}
