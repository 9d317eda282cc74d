// The CPU as a device.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/error.h"
#include "runtime/device.h"

namespace weft::cpu {

// This machine, as far as code generation and cost models care.
program::TargetInfo HostTarget();

// The LLVM IR of a Program for any CPU, as text; needs no LLVM.
Result<std::string> LlvmText(const program::Program& program, const program::TargetInfo& target);

// Its machine code as text, for a CPU of this machine's architecture, without the passes over LLVM
// IR that are disabled.
Result<std::string> AssemblyText(const program::Program& program, const program::TargetInfo& target,
                                 std::span<const std::string> disabled);

// Whether this build has LLVM; without it CreateDevice is an UNIMPLEMENTED error.
bool IsAvailable();
Result<std::unique_ptr<runtime::Device>> CreateDevice();

}  // namespace weft::cpu
