// Matrix instructions of arm64 (BFMMLA, SMMLA, UMMLA, USMMLA): each adds the product of two rows
// and two columns, of 8 bytes each, to a square of four sums in one register. 24 registers are the
// sums of 8 x 12 elements.
//
// Without FEAT_EBF16, BFMMLA adds two products of bf16 (exact in f32) and then their sum to the
// accumulator, and rounds each of the two to odd; subnormals are zero. A sum of n products is so
// within n / 2 * 2^-23 of the sum of their magnitudes, and sums of up to 512 equal ones are exact.
#include "cpu/routines/machine.h"
#include "cpu/routines/narrow_kernels.h"

#if defined(__aarch64__)
#include "cpu/routines/mmla.h"
#include "cpu/routines/neon_loops.h"
#endif

namespace weft::cpu {
namespace {

#if defined(__aarch64__)
static_assert(kRowPairs * kColPairs == kNeonSums);

// Steps of 8 bytes of every row and column: panels of a stream from L2, one after the other in
// memory, and are asked for 16 lines ahead.
template <class Mmla>
void AddSteps(int64_t steps, const std::byte* a, const std::byte* b, typename Mmla::Sums* sums);
#define WEFT_MMLA_LOOP(MMLA, OP)                                                       \
  template <>                                                                          \
  WEFT_MMLA void AddSteps<MMLA>(int64_t steps, const std::byte* a, const std::byte* b, \
                                MMLA::Sums* sums) {                                    \
    WEFT_MMLA_STEPS(OP);                                                               \
  }
#define WEFT_BFMMLA(R, ROWS, COLS) "bfmmla v" #R ".4s, v" #ROWS ".8h, v" #COLS ".8h\n"
#define WEFT_SMMLA(R, ROWS, COLS) "smmla v" #R ".4s, v" #ROWS ".16b, v" #COLS ".16b\n"
#define WEFT_UMMLA(R, ROWS, COLS) "ummla v" #R ".4s, v" #ROWS ".16b, v" #COLS ".16b\n"
#define WEFT_USMMLA(R, ROWS, COLS) "usmmla v" #R ".4s, v" #ROWS ".16b, v" #COLS ".16b\n"
#define WEFT_TURNED_USMMLA(R, ROWS, COLS) WEFT_USMMLA(R, COLS, ROWS)
WEFT_MMLA_LOOP(Bfmmla, WEFT_BFMMLA)
WEFT_MMLA_LOOP(Smmla, WEFT_SMMLA)
WEFT_MMLA_LOOP(Ummla, WEFT_UMMLA)
WEFT_MMLA_LOOP(Usmmla, WEFT_USMMLA)
WEFT_MMLA_LOOP(TurnedUsmmla, WEFT_TURNED_USMMLA)

template <class Sums>
[[gnu::always_inline]] inline void StoreRow(Sums sums, std::byte* to, bool adds) {
  Sums old;
  if (adds) {
    __builtin_memcpy(&old, to, sizeof(old));
    sums += old;
  }
  __builtin_memcpy(to, &sums, sizeof(sums));
}

// Two rows of four columns, from two squares.
template <class Sums, bool kTurned>
[[gnu::always_inline]] inline void StoreSquares(Sums left, Sums right, std::byte* c, int64_t row,
                                                bool adds) {
  if constexpr (kTurned) {
    StoreRow(__builtin_shufflevector(left, right, 0, 2, 4, 6), c, adds);
    StoreRow(__builtin_shufflevector(left, right, 1, 3, 5, 7), c + row, adds);
  } else {
    StoreRow(__builtin_shufflevector(left, right, 0, 1, 4, 5), c, adds);
    StoreRow(__builtin_shufflevector(left, right, 2, 3, 6, 7), c + row, adds);
  }
}

template <class Mmla>
WEFT_MMLA void RunMmla(int64_t k, const std::byte* a, const std::byte* b, std::byte* c, int64_t ldc,
                       bool adds) {
  using Sums = typename Mmla::Sums;
  Sums sums[kRowPairs][kColPairs];
  AddSteps<Mmla>((k + Mmla::kGroup - 1) / Mmla::kGroup, a, b, &sums[0][0]);
  int64_t row = ldc * 4;
  WEFT_UNROLLED for (int i = 0; i < kRowPairs; ++i) {
    WEFT_UNROLLED for (int j = 0; j < kColPairs; j += 2) {
      StoreSquares<Sums, Mmla::kTurned>(sums[i][j], sums[i][j + 1], c + 2 * i * row + 2 * j * 4,
                                        row, adds);
    }
  }
}

bool HasBfmmla() {
  return HostFeatures().bf16;
}
bool HasI8mm() {
  return HostFeatures().i8mm;
}

constexpr NarrowKernel MmlaOf(std::string_view name, bool a_signed, bool b_signed,
                              decltype(NarrowKernel::run) run) {
  return {name,
          NarrowElement::kInt8,
          a_signed,
          b_signed,
          2 * kRowPairs,
          2 * kColPairs,
          8,
          8,
          8,
          300,
          run,
          nullptr,
          nullptr,
          HasI8mm};
}
constexpr NarrowKernel kMmlaKernels[] = {
    {"bfmmla", NarrowElement::kBf16, true, true, 2 * kRowPairs, 2 * kColPairs, 4, 4, 4, 150,
     RunMmla<Bfmmla>, nullptr, nullptr, HasBfmmla},
    MmlaOf("smmla s8 x s8", true, true, RunMmla<Smmla>),
    MmlaOf("usmmla s8 x u8", true, false, RunMmla<TurnedUsmmla>),
    MmlaOf("usmmla u8 x s8", false, true, RunMmla<Usmmla>),
    MmlaOf("ummla u8 x u8", false, false, RunMmla<Ummla>),
};
#endif

}  // namespace

namespace detail {
std::span<const NarrowKernel> MmlaKernels() {
#if defined(__aarch64__)
  return kMmlaKernels;
#else
  return {};
#endif
}
}  // namespace detail

}  // namespace weft::cpu
