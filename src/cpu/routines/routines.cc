#include "cpu/routines/prepare.h"

namespace weft::cpu {

const Routine* FindRoutine(std::string_view name) {
  static constexpr Routine kRoutines[] = {
      {"gemm", PrepareGemm},
      {"sort", PrepareSort},
  };
  for (const Routine& routine : kRoutines) {
    if (routine.name == name) return &routine;
  }
  return nullptr;
}

}  // namespace weft::cpu
