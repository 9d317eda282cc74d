// AMX: tiles of 16 rows of 64 bytes. Four of them are the sums of 32 x 32 elements, two are the
// rows of a, two the columns of b: one load of a tile for each multiplication. For 16 rows and
// fewer sums are of 16 x 64 elements: a second tile of rows would be multiplied for nothing.
#include "cpu/routines/machine.h"
#include "cpu/routines/narrow_kernels.h"
#include "program/target_facts.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define WEFT_AMX __attribute__((target("amx-tile,amx-bf16,amx-int8")))
#endif

namespace weft::cpu {
namespace {

#if defined(__x86_64__)
constexpr int64_t kTileBytes =
                      program::TargetFacts::kTileRows * program::TargetFacts::kTileRowBytes,
                  kTileRow = program::TargetFacts::kTileRowBytes, kTilePair = 2 * kTileRow;

WEFT_AMX void ConfigureTiles() {
  struct alignas(64) {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {};
    uint8_t rows[16] = {};
  } config;
  for (int i = 0; i < 8; ++i) {
    config.row_bytes[i] = kTileRow;
    config.rows[i] = 16;
  }
  _tile_loadconfig(&config);
}

WEFT_AMX void ReleaseTiles() {
  _tile_release();
}

// Where the rows of a are: 32 of them, so many bytes apart, and how far one step goes. Panels have
// the rows of a tile together, one step behind the other; others lie in memory as they came.
struct AmxRows {
  const std::byte* at;
  int64_t row, below, step;
};
[[gnu::always_inline]] inline AmxRows PackedRows(const std::byte* a) {
  return {a, kTileRow, kTileBytes, 2 * kTileBytes};
}
[[gnu::always_inline]] inline AmxRows RowsApart(const std::byte* a, int64_t row) {
  return {a, row, 16 * row, kTileRow};
}

[[gnu::always_inline]] inline void PrefetchTile(const std::byte* tile, int64_t row) {
  for (int64_t i = 0; i < kTileBytes / kTileRow; ++i) __builtin_prefetch(tile + i * row);
}

// Software pipelining: a tile is loaded right behind the last use of its register and long before
// the next one, so that loads overlap products where the processor has no registers to rename tiles
// to, as when two threads share a core. Two steps in turn begin with different products. Panels of
// a stream through L1, one after the other in memory: what the next two steps load is asked for
// now. Tiles are named by literals in both compilers, so that this is no template.
#define WEFT_AMX_KERNEL(NAME, DOT, STEP)                                                           \
  [[gnu::always_inline]] inline WEFT_AMX void NAME##Any(                                           \
      int64_t k, const AmxRows& rows, const std::byte* b, std::byte* c, int64_t ldc, bool adds) {  \
    int64_t row = ldc * 4, steps = (k + STEP - 1) / STEP; /* panels are filled up with zeros */    \
    const std::byte *a = rows.at, *a_below = a + rows.below;                                       \
    const int64_t a_row = rows.row, a_step = rows.step;                                            \
    std::byte* below = c + 16 * row;                                                               \
    if (adds) {                                                                                    \
      _tile_loadd(0, c, row);                                                                      \
      _tile_loadd(1, c + kTileRow, row);                                                           \
      _tile_loadd(2, below, row);                                                                  \
      _tile_loadd(3, below + kTileRow, row);                                                       \
    } else {                                                                                       \
      _tile_zero(0);                                                                               \
      _tile_zero(1);                                                                               \
      _tile_zero(2);                                                                               \
      _tile_zero(3);                                                                               \
    }                                                                                              \
    if (steps > 0) {                                                                               \
      _tile_loadd(4, a, a_row);                                                                    \
      _tile_loadd(6, b, kTilePair);                                                                \
      _tile_loadd(7, b + kTileRow, kTilePair);                                                     \
      _tile_loadd(5, a_below, a_row);                                                              \
      for (; steps > 2; steps -= 2, b += 4 * kTileBytes) {                                         \
        DOT(0, 4, 6);                                                                              \
        DOT(1, 4, 7);                                                                              \
        _tile_loadd(4, a + a_step, a_row);                                                         \
        PrefetchTile(a + 3 * a_step, a_row);                                                       \
        DOT(3, 5, 7);                                                                              \
        _tile_loadd(7, b + 2 * kTileBytes + kTileRow, kTilePair);                                  \
        PrefetchTile(a_below + 3 * a_step, a_row);                                                 \
        DOT(2, 5, 6);                                                                              \
        _tile_loadd(5, a_below + a_step, a_row);                                                   \
        _tile_loadd(6, b + 2 * kTileBytes, kTilePair);                                             \
        a += 2 * a_step;                                                                           \
        a_below += 2 * a_step;                                                                     \
        DOT(1, 4, 7);                                                                              \
        DOT(0, 4, 6);                                                                              \
        _tile_loadd(4, a, a_row);                                                                  \
        PrefetchTile(a + 2 * a_step, a_row);                                                       \
        DOT(2, 5, 6);                                                                              \
        _tile_loadd(6, b + 4 * kTileBytes, kTilePair);                                             \
        PrefetchTile(a_below + 2 * a_step, a_row);                                                 \
        DOT(3, 5, 7);                                                                              \
        _tile_loadd(5, a_below, a_row);                                                            \
        _tile_loadd(7, b + 4 * kTileBytes + kTileRow, kTilePair);                                  \
      }                                                                                            \
      bool two = steps == 2; /* the first of which is loaded */                                    \
      DOT(0, 4, 6);                                                                                \
      DOT(1, 4, 7);                                                                                \
      if (two) _tile_loadd(4, a + a_step, a_row);                                                  \
      DOT(3, 5, 7);                                                                                \
      if (two) _tile_loadd(7, b + 2 * kTileBytes + kTileRow, kTilePair);                           \
      DOT(2, 5, 6);                                                                                \
      if (two) {                                                                                   \
        _tile_loadd(5, a_below + a_step, a_row);                                                   \
        _tile_loadd(6, b + 2 * kTileBytes, kTilePair);                                             \
        DOT(1, 4, 7);                                                                              \
        DOT(0, 4, 6);                                                                              \
        DOT(2, 5, 6);                                                                              \
        DOT(3, 5, 7);                                                                              \
      }                                                                                            \
    }                                                                                              \
    _tile_stored(0, c, row);                                                                       \
    _tile_stored(1, c + kTileRow, row);                                                            \
    _tile_stored(2, below, row);                                                                   \
    _tile_stored(3, below + kTileRow, row);                                                        \
  }                                                                                                \
  WEFT_AMX void NAME(int64_t k, const std::byte* a, const std::byte* b, std::byte* c, int64_t ldc, \
                     bool adds) {                                                                  \
    NAME##Any(k, PackedRows(a), b, c, ldc, adds);                                                  \
  }                                                                                                \
  WEFT_AMX void NAME##Rows(int64_t k, const std::byte* a, int64_t a_row, const std::byte* b,       \
                           std::byte* c, int64_t ldc) {                                            \
    NAME##Any(k, RowsApart(a, a_row), b, c, ldc, false);                                           \
  }

// For one tile of rows.
#define WEFT_AMX_WIDE_KERNEL(NAME, DOT, STEP)                                                     \
  [[gnu::always_inline]] inline WEFT_AMX void NAME##WideAny(                                      \
      int64_t k, const AmxRows& rows, const std::byte* b, std::byte* c, int64_t ldc, bool adds) { \
    int64_t row = ldc * 4;                                                                        \
    const std::byte* a = rows.at;                                                                 \
    if (adds) {                                                                                   \
      _tile_loadd(0, c, row);                                                                     \
      _tile_loadd(1, c + kTileRow, row);                                                          \
      _tile_loadd(2, c + 2 * kTileRow, row);                                                      \
      _tile_loadd(3, c + 3 * kTileRow, row);                                                      \
    } else {                                                                                      \
      _tile_zero(0);                                                                              \
      _tile_zero(1);                                                                              \
      _tile_zero(2);                                                                              \
      _tile_zero(3);                                                                              \
    }                                                                                             \
    for (int64_t steps = (k + STEP - 1) / STEP; steps > 0; --steps) {                             \
      _tile_loadd(4, a, rows.row);                                                                \
      _tile_loadd(5, b, 2 * kTilePair);                                                           \
      _tile_loadd(6, b + kTileRow, 2 * kTilePair);                                                \
      _tile_loadd(7, b + 2 * kTileRow, 2 * kTilePair);                                            \
      DOT(0, 4, 5);                                                                               \
      _tile_loadd(5, b + 3 * kTileRow, 2 * kTilePair);                                            \
      DOT(1, 4, 6);                                                                               \
      DOT(2, 4, 7);                                                                               \
      DOT(3, 4, 5);                                                                               \
      a += rows.step;                                                                             \
      b += 4 * kTileBytes;                                                                        \
    }                                                                                             \
    _tile_stored(0, c, row);                                                                      \
    _tile_stored(1, c + kTileRow, row);                                                           \
    _tile_stored(2, c + 2 * kTileRow, row);                                                       \
    _tile_stored(3, c + 3 * kTileRow, row);                                                       \
  }                                                                                               \
  WEFT_AMX void NAME##Wide(int64_t k, const std::byte* a, const std::byte* b, std::byte* c,       \
                           int64_t ldc, bool adds) {                                              \
    NAME##WideAny(k, {a, kTileRow, 0, kTileBytes}, b, c, ldc, adds);                              \
  }                                                                                               \
  WEFT_AMX void NAME##WideRows(int64_t k, const std::byte* a, int64_t a_row, const std::byte* b,  \
                               std::byte* c, int64_t ldc) {                                       \
    NAME##WideAny(k, RowsApart(a, a_row), b, c, ldc, false);                                      \
  }

// By instruction; elements of the contraction that it takes.
#define WEFT_AMX_INSTRUCTIONS(KERNEL) \
  KERNEL(AmxBf16, _tile_dpbf16ps, 32) \
  KERNEL(AmxSS, _tile_dpbssd, 64)     \
  KERNEL(AmxSU, _tile_dpbsud, 64)     \
  KERNEL(AmxUS, _tile_dpbusd, 64)     \
  KERNEL(AmxUU, _tile_dpbuud, 64)
WEFT_AMX_INSTRUCTIONS(WEFT_AMX_KERNEL)
WEFT_AMX_INSTRUCTIONS(WEFT_AMX_WIDE_KERNEL)

bool HasAmxBf16() {
  return HostFeatures().amx_bf16;
}
bool HasAmxInt8() {
  return HostFeatures().amx_int8;
}

constexpr NarrowKernel AmxOf(std::string_view name, bool a_signed, bool b_signed,
                             decltype(NarrowKernel::run) run,
                             decltype(NarrowKernel::run_rows) run_rows) {
  return {name, NarrowElement::kInt8, a_signed,     b_signed,   32,      32, 64, 4, 64, 2000,
          run,  ConfigureTiles,       ReleaseTiles, HasAmxInt8, run_rows};
}
constexpr NarrowKernel WideAmxOf(std::string_view name, bool a_signed, bool b_signed,
                                 decltype(NarrowKernel::run) run,
                                 decltype(NarrowKernel::run_rows) run_rows) {
  NarrowKernel kernel = AmxOf(name, a_signed, b_signed, run, run_rows);
  kernel.rows = 16;
  kernel.cols = 64;
  kernel.speed = 1700;  // five loads for four multiplications instead of four
  return kernel;
}
constexpr NarrowKernel kAmxKernels[] = {
    {"amx bf16", NarrowElement::kBf16, true, true, 32, 32, 32, 2, 32, 1000, AmxBf16, ConfigureTiles,
     ReleaseTiles, HasAmxBf16, AmxBf16Rows},
    AmxOf("amx s8 x s8", true, true, AmxSS, AmxSSRows),
    AmxOf("amx s8 x u8", true, false, AmxSU, AmxSURows),
    AmxOf("amx u8 x s8", false, true, AmxUS, AmxUSRows),
    AmxOf("amx u8 x u8", false, false, AmxUU, AmxUURows),
    {"amx bf16 of 16 rows", NarrowElement::kBf16, true, true, 16, 64, 32, 2, 32, 850, AmxBf16Wide,
     ConfigureTiles, ReleaseTiles, HasAmxBf16, AmxBf16WideRows},
    WideAmxOf("amx s8 x s8 of 16 rows", true, true, AmxSSWide, AmxSSWideRows),
    WideAmxOf("amx s8 x u8 of 16 rows", true, false, AmxSUWide, AmxSUWideRows),
    WideAmxOf("amx u8 x s8 of 16 rows", false, true, AmxUSWide, AmxUSWideRows),
    WideAmxOf("amx u8 x u8 of 16 rows", false, false, AmxUUWide, AmxUUWideRows),
};
#endif

}  // namespace

namespace detail {
std::span<const NarrowKernel> AmxKernels() {
#if defined(__x86_64__)
  return kAmxKernels;
#else
  return {};
#endif
}
}  // namespace detail

}  // namespace weft::cpu
