// Strided loads in loops that are vectorized, and selects on the critical path of recurrences.
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/Analysis/ScalarEvolutionExpressions.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PatternMatch.h>
#include <llvm/TargetParser/Triple.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/LoopUtils.h>
#include <llvm/Transforms/Utils/ScalarEvolutionExpander.h>

#include <utility>
#include <vector>

#include "cpu/llvm/passes.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::cpu {

bool IsForX86(const llvm::Function& function) {
  return llvm::Triple(function.getParent()->getTargetTriple()).isX86();
}
bool IsForAArch64(const llvm::Function& function) {
  return llvm::Triple(function.getParent()->getTargetTriple()).isAArch64();
}

llvm::PreservedAnalyses KeepsBlocks(bool changed) {
  if (!changed) return llvm::PreservedAnalyses::all();
  llvm::PreservedAnalyses preserved;
  preserved.preserveSet<llvm::CFGAnalyses>();
  return preserved;
}

bool MayWrite(const llvm::Instruction& i) {
  const auto* fact = llvm::dyn_cast<llvm::IntrinsicInst>(&i);
  bool is_fact = fact != nullptr && fact->isAssumeLikeIntrinsic();
  return !is_fact && i.mayWriteToMemory();
}

namespace {

bool OnlyReads(const llvm::Loop& loop) {
  for (const llvm::BasicBlock* block : loop.blocks()) {
    if (llvm::any_of(*block, MayWrite)) return false;
  }
  return true;
}

bool IsNumber(const llvm::Type& type) {
  return type.isIntegerTy() || type.isFloatingPointTy();
}

// Strided loads that the machine cannot gather.
std::vector<llvm::LoadInst*> StridedLoadsOf(const llvm::Loop& loop,
                                            const llvm::TargetTransformInfo& machine,
                                            llvm::ScalarEvolution& evolution) {
  // Elements: what shuffles may take out of wide loads.
  constexpr int64_t kNear = program::TargetFacts::kUsualLanes;
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

// Pointer induction variables for strided loads, in loops that only read. The loop vectorizer
// otherwise computes addresses in vectors, on machines that could gather but had better not, and
// extracts every one of them again.
class PointerInduction : public llvm::PassInfoMixin<PointerInduction> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses) {
    const auto& machine = analyses.getResult<llvm::TargetIRAnalysis>(function);
    if (!machine.prefersVectorizedAddressing()) return llvm::PreservedAnalyses::all();
    auto& evolution = analyses.getResult<llvm::ScalarEvolutionAnalysis>(function);
    bool changed = false;
    for (llvm::Loop* loop : analyses.getResult<llvm::LoopAnalysis>(function).getLoopsInPreorder()) {
      if (!loop->isInnermost() || !loop->isLoopSimplifyForm() || !OnlyReads(*loop)) continue;
      bool moves = false;
      for (llvm::LoadInst* load : StridedLoadsOf(*loop, machine, evolution)) {
        llvm::SCEVExpander expander(evolution, function.getDataLayout(), "moving");
        expander.disableCanonicalMode();
        const llvm::SCEV* address = evolution.getSCEV(load->getPointerOperand());
        if (!expander.isSafeToExpand(address)) continue;
        load->setOperand(0, expander.expandCodeFor(address, nullptr, load->getIterator()));
        moves = true;
      }
      // Bound by the loads: interleaving only leaves more to the epilogue.
      if (moves) llvm::addStringMetadataToLoop(loop, "llvm.loop.interleave.count", 1);
      changed |= moves;
    }
    return KeepsBlocks(changed);
  }
};

// The same value, behind an optimization barrier (of AArch64): nothing is known of it.
llvm::Value* Hidden(llvm::Value* value, llvm::IRBuilder<>& b) {
  llvm::Type* type = value->getType();
  auto* same = llvm::InlineAsm::get(llvm::FunctionType::get(type, {type}, false), "",
                                    type->isFloatingPointTy() ? "=w,0" : "=r,0",
                                    /*hasSideEffects=*/false);
  return b.CreateCall(same, {value});
}

// select(a & b, x, y) becomes select(b, select(a, x, y), y), and so for a | b: joining flags takes
// more instructions than a second conditional move, and the shallower condition is used off the
// critical path. AArch64 compares under a condition (ccmp) where one select asks, not where several
// do, and selection would join the conditions again but for a barrier; x86 has such moves for
// integers alone.
class SplitSelectCondition : public llvm::PassInfoMixin<SplitSelectCondition> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses) {
    const bool x86 = IsForX86(function);
    if (!x86 && !IsForAArch64(function)) return llvm::PreservedAnalyses::all();
    auto& loops = analyses.getResult<llvm::LoopAnalysis>(function);
    std::vector<llvm::BinaryOperator*> found;
    for (llvm::Instruction& i : llvm::instructions(function)) {
      auto* both = llvm::dyn_cast<llvm::BinaryOperator>(&i);
      if (both == nullptr || loops.getLoopFor(both->getParent()) == nullptr) continue;
      if (IsToChoose(*both, x86)) found.push_back(both);
    }
    for (llvm::BinaryOperator* both : found) Part(*both, x86);
    return KeepsBlocks(!found.empty());
  }

 private:
  // An `and` or `or` of conditions, used by a few selects alone.
  static bool IsToChoose(const llvm::BinaryOperator& both, bool x86) {
    constexpr unsigned kMostChoices =
        program::CodeBounds::kCopies - 1;  // branches on the condition
    bool joins =
        both.getOpcode() == llvm::Instruction::And || both.getOpcode() == llvm::Instruction::Or;
    if (!joins || !both.getType()->isIntegerTy(1) || both.hasNUsesOrMore(kMostChoices + 1) ||
        (!x86 && both.hasOneUse())) {
      return false;
    }
    return llvm::all_of(both.users(), [&](const llvm::User* user) {
      const auto* choice = llvm::dyn_cast<llvm::SelectInst>(user);
      if (choice == nullptr || choice->getCondition() != &both) return false;
      const llvm::Type* type = choice->getType();
      bool moved = x86 ? type->isIntegerTy()
                       : type->isIntegerTy(32) || type->isIntegerTy(64) || type->isFloatTy() ||
                             type->isDoubleTy();
      return moved && !type->isIntegerTy(1);
    });
  }

  // Latency, about, from what the block begins with.
  static int DepthOf(const llvm::Value* value, const llvm::BasicBlock* block, int depth = 0) {
    constexpr int kDeepest = program::WorkBounds::kTree, kLoad = program::TargetFacts::kLoadCycles;
    const auto* i = llvm::dyn_cast<llvm::Instruction>(value);
    bool counts = i != nullptr && i->getParent() == block && !llvm::isa<llvm::PHINode>(i);
    if (!counts || depth > kDeepest) return 0;
    int most = 0;
    for (const llvm::Value* operand : i->operands()) {
      most = std::max(most, DepthOf(operand, block, depth + 1));
    }
    return most + (llvm::isa<llvm::LoadInst>(i) ? kLoad : 1);
  }

  static void Part(llvm::BinaryOperator& both, bool x86) {
    llvm::Value *early = both.getOperand(0), *late = both.getOperand(1);
    if (DepthOf(early, both.getParent()) > DepthOf(late, both.getParent())) {
      std::swap(early, late);
    }
    bool all = both.getOpcode() == llvm::Instruction::And;
    while (!both.use_empty()) {
      auto* choice = llvm::cast<llvm::SelectInst>(*both.user_begin());
      llvm::IRBuilder<> b(choice);
      llvm::Value *yes = choice->getTrueValue(), *no = choice->getFalseValue();
      llvm::Value* first = b.CreateSelect(early, yes, no);
      if (!x86) first = Hidden(first, b);
      choice->replaceAllUsesWith(b.CreateSelect(late, all ? first : yes, all ? no : first));
      choice->eraseFromParent();
    }
    both.eraseFromParent();
  }
};

// Minimum and maximum of integers on AArch64 are cmp and csel, which many cores fuse. Of x + 1, -x
// and ~x selection makes csinc, csneg or csinv, which are not fused and save nothing, since the
// comparison needs the operand too: an optimization barrier hides where it comes from.
class AvoidConditionalIncrement : public llvm::PassInfoMixin<AvoidConditionalIncrement> {
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
    return KeepsBlocks(!found.empty());
  }

 private:
  static bool ComesWithChoice(llvm::Value& value) {
    using namespace llvm::PatternMatch;
    return match(&value, m_Add(m_Value(), m_One())) || match(&value, m_Neg(m_Value())) ||
           match(&value, m_Not(m_Value()));
  }

  static void Hide(llvm::Use& operand) {
    llvm::IRBuilder<> b(llvm::cast<llvm::Instruction>(operand.getUser()));
    operand.set(Hidden(operand.get(), b));
  }
};

}  // namespace

bool AddLoopPass(llvm::StringRef name, llvm::FunctionPassManager& passes) {
  if (name == "weft-pointer-induction") {
    passes.addPass(PointerInduction());
  } else if (name == "weft-split-select-condition") {
    passes.addPass(SplitSelectCondition());
  } else if (name == "weft-avoid-conditional-increment") {
    passes.addPass(AvoidConditionalIncrement());
  } else {
    return false;
  }
  return true;
}

}  // namespace weft::cpu
