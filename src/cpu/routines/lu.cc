// lu: columns in blocks, so that nearly all of the work is a matrix product.
#include <algorithm>
#include <cmath>
#include <complex>
#include <type_traits>

#include "base/elements.h"
#include "cpu/routines/blocked.h"
#include "cpu/routines/factor_tiles.h"
#include "cpu/routines/field.h"
#include "cpu/routines/multiply.h"
#include "cpu/routines/prepare.h"
#include "program/target_facts.h"

namespace weft::cpu {
namespace {

// Columns factored at a time.
constexpr int64_t kPanelColumns = kFactorBlock, kPanelPart = program::TargetFacts::kUsualLanes;

template <class T>
auto PivotSizeOf(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::fabs(x);
  } else {
    return std::fabs(x.real()) + std::fabs(x.imag());
  }
}

template <class T>
T Product(T x, T y) {
  if constexpr (std::is_floating_point_v<T>) {
    return x * y;
  } else {
    return {x.real() * y.real() - x.imag() * y.imag(), x.real() * y.imag() + x.imag() * y.real()};
  }
}

// to[i] -= x * from[i]
template <class T>
void SubtractTimes(T x, const T* from, int64_t n, T* to) {
  for (int64_t i = 0; i < n; ++i) to[i] -= Product(x, from[i]);
}

template <class T>
struct LuMatrix {
  static constexpr bool kReal = std::is_floating_point_v<T>;
  T* a;  // rows n apart
  int64_t m, n;
  int32_t* pivots;
  Means means;
  int32_t info = 0;

  T* Row(int64_t i) const { return a + i * n; }

  // Finds the pivot of column k of a panel, and takes its row from those below, in the columns up
  // to `last`.
  void EliminateColumn(T* panel, int64_t rows, int64_t width, int64_t begin, int64_t k,
                       int64_t last) {
    int64_t best = k;
    auto largest = PivotSizeOf(panel[k * width + k]);
    for (int64_t i = k + 1; i < rows; ++i) {
      auto size = PivotSizeOf(panel[i * width + k]);
      if (size > largest) best = i, largest = size;
    }
    pivots[begin + k] = static_cast<int32_t>(begin + best + 1);
    if (best != k) {
      std::swap_ranges(panel + k * width, panel + (k + 1) * width, panel + best * width);
    }
    T pivot = panel[k * width + k];
    if (pivot == T()) {
      if (info == 0) info = static_cast<int32_t>(begin + k + 1);
      return;
    }
    for (int64_t i = k + 1; i < rows; ++i) {
      T* row = panel + i * width;
      row[k] /= pivot;
      SubtractTimes(row[k], panel + k * width + k + 1, last - k - 1, row + k + 1);
    }
  }

  // Columns [begin, end) of the rows from `begin` on, in memory of their own.
  void FactorPanel(int64_t begin, int64_t end, T* panel) {
    int64_t width = end - begin;
    for (int64_t i = begin; i < m; ++i) {
      std::copy_n(Row(i) + begin, width, panel + (i - begin) * width);
    }
    int64_t rows = m - begin;
    int64_t steps = std::min(width, rows), part = kReal ? kPanelPart : width;
    for (int64_t first = 0; first < steps; first += part) {
      int64_t last = std::min(first + part, width);
      for (int64_t k = first; k < std::min(last, steps); ++k) {
        EliminateColumn(panel, rows, width, begin, k, last);
      }
      if constexpr (kReal) {
        int64_t depth = std::min(last, steps) - first;
        T *corner = panel + first * width + first, *right = panel + first * width + last;
        SolveColumns(corner, width, depth, /*lower=*/true, /*unit=*/true, right, width,
                     width - last);
        if (last < rows) {
          SubtractProduct(rows - last, width - last, depth, panel + last * width + first, width,
                          right, panel + last * width + last, width);
        }
      }
    }
    for (int64_t i = begin; i < m; ++i) {
      std::copy_n(panel + (i - begin) * width, width, Row(i) + begin);
    }
  }

  // The swaps of the panel, in columns [from, to).
  void SwapRows(int64_t begin, int64_t end, int64_t from, int64_t to) const {
    for (int64_t k = begin; k < end && from < to; ++k) {
      int64_t other = pivots[k] - 1;
      if (other != k) std::swap_ranges(Row(k) + from, Row(k) + to, Row(other) + from);
    }
  }

  // Columns [end, last), right of and below those of [begin, end).
  Status Update(int64_t begin, int64_t end, int64_t last) const {
    int64_t rest = last - end, below = m - end, depth = end - begin;
    if constexpr (kReal) {
      TRY(BlockedSolve(means, Row(begin) + begin, n, depth, /*lower=*/true, /*unit=*/true,
                       Row(begin) + end, n, rest));
      DType dtype = sizeof(T) == 4 ? DType::kF32 : DType::kF64;
      StridedPanels<T> left(dtype, reinterpret_cast<const std::byte*>(Row(end) + begin), n, 1);
      StridedPanels<T> right(dtype, reinterpret_cast<const std::byte*>(Row(begin) + end), 1, n);
      return Multiply<T>(means, below, rest, depth, left, right, Row(end) + end, n, T(-1), T(1));
    } else {
      double size = static_cast<double>(depth);
      ForPieces(means.pool, rest, size * size / 8, [&](int64_t from, int64_t to) {
        for (int64_t i = begin + 1; i < end; ++i) {
          for (int64_t k = begin; k < i; ++k) {
            SubtractTimes(Row(i)[k], Row(k) + end + from, to - from, Row(i) + end + from);
          }
        }
      });
      ForPieces(means.pool, below, size * static_cast<double>(rest), [&](int64_t from, int64_t to) {
        for (int64_t i = end + from; i < end + to; ++i) {
          for (int64_t k = begin; k < end; ++k) {
            SubtractTimes(Row(i)[k], Row(k) + end, rest, Row(i) + end);
          }
        }
      });
      return {};
    }
  }

  static int64_t MiddleOf(int64_t begin, int64_t end, int64_t m) {
    int64_t half = (end - begin) / 2 + kPanelColumns - 1;
    return std::min(begin + half / kPanelColumns * kPanelColumns, m);
  }

  // Columns [begin, end), of which begin < m, with the rows from `begin` on: one half, its product,
  // then the other, so that products are as deep as they can be.
  Status FactorColumns(int64_t begin, int64_t end, T* panel) {
    if (end - begin <= kPanelColumns) {
      if (CancelFlag::IsSet()) return MakeError(Code::kCancelled, "lu: cancelled");  // no pivots
      FactorPanel(begin, end, panel);
      return {};
    }
    int64_t middle = MiddleOf(begin, end, m);
    TRY(FactorColumns(begin, middle, panel));
    SwapRows(begin, middle, middle, end);
    TRY(Update(begin, middle, end));
    if (middle == m) return {};
    TRY(FactorColumns(middle, end, panel));
    SwapRows(middle, std::min(end, m), begin, middle);
    return {};
  }

  // Bytes of scratch that the products of FactorColumns take, on so many threads.
  static int64_t ProductScratch(int64_t m, int64_t begin, int64_t end, int64_t threads) {
    if (end - begin <= kPanelColumns) return 0;
    int64_t middle = MiddleOf(begin, end, m), depth = middle - begin;
    int64_t most = std::max({ProductScratch(m, begin, middle, threads),
                             BlockedSolveScratch<T>(depth, end - middle, threads),
                             MultiplyScratch<T>(m - middle, end - middle, depth, threads)});
    return middle == m ? most : std::max(most, ProductScratch(m, middle, end, threads));
  }

  Status Factor() {
    auto panel = TRY(Scratch<T>::New(means, m * std::min(kPanelColumns, n)));
    return FactorColumns(0, n, panel.data());
  }
};

class Lu : public PreparedRoutine {
 public:
  Lu(int64_t m, int64_t n, int64_t batch, DType dtype)
      : m_(m), n_(n), batch_(batch), dtype_(dtype) {}

  Status Run(const RoutineContext& context) const override {
    switch (dtype_) {
      case DType::kF32: return All<float>(context);
      case DType::kF64: return All<double>(context);
      case DType::kC64: return All<std::complex<float>>(context);
      case DType::kC128: return All<std::complex<double>>(context);
      default: return All<double>(context);
    }
  }

  int64_t ScratchBytes(int64_t threads) const override {
    bool narrow = IsFloat(dtype_) && BitWidth(dtype_) < 32;
    int64_t width = narrow ? 8 : ByteWidth(dtype_);
    int64_t elements = m_ * std::min(kPanelColumns, n_) + (narrow ? m_ * n_ : 0);
    int64_t at_once = batch_ < threads ? 1 : threads, inner = batch_ < threads ? threads : 1;
    int64_t products = 0;
    if (dtype_ == DType::kF32) products = LuMatrix<float>::ProductScratch(m_, 0, n_, inner);
    if (IsFloat(dtype_) && width == 8) {
      products = LuMatrix<double>::ProductScratch(m_, 0, n_, inner);
    }
    return at_once * (elements * width + products);
  }

 private:
  template <class T>
  Status All(const RoutineContext& context) const {
    double size = static_cast<double>(m_) * static_cast<double>(n_);
    if (batch_ < context.pool.limit()) {
      for (int64_t i = 0; i < batch_; ++i) TRY(One<T>(context, i, context.means()));
      return {};
    }
    double cost = size * static_cast<double>(std::min(m_, n_)) / 8;
    return TryPieces(&context.pool, batch_, cost, [&](int64_t begin, int64_t end) -> Status {
      for (int64_t i = begin; i < end; ++i) TRY(One<T>(context, i, context.means().Alone()));
      return {};
    });
  }

  template <class T>
  Status One(const RoutineContext& context, int64_t i, const Means& means) const {
    int64_t count = m_ * n_, bytes = count * ByteWidth(dtype_);
    auto* info = reinterpret_cast<int32_t*>(context.memory[3]) + i;
    *info = 0;
    if (count == 0) return {};
    const std::byte* from = context.memory[0] + i * bytes;
    std::byte* to = context.memory[1] + i * bytes;
    bool narrow = IsFloat(dtype_) && BitWidth(dtype_) < 32;
    auto wide = TRY(Scratch<T>::New(means, narrow ? count : 0));
    LuMatrix<T> matrix{narrow ? wide.data() : reinterpret_cast<T*>(to), m_, n_,
                       reinterpret_cast<int32_t*>(context.memory[2]) + i * std::min(m_, n_), means};
    if constexpr (std::is_same_v<T, double>) {
      if (narrow) LoadF64(dtype_, from, count, wide.data());
    }
    if (!narrow) std::copy_n(from, bytes, to);
    TRY(matrix.Factor());
    if constexpr (std::is_same_v<T, double>) {
      if (narrow) StoreF64(dtype_, wide.data(), count, to);
    }
    *info = matrix.info;
    return {};
  }

  int64_t m_, n_, batch_;
  DType dtype_;
};

}  // namespace

Result<std::unique_ptr<PreparedRoutine>> PrepareLu(const RoutineInputs& inputs) {
  TRY(VerifyCall(inputs, "lu"));
  const auto& call = std::get<program::LibraryStep>(inputs.step.op);
  return std::make_unique<Lu>(program::IntAttr(call, "m", 0), program::IntAttr(call, "n", 0),
                              program::IntAttr(call, "batch", 1), UseDType(inputs, 0));
}

}  // namespace weft::cpu
