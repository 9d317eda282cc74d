// What loop strength reduction (LSR) is shown of sums with an induction variable.
#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/PostOrderIterator.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/Analysis/ScalarEvolutionExpressions.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/PatternMatch.h>

#include <vector>

#include "cpu/llvm/passes.h"

namespace weft::cpu {
namespace {

// Addresses are an induction variable, invariants and at most an index that was loaded. A counter
// that is hashed (threefry of fold_in) becomes a sum with a term a round, and LSR tries
// the subsets of terms: minutes for nothing. A freeze hides the sum where its second other term
// joins; to code generation it is a plain copy.
class HideHashedInduction : public llvm::PassInfoMixin<HideHashedInduction> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses) {
    auto& loops = analyses.getResult<llvm::LoopAnalysis>(function);
    auto& evolution = analyses.getResult<llvm::ScalarEvolutionAnalysis>(function);
    llvm::DenseMap<const llvm::Value*, Sum> sums;
    std::vector<llvm::Instruction*> found;
    for (llvm::BasicBlock* block : llvm::ReversePostOrderTraversal<llvm::Function*>(&function)) {
      if (loops.getLoopFor(block) == nullptr) continue;
      for (llvm::Instruction& i : *block) {
        if (!i.getType()->isIntegerTy()) continue;
        Sum sum = SumOf(i, sums, evolution);
        if (sum.inductive && sum.others > 1) {
          found.push_back(&i);
          sum = Sum();
        }
        sums[&i] = sum;
      }
    }
    for (llvm::Instruction* i : found) Freeze(*i);
    return KeepsBlocks(!found.empty());
  }

 private:
  struct Sum {
    bool inductive = false;
    int64_t others = 1;  // terms that vary in other ways
  };

  static Sum SumOf(llvm::Instruction& i, const llvm::DenseMap<const llvm::Value*, Sum>& sums,
                   llvm::ScalarEvolution& evolution) {
    using namespace llvm::PatternMatch;
    auto of = [&](const llvm::Value* v) {
      auto it = sums.find(v);
      return it == sums.end() ? Sum{.others = 0} : it->second;  // invariant
    };
    if (llvm::isa<llvm::PHINode>(i)) {
      bool inductive = evolution.isSCEVable(i.getType()) &&
                       llvm::isa<llvm::SCEVAddRecExpr>(evolution.getSCEV(&i));
      return inductive ? Sum{.inductive = true, .others = 0} : Sum();
    }
    if (match(&i, m_Add(m_Value(), m_Value())) || match(&i, m_Sub(m_Value(), m_Value()))) {
      Sum a = of(i.getOperand(0)), b = of(i.getOperand(1));
      return {a.inductive || b.inductive, a.others + b.others};
    }
    bool scaled = match(&i, m_Mul(m_Value(), m_ImmConstant())) ||
                  match(&i, m_Shl(m_Value(), m_ImmConstant())) || llvm::isa<llvm::CastInst>(i);
    return scaled && i.getOperand(0)->getType()->isIntegerTy() ? of(i.getOperand(0)) : Sum();
  }

  static void Freeze(llvm::Instruction& i) {
    llvm::IRBuilder<> b(i.getNextNode());
    auto* frozen = llvm::cast<llvm::Instruction>(b.CreateFreeze(&i));
    i.replaceUsesWithIf(frozen, [&](llvm::Use& use) { return use.getUser() != frozen; });
  }
};

}  // namespace

bool AddInductionPass(llvm::StringRef name, llvm::FunctionPassManager& passes) {
  if (name != "weft-hide-hashed-induction") return false;
  passes.addPass(HideHashedInduction());
  return true;
}

}  // namespace weft::cpu
