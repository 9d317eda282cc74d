#include "cpu/routines/convolution_panels.h"

#include <algorithm>
#include <cstring>

#include "cpu/routines/convolution_narrow.h"
#include "cpu/routines/tiles.h"
#include "program/sum_order.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::cpu {
namespace {

using program::ConvolutionForm;

// Vectors in a packed panel.
constexpr int64_t kMostPanel =
    program::CodeBounds::kCopies * program::TargetFacts::kLineBytes / sizeof(float);
// Elements of taps side by side that are taken as one run.
constexpr int64_t kMergedRun = kMostInRun;

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

// Where a window begins, padding and all: by axis, and in memory. Inside: no tap is in padding.
template <class T>
struct WindowPanels<T>::Place {
  int64_t offset;
  int64_t start[kMostAxes];
  bool inside;
};

// Of one tap: how far it is from the first, by axis, and in memory.
template <class T>
struct WindowPanels<T>::Taps {
  int64_t offset = 0;
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

// Neighbours differ in the last digit of their numbers, most of the time.
template <class T>
void WindowPanels<T>::PlacesOf(int64_t first, int64_t count, Place* places) const {
  size_t rank = f_.axes.size();
  int64_t digits[kMostAxes];
  int64_t position = order_.images_inner ? first / f_.batch : first % phase_.positions;
  int64_t image = order_.images_inner ? first % f_.batch : first / phase_.positions;
  for (size_t d = rank; d-- > 0; position /= f_.axes[d].out) {
    digits[d] = position % f_.axes[d].out;
  }
  auto next_position = [&] {
    for (size_t d = rank; d-- > 0; digits[d] = 0) {
      if (++digits[d] < f_.axes[d].out) return true;
    }
    return false;
  };
  for (int64_t i = 0; i < count; ++i) {
    Place& place = places[i];
    place.offset = image * f_.in_batch_stride;
    place.inside = true;
    for (size_t d = 0; d < rank; ++d) {
      const auto& a = f_.axes[d];
      int64_t start = digits[d] * a.stride - a.pad;
      place.start[d] = start;
      place.offset += start * a.in_stride;
      place.inside =
          place.inside && start >= 0 && start + (a.window - 1) * a.window_dilation < a.in;
    }
    if (!order_.images_inner) {
      image += next_position() ? 0 : 1;
    } else if (++image == f_.batch) {
      image = 0;
      next_position();
    }
  }
}

template <class T>
auto WindowPanels<T>::TapsAt(int64_t tap) const -> Taps {
  Taps taps;
  for (size_t d = f_.axes.size(); d-- > 0; tap /= f_.axes[d].window) {
    taps.ahead[d] = tap % f_.axes[d].window * f_.axes[d].window_dilation;
    taps.offset += taps.ahead[d] * f_.axes[d].in_stride;
  }
  return taps;
}

template <class T>
void WindowPanels<T>::Pack(int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t width,
                           T* out) const {
  // Elements that are worth turning.
  constexpr int64_t kLeastRun = program::TargetFacts::kNarrowLanes;
  bool across = f_.in_feature_stride == 1 && !order_.features_outer &&
                (f_.kernel_in * merged_ >= kLeastRun || f_.axes.empty());
  if (!across) return PackSegments(first, count, k0, kn, width, out);
  ForRuns(first, count, k0, kn, width, [=](const T* const* rows, int64_t n, int64_t done) {
    PackAcross<T>(rows, n, width, out + done * width);
  });
}

template <class T>
void WindowPanels<T>::PackLines(int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t width,
                                T* out) const {
  ForRuns(first, count, k0, kn, width, [=](const T* const* rows, int64_t n, int64_t done) {
    T* to = out + done * width;
    for (int64_t p = 0; p < n; p += kLine) {
      for (int64_t i = 0; i < width; ++i, to += kLine) std::memcpy(to, rows[i] + p, 64);
    }
  });
}

template <class T>
bool WindowPanels<T>::HasRuns() const {
  // Elements: a table of runs is no larger than a panel then.
  constexpr int64_t kLeastRun = program::TargetFacts::kLineBytes / sizeof(float);
  return f_.in_feature_stride == 1 && !order_.features_outer && merged_ == 1 &&
         f_.kernel_in >= kLeastRun;
}

template <class T>
void WindowPanels<T>::PackTable(int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t width,
                                const void** out) const {
  auto as_pointer = [](int64_t n) {
    return reinterpret_cast<const void*>(static_cast<intptr_t>(n));
  };
  int64_t runs = 0;
  const void** next = out + 1;
  ForRuns(first, count, k0, kn, width, [&](const T* const* rows, int64_t n, int64_t) {
    for (int64_t p = 0; p < n; p += kMostInRun, ++runs) {
      *next++ = as_pointer(std::min(kMostInRun, n - p));
      for (int64_t i = 0; i < width; ++i) *next++ = rows[i] + p;
    }
  });
  out[0] = as_pointer(runs);
}

// Runs of elements that lie together in each window.
template <class T>
template <class Emit>
void WindowPanels<T>::ForRuns(int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t width,
                              const Emit& emit) const {
  // Elements at once: as many zeroes stand for padding.
  constexpr int64_t kMostRun = program::SumOrder::kBlock;
  alignas(64) static constexpr T kNothing[kMostRun] = {};
  Place places[kMostPanel];
  PlacesOf(first, count, places);
  T edge[kMostPanel][kMergedRun];  // runs that are partly in padding
  int64_t run = f_.kernel_in * merged_, at = k0 % run, done = 0;
  size_t whole_axes = f_.axes.size() - (merged_ > 1 ? 1 : 0);
  for (int64_t number = k0 / run; kn > 0; ++number, at = 0) {
    Taps taps = TapsAt(number * merged_);
    while (at < run && kn > 0) {
      int64_t n = std::min({kn, run - at, kMostRun});
      const T* rows[kMostPanel];
      for (int64_t i = count; i < width; ++i) rows[i] = kNothing;
      for (int64_t i = 0; i < count; ++i) {
        const Place& place = places[i];
        const T* row = input_ + place.offset + taps.offset + at;
        rows[i] = row;
        if (place.inside) continue;
        for (size_t d = 0; d < whole_axes; ++d) {
          if (!IsWithin(place.start[d] + taps.ahead[d], f_.axes[d].in)) rows[i] = kNothing;
        }
        if (merged_ == 1 || rows[i] == kNothing) continue;
        int64_t x = place.start[whole_axes], in = f_.axes.back().in;
        int64_t low = std::clamp(-x * f_.kernel_in - at, int64_t{0}, n);
        int64_t high = std::clamp((in - x) * f_.kernel_in - at, low, n);
        std::fill_n(edge[i], n, T(0));
        for (int64_t p = low; p < high; ++p) edge[i][p] = row[p];
        rows[i] = edge[i];
      }
      emit(rows, n, done);
      done += n;
      at += n;
      kn -= n;
    }
  }
}

// Windows that are side by side along the last axis, or the same in neighbouring images: from which
// vector of a panel on, and how many.
template <class T>
struct WindowPanels<T>::Segment {
  Place place;
  int64_t at, count;
};

// Elements of a run, of one segment: they differ in the last tap, or in the feature.
template <class T>
void WindowPanels<T>::PackRun(const Segment& segment, const Taps& taps, int64_t feature, int64_t n,
                              int64_t width, T* out) const {
  bool images = order_.images_inner || f_.axes.empty();
  size_t last = f_.axes.size() - 1;
  bool there = true;
  for (size_t d = 0; d + 1 < f_.axes.size(); ++d) {
    there = there && IsWithin(segment.place.start[d] + taps.ahead[d], f_.axes[d].in);
  }
  const T* from = input_ + segment.place.offset + taps.offset + feature * f_.in_feature_stride;
  int64_t step = f_.in_batch_stride, x = 0, x_step = 0, next = f_.in_feature_stride;
  ConvolutionForm::Axis axis = {};
  if (!f_.axes.empty()) {
    axis = f_.axes[last];
    x = segment.place.start[last] + taps.ahead[last];
    if (order_.features_outer) {
      x_step = axis.window_dilation;
      next = axis.window_dilation * axis.in_stride;
    }
    if (!images) step = axis.in_stride * axis.stride;
  }
  for (int64_t p = 0; p < n; ++p, x += x_step, from += next, out += width) {
    int64_t low = 0, high = there ? segment.count : 0;
    if (images) {
      if (!f_.axes.empty() && !IsWithin(x, axis.in)) high = 0;
    } else if (there) {
      if (x < 0) low = std::min(high, axis.stride == 1 ? -x : (-x + axis.stride - 1) / axis.stride);
      int64_t left = axis.in - x;  // elements from the first on
      if (left < (high - 1) * axis.stride + 1) {
        high = left <= 0 ? 0 : axis.stride == 1 ? left : (left - 1) / axis.stride + 1;
      }
      high = std::max(low, high);
    }
    T* to = out + segment.at;
    for (int64_t i = 0; i < low; ++i) to[i] = T(0);
    CopyStrided(from + low * step, step, high - low, to + low);
    for (int64_t i = high; i < segment.count; ++i) to[i] = T(0);
  }
}

template <class T>
void WindowPanels<T>::PackSegments(int64_t first, int64_t count, int64_t k0, int64_t kn,
                                   int64_t width, T* out) const {
  Segment segments[kMostPanel];
  Place places[kMostPanel];
  PlacesOf(first, count, places);
  int64_t used = 0;
  bool images = order_.images_inner || f_.axes.empty(), by_taps = order_.features_outer;
  int64_t inner = images ? f_.batch : f_.axes.back().out;
  for (int64_t i = 0; i < count; i += segments[used++].count) {
    segments[used] = {places[i], i, std::min(count - i, inner - (first + i) % inner)};
  }
  int64_t tap = by_taps ? k0 % phase_.taps : k0 / f_.kernel_in;
  int64_t feature = by_taps ? k0 / phase_.taps : k0 % f_.kernel_in;
  int64_t all = by_taps ? f_.axes.back().window : f_.kernel_in;
  int64_t digit = by_taps ? tap % all : feature;
  Taps taps = TapsAt(tap);
  // Of the axes but the last, or of all of them; false: that was the last one.
  auto next_tap = [&](size_t axes) {
    for (size_t d = axes; d-- > 0; taps.ahead[d] = 0) {
      const auto& a = f_.axes[d];
      taps.ahead[d] += a.window_dilation;
      taps.offset += a.window_dilation * a.in_stride;
      if (taps.ahead[d] < a.window * a.window_dilation) return true;
      taps.offset -= taps.ahead[d] * a.in_stride;
    }
    return false;
  };
  while (kn > 0) {
    int64_t n = std::min(kn, all - digit);
    for (int64_t s = 0; s < used; ++s) PackRun(segments[s], taps, feature, n, width, out);
    for (int64_t p = 0; count < width && p < n; ++p) {
      std::fill(out + p * width + count, out + (p + 1) * width, T(0));
    }
    kn -= n;
    out += n * width;
    digit = 0;
    if (!by_taps) {
      feature = 0;
      next_tap(f_.axes.size());
      continue;
    }
    size_t last = f_.axes.size() - 1;
    taps.offset -= taps.ahead[last] * f_.axes[last].in_stride;
    taps.ahead[last] = 0;
    if (!next_tap(last)) ++feature;
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
    StridedPanels<T>(kStoredType<T>, reinterpret_cast<const std::byte*>(kernel_ + offset),
                     vector_stride_, digits_.back().stride)
        .Pack(first, count, 0, n, width, out + at * width);
  });
}

template <class T>
void FilterPanels<T>::PackMany(int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t width,
                               int64_t panel, T* out) const {
  ForRuns(k0, kn, [&](int64_t offset, int64_t at, int64_t n) {
    StridedPanels<T>(kStoredType<T>, reinterpret_cast<const std::byte*>(kernel_ + offset),
                     vector_stride_, digits_.back().stride)
        .PackMany(first, count, 0, n, width, panel, out + at * width);
  });
}

void GatherFilters(const Means& means, const PhasePlan& plan, int64_t n, const std::byte* kernel,
                   int64_t bytes, std::byte* to) {
  const ConvolutionForm& f = plan.phase.form;
  auto gather = [&]<class E>(int64_t k) {
    int64_t offset = plan.phase.kernel_offset + k % f.kernel_in * f.kernel_in_stride;
    int64_t tap = k / f.kernel_in;
    for (size_t d = f.axes.size(); d-- > 0; tap /= f.axes[d].window) {
      offset += tap % f.axes[d].window * f.axes[d].window_stride;
    }
    CopyStrided(reinterpret_cast<const E*>(kernel) + offset, f.kernel_out_stride, n,
                reinterpret_cast<E*>(to) + k * n);
  };
  ForPieces(means.pool, plan.phase.taps * f.kernel_in, static_cast<double>(n),
            [&](int64_t begin, int64_t end) {
              for (int64_t k = begin; k < end; ++k) {
                if (bytes == 1) gather.template operator()<uint8_t>(k);
                if (bytes == 2) gather.template operator()<uint16_t>(k);
              }
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
