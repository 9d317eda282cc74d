// Guards of indices (guard widening; loop_versioning.cc) and silent stores.
#include <llvm/Analysis/AliasAnalysis.h>
#include <llvm/Analysis/Loads.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/Analysis/ScalarEvolutionExpressions.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/Cloning.h>
#include <llvm/Transforms/Utils/LoopUtils.h>
#include <llvm/Transforms/Utils/ScalarEvolutionExpander.h>
#include <llvm/Transforms/Utils/ValueMapper.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "cpu/llvm/guards.h"
#include "cpu/llvm/passes.h"
#include "program/work_bounds.h"

namespace weft::cpu {
namespace {

// Guard widening: several guards of one iteration are evaluated together at its start, as far as
// their operands can be computed there. If all of them hold, the iteration goes through code
// without guards; else through the code that was there before.
class GuardWidening : public llvm::PassInfoMixin<GuardWidening> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses) {
    auto& loops = analyses.getResult<llvm::LoopAnalysis>(function);
    auto& order = analyses.getResult<llvm::DominatorTreeAnalysis>(function);
    auto& aliases = analyses.getResult<llvm::AAManager>(function);
    auto& evolution = analyses.getResult<llvm::ScalarEvolutionAnalysis>(function);
    std::vector<Iteration> iterations;
    for (llvm::Loop* loop : loops.getLoopsInPreorder()) {
      if (auto iteration = Find(*loop, order, aliases, evolution))
        iterations.push_back(std::move(*iteration));
    }
    for (const Iteration& iteration : iterations) Part(iteration);
    return iterations.empty() ? llvm::PreservedAnalyses::all() : llvm::PreservedAnalyses::none();
  }

 private:
  struct Iteration {
    llvm::BasicBlock *header, *latch;
    std::vector<llvm::BasicBlock*> blocks;
    std::vector<llvm::BranchInst*> checks;
    llvm::SetVector<llvm::Instruction*> early;  // what they are made of, in the order of the loop
    llvm::SmallPtrSet<llvm::Value*, 4> speculated;  // conditions that some iterations do not reach
  };

  // The blocks from the start of an iteration on the likely side of its guards.
  static llvm::SmallPtrSet<const llvm::BasicBlock*, 16> LikelyPath(const Iteration& iteration) {
    llvm::SmallPtrSet<const llvm::BasicBlock*, 16> way;
    const llvm::BasicBlock* block = iteration.header;
    while (block != nullptr && block != iteration.latch && way.insert(block).second) {
      const auto* check = llvm::dyn_cast<llvm::BranchInst>(block->getTerminator());
      block = IsGuard(*block) ? check->getSuccessor(LikelySuccessor(*check))
                              : block->getSingleSuccessor();
    }
    return way;
  }

  static std::optional<Iteration> Find(llvm::Loop& loop, llvm::DominatorTree& order,
                                       llvm::AAResults& aliases, llvm::ScalarEvolution& evolution) {
    constexpr size_t kMost = 2 * program::WorkBounds::kBlock;  // instructions
    if (!loop.isInnermost() || loop.getLoopLatch() == nullptr) return std::nullopt;
    Iteration iteration{loop.getHeader(), loop.getLoopLatch(), loop.getBlocks().vec(), {}, {}, {}};
    if (iteration.header == iteration.latch || loop.getExitingBlock() != iteration.latch)
      return std::nullopt;
    size_t instructions = 0;
    std::vector<llvm::Instruction*> writes;
    std::vector<llvm::BranchInst*> found;
    for (llvm::BasicBlock* block : iteration.blocks) {
      instructions += block->size();
      if (IsGuard(*block)) found.push_back(llvm::cast<llvm::BranchInst>(block->getTerminator()));
      for (llvm::Instruction& i : *block) {
        if (MayWrite(i) && !IsOptimizationBarrier(i)) writes.push_back(&i);
      }
    }
    if (instructions > kMost) return std::nullopt;
    llvm::SmallPtrSet<const llvm::BasicBlock*, 16> likely = LikelyPath(iteration);
    auto is_always = [&](const llvm::BasicBlock* block) {
      return order.dominates(block, iteration.latch);
    };
    for (llvm::BranchInst* check : found) {
      llvm::SetVector<llvm::Instruction*> early = iteration.early;
      auto* condition = llvm::cast<llvm::Instruction>(check->getCondition());
      if (!loop.contains(condition)) continue;
      auto is_kept = [&](llvm::LoadInst& load) {
        if (!is_always(load.getParent()) &&
            !llvm::isDereferenceableAndAlignedInLoop(&load, &loop, evolution, order)) {
          return false;
        }
        return llvm::none_of(writes, [&](llvm::Instruction* write) {
          return !order.dominates(&load, write) &&
                 llvm::isModSet(aliases.getModRefInfo(write, llvm::MemoryLocation::get(&load)));
        });
      };
      bool always = is_always(condition->getParent());
      if (!always && !likely.contains(condition->getParent())) continue;
      if (!Gather(*condition, loop, is_kept, /*loads=*/1, early)) continue;
      iteration.checks.push_back(check);
      if (!always) iteration.speculated.insert(condition);
      iteration.early = std::move(early);
    }
    if (iteration.checks.size() < 2) return std::nullopt;
    return iteration;
  }

  // The backward slice of the value in this iteration; false if it cannot be computed at its start.
  // Addresses of loads are no loads, so that they are those that every path of the iteration has.
  static bool Gather(llvm::Instruction& value, const llvm::Loop& loop,
                     llvm::function_ref<bool(llvm::LoadInst&)> is_kept, int loads,
                     llvm::SetVector<llvm::Instruction*>& early) {
    if (!loop.contains(&value) || early.contains(&value)) return true;
    if (llvm::isa<llvm::PHINode>(value)) return value.getParent() == loop.getHeader();
    if (auto* load = llvm::dyn_cast<llvm::LoadInst>(&value)) {
      if (loads == 0 || !load->isSimple() || !is_kept(*load)) return false;
      --loads;
    } else if (value.mayReadOrWriteMemory() || !llvm::isSafeToSpeculativelyExecute(&value)) {
      return false;
    }
    for (llvm::Value* operand : value.operands()) {
      auto* i = llvm::dyn_cast<llvm::Instruction>(operand);
      if (i != nullptr && !Gather(*i, loop, is_kept, loads, early)) return false;
    }
    early.insert(&value);
    return true;
  }

  // What the guards are made of, computed where the iteration begins; whether all of them hold.
  static llvm::Value* AskAll(const Iteration& iteration, llvm::IRBuilder<>& b,
                             llvm::ValueToValueMapTy& map) {
    const auto kMap = llvm::RF_NoModuleLevelChanges | llvm::RF_IgnoreMissingLocals;
    for (llvm::Instruction* i : iteration.early) {
      llvm::Instruction* copy = b.Insert(i->clone());
      llvm::RemapInstruction(copy, map, kMap);
      map[i] = copy;
    }
    llvm::Value* all = nullptr;
    llvm::SmallPtrSet<llvm::Value*, 4> asked;
    for (llvm::BranchInst* check : iteration.checks) {
      llvm::Value* condition = map[check->getCondition()];
      if (!asked.insert(condition).second) continue;
      if (iteration.speculated.contains(check->getCondition()))
        condition = b.CreateFreeze(condition);
      llvm::Value* holds = LikelySuccessor(*check) == 0 ? condition : b.CreateNot(condition);
      all = all == nullptr ? holds : b.CreateAnd(all, holds);
    }
    return all;
  }

  static void Part(const Iteration& iteration) {
    llvm::Function& function = *iteration.header->getParent();
    llvm::MDBuilder facts(function.getContext());
    llvm::BasicBlock* begin =
        iteration.header->splitBasicBlock(iteration.header->getFirstNonPHIIt());
    llvm::BasicBlock* end = iteration.latch->splitBasicBlock(iteration.latch->getFirstNonPHIIt());
    std::vector<llvm::BasicBlock*> blocks = iteration.blocks, copies;
    std::replace(blocks.begin(), blocks.end(), iteration.header, begin);
    auto read_later = ReadLater(blocks);

    llvm::ValueToValueMapTy map;
    llvm::IRBuilder<> b(iteration.header->getTerminator());
    llvm::Value* all = AskAll(iteration, b, map);
    for (llvm::BasicBlock* block : blocks) {
      llvm::BasicBlock* copy =
          llvm::BasicBlock::Create(function.getContext(), "", &function, begin);
      map[block] = copy;
      copies.push_back(copy);
      for (llvm::Instruction& i : *block) {
        if (iteration.early.contains(&i)) continue;
        llvm::Instruction* same = i.clone();
        same->insertInto(copy, copy->end());
        map[&i] = same;
      }
    }
    llvm::remapInstructionsInBlocks(copies, map);
    for (llvm::BranchInst* check : iteration.checks) {
      auto* same = llvm::cast<llvm::BranchInst>(static_cast<llvm::Value*>(map[check]));
      same->setCondition(b.getInt1(LikelySuccessor(*check) == 0));
    }
    // What others read comes from the blocks or from their copies.
    auto copy_of = [&](llvm::BasicBlock* block) {
      return llvm::cast<llvm::BasicBlock>(static_cast<llvm::Value*>(map[block]));
    };
    for (auto& [value, uses] : read_later) {
      auto* joined = llvm::PHINode::Create(value->getType(), 2, "", end->begin());
      for (llvm::Use* use : uses) use->set(joined);
      joined->addIncoming(value, iteration.latch);
      joined->addIncoming(map[value], copy_of(iteration.latch));
    }
    llvm::Instruction* before = iteration.header->getTerminator();
    // One jump, where comparisons are joined without it.
    b.CreateCondBr(all, copy_of(begin), begin, facts.createBranchWeights(100000, 1),
                   IsForAArch64(function) ? facts.createUnpredictable() : nullptr);
    before->eraseFromParent();
  }

  static std::vector<std::pair<llvm::Instruction*, std::vector<llvm::Use*>>> ReadLater(
      const std::vector<llvm::BasicBlock*>& blocks) {
    std::vector<std::pair<llvm::Instruction*, std::vector<llvm::Use*>>> found;
    llvm::SmallPtrSet<const llvm::BasicBlock*, 16> inside(blocks.begin(), blocks.end());
    for (llvm::BasicBlock* block : blocks) {
      for (llvm::Instruction& i : *block) {
        std::vector<llvm::Use*> uses;
        for (llvm::Use& use : i.uses()) {
          if (!inside.contains(llvm::cast<llvm::Instruction>(use.getUser())->getParent())) {
            uses.push_back(&use);
          }
        }
        if (!uses.empty()) found.push_back({&i, std::move(uses)});
      }
    }
    return found;
  }
};

// Silent store elimination: a number in memory that becomes the minimum or maximum of itself and
// another one is stored only where it changes. The test compares the two numbers instead of the
// bits of the result, which takes it off the critical path and spares a move to integer registers.
class SilentStoreElimination : public llvm::PassInfoMixin<SilentStoreElimination> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager&) {
    bool changed = false;
    for (llvm::BasicBlock& block : function) {
      auto* branch = llvm::dyn_cast<llvm::BranchInst>(block.getTerminator());
      if (branch != nullptr && branch->isConditional()) changed |= Ask(*branch);
    }
    return KeepsBlocks(changed);
  }

 private:
  static bool Ask(llvm::BranchInst& branch) {
    auto* same = llvm::dyn_cast<llvm::ICmpInst>(branch.getCondition());
    if (same == nullptr || !same->isEquality() || !same->hasOneUse()) return false;
    bool equal = same->getPredicate() == llvm::CmpInst::ICMP_EQ;
    const llvm::StoreInst* store = LoneStore(*branch.getSuccessor(equal ? 1 : 0));
    if (store == nullptr ||
        store->getParent()->getSingleSuccessor() != branch.getSuccessor(equal ? 0 : 1)) {
      return false;
    }
    const auto* result = llvm::dyn_cast<llvm::IntrinsicInst>(store->getValueOperand());
    if (result == nullptr || !IsLeastOrGreatest(*result)) return false;
    for (unsigned k : {0u, 1u}) {
      const auto* bits = llvm::dyn_cast<llvm::LoadInst>(same->getOperand(k));
      const auto* other = llvm::dyn_cast<llvm::BitCastInst>(same->getOperand(1 - k));
      if (bits == nullptr || other == nullptr || other->getOperand(0) != result) continue;
      for (unsigned n : {0u, 1u}) {
        const auto* number = llvm::dyn_cast<llvm::LoadInst>(result->getArgOperand(n));
        if (number == nullptr || !AreSame(*number, *bits, *store)) continue;
        llvm::IRBuilder<> b(&branch);
        bool least = result->getIntrinsicID() == llvm::Intrinsic::minimum;
        llvm::Value *x = result->getArgOperand(n), *y = result->getArgOperand(1 - n);
        llvm::Value* stays = least ? b.CreateFCmpOLT(x, y) : b.CreateFCmpOGT(x, y);
        branch.setCondition(equal ? stays : b.CreateNot(stays));
        return true;
      }
    }
    return false;
  }

  static bool IsLeastOrGreatest(const llvm::IntrinsicInst& call) {
    return call.getIntrinsicID() == llvm::Intrinsic::minimum ||
           call.getIntrinsicID() == llvm::Intrinsic::maximum;
  }

  // The store of a block that does nothing else.
  static const llvm::StoreInst* LoneStore(const llvm::BasicBlock& block) {
    const auto* store = llvm::dyn_cast<llvm::StoreInst>(&block.front());
    bool lone = store != nullptr && store->isSimple() && store->getNextNode()->isTerminator() &&
                block.getSinglePredecessor() != nullptr;
    return lone ? store : nullptr;
  }

  // Two loads of the place that is stored to, with nothing between them that could write there.
  static bool AreSame(const llvm::LoadInst& a, const llvm::LoadInst& b,
                      const llvm::StoreInst& store) {
    if (a.getPointerOperand() != store.getPointerOperand() ||
        b.getPointerOperand() != store.getPointerOperand() || !a.isSimple() || !b.isSimple() ||
        a.getParent() != b.getParent() ||
        a.getParent() != store.getParent()->getSinglePredecessor()) {
      return false;
    }
    const llvm::Instruction* first =
        a.comesBefore(&b) ? static_cast<const llvm::Instruction*>(&a) : &b;
    for (const llvm::Instruction* i = first; !i->isTerminator(); i = i->getNextNode()) {
      if (MayWrite(*i)) return false;
    }
    return true;
  }
};

}  // namespace

bool AddGuardPass(llvm::StringRef name, llvm::FunctionPassManager& passes) {
  if (name == "weft-loop-versioning") {
    AddLoopVersioning(passes);
  } else if (name == "weft-guard-widening") {
    passes.addPass(GuardWidening());
  } else if (name == "weft-silent-store-elimination") {
    passes.addPass(SilentStoreElimination());
  } else {
    return false;
  }
  return true;
}

}  // namespace weft::cpu
