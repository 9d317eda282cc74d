#include "cpu/routines/routine.h"

namespace weft::cpu {

const Routine* FindRoutine(std::string_view) {
  return nullptr;
}

}  // namespace weft::cpu
