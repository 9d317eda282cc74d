// AMX kernels for bf16 that differ from the one of products in how they read their operands. For
// matrix_speed.cc.
#pragma once

#include "cpu/routines/machine.h"
#include "cpu/routines/narrow_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weft::cpu {
namespace {

struct AmxVariant {
  const char* name;
  decltype(NarrowKernel::run) run;
};

#if defined(__x86_64__)
#define WEFT_AMX_TRY __attribute__((target("amx-tile,amx-bf16,amx-int8")))
#define WEFT_AMX_SUMS_IN             \
  int64_t row = ldc * 4;             \
  std::byte* below = c + 16 * row;   \
  if (adds) {                        \
    _tile_loadd(0, c, row);          \
    _tile_loadd(1, c + 64, row);     \
    _tile_loadd(2, below, row);      \
    _tile_loadd(3, below + 64, row); \
  } else {                           \
    _tile_zero(0);                   \
    _tile_zero(1);                   \
    _tile_zero(2);                   \
    _tile_zero(3);                   \
  }
#define WEFT_AMX_SUMS_OUT       \
  _tile_stored(0, c, row);      \
  _tile_stored(1, c + 64, row); \
  _tile_stored(2, below, row);  \
  _tile_stored(3, below + 64, row);

inline void AskFor(const std::byte* tiles, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(tiles + at);
}

// Every load where it is needed; what comes in two steps may be asked for.
#define WEFT_AMX_PLAIN(NAME, LOAD_A, AHEAD)                                               \
  WEFT_AMX_TRY void NAME(int64_t k, const std::byte* a, const std::byte* b, std::byte* c, \
                         int64_t ldc, bool adds) {                                        \
    WEFT_AMX_SUMS_IN                                                                      \
    for (int64_t p = 0; p < k; p += 32, a += 2048, b += 2048) {                           \
      _tile_loadd(6, b, 128);                                                             \
      AskFor(a + 4096, AHEAD);                                                            \
      LOAD_A(4, a, 64);                                                                   \
      _tile_loadd(7, b + 64, 128);                                                        \
      _tile_dpbf16ps(0, 4, 6);                                                            \
      LOAD_A(5, a + 1024, 64);                                                            \
      _tile_dpbf16ps(1, 4, 7);                                                            \
      _tile_dpbf16ps(2, 5, 6);                                                            \
      _tile_dpbf16ps(3, 5, 7);                                                            \
    }                                                                                     \
    WEFT_AMX_SUMS_OUT                                                                     \
  }
WEFT_AMX_PLAIN(AmxPlain, _tile_loadd, 0)
WEFT_AMX_PLAIN(AmxAhead, _tile_loadd, 2048)
WEFT_AMX_PLAIN(AmxStream, _tile_stream_loadd, 0)

// As products, without asking for anything. k is a multiple of 64.
WEFT_AMX_TRY void AmxPipelined(int64_t k, const std::byte* a, const std::byte* b, std::byte* c,
                               int64_t ldc, bool adds) {
  if (k % 64 != 0) return AmxPlain(k, a, b, c, ldc, adds);
  WEFT_AMX_SUMS_IN
  _tile_loadd(4, a, 64);
  _tile_loadd(6, b, 128);
  _tile_loadd(7, b + 64, 128);
  _tile_loadd(5, a + 1024, 64);
  for (int64_t p = 0; p < k; p += 64, a += 4096, b += 4096) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(4, a + 2048, 64);
    _tile_dpbf16ps(3, 5, 7);
    _tile_loadd(7, b + 2048 + 64, 128);
    _tile_dpbf16ps(2, 5, 6);
    _tile_loadd(5, a + 3072, 64);
    _tile_loadd(6, b + 2048, 128);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(0, 4, 6);
    bool more = p + 64 < k;
    if (more) _tile_loadd(4, a + 4096, 64);
    _tile_dpbf16ps(2, 5, 6);
    if (more) _tile_loadd(6, b + 4096, 128);
    _tile_dpbf16ps(3, 5, 7);
    if (!more) break;
    _tile_loadd(5, a + 5120, 64);
    _tile_loadd(7, b + 4096 + 64, 128);
  }
  WEFT_AMX_SUMS_OUT
}

constexpr AmxVariant kAmxVariants[] = {{"not pipelined", AmxPlain},
                                       {"not pipelined, asks ahead", AmxAhead},
                                       {"not pipelined, streams a", AmxStream},
                                       {"asks for nothing", AmxPipelined}};
#else
constexpr AmxVariant kAmxVariants[] = {{"none", nullptr}};
#endif

}  // namespace
}  // namespace weft::cpu
