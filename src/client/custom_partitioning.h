// jax.custom_partitioning: custom calls whose part on one device a function of the framework makes,
// once it is settled how operands and results lie on the devices.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "hlo/instruction.h"
#include "hlo/module.h"

namespace weft::client {

// A call that somebody answers for.
bool IsCustomPartitioning(const hlo::Instruction& call);

// Each such call becomes a manual computation: what the function answers, between the shardings
// that it asks for. To be called when shardings have been propagated, which is to be done once more
// where something has changed.
Result<bool> SplitCustomPartitioning(hlo::Module& module, int64_t devices);

}  // namespace weft::client
