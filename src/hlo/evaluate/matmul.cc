#include "hlo/evaluate/matmul.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "base/elements.h"
#include "base/thread_pool.h"

namespace weft::hlo {
namespace {

constexpr int64_t kBlockM = 64, kBlockN = 128, kBlockK = 256;  // blocks of one task
constexpr int64_t kTileM = 4;                                  // rows of the innermost tile
constexpr int64_t kTaskWork = 1 << 16;                         // products worth a task

// The innermost loops on integers and double, in vectors of so many bytes.
template <class T, int bytes>
struct TileLoops {
  static constexpr int64_t kLanes = bytes / static_cast<int64_t>(sizeof(T));
  static constexpr int64_t kTileN = 64 / static_cast<int64_t>(sizeof(T));
  static constexpr int64_t kVectors = kTileN / kLanes;
  typedef T Vector __attribute__((vector_size(bytes), aligned(8)));

  // Where products are exact, multiplying and adding in one instruction gives the same bits.
  template <bool exact>
  [[gnu::always_inline]] static inline void MultiplyAdd(Vector& acc, const Vector& x, T y) {
    if constexpr (exact) {
#if defined(__clang__)
#pragma clang fp contract(fast)
#endif
      acc += x * y;
    } else {
      acc += x * y;
    }
  }

  template <bool exact>
  [[gnu::always_inline]] static inline void Multiply(const T* a, const T* b, int64_t k, T* c,
                                                     int64_t stride) {
    Vector acc[kTileM][kVectors];
    for (int64_t i = 0; i < kTileM; ++i) {
      for (int64_t j = 0; j < kVectors; ++j) {
        std::memcpy(&acc[i][j], c + i * stride + j * kLanes, sizeof(Vector));
      }
    }
    for (int64_t p = 0; p < k; ++p) {
      Vector row[kVectors];
      std::memcpy(&row, b + p * kTileN, sizeof(row));
      for (int64_t i = 0; i < kTileM; ++i) {
        T x = a[p * kTileM + i];
        for (int64_t j = 0; j < kVectors; ++j) MultiplyAdd<exact>(acc[i][j], row[j], x);
      }
    }
    for (int64_t i = 0; i < kTileM; ++i) {
      for (int64_t j = 0; j < kVectors; ++j) {
        std::memcpy(c + i * stride + j * kLanes, &acc[i][j], sizeof(Vector));
      }
    }
  }
};

template <class T>
struct TileKernel {
  static constexpr int64_t kTileN = TileLoops<T, 16>::kTileN;

#if defined(__x86_64__)
  [[gnu::target("avx2,fma")]] static void RunAvx2(const T* a, const T* b, int64_t k, T* c,
                                                  int64_t stride, bool exact) {
    exact ? TileLoops<T, 32>::template Multiply<true>(a, b, k, c, stride)
          : TileLoops<T, 32>::template Multiply<false>(a, b, k, c, stride);
  }
#endif

  // c[kTileM][stride] += a[k][kTileM] * b[k][kTileN]
  static void Run(const T* a, const T* b, int64_t k, T* c, int64_t stride, bool exact) {
#if defined(__x86_64__)
    static const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (avx2) return RunAvx2(a, b, k, c, stride, exact);
#endif
    exact ? TileLoops<T, 16>::template Multiply<true>(a, b, k, c, stride)
          : TileLoops<T, 16>::template Multiply<false>(a, b, k, c, stride);
  }
};

template <>
struct TileKernel<std::complex<double>> {
  using T = std::complex<double>;
  static constexpr int64_t kTileN = 4;
  static void Run(const T* a, const T* b, int64_t k, T* c, int64_t stride, bool) {
    for (int64_t i = 0; i < kTileM; ++i) {
      double re[kTileN], im[kTileN];
      for (int64_t j = 0; j < kTileN; ++j) {
        re[j] = c[i * stride + j].real(), im[j] = c[i * stride + j].imag();
      }
      for (int64_t p = 0; p < k; ++p) {
        double x = a[p * kTileM + i].real(), y = a[p * kTileM + i].imag();
        for (int64_t j = 0; j < kTileN; ++j) {
          double u = b[p * kTileN + j].real(), v = b[p * kTileN + j].imag();
          re[j] += x * u - y * v;
          im[j] += x * v + y * u;
        }
      }
      for (int64_t j = 0; j < kTileN; ++j) c[i * stride + j] = {re[j], im[j]};
    }
  }
};

int64_t RoundUpTo(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

// From row-major [rows][cols] to panels of `tile` rows, [rows/tile][cols][tile], padded with 0.
template <class T>
void PackRows(const T* from, int64_t rows, int64_t cols, int64_t tile, T* to) {
  for (int64_t r = 0; r < rows; r += tile, to += tile * cols) {
    int64_t n = std::min(tile, rows - r);
    if (n < tile) std::fill_n(to, tile * cols, T());
    for (int64_t i = 0; i < n; ++i) {
      const T* row = from + (r + i) * cols;
      for (int64_t c = 0; c < cols; ++c) to[c * tile + i] = row[c];
    }
  }
}

// From row-major [rows][cols] to panels of `tile` columns, [cols/tile][rows][tile].
template <class T>
void PackCols(const T* from, int64_t rows, int64_t cols, int64_t tile, T* to) {
  for (int64_t c = 0; c < cols; c += tile, to += tile * rows) {
    int64_t n = std::min(tile, cols - c);
    for (int64_t r = 0; r < rows; ++r) {
      std::copy_n(from + r * cols + c, n, to + r * tile);
      std::fill_n(to + r * tile + n, tile - n, T());
    }
  }
}

// Memory of one thread's tasks.
template <class T>
struct MatMulScratch {
  std::vector<T> loaded, a, b, c;
};

template <class T>
void MatMulBlock(const MatMulSizes& s, const MatrixSource<T>& a, const MatrixSource<T>& b,
                 int64_t batch, int64_t row, int64_t col, MatMulScratch<T>& scratch) {
  using Kernel = TileKernel<T>;
  int64_t rows = std::min(kBlockM, s.m - row), cols = std::min(kBlockN, s.n - col);
  int64_t padded_rows = RoundUpTo(rows, kTileM), padded_cols = RoundUpTo(cols, Kernel::kTileN);
  int64_t depth = std::min(kBlockK, s.k);
  scratch.loaded.resize(static_cast<size_t>(std::max(rows, cols) * depth));
  scratch.a.resize(static_cast<size_t>(padded_rows * depth));
  scratch.b.resize(static_cast<size_t>(padded_cols * depth));
  scratch.c.assign(static_cast<size_t>(padded_rows * padded_cols), T());
  for (int64_t p = 0; p < s.k; p += kBlockK) {
    int64_t ks = std::min(kBlockK, s.k - p);
    a.Load(batch, row, rows, p, ks, scratch.loaded.data());
    PackRows(scratch.loaded.data(), rows, ks, kTileM, scratch.a.data());
    b.Load(batch, p, ks, col, cols, scratch.loaded.data());
    PackCols(scratch.loaded.data(), ks, cols, Kernel::kTileN, scratch.b.data());
    for (int64_t j = 0; j < padded_cols; j += Kernel::kTileN) {
      for (int64_t i = 0; i < padded_rows; i += kTileM) {
        Kernel::Run(scratch.a.data() + i * ks, scratch.b.data() + j * ks, ks,
                    scratch.c.data() + i * padded_cols + j, padded_cols, s.exact);
      }
    }
  }
}

}  // namespace

template <class T>
void MatMul(const MatMulSizes& s, const MatrixSource<T>& a, const MatrixSource<T>& b,
            DenseMatrices c_form, std::byte* c) {
  int64_t row_blocks = (s.m + kBlockM - 1) / kBlockM, col_blocks = (s.n + kBlockN - 1) / kBlockN;
  int64_t tasks = s.batch * row_blocks * col_blocks;
  int64_t work = std::min(s.m, kBlockM) * std::min(s.n, kBlockN) * std::max<int64_t>(s.k, 1);
  int64_t grain = std::max<int64_t>(1, kTaskWork / std::max<int64_t>(work, 1));
  DefaultPool().ParallelFor(tasks, grain, [&](int64_t begin, int64_t end) {
    MatMulScratch<T> scratch;
    for (int64_t task = begin; task < end; ++task) {
      int64_t col = task % col_blocks * kBlockN;
      int64_t row = task / col_blocks % row_blocks * kBlockM;
      int64_t batch = task / col_blocks / row_blocks;
      MatMulBlock(s, a, b, batch, row, col, scratch);
      int64_t rows = std::min(kBlockM, s.m - row), cols = std::min(kBlockN, s.n - col);
      int64_t stride = RoundUpTo(cols, TileKernel<T>::kTileN);
      for (int64_t r = 0; r < rows; ++r) {
        StoreElements<T>(c_form.dtype, scratch.c.data() + r * stride, cols,
                         c + c_form.Offset(batch, row + r, col));
      }
    }
  });
}

template <>
void LoadElements(DType from, const std::byte* src, int64_t n, double* dst) {
  if (from != DType::kF32) return LoadF64(from, src, n, dst);
  const float* f = reinterpret_cast<const float*>(src);
  for (int64_t i = 0; i < n; ++i) dst[i] = f[i];
}

template <>
void LoadElements(DType from, const std::byte* src, int64_t n, uint64_t* dst) {
  LoadI64(from, src, n, reinterpret_cast<int64_t*>(dst));
}

template <>
void LoadElements(DType from, const std::byte* src, int64_t n, uint32_t* dst) {
  ConvertElements(from, src, DType::kU32, reinterpret_cast<std::byte*>(dst), n);
}

template <>
void LoadElements(DType from, const std::byte* src, int64_t n, std::complex<double>* dst) {
  LoadC128(from, src, n, dst);
}

template <>
void StoreElements(DType to, const double* src, int64_t n, std::byte* dst) {
  StoreF64(to, src, n, dst);
}

template <>
void StoreElements(DType to, const uint64_t* src, int64_t n, std::byte* dst) {
  StoreI64(to, reinterpret_cast<const int64_t*>(src), n, dst);
}

template <>
void StoreElements(DType to, const uint32_t* src, int64_t n, std::byte* dst) {
  ConvertElements(DType::kU32, reinterpret_cast<const std::byte*>(src), to, dst, n);
}

template <>
void StoreElements(DType to, const std::complex<double>* src, int64_t n, std::byte* dst) {
  StoreC128(to, src, n, dst);
}

#define WEFT_MATMUL(T)                                                                        \
  template void MatMul<T>(const MatMulSizes&, const MatrixSource<T>&, const MatrixSource<T>&, \
                          DenseMatrices, std::byte*);
WEFT_MATMUL(double)
WEFT_MATMUL(uint32_t)
WEFT_MATMUL(uint64_t)
WEFT_MATMUL(std::complex<double>)
#undef WEFT_MATMUL

}  // namespace weft::hlo
