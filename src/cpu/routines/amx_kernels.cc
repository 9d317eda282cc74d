// AMX: tiles of 16 rows of 64 bytes. Four of them are the sums of 32 x 32 elements, two are the
// rows of a, two the columns of b: one load of a tile for each multiplication.
#include "cpu/routines/machine.h"
#include "cpu/routines/narrow_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define WEFT_AMX __attribute__((target("amx-tile,amx-bf16,amx-int8")))
#endif

namespace weft::cpu {
namespace {

using detail::AmxVariant;

#if defined(__x86_64__)
constexpr int64_t kTileBytes = 1024, kTileRow = 64, kTilePair = 2 * kTileRow;
// Panels of a stream through L1, one after the other in memory: what comes two steps later is asked
// for now. The panel of b stays.
constexpr int64_t kTilesAhead = 4;

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

[[gnu::always_inline]] inline void PrefetchTile(const std::byte* tile) {
  for (int64_t at = 0; at < kTileBytes; at += kTileRow) __builtin_prefetch(tile + at);
}

// Tiles are named by literals in both compilers, so that this is no template.
#define WEFT_AMX_KERNEL(NAME, DOT, STEP, LOAD_A, ASKS)                                             \
  WEFT_AMX void NAME(int64_t k, const std::byte* a, const std::byte* b, std::byte* c, int64_t ldc, \
                     bool adds) {                                                                  \
    int64_t row = ldc * 4;                                                                         \
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
    for (int64_t p = 0; p < k; p += STEP) {                                                        \
      _tile_loadd(6, b, kTilePair);                                                                \
      LOAD_A(4, a, kTileRow);                                                                      \
      if (ASKS) PrefetchTile(a + kTilesAhead * kTileBytes);                                        \
      _tile_loadd(7, b + kTileRow, kTilePair);                                                     \
      DOT(0, 4, 6);                                                                                \
      LOAD_A(5, a + kTileBytes, kTileRow);                                                         \
      if (ASKS) PrefetchTile(a + (kTilesAhead + 1) * kTileBytes);                                  \
      DOT(1, 4, 7);                                                                                \
      DOT(2, 5, 6);                                                                                \
      DOT(3, 5, 7);                                                                                \
      a += 2 * kTileBytes;                                                                         \
      b += 2 * kTileBytes;                                                                         \
    }                                                                                              \
    _tile_stored(0, c, row);                                                                       \
    _tile_stored(1, c + kTileRow, row);                                                            \
    _tile_stored(2, below, row);                                                                   \
    _tile_stored(3, below + kTileRow, row);                                                        \
  }

#define WEFT_AMX_KERNELS(SUFFIX, LOAD_A, ASKS)                       \
  WEFT_AMX_KERNEL(AmxBf16##SUFFIX, _tile_dpbf16ps, 32, LOAD_A, ASKS) \
  WEFT_AMX_KERNEL(AmxSS##SUFFIX, _tile_dpbssd, 64, LOAD_A, ASKS)     \
  WEFT_AMX_KERNEL(AmxSU##SUFFIX, _tile_dpbsud, 64, LOAD_A, ASKS)     \
  WEFT_AMX_KERNEL(AmxUS##SUFFIX, _tile_dpbusd, 64, LOAD_A, ASKS)     \
  WEFT_AMX_KERNEL(AmxUU##SUFFIX, _tile_dpbuud, 64, LOAD_A, ASKS)
WEFT_AMX_KERNELS(Ahead, _tile_loadd, true)
WEFT_AMX_KERNELS(Plain, _tile_loadd, false)
WEFT_AMX_KERNELS(Stream, _tile_stream_loadd, false)

bool HasAmxBf16() {
  return HostFeatures().amx_bf16;
}
bool HasAmxInt8() {
  return HostFeatures().amx_int8;
}

constexpr double kBf16Speed = 1000, kInt8Speed = 2000;

constexpr NarrowKernel AmxOf(std::string_view name, bool a_signed, bool b_signed,
                             decltype(NarrowKernel::run) run) {
  return {name, NarrowElement::kInt8, a_signed, b_signed,       32,           32,        64, 4,
          64,   kInt8Speed,           run,      ConfigureTiles, ReleaseTiles, HasAmxInt8};
}
constexpr NarrowKernel AmxBf16Of(decltype(NarrowKernel::run) run) {
  return {"amx bf16", NarrowElement::kBf16, true, true,           32,           32,        32, 2,
          32,         kBf16Speed,           run,  ConfigureTiles, ReleaseTiles, HasAmxBf16};
}
#define WEFT_AMX_LIST(SUFFIX)                            \
  {                                                      \
      AmxBf16Of(AmxBf16##SUFFIX),                        \
      AmxOf("amx s8 x s8", true, true, AmxSS##SUFFIX),   \
      AmxOf("amx s8 x u8", true, false, AmxSU##SUFFIX),  \
      AmxOf("amx u8 x s8", false, true, AmxUS##SUFFIX),  \
      AmxOf("amx u8 x u8", false, false, AmxUU##SUFFIX), \
  }
constexpr NarrowKernel kAmxAhead[] = WEFT_AMX_LIST(Ahead);
constexpr NarrowKernel kAmxPlain[] = WEFT_AMX_LIST(Plain);
constexpr NarrowKernel kAmxStream[] = WEFT_AMX_LIST(Stream);
constexpr AmxVariant kAmxVariants[] = {
    {"asks ahead", kAmxAhead}, {"plain", kAmxPlain}, {"streams a", kAmxStream}};
#endif

}  // namespace

namespace detail {
std::span<const AmxVariant> AmxVariants() {
#if defined(__x86_64__)
  return kAmxVariants;
#else
  return {};
#endif
}
}  // namespace detail

}  // namespace weft::cpu
