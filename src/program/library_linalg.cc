// cholesky, triangular_solve and lu, slowly: in complex<double> for all types.
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

#include "base/elements.h"
#include "program/library_routines.h"

namespace weft::program {
namespace {

using Complex = std::complex<double>;

bool IsFieldType(const Program& program, const Step& step) {
  DType dtype = DTypeOf(program, step.uses[0]);
  for (const Use& use : step.uses) {
    if (DTypeOf(program, use) != dtype) return false;
  }
  return IsFloat(dtype) || IsComplex(dtype);
}

Status VerifyCholesky(const Program& program, const Step& step) {
  TRY(CheckAccess(step, {Access::kRead, Access::kWrite}, "cholesky", "(read a, write factor)"));
  const auto& call = std::get<LibraryStep>(step.op);
  int64_t n = IntAttr(call, "n", -1), size = Product({IntAttr(call, "batch", 1), n, n});
  if (!IsFieldType(program, step)) {
    return InvalidArgument("cholesky: does not take these types");
  }
  TRY(CheckElements(program, step.uses[0], size, "cholesky", "a"));
  return CheckElements(program, step.uses[1], size, "cholesky", "the factor");
}

// The lower factor of the Hermitian matrix whose lower triangle is a's; NaN if there is none.
std::vector<Complex> LowerFactor(const std::vector<Complex>& a, int64_t n) {
  std::vector<Complex> l(a.size());
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = j; i < n; ++i) {
      Complex sum = a[i * n + j];
      for (int64_t k = 0; k < j; ++k) sum -= l[i * n + k] * std::conj(l[j * n + k]);
      if (i > j) {
        l[i * n + j] = sum / l[j * n + j].real();
      } else if (sum.real() > 0 && !std::isinf(sum.real())) {
        l[j * n + j] = std::sqrt(sum.real());
      } else {
        return std::vector<Complex>(a.size(), std::numeric_limits<double>::quiet_NaN());
      }
    }
  }
  return l;
}

std::vector<Complex> Transpose(const std::vector<Complex>& a, int64_t rows, int64_t cols) {
  std::vector<Complex> out(a.size());
  for (int64_t i = 0; i < rows * cols; ++i) out[i % cols * rows + i / cols] = a[i];
  return out;
}

std::vector<Complex> Conjugate(std::vector<Complex> a) {
  for (Complex& x : a) x = std::conj(x);
  return a;
}

Status InterpretCholesky(const Program& program, const Step& step, int64_t,
                         std::span<const std::span<std::byte>> memory) {
  const auto& call = std::get<LibraryStep>(step.op);
  int64_t n = IntAttr(call, "n", -1), batch = IntAttr(call, "batch", 1);
  bool lower = BoolAttr(call, "lower", true);
  DType dtype = DTypeOf(program, step.uses[0]);
  std::vector<Complex> a(static_cast<size_t>(n * n));
  for (int64_t i = 0; n > 0 && i < batch; ++i) {
    LoadC128(dtype, memory[0].data() + i * n * n * ByteWidth(dtype), n * n, a.data());
    std::vector<Complex> l = LowerFactor(lower ? a : Conjugate(Transpose(a, n, n)), n);
    if (!lower) l = Conjugate(Transpose(l, n, n));
    StoreC128(dtype, l.data(), n * n, memory[1].data() + i * n * n * ByteWidth(dtype));
  }
  return {};
}

int64_t CholeskyCost(const Program&, const Step& step) {
  const auto& call = std::get<LibraryStep>(step.op);
  int64_t n = IntAttr(call, "n", 0);
  return SaturatingCost({IntAttr(call, "batch", 1), n, n, n});
}

struct SolveForm {
  int64_t m, n, order, batch;
  bool left_side;
};

SolveForm SolveFormOf(const LibraryStep& call) {
  int64_t m = IntAttr(call, "m", -1), n = IntAttr(call, "n", -1);
  bool left_side = BoolAttr(call, "left_side", true);
  return {m, n, left_side ? m : n, IntAttr(call, "batch", 1), left_side};
}

Status VerifyTriangularSolve(const Program& program, const Step& step) {
  constexpr std::string_view kName = "triangular_solve";
  TRY(CheckAccess(step, {Access::kRead, Access::kRead, Access::kWrite}, kName,
                  "(read a, read b, write x)"));
  if (!IsFieldType(program, step)) {
    return InvalidArgument("triangular_solve: does not take these types");
  }
  SolveForm f = SolveFormOf(std::get<LibraryStep>(step.op));
  int64_t size = Product({f.batch, f.m, f.n});
  TRY(CheckElements(program, step.uses[0], Product({f.batch, f.order, f.order}), kName, "a"));
  TRY(CheckElements(program, step.uses[1], size, kName, "b"));
  return CheckElements(program, step.uses[2], size, kName, "x");
}

Status InterpretTriangularSolve(const Program& program, const Step& step, int64_t,
                                std::span<const std::span<std::byte>> memory) {
  const auto& call = std::get<LibraryStep>(step.op);
  SolveForm f = SolveFormOf(call);
  DType dtype = DTypeOf(program, step.uses[0]);
  int64_t width = ByteWidth(dtype), size = f.m * f.n, n = f.order;
  for (int64_t i = 0; size > 0 && i < f.batch; ++i) {
    std::vector<Complex> a(static_cast<size_t>(n * n)), b(static_cast<size_t>(size));
    LoadC128(dtype, memory[0].data() + i * n * n * width, n * n, a.data());
    LoadC128(dtype, memory[1].data() + i * size * width, size, b.data());
    bool lower = BoolAttr(call, "lower", true);
    if (BoolAttr(call, "conjugate", false)) a = Conjugate(a);
    if (BoolAttr(call, "transpose", false)) a = Transpose(a, n, n), lower = !lower;
    // x a = b is a^T x^T = b^T.
    if (!f.left_side) a = Transpose(a, n, n), lower = !lower, b = Transpose(b, f.m, f.n);
    int64_t columns = f.left_side ? f.n : f.m;
    for (int64_t k = 0; k < n; ++k) {
      int64_t row = lower ? k : n - 1 - k;
      for (int64_t c = 0; c < columns; ++c) {
        Complex sum = b[row * columns + c];
        for (int64_t j = lower ? 0 : row + 1; j < (lower ? row : n); ++j) {
          sum -= a[row * n + j] * b[j * columns + c];
        }
        b[row * columns + c] =
            BoolAttr(call, "unit_diagonal", false) ? sum : sum / a[row * n + row];
      }
    }
    if (!f.left_side) b = Transpose(b, f.n, f.m);
    StoreC128(dtype, b.data(), size, memory[2].data() + i * size * width);
  }
  return {};
}

int64_t TriangularSolveCost(const Program&, const Step& step) {
  SolveForm f = SolveFormOf(std::get<LibraryStep>(step.op));
  return SaturatingCost({f.batch, f.m, f.n, f.order});
}

Status VerifyLu(const Program& program, const Step& step) {
  TRY(CheckAccess(step, {Access::kRead, Access::kWrite, Access::kWrite, Access::kWrite}, "lu",
                  "(read a, write factors, write pivots, write info)"));
  const auto& call = std::get<LibraryStep>(step.op);
  int64_t m = IntAttr(call, "m", -1), n = IntAttr(call, "n", -1), batch = IntAttr(call, "batch", 1);
  DType dtype = DTypeOf(program, step.uses[0]);
  if ((!IsFloat(dtype) && !IsComplex(dtype)) || DTypeOf(program, step.uses[1]) != dtype ||
      DTypeOf(program, step.uses[2]) != DType::kS32 ||
      DTypeOf(program, step.uses[3]) != DType::kS32) {
    return InvalidArgument("lu: does not take these types");
  }
  TRY(CheckElements(program, step.uses[0], Product({batch, m, n}), "lu", "a"));
  TRY(CheckElements(program, step.uses[1], Product({batch, m, n}), "lu", "the factors"));
  TRY(CheckElements(program, step.uses[2], Product({batch, std::min(m, n)}), "lu", "the pivots"));
  return CheckElements(program, step.uses[3], batch, "lu", "info");
}

// Returns info.
int32_t FactorLu(std::vector<Complex>& a, int64_t m, int64_t n, int32_t* pivots) {
  auto size = [](Complex x) { return std::fabs(x.real()) + std::fabs(x.imag()); };
  int32_t info = 0;
  for (int64_t k = 0; k < std::min(m, n); ++k) {
    int64_t best = k;
    for (int64_t i = k + 1; i < m; ++i) {
      if (size(a[i * n + k]) > size(a[best * n + k])) best = i;
    }
    pivots[k] = static_cast<int32_t>(best + 1);
    for (int64_t j = 0; best != k && j < n; ++j) std::swap(a[k * n + j], a[best * n + j]);
    if (a[k * n + k] == Complex()) {
      if (info == 0) info = static_cast<int32_t>(k + 1);
      continue;
    }
    for (int64_t i = k + 1; i < m; ++i) {
      a[i * n + k] /= a[k * n + k];
      for (int64_t j = k + 1; j < n; ++j) a[i * n + j] -= a[i * n + k] * a[k * n + j];
    }
  }
  return info;
}

Status InterpretLu(const Program& program, const Step& step, int64_t,
                   std::span<const std::span<std::byte>> memory) {
  const auto& call = std::get<LibraryStep>(step.op);
  int64_t m = IntAttr(call, "m", -1), n = IntAttr(call, "n", -1), batch = IntAttr(call, "batch", 1);
  DType dtype = DTypeOf(program, step.uses[0]);
  int64_t bytes = m * n * ByteWidth(dtype);
  std::vector<Complex> a(static_cast<size_t>(m * n));
  auto* pivots = reinterpret_cast<int32_t*>(memory[2].data());
  auto* info = reinterpret_cast<int32_t*>(memory[3].data());
  for (int64_t i = 0; i < batch; ++i) {
    info[i] = 0;
    if (m * n == 0) continue;
    LoadC128(dtype, memory[0].data() + i * bytes, m * n, a.data());
    info[i] = FactorLu(a, m, n, pivots + i * std::min(m, n));
    StoreC128(dtype, a.data(), m * n, memory[1].data() + i * bytes);
  }
  return {};
}

int64_t LuCost(const Program&, const Step& step) {
  const auto& call = std::get<LibraryStep>(step.op);
  int64_t m = IntAttr(call, "m", 0), n = IntAttr(call, "n", 0);
  return SaturatingCost({IntAttr(call, "batch", 1), m, n, std::min(m, n)});
}

}  // namespace

Routine LuRoutine() {
  return {"lu", VerifyLu, LuCost, InterpretLu};
}
Routine CholeskyRoutine() {
  return {"cholesky", VerifyCholesky, CholeskyCost, InterpretCholesky};
}
Routine TriangularSolveRoutine() {
  return {"triangular_solve", VerifyTriangularSolve, TriangularSolveCost, InterpretTriangularSolve};
}

}  // namespace weft::program
