// Autotuning: which of a library's algorithms for a product or a convolution is the fastest, by
// trying them once.
#pragma once

#include <cstdint>
#include <functional>
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
  std::function<Status(int64_t candidate, const RoutineCall& call)> run;
};

// Whether candidates for what takes so long at best are worth making.
bool IsWorthTuning(const RoutineInputs& inputs, double seconds);

// The fastest candidate of those whose results are the same bits as the first one's, so that what
// is chosen changes no result. 0 where measuring is switched off or not possible. The choice is
// kept in the cache of programs.
int64_t FastestOf(const RoutineInputs& inputs, const TuneRequest& request);

}  // namespace weft::gpu
