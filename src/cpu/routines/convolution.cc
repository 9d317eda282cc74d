// convolution: implicit im2col, a product of the matrix of windows, packed a tile at a time, and
// the kernel's.
#include <algorithm>
#include <complex>
#include <vector>

#include "base/elements.h"
#include "cpu/routines/epilogue.h"
#include "cpu/routines/multiply.h"
#include "cpu/routines/prepare.h"
#include "cpu/routines/tiles.h"
#include "program/sum_order.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::cpu {
namespace {

using program::ConvolutionForm;

constexpr int64_t kMostAxes = 8;  // spatial dimensions
// Vectors in a packed panel.
constexpr int64_t kMostPanel =
    program::CodeBounds::kCopies * program::TargetFacts::kLineBytes / sizeof(float);
// Taps that one accumulator of f32 takes (kLongSum).
constexpr int64_t kTapRun = 2 * program::SumOrder::kRun;

// Where a window lies: digits of a number, one for each axis, the last one first to change.
struct Digits {
  int64_t at[kMostAxes] = {};
};

// The windows of one group and image range as vectors: number = image * positions + position, and
// element = tap * features + feature.
template <class T>
class WindowPanels : public PanelSource<T> {
 public:
  // `zeros`: as many as a group has input features.
  WindowPanels(const ConvolutionForm& form, const T* input, const T* zeros)
      : f_(form), input_(input), zeros_(zeros) {
    for (const auto& a : f_.axes) positions_ *= a.out;
  }

  void Pack(int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t width,
            T* out) const override {
    const T* images[kMostPanel];
    Digits where[kMostPanel];
    for (int64_t i = 0; i < count; ++i) {
      int64_t position = (first + i) % positions_;
      images[i] = input_ + (first + i) / positions_ * f_.in_batch_stride;
      for (size_t d = f_.axes.size(); d-- > 0; position /= f_.axes[d].out) {
        where[i].at[d] = position % f_.axes[d].out;
      }
    }
    int64_t feature = k0 % f_.kernel_in;
    for (int64_t tap = k0 / f_.kernel_in; kn > 0; ++tap, feature = 0) {
      const T* rows[kMostPanel];
      for (int64_t i = 0; i < width; ++i) {
        const T* row = i < count ? RowOf(images[i], where[i], tap) : nullptr;
        rows[i] = row == nullptr ? nullptr : row + feature * f_.in_feature_stride;
      }
      int64_t n = std::min(kn, f_.kernel_in - feature);
      PackTap(rows, n, count, width, out);
      out += n * width;
      kn -= n;
    }
  }

 private:
  // The features under a tap of a window; null in padding and holes.
  const T* RowOf(const T* image, const Digits& where, int64_t tap) const {
    for (size_t d = f_.axes.size(); d-- > 0; tap /= f_.axes[d].window) {
      const auto& a = f_.axes[d];
      int64_t index = ConvolutionForm::InputIndex(a, where.at[d], tap % a.window);
      if (index < 0) return nullptr;
      image += index * a.in_stride;
    }
    return image;
  }

  void PackTap(const T** rows, int64_t n, int64_t count, int64_t width, T* out) const {
    int64_t stride = f_.in_feature_stride;
    if (stride == 1) {
      for (int64_t i = 0; i < width; ++i) {
        if (rows[i] == nullptr) rows[i] = zeros_;
      }
      return PackAcross<T>(rows, n, width, out);
    }
    bool neighbours = count == width && rows[0] != nullptr;
    for (int64_t i = 1; i < width && neighbours; ++i) neighbours = rows[i] == rows[0] + i;
    for (int64_t p = 0; p < n; ++p, out += width) {
      if (neighbours) {
        std::copy_n(rows[0] + p * stride, width, out);
        continue;
      }
      for (int64_t i = 0; i < width; ++i) out[i] = rows[i] == nullptr ? T(0) : rows[i][p * stride];
    }
  }

  const ConvolutionForm& f_;
  const T *input_, *zeros_;
  int64_t positions_ = 1;
};

// Sums of no elements.
class AllZeroes : public PreparedRoutine {
 public:
  AllZeroes(int64_t bytes, const Epilogue& epilogue) : bytes_(bytes), epilogue_(epilogue) {}
  Status Run(const RoutineContext& context) const override {
    std::fill_n(context.memory[2], bytes_, std::byte{0});
    EpilogueRun(epilogue_, context).OnAll(&context.pool);
    return {};
  }

 private:
  int64_t bytes_;
  Epilogue epilogue_;
};

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
  }

  Status Run(const RoutineContext& context) const override {
    EpilogueRun epilogue(epilogue_, context);
    bool by_rows = MakesRows() && epilogue.TakesRows(FeaturesLast() ? per_group_ : positions_);
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
  // Whether the output is rows of features (one for each image and position), or of positions (one
  // for each image and feature).
  bool FeaturesLast() const {
    return f_.out_feature_stride == 1 && DenseInOrder(f_.out_features, f_.batch);
  }
  bool PositionsLast() const { return DenseInOrder(1, 1); }
  // Positions are `step` apart in row-major order; with `images` > 1, so are the images.
  bool DenseInOrder(int64_t step, int64_t images) const {
    for (size_t d = f_.axes.size(); d-- > 0; step *= f_.axes[d].out) {
      if (f_.axes[d].out != 1 && f_.axes[d].out_stride != step) return false;
    }
    return images == 1 || f_.out_batch_stride == step;
  }
  // One input feature and one output feature in each group, all as neighbours.
  bool IsDepthwise() const {
    return f_.feature_groups > 1 && f_.kernel_in == 1 && per_group_ == 1 &&
           f_.in_feature_stride == 1 && f_.out_feature_stride == 1 && f_.kernel_out_stride == 1;
  }

  // Whether rows of the result come out of products one after the other, as they lie in memory.
  bool MakesRows() const {
    bool as_is = WithSumType(types_[2], [&]<class T>() { return IsStoredAs<T>(types_[2]); });
    return as_is && !IsComplex(types_[2]) && groups_ == 1 && !IsDepthwise() &&
           (FeaturesLast() || (PositionsLast() && f_.out_feature_stride == positions_));
  }

  bool IsWhole() const { return groups_ > 1 && (CostOfGroup() < 200e3 || groups_ >= 32); }
  double CostOfGroup() const {
    return static_cast<double>(f_.batch * positions_ * per_group_) *
           static_cast<double>(taps_ * f_.kernel_in) / 20;
  }

  template <class T>
  int64_t ScratchAs(int64_t threads) const {
    int64_t kernel_size = taps_ * f_.kernel_in * f_.out_features, elements = 0;
    if (!IsStoredAs<T>(types_[0])) elements += input_size_;
    if (!IsStoredAs<T>(types_[1])) elements += kernel_size;
    if (!IsStoredAs<T>(types_[2])) elements += output_size_;
    if (IsDepthwise()) return elements * int64_t{sizeof(T)};
    elements += kernel_size + f_.kernel_in;
    int64_t rows = f_.batch * positions_, depth = taps_ * f_.kernel_in;
    int64_t at_once = IsWhole() ? std::min(threads, groups_) : 1, inner = IsWhole() ? 1 : threads;
    int64_t product;
    if (FeaturesLast()) {
      product = MultiplyScratch<T>(rows, per_group_, depth, inner);
    } else if (PositionsLast()) {
      product = MultiplyScratch<T>(per_group_, positions_, depth, inner);
    } else {
      product = MultiplyScratch<T>(rows, per_group_, depth, inner) +
                rows * per_group_ * int64_t{sizeof(T)};
    }
    return elements * int64_t{sizeof(T)} + at_once * product;
  }

  template <class T>
  Status RunAs(const RoutineContext& context, const EpilogueRun* epilogue) const {
    int64_t kernel_size = taps_ * f_.kernel_in * f_.out_features;
    auto wide_input =
        TRY(Scratch<T>::New(context.means(), IsStoredAs<T>(types_[0]) ? 0 : input_size_));
    auto wide_kernel =
        TRY(Scratch<T>::New(context.means(), IsStoredAs<T>(types_[1]) ? 0 : kernel_size));
    auto wide_output =
        TRY(Scratch<T>::New(context.means(), IsStoredAs<T>(types_[2]) ? 0 : output_size_));
    const T* input = Widened<T>(context, 0, input_size_, wide_input.data());
    const T* kernel = Widened<T>(context, 1, kernel_size, wide_kernel.data());
    bool as_is = IsStoredAs<T>(types_[2]);
    T* output = as_is ? reinterpret_cast<T*>(context.memory[2]) : wide_output.data();
    if (IsDepthwise()) {
      Depthwise<T>(context, input, kernel, output);
    } else {
      TRY(Grouped<T>(context, input, kernel, output, epilogue));
    }
    if (as_is) return {};
    ForPieces(&context.pool, output_size_, 1.0, [&](int64_t begin, int64_t end) {
      StoreRun<T>(types_[2], output + begin, end - begin,
                  context.memory[2] + begin * ByteWidth(types_[2]));
    });
    return {};
  }

  template <class T>
  const T* Widened(const RoutineContext& context, size_t use, int64_t n, T* room) const {
    const std::byte* from = context.memory[use];
    if (IsStoredAs<T>(types_[use])) return reinterpret_cast<const T*>(from);
    ForPieces(&context.pool, n, 1.0, [&](int64_t begin, int64_t end) {
      LoadRun<T>(types_[use], from + begin * ByteWidth(types_[use]), end - begin, room + begin);
    });
    return room;
  }

  // The kernel as [tap][input feature][output feature].
  template <class T>
  Result<Scratch<T>> KernelMatrix(const RoutineContext& context, const T* kernel) const {
    auto matrix = TRY(Scratch<T>::New(context.means(), taps_ * f_.kernel_in * f_.out_features));
    ForPieces(&context.pool, taps_ * f_.kernel_in, static_cast<double>(f_.out_features),
              [&](int64_t begin, int64_t end) {
                for (int64_t k = begin; k < end; ++k) {
                  const T* from = kernel + KernelOffset(k);
                  T* to = matrix.data() + k * f_.out_features;
                  for (int64_t j = 0; j < f_.out_features; ++j) {
                    to[j] = from[j * f_.kernel_out_stride];
                  }
                }
              });
    return matrix;
  }
  // Of element k = tap * features + feature.
  int64_t KernelOffset(int64_t k) const {
    int64_t offset = k % f_.kernel_in * f_.kernel_in_stride, tap = k / f_.kernel_in;
    for (size_t d = f_.axes.size(); d-- > 0; tap /= f_.axes[d].window) {
      offset += tap % f_.axes[d].window * f_.axes[d].window_stride;
    }
    return offset;
  }

  template <class T>
  Status Grouped(const RoutineContext& context, const T* input, const T* kernel, T* output,
                 const EpilogueRun* epilogue) const {
    Means means = context.means();
    Scratch<T> matrix = TRY(KernelMatrix<T>(context, kernel));
    auto zeros = TRY(Scratch<T>::New(context.means(), f_.kernel_in));
    std::fill_n(zeros.data(), f_.kernel_in, T(0));
    double cost = CostOfGroup();
    bool whole = IsWhole();
    auto piece = [&](int64_t begin, int64_t end) -> Status {
      for (int64_t group = begin; group < end; ++group) {
        const T* from = input;
        if (f_.feature_groups > 1) from += group * f_.kernel_in * f_.in_feature_stride;
        if (f_.batch_groups > 1) from += group * f_.batch * f_.in_batch_stride;
        TRY(OneGroup<T>(whole ? means.Alone() : means, from, zeros.data(),
                        matrix.data() + group * per_group_,
                        output + group * per_group_ * f_.out_feature_stride, epilogue));
      }
      return {};
    };
    return TryPieces(whole ? &context.pool : nullptr, groups_, cost, piece);
  }

  template <class T>
  Status OneGroup(const Means& means, const T* input, const T* zeros, const T* matrix, T* output,
                  const EpilogueRun* epilogue) const {
    int64_t rows = f_.batch * positions_, depth = taps_ * f_.kernel_in;
    constexpr bool kFloat = std::is_floating_point_v<T>;
    DType dtype = sizeof(T) == 8 ? (kFloat ? DType::kF64 : DType::kU64)
                                 : (kFloat ? DType::kF32 : DType::kU32);
    StridedPanels<T> filters(dtype, reinterpret_cast<const std::byte*>(matrix), 1, f_.out_features);
    WindowPanels<T> windows(f_, input, zeros);
    if (FeaturesLast()) {
      return Multiply<T>(means, rows, per_group_, depth, windows, filters, output, f_.out_features,
                         T(1), T(0), epilogue ? epilogue->OnRows(0, per_group_) : RowsDone());
    }
    if (PositionsLast()) {
      for (int64_t image = 0; image < f_.batch; ++image) {
        WindowPanels<T> of_image(f_, input + image * f_.in_batch_stride, zeros);
        TRY(Multiply<T>(
            means, per_group_, positions_, depth, filters, of_image,
            output + image * f_.out_batch_stride, f_.out_feature_stride, T(1), T(0),
            epilogue ? epilogue->OnRows(image * f_.out_batch_stride, positions_) : RowsDone()));
      }
      return {};
    }
    auto product = TRY(Scratch<T>::New(means, rows * per_group_));
    TRY(Multiply<T>(means, rows, per_group_, depth, windows, filters, product.data(), per_group_,
                    T(1), T(0)));
    ForPieces(means.pool, rows, static_cast<double>(per_group_), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        T* to = output + OutputOffset(row);
        for (int64_t j = 0; j < per_group_; ++j) {
          to[j * f_.out_feature_stride] = product.data()[row * per_group_ + j];
        }
      }
    });
    return {};
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

  template <class T>
  static void MoveSums(T* from, std::vector<double>& sums) {
    for (size_t j = 0; j < sums.size(); ++j) {
      sums[j] += static_cast<double>(from[j]);
      from[j] = 0;
    }
  }

  template <class T>
  void Depthwise(const RoutineContext& context, const T* input, const T* kernel, T* output) const {
    int64_t features = f_.out_features;
    double cost = static_cast<double>(taps_ * features) / 4;
    ForPieces(&context.pool, f_.batch * positions_, cost, [&](int64_t begin, int64_t end) {
      std::vector<double> sums;  // of many taps
      for (int64_t row = begin; row < end; ++row) {
        T* to = output + OutputOffset(row);
        std::fill_n(to, features, T(0));
        bool cut = std::is_same_v<T, float> && taps_ > kTapRun;
        sums.assign(cut ? static_cast<size_t>(features) : 0, 0);
        for (int64_t tap = 0; tap < taps_; ++tap) {
          if (cut && tap % kTapRun == 0) MoveSums(to, sums);
          int64_t at = InputOffset(row, tap);
          if (at < 0) continue;
          const T *from = input + at, *factors = kernel + KernelOffset(tap);
          for (int64_t j = 0; j < features; ++j) to[j] += from[j] * factors[j];
        }
        if (cut) MoveSums(to, sums);
        for (size_t j = 0; j < sums.size(); ++j) to[j] = static_cast<T>(sums[j]);
      }
    });
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
  return std::make_unique<Convolution>(std::move(form), UseDType(inputs, 0), UseDType(inputs, 1),
                                       UseDType(inputs, 2), TRY(EpilogueOf(inputs)));
}

}  // namespace weft::cpu
