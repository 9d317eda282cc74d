// Copies by non-temporal stores, of what nobody reads soon: past the caches, without reading first
// what is overwritten.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace weft {

// Arrays from here on leave nothing behind in a core's own caches anyway (1 to 2 MiB on servers).
inline constexpr size_t kStreamedBytes = size_t{4} << 20;

#if defined(__SSE2__)
inline constexpr bool kHasStreamCopies = true;
#else
inline constexpr bool kHasStreamCopies = false;  // a plain copy is as fast: write streaming mode
#endif

inline void StreamCopy(std::byte* to, std::span<const std::byte> from) {
  if (from.empty()) return;
#if defined(__SSE2__)
  constexpr size_t kVector = sizeof(__m128i);
  const std::byte* at = from.data();
  size_t left = from.size();
  const size_t before = (kVector - reinterpret_cast<size_t>(to) % kVector) % kVector;
  if (before > 0 && before <= left) {
    std::memcpy(to, at, before);
    to += before, at += before, left -= before;
  }
  for (; left >= kVector; left -= kVector, to += kVector, at += kVector) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
  }
  std::memcpy(to, at, left);
#else
  std::memcpy(to, from.data(), from.size());
#endif
}

// After the last of them, before others are told.
inline void EndStreamCopies() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace weft
