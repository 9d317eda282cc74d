// cholesky and triangular_solve: small ones in double precision, large ones in blocks.
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

#include "cpu/routines/blocked.h"
#include "cpu/routines/factor_tiles.h"
#include "cpu/routines/field.h"
#include "cpu/routines/multiply.h"
#include "cpu/routines/prepare.h"
#include "program/target_facts.h"

namespace weft::cpu {
namespace {

// The lower factor of the n x n matrix in place, of which the lower triangle is read. False: not
// positive definite.
template <class T>
bool FactorLower(T* a, int64_t n) {
  for (int64_t i = 0; i < n && !CancelFlag::IsSet(); ++i) {
    T* row = a + i * n;
    for (int64_t j = 0; j < i; ++j) {
      const T* other = a + j * n;
      row[j] = (row[j] - DotConjugate(row, other, j)) / std::real(other[j]);
    }
    double diagonal = std::real(row[i]) - std::real(DotConjugate(row, row, i));
    if (!(diagonal > 0) || std::isinf(diagonal)) return false;
    row[i] = std::sqrt(diagonal);
    std::fill(row + i + 1, row + n, T());
  }
  return true;
}

// Solves t x = b in place of b for a lower or upper triangular t (n x n) and m columns.
template <class T>
void SolveTriangle(const T* t, int64_t n, int64_t m, bool lower, bool unit, T* b) {
  for (int64_t step = 0; step < n && !CancelFlag::IsSet(); ++step) {
    int64_t i = lower ? step : n - 1 - step;
    T* row = b + i * m;
    for (int64_t k = lower ? 0 : i + 1; k < (lower ? i : n); ++k) {
      AddTimes(-t[i * n + k], b + k * m, m, row);
    }
    for (int64_t c = 0; c < m && !unit; ++c) row[c] /= t[i * n + i];
  }
}

template <class T>
void TransposeInto(const T* from, int64_t rows, int64_t cols, bool conjugate, T* to) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) {
      T x = from[i * cols + j];
      to[j * rows + i] = conjugate ? Conjugated(x) : x;
    }
  }
}

// fn.operator()<T>(begin, end) for pieces of the batch; T: double or complex.
template <class Fn>
Status ForMatrices(const RoutineContext& context, int64_t batch, double cost, DType dtype,
                   const Fn& fn) {
  return TryPieces(&context.pool, batch, cost, [&](int64_t begin, int64_t end) -> Status {
    return IsComplex(dtype) ? fn.template operator()<std::complex<double>>(begin, end)
                            : fn.template operator()<double>(begin, end);
  });
}

class Cholesky : public PreparedRoutine {
 public:
  Cholesky(int64_t n, int64_t batch, bool lower, DType dtype)
      : n_(n), batch_(batch), lower_(lower), dtype_(dtype) {}

  Status Run(const RoutineContext& context) const override {
    if (n_ == 0) return {};
    if (IsBlocked() && dtype_ == DType::kF32) return Blocked<float>(context);
    if (IsBlocked()) return Blocked<double>(context);
    if (n_ <= kFactorBlock && lower_ && dtype_ == DType::kF32) return Small<float>(context);
    if (n_ <= kFactorBlock && lower_ && dtype_ == DType::kF64) return Small<double>(context);
    double size = static_cast<double>(n_);
    return ForMatrices(context, batch_, size * size * size / 4, dtype_,
                       [&]<class T>(int64_t begin, int64_t end) -> Status {
                         auto a = TRY(Scratch<T>::New(context.means(), n_ * n_)),
                              l = TRY(Scratch<T>::New(context.means(), n_ * n_));
                         for (int64_t i = begin; i < end; ++i) {
                           int64_t at = i * n_ * n_ * ByteWidth(dtype_);
                           One(context.memory[0] + at, a.data(), l.data(), context.memory[1] + at);
                         }
                         return {};
                       });
  }

  int64_t ScratchBytes(int64_t threads) const override {
    int64_t width = ByteWidth(dtype_);
    if (IsBlocked()) {
      bool apart = AreApart(threads);
      int64_t at_once = apart ? std::min(threads, batch_) : 1, inner = apart ? 1 : threads;
      int64_t products = width == 4 ? BlockedCholeskyScratch<float>(n_, inner)
                                    : BlockedCholeskyScratch<double>(n_, inner);
      return at_once * ((lower_ ? 0 : n_ * n_ * width) + products);
    }
    return std::min(threads, batch_) * 2 * n_ * n_ * (IsComplex(dtype_) ? 16 : 8);
  }

 private:
  template <class T>
  Status Small(const RoutineContext& context) const {
    double size = static_cast<double>(n_);
    ForPieces(&context.pool, batch_, size * size * size / 10, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T* from = reinterpret_cast<const T*>(context.memory[0]) + i * n_ * n_;
        T* to = reinterpret_cast<T*>(context.memory[1]) + i * n_ * n_;
        for (int64_t row = 0; row < n_; ++row) {
          std::copy_n(from + row * n_, row + 1, to + row * n_);
          std::fill(to + row * n_ + row + 1, to + (row + 1) * n_, T());
        }
        if (!FactorSquare(to, n_, n_)) {
          std::fill_n(to, n_ * n_, std::numeric_limits<T>::quiet_NaN());
        }
      }
    });
    return {};
  }

  // Too large for one block, of a type that products take.
  bool IsBlocked() const {
    return n_ > kFactorBlock && (dtype_ == DType::kF32 || dtype_ == DType::kF64);
  }
  // Whether every thread takes matrices of its own.
  bool AreApart(int64_t threads) const { return batch_ >= threads && batch_ > 1; }

  template <class T>
  Status Blocked(const RoutineContext& context) const {
    auto run = [&](const Means& means, int64_t begin, int64_t end) -> Status {
      auto spare = TRY(Scratch<T>::New(means, lower_ ? 0 : n_ * n_));
      for (int64_t i = begin; i < end; ++i) {
        const T* from = reinterpret_cast<const T*>(context.memory[0]) + i * n_ * n_;
        T* to = reinterpret_cast<T*>(context.memory[1]) + i * n_ * n_;
        TRY(BlockedOne<T>(means, from, spare.data(), to));
      }
      return {};
    };
    if (!AreApart(context.pool.limit())) return run(context.means(), 0, batch_);
    double size = static_cast<double>(n_);
    return TryPieces(
        &context.pool, batch_, size * size * size / 20,
        [&](int64_t begin, int64_t end) { return run(context.means().Alone(), begin, end); });
  }

  template <class T>
  Status BlockedOne(const Means& means, const T* from, T* spare, T* to) const {
    T* l = lower_ ? to : spare;
    if (lower_) std::copy_n(from, n_ * n_, to);
    if (!lower_) TransposeInto(from, n_, n_, false, l);
    if (!TRY(BlockedCholesky(means, l, n_))) {
      std::fill_n(to, n_ * n_, std::numeric_limits<T>::quiet_NaN());
      return {};
    }
    for (int64_t row = 0; row < n_; ++row)
      std::fill(l + row * n_ + row + 1, l + (row + 1) * n_, T());
    if (!lower_) TransposeInto(l, n_, n_, false, to);
    return {};
  }

  template <class T>
  void One(const std::byte* from, T* a, T* l, std::byte* to) const {
    LoadMatrix(dtype_, from, n_ * n_, a);
    if (!lower_) {
      TransposeInto(a, n_, n_, true, l);
      std::swap(a, l);
    }
    if (!FactorLower(a, n_)) {
      std::fill_n(a, n_ * n_, T(std::numeric_limits<double>::quiet_NaN()));
    } else if (!lower_) {
      TransposeInto(a, n_, n_, true, l);
      std::swap(a, l);
    }
    StoreMatrix(dtype_, a, n_ * n_, to);
  }

  int64_t n_, batch_;
  bool lower_;
  DType dtype_;
};

struct TriangularForm {
  int64_t m, n, batch;
  bool left_side, lower, transpose, conjugate, unit;
  DType dtype;
};

class TriangularSolve : public PreparedRoutine {
 public:
  explicit TriangularSolve(const TriangularForm& form) : f_(form) {}

  Status Run(const RoutineContext& context) const override {
    if (f_.m * f_.n == 0) return {};
    int64_t order = Order(), columns = Columns();
    if (IsBlocked()) {
      if (f_.dtype == DType::kF32) return Blocked<float>(context, order, columns);
      if (f_.dtype == DType::kF64) return Blocked<double>(context, order, columns);
    }
    if (IsFew()) {
      if (f_.dtype == DType::kF32) return Few<float>(context, order, columns);
      if (f_.dtype == DType::kF64) return Few<double>(context, order, columns);
    }
    return ForMatrices(context, f_.batch,
                       static_cast<double>(f_.m * f_.n) * static_cast<double>(order) / 2, f_.dtype,
                       [&]<class T>(int64_t begin, int64_t end) -> Status {
                         auto a = TRY(Scratch<T>::New(context.means(), 2 * order * order));
                         auto b = TRY(Scratch<T>::New(context.means(), 2 * f_.m * f_.n));
                         int64_t width = ByteWidth(f_.dtype);
                         for (int64_t i = begin; i < end; ++i) {
                           One(order, context.memory[0] + i * order * order * width,
                               context.memory[1] + i * f_.m * f_.n * width, a.data(), b.data(),
                               context.memory[2] + i * f_.m * f_.n * width);
                         }
                         return {};
                       });
  }

  int64_t ScratchBytes(int64_t threads) const override {
    int64_t order = Order(), width = ByteWidth(f_.dtype);
    if (IsBlocked()) {
      bool swap = f_.transpose != !f_.left_side;
      int64_t elements = (swap ? order * order : 0) + (f_.left_side ? 0 : f_.m * f_.n);
      return elements * width + (width == 4
                                     ? BlockedSolveScratch<float>(order, Columns(), threads)
                                     : BlockedSolveScratch<double>(order, Columns(), threads));
    }
    bool apart = f_.left_side && Columns() > 1;
    if (IsFew()) return apart ? std::min(threads, f_.batch) * f_.m * f_.n * width : 0;
    int64_t elements = 2 * (order * order + f_.m * f_.n);
    return std::min(threads, f_.batch) * elements * (IsComplex(f_.dtype) ? 16 : 8);
  }

 private:
  int64_t Order() const { return f_.left_side ? f_.m : f_.n; }
  int64_t Columns() const { return f_.left_side ? f_.n : f_.m; }
  static constexpr int64_t kFewColumns = program::TargetFacts::kUsualLanes;
  bool IsReal() const { return f_.dtype == DType::kF32 || f_.dtype == DType::kF64; }
  bool IsBlocked() const {
    return Order() >= kBlockedOrder && Columns() >= kFewColumns && IsReal();
  }
  bool IsFew() const {
    constexpr int64_t kLeastOrder = kFactorBlock / 2;  // below, in double precision
    return Order() >= kLeastOrder && Columns() < kFewColumns && IsReal();
  }

  template <class T>
  Status Blocked(const RoutineContext& context, int64_t order, int64_t columns) const {
    bool swap = f_.transpose != !f_.left_side, lower = f_.lower != swap;
    int64_t size = f_.m * f_.n;
    auto turned = TRY(Scratch<T>::New(context.means(), swap ? order * order : 0));
    auto spare = TRY(Scratch<T>::New(context.means(), f_.left_side ? 0 : size));
    for (int64_t i = 0; i < f_.batch; ++i) {
      const T* a = reinterpret_cast<const T*>(context.memory[0]) + i * order * order;
      const T* b = reinterpret_cast<const T*>(context.memory[1]) + i * size;
      T* to = reinterpret_cast<T*>(context.memory[2]) + i * size;
      if (swap) {
        TransposeInto(a, order, order, false, turned.data());
        a = turned.data();
      }
      T* x = f_.left_side ? to : spare.data();
      if (f_.left_side) std::copy_n(b, size, x);
      if (!f_.left_side) TransposeInto(b, f_.m, f_.n, false, x);
      TRY(BlockedSolve(context.means(), a, order, order, lower, f_.unit, x, columns, columns));
      if (!f_.left_side) TransposeInto(x, f_.n, f_.m, false, to);
    }
    return {};
  }

  template <class T>
  Status Few(const RoutineContext& context, int64_t order, int64_t columns) const {
    bool transpose = f_.transpose != !f_.left_side;
    bool apart = f_.left_side && columns > 1;  // each vector's elements
    int64_t size = f_.m * f_.n;
    double cost = static_cast<double>(size) * static_cast<double>(order) / 8;
    return TryPieces(&context.pool, f_.batch, cost, [&](int64_t begin, int64_t end) -> Status {
      auto spare = TRY(Scratch<T>::New(context.means(), apart ? size : 0));
      for (int64_t i = begin; i < end; ++i) {
        const T* a = reinterpret_cast<const T*>(context.memory[0]) + i * order * order;
        const T* b = reinterpret_cast<const T*>(context.memory[1]) + i * size;
        T* to = reinterpret_cast<T*>(context.memory[2]) + i * size;
        T* x = apart ? spare.data() : to;
        if (apart) TransposeInto(b, order, columns, false, x);
        if (!apart) std::copy_n(b, size, x);
        SolveVectors(a, order, columns, f_.lower, transpose, f_.unit, x);
        if (apart) TransposeInto(x, columns, order, false, to);
      }
      return {};
    });
  }

  // x op(a) = b is op(a)^T x^T = b^T. `a` and `b` have room for two matrices each.
  template <class T>
  void One(int64_t order, const std::byte* a_from, const std::byte* b_from, T* a, T* b,
           std::byte* to) const {
    int64_t size = f_.m * f_.n;
    bool lower = f_.lower;
    T *a_spare = a + order * order, *b_spare = b + size;
    LoadMatrix(f_.dtype, a_from, order * order, a);
    LoadMatrix(f_.dtype, b_from, size, b);
    if (f_.transpose != !f_.left_side) {  // two transpositions cancel
      TransposeInto(a, order, order, f_.conjugate, a_spare);
      std::swap(a, a_spare);
      lower = !lower;
    } else if (f_.conjugate) {
      for (int64_t i = 0; i < order * order; ++i) a[i] = Conjugated(a[i]);
    }
    if (f_.left_side) {
      SolveTriangle(a, order, f_.n, lower, f_.unit, b);
    } else {
      TransposeInto(b, f_.m, f_.n, false, b_spare);
      SolveTriangle(a, order, f_.m, lower, f_.unit, b_spare);
      TransposeInto(b_spare, f_.n, f_.m, false, b);
    }
    StoreMatrix(f_.dtype, b, size, to);
  }

  TriangularForm f_;
};

}  // namespace

Result<std::unique_ptr<PreparedRoutine>> PrepareCholesky(const RoutineInputs& inputs) {
  TRY(VerifyCall(inputs, "cholesky"));
  const auto& call = std::get<program::LibraryStep>(inputs.step.op);
  return std::make_unique<Cholesky>(program::IntAttr(call, "n", 0),
                                    program::IntAttr(call, "batch", 1),
                                    program::BoolAttr(call, "lower", true), UseDType(inputs, 0));
}

Result<std::unique_ptr<PreparedRoutine>> PrepareTriangularSolve(const RoutineInputs& inputs) {
  TRY(VerifyCall(inputs, "triangular_solve"));
  const auto& call = std::get<program::LibraryStep>(inputs.step.op);
  bool conjugate = program::BoolAttr(call, "conjugate", false);
  return std::make_unique<TriangularSolve>(TriangularForm{
      program::IntAttr(call, "m", 0), program::IntAttr(call, "n", 0),
      program::IntAttr(call, "batch", 1), program::BoolAttr(call, "left_side", true),
      program::BoolAttr(call, "lower", true), program::BoolAttr(call, "transpose", false),
      conjugate, program::BoolAttr(call, "unit_diagonal", false), UseDType(inputs, 0)});
}

}  // namespace weft::cpu
