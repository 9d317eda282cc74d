#include "cpu/routines/prepare.h"

namespace weft::cpu {

const Routine* FindRoutine(std::string_view name) {
  static constexpr Routine kRoutines[] = {
      {"attention", PrepareAttention},
      {"attention_gradient", PrepareAttentionGradient},
      {"cholesky", PrepareCholesky},
      {"convolution", PrepareConvolution},
      {"fft", PrepareFft},
      {"gemm", PrepareGemm},
      {"householder_product", PrepareHouseholderProduct},
      {"householder_qr", PrepareHouseholderQr},
      {"lu", PrepareLu},
      {"rng", PrepareRng},
      {"rng_bit_generator", PrepareRngBitGenerator},
      {"scaled_gemm", PrepareScaledGemm},
      {"sort", PrepareSort},
      {"topk", PrepareTopK},
      {"triangular_solve", PrepareTriangularSolve},
  };
  for (const Routine& routine : kRoutines) {
    if (routine.name == name) return &routine;
  }
  return nullptr;
}

}  // namespace weft::cpu
