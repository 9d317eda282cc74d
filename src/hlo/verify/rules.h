// The parts of Verify, in the order they run: each may rely on those before it.
#pragma once

#include <string_view>

#include "base/error.h"
#include "hlo/module.h"
#include "hlo/verify.h"

namespace weft::hlo {

// Names, entry, roots, parameter numbers, operands in the same computation and before their users,
// no recursion between computations.
Status VerifyStructure(const Module& module);

// One shape: sizes, tuples, layout.
Status VerifyShape(const Shape& shape);

// One instruction: arity, inferred against stored shape, the row's check, called computations,
// sharding.
Status VerifyInstruction(const Instruction& instruction, const VerifyOptions& options);
Status VerifyCalled(const Instruction& instruction);
Status VerifySharding(const Instruction& instruction);
Status VerifyLayouts(const Instruction& instruction);  // layout_sensitive alone

// Starts and dones, sends and receives.
Status VerifyPairs(const Instruction& instruction);

// The module's header: aliases, donors, entry layout.
Status VerifyHeader(const Module& module);

// "add: ..." or "while body ..."; not "reducer ..." for reduce.
bool StartsWithOp(std::string_view message, std::string_view mnemonic);

// Adds the op in front, the instruction as a note and the source line.
Error AtInstruction(Error error, const Instruction& instruction);

}  // namespace weft::hlo
