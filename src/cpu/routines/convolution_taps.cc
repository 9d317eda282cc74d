#include "cpu/routines/convolution_taps.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "cpu/routines/blocking.h"
#include "cpu/routines/machine.h"
#include "cpu/routines/multiply.h"
#include "program/sum_order.h"
#include "program/target_facts.h"

namespace weft::cpu {
namespace {

using program::ConvolutionForm;
using Axis = ConvolutionForm::Axis;

// Features of the result, at most, and of the input, at least.
constexpr int64_t kFewTapFeatures = program::TargetFacts::kNarrowLanes,
                  kManyTapFeatures = program::TargetFacts::kUsualLanes;

// The place of input element i under the tap u, counted in the order of places: i * base_dilation +
// FirstPlace + u * window_dilation.
int64_t FirstPlace(const Axis& a) {
  return a.pad - (a.window - 1) * a.window_dilation;
}
int64_t FloorDivide(int64_t a, int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

struct IndexRange {
  int64_t begin, end;
};
// Inputs that meet one of these places.
IndexRange InputsOf(const Axis& a, const IndexRange& places) {
  int64_t first = FirstPlace(a), last = a.pad;  // of input 0
  int64_t begin = -FloorDivide(last - places.begin, a.base_dilation);
  int64_t end = FloorDivide(places.end - 1 - first, a.base_dilation) + 1;
  return {std::clamp<int64_t>(begin, 0, a.in), std::clamp<int64_t>(end, 0, a.in)};
}

template <class T>
void AddRun(const T* from, int64_t n, T* to) {
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

template <class T>
class ByTaps : public PreparedRoutine {
 public:
  ByTaps(ConvolutionForm form, const Epilogue& epilogue)
      : f_(std::move(form)), epilogue_(epilogue) {
    for (const Axis& a : f_.axes) taps_ *= a.window;
    columns_ = taps_ * f_.out_features;
    for (size_t d = 1; d < f_.axes.size(); ++d) {
      inputs_inside_ *= f_.axes[d].in;
      places_inside_ *= f_.axes[d].out;
    }
    run_ = f_.axes.back().window * f_.out_features;
    places_ = PlacesOfTask();
  }

  Status Run(const RoutineContext& context) const override {
    Means means = context.means();
    auto filters = TRY(Scratch<T>::New(means, f_.in_features * columns_));
    FillFilters(reinterpret_cast<const T*>(context.memory[1]), filters.data());
    int64_t parts = CeilDiv(f_.axes[0].out, places_);
    double cost = static_cast<double>(places_ * inputs_inside_ * f_.in_features) *
                  static_cast<double>(columns_) / 20;
    TRY(TryPieces(&context.pool, f_.batch * parts, cost, [&](int64_t begin, int64_t end) -> Status {
      for (int64_t task = begin; task < end; ++task) {
        int64_t first = task % parts * places_;
        IndexRange places = {first, std::min(first + places_, f_.axes[0].out)};
        TRY(RunTask(context, filters.data(), task / parts, places));
      }
      return {};
    }));
    EpilogueRun(epilogue_, context).OnAll(&context.pool);
    return {};
  }

  int64_t ScratchBytes(int64_t threads) const override {
    int64_t tasks = std::min(threads, f_.batch * CeilDiv(f_.axes[0].out, places_));
    return f_.in_features * columns_ * int64_t{sizeof(T)} +
           tasks * (MostRows() * columns_ * int64_t{sizeof(T)} +
                    MultiplyScratch<T>(MostRows(), columns_, f_.in_features, 1));
  }

 private:
  // Along the first axis: products of a task are twice what L2 holds, so that inputs which meet
  // places of two tasks are few.
  int64_t PlacesOfTask() const {
    const Axis& a = f_.axes[0];
    int64_t of_input = inputs_inside_ * columns_ * int64_t{sizeof(T)};
    int64_t inputs = 2 * program::TargetFacts::kSecondLevelBytes / of_input;
    int64_t least = CeilDiv((a.window - 1) * a.window_dilation, a.base_dilation) + 1;
    return std::min(std::max(inputs, least) * a.base_dilation, a.out);
  }
  // Inputs that a task multiplies, at most.
  int64_t MostRows() const {
    const Axis& a = f_.axes[0];
    int64_t reach = places_ + (a.window - 1) * a.window_dilation;
    return std::min(a.in, reach / a.base_dilation + 1) * inputs_inside_;
  }

  // [in features][taps of the outer axes][taps of the last one, out features], taps in the order
  // of places.
  void FillFilters(const T* kernel, T* out) const {
    for (int64_t tap = 0; tap < taps_; ++tap) {
      int64_t from = 0, rest = tap;
      for (size_t d = f_.axes.size(); d-- > 0; rest /= f_.axes[d].window) {
        const Axis& a = f_.axes[d];
        int64_t u = rest % a.window;
        from += (a.reversal ? u : a.window - 1 - u) * a.window_stride;
      }
      for (int64_t i = 0; i < f_.in_features; ++i) {
        for (int64_t o = 0; o < f_.out_features; ++o) {
          out[i * columns_ + tap * f_.out_features + o] =
              kernel[from + i * f_.kernel_in_stride + o * f_.kernel_out_stride];
        }
      }
    }
  }

  Status RunTask(const RoutineContext& context, const T* filters, int64_t image,
                 const IndexRange& places) const {
    Means means = context.means().Alone();
    T* out = reinterpret_cast<T*>(context.memory[2]) + image * f_.out_batch_stride;
    int64_t row = places_inside_ * f_.out_features;
    std::fill_n(out + places.begin * row, (places.end - places.begin) * row, T(0));
    IndexRange inputs = InputsOf(f_.axes[0], places);
    int64_t rows = (inputs.end - inputs.begin) * inputs_inside_;
    if (rows <= 0) return {};
    auto products = TRY(Scratch<T>::New(means, rows * columns_));
    const T* from = reinterpret_cast<const T*>(context.memory[0]) + image * f_.in_batch_stride +
                    inputs.begin * inputs_inside_ * f_.in_features;
    DType type = std::is_same_v<T, float> ? DType::kF32 : DType::kF64;
    StridedPanels<T> left(type, reinterpret_cast<const std::byte*>(from), f_.in_features, 1);
    StridedPanels<T> right(type, reinterpret_cast<const std::byte*>(filters), 1, columns_);
    TRY(Multiply<T>(means, rows, columns_, f_.in_features, left, right, products.data(), columns_,
                    T(1), T(0)));
    // Rows along the last axis, by their number and by taps of the others.
    int64_t length = f_.axes.size() == 1 ? rows : f_.axes.back().in;
    int64_t outer_taps = taps_ / f_.axes.back().window;
    for (int64_t line = 0; line * length < rows; ++line) {
      for (int64_t tap = 0; tap < outer_taps; ++tap) {
        int64_t at = LineOffset(inputs.begin, line, tap, places);
        if (at < 0) continue;
        AddLine(products.data() + line * length * columns_ + tap * run_, length,
                f_.axes.size() == 1 ? inputs.begin : 0,
                f_.axes.size() == 1 ? places : IndexRange{0, f_.axes.back().out}, out + at);
      }
    }
    return {};
  }

  // Where the line of places begins that line `line` of the inputs, from `first` along the first
  // axis, meets with taps of the outer axes; -1: none.
  int64_t LineOffset(int64_t first, int64_t line, int64_t tap, const IndexRange& places) const {
    int64_t offset = 0;
    for (size_t d = f_.axes.size() - 1; d-- > 0;) {
      const Axis& a = f_.axes[d];
      int64_t i = d == 0 ? first + line : line % a.in, u = tap % a.window;
      if (d > 0) line /= a.in;
      tap /= a.window;
      int64_t place = i * a.base_dilation + FirstPlace(a) + u * a.window_dilation;
      IndexRange fits = d == 0 ? places : IndexRange{0, a.out};
      if (place < fits.begin || place >= fits.end) return -1;
      offset += place * a.out_stride;
    }
    return offset;
  }

  // Runs of neighbours overlap, and what was stored just before is read late: every few of them are
  // added in turn.
  void AddLine(const T* products, int64_t length, int64_t first, const IndexRange& places,
               T* out) const {
    const Axis& a = f_.axes.back();
    int64_t turns = CeilDiv(a.window, a.base_dilation), features = f_.out_features;
    for (int64_t turn = 0; turn < turns; ++turn) {
      for (int64_t i = turn; i < length; i += turns) {
        int64_t place = (first + i) * a.base_dilation + FirstPlace(a);
        int64_t begin = std::max<int64_t>(0, places.begin - place);
        int64_t end = std::min(a.window, places.end - place);
        if (begin >= end) continue;
        AddRun(products + i * columns_ + begin * features, (end - begin) * features,
               out + (place + begin) * features);
      }
    }
  }

  ConvolutionForm f_;
  Epilogue epilogue_;
  int64_t taps_ = 1, columns_ = 0, run_ = 0;
  int64_t inputs_inside_ = 1, places_inside_ = 1;  // of an index of the first axis
  int64_t places_ = 0;                             // of a task, along the first axis
};

// Elements follow each other in the order of their indices, features innermost.
bool IsDense(const ConvolutionForm& f) {
  int64_t in = f.in_features, out = f.out_features;
  for (size_t d = f.axes.size(); d-- > 0;) {
    const Axis& a = f.axes[d];
    if (a.in_stride != in || a.out_stride != out) return false;
    in *= a.in;
    out *= a.out;
  }
  return f.in_feature_stride == 1 && (f.out_feature_stride == 1 || f.out_features == 1);
}

}  // namespace

bool IsByTaps(const ConvolutionForm& f, DType dtype) {
  bool plain = (dtype == DType::kF32 || dtype == DType::kF64) && f.feature_groups == 1 &&
               f.batch_groups == 1 && !f.axes.empty();
  if (!plain || f.out_features > kFewTapFeatures || f.in_features < kManyTapFeatures ||
      !IsDense(f) || f.axes.back().window_dilation != 1) {
    return false;
  }
  int64_t taps = 1;
  for (const Axis& a : f.axes) {
    if (a.stride != 1) return false;
    taps *= a.window;
  }
  // A sum of f32 takes so many terms; fewer columns than a vector has are no better than windows.
  return taps > 1 && taps <= 2 * program::SumOrder::kRun &&
         taps * f.out_features >= program::TargetFacts::kUsualLanes;
}

std::unique_ptr<PreparedRoutine> PrepareByTaps(ConvolutionForm form, DType dtype,
                                               const Epilogue& epilogue) {
  VLOG("cpu", 3) << "convolution to " << form.out_features
                 << " features: one product of all taps, then col2im";
  if (dtype == DType::kF64) return std::make_unique<ByTaps<double>>(std::move(form), epilogue);
  return std::make_unique<ByTaps<float>>(std::move(form), epilogue);
}

}  // namespace weft::cpu
