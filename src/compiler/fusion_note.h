// Why two operations are not computed together; for tools.
#pragma once

#include <string>
#include <vector>

#include "hlo/instruction.h"

namespace weft::compiler {

// The array `name` goes through memory: what reads it does not compute it.
struct FusionNote {
  std::string name, op, source;
  std::string readers = {};  // "a, b": a few of them
  std::string reason;
};
FusionNote MakeFusionNote(const hlo::Instruction& made, std::string_view reason);
// "y (tanh, model.py:5), read by s, o: several kernels use it"
std::string ToString(const FusionNote& note);

}  // namespace weft::compiler
