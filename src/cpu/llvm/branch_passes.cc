// Branches in place of selects (the inverse of if-conversion) where a recurrence goes through
// memory.
#include <llvm/Analysis/InstructionSimplify.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/Cloning.h>
#include <llvm/Transforms/Utils/LoopUtils.h>
#include <llvm/Transforms/Utils/ValueMapper.h>

#include <optional>
#include <vector>

#include "cpu/llvm/passes.h"
#include "program/work_bounds.h"

namespace weft::cpu {
namespace {

using Blocks = std::vector<llvm::BasicBlock*>;

// A loop whose next index is selected by a comparison of what it loaded at this one, from memory
// that it writes: index, load, comparison and select are one chain, some twenty cycles with the
// store that has to be forwarded. Behind a branch the next iteration begins with the index that is
// predicted. The rest of the iteration is there twice (tail duplication), with the condition known.
class SelectToBranch : public llvm::PassInfoMixin<SelectToBranch> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses) {
    auto& loops = analyses.getResult<llvm::LoopAnalysis>(function);
    auto& order = analyses.getResult<llvm::DominatorTreeAnalysis>(function);
    std::vector<Place> places;
    for (llvm::Loop* loop : loops.getLoopsInPreorder()) {
      if (!loop->isInnermost()) continue;
      if (auto place = Find(*loop, order)) {
        llvm::formLCSSA(*loop, order, &loops, nullptr);
        places.push_back(std::move(*place));
      }
    }
    for (const Place& place : places) Part(place, order);
    return places.empty() ? llvm::PreservedAnalyses::all() : llvm::PreservedAnalyses::none();
  }

 private:
  static constexpr size_t kMost = program::CodeBounds::kStraight;  // instructions there twice

  struct Place {
    llvm::BasicBlock* header;
    llvm::SmallPtrSet<llvm::BasicBlock*, 16> loop;
    llvm::Instruction* condition;
    llvm::SetVector<llvm::Instruction*> slice;  // that computes it from `last`, operands first
    llvm::Instruction* last;                    // of what it is computed from
  };

  // What a condition is computed from in one iteration.
  struct Slice {
    llvm::SetVector<llvm::Instruction*> pure;     // operands first
    llvm::SetVector<llvm::Instruction*> sources;  // loads, and joins of branches
  };

  static bool Gather(llvm::Instruction& i, const llvm::Loop& loop, Slice& slice) {
    if (!loop.contains(&i) || slice.pure.contains(&i) || slice.sources.contains(&i)) return true;
    if (slice.pure.size() + slice.sources.size() > program::WorkBounds::kTree) return false;
    if (llvm::isa<llvm::PHINode>(i)) {
      if (i.getParent() != loop.getHeader()) slice.sources.insert(&i);
      return true;
    }
    if (llvm::isa<llvm::LoadInst>(i)) {
      slice.sources.insert(&i);
      return true;
    }
    if (i.mayReadOrWriteMemory() || !llvm::isSafeToSpeculativelyExecute(&i)) return false;
    for (llvm::Value* operand : i.operands()) {
      auto* from = llvm::dyn_cast<llvm::Instruction>(operand);
      if (from != nullptr && !Gather(*from, loop, slice)) return false;
    }
    slice.pure.insert(&i);
    return true;
  }

  // Whether the value is computed from the phi in the same iteration.
  static bool Reaches(const llvm::Value* value, const llvm::PHINode& phi, const llvm::Loop& loop,
                      int depth = 0) {
    if (value == &phi) return true;
    const auto* i = llvm::dyn_cast<llvm::Instruction>(value);
    if (i == nullptr || !loop.contains(i) || depth > program::WorkBounds::kTree) return false;
    if (llvm::isa<llvm::PHINode>(i) && i->getParent() == loop.getHeader()) return false;
    return llvm::any_of(i->operands(), [&](const llvm::Value* operand) {
      return Reaches(operand, phi, loop, depth + 1);
    });
  }

  // One side goes on from where the phi was, the other starts elsewhere: the back edge and the exit
  // of a loop within, whose branch is predictable. Two ways on, such as the children of a node, are
  // taken at random, and are better chosen than guessed.
  static bool BeginsAnew(const llvm::SelectInst& select, const llvm::PHINode& phi,
                         const llvm::Loop& loop) {
    return Reaches(select.getTrueValue(), phi, loop) != Reaches(select.getFalseValue(), phi, loop);
  }

  // A load, or one of those that the join brings, at an address made from the phi, of memory that
  // the loop stores to.
  static bool IsChased(const llvm::Instruction& source, const llvm::PHINode& phi,
                       const llvm::Loop& loop,
                       const llvm::SmallPtrSetImpl<const llvm::Value*>& stored) {
    if (const auto* load = llvm::dyn_cast<llvm::LoadInst>(&source)) {
      return stored.contains(llvm::getUnderlyingObject(load->getPointerOperand())) &&
             Reaches(load->getPointerOperand(), phi, loop);
    }
    return llvm::any_of(source.operands(), [&](const llvm::Value* operand) {
      const auto* load = llvm::dyn_cast<llvm::LoadInst>(operand);
      return load != nullptr && loop.contains(load) && IsChased(*load, phi, loop, stored);
    });
  }

  static std::optional<Place> Find(const llvm::Loop& loop, const llvm::DominatorTree& order) {
    llvm::SmallPtrSet<const llvm::Value*, 4> stored;
    size_t instructions = 0;
    for (llvm::BasicBlock* block : loop.blocks()) {
      instructions += block->size();
      for (llvm::Instruction& i : *block) {
        if (auto* store = llvm::dyn_cast<llvm::StoreInst>(&i)) {
          stored.insert(llvm::getUnderlyingObject(store->getPointerOperand()));
        }
      }
    }
    if (stored.empty() || instructions > kMost) return std::nullopt;
    for (llvm::PHINode& phi : loop.getHeader()->phis()) {
      if (!phi.getType()->isIntegerTy()) continue;
      for (llvm::Value* next : phi.incoming_values()) {
        auto* select = llvm::dyn_cast<llvm::SelectInst>(next);
        if (select == nullptr || !loop.contains(select)) continue;
        if (!BeginsAnew(*select, phi, loop)) continue;
        auto* condition = llvm::dyn_cast<llvm::Instruction>(select->getCondition());
        if (condition == nullptr || !loop.contains(condition)) continue;
        Slice slice;
        if (!Gather(*condition, loop, slice)) continue;
        bool chased = llvm::any_of(slice.sources, [&](const llvm::Instruction* source) {
          return IsChased(*source, phi, loop, stored);
        });
        llvm::Instruction* last = chased ? LastOf(slice, order) : nullptr;
        if (last == nullptr || !DominatesRest(*last->getParent(), loop, order)) continue;
        return Place{loop.getHeader(),
                     {loop.block_begin(), loop.block_end()},
                     condition,
                     std::move(slice.pure),
                     last};
      }
    }
    return std::nullopt;
  }

  // The source that the others dominate.
  static llvm::Instruction* LastOf(const Slice& slice, const llvm::DominatorTree& order) {
    llvm::Instruction* last = nullptr;
    for (llvm::Instruction* source : slice.sources) {
      if (last == nullptr || order.dominates(last, source)) last = source;
    }
    for (llvm::Instruction* source : slice.sources) {
      if (source != last && !order.dominates(source, last)) return nullptr;
    }
    return last;
  }

  // The blocks of the iteration behind this one.
  static Blocks RestOf(llvm::BasicBlock& block, const llvm::BasicBlock* header,
                       llvm::function_ref<bool(llvm::BasicBlock*)> contains) {
    Blocks rest;
    llvm::SmallPtrSet<llvm::BasicBlock*, 16> seen;
    Blocks left = {&block};
    while (!left.empty()) {
      llvm::BasicBlock* from = left.back();
      left.pop_back();
      for (llvm::BasicBlock* next : llvm::successors(from)) {
        if (next == header || !contains(next) || !seen.insert(next).second) continue;
        rest.push_back(next);
        left.push_back(next);
      }
    }
    return rest;
  }
  static bool DominatesRest(llvm::BasicBlock& block, const llvm::Loop& loop,
                            const llvm::DominatorTree& order) {
    Blocks rest = RestOf(block, loop.getHeader(),
                         [&](llvm::BasicBlock* other) { return loop.contains(other); });
    return llvm::all_of(rest, [&](llvm::BasicBlock* b) { return order.dominates(&block, b); });
  }

  // Computes the condition as soon as what it is made of is there, and uses it in place of others
  // that are the same.
  static llvm::Instruction* Hoist(const Place& place, llvm::DominatorTree& order) {
    llvm::Instruction* at = llvm::isa<llvm::PHINode>(place.last)
                                ? &*place.last->getParent()->getFirstNonPHIIt()
                                : place.last->getNextNode();
    for (llvm::Instruction* i : place.slice) {
      if (i == at) {
        at = at->getNextNode();
      } else if (!order.dominates(i, at)) {
        i->moveBefore(at);
      }
    }
    for (llvm::Instruction* i : place.slice) {
      std::vector<llvm::Instruction*> same;
      for (llvm::BasicBlock* block : place.loop) {
        for (llvm::Instruction& other : *block) {
          if (&other != i && other.isIdenticalTo(i) && order.dominates(i, &other)) {
            same.push_back(&other);
          }
        }
      }
      for (llvm::Instruction* other : same) {
        if (place.slice.contains(other)) continue;
        if (other == at) at = at->getNextNode();
        other->replaceAllUsesWith(i);
        other->eraseFromParent();
      }
    }
    return at;
  }

  static void Part(const Place& place, llvm::DominatorTree& order) {
    llvm::Instruction* at = Hoist(place, order);
    llvm::BasicBlock* block = at->getParent();
    llvm::Function& function = *block->getParent();
    llvm::BasicBlock* tail = block->splitBasicBlock(at);
    auto inside = [&](llvm::BasicBlock* other) {
      return other == tail || place.loop.contains(other);
    };
    Blocks rest = RestOf(*block, place.header, inside), copies;
    llvm::ValueToValueMapTy map;
    for (llvm::BasicBlock* one : rest) {
      llvm::BasicBlock* copy = llvm::CloneBasicBlock(one, map, "", &function);
      map[one] = copy;
      copies.push_back(copy);
    }
    llvm::remapInstructionsInBlocks({copies.data(), copies.size()}, map);
    JoinBehind(rest, map);
    auto* first = llvm::cast<llvm::BasicBlock>(static_cast<llvm::Value*>(map[tail]));
    llvm::Instruction* jump = block->getTerminator();
    llvm::IRBuilder<>(jump).CreateCondBr(place.condition, tail, first);
    jump->eraseFromParent();
    Know(rest, *place.condition, true);
    Know(copies, *place.condition, false);
  }

  // What others take from the blocks comes from their copies too.
  static void JoinBehind(const Blocks& rest, llvm::ValueToValueMapTy& map) {
    llvm::SmallPtrSet<llvm::BasicBlock*, 16> twice(rest.begin(), rest.end());
    for (llvm::BasicBlock* block : rest) {
      auto* copy = llvm::cast<llvm::BasicBlock>(static_cast<llvm::Value*>(map[block]));
      llvm::SmallPtrSet<llvm::BasicBlock*, 4> done;
      for (llvm::BasicBlock* next : llvm::successors(block)) {
        if (twice.contains(next) || !done.insert(next).second) continue;
        for (llvm::PHINode& phi : next->phis()) {
          for (unsigned k = 0, count = phi.getNumIncomingValues(); k < count; ++k) {
            if (phi.getIncomingBlock(k) != block) continue;
            llvm::Value* value = phi.getIncomingValue(k);
            auto found = map.find(value);
            phi.addIncoming(found == map.end() ? value : static_cast<llvm::Value*>(found->second),
                            copy);
          }
        }
      }
    }
  }

  static void Know(const Blocks& blocks, llvm::Instruction& condition, bool value) {
    llvm::SmallPtrSet<llvm::BasicBlock*, 16> inside(blocks.begin(), blocks.end());
    condition.replaceUsesWithIf(
        llvm::ConstantInt::getBool(condition.getContext(), value), [&](llvm::Use& use) {
          const auto* user = llvm::dyn_cast<llvm::Instruction>(use.getUser());
          return user != nullptr && inside.contains(user->getParent());
        });
    llvm::SimplifyQuery query(condition.getDataLayout());
    for (bool changed = true; changed;) {
      changed = false;
      for (llvm::BasicBlock* block : blocks) {
        for (llvm::Instruction& i : llvm::make_early_inc_range(*block)) {
          if (i.use_empty() || llvm::isa<llvm::PHINode>(i)) continue;
          llvm::Value* simple = llvm::simplifyInstruction(&i, query);
          if (simple == nullptr || simple == &i) continue;
          i.replaceAllUsesWith(simple);
          if (i.isSafeToRemove()) i.eraseFromParent();
          changed = true;
        }
      }
    }
  }
};

}  // namespace

bool AddBranchPass(llvm::StringRef name, llvm::FunctionPassManager& passes) {
  if (name != "weft-select-to-branch") return false;
  passes.addPass(SelectToBranch());
  return true;
}

}  // namespace weft::cpu
