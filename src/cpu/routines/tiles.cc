#include "cpu/routines/tiles.h"

// Vectors are the compilers' extension, so that one body serves every width. Bodies are inlined
// into functions that carry the target attribute; multiplications and additions are contracted
// (the option is set for this file alone).
#if defined(__clang__)
#define WEFT_UNROLL _Pragma("clang loop unroll(full)")
#else
#define WEFT_UNROLL _Pragma("GCC unroll 16")
#endif
#define WEFT_INLINE [[gnu::always_inline]] inline

namespace weft::cpu {
namespace {

template <class T>
WEFT_INLINE T Combined(T sum, T alpha, T beta, T old) {
  return alpha * sum + beta * old;
}

template <class T, int kBytes, int kRows, int kVectors>
WEFT_INLINE void PackedTile(int64_t k, const T* a, const T* b, T* c, int64_t ldc, T alpha, T beta) {
  typedef T Vector __attribute__((vector_size(kBytes)));
  constexpr int kLanes = kBytes / static_cast<int>(sizeof(T));
  Vector sums[kRows][kVectors];
  WEFT_UNROLL for (int i = 0; i < kRows; ++i) {
    WEFT_UNROLL for (int v = 0; v < kVectors; ++v) sums[i][v] = Vector{};
  }
  for (int64_t p = 0; p < k; ++p) {
    Vector row[kVectors];
    __builtin_memcpy(row, b, sizeof(row));
#if defined(__aarch64__)
    // Lanes of a loaded vector are operands of multiplications.
    constexpr int kColumnVectors = (kRows + kLanes - 1) / kLanes;
    static_assert(kRows % kLanes == 0);
    Vector column[kColumnVectors];
    __builtin_memcpy(column, a, sizeof(column));
    WEFT_UNROLL for (int i = 0; i < kRows; ++i) {
      T x = column[i / kLanes][i % kLanes];
      WEFT_UNROLL for (int v = 0; v < kVectors; ++v) sums[i][v] += row[v] * x;
    }
#else
    WEFT_UNROLL for (int i = 0; i < kRows; ++i) {
      T x = a[i];
      WEFT_UNROLL for (int v = 0; v < kVectors; ++v) sums[i][v] += row[v] * x;
    }
#endif
    a += kRows;
    b += kVectors * kLanes;
  }
  WEFT_UNROLL for (int i = 0; i < kRows; ++i) {
    WEFT_UNROLL for (int v = 0; v < kVectors; ++v) {
      T* to = c + i * ldc + v * kLanes;
      Vector old = {};
      if (beta != 0) __builtin_memcpy(&old, to, sizeof(old));
      Vector out = sums[i][v] * alpha;
      if (beta != 0) out += old * beta;
      __builtin_memcpy(to, &out, sizeof(out));
    }
  }
}

// kRows rows of c, columns [0, kVectors * lanes), without packing. Lanes below `skip` of the last
// vector are not stored: they were done before.
template <class T, int kBytes, int kRows, int kVectors>
WEFT_INLINE void DirectTile(int64_t k, const T* a, int64_t a_row, int64_t a_k, const T* b,
                            int64_t b_k, T* c, int64_t ldc, T alpha, T beta, int skip) {
  typedef T Vector __attribute__((vector_size(kBytes)));
  constexpr int kLanes = kBytes / static_cast<int>(sizeof(T));
  Vector sums[kRows][kVectors];
  WEFT_UNROLL for (int i = 0; i < kRows; ++i) {
    WEFT_UNROLL for (int v = 0; v < kVectors; ++v) sums[i][v] = Vector{};
  }
  for (int64_t p = 0; p < k; ++p) {
    Vector row[kVectors];
    __builtin_memcpy(row, b + p * b_k, sizeof(row));
    WEFT_UNROLL for (int i = 0; i < kRows; ++i) {
      T x = a[i * a_row + p * a_k];
      WEFT_UNROLL for (int v = 0; v < kVectors; ++v) sums[i][v] += row[v] * x;
    }
  }
  WEFT_UNROLL for (int i = 0; i < kRows; ++i) {
    WEFT_UNROLL for (int v = 0; v < kVectors; ++v) {
      T* to = c + i * ldc + v * kLanes;
      Vector old = {};
      if (beta != 0) __builtin_memcpy(&old, to, sizeof(old));
      Vector out = sums[i][v] * alpha;
      if (beta != 0) out += old * beta;
      if (skip == 0) {
        __builtin_memcpy(to, &out, sizeof(out));
      } else {
        for (int lane = skip; lane < kLanes; ++lane) to[lane] = out[lane];
      }
    }
  }
}

template <class T, int kBytes, int kRows, int kVectors>
WEFT_INLINE void DirectRows(int64_t n, int64_t k, const T* a, int64_t a_row, int64_t a_k,
                            const T* b, int64_t b_k, T* c, int64_t ldc, T alpha, T beta) {
  constexpr int kLanes = kBytes / static_cast<int>(sizeof(T));
  int64_t j = 0;
  for (; j + kVectors * kLanes <= n; j += kVectors * kLanes) {
    DirectTile<T, kBytes, kRows, kVectors>(k, a, a_row, a_k, b + j, b_k, c + j, ldc, alpha, beta,
                                           0);
  }
  for (; j + kLanes <= n; j += kLanes) {
    DirectTile<T, kBytes, kRows, 1>(k, a, a_row, a_k, b + j, b_k, c + j, ldc, alpha, beta, 0);
  }
  if (j < n) {  // the last vector overlaps the one before
    int64_t from = n - kLanes;
    DirectTile<T, kBytes, kRows, 1>(k, a, a_row, a_k, b + from, b_k, c + from, ldc, alpha, beta,
                                    static_cast<int>(j - from));
  }
}

template <class T, int kBytes, int kRows, int kVectors>
WEFT_INLINE void DirectProduct(int64_t m, int64_t n, int64_t k, const T* a, int64_t a_row,
                               int64_t a_k, const T* b, int64_t b_k, T* c, int64_t ldc, T alpha,
                               T beta) {
  int64_t i = 0;
  for (; i + kRows <= m; i += kRows) {
    DirectRows<T, kBytes, kRows, kVectors>(n, k, a + i * a_row, a_row, a_k, b, b_k, c + i * ldc,
                                           ldc, alpha, beta);
  }
  for (; i + 4 <= m; i += 4) {
    DirectRows<T, kBytes, 4, kVectors>(n, k, a + i * a_row, a_row, a_k, b, b_k, c + i * ldc, ldc,
                                       alpha, beta);
  }
  for (; i + 2 <= m; i += 2) {
    DirectRows<T, kBytes, 2, 2 * kVectors>(n, k, a + i * a_row, a_row, a_k, b, b_k, c + i * ldc,
                                           ldc, alpha, beta);
  }
  for (; i < m; ++i) {
    DirectRows<T, kBytes, 1, 4 * kVectors>(n, k, a + i * a_row, a_row, a_k, b, b_k, c + i * ldc,
                                           ldc, alpha, beta);
  }
}

template <class T, int kBytes, int kRows>
WEFT_INLINE void DotRows(int64_t k, const T* a, int64_t a_row, const T* x, T* sums) {
  typedef T Vector __attribute__((vector_size(kBytes)));
  constexpr int kLanes = kBytes / static_cast<int>(sizeof(T)), kVectors = 4;
  Vector parts[kRows][kVectors];
  WEFT_UNROLL for (int i = 0; i < kRows; ++i) {
    WEFT_UNROLL for (int v = 0; v < kVectors; ++v) parts[i][v] = Vector{};
  }
  int64_t p = 0;
  for (; p + kVectors * kLanes <= k; p += kVectors * kLanes) {
    Vector factors[kVectors];
    __builtin_memcpy(factors, x + p, sizeof(factors));
    WEFT_UNROLL for (int i = 0; i < kRows; ++i) {
      Vector row[kVectors];
      __builtin_memcpy(row, a + i * a_row + p, sizeof(row));
      WEFT_UNROLL for (int v = 0; v < kVectors; ++v) parts[i][v] += row[v] * factors[v];
    }
  }
  for (int i = 0; i < kRows; ++i) {
    Vector all = (parts[i][0] + parts[i][1]) + (parts[i][2] + parts[i][3]);
    T sum = 0;
    for (int lane = 0; lane < kLanes; ++lane) sum += all[lane];
    for (int64_t rest = p; rest < k; ++rest) sum += a[i * a_row + rest] * x[rest];
    sums[i] = sum;
  }
}

template <class T, int kBytes>
WEFT_INLINE void RowsTimesVector(int64_t m, int64_t k, const T* a, int64_t a_row, const T* x, T* c,
                                 int64_t c_row, T alpha, T beta) {
  for (int64_t i = 0; i < m;) {
    T sums[4];
    int64_t n = m - i >= 4 ? 4 : 1;
    if (n == 4) {
      DotRows<T, kBytes, 4>(k, a + i * a_row, a_row, x, sums);
    } else {
      DotRows<T, kBytes, 1>(k, a + i * a_row, a_row, x, sums);
    }
    for (int64_t r = 0; r < n; ++r, ++i) {
      T& to = c[i * c_row];
      to = Combined(sums[r], alpha, beta, beta != 0 ? to : T(0));
    }
  }
}

// The functions of one machine: WEFT_TILES(name, target attribute, bytes of a vector, rows, vectors
// of a row of the tile).
#define WEFT_TILES(NAME, TARGET, BYTES, ROWS, VECTORS)                                           \
  template <class T>                                                                             \
  TARGET void Packed##NAME(int64_t k, const T* a, const T* b, T* c, int64_t ldc, T alpha,        \
                           T beta) {                                                             \
    PackedTile<T, BYTES, ROWS, VECTORS>(k, a, b, c, ldc, alpha, beta);                           \
  }                                                                                              \
  template <class T>                                                                             \
  TARGET void Direct##NAME(int64_t m, int64_t n, int64_t k, const T* a, int64_t a_row,           \
                           int64_t a_k, const T* b, int64_t b_k, T* c, int64_t ldc, T alpha,     \
                           T beta) {                                                             \
    DirectProduct<T, BYTES, ROWS, VECTORS>(m, n, k, a, a_row, a_k, b, b_k, c, ldc, alpha, beta); \
  }                                                                                              \
  template <class T>                                                                             \
  TARGET void Rows##NAME(int64_t m, int64_t k, const T* a, int64_t a_row, const T* x, T* c,      \
                         int64_t c_row, T alpha, T beta) {                                       \
    RowsTimesVector<T, BYTES>(m, k, a, a_row, x, c, c_row, alpha, beta);                         \
  }                                                                                              \
  template <class T>                                                                             \
  constexpr TileKernel<T> kTiles##NAME = {                                                       \
      BYTES / int{sizeof(T)}, ROWS,         VECTORS * BYTES / int{sizeof(T)}, Packed##NAME<T>,   \
      Direct##NAME<T>,        Rows##NAME<T>};

#if defined(__x86_64__)
WEFT_TILES(Sse2, , 16, 4, 2)
WEFT_TILES(Avx2, __attribute__((target("avx2,fma"))), 32, 6, 2)
WEFT_TILES(Avx512, __attribute__((target("avx512f,avx512dq,avx2,fma"))), 64, 8, 3)

bool HasAvx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
bool HasAvx512() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
}

template <class T>
const TileKernel<T>* Find(int64_t max_lanes) {
  static const bool avx2 = HasAvx2(), avx512 = HasAvx512();
  if (avx512 && kTilesAvx512<T>.lanes <= max_lanes) return &kTilesAvx512<T>;
  if (avx2 && kTilesAvx2<T>.lanes <= max_lanes) return &kTilesAvx2<T>;
  return kTilesSse2<T>.lanes <= max_lanes ? &kTilesSse2<T> : nullptr;
}
#else
WEFT_TILES(Wide, , 16, 8, 3)

template <class T>
const TileKernel<T>* Find(int64_t max_lanes) {
  return kTilesWide<T>.lanes <= max_lanes ? &kTilesWide<T> : nullptr;
}
#endif

}  // namespace

template <>
const TileKernel<float>* FindTileKernel<float>(int64_t max_lanes) {
  return Find<float>(max_lanes);
}
template <>
const TileKernel<double>* FindTileKernel<double>(int64_t max_lanes) {
  return Find<double>(max_lanes);
}
template <>
const TileKernel<uint32_t>* FindTileKernel<uint32_t>(int64_t max_lanes) {
  return Find<uint32_t>(max_lanes);
}
template <>
const TileKernel<uint64_t>* FindTileKernel<uint64_t>(int64_t max_lanes) {
  return Find<uint64_t>(max_lanes);
}

}  // namespace weft::cpu
