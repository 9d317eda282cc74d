// LLVM's C++ interface, where its C interface has no say: which passes make machine code of a
// module, and that what a run of passes needs is made once. Seen by llvm.cc alone.
#pragma once

#include <llvm-c/TargetMachine.h>
#include <llvm-c/Types.h>

#include <memory>
#include <string>

#include "cpu/llvm/llvm.h"

namespace weft::cpu {

// Pipelines over IR, each given in LLVM's notation; kept for the next module. Some of the
// passes are ours (cpu/llvm/passes.h).
class IrPasses {
 public:
  explicit IrPasses(LLVMTargetMachineRef machine);
  ~IrPasses();
  Status Run(LLVMModuleRef module, const std::string& passes);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Whether lanes some elements apart are taken out of what is loaded.
bool HasSpreadLoads(LLVMModuleRef module);

// From IR to machine code, for one module after the other. `spread_loads`: such loads are looked
// for, which machines may have instructions for.
class CodeGenerator {
 public:
  CodeGenerator(LLVMTargetMachineRef machine, CodeEffort effort, bool spread_loads,
                LLVMCodeGenFileType kind);
  ~CodeGenerator();
  // The bytes of an object file, or the text of the machine code; empty if the target cannot make
  // them. Changes the module.
  std::string Run(LLVMModuleRef module);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::cpu
