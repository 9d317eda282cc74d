// gemm, slowly.
#include <algorithm>
#include <complex>
#include <span>

#include "base/elements.h"
#include "program/library_routines.h"

namespace weft::program {
namespace {

struct GemmSizes {
  int64_t m, n, k, batch;
  bool trans_a, trans_b;
  double alpha, beta;
};

GemmSizes SizesOf(const LibraryStep& call) {
  return {IntAttr(call, "m", -1),           IntAttr(call, "n", -1),
          IntAttr(call, "k", -1),           IntAttr(call, "batch", 1),
          BoolAttr(call, "trans_a", false), BoolAttr(call, "trans_b", false),
          DoubleAttr(call, "alpha", 1.0),   DoubleAttr(call, "beta", 0.0)};
}

Status CheckMatrix(const Program& program, const Use& use, int64_t batch, int64_t rows,
                   int64_t cols, std::string_view name) {
  int64_t elements, bytes;
  DType dtype = DTypeOf(program, use);
  if (__builtin_mul_overflow(rows, cols, &elements) ||
      __builtin_mul_overflow(elements, batch, &elements) ||
      __builtin_mul_overflow(elements, ByteWidth(dtype), &bytes) || bytes != use.slice.size) {
    return InvalidArgument("gemm: ", name, " is ", batch, " x ", rows, " x ", cols, " ",
                           weft::Name(dtype), " and its buffer has ", use.slice.size, " bytes");
  }
  return {};
}

Status VerifyGemm(const Program& program, const Step& step) {
  if (step.uses.size() < 3 || step.uses[0].access != Access::kRead ||
      step.uses[1].access != Access::kRead || !Writes(step.uses[2].access)) {
    return InvalidArgument("gemm: takes (read a, read b, write c)");
  }
  GemmSizes s = SizesOf(std::get<LibraryStep>(step.op));
  if (s.m < 0 || s.n < 0 || s.k < 0 || s.batch < 0) {
    return InvalidArgument("gemm: needs m, n and k");
  }
  if ((s.beta != 0) != Reads(step.uses[2].access)) {
    return InvalidArgument("gemm: beta is ", s.beta, " and c is a ", Name(step.uses[2].access),
                           " buffer");
  }
  DType c = DTypeOf(program, step.uses[2]);
  for (const Use& use : std::span(step.uses).first(3)) {
    DType dtype = DTypeOf(program, use);
    bool same_class = IsFloat(dtype) == IsFloat(c) && (IsFloat(dtype) || IsInteger(dtype));
    if (IsComplex(c)) same_class = dtype == c;
    if (!same_class) return InvalidArgument("gemm: does not take ", weft::Name(dtype));
  }
  TRY(CheckMatrix(program, step.uses[0], s.batch, s.m, s.k, "a"));
  TRY(CheckMatrix(program, step.uses[1], s.batch, s.k, s.n, "b"));
  TRY(CheckMatrix(program, step.uses[2], s.batch, s.m, s.n, "c"));
  return VerifyEpilogue(program, step, "gemm");
}

// T is what sums are kept in.
template <class T>
T FactorAs(double x) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<int64_t>(x));
  return static_cast<T>(x);
}

template <class T, class Load, class Store>
void RunGemm(const GemmSizes& s, Load load, Store store) {
  std::vector<T> a(s.m * s.k), b(s.k * s.n), c(s.m * s.n);
  for (int64_t i = 0; i < s.batch; ++i) {
    load(0, i * s.m * s.k, s.m * s.k, a.data());
    load(1, i * s.k * s.n, s.k * s.n, b.data());
    if (s.beta != 0) load(2, i * s.m * s.n, s.m * s.n, c.data());
    for (int64_t row = 0; row < s.m; ++row) {
      for (int64_t col = 0; col < s.n; ++col) {
        T sum = 0;
        for (int64_t j = 0; j < s.k; ++j) {
          sum += a[s.trans_a ? j * s.m + row : row * s.k + j] *
                 b[s.trans_b ? col * s.k + j : j * s.n + col];
        }
        T& out = c[row * s.n + col];
        T old = s.beta != 0 ? FactorAs<T>(s.beta) * out : T(0);
        out = FactorAs<T>(s.alpha) * sum + old;
      }
    }
    store(i * s.m * s.n, s.m * s.n, c.data());
  }
}

Status InterpretGemm(const Program& program, const Step& step, int64_t,
                     std::span<const std::span<std::byte>> memory) {
  GemmSizes s = SizesOf(std::get<LibraryStep>(step.op));
  if (s.batch == 0) return {};
  DType dtypes[3];
  for (int i = 0; i < 3; ++i) dtypes[i] = DTypeOf(program, step.uses[i]);
  auto at = [&](int use, int64_t element) {
    return memory[use].data() + element * ByteWidth(dtypes[use]);
  };
  if (IsComplex(dtypes[2])) {
    using Complex = std::complex<double>;
    RunGemm<Complex>(
        s, [&](int u, int64_t e, int64_t n, Complex* p) { LoadC128(dtypes[u], at(u, e), n, p); },
        [&](int64_t e, int64_t n, const Complex* p) { StoreC128(dtypes[2], p, n, at(2, e)); });
  } else if (dtypes[2] == DType::kF64) {
    RunGemm<double>(
        s, [&](int u, int64_t e, int64_t n, double* p) { LoadF64(dtypes[u], at(u, e), n, p); },
        [&](int64_t e, int64_t n, const double* p) { StoreF64(dtypes[2], p, n, at(2, e)); });
  } else if (IsFloat(dtypes[2])) {
    RunGemm<float>(
        s, [&](int u, int64_t e, int64_t n, float* p) { LoadF32(dtypes[u], at(u, e), n, p); },
        [&](int64_t e, int64_t n, const float* p) { StoreF32(dtypes[2], p, n, at(2, e)); });
  } else {
    RunGemm<uint64_t>(
        s,
        [&](int u, int64_t e, int64_t n, uint64_t* p) {
          LoadI64(dtypes[u], at(u, e), n, reinterpret_cast<int64_t*>(p));
        },
        [&](int64_t e, int64_t n, const uint64_t* p) {
          StoreI64(dtypes[2], reinterpret_cast<const int64_t*>(p), n, at(2, e));
        });
  }
  return InterpretEpilogue(program, step, memory);
}

int64_t GemmCost(const Program& program, const Step& step) {
  GemmSizes s = SizesOf(std::get<LibraryStep>(step.op));
  int64_t cost = std::max<int64_t>(s.batch, 1);
  for (int64_t n : {s.m, s.n, s.k}) {
    if (__builtin_mul_overflow(cost, std::max<int64_t>(n, 1), &cost)) return INT64_MAX;
  }
  return std::max(cost, EpilogueCost(program, step));
}

}  // namespace

Routine GemmRoutine() {
  return {"gemm", VerifyGemm, GemmCost, InterpretGemm};
}

}  // namespace weft::program
