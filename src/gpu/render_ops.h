// Computing operations of kernels as C expressions, for one lane; the semantics are at the top of
// program/kernel.h, the functions called are in lib/.
#pragma once

#include <span>
#include <string>

#include "program/kernel.h"

namespace weft::gpu {

// All operations but those on lanes, memory and control. `types`: of the operands.
std::string RenderOp(const program::Instr& instr, std::span<const std::string> args,
                     std::span<const program::Type> types);

// A call that updates the element at an address.
std::string RenderAtomicCall(program::Op op, DType type, const std::string& address,
                             const std::string& value);

// A value between the form in memory (CudaStorageType) and the one computed with.
std::string FromStorage(DType storage, const std::string& value);
std::string ToStorage(DType storage, const std::string& value);

}  // namespace weft::gpu
