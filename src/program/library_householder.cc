// householder_qr and householder_product, slowly: in complex<double> for all types.
#include <algorithm>
#include <cmath>
#include <complex>

#include "base/elements.h"
#include "program/library_routines.h"

namespace weft::program {
namespace {

using Complex = std::complex<double>;

struct MatrixSizes {
  int64_t m, n, k, batch;
};

MatrixSizes MatrixSizesOf(const LibraryStep& call) {
  int64_t m = IntAttr(call, "m", -1), n = IntAttr(call, "n", -1);
  return {m, n, IntAttr(call, "k", std::min(m, n)), IntAttr(call, "batch", 1)};
}

Status CheckMatrices(const Program& program, const Step& step, std::string_view routine,
                     size_t taus) {
  MatrixSizes s = MatrixSizesOf(std::get<LibraryStep>(step.op));
  if (s.m < 0 || s.n < 0 || s.batch < 0 || s.k < 0 || s.k > std::min(s.m, s.n)) {
    return InvalidArgument(routine, ": ", s.batch, " of ", s.m, " x ", s.n, " with ", s.k,
                           " reflectors");
  }
  DType dtype = DTypeOf(program, step.uses[0]);
  for (size_t i = 0; i < step.uses.size(); ++i) {
    if (DTypeOf(program, step.uses[i]) != dtype || (!IsFloat(dtype) && !IsComplex(dtype))) {
      return InvalidArgument(routine, ": does not take these types");
    }
    int64_t elements = i == taus ? Product({s.batch, s.k}) : Product({s.batch, s.m, s.n});
    TRY(CheckElements(program, step.uses[i], elements, routine, i == taus ? "taus" : "a matrix"));
  }
  return {};
}

Status VerifyQr(const Program& program, const Step& step) {
  TRY(CheckAccess(step, {Access::kRead, Access::kWrite, Access::kWrite}, "householder_qr",
                  "(read a, write factors, write taus)"));
  MatrixSizes s = MatrixSizesOf(std::get<LibraryStep>(step.op));
  if (s.k != std::min(s.m, s.n)) return InvalidArgument("householder_qr: takes no k");
  return CheckMatrices(program, step, "householder_qr", 2);
}

Status VerifyProduct(const Program& program, const Step& step) {
  TRY(CheckAccess(step, {Access::kRead, Access::kRead, Access::kWrite}, "householder_product",
                  "(read factors, read taus, write q)"));
  return CheckMatrices(program, step, "householder_product", 1);
}

// Columns [first, n) of c become (I - tau v v^H) c, with v in column j of a. Both are m x n.
void Reflect(const std::vector<Complex>& a, const MatrixSizes& s, int64_t j, Complex tau,
             std::vector<Complex>& c, int64_t first) {
  auto v = [&](int64_t i) { return i == j ? Complex(1) : a[i * s.n + j]; };
  for (int64_t col = first; col < s.n; ++col) {
    Complex sum = 0;
    for (int64_t i = j; i < s.m; ++i) sum += std::conj(v(i)) * c[i * s.n + col];
    for (int64_t i = j; i < s.m; ++i) c[i * s.n + col] -= tau * v(i) * sum;
  }
}

void Factor(std::vector<Complex>& a, const MatrixSizes& s, std::vector<Complex>& taus) {
  for (int64_t j = 0; j < s.k; ++j) {
    Complex alpha = a[j * s.n + j];
    double below = 0;
    for (int64_t i = j + 1; i < s.m; ++i) below = std::hypot(below, std::abs(a[i * s.n + j]));
    taus[j] = 0;
    if (below == 0 && alpha.imag() == 0) continue;
    double norm = std::hypot(std::abs(alpha), below);
    double beta = alpha.real() >= 0 ? -norm : norm;
    for (int64_t i = j + 1; i < s.m; ++i) a[i * s.n + j] /= alpha - beta;
    taus[j] = (beta - alpha) / beta;
    Reflect(a, s, j, std::conj(taus[j]), a, j + 1);
    a[j * s.n + j] = beta;
  }
}

Status InterpretHouseholder(const Program& program, const Step& step,
                            std::span<const std::span<std::byte>> memory, bool product) {
  MatrixSizes s = MatrixSizesOf(std::get<LibraryStep>(step.op));
  DType dtype = DTypeOf(program, step.uses[0]);
  int64_t size = s.m * s.n, bytes = ByteWidth(dtype);
  std::vector<Complex> a(static_cast<size_t>(size)), taus(static_cast<size_t>(s.k));
  for (int64_t i = 0; size > 0 && i < s.batch; ++i) {
    LoadC128(dtype, memory[0].data() + i * size * bytes, size, a.data());
    if (!product) {
      Factor(a, s, taus);
      StoreC128(dtype, a.data(), size, memory[1].data() + i * size * bytes);
      StoreC128(dtype, taus.data(), s.k, memory[2].data() + i * s.k * bytes);
      continue;
    }
    LoadC128(dtype, memory[1].data() + i * s.k * bytes, s.k, taus.data());
    std::vector<Complex> q(a.size());
    for (int64_t d = 0; d < std::min(s.m, s.n); ++d) q[d * s.n + d] = 1;
    for (int64_t j = s.k; j-- > 0;) Reflect(a, s, j, taus[j], q, 0);
    StoreC128(dtype, q.data(), size, memory[2].data() + i * size * bytes);
  }
  return {};
}

Status InterpretQr(const Program& program, const Step& step, int64_t,
                   std::span<const std::span<std::byte>> memory) {
  return InterpretHouseholder(program, step, memory, false);
}

Status InterpretProduct(const Program& program, const Step& step, int64_t,
                        std::span<const std::span<std::byte>> memory) {
  return InterpretHouseholder(program, step, memory, true);
}

int64_t HouseholderCost(const Program&, const Step& step) {
  MatrixSizes s = MatrixSizesOf(std::get<LibraryStep>(step.op));
  return SaturatingCost({s.batch, s.m, s.n, s.k, 4});
}

}  // namespace

Routine HouseholderQrRoutine() {
  return {"householder_qr", VerifyQr, HouseholderCost, InterpretQr};
}
Routine HouseholderProductRoutine() {
  return {"householder_product", VerifyProduct, HouseholderCost, InterpretProduct};
}

}  // namespace weft::program
