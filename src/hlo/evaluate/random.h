// Evaluation of the random number ops; signatures as in OpRow.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/error.h"
#include "base/literal.h"
#include "hlo/fwd.h"

namespace weft::hlo {

class EvalContext;

Result<Literal> EvaluateRng(EvalContext&, const Instruction&, std::span<Literal>);
Result<Literal> EvaluateRngBitGenerator(EvalContext&, const Instruction&, std::span<Literal>);
Result<Literal> EvaluateRngGetAndUpdateState(EvalContext&, const Instruction&, std::span<Literal>);

// The two generators of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011), with
// 20 and 10 rounds.
std::array<uint32_t, 2> Threefry2x32(std::array<uint32_t, 2> counter, std::array<uint32_t, 2> key);
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

}  // namespace weft::hlo
