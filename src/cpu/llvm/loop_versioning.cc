#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/Analysis/ScalarEvolutionExpressions.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/Cloning.h>
#include <llvm/Transforms/Utils/LoopUtils.h>
#include <llvm/Transforms/Utils/ScalarEvolutionExpander.h>
#include <llvm/Transforms/Utils/ValueMapper.h>

#include <vector>

#include "cpu/llvm/guards.h"
#include "program/work_bounds.h"

namespace weft::cpu {

bool IsOptimizationBarrier(const llvm::Instruction& i) {
  if (llvm::isa<llvm::LoadInst>(i)) return true;
  const auto* call = llvm::dyn_cast<llvm::CallInst>(&i);
  if (call == nullptr || !call->isInlineAsm()) return false;
  const auto* text = llvm::cast<llvm::InlineAsm>(call->getCalledOperand());
  return text->hasSideEffects() && text->getConstraintString().find("memory") == std::string::npos;
}

namespace {

// The unlikely successor of a guard holds an optimization barrier.
bool IsUnlikely(const llvm::BasicBlock& block) {
  return llvm::any_of(block, [](const llvm::Instruction& i) {
    return llvm::isa<llvm::CallInst>(i) && IsOptimizationBarrier(i);
  });
}

}  // namespace

bool IsGuard(const llvm::BasicBlock& block) {
  const auto* branch = llvm::dyn_cast<llvm::BranchInst>(block.getTerminator());
  return branch != nullptr && branch->isConditional() &&
         llvm::isa<llvm::ICmpInst>(branch->getCondition()) &&
         IsUnlikely(*branch->getSuccessor(0)) != IsUnlikely(*branch->getSuccessor(1));
}

unsigned LikelySuccessor(const llvm::BranchInst& check) {
  return IsUnlikely(*check.getSuccessor(0)) ? 1 : 0;
}

namespace {

// Loop versioning on guards of indices that are affine in the loop: they are evaluated before the
// loop, for its first and its last iteration. If they hold there, a loop without them runs, which
// may be vectorized; else the one that was there before.
class LoopVersioning : public llvm::PassInfoMixin<LoopVersioning> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses) {
    auto& loops = analyses.getResult<llvm::LoopAnalysis>(function);
    auto& order = analyses.getResult<llvm::DominatorTreeAnalysis>(function);
    auto& evolution = analyses.getResult<llvm::ScalarEvolutionAnalysis>(function);
    bool changed = false;
    for (llvm::Loop* loop : loops.getLoopsInPreorder()) {
      changed |= Version(*loop, loops, order, evolution);
    }
    return changed ? llvm::PreservedAnalyses::none() : llvm::PreservedAnalyses::all();
  }

 private:
  struct Check {
    llvm::BranchInst* branch;
    const llvm::SCEVAddRecExpr* index;
    uint64_t size;  // the index is less
  };

  static bool Version(llvm::Loop& loop, llvm::LoopInfo& loops, llvm::DominatorTree& order,
                      llvm::ScalarEvolution& evolution) {
    if (!loop.isInnermost() || !loop.isLoopSimplifyForm()) return false;
    if (loop.getExitingBlock() == nullptr || loop.getExitingBlock() != loop.getLoopLatch()) {
      return false;
    }
    std::vector<Check> checks = Find(loop, evolution);
    const llvm::SCEV* trips = evolution.getBackedgeTakenCount(&loop);
    if (checks.empty() || llvm::isa<llvm::SCEVCouldNotCompute>(trips)) return false;
    llvm::formLCSSA(loop, order, &loops, &evolution);
    llvm::Instruction& before = *loop.getLoopPreheader()->getTerminator();
    llvm::Value* all = Ask(checks, trips, before, evolution);
    if (all == nullptr) return true;
    Clone(loop, *all, loops, order);
    for (const Check& check : checks) {
      llvm::Type* i1 = check.branch->getCondition()->getType();
      check.branch->setCondition(
          llvm::ConstantInt::get(i1, LikelySuccessor(*check.branch) == 0 ? 1 : 0));
    }
    evolution.forgetLoop(&loop);
    return true;
  }

  // A copy of the loop that runs where `all` does not hold.
  static void Clone(llvm::Loop& loop, llvm::Value& all, llvm::LoopInfo& loops,
                    llvm::DominatorTree& order) {
    llvm::BasicBlock *before = loop.getLoopPreheader(), *after = loop.getExitBlock();
    llvm::BasicBlock* begin = llvm::SplitBlock(before, before->getTerminator(), &order, &loops);
    llvm::ValueToValueMapTy map;
    llvm::SmallVector<llvm::BasicBlock*, 8> copies;
    llvm::Loop* with =
        llvm::cloneLoopWithPreheader(begin, before, &loop, map, "", &loops, &order, copies);
    llvm::remapInstructionsInBlocks(copies, map);
    llvm::Instruction* jump = before->getTerminator();
    llvm::IRBuilder<> b(jump);
    llvm::MDNode* likely = llvm::MDBuilder(jump->getContext()).createBranchWeights(100000, 1);
    b.CreateCondBr(&all, begin, with->getLoopPreheader(), likely);
    jump->eraseFromParent();
    order.changeImmediateDominator(after, before);
    for (llvm::PHINode& phi : after->phis()) {
      llvm::Value* value = phi.getIncomingValueForBlock(loop.getExitingBlock());
      auto found = map.find(value);
      phi.addIncoming(found == map.end() ? value : static_cast<llvm::Value*>(found->second),
                      with->getExitingBlock());
    }
  }

  static std::vector<Check> Find(const llvm::Loop& loop, llvm::ScalarEvolution& evolution) {
    constexpr size_t kMost = program::WorkBounds::kBlock;  // instructions
    std::vector<Check> checks;
    size_t instructions = 0;
    for (llvm::BasicBlock* block : loop.blocks()) {
      instructions += block->size();
      if (!IsGuard(*block)) continue;
      auto* branch = llvm::cast<llvm::BranchInst>(block->getTerminator());
      auto* condition = llvm::cast<llvm::ICmpInst>(branch->getCondition());
      const auto* bound = llvm::dyn_cast<llvm::ConstantInt>(condition->getOperand(1));
      if (bound == nullptr || bound->getBitWidth() > 64) continue;
      llvm::CmpInst::Predicate holds = LikelySuccessor(*branch) == 0
                                           ? condition->getPredicate()
                                           : condition->getInversePredicate();
      bool inclusive = holds == llvm::CmpInst::ICMP_ULE;
      if (!inclusive && holds != llvm::CmpInst::ICMP_ULT) continue;
      const auto* index =
          llvm::dyn_cast<llvm::SCEVAddRecExpr>(evolution.getSCEV(condition->getOperand(0)));
      if (index == nullptr || index->getLoop() != &loop || !index->isAffine()) continue;
      const auto* step = llvm::dyn_cast<llvm::SCEVConstant>(index->getStepRecurrence(evolution));
      uint64_t size = bound->getZExtValue() + (inclusive ? 1 : 0);
      if (step == nullptr || step->getAPInt().abs().ugt(kLargest) || size > kLargest) continue;
      checks.push_back({branch, index, size});
    }
    return instructions > kMost ? std::vector<Check>{} : checks;
  }

  // Whether all of them hold in the first and in the last iteration, and so in those between: none
  // of the numbers is so large that a sum of products could wrap.
  static llvm::Value* Ask(const std::vector<Check>& checks, const llvm::SCEV* trips,
                          llvm::Instruction& at, llvm::ScalarEvolution& evolution) {
    llvm::SCEVExpander expander(evolution, at.getDataLayout(), "checked");
    llvm::IRBuilder<> b(&at);
    if (evolution.getTypeSizeInBits(trips->getType()) > 64) return nullptr;
    for (const Check& check : checks) {
      if (!expander.isSafeToExpandAt(check.index->getStart(), &at)) return nullptr;
    }
    if (!expander.isSafeToExpandAt(trips, &at)) return nullptr;
    llvm::Value* count = b.CreateZExt(expander.expandCodeFor(trips, nullptr, &at), b.getInt64Ty());
    llvm::Value* all = b.CreateICmpULT(count, b.getInt64(kLargest));
    for (const Check& check : checks) {
      llvm::Value* first = expander.expandCodeFor(check.index->getStart(), nullptr, &at);
      first = b.CreateZExt(first, b.getInt64Ty());
      const auto* step = llvm::cast<llvm::SCEVConstant>(check.index->getStepRecurrence(evolution));
      llvm::Value* size = b.getInt64(check.size);
      llvm::Value* way = b.CreateMul(count, b.getInt64(step->getAPInt().getSExtValue()));
      all = b.CreateAnd(all, b.CreateICmpULT(first, size));
      all = b.CreateAnd(all, b.CreateICmpULT(b.CreateAdd(first, way), size));
    }
    return b.CreateFreeze(all);
  }

  static constexpr uint64_t kLargest = uint64_t{1} << 31;
};

}  // namespace

void AddLoopVersioning(llvm::FunctionPassManager& passes) {
  passes.addPass(LoopVersioning());
}

}  // namespace weft::cpu
