#include "cpu/llvm_codegen.h"

#include <llvm/Analysis/AliasAnalysis.h>
#include <llvm/Analysis/Loads.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/Analysis/ScalarEvolutionExpressions.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/CodeGen/MachineModuleInfo.h>
#include <llvm/CodeGen/Passes.h>
#include <llvm/CodeGen/TargetPassConfig.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PatternMatch.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetLoweringObjectFile.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Triple.h>
#include <llvm/Transforms/Scalar.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/Cloning.h>
#include <llvm/Transforms/Utils/LoopUtils.h>
#include <llvm/Transforms/Utils/ScalarEvolutionExpander.h>
#include <llvm/Transforms/Utils/ValueMapper.h>

#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace weft::cpu {
namespace {

// A pass costs a few microseconds a function even where it finds nothing to do. These never do:
// what they work on (debug values, garbage collection, profiling hooks, exceptions, several stack
// slots of one function that are alive at different times) is not in our code, or they are switched
// off anyway and would only look whether they are. The schedulers would find something: but lanes
// of one operation after the other are the order that keeps values in registers and a core busy,
// and they take a tenth of the time to spill what long code holds.
void DisableIdle(llvm::TargetPassConfig& config) {
  for (const void* pass :
       {&llvm::FEntryInserterID, &llvm::FixupStatepointCallerSavedID, &llvm::FuncletLayoutID,
        &llvm::GCMachineCodeAnalysisID, &llvm::InitUndefID, &llvm::LiveDebugValuesID,
        &llvm::LocalStackSlotAllocationID, &llvm::MachineSanitizerBinaryMetadataID,
        &llvm::MachineSchedulerID, &llvm::PatchableFunctionID, &llvm::PostMachineSchedulerID,
        &llvm::RemoveRedundantDebugValuesID, &llvm::StackColoringID,
        &llvm::StackFrameLayoutAnalysisPassID, &llvm::StackMapLivenessID,
        &llvm::UnreachableMachineBlockElimID, &llvm::XRayInstrumentationID}) {
    config.disablePass(pass);
  }
}

// What has something to do in code with branches alone: kernels are a few loops, one in the other,
// around long straight code that is in order already.
void DisableForKernels(llvm::TargetPassConfig& config) {
  for (const void* pass :
       {&llvm::BranchFolderPassID, &llvm::DetectDeadLanesID, &llvm::EarlyIfConverterID,
        &llvm::EarlyTailDuplicateID, &llvm::MachineCombinerID, &llvm::MachineCopyPropagationID,
        &llvm::MachineLateInstrsCleanupID, &llvm::MachineLICMID, &llvm::MachineSinkingID,
        &llvm::OptimizePHIsID, &llvm::PeepholeOptimizerID, &llvm::PostRAMachineSinkingID,
        &llvm::RenameIndependentSubregsID, &llvm::ShrinkWrapID, &llvm::StackSlotColoringID,
        &llvm::TailDuplicateID}) {
    config.disablePass(pass);
  }
}

// From IR to machine instructions.
void AddSelection(llvm::TargetPassConfig& config, llvm::legacy::PassManager& passes,
                  CodeEffort effort, bool spread_loads) {
  if (spread_loads) {  // as loads that take lanes apart, where the machine has them
    passes.add(llvm::createInterleavedLoadCombinePass());
    passes.add(llvm::createInterleavedAccessPass());
  }
  passes.add(llvm::createPreISelIntrinsicLoweringPass());
  if (effort == CodeEffort::kLoops) passes.add(llvm::createLoopStrengthReducePass());
  passes.add(llvm::createExpandReductionsPass());
  passes.add(llvm::createScalarizeMaskedMemIntrinLegacyPass());
  config.addCodeGenPrepare();
  config.addInstSelector();
  passes.add(llvm::Pass::createPass(&llvm::FinalizeISelID));
}

bool IsForX86(const llvm::Function& function) {
  return llvm::Triple(function.getParent()->getTargetTriple()).isX86();
}
bool IsForAArch64(const llvm::Function& function) {
  return llvm::Triple(function.getParent()->getTargetTriple()).isAArch64();
}

bool MayWrite(const llvm::Instruction& i) {
  const auto* fact = llvm::dyn_cast<llvm::IntrinsicInst>(&i);
  bool is_fact = fact != nullptr && fact->isAssumeLikeIntrinsic();
  return !is_fact && i.mayWriteToMemory();
}

bool OnlyReads(const llvm::Loop& loop) {
  for (const llvm::BasicBlock* block : loop.blocks()) {
    if (llvm::any_of(*block, MayWrite)) return false;
  }
  return true;
}

bool IsNumber(const llvm::Type& type) {
  return type.isIntegerTy() || type.isFloatingPointTy();
}

// Loads of elements some apart that the machine cannot gather.
std::vector<llvm::LoadInst*> FarLoads(const llvm::Loop& loop,
                                      const llvm::TargetTransformInfo& machine,
                                      llvm::ScalarEvolution& evolution) {
  constexpr int64_t kNear = 8;  // elements: what shuffles may take out of wide loads
  std::vector<llvm::LoadInst*> found;
  for (llvm::BasicBlock* block : loop.blocks()) {
    for (llvm::Instruction& i : *block) {
      auto* load = llvm::dyn_cast<llvm::LoadInst>(&i);
      if (load == nullptr || !load->isSimple() || !IsNumber(*load->getType())) continue;
      auto* lanes = llvm::FixedVectorType::get(load->getType(), 8);
      if (machine.isLegalMaskedGather(lanes, load->getAlign())) continue;
      const auto* address =
          llvm::dyn_cast<llvm::SCEVAddRecExpr>(evolution.getSCEV(load->getPointerOperand()));
      if (address == nullptr || address->getLoop() != &loop || !address->isAffine()) continue;
      const auto* step = llvm::dyn_cast<llvm::SCEVConstant>(address->getStepRecurrence(evolution));
      int64_t bytes = static_cast<int64_t>(load->getType()->getPrimitiveSizeInBits() / 8);
      if (step == nullptr || step->getAPInt().abs().ule(kNear * bytes)) continue;
      found.push_back(load);
    }
  }
  return found;
}

// Loads of elements far apart, in loops that only read: their addresses become pointers that move.
// The vectorizer of loops otherwise computes addresses in vectors, on machines that could gather
// but had better not, and takes every one of them out again.
class MovePointers : public llvm::PassInfoMixin<MovePointers> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses) {
    const auto& machine = analyses.getResult<llvm::TargetIRAnalysis>(function);
    if (!machine.prefersVectorizedAddressing()) return llvm::PreservedAnalyses::all();
    auto& evolution = analyses.getResult<llvm::ScalarEvolutionAnalysis>(function);
    bool changed = false;
    for (llvm::Loop* loop : analyses.getResult<llvm::LoopAnalysis>(function).getLoopsInPreorder()) {
      if (!loop->isInnermost() || !loop->isLoopSimplifyForm() || !OnlyReads(*loop)) continue;
      bool moves = false;
      for (llvm::LoadInst* load : FarLoads(*loop, machine, evolution)) {
        llvm::SCEVExpander expander(evolution, function.getDataLayout(), "moving");
        expander.disableCanonicalMode();
        const llvm::SCEV* address = evolution.getSCEV(load->getPointerOperand());
        if (!expander.isSafeToExpand(address)) continue;
        load->setOperand(0, expander.expandCodeFor(address, nullptr, load->getIterator()));
        moves = true;
      }
      // Its loads take as long as they take: more vectors a round only leave more to the rest.
      if (moves) llvm::addStringMetadataToLoop(loop, "llvm.loop.interleave.count", 1);
      changed |= moves;
    }
    if (!changed) return llvm::PreservedAnalyses::all();
    llvm::PreservedAnalyses preserved;
    preserved.preserveSet<llvm::CFGAnalyses>();
    return preserved;
  }
};

// Loads of elements far apart, on AArch64: a lane is loaded by one instruction, which the
// vectorizer of loops takes for several. Loops that only read, and compute integers of several such
// loads' worth, become vectors.
class LoadLanes : public llvm::PassInfoMixin<LoadLanes> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses) {
    if (!IsForAArch64(function)) return llvm::PreservedAnalyses::all();
    const auto& machine = analyses.getResult<llvm::TargetIRAnalysis>(function);
    auto& evolution = analyses.getResult<llvm::ScalarEvolutionAnalysis>(function);
    for (llvm::Loop* loop : analyses.getResult<llvm::LoopAnalysis>(function).getLoopsInPreorder()) {
      if (loop->getNumBlocks() != 1 || !loop->isLoopSimplifyForm() || !OnlyReads(*loop)) continue;
      size_t far = FarLoads(*loop, machine, evolution).size();
      if (far == 0 || Computed(*loop, evolution) < 2 * far) continue;
      // Without a width the vectorizer would ask what it costs; with one it takes sums in any
      // order.
      llvm::addStringMetadataToLoop(loop, "llvm.loop.vectorize.width", kLanes);
      llvm::addStringMetadataToLoop(loop, "llvm.loop.interleave.count", 1);
    }
    return llvm::PreservedAnalyses::all();
  }

 private:
  static constexpr unsigned kLanes = 4, kBits = 32;

  // How many operations and loads the next round gets integers from; none if it gets other numbers.
  static size_t Computed(const llvm::Loop& loop, llvm::ScalarEvolution& evolution) {
    llvm::SmallPtrSet<const llvm::Value*, 16> seen;
    std::vector<const llvm::Value*> left;
    for (const llvm::PHINode& phi : loop.getHeader()->phis()) {
      if (evolution.isSCEVable(phi.getType()) &&
          llvm::isa<llvm::SCEVAddRecExpr>(evolution.getSCEV(const_cast<llvm::PHINode*>(&phi)))) {
        continue;
      }
      if (!phi.getType()->isIntegerTy(kBits)) return 0;
      left.push_back(phi.getIncomingValueForBlock(loop.getLoopLatch()));
    }
    while (!left.empty()) {
      const auto* i = llvm::dyn_cast<llvm::Instruction>(left.back());
      left.pop_back();
      if (i == nullptr || !loop.contains(i) || llvm::isa<llvm::PHINode>(i)) continue;
      if (!seen.insert(i).second || llvm::isa<llvm::LoadInst>(i)) continue;
      left.insert(left.end(), i->value_op_begin(), i->value_op_end());
    }
    return seen.size();
  }
};

// Long code under a condition, in a loop of scalars: the vectorizer of loops would compute it in
// every round, for lanes that need it and others, so such loops stay as they are. What is seldom
// needed, such as the sine of large numbers, comes this way.
class KeepBranches : public llvm::PassInfoMixin<KeepBranches> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses) {
    auto& order = analyses.getResult<llvm::DominatorTreeAnalysis>(function);
    for (llvm::Loop* loop : analyses.getResult<llvm::LoopAnalysis>(function).getLoopsInPreorder()) {
      if (!loop->isInnermost() || loop->getLoopLatch() == nullptr || !IsLong(*loop, order))
        continue;
      llvm::addStringMetadataToLoop(loop, "llvm.loop.vectorize.width", 1);
    }
    return llvm::PreservedAnalyses::all();
  }

 private:
  static bool IsLong(const llvm::Loop& loop, const llvm::DominatorTree& order) {
    constexpr size_t kLong = 32;  // instructions
    size_t instructions = 0;
    for (const llvm::BasicBlock* block : loop.blocks()) {
      if (!order.dominates(block, loop.getLoopLatch())) instructions += block->size();
    }
    return instructions > kLong;
  }
};

// What LLVM must leave as it is, which writes nothing.
bool IsApart(const llvm::Instruction& i) {
  if (llvm::isa<llvm::LoadInst>(i)) return true;
  const auto* call = llvm::dyn_cast<llvm::CallInst>(&i);
  if (call == nullptr || !call->isInlineAsm()) return false;
  const auto* text = llvm::cast<llvm::InlineAsm>(call->getCalledOperand());
  return text->hasSideEffects() && text->getConstraintString().find("memory") == std::string::npos;
}

// The way that is seldom taken begins with what keeps it apart.
bool IsSeldom(const llvm::BasicBlock& block) {
  return llvm::any_of(
      block, [](const llvm::Instruction& i) { return llvm::isa<llvm::CallInst>(i) && IsApart(i); });
}
bool IsCheck(const llvm::BasicBlock& block) {
  const auto* branch = llvm::dyn_cast<llvm::BranchInst>(block.getTerminator());
  return branch != nullptr && branch->isConditional() &&
         llvm::isa<llvm::ICmpInst>(branch->getCondition()) &&
         IsSeldom(*branch->getSuccessor(0)) != IsSeldom(*branch->getSuccessor(1));
}
unsigned Usual(const llvm::BranchInst& check) {
  return IsSeldom(*check.getSuccessor(0)) ? 1 : 0;
}

// Checks of indices that change by the same number in every round: asked before the loop, of its
// first and last round. If they hold there, a loop without them runs, which may become one of
// vectors; else the one that was there before.
class CheckBefore : public llvm::PassInfoMixin<CheckBefore> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses) {
    auto& loops = analyses.getResult<llvm::LoopAnalysis>(function);
    auto& order = analyses.getResult<llvm::DominatorTreeAnalysis>(function);
    auto& evolution = analyses.getResult<llvm::ScalarEvolutionAnalysis>(function);
    bool changed = false;
    for (llvm::Loop* loop : loops.getLoopsInPreorder()) {
      changed |= Part(*loop, loops, order, evolution);
    }
    return changed ? llvm::PreservedAnalyses::none() : llvm::PreservedAnalyses::all();
  }

 private:
  struct Check {
    llvm::BranchInst* branch;
    const llvm::SCEVAddRecExpr* index;
    uint64_t size;  // the index is less
  };

  static bool Part(llvm::Loop& loop, llvm::LoopInfo& loops, llvm::DominatorTree& order,
                   llvm::ScalarEvolution& evolution) {
    if (!loop.isInnermost() || !loop.isLoopSimplifyForm()) return false;
    if (loop.getExitingBlock() == nullptr || loop.getExitingBlock() != loop.getLoopLatch()) {
      return false;
    }
    std::vector<Check> checks = Find(loop, evolution);
    const llvm::SCEV* rounds = evolution.getBackedgeTakenCount(&loop);
    if (checks.empty() || llvm::isa<llvm::SCEVCouldNotCompute>(rounds)) return false;
    llvm::formLCSSA(loop, order, &loops, &evolution);
    llvm::BasicBlock *before = loop.getLoopPreheader(), *after = loop.getExitBlock();
    llvm::Value* all = Ask(checks, rounds, *before->getTerminator(), evolution);
    if (all == nullptr) return true;

    llvm::BasicBlock* begin = llvm::SplitBlock(before, before->getTerminator(), &order, &loops);
    llvm::ValueToValueMapTy map;
    llvm::SmallVector<llvm::BasicBlock*, 8> copies;
    llvm::Loop* with =
        llvm::cloneLoopWithPreheader(begin, before, &loop, map, "", &loops, &order, copies);
    llvm::remapInstructionsInBlocks(copies, map);
    llvm::Instruction* jump = before->getTerminator();
    llvm::IRBuilder<> b(jump);
    llvm::MDNode* likely = llvm::MDBuilder(jump->getContext()).createBranchWeights(100000, 1);
    b.CreateCondBr(all, begin, with->getLoopPreheader(), likely);
    jump->eraseFromParent();
    order.changeImmediateDominator(after, before);
    for (llvm::PHINode& phi : after->phis()) {
      llvm::Value* value = phi.getIncomingValueForBlock(loop.getExitingBlock());
      auto found = map.find(value);
      phi.addIncoming(found == map.end() ? value : static_cast<llvm::Value*>(found->second),
                      with->getExitingBlock());
    }
    for (const Check& check : checks) {
      check.branch->setCondition(b.getInt1(Usual(*check.branch) == 0));
    }
    evolution.forgetLoop(&loop);
    return true;
  }

  static std::vector<Check> Find(const llvm::Loop& loop, llvm::ScalarEvolution& evolution) {
    constexpr size_t kMost = 200;  // instructions
    std::vector<Check> checks;
    size_t instructions = 0;
    for (llvm::BasicBlock* block : loop.blocks()) {
      instructions += block->size();
      if (!IsCheck(*block)) continue;
      auto* branch = llvm::cast<llvm::BranchInst>(block->getTerminator());
      auto* condition = llvm::cast<llvm::ICmpInst>(branch->getCondition());
      const auto* bound = llvm::dyn_cast<llvm::ConstantInt>(condition->getOperand(1));
      if (bound == nullptr || bound->getBitWidth() > 64) continue;
      llvm::CmpInst::Predicate holds =
          Usual(*branch) == 0 ? condition->getPredicate() : condition->getInversePredicate();
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

  // Whether all of them hold in the first and in the last round, and so in those between: none of
  // the numbers is so large that a sum of products could be.
  static llvm::Value* Ask(const std::vector<Check>& checks, const llvm::SCEV* rounds,
                          llvm::Instruction& at, llvm::ScalarEvolution& evolution) {
    llvm::SCEVExpander expander(evolution, at.getDataLayout(), "checked");
    llvm::IRBuilder<> b(&at);
    if (evolution.getTypeSizeInBits(rounds->getType()) > 64) return nullptr;
    for (const Check& check : checks) {
      if (!expander.isSafeToExpandAt(check.index->getStart(), &at)) return nullptr;
    }
    if (!expander.isSafeToExpandAt(rounds, &at)) return nullptr;
    llvm::Value* count = b.CreateZExt(expander.expandCodeFor(rounds, nullptr, &at), b.getInt64Ty());
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

// Checks whether indices are in range, several in a round of a loop: asked once, at its start, as
// far as they can be known there. If all of them hold, the round goes through code without them;
// else through the code that was there before.
class CheckOnce : public llvm::PassInfoMixin<CheckOnce> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses) {
    auto& loops = analyses.getResult<llvm::LoopAnalysis>(function);
    auto& order = analyses.getResult<llvm::DominatorTreeAnalysis>(function);
    auto& aliases = analyses.getResult<llvm::AAManager>(function);
    auto& evolution = analyses.getResult<llvm::ScalarEvolutionAnalysis>(function);
    std::vector<Round> rounds;
    for (llvm::Loop* loop : loops.getLoopsInPreorder()) {
      if (auto round = Find(*loop, order, aliases, evolution)) rounds.push_back(std::move(*round));
    }
    for (const Round& round : rounds) Part(round);
    return rounds.empty() ? llvm::PreservedAnalyses::all() : llvm::PreservedAnalyses::none();
  }

 private:
  struct Round {
    llvm::BasicBlock *header, *latch;
    std::vector<llvm::BasicBlock*> blocks;
    std::vector<llvm::BranchInst*> checks;
    llvm::SetVector<llvm::Instruction*> early;  // what they are made of, in the order of the loop
    llvm::SmallPtrSet<llvm::Value*, 4>
        seldom_unknown;  // conditions that some rounds do not come to
  };

  // The blocks from the start of a round, as long as only checks part them.
  static llvm::SmallPtrSet<const llvm::BasicBlock*, 16> UsualWay(const Round& round) {
    llvm::SmallPtrSet<const llvm::BasicBlock*, 16> way;
    const llvm::BasicBlock* block = round.header;
    while (block != nullptr && block != round.latch && way.insert(block).second) {
      const auto* check = llvm::dyn_cast<llvm::BranchInst>(block->getTerminator());
      block = IsCheck(*block) ? check->getSuccessor(Usual(*check)) : block->getSingleSuccessor();
    }
    return way;
  }

  static std::optional<Round> Find(llvm::Loop& loop, llvm::DominatorTree& order,
                                   llvm::AAResults& aliases, llvm::ScalarEvolution& evolution) {
    constexpr size_t kMost = 400;  // instructions
    if (!loop.isInnermost() || loop.getLoopLatch() == nullptr) return std::nullopt;
    Round round{loop.getHeader(), loop.getLoopLatch(), loop.getBlocks().vec(), {}, {}, {}};
    if (round.header == round.latch || loop.getExitingBlock() != round.latch) return std::nullopt;
    size_t instructions = 0;
    std::vector<llvm::Instruction*> writes;
    std::vector<llvm::BranchInst*> found;
    for (llvm::BasicBlock* block : round.blocks) {
      instructions += block->size();
      if (IsCheck(*block)) found.push_back(llvm::cast<llvm::BranchInst>(block->getTerminator()));
      for (llvm::Instruction& i : *block) {
        if (MayWrite(i) && !IsApart(i)) writes.push_back(&i);
      }
    }
    if (instructions > kMost) return std::nullopt;
    llvm::SmallPtrSet<const llvm::BasicBlock*, 16> usual = UsualWay(round);
    auto is_always = [&](const llvm::BasicBlock* block) {
      return order.dominates(block, round.latch);
    };
    for (llvm::BranchInst* check : found) {
      llvm::SetVector<llvm::Instruction*> early = round.early;
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
      if (!always && !usual.contains(condition->getParent())) continue;
      if (!Gather(*condition, loop, is_kept, /*loads=*/1, early)) continue;
      round.checks.push_back(check);
      if (!always) round.seldom_unknown.insert(condition);
      round.early = std::move(early);
    }
    if (round.checks.size() < 2) return std::nullopt;
    return round;
  }

  // What the value is made of in this round; false if that cannot be known at its start. Addresses
  // of loads are no loads, so that they are those that the round comes to on any way.
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

  static void Part(const Round& round) {
    const auto kMap = llvm::RF_NoModuleLevelChanges | llvm::RF_IgnoreMissingLocals;
    llvm::Function& function = *round.header->getParent();
    llvm::MDBuilder facts(function.getContext());
    llvm::BasicBlock* begin = round.header->splitBasicBlock(round.header->getFirstNonPHIIt());
    llvm::BasicBlock* end = round.latch->splitBasicBlock(round.latch->getFirstNonPHIIt());
    std::vector<llvm::BasicBlock*> blocks = round.blocks, copies;
    std::replace(blocks.begin(), blocks.end(), round.header, begin);
    auto read_later = ReadLater(blocks);

    llvm::ValueToValueMapTy map;
    llvm::IRBuilder<> b(round.header->getTerminator());
    for (llvm::Instruction* i : round.early) {
      llvm::Instruction* copy = b.Insert(i->clone());
      llvm::RemapInstruction(copy, map, kMap);
      map[i] = copy;
    }
    llvm::Value* all = nullptr;
    llvm::SmallPtrSet<llvm::Value*, 4> asked;
    for (llvm::BranchInst* check : round.checks) {
      llvm::Value* condition = map[check->getCondition()];
      if (!asked.insert(condition).second) continue;
      if (round.seldom_unknown.contains(check->getCondition()))
        condition = b.CreateFreeze(condition);
      llvm::Value* holds = Usual(*check) == 0 ? condition : b.CreateNot(condition);
      all = all == nullptr ? holds : b.CreateAnd(all, holds);
    }

    for (llvm::BasicBlock* block : blocks) {
      llvm::BasicBlock* copy =
          llvm::BasicBlock::Create(function.getContext(), "", &function, begin);
      map[block] = copy;
      copies.push_back(copy);
      for (llvm::Instruction& i : *block) {
        if (round.early.contains(&i)) continue;
        llvm::Instruction* same = i.clone();
        same->insertInto(copy, copy->end());
        map[&i] = same;
      }
    }
    llvm::remapInstructionsInBlocks(copies, map);
    for (llvm::BranchInst* check : round.checks) {
      auto* same = llvm::cast<llvm::BranchInst>(static_cast<llvm::Value*>(map[check]));
      same->setCondition(b.getInt1(Usual(*check) == 0));
    }
    // What others read comes from the blocks or from their copies.
    auto copy_of = [&](llvm::BasicBlock* block) {
      return llvm::cast<llvm::BasicBlock>(static_cast<llvm::Value*>(map[block]));
    };
    for (auto& [value, uses] : read_later) {
      auto* joined = llvm::PHINode::Create(value->getType(), 2, "", end->begin());
      for (llvm::Use* use : uses) use->set(joined);
      joined->addIncoming(value, round.latch);
      joined->addIncoming(map[value], copy_of(round.latch));
    }
    llvm::Instruction* before = round.header->getTerminator();
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

// A number in memory that becomes the least or the greatest of itself and another one, and is
// stored where its bits change: where it is not surely the one that is there. That is asked of the
// two numbers, without waiting for the result and without moving bits to where integers are.
class StoreLess : public llvm::PassInfoMixin<StoreLess> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager&) {
    bool changed = false;
    for (llvm::BasicBlock& block : function) {
      auto* branch = llvm::dyn_cast<llvm::BranchInst>(block.getTerminator());
      if (branch != nullptr && branch->isConditional()) changed |= Ask(*branch);
    }
    if (!changed) return llvm::PreservedAnalyses::all();
    llvm::PreservedAnalyses preserved;
    preserved.preserveSet<llvm::CFGAnalyses>();
    return preserved;
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

// The least or greatest of two numbers where a condition holds, else the first: the least or
// greatest of the first and what the condition chooses, the second or one that is nothing beside
// any. In a loop that looks for it the first is there last, and waits for one step less.
class ChooseFirst : public llvm::PassInfoMixin<ChooseFirst> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses) {
    auto& loops = analyses.getResult<llvm::LoopAnalysis>(function);
    std::vector<llvm::SelectInst*> found;
    for (llvm::Instruction& i : llvm::instructions(function)) {
      auto* choice = llvm::dyn_cast<llvm::SelectInst>(&i);
      if (choice == nullptr || loops.getLoopFor(choice->getParent()) == nullptr) continue;
      if (KeptOperand(*choice, 0) || KeptOperand(*choice, 1)) found.push_back(choice);
    }
    for (llvm::SelectInst* choice : found) Part(*choice);
    if (found.empty()) return llvm::PreservedAnalyses::all();
    llvm::PreservedAnalyses preserved;
    preserved.preserveSet<llvm::CFGAnalyses>();
    return preserved;
  }

 private:
  // Which operand of the call at that side the other side is, counted from 1; 0: none.
  static unsigned KeptOperand(const llvm::SelectInst& choice, unsigned side) {
    const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(choice.getOperand(1 + side));
    if (call == nullptr || !call->hasOneUse() || call->getParent() != choice.getParent()) return 0;
    if (choice.getType()->isVectorTy() || Nothing(*call) == nullptr) return 0;
    if (llvm::isa<llvm::FPMathOperator>(call) && call->hasNoInfs()) return 0;
    const llvm::Value* other = choice.getOperand(2 - side);
    if (llvm::isa<llvm::Constant>(other)) return 0;
    return other == call->getArgOperand(0) ? 1 : other == call->getArgOperand(1) ? 2 : 0;
  }

  // The number beside which any other one is less, or greater.
  static llvm::Constant* Nothing(const llvm::IntrinsicInst& call) {
    llvm::Type* type = call.getType();
    unsigned bits = type->getScalarSizeInBits();
    switch (call.getIntrinsicID()) {
      case llvm::Intrinsic::smin:
        return llvm::ConstantInt::get(type, llvm::APInt::getSignedMaxValue(bits));
      case llvm::Intrinsic::smax:
        return llvm::ConstantInt::get(type, llvm::APInt::getSignedMinValue(bits));
      case llvm::Intrinsic::umin:
        return llvm::ConstantInt::get(type, llvm::APInt::getMaxValue(bits));
      case llvm::Intrinsic::umax: return llvm::ConstantInt::get(type, 0);
      case llvm::Intrinsic::minimum: return llvm::ConstantFP::getInfinity(type);
      case llvm::Intrinsic::maximum: return llvm::ConstantFP::getInfinity(type, /*Negative=*/true);
      default: return nullptr;
    }
  }

  static void Part(llvm::SelectInst& choice) {
    unsigned side = KeptOperand(choice, 0) != 0 ? 0 : 1, kept = KeptOperand(choice, side) - 1;
    auto* call = llvm::cast<llvm::IntrinsicInst>(choice.getOperand(1 + side));
    call->moveBefore(&choice);  // behind the condition
    llvm::IRBuilder<> b(call);
    llvm::Value *other = call->getArgOperand(1 - kept), *nothing = Nothing(*call);
    llvm::Value* chosen = b.CreateSelect(choice.getCondition(), side == 0 ? other : nothing,
                                         side == 0 ? nothing : other);
    call->setArgOperand(1 - kept, chosen);
    choice.replaceAllUsesWith(call);
    choice.eraseFromParent();
  }
};

// The least or greatest of two numbers, on x86: an instruction, and another one for NaNs. Where the
// next round of a loop waits for the number, a jump that is foreseen takes the place of the second.
class ForeseeNans : public llvm::PassInfoMixin<ForeseeNans> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses) {
    if (!IsForX86(function)) return llvm::PreservedAnalyses::all();
    auto& loops = analyses.getResult<llvm::LoopAnalysis>(function);
    std::vector<std::pair<llvm::IntrinsicInst*, unsigned>> found;  // and which number is tested
    for (llvm::Instruction& i : llvm::instructions(function)) {
      auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&i);
      const llvm::Loop* loop = call == nullptr ? nullptr : loops.getLoopFor(call->getParent());
      if (loop == nullptr || !MayMeetNans(*call)) continue;
      auto next = NextRound(*call, *loop);
      if (!next.contains(call)) continue;
      found.push_back({call, next.contains(call->getArgOperand(0)) ? 1u : 0u});
    }
    for (auto [call, tested] : found) Part(*call, tested);
    return found.empty() ? llvm::PreservedAnalyses::all() : llvm::PreservedAnalyses::none();
  }

 private:
  static bool MayMeetNans(const llvm::IntrinsicInst& call) {
    llvm::Intrinsic::ID id = call.getIntrinsicID();
    if (id != llvm::Intrinsic::minimum && id != llvm::Intrinsic::maximum) return false;
    if (!call.getType()->isFloatTy() && !call.getType()->isDoubleTy()) return false;
    // Of a constant it is known that it is none.
    return !call.hasNoNaNs() && call.hasNoSignedZeros() &&
           !llvm::isa<llvm::Constant>(call.getArgOperand(0)) &&
           !llvm::isa<llvm::Constant>(call.getArgOperand(1));
  }

  // What is computed of it in the loop, in this round and the next ones.
  static llvm::SmallPtrSet<const llvm::Value*, 16> NextRound(const llvm::Instruction& from,
                                                             const llvm::Loop& loop) {
    constexpr size_t kMost = 256;
    llvm::SmallPtrSet<const llvm::Value*, 16> seen;
    std::vector<const llvm::Value*> left = {&from};
    while (!left.empty() && seen.size() < kMost) {
      const llvm::Value* value = left.back();
      left.pop_back();
      for (const llvm::User* user : value->users()) {
        const auto* i = llvm::dyn_cast<llvm::Instruction>(user);
        if (i != nullptr && loop.contains(i) && seen.insert(i).second) left.push_back(i);
      }
    }
    return seen;
  }

  // Of two numbers x86 gives the second where one is a NaN: the one that is not tested.
  static void Part(llvm::IntrinsicInst& call, unsigned tested) {
    llvm::Value *x = call.getArgOperand(tested), *y = call.getArgOperand(1 - tested);
    llvm::IRBuilder<> b(&call);
    bool least = call.getIntrinsicID() == llvm::Intrinsic::minimum;
    llvm::Value* is_first = least ? b.CreateFCmpOLT(x, y) : b.CreateFCmpOGT(x, y);
    llvm::Value* number = b.CreateSelect(is_first, x, y);
    llvm::MDNode* seldom = llvm::MDBuilder(call.getContext()).createBranchWeights(1, 100000);
    llvm::Instruction* then = llvm::SplitBlockAndInsertIfThen(
        b.CreateFCmpUNO(x, x), call.getIterator(), /*Unreachable=*/false, seldom);
    b.SetInsertPoint(&call);
    llvm::PHINode* result = b.CreatePHI(call.getType(), 2);
    for (llvm::BasicBlock* before : llvm::predecessors(call.getParent())) {
      result->addIncoming(before == then->getParent() ? x : number, before);
    }
    call.replaceAllUsesWith(result);
    call.eraseFromParent();
  }
};

// A choice by two conditions, on x86: by one of them, of what the other one chose before. Nothing
// else joins two conditions in fewer steps, and the one that is there first has been used when the
// other comes.
class ChooseTwice : public llvm::PassInfoMixin<ChooseTwice> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses) {
    if (!IsForX86(function)) return llvm::PreservedAnalyses::all();
    auto& loops = analyses.getResult<llvm::LoopAnalysis>(function);
    std::vector<llvm::BinaryOperator*> found;
    for (llvm::Instruction& i : llvm::instructions(function)) {
      auto* both = llvm::dyn_cast<llvm::BinaryOperator>(&i);
      if (both != nullptr && loops.getLoopFor(both->getParent()) != nullptr && IsToChoose(*both)) {
        found.push_back(both);
      }
    }
    for (llvm::BinaryOperator* both : found) Part(*both);
    if (found.empty()) return llvm::PreservedAnalyses::all();
    llvm::PreservedAnalyses preserved;
    preserved.preserveSet<llvm::CFGAnalyses>();
    return preserved;
  }

 private:
  // Two conditions of which one or both hold, for a few choices of integers alone.
  static bool IsToChoose(const llvm::BinaryOperator& both) {
    constexpr unsigned kMostChoices = 3;
    bool joins =
        both.getOpcode() == llvm::Instruction::And || both.getOpcode() == llvm::Instruction::Or;
    if (!joins || !both.getType()->isIntegerTy(1) || both.hasNUsesOrMore(kMostChoices + 1)) {
      return false;
    }
    return llvm::all_of(both.users(), [&](const llvm::User* user) {
      const auto* choice = llvm::dyn_cast<llvm::SelectInst>(user);
      return choice != nullptr && choice->getCondition() == &both &&
             choice->getType()->isIntegerTy() && !choice->getType()->isIntegerTy(1);
    });
  }

  // Cycles, about, from what the block begins with.
  static int Lateness(const llvm::Value* value, const llvm::BasicBlock* block, int depth = 0) {
    constexpr int kDeepest = 8, kLoad = 5;
    const auto* i = llvm::dyn_cast<llvm::Instruction>(value);
    bool counts = i != nullptr && i->getParent() == block && !llvm::isa<llvm::PHINode>(i);
    if (!counts || depth > kDeepest) return 0;
    int most = 0;
    for (const llvm::Value* operand : i->operands()) {
      most = std::max(most, Lateness(operand, block, depth + 1));
    }
    return most + (llvm::isa<llvm::LoadInst>(i) ? kLoad : 1);
  }

  static void Part(llvm::BinaryOperator& both) {
    llvm::Value *early = both.getOperand(0), *late = both.getOperand(1);
    if (Lateness(early, both.getParent()) > Lateness(late, both.getParent())) {
      std::swap(early, late);
    }
    bool all = both.getOpcode() == llvm::Instruction::And;
    while (!both.use_empty()) {
      auto* choice = llvm::cast<llvm::SelectInst>(*both.user_begin());
      llvm::IRBuilder<> b(choice);
      llvm::Value *yes = choice->getTrueValue(), *no = choice->getFalseValue();
      llvm::Value* first = b.CreateSelect(early, yes, no);
      choice->replaceAllUsesWith(b.CreateSelect(late, all ? first : yes, all ? no : first));
      choice->eraseFromParent();
    }
    both.eraseFromParent();
  }
};

// The least or greatest of two integers, on AArch64: a comparison and a choice, which are one step
// for many cores where the choice is a plain one. Of x + 1, -x and ~x it would be one that computes
// these once more, which saves nothing: the comparison needs them too. So where they come from is
// hidden.
class ChoosePlainly : public llvm::PassInfoMixin<ChoosePlainly> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses) {
    if (!IsForAArch64(function)) return llvm::PreservedAnalyses::all();
    auto& loops = analyses.getResult<llvm::LoopAnalysis>(function);
    std::vector<llvm::Use*> found;
    for (llvm::Instruction& i : llvm::instructions(function)) {
      auto* call = llvm::dyn_cast<llvm::MinMaxIntrinsic>(&i);
      if (call == nullptr || loops.getLoopFor(call->getParent()) == nullptr) continue;
      bool is_register = call->getType()->isIntegerTy(32) || call->getType()->isIntegerTy(64);
      for (llvm::Use& operand : call->args()) {
        if (is_register && ComesWithChoice(*operand)) found.push_back(&operand);
      }
    }
    for (llvm::Use* operand : found) Hide(*operand);
    if (found.empty()) return llvm::PreservedAnalyses::all();
    llvm::PreservedAnalyses preserved;
    preserved.preserveSet<llvm::CFGAnalyses>();
    return preserved;
  }

 private:
  static bool ComesWithChoice(llvm::Value& value) {
    using namespace llvm::PatternMatch;
    return match(&value, m_Add(m_Value(), m_One())) || match(&value, m_Neg(m_Value())) ||
           match(&value, m_Not(m_Value()));
  }

  static void Hide(llvm::Use& operand) {
    llvm::Type* type = operand->getType();
    auto* same = llvm::InlineAsm::get(llvm::FunctionType::get(type, {type}, false), "", "=r,0",
                                      /*hasSideEffects=*/false);
    llvm::IRBuilder<> b(llvm::cast<llvm::Instruction>(operand.getUser()));
    operand.set(b.CreateCall(same, {operand.get()}));
  }
};

}  // namespace

bool HasSpreadLoads(LLVMModuleRef module) {
  for (const llvm::Function& function : *llvm::unwrap(module)) {
    for (const llvm::Instruction& i : llvm::instructions(function)) {
      const auto* shuffle = llvm::dyn_cast<llvm::ShuffleVectorInst>(&i);
      if (shuffle == nullptr || !llvm::isa<llvm::LoadInst>(shuffle->getOperand(0))) continue;
      llvm::ArrayRef<int> mask = shuffle->getShuffleMask();
      for (size_t k = 1; k < mask.size(); ++k) {
        if (mask[k] >= 0 && mask[k - 1] >= 0 && mask[k] > mask[k - 1] + 1) return true;
      }
    }
  }
  return false;
}

struct CodeGenerator::State {
  State(llvm::LLVMTargetMachine& target, CodeEffort effort, bool spread_loads,
        LLVMCodeGenFileType kind)
      : target(target), out(bytes) {
    info = new llvm::MachineModuleInfoWrapperPass(&target);  // owned by `passes`
    llvm::MCContext& context = info->getMMI().getContext();
    llvm::TargetPassConfig* config = target.createPassConfig(passes);  // likewise
    config->setDisableVerify(true);
    DisableIdle(*config);
    if (effort == CodeEffort::kKernels) DisableForKernels(*config);
    passes.add(llvm::createTargetTransformInfoWrapperPass(target.getTargetIRAnalysis()));
    passes.add(config);
    passes.add(info);
    AddSelection(*config, passes, effort, spread_loads);
    config->addMachinePasses();
    config->setInitialized();
    auto form = kind == LLVMAssemblyFile ? llvm::CodeGenFileType::AssemblyFile
                                         : llvm::CodeGenFileType::ObjectFile;
    works = !target.addAsmPrinter(passes, out, nullptr, form, context);
    passes.add(llvm::createFreeMachineFunctionPass());
  }

  llvm::LLVMTargetMachine& target;
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out;
  llvm::legacy::PassManager passes;
  llvm::MachineModuleInfoWrapperPass* info;
  bool works = false;
};

CodeGenerator::CodeGenerator(LLVMTargetMachineRef machine, CodeEffort effort, bool spread_loads,
                             LLVMCodeGenFileType kind)
    : state_(std::make_unique<State>(
          static_cast<llvm::LLVMTargetMachine&>(*reinterpret_cast<llvm::TargetMachine*>(machine)),
          effort, spread_loads, kind)) {}
CodeGenerator::~CodeGenerator() = default;

std::string CodeGenerator::Run(LLVMModuleRef module) {
  State& s = *state_;
  if (!s.works) return "";
  // The names and sections of the module before are gone with it.
  s.target.getObjFileLowering()->Initialize(s.info->getMMI().getContext(), s.target);
  s.bytes.clear();
  s.passes.run(*llvm::unwrap(module));
  return std::string(s.bytes.begin(), s.bytes.end());
}

struct IrPasses::State {
  explicit State(llvm::TargetMachine* machine) : builder(machine) {
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(components);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, components, modules);
    builder.registerPipelineParsingCallback([](llvm::StringRef name,
                                               llvm::FunctionPassManager& passes,
                                               llvm::ArrayRef<llvm::PassBuilder::PipelineElement>) {
      if (name == "check-before") {
        passes.addPass(CheckBefore());
      } else if (name == "check-once") {
        passes.addPass(CheckOnce());
      } else if (name == "choose-first") {
        passes.addPass(ChooseFirst());
      } else if (name == "store-less") {
        passes.addPass(StoreLess());
      } else if (name == "keep-branches") {
        passes.addPass(KeepBranches());
      } else if (name == "load-lanes") {
        passes.addPass(LoadLanes());
      } else if (name == "move-pointers") {
        passes.addPass(MovePointers());
      } else if (name == "choose-twice") {
        passes.addPass(ChooseTwice());
      } else if (name == "choose-plainly") {
        passes.addPass(ChoosePlainly());
      } else if (name == "foresee-nans") {
        passes.addPass(ForeseeNans());
      } else {
        return false;
      }
      return true;
    });
  }
  // What is known of a module that is gone.
  void Forget() {
    modules.clear();
    components.clear();
    functions.clear();
    loops.clear();
  }

  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder;
  std::map<std::string, llvm::ModulePassManager> pipelines;
};

IrPasses::IrPasses(LLVMTargetMachineRef machine)
    : state_(std::make_unique<State>(reinterpret_cast<llvm::TargetMachine*>(machine))) {}
IrPasses::~IrPasses() = default;

Status IrPasses::Run(LLVMModuleRef module, const std::string& passes) {
  auto [found, is_new] = state_->pipelines.try_emplace(passes);
  if (is_new) {
    if (llvm::Error error = state_->builder.parsePassPipeline(found->second, passes)) {
      state_->pipelines.erase(found);
      return MakeError(Code::kInternal, "LLVM: passes: ", llvm::toString(std::move(error)));
    }
  }
  found->second.run(*llvm::unwrap(module), state_->modules);
  state_->Forget();
  return {};
}

}  // namespace weft::cpu
