// The epilogue of a matrix product: a kernel run on its result, tile by tile while these are in
// cache.
#pragma once

#include <vector>

#include "cpu/routines/multiply.h"
#include "cpu/routines/routine.h"

namespace weft::cpu {

struct Epilogue {
  KernelTask task = nullptr;  // null: none
  size_t result = 0;          // the parameter that is the result
  int64_t rounds = 0;
  int64_t elements = 1;  // of the result in each
};
Result<Epilogue> EpilogueOf(const RoutineInputs& inputs);

// An epilogue for the time of one call.
class EpilogueRun {
 public:
  EpilogueRun(const Epilogue& epilogue, const RoutineContext& context);
  // Whether rows of n elements are whole rounds. Without an epilogue they are not.
  bool TakesRows(int64_t n) const {
    return epilogue_.task != nullptr && n % epilogue_.elements == 0;
  }
  // Runs it on rows of n elements, row 0 of which begins at element `first` of the result.
  RowsDone OnRows(int64_t first, int64_t n) const;
  void OnAll(ThreadPool* pool) const;

 private:
  void Rounds(int64_t begin, int64_t end) const;

  const Epilogue& epilogue_;
  std::vector<std::byte*> parameters_;
};

}  // namespace weft::cpu
