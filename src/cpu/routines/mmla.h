// arm64's matrix instructions, for the files of micro-kernels by them. Included where __aarch64__
// is defined.
#pragma once

#include <arm_neon.h>

#include "cpu/routines/machine.h"
#include "cpu/routines/unrolled.h"

#define WEFT_MMLA __attribute__((target("arch=armv8.2-a+bf16+i8mm")))

namespace weft::cpu {
namespace {

constexpr int kRowPairs = SquareInstructions::kRowPairs, kColPairs = SquareInstructions::kColPairs,
              kVector = SquareInstructions::kVectorBytes;

// kGroup: elements of a row, or column, that an instruction takes. kTurned: sums are squares of the
// transpose.
struct Bfmmla {
  static constexpr int kGroup = SquareInstructions::kRowBytes / 2;
  static constexpr bool kTurned = false;
  using Sums = float32x4_t;
  WEFT_MMLA static Sums Dot(Sums sums, uint8x16_t a, uint8x16_t b) {
    return vbfmmlaq_f32(sums, vreinterpretq_bf16_u8(a), vreinterpretq_bf16_u8(b));
  }
};
struct OfBytes {
  static constexpr int kGroup = SquareInstructions::kRowBytes;
  static constexpr bool kTurned = false;
};
struct Smmla : OfBytes {
  using Sums = int32x4_t;
  WEFT_MMLA static Sums Dot(Sums sums, uint8x16_t a, uint8x16_t b) {
    return vmmlaq_s32(sums, vreinterpretq_s8_u8(a), vreinterpretq_s8_u8(b));
  }
};
struct Ummla : OfBytes {
  using Sums = uint32x4_t;
  WEFT_MMLA static Sums Dot(Sums sums, uint8x16_t a, uint8x16_t b) {
    return vmmlaq_u32(sums, a, b);
  }
};
struct Usmmla : OfBytes {
  using Sums = int32x4_t;
  WEFT_MMLA static Sums Dot(Sums sums, uint8x16_t a, uint8x16_t b) {
    return vusmmlaq_s32(sums, a, vreinterpretq_s8_u8(b));
  }
};
// The unsigned operand is the first one of the instruction: sums are squares of the transpose.
struct TurnedUsmmla : OfBytes {
  static constexpr bool kTurned = true;
  using Sums = int32x4_t;
  WEFT_MMLA static Sums Dot(Sums sums, uint8x16_t a, uint8x16_t b) {
    return vusmmlaq_s32(sums, b, vreinterpretq_s8_u8(a));
  }
};

}  // namespace
}  // namespace weft::cpu
