// Passes over LLVM IR of our own, `weft-...` in pipelines. Seen by codegen.cc alone.
#pragma once

#include <llvm/ADT/StringRef.h>
#include <llvm/IR/Instruction.h>
#include <llvm/IR/PassManager.h>

namespace llvm {
class TargetMachine;
}

namespace weft::cpu {

// Adds the pass of that name; false: there is none.
bool AddGuardPass(llvm::StringRef name, llvm::FunctionPassManager& passes);  // guard_passes.cc
bool AddInductionPass(llvm::StringRef name,
                      llvm::FunctionPassManager& passes);                   // induction_passes.cc
bool AddLoopPass(llvm::StringRef name, llvm::FunctionPassManager& passes);  // loop_passes.cc
bool AddMinMaxPass(llvm::StringRef name, const llvm::TargetMachine* machine,
                   llvm::FunctionPassManager& passes);                        // minmax_passes.cc
bool AddVectorPass(llvm::StringRef name, llvm::FunctionPassManager& passes);  // vector_passes.cc

bool IsForX86(const llvm::Function& function);
bool IsForAArch64(const llvm::Function& function);
bool MayWrite(const llvm::Instruction& i);
// What a pass says that left the blocks as they were.
llvm::PreservedAnalyses KeepsBlocks(bool changed);

}  // namespace weft::cpu
