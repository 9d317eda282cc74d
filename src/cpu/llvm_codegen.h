// The last part of LLVM's work, machine code of a module, through its C++ interface: the C
// interface has no say in which passes that takes. Seen by llvm.cc alone.
#pragma once

#include <llvm-c/TargetMachine.h>
#include <llvm-c/Types.h>

#include <string>

#include "cpu/llvm.h"

namespace weft::cpu {

// The bytes of an object file, or the text of the machine code; empty if the target cannot make
// them. Changes the module.
std::string GenerateCode(LLVMTargetMachineRef machine, LLVMModuleRef module, CodeEffort effort,
                         LLVMCodeGenFileType kind);

}  // namespace weft::cpu
