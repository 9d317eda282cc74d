#include "cpu/routines/tiles.h"

#include <algorithm>
#include <vector>

#include "cpu/routines/dot_bodies.h"
#include "cpu/routines/tile_bodies.h"

namespace weft::cpu {
namespace {

// The functions of one machine: WEFT_TILES(name, target attribute, bytes of a vector, rows, vectors
// of a row of the tile). WEFT_PACKED_TILES: those for packed operands alone.
#define WEFT_PACKED_TILE(NAME, TARGET, BYTES, ROWS, VECTORS)                                       \
  template <class T>                                                                               \
  TARGET void Packed##NAME(int64_t k, const T* a, const T* b, T* c, int64_t ldc, T alpha,          \
                           T beta) {                                                               \
    Tile<T, BYTES, ROWS, VECTORS, kDeep>(k, a, b, VECTORS * BYTES / int{sizeof(T)}, c, ldc, alpha, \
                                         beta, ROWS, 0);                                           \
  }                                                                                                \
  template <class T>                                                                               \
  TARGET void FromRows##NAME(int64_t runs, const void* const* table, const T* b, T* c,             \
                             int64_t ldc, T alpha, T beta) {                                       \
    TileFromRows<T, BYTES, ROWS, VECTORS>(runs, table, b, c, ldc, alpha, beta);                    \
  }                                                                                                \
  template <class T>                                                                               \
  TARGET void Lying##NAME(int64_t k, const T* a, int64_t a_k, const T* b, int64_t b_k, T* c,       \
                          int64_t ldc, T beta) {                                                   \
    Tile<T, BYTES, ROWS, VECTORS, kDeep, 0>(k, a, b, b_k, c, ldc, T(1), beta, ROWS, 0, a_k);       \
  }                                                                                                \
  template <class T>                                                                               \
  constexpr auto kLying##NAME = kReadsRows ? Lying##NAME<T> : nullptr;                             \
  template <class T>                                                                               \
  constexpr auto kFromRows##NAME = ROWS <= kMostPointers ? FromRows##NAME<T> : nullptr;
#define WEFT_PACKED_TILES(NAME, TARGET, BYTES, ROWS, VECTORS)               \
  WEFT_PACKED_TILE(NAME, TARGET, BYTES, ROWS, VECTORS)                      \
  template <class T>                                                        \
  constexpr TileKernel<T> kTiles##NAME = {BYTES / int{sizeof(T)},           \
                                          ROWS,                             \
                                          VECTORS * BYTES / int{sizeof(T)}, \
                                          Packed##NAME<T>,                  \
                                          kFromRows##NAME<T>,               \
                                          kLying##NAME<T>,                  \
                                          nullptr,                          \
                                          nullptr,                          \
                                          nullptr,                          \
                                          0,                                \
                                          nullptr};
#define WEFT_TILES(NAME, TARGET, BYTES, ROWS, VECTORS)                                      \
  WEFT_PACKED_TILE(NAME, TARGET, BYTES, ROWS, VECTORS)                                      \
  template <class T>                                                                        \
  TARGET void Direct##NAME(int64_t used, int64_t n, int64_t k, const T* a, const T* b,      \
                           int64_t b_k, T* c, int64_t ldc, T alpha, T beta) {               \
    DirectRows<T, BYTES, ROWS, VECTORS>(used, n, k, a, b, b_k, c, ldc, alpha, beta);        \
  }                                                                                         \
  template <class T>                                                                        \
  TARGET void Grow##NAME(int64_t used, int64_t n, const T* a, const T* const* b, T* c,      \
                         int64_t ldc) {                                                     \
    Grow<T, BYTES>(used, n, a, b, c, ldc);                                                  \
  }                                                                                         \
  template <class T>                                                                        \
  TARGET void Rows##NAME(int64_t m, int64_t k, const T* a, int64_t a_row, const T* x, T* c, \
                         int64_t c_row, T alpha, T beta) {                                  \
    RowsTimesVector<T, BYTES>(m, k, a, a_row, x, c, c_row, alpha, beta);                    \
  }                                                                                         \
  template <class T>                                                                        \
  TARGET void Dots##NAME(int64_t k, const T* a, int64_t a_row, const T* b, int64_t b_row,   \
                         DotSum<T>* sums) {                                                 \
    DotSquareRows<T, BYTES>(k, a, a_row, b, b_row, sums);                                   \
  }                                                                                         \
  template <class T>                                                                        \
  constexpr TileKernel<T> kTiles##NAME = {BYTES / int{sizeof(T)},                           \
                                          ROWS,                                             \
                                          VECTORS * BYTES / int{sizeof(T)},                 \
                                          Packed##NAME<T>,                                  \
                                          kFromRows##NAME<T>,                               \
                                          kLying##NAME<T>,                                  \
                                          Direct##NAME<T>,                                  \
                                          Grow##NAME<T>,                                    \
                                          Rows##NAME<T>,                                    \
                                          kDotRowsOf<BYTES>,                                \
                                          Dots##NAME<T>};

// Of a, that squares of dot products pay for: registers are for the sums of a square and for one
// vector of each of its rows and columns.
template <int kBytes>
constexpr int64_t kDotRowsOf = !kReadsRows    ? 2 * kDotSquare
                               : kBytes >= 64 ? kDotSquare * kDotSquare
                                              : 0;

#if defined(__x86_64__)
WEFT_TILES(Sse2, , 16, 4, 2)
#define WEFT_AVX2 __attribute__((target("avx2,fma")))
#define WEFT_AVX512 __attribute__((target("avx512f,avx512dq,avx2,fma")))
WEFT_TILES(Avx2, WEFT_AVX2, 32, 6, 2)
WEFT_PACKED_TILES(Avx2One, WEFT_AVX2, 32, 12, 1)
WEFT_TILES(Avx512, WEFT_AVX512, 64, 8, 3)
WEFT_PACKED_TILES(Avx512Two, WEFT_AVX512, 64, 12, 2)
WEFT_PACKED_TILES(Avx512One, WEFT_AVX512, 64, 16, 1)
WEFT_PACKED_TILES(Avx512OneOfRows, WEFT_AVX512, 64, 12, 1)

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

// Tiles of packed operands on this machine, the widest first.
template <class T>
std::vector<const TileKernel<T>*> PackedTiles() {
  if (HasAvx512()) return {&kTilesAvx512<T>, &kTilesAvx512Two<T>, &kTilesAvx512One<T>};
  if (HasAvx2()) return {&kTilesAvx2<T>, &kTilesAvx2One<T>};
  return {&kTilesSse2<T>};
}

// By columns.
template <class T>
std::vector<const TileKernel<T>*> RowTiles() {
  if (HasAvx512()) return {&kTilesAvx512OneOfRows<T>, &kTilesAvx512Two<T>, &kTilesAvx512<T>};
  if (HasAvx2()) return {&kTilesAvx2One<T>, &kTilesAvx2<T>};
  return {&kTilesSse2<T>};
}
#else
WEFT_TILES(Wide, , 16, 8, 3)
WEFT_PACKED_TILES(WideTwo, , 16, 12, 2)
WEFT_PACKED_TILES(WideOne, , 16, 16, 1)

template <class T>
const TileKernel<T>* Find(int64_t max_lanes) {
  return kTilesWide<T>.lanes <= max_lanes ? &kTilesWide<T> : nullptr;
}

template <class T>
std::vector<const TileKernel<T>*> PackedTiles() {
  return {&kTilesWide<T>, &kTilesWideTwo<T>, &kTilesWideOne<T>};
}

template <class T>
std::vector<const TileKernel<T>*> RowTiles() {
  return {};
}
#endif

// What n columns take: those that are computed, each with its share of the loads.
template <class T>
double CostOf(const TileKernel<T>& tile, int64_t n) {
  double rows = tile.rows, vectors = static_cast<double>(tile.cols) / tile.lanes;
  auto computed = static_cast<double>((n + tile.cols - 1) / tile.cols * tile.cols);
  return computed * (2 + (rows + vectors) / (rows * vectors));
}

template <class T>
double CostOfLying(const TileKernel<T>& tile, int64_t m, int64_t n) {
  return static_cast<double>((m + tile.rows - 1) / tile.rows * tile.rows) * CostOf(tile, n);
}

template <class T>
const TileKernel<T>& For(int64_t n) {
  static const std::vector<const TileKernel<T>*> tiles = PackedTiles<T>();
  return **std::min_element(tiles.begin(), tiles.end(), [&](const auto* a, const auto* b) {
    return CostOf(*a, n) < CostOf(*b, n);
  });
}

}  // namespace

template <class T>
const TileKernel<T>* FindTileKernel(int64_t max_lanes) {
  return Find<T>(max_lanes);
}
template <class T>
const TileKernel<T>& TileKernelFor(int64_t n) {
  return For<T>(n);
}
template <class T>
const TileKernel<T>* RowTileFor(int64_t n) {
  static const std::vector<const TileKernel<T>*> tiles = RowTiles<T>();
  for (const TileKernel<T>* tile : tiles) {
    if (tile->cols >= n && tile->from_rows != nullptr) return tile;
  }
  return nullptr;
}
template <class T>
const TileKernel<T>* LyingTileFor(int64_t m, int64_t n) {
  static const std::vector<const TileKernel<T>*> tiles = PackedTiles<T>();
  const TileKernel<T>* best = nullptr;
  for (const TileKernel<T>* tile : tiles) {
    if (tile->lying == nullptr) continue;
    if (best == nullptr || CostOfLying(*tile, m, n) < CostOfLying(*best, m, n)) best = tile;
  }
  return best;
}
#define WEFT_INSTANTIATE(T)                                        \
  template const TileKernel<T>* LyingTileFor<T>(int64_t, int64_t); \
  template const TileKernel<T>* RowTileFor<T>(int64_t);            \
  template const TileKernel<T>* FindTileKernel<T>(int64_t);        \
  template const TileKernel<T>& TileKernelFor<T>(int64_t);
WEFT_INSTANTIATE(float)
WEFT_INSTANTIATE(double)
WEFT_INSTANTIATE(uint32_t)
WEFT_INSTANTIATE(uint64_t)
#undef WEFT_INSTANTIATE

}  // namespace weft::cpu
