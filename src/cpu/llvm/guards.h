// Guards: branches whose unlikely side holds an optimization barrier (render/kernel.cc).
#pragma once

#include <llvm/IR/BasicBlock.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/PassManager.h>

namespace weft::cpu {

// Optimization barriers and volatile loads: LLVM leaves them, they write nothing.
bool IsOptimizationBarrier(const llvm::Instruction& i);
bool IsGuard(const llvm::BasicBlock& block);
unsigned LikelySuccessor(const llvm::BranchInst& check);

void AddLoopVersioning(llvm::FunctionPassManager& passes);

}  // namespace weft::cpu
