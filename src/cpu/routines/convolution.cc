// convolution: implicit im2col, a product of the matrix of windows, packed a tile at a time, and
// that of filters; one product for each phase of a transposed convolution.
#include <algorithm>
#include <complex>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "base/elements.h"
#include "base/log.h"
#include "cpu/routines/convolution_channels.h"
#include "cpu/routines/convolution_first.h"
#include "cpu/routines/convolution_narrow.h"
#include "cpu/routines/convolution_taps.h"
#include "cpu/routines/convolution_zeroes.h"
#include "cpu/routines/epilogue.h"
#include "cpu/routines/multiply.h"
#include "cpu/routines/prepare.h"
#include "cpu/routines/tiles.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::cpu {
namespace {

using program::ConvolutionForm;

// Columns of a product for which packing windows takes longer than it gains.
constexpr int64_t kFewFilters = 256;

// Of those that read windows where they lie. Null: there is none.
template <class T>
const TileKernel<T>* TileOfRuns(int64_t n) {
  const TileKernel<T>& tile = TileKernelFor<T>(n);
  return tile.from_rows != nullptr ? &tile : RowTileFor<T>(n);
}

class Convolution : public PreparedRoutine {
 public:
  Convolution(ConvolutionForm form, DType in, DType kernel, DType out, const Epilogue& epilogue)
      : f_(std::move(form)), types_{in, kernel, out}, epilogue_(epilogue) {
    for (const auto& a : f_.axes) {
      positions_ *= a.out;
      taps_ *= a.window;
    }
    groups_ = f_.feature_groups * f_.batch_groups;
    per_group_ = f_.out_features / groups_;
    input_size_ = f_.batch_in * f_.in_features;
    for (const auto& a : f_.axes) input_size_ *= a.in;
    output_size_ = f_.batch * f_.out_features * positions_;
    if (IsComplex(types_[2])) return;
    if (KeepsChannelsApart(f_)) {
      channels_.emplace(f_);
      return;
    }
    for (ConvolutionPhase& phase : PhasesOf(f_)) {
      if (phase.positions > 0) plans_.push_back(PlanOf(std::move(phase), per_group_));
    }
    for (const PhasePlan& plan : plans_) {
      VLOG("cpu", 3) << "convolution of " << plan.phase.positions << " positions by "
                     << plan.phase.taps << " taps, " << plans_.size()
                     << " phases: " << plan.Describe();
    }
    if (types_[0] == types_[1]) narrow_ = FindNarrowKernel(types_[0], types_[1]);
    for (const PhasePlan& plan : plans_) {
      if (narrow_ != nullptr && !TakesWindows(*narrow_, plan)) narrow_ = nullptr;
    }
  }

  Status Run(const RoutineContext& context) const override {
    EpilogueRun epilogue(epilogue_, context);
    bool by_rows = MakesRows() && epilogue.TakesRows(plans_[0].Sizes(per_group_).n);
    if (types_[2] == DType::kC64) {
      TRY(RunComplex<float>(context));
    } else if (types_[2] == DType::kC128) {
      TRY(RunComplex<double>(context));
    } else {
      TRY(WithSumType(types_[2],
                      [&]<class T>() { return RunAs<T>(context, by_rows ? &epilogue : nullptr); }));
    }
    if (!by_rows) epilogue.OnAll(&context.pool);
    return {};
  }

  int64_t ScratchBytes(int64_t threads) const override {
    if (IsComplex(types_[2])) return 0;
    return WithSumType(types_[2], [&]<class T>() { return ScratchAs<T>(threads); });
  }

 private:
  // Whether rows of the result come out of products one after the other, as they lie in memory.
  bool MakesRows() const {
    bool as_is = WithSumType(types_[2], [&]<class T>() { return IsStoredAs<T>(types_[2]); });
    if (!as_is || groups_ != 1 || plans_.size() != 1) return false;
    const PhasePlan& plan = plans_[0];
    return plan.form != ProductForm::kScattered && plan.pitch == plan.Sizes(per_group_).n;
  }

  // Products of a phase, each of them whole on one thread where they are small or many.
  int64_t ProductsOf(const PhasePlan& plan) const {
    return groups_ * (plan.form == ProductForm::kColumnsOfImages ? f_.batch : 1);
  }
  double CostOfProduct(const PhasePlan& plan) const {
    ProductSizes s = plan.Sizes(per_group_);
    return static_cast<double>(s.m * s.n) * static_cast<double>(s.k) / 20;
  }
  bool IsWhole(const PhasePlan& plan) const {
    constexpr double kLong = 10 * program::TargetFacts::kPieceNanoseconds;
    constexpr int64_t kMany = program::TargetFacts::kJoinedPieces;
    int64_t products = ProductsOf(plan);
    return products > 1 && (CostOfProduct(plan) < kLong || products >= kMany);
  }

  template <class T>
  int64_t ScratchAs(int64_t threads) const {
    int64_t kernel_size = taps_ * f_.kernel_in * f_.out_features, elements = 0, most = 0;
    if (Widens<T>(0)) elements += input_size_;
    if (Widens<T>(1)) elements += kernel_size;
    if (!IsStoredAs<T>(types_[2])) elements += output_size_;
    if (channels_) elements += channels_->ScratchElements();
    for (const PhasePlan& plan : plans_) {
      auto [m, n, k, once, along] = plan.Sizes(per_group_);
      bool whole = IsWhole(plan), scattered = plan.form == ProductForm::kScattered;
      int64_t one = MultiplyScratch<T>(m, n, k, whole ? 1 : threads);
      if (const TileKernel<T>* tile = TileOfRuns<T>(n)) {
        one = std::max(one, PackedScratch<T>(TileForm(*tile), {m, n, k}, whole ? 1 : threads));
      }
      if (narrow_ != nullptr) {
        one = PackedScratch<T>(NarrowForm(*narrow_), {m, n, k}, whole ? 1 : threads) + k * n * 4;
      }
      if (scattered) one += m * n * int64_t{sizeof(T)};
      most = std::max(most, one * (whole ? std::min(threads, ProductsOf(plan)) : 1));
    }
    return elements * int64_t{sizeof(T)} + most;
  }

  template <class T>
  Status RunAs(const RoutineContext& context, const EpilogueRun* epilogue) const {
    int64_t kernel_size = taps_ * f_.kernel_in * f_.out_features;
    auto wide_input = TRY(Scratch<T>::New(context.means(), Widens<T>(0) ? input_size_ : 0));
    auto wide_kernel = TRY(Scratch<T>::New(context.means(), Widens<T>(1) ? kernel_size : 0));
    auto wide_output =
        TRY(Scratch<T>::New(context.means(), IsStoredAs<T>(types_[2]) ? 0 : output_size_));
    const std::byte* input = Widened<T>(context, 0, input_size_, wide_input.data());
    const std::byte* kernel = Widened<T>(context, 1, kernel_size, wide_kernel.data());
    bool as_is = IsStoredAs<T>(types_[2]);
    T* output = as_is ? reinterpret_cast<T*>(context.memory[2]) : wide_output.data();
    if (channels_) {
      TRY(channels_->Run<T>(context.means(), reinterpret_cast<const T*>(input),
                            reinterpret_cast<const T*>(kernel), output));
    }
    for (const PhasePlan& plan : plans_) {
      TRY(Products<T>(context, plan, input, kernel, output, epilogue));
    }
    if (as_is) return {};
    ForPieces(&context.pool, output_size_, 1.0, [&](int64_t begin, int64_t end) {
      StoreRun<T>(types_[2], output + begin, end - begin,
                  context.memory[2] + begin * ByteWidth(types_[2]));
    });
    return {};
  }

  template <class T>
  bool Widens(size_t use) const {
    return narrow_ == nullptr && !IsStoredAs<T>(types_[use]);
  }
  template <class T>
  const std::byte* Widened(const RoutineContext& context, size_t use, int64_t n, T* room) const {
    const std::byte* from = context.memory[use];
    if (!Widens<T>(use)) return from;
    ForPieces(&context.pool, n, 1.0, [&](int64_t begin, int64_t end) {
      LoadRun<T>(types_[use], from + begin * ByteWidth(types_[use]), end - begin, room + begin);
    });
    return reinterpret_cast<const std::byte*>(room);
  }

  // Of element k = tap * features + feature.
  int64_t KernelOffset(int64_t k) const {
    int64_t offset = k % f_.kernel_in * f_.kernel_in_stride, tap = k / f_.kernel_in;
    for (size_t d = f_.axes.size(); d-- > 0; tap /= f_.axes[d].window) {
      offset += tap % f_.axes[d].window * f_.axes[d].window_stride;
    }
    return offset;
  }

  // All products of a phase: one for each group, or for each group and image.
  template <class T>
  Status Products(const RoutineContext& context, const PhasePlan& plan, const std::byte* input,
                  const std::byte* kernel, T* output, const EpilogueRun* epilogue) const {
    Means means = context.means();
    const ConvolutionForm& f = plan.phase.form;
    bool whole = IsWhole(plan), of_images = plan.form == ProductForm::kColumnsOfImages;
    output += plan.phase.out_offset;
    auto piece = [&](int64_t begin, int64_t end) -> Status {
      for (int64_t item = begin; item < end; ++item) {
        int64_t group = of_images ? item / f.batch : item, image = of_images ? item % f.batch : 0;
        int64_t from = image * f.in_batch_stride;
        if (f.feature_groups > 1) from += group * f.kernel_in * f.in_feature_stride;
        if (f.batch_groups > 1) from += group * f.batch * f.in_batch_stride;
        int64_t to = image * f.out_batch_stride;
        ProductSizes sizes = plan.Sizes(per_group_);
        RowsDone done = epilogue ? epilogue->OnRows(to, sizes.n) : RowsDone();
        int64_t width = narrow_ != nullptr ? narrow_->element_bytes() : int64_t{sizeof(T)};
        TRY(RunProduct<T>(whole ? means.Alone() : means, plan, input + from * width,
                          kernel + group * per_group_ * f.kernel_out_stride * width,
                          output + to + group * per_group_ * f.out_feature_stride, done));
      }
      return {};
    };
    return TryPieces(whole ? &context.pool : nullptr, ProductsOf(plan), CostOfProduct(plan), piece);
  }

  // The product of windows and filters, as rows so far apart, or as columns.
  template <class T>
  Status Multiplied(const Means& means, const PhasePlan& plan, const std::byte* input,
                    const std::byte* kernel, T* to, int64_t pitch, const RowsDone& done) const {
    auto [m, n, k, once, along] = plan.Sizes(per_group_);
    if constexpr (sizeof(T) == 4) {
      if (narrow_ != nullptr) {
        ResultMatrix result = {kStoredType<T>, reinterpret_cast<std::byte*>(to), pitch};
        return MultiplyNarrow<T>(means, *narrow_, plan, {m, n, k}, types_[0], input, kernel, result,
                                 done);
      }
    }
    WindowPanels<T> windows(plan.phase, plan.order, reinterpret_cast<const T*>(input));
    FilterPanels<T> filters(plan.phase, plan.order, reinterpret_cast<const T*>(kernel));
    if (plan.form == ProductForm::kRows || plan.form == ProductForm::kScattered) {
      const TileKernel<T>* tile = TileOfRuns<T>(n);
      if (n > kFewFilters || tile == nullptr || !windows.HasRuns()) {
        return Multiply<T>(means, m, n, k, windows, filters, to, pitch, T(1), T(0), done);
      }
      WindowProduct<T> product(*tile, TileForm(*tile), windows, filters);
      ResultMatrix result = {kStoredType<T>, reinterpret_cast<std::byte*>(to), pitch};
      return MultiplyPacked<T>(means, {m, n, k}, product, result, T(1), T(0), done);
    }
    return Multiply<T>(means, m, n, k, filters, windows, to, pitch, T(1), T(0), done);
  }

  template <class T>
  Status RunProduct(const Means& means, const PhasePlan& plan, const std::byte* input,
                    const std::byte* kernel, T* output, const RowsDone& done) const {
    auto [m, n, k, once, along] = plan.Sizes(per_group_);
    bool scattered = plan.form == ProductForm::kScattered;
    if (k > 0 && !scattered) {
      return Multiplied<T>(means, plan, input, kernel, output, plan.pitch, done);
    }
    auto product = TRY(Scratch<T>::New(means, k > 0 ? m * n : 0));
    if (k > 0) TRY(Multiplied<T>(means, plan, input, kernel, product.data(), n, {}));
    int64_t rows =
        plan.phase.positions * (plan.form == ProductForm::kColumnsOfImages ? 1 : f_.batch);
    ForPieces(means.pool, rows, static_cast<double>(per_group_), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        T* to = output + OutputOffset(plan, row);
        for (int64_t j = 0; j < per_group_; ++j) {
          to[j * f_.out_feature_stride] = k > 0 ? product.data()[row * n + j] : T(0);
        }
      }
    });
    return {};
  }

  // Of a window, by its number.
  int64_t OutputOffset(const PhasePlan& plan, int64_t row) const {
    const ConvolutionForm& f = plan.phase.form;
    int64_t position = row % plan.phase.positions, image = row / plan.phase.positions;
    if (plan.order.images_inner) {
      position = row / f.batch;
      image = row % f.batch;
    }
    int64_t offset = image * f.out_batch_stride;
    for (size_t d = f.axes.size(); d-- > 0; position /= f.axes[d].out) {
      offset += position % f.axes[d].out * f.axes[d].out_stride;
    }
    return offset;
  }
  // Of row = image * positions + position.
  int64_t OutputOffset(int64_t row) const {
    int64_t offset = row / positions_ * f_.out_batch_stride, position = row % positions_;
    for (size_t d = f_.axes.size(); d-- > 0; position /= f_.axes[d].out) {
      offset += position % f_.axes[d].out * f_.axes[d].out_stride;
    }
    return offset;
  }
  // The features under a tap of the window of a row; -1 in padding and holes.
  int64_t InputOffset(int64_t row, int64_t tap) const {
    int64_t offset = row / positions_ * f_.in_batch_stride, position = row % positions_;
    for (size_t d = f_.axes.size(); d-- > 0;) {
      const auto& a = f_.axes[d];
      int64_t index = ConvolutionForm::InputIndex(a, position % a.out, tap % a.window);
      if (index < 0) return -1;
      offset += index * a.in_stride;
      position /= a.out;
      tap /= a.window;
    }
    return offset;
  }

  // Element by element.
  template <class T>
  Status RunComplex(const RoutineContext& context) const {
    using Complex = std::complex<T>;
    const Complex* input = reinterpret_cast<const Complex*>(context.memory[0]);
    const Complex* kernel = reinterpret_cast<const Complex*>(context.memory[1]);
    Complex* output = reinterpret_cast<Complex*>(context.memory[2]);
    int64_t depth = taps_ * f_.kernel_in;
    double cost = 4 * static_cast<double>(depth * f_.out_features);
    ForPieces(&context.pool, f_.batch * positions_, cost, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        for (int64_t j = 0; j < f_.out_features; ++j) {
          int64_t group = j / per_group_, first = 0;
          if (f_.feature_groups > 1) first = group * f_.kernel_in * f_.in_feature_stride;
          if (f_.batch_groups > 1) first = group * f_.batch * f_.in_batch_stride;
          std::complex<double> sum = 0;
          for (int64_t tap = 0; tap < taps_; ++tap) {
            int64_t at = InputOffset(row, tap);
            for (int64_t i = 0; at >= 0 && i < f_.kernel_in; ++i) {
              Complex x = input[first + at + i * f_.in_feature_stride];
              Complex y = kernel[KernelOffset(tap * f_.kernel_in + i) + j * f_.kernel_out_stride];
              sum += std::complex<double>(x.real() * y.real() - x.imag() * y.imag(),
                                          x.real() * y.imag() + x.imag() * y.real());
            }
          }
          output[OutputOffset(row) + j * f_.out_feature_stride] = Complex(sum);
        }
      }
    });
    return {};
  }

  ConvolutionForm f_;
  DType types_[3];
  Epilogue epilogue_;
  int64_t positions_ = 1, taps_ = 1, groups_, per_group_, input_size_, output_size_;
  std::vector<PhasePlan> plans_;  // of products
  std::optional<ChannelConvolution> channels_;
  const NarrowKernel* narrow_ = nullptr;  // the micro-kernel that takes operands as they are
};

}  // namespace

Result<std::unique_ptr<PreparedRoutine>> PrepareConvolution(const RoutineInputs& inputs) {
  TRY(VerifyCall(inputs, "convolution"));
  ConvolutionForm form = program::ConvolutionFormOf(std::get<program::LibraryStep>(inputs.step.op));
  if (static_cast<int64_t>(form.axes.size()) > kMostAxes) {
    return Unimplemented("convolution: ", form.axes.size(), " spatial dimensions");
  }
  int64_t output_bytes = inputs.step.uses[2].slice.size;
  if (output_bytes == 0) return std::make_unique<NothingToDo>();
  if (inputs.step.uses[0].slice.size == 0 || inputs.step.uses[1].slice.size == 0) {
    return std::make_unique<AllZeroes>(output_bytes, TRY(EpilogueOf(inputs)));
  }
  DType types[] = {UseDType(inputs, 0), UseDType(inputs, 1), UseDType(inputs, 2)};
  bool one_type = types[0] == types[1] && types[0] == types[2];
  Epilogue epilogue = TRY(EpilogueOf(inputs));
  if (one_type && IsByTaps(form, types[0])) {
    return PrepareByTaps(std::move(form), types[0], epilogue);
  }
  // Narrow floats that no micro-kernel takes are widened anyway.
  bool widens = (types[0] == DType::kBF16 || types[0] == DType::kF16) &&
                FindNarrowKernel(types[0], types[1]) == nullptr;
  if (one_type && (types[0] == DType::kF32 || widens) && IsWorthTransposing(form)) {
    auto inner = std::make_unique<Convolution>(FeaturesLast(form), DType::kF32, types[1],
                                               DType::kF32, Epilogue());
    return PrepareTransposed(form, types[0], std::move(inner), epilogue);
  }
  return std::make_unique<Convolution>(std::move(form), types[0], types[1], types[2], epilogue);
}

}  // namespace weft::cpu
