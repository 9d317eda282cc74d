#include "cpu/routines/convolution_channels.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/log.h"
#include "cpu/routines/blocking.h"
#include "cpu/routines/channel_kernels.h"
#include "cpu/routines/convolution_first.h"
#include "program/target_facts.h"

namespace weft::cpu {
namespace {

using program::ConvolutionForm;
using Axis = ConvolutionForm::Axis;

// Of the last axis, that one task sums.
constexpr int64_t kChannelPlaces = 8 * kMostPlaces;

// Channels that are so far apart become neighbours: strides within a matrix grow.
ChannelTurn Turned(int64_t stride, int64_t channels, int64_t elements,
                   std::initializer_list<int64_t*> strides) {
  if (stride > 1) {
    for (int64_t* s : strides) *s *= *s < stride ? channels : 1;
  }
  return {elements / (channels * stride), channels, stride};
}

struct TapRange {
  int64_t begin, end;
};
// Taps of a window at a place that meet the input.
TapRange TapsAt(const Axis& a, int64_t place) {
  int64_t first = place * a.stride - a.pad;  // under tap 0
  int64_t begin = first >= 0 ? 0 : CeilDiv(-first, a.window_dilation);
  int64_t end = first >= a.in ? 0 : (a.in - 1 - first) / a.window_dilation + 1;
  return {std::min(begin, a.window), std::clamp<int64_t>(end, 0, a.window)};
}

// Lines of one phase: a line is all places of the last axis, for one image and place of the others.
template <class T>
class ChannelLines {
 public:
  static constexpr bool kInDoubles = std::is_same_v<T, float>;

  ChannelLines(const ConvolutionPhase& phase, int64_t channels, const T* input, const T* kernel,
               T* output)
      : f_(phase.form),
        last_(f_.axes.back()),
        kernel_(FindChannelKernel<T>()),
        channels_(channels),
        input_(input),
        filters_(kernel + phase.kernel_offset),
        output_(output + phase.out_offset) {
    for (size_t d = 0; d + 1 < f_.axes.size(); ++d) outer_taps_ *= f_.axes[d].window;
    blocks_ = CeilDiv(channels, kernel_.lanes[0]);
    runs_ = CeilDiv(last_.out, kChannelPlaces);
    lines_ = f_.batch;
    for (size_t d = 0; d + 1 < f_.axes.size(); ++d) lines_ *= f_.axes[d].out;
  }

  int64_t Items() const { return lines_ * runs_ * blocks_; }
  double Cost() const {
    return static_cast<double>(outer_taps_ * f_.kernel_in * last_.window) *
           static_cast<double>(std::min(last_.out, kChannelPlaces)) / 2;
  }

  void Run(int64_t begin, int64_t end) const {
    std::vector<ChannelRow<T>> rows;
    int64_t line = -1;
    T* to = nullptr;
    for (int64_t item = begin; item < end; ++item) {
      int64_t block = item % blocks_, run = item / blocks_ % runs_;
      if (item / blocks_ / runs_ != line) {
        line = item / blocks_ / runs_;
        to = output_ + RowsOf(line, rows);
      }
      int64_t first = run * kChannelPlaces, last = std::min(first + kChannelPlaces, last_.out);
      int64_t channel = block * kernel_.lanes[0];
      int64_t stop = std::min(channel + kernel_.lanes[0], channels_);
      for (int64_t width = 0; channel < stop; ++width) {
        for (int64_t lanes = kernel_.lanes[width]; channel + lanes <= stop; channel += lanes) {
          for (int64_t p = first; p < last; p += kMostPlaces) {
            Places(rows, width, channel, p, std::min(kMostPlaces, last - p), to);
          }
        }
      }
    }
  }

 private:
  // The rows of a line: features that are summed and taps of the outer axes. Where the line begins.
  int64_t RowsOf(int64_t line, std::vector<ChannelRow<T>>& rows) const {
    rows.clear();
    for (int64_t tap = 0; tap < outer_taps_; ++tap) {
      int64_t rest = line, u = tap, in = 0, kernel = 0;
      bool inside = true;
      for (size_t d = f_.axes.size() - 1; d-- > 0;) {
        const Axis& a = f_.axes[d];
        int64_t index = ConvolutionForm::InputIndex(a, rest % a.out, u % a.window);
        inside &= index >= 0;
        in += index * a.in_stride;
        kernel += u % a.window * a.window_stride;
        rest /= a.out;
        u /= a.window;
      }
      in += rest * f_.in_batch_stride;
      for (int64_t i = 0; inside && i < f_.kernel_in; ++i) {
        rows.push_back(
            {input_ + in + i * f_.in_feature_stride, filters_ + kernel + i * f_.kernel_in_stride});
      }
    }
    int64_t out = 0;
    for (size_t d = f_.axes.size() - 1; d-- > 0; line /= f_.axes[d].out) {
      out += line % f_.axes[d].out * f_.axes[d].out_stride;
    }
    return out + line * f_.out_batch_stride;
  }

  struct PlaceSums {
    alignas(64) T sums[kMostPlaces * kMostChannelLanes] = {};
    alignas(64) double totals[kInDoubles ? kMostPlaces * kMostChannelLanes : 1] = {};
  };

  // Places from `place` on: taps that all of them have together, the others place by place.
  void Places(const std::vector<ChannelRow<T>>& rows, int64_t width, int64_t channel, int64_t place,
              int64_t count, T* to) const {
    PlaceSums s;
    const int64_t lanes = kernel_.lanes[width];
    const bool is_long =
        kInDoubles && static_cast<int64_t>(rows.size()) * last_.window > kChannelRun;
    TapRange all = {0, last_.window};
    for (int64_t p = 0; p < count; ++p) {
      TapRange taps = TapsAt(last_, place + p);
      all = {std::max(all.begin, taps.begin), std::min(all.end, taps.end)};
    }
    if (all.begin < all.end) Add(rows, width, channel, place, count, all, is_long, 0, s);
    for (int64_t p = 0; p < count; ++p) {
      TapRange taps = TapsAt(last_, place + p), before = taps, after = {taps.end, taps.end};
      if (all.begin < all.end) before.end = all.begin, after.begin = all.end;
      Add(rows, width, channel, place + p, 1, before, is_long, p * lanes, s);
      Add(rows, width, channel, place + p, 1, after, is_long, p * lanes, s);
    }
    for (int64_t p = 0; p < count; ++p) {
      T* out = to + (place + p) * last_.out_stride + channel;
      if (is_long) {
        for (int64_t i = 0; i < lanes; ++i) out[i] = static_cast<T>(s.totals[p * lanes + i]);
      } else {
        std::memcpy(out, s.sums + p * lanes, static_cast<size_t>(lanes) * sizeof(T));
      }
    }
  }

  // Long sums of f32 in runs.
  void Add(const std::vector<ChannelRow<T>>& rows, int64_t width, int64_t channel, int64_t place,
           int64_t count, const TapRange& taps, bool is_long, int64_t at, PlaceSums& s) const {
    auto most_rows = static_cast<int64_t>(rows.size());
    int64_t most_taps = std::max<int64_t>(0, taps.end - taps.begin);
    if (most_rows == 0 || most_taps == 0) return;
    int64_t step = is_long ? std::min(most_taps, kChannelRun) : most_taps;
    int64_t rows_step = is_long ? std::max<int64_t>(1, kChannelRun / step) : most_rows;
    auto add = kernel_.add[width][count - 1];
    for (int64_t tap = taps.begin; tap < taps.end; tap += step) {
      for (int64_t row = 0; row < most_rows; row += rows_step) {
        int64_t first = place * last_.stride - last_.pad + tap * last_.window_dilation;
        add({rows.data() + row, std::min(rows_step, most_rows - row),
             std::min(step, taps.end - tap), first * last_.in_stride + channel,
             tap * last_.window_stride + channel, last_.window_dilation * last_.in_stride,
             last_.window_stride, last_.stride * last_.in_stride},
            s.sums + at);
        if (is_long) kernel_.drain(count * kernel_.lanes[width], s.sums + at, s.totals + at);
      }
    }
  }

  const ConvolutionForm& f_;
  const Axis& last_;
  const ChannelKernel<T>& kernel_;
  int64_t channels_, outer_taps_ = 1, blocks_, runs_, lines_;
  const T *input_, *filters_;
  T* output_;
};

// [within][channels] of [channels][within], or back.
template <class T>
void Turn(ThreadPool* pool, const T* from, int64_t matrices, int64_t rows, int64_t columns, T* to) {
  if constexpr (std::is_same_v<T, float>) {
    TransposeMatrices(pool, from, matrices, rows, columns, to);
  } else {
    ForPieces(pool, matrices * rows, static_cast<double>(columns), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        T* out = to + row / rows * rows * columns + row % rows;
        for (int64_t j = 0; j < columns; ++j) out[j * rows] = from[row * columns + j];
      }
    });
  }
}

}  // namespace

bool KeepsChannelsApart(const ConvolutionForm& f) {
  int64_t groups = f.feature_groups * f.batch_groups;
  return groups == f.out_features && groups >= program::TargetFacts::kNarrowLanes &&
         !f.axes.empty();
}

ChannelConvolution::ChannelConvolution(ConvolutionForm form) {
  ConvolutionForm& f = form;
  int64_t in = f.batch_in * f.in_features, kernel = f.kernel_in * f.kernel_out,
          out = f.batch * f.out_features, channels = f.out_features;
  int64_t in_channel =
      f.batch_groups > 1 ? f.batch * f.in_batch_stride : f.kernel_in * f.in_feature_stride;
  int64_t kernel_channel = f.kernel_out_stride, out_channel = f.out_feature_stride;
  for (const Axis& a : f.axes) in *= a.in, kernel *= a.window, out *= a.out;
  for (Axis& a : f.axes) {
    Turned(in_channel, channels, in, {&a.in_stride});
    Turned(kernel_channel, channels, kernel, {&a.window_stride});
    Turned(out_channel, channels, out, {&a.out_stride});
  }
  input_ = Turned(in_channel, channels, in, {&f.in_batch_stride, &f.in_feature_stride});
  kernel_ = Turned(kernel_channel, channels, kernel, {&f.kernel_in_stride});
  output_ = Turned(out_channel, channels, out, {&f.out_batch_stride});
  for (ConvolutionPhase& phase : PhasesOf(f)) {
    if (phase.positions > 0) phases_.push_back(std::move(phase));
  }
  VLOG("cpu", 3) << "convolution of " << channels << " channels apart, " << phases_.size()
                 << " phases" << (input_.Turns() ? ", input transposed" : "")
                 << (output_.Turns() ? ", result transposed" : "");
}

int64_t ChannelConvolution::ScratchElements() const {
  return input_.Elements() + kernel_.Elements() + output_.Elements();
}

template <class T>
Status ChannelConvolution::Run(const Means& means, const T* input, const T* kernel,
                               T* output) const {
  auto turned_input = TRY(Scratch<T>::New(means, input_.Elements()));
  auto turned_kernel = TRY(Scratch<T>::New(means, kernel_.Elements()));
  auto turned_output = TRY(Scratch<T>::New(means, output_.Elements()));
  auto last = [&](const ChannelTurn& t, const T* from, T* room) {
    if (!t.Turns()) return from;
    Turn(means.pool, from, t.matrices, t.channels, t.within, room);
    return static_cast<const T*>(room);
  };
  const T* x = last(input_, input, turned_input.data());
  const T* k = last(kernel_, kernel, turned_kernel.data());
  T* out = output_.Turns() ? turned_output.data() : output;
  for (const ConvolutionPhase& phase : phases_) {
    ChannelLines<T> lines(phase, output_.channels, x, k, out);
    ForPieces(means.pool, lines.Items(), lines.Cost(),
              [&](int64_t begin, int64_t end) { lines.Run(begin, end); });
  }
  if (output_.Turns()) {
    Turn<T>(means.pool, out, output_.matrices, output_.within, output_.channels, output);
  }
  return {};
}
#define WEFT_INSTANTIATE(T) \
  template Status ChannelConvolution::Run<T>(const Means&, const T*, const T*, T*) const;
WEFT_INSTANTIATE(float)
WEFT_INSTANTIATE(double)
WEFT_INSTANTIATE(uint32_t)
WEFT_INSTANTIATE(uint64_t)
#undef WEFT_INSTANTIATE

}  // namespace weft::cpu
