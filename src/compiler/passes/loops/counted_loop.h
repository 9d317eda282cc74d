// Loops that passes make.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/error.h"
#include "hlo/builder.h"

namespace weft::compiler {

// One round: from its number (s32[], from 0 on) and the state, the next state of equal shapes.
using LoopRound = std::function<Result<std::vector<hlo::Instruction*>>(
    hlo::Builder& b, hlo::Instruction* number, std::span<hlo::Instruction* const> state)>;

// Adds a while of `count` rounds with `b` and returns the state behind it.
Result<std::vector<hlo::Instruction*>> AddCountedLoop(hlo::Builder& b, int64_t count,
                                                      std::span<hlo::Instruction* const> init,
                                                      const LoopRound& round);

// The value of a computation on these arguments, at the end of where `b` adds: inlined.
Result<std::vector<hlo::Instruction*>> CallInline(hlo::Builder& b, hlo::Computation& computation,
                                                  std::span<hlo::Instruction* const> arguments);

}  // namespace weft::compiler
