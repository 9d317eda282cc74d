#include "cpu/routines/convert_runs.h"

#include <bit>
#include <cstring>

#include "base/elements.h"
#include "cpu/routines/machine.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace weft::cpu {
namespace {

#define WEFT_BODY [[gnu::always_inline]] inline

template <class From, class To>
WEFT_BODY void WidenAs(const std::byte* src, int64_t n, To* dst) {
  for (int64_t i = 0; i < n; ++i) {
    From x;
    std::memcpy(&x, src + i * int64_t{sizeof(x)}, sizeof(x));
    if constexpr (sizeof(From) == 2) {
      dst[i] = std::bit_cast<float>(uint32_t{x} << 16);
    } else {
      dst[i] = static_cast<To>(x);
    }
  }
}

WEFT_BODY void RoundAll(const float* src, int64_t n, std::byte* dst) {
  for (int64_t i = 0; i < n; ++i) {
    auto bits = std::bit_cast<uint32_t>(src[i]);
    uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
    uint32_t nan = (bits >> 16) | 0x40;
    auto half = static_cast<uint16_t>((bits & 0x7FFFFFFF) > 0x7F800000 ? nan : rounded);
    std::memcpy(dst + 2 * i, &half, sizeof(half));
  }
}

struct Conversions {
  void (*bf16)(const std::byte*, int64_t, float*);
  void (*f16)(const std::byte*, int64_t, float*);
  void (*s8)(const std::byte*, int64_t, uint32_t*);
  void (*u8)(const std::byte*, int64_t, uint32_t*);
  void (*s8_float)(const std::byte*, int64_t, float*);
  void (*u8_float)(const std::byte*, int64_t, float*);
  void (*to_bf16)(const float*, int64_t, std::byte*);
};

void PlainF16(const std::byte* src, int64_t n, float* dst) {
  LoadF32(DType::kF16, src, n, dst);
}

#define WEFT_CONVERSIONS(NAME, TARGET, F16)                                             \
  TARGET void Bf16##NAME(const std::byte* src, int64_t n, float* dst) {                 \
    WidenAs<uint16_t, float>(src, n, dst);                                              \
  }                                                                                     \
  TARGET void S8##NAME(const std::byte* src, int64_t n, uint32_t* dst) {                \
    WidenAs<int8_t, uint32_t>(src, n, dst);                                             \
  }                                                                                     \
  TARGET void U8##NAME(const std::byte* src, int64_t n, uint32_t* dst) {                \
    WidenAs<uint8_t, uint32_t>(src, n, dst);                                            \
  }                                                                                     \
  TARGET void S8Float##NAME(const std::byte* src, int64_t n, float* dst) {              \
    WidenAs<int8_t, float>(src, n, dst);                                                \
  }                                                                                     \
  TARGET void U8Float##NAME(const std::byte* src, int64_t n, float* dst) {              \
    WidenAs<uint8_t, float>(src, n, dst);                                               \
  }                                                                                     \
  TARGET void ToBf16##NAME(const float* src, int64_t n, std::byte* dst) {               \
    RoundAll(src, n, dst);                                                              \
  }                                                                                     \
  constexpr Conversions k##NAME = {Bf16##NAME,    F16,           S8##NAME,    U8##NAME, \
                                   S8Float##NAME, U8Float##NAME, ToBf16##NAME};

#if !defined(__aarch64__)
WEFT_CONVERSIONS(Plain, , PlainF16)
#endif
#if defined(__x86_64__)
// Processors with AVX2 have F16C.
__attribute__((target("avx2,f16c"))) void VectorF16(const std::byte* src, int64_t n, float* dst) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + 2 * i));
    _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(half));
  }
  PlainF16(src + 2 * i, n - i, dst + i);
}
WEFT_CONVERSIONS(Avx2, __attribute__((target("avx2"))), VectorF16)
WEFT_CONVERSIONS(Avx512, __attribute__((target("avx512f,avx512bw,avx512vl"))), VectorF16)
#elif defined(__aarch64__)
void VectorF16(const std::byte* src, int64_t n, float* dst) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    uint16x4_t half = vld1_u16(reinterpret_cast<const uint16_t*>(src + 2 * i));
    vst1q_f32(dst + i, vcvt_f32_f16(vreinterpret_f16_u16(half)));
  }
  PlainF16(src + 2 * i, n - i, dst + i);
}
WEFT_CONVERSIONS(Neon, , VectorF16)

// BFCVTN rounds to nearest, ties to even, and keeps NaNs quiet. Rows of tiles are short.
__attribute__((target("arch=armv8.2-a+bf16"))) void VectorToBf16(const float* src, int64_t n,
                                                                 std::byte* dst) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    uint16x4_t half = vreinterpret_u16_bf16(vcvt_bf16_f32(vld1q_f32(src + i)));
    vst1_u16(reinterpret_cast<uint16_t*>(dst + 2 * i), half);
  }
  RoundAll(src + i, n - i, dst + 2 * i);
}
constexpr Conversions kNeonBf16 = {Bf16Neon,    VectorF16,   S8Neon,      U8Neon,
                                   S8FloatNeon, U8FloatNeon, VectorToBf16};
#endif

const Conversions& HostConversions() {
#if defined(__x86_64__)
  static const Conversions& found = HostFeatures().avx512 ? kAvx512
                                    : HostFeatures().avx2 ? kAvx2
                                                          : kPlain;
  return found;
#elif defined(__aarch64__)
  return HostFeatures().bf16 ? kNeonBf16 : kNeon;
#else
  return kPlain;
#endif
}

}  // namespace

void WidenBf16(const std::byte* src, int64_t n, float* dst) {
  HostConversions().bf16(src, n, dst);
}
void WidenF16(const std::byte* src, int64_t n, float* dst) {
  HostConversions().f16(src, n, dst);
}
void WidenS8(const std::byte* src, int64_t n, uint32_t* dst) {
  HostConversions().s8(src, n, dst);
}
void WidenU8(const std::byte* src, int64_t n, uint32_t* dst) {
  HostConversions().u8(src, n, dst);
}
void WidenS8(const std::byte* src, int64_t n, float* dst) {
  HostConversions().s8_float(src, n, dst);
}
void WidenU8(const std::byte* src, int64_t n, float* dst) {
  HostConversions().u8_float(src, n, dst);
}
void RoundToBf16(const float* src, int64_t n, std::byte* dst) {
  HostConversions().to_bf16(src, n, dst);
}

}  // namespace weft::cpu
