// Autotuning: which of a library's algorithms for a product or a convolution is the fastest, by
// trying them once.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gpu/routines/routine.h"

namespace weft::gpu {

struct TuneRequest {
  std::string key;         // what is computed, and by which version of which library
  double seconds = 0;      // that it takes at best: shorter ones are not worth the while
  int64_t candidates = 0;  // in the order in which the library recommends them
  struct Operand {
    DType dtype;
    int64_t bytes;
  };
  std::vector<Operand> operands;  // RoutineCall::memory
  size_t result = 0;              // of them
  int64_t scratch_bytes = 0;      // for any of the candidates
  // Operand 0 all NaN has to give NaN: ReLU of some algorithms makes 0 of it, which HLO's maximum
  // does not.
  bool keeps_nan = false;
  std::function<Status(int64_t candidate, const RoutineCall& call)> run;
};

// Whether candidates for what takes so long at best are worth making.
bool IsWorthTuning(const RoutineInputs& inputs, double seconds);

// What was chosen before, in this process or by the cache; kNoChoice: no candidate will do.
// Nothing: it has not been tried. Asks for the key, the seconds and keeps_nan alone.
inline constexpr int64_t kNoChoice = -1;
std::optional<int64_t> KnownChoice(const RoutineInputs& inputs, const TuneRequest& request);

// The fastest candidate of those whose results are the same bits as the first one's, so that what
// is chosen changes no result. The first one where measuring is switched off, not worth the while
// or not possible; of those that keep NaN, where that is asked for. UNIMPLEMENTED: none does, or
// it is not known. The choice is kept in the cache of programs.
Result<int64_t> FastestOf(const RoutineInputs& inputs, const TuneRequest& request);

}  // namespace weft::gpu
