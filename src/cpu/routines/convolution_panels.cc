#include "cpu/routines/convolution_panels.h"

#include <algorithm>

#include "cpu/routines/tiles.h"

namespace weft::cpu {
namespace {

constexpr int64_t kMostPanel = 64;  // vectors in a packed panel
constexpr int64_t kMergedRun = 64;  // elements of taps side by side that are taken as one run

template <class T>
constexpr DType kTypeOf = std::is_same_v<T, float>    ? DType::kF32
                          : std::is_same_v<T, double> ? DType::kF64
                          : sizeof(T) == 4            ? DType::kU32
                                                      : DType::kU64;

bool IsWithin(int64_t x, int64_t size) {
  return static_cast<uint64_t>(x) < static_cast<uint64_t>(size);
}

template <class T>
void CopyStrided(const T* from, int64_t step, int64_t n, T* to) {
  if (step == 1) {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i];
    return;
  }
  for (int64_t i = 0; i < n; ++i) to[i] = from[i * step];
}

}  // namespace

// Where a window is: its first element, padding and all, by axis; and its image.
template <class T>
struct WindowPanels<T>::Place {
  int64_t image;
  int64_t start[kMostAxes];
};

// Of one tap: how far it is from the first, by axis.
template <class T>
struct WindowPanels<T>::Taps {
  int64_t ahead[kMostAxes];
};

template <class T>
WindowPanels<T>::WindowPanels(const ConvolutionPhase& phase, WindowOrder order, const T* input)
    : phase_(phase), f_(phase.form), order_(order), input_(input) {
  if (f_.axes.empty()) return;
  const auto& last = f_.axes.back();
  bool side_by_side = f_.in_feature_stride == 1 && last.window_dilation == 1 &&
                      last.in_stride == f_.kernel_in && !order.features_outer;
  if (side_by_side && last.window * f_.kernel_in <= kMergedRun) merged_ = last.window;
}

template <class T>
auto WindowPanels<T>::PlaceOf(int64_t number) const -> Place {
  Place place;
  int64_t position = number / f_.batch;
  place.image = number % f_.batch;
  if (!order_.images_inner) {
    position = number % phase_.positions;
    place.image = number / phase_.positions;
  }
  for (size_t d = f_.axes.size(); d-- > 0; position /= f_.axes[d].out) {
    place.start[d] = position % f_.axes[d].out * f_.axes[d].stride - f_.axes[d].pad;
  }
  return place;
}

template <class T>
auto WindowPanels<T>::TapsAt(int64_t tap) const -> Taps {
  Taps taps;
  for (size_t d = f_.axes.size(); d-- > 0; tap /= f_.axes[d].window) {
    taps.ahead[d] = tap % f_.axes[d].window * f_.axes[d].window_dilation;
  }
  return taps;
}

template <class T>
void WindowPanels<T>::Pack(int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t width,
                           T* out) const {
  constexpr int64_t kLeastRun = 4;  // elements that are worth turning
  bool across = f_.in_feature_stride == 1 && !order_.features_outer &&
                (f_.kernel_in * merged_ >= kLeastRun || f_.axes.empty());
  if (across) return PackAcrossRuns(first, count, k0, kn, width, out);
  PackSegments(first, count, k0, kn, width, out);
}

// Runs of elements that lie together in each window, turned.
template <class T>
void WindowPanels<T>::PackAcrossRuns(int64_t first, int64_t count, int64_t k0, int64_t kn,
                                     int64_t width, T* out) const {
  constexpr int64_t kMostRun = 512;  // elements at once: as many zeroes stand for padding
  alignas(64) static constexpr T kNothing[kMostRun] = {};
  Place places[kMostPanel];
  for (int64_t i = 0; i < count; ++i) places[i] = PlaceOf(first + i);
  T edge[kMostPanel][kMergedRun];  // runs that are partly in padding
  int64_t run = f_.kernel_in * merged_, at = k0 % run;
  size_t whole_axes = f_.axes.size() - (merged_ > 1 ? 1 : 0);
  for (int64_t number = k0 / run; kn > 0; ++number, at = 0) {
    Taps taps = TapsAt(number * merged_);
    while (at < run && kn > 0) {
      int64_t n = std::min({kn, run - at, kMostRun});
      const T* rows[kMostPanel];
      for (int64_t i = 0; i < width; ++i) rows[i] = kNothing;
      for (int64_t i = 0; i < count; ++i) {
        const T* row = input_ + places[i].image * f_.in_batch_stride;
        bool there = true;
        for (size_t d = 0; d < whole_axes; ++d) {
          int64_t x = places[i].start[d] + taps.ahead[d];
          there = there && IsWithin(x, f_.axes[d].in);
          row += x * f_.axes[d].in_stride;
        }
        if (!there) continue;
        if (merged_ == 1) {
          rows[i] = row + at;
          continue;
        }
        int64_t x = places[i].start[whole_axes], in = f_.axes.back().in;
        row += x * f_.kernel_in + at;
        if (x >= 0 && x + merged_ <= in) {
          rows[i] = row;
          continue;
        }
        int64_t low = std::clamp(-x * f_.kernel_in - at, int64_t{0}, n);
        int64_t high = std::clamp((in - x) * f_.kernel_in - at, low, n);
        std::fill_n(edge[i], n, T(0));
        for (int64_t p = low; p < high; ++p) edge[i][p] = row[p];
        rows[i] = edge[i];
      }
      PackAcross<T>(rows, n, width, out);
      out += n * width;
      at += n;
      kn -= n;
    }
  }
}

// Segments of windows that are side by side along the last axis, or the same in neighbouring
// images.
template <class T>
void WindowPanels<T>::PackSegments(int64_t first, int64_t count, int64_t k0, int64_t kn,
                                   int64_t width, T* out) const {
  struct Segment {
    Place place;
    int64_t at, count;
  };
  Segment segments[kMostPanel];
  int64_t used = 0;
  bool images = order_.images_inner || f_.axes.empty();
  int64_t inner = images ? f_.batch : f_.axes.back().out;
  for (int64_t i = 0; i < count; i += segments[used++].count) {
    segments[used] = {PlaceOf(first + i), i, std::min(count - i, inner - (first + i) % inner)};
  }
  size_t whole_axes = f_.axes.size() - (images ? 0 : 1);
  int64_t step = images ? f_.in_batch_stride : f_.axes.back().in_stride * f_.axes.back().stride;
  int64_t outer = order_.features_outer ? phase_.taps : f_.kernel_in;
  int64_t major = k0 / outer, minor = k0 % outer;
  Taps taps = TapsAt(order_.features_outer ? minor : major);
  auto next_tap = [&] {
    for (size_t d = f_.axes.size(); d-- > 0; taps.ahead[d] = 0) {
      taps.ahead[d] += f_.axes[d].window_dilation;
      if (taps.ahead[d] < f_.axes[d].window * f_.axes[d].window_dilation) return;
    }
  };
  for (int64_t p = 0; p < kn; ++p, out += width) {
    const T* feature = input_ + (order_.features_outer ? major : minor) * f_.in_feature_stride;
    for (int64_t s = 0; s < used; ++s) {
      const Segment& segment = segments[s];
      const T* from = feature + segment.place.image * f_.in_batch_stride;
      bool there = true;
      for (size_t d = 0; d < whole_axes; ++d) {
        int64_t x = segment.place.start[d] + taps.ahead[d];
        there = there && IsWithin(x, f_.axes[d].in);
        from += x * f_.axes[d].in_stride;
      }
      int64_t low = 0, high = there ? segment.count : 0;
      if (there && !images) {
        const auto& a = f_.axes.back();
        int64_t x = segment.place.start[whole_axes] + taps.ahead[whole_axes];
        from += x * a.in_stride;
        if (x < 0) low = std::min(high, a.stride == 1 ? -x : (-x + a.stride - 1) / a.stride);
        int64_t left = a.in - x;  // elements from the first on
        if (left < (high - 1) * a.stride + 1) {
          high = left <= 0 ? 0 : a.stride == 1 ? left : (left - 1) / a.stride + 1;
        }
        high = std::max(low, high);
      }
      T* to = out + segment.at;
      for (int64_t i = 0; i < low; ++i) to[i] = T(0);
      CopyStrided(from + low * step, step, high - low, to + low);
      for (int64_t i = high; i < segment.count; ++i) to[i] = T(0);
    }
    for (int64_t i = count; i < width; ++i) out[i] = T(0);
    bool wraps = ++minor == outer;
    if (wraps || order_.features_outer) next_tap();
    if (wraps) {
      minor = 0;
      ++major;
    }
  }
}

template <class T>
FilterPanels<T>::FilterPanels(const ConvolutionPhase& phase, WindowOrder order, const T* kernel)
    : kernel_(kernel + phase.kernel_offset), vector_stride_(phase.form.kernel_out_stride) {
  Digit features = {phase.form.kernel_in, phase.form.kernel_in_stride};
  auto add = [&](Digit digit) {
    if (!digits_.empty() && digits_.back().stride == digit.stride * digit.size) {
      digits_.back() = {digits_.back().size * digit.size, digit.stride};
    } else if (digit.size != 1) {
      digits_.push_back(digit);
    }
  };
  if (order.features_outer) add(features);
  for (const auto& a : phase.form.axes) add({a.window, a.window_stride});
  if (!order.features_outer) add(features);
  if (digits_.empty()) digits_.push_back({1, 1});
}

template <class T>
template <class Fn>
void FilterPanels<T>::ForRuns(int64_t k0, int64_t kn, const Fn& fn) const {
  int64_t inner = digits_.back().size;
  for (int64_t at = 0; at < kn;) {
    int64_t rest = k0 + at, offset = 0, n = std::min(kn - at, inner - rest % inner);
    for (size_t d = digits_.size(); d-- > 0; rest /= digits_[d].size) {
      offset += rest % digits_[d].size * digits_[d].stride;
    }
    fn(offset, at, n);
    at += n;
  }
}

template <class T>
void FilterPanels<T>::Pack(int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t width,
                           T* out) const {
  ForRuns(k0, kn, [&](int64_t offset, int64_t at, int64_t n) {
    StridedPanels<T>(kTypeOf<T>, reinterpret_cast<const std::byte*>(kernel_ + offset),
                     vector_stride_, digits_.back().stride)
        .Pack(first, count, 0, n, width, out + at * width);
  });
}

template <class T>
void FilterPanels<T>::PackMany(int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t width,
                               int64_t panel, T* out) const {
  ForRuns(k0, kn, [&](int64_t offset, int64_t at, int64_t n) {
    StridedPanels<T>(kTypeOf<T>, reinterpret_cast<const std::byte*>(kernel_ + offset),
                     vector_stride_, digits_.back().stride)
        .PackMany(first, count, 0, n, width, panel, out + at * width);
  });
}

template class WindowPanels<float>;
template class WindowPanels<double>;
template class WindowPanels<uint32_t>;
template class WindowPanels<uint64_t>;
template class FilterPanels<float>;
template class FilterPanels<double>;
template class FilterPanels<uint32_t>;
template class FilterPanels<uint64_t>;

}  // namespace weft::cpu
