// Few rows by a matrix that is read once, where it lies, by arm64's matrix instructions: a pair of
// columns for one is put together in registers, from rows of the matrix or from columns.
#include "cpu/routines/narrow_kernels.h"
#include "program/target_facts.h"

#if defined(__aarch64__)
#include "cpu/routines/mmla.h"
#endif

namespace weft::cpu {
namespace {

#if defined(__aarch64__)
constexpr int kSquares =
    program::TargetFacts::kNarrowLanes;  // of a pair of rows: 8 columns at once
constexpr int kCols = 2 * kSquares;
constexpr int kGroups =
    kVector / SquareInstructions::kRowBytes;     // of the elements that one instruction takes: a
                                                 // vector of a column
constexpr int kPanelStep = kVector * kRowPairs;  // bytes of a panel of a for one instruction
constexpr int64_t kLine = program::TargetFacts::kLineBytes;

WEFT_MMLA inline uint8x16_t Zip1(uint8x8_t a, uint8x8_t b) {
  return vcombine_u8(vzip1_u8(a, b), vzip2_u8(a, b));
}

// A transpose: the lanes of four vectors, as pairs of lanes beside each other.
[[gnu::always_inline]] WEFT_MMLA inline void Transpose(uint16x8_t a, uint16x8_t b, uint16x8_t c,
                                                       uint16x8_t d, uint8x16_t* pairs) {
  uint32x4_t ab0 = vreinterpretq_u32_u16(vzip1q_u16(a, b)),
             ab1 = vreinterpretq_u32_u16(vzip2q_u16(a, b)),
             cd0 = vreinterpretq_u32_u16(vzip1q_u16(c, d)),
             cd1 = vreinterpretq_u32_u16(vzip2q_u16(c, d));
  pairs[0] = vreinterpretq_u8_u32(vzip1q_u32(ab0, cd0));
  pairs[1] = vreinterpretq_u8_u32(vzip2q_u32(ab0, cd0));
  pairs[2] = vreinterpretq_u8_u32(vzip1q_u32(ab1, cd1));
  pairs[3] = vreinterpretq_u8_u32(vzip2q_u32(ab1, cd1));
}

// The 8 columns of 4 rows of bf16 as pairs of columns.
[[gnu::always_inline]] WEFT_MMLA inline void PairColumns(const std::byte* const* rows, int64_t at,
                                                         uint8x16_t* pairs, Bfmmla) {
  auto load = [&](int q) WEFT_MMLA {
    return vreinterpretq_u16_u8(vld1q_u8(reinterpret_cast<const uint8_t*>(rows[q]) + 2 * at));
  };
  Transpose(load(0), load(1), load(2), load(3), pairs);
}

// The 8 columns of 8 rows of bytes.
template <class Mmla>
[[gnu::always_inline]] WEFT_MMLA inline void PairColumns(const std::byte* const* rows, int64_t at,
                                                         uint8x16_t* pairs, Mmla) {
  auto zipped = [&](int q) WEFT_MMLA {
    uint8x8_t x = vld1_u8(reinterpret_cast<const uint8_t*>(rows[q]) + at);
    uint8x8_t y = vld1_u8(reinterpret_cast<const uint8_t*>(rows[q + 1]) + at);
    return vreinterpretq_u16_u8(Zip1(x, y));
  };
  Transpose(zipped(0), zipped(2), zipped(4), zipped(6), pairs);
}

template <class Mmla, int kPairs>
WEFT_MMLA void GrowByRows(int64_t columns, const std::byte* a, const std::byte* const* rows,
                          int64_t ahead, std::byte* sums) {
  using Sums = typename Mmla::Sums;
  constexpr int kGroup = Mmla::kGroup, kBytes = 8 / kGroup;
  static_assert(kGroup * kCols * kBytes == kLine);
  const auto* left = reinterpret_cast<const uint8_t*>(a);
  auto* to = reinterpret_cast<Sums*>(sums);
  const std::byte* row_at[kGroups * kGroup];  // of its own: stores to sums might change `rows`
  WEFT_UNROLLED for (int q = 0; q < kGroups * kGroup; ++q) row_at[q] = rows[q];
  for (int64_t j = 0; j < columns; j += kCols, to += kPairs * kSquares) {
    // Two of the lines that the next rows have here: to L2, since rows lie apart by powers of two
    // often, and meet in few places of L1.
    const std::byte* const* asked = rows + j / kCols % kGroup;
    __builtin_prefetch(asked[0] + ahead + j * kBytes, 0, 2);
    __builtin_prefetch(asked[kGroup] + ahead + j * kBytes, 0, 2);
    Sums tile[kPairs][kSquares];
    __builtin_memcpy(tile, to, sizeof(tile));
    WEFT_UNROLLED for (int g = 0; g < kGroups; ++g) {
      uint8x16_t pairs[kSquares];
      PairColumns(row_at + g * kGroup, j, pairs, Mmla{});
      WEFT_UNROLLED for (int i = 0; i < kPairs; ++i) {
        uint8x16_t row = vld1q_u8(left + g * kPanelStep + kVector * i);
        WEFT_UNROLLED for (int q = 0; q < kSquares; ++q) {
          tile[i][q] = Mmla::Dot(tile[i][q], row, pairs[q]);
        }
      }
    }
    __builtin_memcpy(to, tile, sizeof(tile));
  }
}

// 16 bytes of each of 8 columns at a time: two elements of the instruction's operands.
template <class Mmla, int kPairs>
WEFT_MMLA void GrowByColumns(int64_t k, const std::byte* a, const std::byte* const* columns,
                             std::byte* sums) {
  using Sums = typename Mmla::Sums;
  const auto* left = reinterpret_cast<const uint8_t*>(a);
  Sums tile[kPairs][kSquares];
  __builtin_memcpy(tile, sums, sizeof(tile));
  int64_t bytes = k * (8 / Mmla::kGroup);
  for (int64_t at = 0; at < bytes; at += kVector, left += 2 * kPanelStep) {
    uint64x2_t low[kSquares], high[kSquares];
    WEFT_UNROLLED for (int q = 0; q < kSquares; ++q) {
      auto load = [&](int c) WEFT_MMLA {
        return vreinterpretq_u64_u8(vld1q_u8(reinterpret_cast<const uint8_t*>(columns[c]) + at));
      };
      uint64x2_t x = load(2 * q), y = load(2 * q + 1);
      low[q] = vzip1q_u64(x, y);
      high[q] = vzip2q_u64(x, y);
    }
    WEFT_UNROLLED for (int i = 0; i < kPairs; ++i) {
      uint8x16_t first = vld1q_u8(left + kVector * i);
      uint8x16_t second = vld1q_u8(left + kPanelStep + kVector * i);
      WEFT_UNROLLED for (int q = 0; q < kSquares; ++q) {
        tile[i][q] = Mmla::Dot(tile[i][q], first, vreinterpretq_u8_u64(low[q]));
        tile[i][q] = Mmla::Dot(tile[i][q], second, vreinterpretq_u8_u64(high[q]));
      }
    }
  }
  __builtin_memcpy(sums, tile, sizeof(tile));
}

template <class Mmla>
void ByRows(int64_t pairs, int64_t columns, const std::byte* a, const std::byte* const* rows,
            int64_t ahead, std::byte* sums) {
  switch (pairs) {
    case 1: return GrowByRows<Mmla, 1>(columns, a, rows, ahead, sums);
    case 2: return GrowByRows<Mmla, 2>(columns, a, rows, ahead, sums);
    case 3: return GrowByRows<Mmla, 3>(columns, a, rows, ahead, sums);
    default: return GrowByRows<Mmla, 4>(columns, a, rows, ahead, sums);
  }
}

template <class Mmla>
void ByColumns(int64_t pairs, int64_t k, const std::byte* a, const std::byte* const* columns,
               std::byte* sums) {
  switch (pairs) {
    case 1: return GrowByColumns<Mmla, 1>(k, a, columns, sums);
    case 2: return GrowByColumns<Mmla, 2>(k, a, columns, sums);
    case 3: return GrowByColumns<Mmla, 3>(k, a, columns, sums);
    default: return GrowByColumns<Mmla, 4>(k, a, columns, sums);
  }
}

template <class Mmla>
constexpr NarrowRows kRowsOf = {kGroups * Mmla::kGroup, kCols, Mmla::kTurned, ByRows<Mmla>,
                                ByColumns<Mmla>};
#endif

}  // namespace

namespace detail {
const NarrowRows* MmlaRows([[maybe_unused]] DType a, [[maybe_unused]] DType b) {
#if defined(__aarch64__)
  bool a_signed = a == DType::kS8, b_signed = b == DType::kS8;
  if (a == DType::kBF16) return &kRowsOf<Bfmmla>;
  if (a_signed) return b_signed ? &kRowsOf<Smmla> : &kRowsOf<TurnedUsmmla>;
  return b_signed ? &kRowsOf<Usmmla> : &kRowsOf<Ummla>;
#else
  return nullptr;
#endif
}
}  // namespace detail

}  // namespace weft::cpu
