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
  std::string scalar = {};  // the name of the number in every lane, where it is a splat
};

// Appends what computes the instruction and returns its result: all operations but those on memory
// and control.
std::string RenderOp(IrBody& ir, const program::Instr& instr, std::span<const Operand> args,
                     const RenderTarget& target);

// Integer division, as kernels define it: `rem` asks for the remainder.
std::string RenderIntDivide(IrBody& ir, program::Type t, bool rem, const Operand& a,
                            const Operand& b, const RenderTarget& target);

// Single instructions: "add" of two values, a choice, a conversion, one number in all lanes.
std::string Plain(IrBody& ir, std::string_view op, program::Type t, const std::string& a,
                  const std::string& b);
std::string SelectOf(IrBody& ir, program::Type condition_type, const std::string& condition,
                     program::Type t, const std::string& a, const std::string& b);
std::string SelectOf(IrBody& ir, const std::string& condition, program::Type t,
                     const std::string& a, const std::string& b);
std::string Convert(IrBody& ir, std::string_view op, program::Type from, program::Type to,
                    const std::string& a);
std::string Splat(program::Type type, int64_t number);

// Values of one lane count between the form in memory (StorageType) and the one computed with.
std::string FromStorage(IrBody& ir, DType storage, int lanes, const std::string& value);
std::string ToStorage(IrBody& ir, DType storage, int lanes, const std::string& value,
                      const RenderTarget& target);

}  // namespace weft::cpu
