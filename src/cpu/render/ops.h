// Computing operations of kernels as LLVM IR; the semantics are at the top of program/kernel.h.
#pragma once

#include <span>
#include <string>

#include "cpu/render/ir_text.h"
#include "program/kernel.h"

namespace weft::cpu {

// What is known of one operand.
struct Operand {
  std::string text;  // a name or a constant, without its type
  program::Type type;
  const program::Value* constant = nullptr;
};

// Appends what computes the instruction and returns its result: all operations but those on memory
// and control.
std::string RenderOp(IrBody& ir, const program::Instr& instr, std::span<const Operand> args,
                     const RenderTarget& target);

// Values of one lane count between the form in memory (StorageType) and the one computed with.
std::string FromStorage(IrBody& ir, DType storage, int lanes, const std::string& value);
std::string ToStorage(IrBody& ir, DType storage, int lanes, const std::string& value,
                      const RenderTarget& target);

}  // namespace weft::cpu
