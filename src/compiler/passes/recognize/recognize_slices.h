// Gathers whose places are known when compiling, a part of recognize-slices and simplify-while.
#pragma once

#include <optional>
#include <unordered_map>

#include "base/error.h"
#include "base/literal.h"
#include "compiler/passes/loops/loop_state.h"
#include "hlo/computation.h"

namespace weft::compiler {

// What integers are that are computed from constants and iotas alone: evaluated, not folded, so
// that large ones are not written out for it.
class KnownIntegers {
 public:
  // Nullopt: something else is read, or there are too many elements.
  std::optional<Literal> Of(const hlo::Instruction& i);
  // Constants that a loop hands to its body, too large to be written out in it.
  void KnowInvariants(const Loop& loop);

 private:
  std::optional<Literal> Compute(const hlo::Instruction& i);

  std::unordered_map<const hlo::Instruction*, std::optional<Literal>> known_;
  int64_t work_left_ = 1 << 22;  // elements of all, so that compiling takes milliseconds
  int depth_ = 0;
};

// Gathers of a computation whose known places are a few runs become slices, joined; whether there
// were any.
Result<bool> SliceKnownGathers(hlo::Computation& computation, KnownIntegers known = {});

}  // namespace weft::compiler
