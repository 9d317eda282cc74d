// Parts of vectors as shuffles.
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/PatternMatch.h>

#include <numeric>
#include <vector>

#include "cpu/llvm/passes.h"

namespace weft::cpu {
namespace {

// GVN takes a vector that is loaded from within one that is known as an integer of all its bits,
// shifted and truncated. Code generation moves such an integer in pieces of 64 bits through the
// stack; as a shuffle it is an instruction or two.
class ShiftToShuffle : public llvm::PassInfoMixin<ShiftToShuffle> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager&) {
    std::vector<llvm::BitCastInst*> found;
    for (llvm::Instruction& i : llvm::instructions(function)) {
      auto* cast = llvm::dyn_cast<llvm::BitCastInst>(&i);
      if (cast != nullptr && PartOf(*cast).vector != nullptr) found.push_back(cast);
    }
    for (llvm::BitCastInst* cast : found) Replace(*cast);
    return KeepsBlocks(!found.empty());
  }

 private:
  struct Part {
    llvm::Value* vector = nullptr;
    unsigned first = 0, count = 0;  // elements
  };

  static Part PartOf(llvm::BitCastInst& cast) {
    using namespace llvm::PatternMatch;
    auto* to = llvm::dyn_cast<llvm::FixedVectorType>(cast.getType());
    llvm::Value *bits = nullptr, *vector = nullptr;
    uint64_t shift = 0;
    if (to == nullptr || !match(cast.getOperand(0), m_Trunc(m_Value(bits)))) return {};
    if (llvm::Value * all; match(bits, m_LShr(m_Value(all), m_ConstantInt(shift)))) bits = all;
    if (!match(bits, m_BitCast(m_Value(vector)))) return {};
    auto* from = llvm::dyn_cast<llvm::FixedVectorType>(vector->getType());
    if (from == nullptr || from->getElementType() != to->getElementType()) return {};
    const uint64_t width = to->getScalarSizeInBits(), first = shift / width;
    if (shift % width != 0 || first + to->getNumElements() > from->getNumElements()) return {};
    return {vector, static_cast<unsigned>(first), to->getNumElements()};
  }

  static void Replace(llvm::BitCastInst& cast) {
    Part part = PartOf(cast);
    std::vector<int> from(part.count);
    std::iota(from.begin(), from.end(), static_cast<int>(part.first));
    llvm::IRBuilder<> b(&cast);
    cast.replaceAllUsesWith(b.CreateShuffleVector(part.vector, from));
    cast.eraseFromParent();
  }
};

}  // namespace

bool AddVectorPass(llvm::StringRef name, llvm::FunctionPassManager& passes) {
  if (name != "weft-shift-to-shuffle") return false;
  passes.addPass(ShiftToShuffle());
  return true;
}

}  // namespace weft::cpu
