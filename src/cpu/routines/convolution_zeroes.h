// Convolutions of no terms: an input or a window without elements.
#pragma once

#include <algorithm>
#include <cstddef>

#include "cpu/routines/epilogue.h"
#include "cpu/routines/routine.h"

namespace weft::cpu {

// Sums of no elements.
class AllZeroes : public PreparedRoutine {
 public:
  AllZeroes(int64_t bytes, const Epilogue& epilogue) : bytes_(bytes), epilogue_(epilogue) {}
  Status Run(const RoutineContext& context) const override {
    std::fill_n(context.memory[2], bytes_, std::byte{0});
    EpilogueRun(epilogue_, context).OnAll(&context.pool);
    return {};
  }

 private:
  int64_t bytes_;
  Epilogue epilogue_;
};

}  // namespace weft::cpu
