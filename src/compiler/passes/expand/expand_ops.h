// The families of expand-ops. Each takes an instruction and returns whether it put others in its
// place.
#pragma once

#include <unordered_set>

#include "base/error.h"
#include "compiler/passes/rewrite.h"
#include "hlo/builder.h"
#include "hlo/instruction.h"

namespace weft::compiler {

// fusion, composite calls, and the halves of asynchronous ops: the synchronous op stands where the
// start was, and a tuple of the start's shape for its other users.
// `kept`: async-starts that stay, with their dones.
Result<bool> ExpandCalls(hlo::Instruction* i,
                         const std::unordered_set<const hlo::Instruction*>& kept);
// batch-norm-*, computed in f32 or f64.
Result<bool> ExpandBatchNorm(hlo::Instruction* i, ScalarFunctions& functions);
// Collectives in which every device is alone: identities. partition-id and replica-id where there
// is one: 0.
Result<bool> ExpandCollectives(hlo::Instruction* i);
// Collectives between several devices: the same with parts that lie one after the other; of
// reductions that are more than one op, all-gathers.
Result<bool> ExpandDeviceCollectives(hlo::Instruction* i);
// collective-permute of slices: dynamic slices, plain permutes and updates.
Result<bool> ExpandPermuteSlices(hlo::Instruction* i);
// The element of the table [devices] that has this device's number.
Result<hlo::Instruction*> OfThisDevice(hlo::Builder& b, const hlo::Module& module, Literal table);
// Custom calls that only annotate: their operand. Those that are an op by another name: the op.
Result<bool> ExpandCustomCalls(hlo::Instruction* i);
// The custom calls of block-scaled numbers.
Result<bool> ExpandBlockScaling(hlo::Instruction* call, std::string_view target);
// tuples of constants, states of rng-bit-generator that are too long, domain, add-dependency (as
// control dependencies), get-dimension-size, set-dimension-size and dynamic-reshape of static
// shapes.
Result<bool> ExpandMarkers(hlo::Instruction* i);
// map of elementwise functions; stochastic-convert.
Result<bool> ExpandElementwise(hlo::Instruction* i);
// Functions of scalars: conditionals become selects. map and reduce of functions with loops inside
// become loops.
Result<bool> ExpandFunctions(hlo::Instruction* i);
// Scans whose bodies are not elementwise: loops.
Result<bool> ExpandScans(hlo::Instruction* i);
// Start indices in one array: in one scalar each.
Result<bool> ExpandStarts(hlo::Instruction* i);

}  // namespace weft::compiler
