// Lowering of IEEE minimum and maximum on x86 (llvm.minimum, llvm.maximum): NaN where an operand
// is, and -0 is less than +0. MINPS and MAXPS give the second operand where one is a NaN or both
// are zeros. Other machines have instructions for that.
#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "cpu/llvm/passes.h"
#include "program/work_bounds.h"

namespace weft::cpu {
namespace {

using llvm::Value;

bool IsMinMax(const Value& value) {
  const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&value);
  if (call == nullptr) return false;
  llvm::Intrinsic::ID id = call->getIntrinsicID();
  llvm::Type* type = call->getType()->getScalarType();
  return (id == llvm::Intrinsic::minimum || id == llvm::Intrinsic::maximum) &&
         (type->isFloatTy() || type->isDoubleTy());
}

bool IsLeast(const llvm::IntrinsicInst& call) {
  return call.getIntrinsicID() == llvm::Intrinsic::minimum;
}

template <class Is>
bool AllNumbers(const Value& value, Is is) {
  const auto* constant = llvm::dyn_cast<llvm::Constant>(&value);
  if (constant == nullptr) return false;
  if (const auto* number = llvm::dyn_cast<llvm::ConstantFP>(constant)) return is(*number);
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(constant->getType());
  for (unsigned k = 0; vector != nullptr && k < vector->getNumElements(); ++k) {
    const auto* number = llvm::dyn_cast_or_null<llvm::ConstantFP>(constant->getAggregateElement(k));
    if (number == nullptr || !is(*number)) return false;
  }
  return vector != nullptr;
}

bool IsNumber(const Value& value) {
  return AllNumbers(value, [](const llvm::ConstantFP& c) { return !c.isNaN(); });
}
bool IsNeverZero(const Value& value) {
  return AllNumbers(value, [](const llvm::ConstantFP& c) { return !c.isZero(); });
}
bool IsZero(const Value& value, bool negative) {
  return AllNumbers(
      value, [&](const llvm::ConstantFP& c) { return c.isZero() && c.isNegative() == negative; });
}

// Looks back from a number, through loops too: what the loop carries is never -0 if what enters is
// not. Sums are not asked: one that is contracted or flushed may become -0 where its terms are not.
class NegativeZeros {
 public:
  bool Never(const Value& value) {
    constexpr size_t kMost = program::WorkBounds::kPath;
    if (IsNeverZero(value) || IsZero(value, false)) return true;
    const auto* i = llvm::dyn_cast<llvm::Instruction>(&value);
    if (i == nullptr || seen_.size() >= kMost) return false;
    if (!seen_.insert(i).second) return true;
    switch (i->getOpcode()) {
      case llvm::Instruction::SIToFP:
      case llvm::Instruction::UIToFP: return true;
      case llvm::Instruction::FPExt:
      case llvm::Instruction::ExtractElement: return Never(*i->getOperand(0));
      case llvm::Instruction::FMul: return i->getOperand(0) == i->getOperand(1);
      case llvm::Instruction::Select: return Never(*i->getOperand(1)) && Never(*i->getOperand(2));
      case llvm::Instruction::PHI:
        return llvm::all_of(llvm::cast<llvm::PHINode>(i)->incoming_values(),
                            [&](const llvm::Use& use) { return Never(*use); });
      case llvm::Instruction::Call: return OfCall(*llvm::cast<llvm::CallInst>(i));
      default: return false;
    }
  }

 private:
  bool OfCall(const llvm::CallInst& call) {
    switch (call.getIntrinsicID()) {
      case llvm::Intrinsic::fabs: return true;
      case llvm::Intrinsic::sqrt: return Never(*call.getArgOperand(0));
      case llvm::Intrinsic::minimum:
      case llvm::Intrinsic::maximum:
        return Never(*call.getArgOperand(0)) && Never(*call.getArgOperand(1));
      default: return false;
    }
  }

  llvm::SmallPtrSet<const llvm::Instruction*, 16> seen_;
};

// Zeros of both signs cannot meet.
bool HasPlainZeros(const llvm::IntrinsicInst& call) {
  const Value &x = *call.getArgOperand(0), &y = *call.getArgOperand(1);
  if (call.hasNoSignedZeros() || IsNeverZero(x) || IsNeverZero(y)) return true;
  return NegativeZeros().Never(x) && NegativeZeros().Never(y);
}

// Writes minimum and maximum as what x86 has.
class MinMaxWriter {
 public:
  MinMaxWriter(llvm::IRBuilder<>& b, bool least, bool has_range)
      : b_(b), least_(least), has_range_(has_range) {}

  // The second where one is a NaN or both are zeros: one instruction.
  Value* Machine(Value* x, Value* y) {
    return b_.CreateSelect(least_ ? b_.CreateFCmpOLT(x, y) : b_.CreateFCmpOGT(x, y), x, y);
  }

  // Of numbers that are no NaNs: the instruction that orders zeros, or both orders of the one that
  // does not: where they differ, they differ in the sign of a zero.
  Value* OrderedZeros(Value* x, Value* y) {
    if (has_range_) return Range(x, y);
    llvm::Type* type = x->getType();
    llvm::Type* bits = type->getWithNewType(b_.getIntNTy(type->getScalarSizeInBits()));
    Value* one = b_.CreateBitCast(Machine(x, y), bits);
    Value* other = b_.CreateBitCast(Machine(y, x), bits);
    return b_.CreateBitCast(least_ ? b_.CreateOr(one, other) : b_.CreateAnd(one, other), type);
  }

  // Of any numbers. Bits of a NaN and of another number make a NaN when joined, not when met.
  Value* Whole(Value* x, Value* y) {
    if (least_) return MinMaxWriter(b_, true, false).OrderedZeros(x, y);
    llvm::Type* type = x->getType();
    Value *most = OrderedZeros(x, y), *nans = b_.CreateFCmpUNO(x, y);
    if (has_range_ || !type->isVectorTy()) {
      return b_.CreateSelect(nans, llvm::ConstantFP::getNaN(type), most);
    }
    llvm::Type* bits = type->getWithNewType(b_.getIntNTy(type->getScalarSizeInBits()));
    Value* all = b_.CreateSExt(nans, bits);  // which a machine without masks has
    return b_.CreateBitCast(b_.CreateOr(b_.CreateBitCast(most, bits), all), type);
  }

  // With a constant zero: what is not constant comes second, and so do its NaNs and its zeros. Of
  // max(x, +0) they must not be -0, which adding +0 sees to.
  Value* WithZero(Value* x, Value* zero, bool negative) {
    if (least_ == negative) {
      if (least_) return Whole(x, zero);
      x = b_.CreateFAdd(x, zero);
    }
    return Machine(zero, x);
  }

 private:
  // Immediates of VRANGE: which one, with the sign that is compared; and that nothing is rounded.
  enum : unsigned { kMin = 4, kMax = 5, kNoRounding = 4 };

  // VRANGE: -0 is less than +0, and NaNs are passed over.
  Value* Range(Value* x, Value* y) {
    unsigned bits = x->getType()->getScalarSizeInBits();
    auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
    Value* imm = b_.getInt32(least_ ? kMin : kMax);
    if (vector == nullptr) {
      auto* type = llvm::FixedVectorType::get(x->getType(), 128 / bits);
      Value* none = llvm::PoisonValue::get(type);
      auto id = bits == 32 ? llvm::Intrinsic::x86_avx512_mask_range_ss
                           : llvm::Intrinsic::x86_avx512_mask_range_sd;
      Value* lane = b_.CreateIntrinsic(id, {},
                                       {b_.CreateInsertElement(none, x, b_.getInt64(0)),
                                        b_.CreateInsertElement(none, y, b_.getInt64(0)), none,
                                        b_.getInt8(-1), imm, b_.getInt32(kNoRounding)});
      return b_.CreateExtractElement(lane, b_.getInt64(0));
    }
    unsigned lanes = vector->getNumElements(), width = 128, widest = WidestOf(*b_.GetInsertBlock());
    while (width < widest && width < lanes * bits) width *= 2;
    unsigned each = width / bits;
    Value* joined = nullptr;
    for (unsigned at = 0; at < lanes; at += each) {
      Value* part = RangeOf(Lanes(x, at, each), Lanes(y, at, each), width, imm);
      joined = joined == nullptr ? part : Join(joined, part);
    }
    return Lanes(joined, 0, lanes);
  }

  // Bits of the widest vectors of the function: wider ones LLVM does not split.
  static unsigned WidestOf(const llvm::BasicBlock& block) {
    unsigned bits = 512;
    llvm::Attribute width = block.getParent()->getFnAttribute("prefer-vector-width");
    if (width.isValid() && width.isStringAttribute())
      width.getValueAsString().getAsInteger(10, bits);
    return bits;
  }

  Value* RangeOf(Value* x, Value* y, unsigned width, Value* imm) {
    using namespace llvm::Intrinsic;
    bool single = x->getType()->getScalarSizeInBits() == 32;
    unsigned lanes = width / (single ? 32 : 64);
    Value* mask = llvm::ConstantInt::getAllOnesValue(b_.getIntNTy(std::max(lanes, 8u)));
    Value* none = llvm::PoisonValue::get(x->getType());
    if (width == 512) {
      return b_.CreateIntrinsic(
          single ? x86_avx512_mask_range_ps_512 : x86_avx512_mask_range_pd_512, {},
          {x, y, imm, none, mask, b_.getInt32(kNoRounding)});
    }
    ID id = width == 256 ? (single ? x86_avx512_mask_range_ps_256 : x86_avx512_mask_range_pd_256)
                         : (single ? x86_avx512_mask_range_ps_128 : x86_avx512_mask_range_pd_128);
    return b_.CreateIntrinsic(id, {}, {x, y, imm, none, mask});
  }

  static unsigned Count(const Value& v) {
    return llvm::cast<llvm::FixedVectorType>(v.getType())->getNumElements();
  }
  // Lanes from `at` on; beyond the last ones any.
  Value* Lanes(Value* from, unsigned at, unsigned count) {
    unsigned there = Count(*from);
    if (at == 0 && count == there) return from;
    std::vector<int> lanes;
    for (unsigned k = at; k < at + count; ++k)
      lanes.push_back(k < there ? static_cast<int>(k) : -1);
    return b_.CreateShuffleVector(from, lanes);
  }
  Value* Join(Value* a, Value* b) {
    unsigned n = Count(*a), m = Count(*b);
    std::vector<int> lanes;
    for (unsigned k = 0; k < n + m; ++k) lanes.push_back(static_cast<int>(k));
    if (n == m) return b_.CreateShuffleVector(a, b, lanes);
    // Both as wide as the wider one: the lanes of the second follow those of the first.
    return b_.CreateShuffleVector(a, Lanes(b, 0, n), lanes);
  }

  llvm::IRBuilder<>& b_;
  bool least_, has_range_;
};

// The last pass over every function: lowers what is left of minimum and maximum. Where zeros of
// both signs cannot meet (nsz) LLVM's own lowering is best.
class LowerIeeeMinMax : public llvm::PassInfoMixin<LowerIeeeMinMax> {
 public:
  explicit LowerIeeeMinMax(bool has_range) : has_range_(has_range) {}

  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager&) {
    if (!IsForX86(function)) return llvm::PreservedAnalyses::all();
    std::vector<llvm::IntrinsicInst*> found;
    for (llvm::Instruction& i : llvm::instructions(function)) {
      if (IsMinMax(i)) found.push_back(llvm::cast<llvm::IntrinsicInst>(&i));
    }
    for (llvm::IntrinsicInst* call : found) Write(*call);
    return KeepsBlocks(!found.empty());
  }

 private:
  void Write(llvm::IntrinsicInst& call) const {
    if (HasPlainZeros(call)) return call.setHasNoSignedZeros(true);
    llvm::IRBuilder<> b(&call);
    MinMaxWriter writer(b, IsLeast(call), has_range_);
    Value *x = call.getArgOperand(0), *y = call.getArgOperand(1);
    if (IsZero(*x, false) || IsZero(*x, true)) std::swap(x, y);
    bool with_zero = IsZero(*y, false) || IsZero(*y, true);
    call.replaceAllUsesWith(with_zero ? writer.WithZero(x, y, IsZero(*y, true))
                                      : writer.Whole(x, y));
    call.eraseFromParent();
  }

  bool has_range_;
};

// Where the minimum or maximum is on the critical path of a recurrence, a predicted branch on NaN
// takes the place of the selects for NaNs.
class BranchOnNanMinMax : public llvm::PassInfoMixin<BranchOnNanMinMax> {
 public:
  explicit BranchOnNanMinMax(bool has_range) : has_range_(has_range) {}

  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses) {
    if (!IsForX86(function)) return llvm::PreservedAnalyses::all();
    auto& loops = analyses.getResult<llvm::LoopAnalysis>(function);
    std::vector<std::pair<llvm::IntrinsicInst*, unsigned>> found;  // and which number is tested
    for (llvm::Instruction& i : llvm::instructions(function)) {
      if (!MayMeetNans(i)) continue;
      auto* call = llvm::cast<llvm::IntrinsicInst>(&i);
      if (HasPlainZeros(*call)) call->setHasNoSignedZeros(true);
      if (IsLeast(*call) && !has_range_ && !call->hasNoSignedZeros()) continue;  // asks for no NaNs
      const llvm::Loop* loop = loops.getLoopFor(call->getParent());
      if (loop == nullptr) continue;
      auto next = UsesInLoop(*call, *loop);
      if (!next.contains(call)) continue;
      found.push_back({call, next.contains(call->getArgOperand(0)) ? 1u : 0u});
    }
    for (auto [call, tested] : found) Part(*call, tested);
    return found.empty() ? llvm::PreservedAnalyses::all() : llvm::PreservedAnalyses::none();
  }

 private:
  static bool MayMeetNans(const llvm::Instruction& i) {
    // Of a constant it is known that it is none.
    return IsMinMax(i) && !i.getType()->isVectorTy() && !i.hasNoNaNs() &&
           !IsNumber(*i.getOperand(0)) && !IsNumber(*i.getOperand(1));
  }

  // What is computed of it in the loop, in this iteration and the next ones.
  static llvm::SmallPtrSet<const Value*, 16> UsesInLoop(const llvm::Instruction& from,
                                                        const llvm::Loop& loop) {
    constexpr size_t kMost = program::WorkBounds::kBlock;
    llvm::SmallPtrSet<const Value*, 16> seen;
    std::vector<const Value*> left = {&from};
    while (!left.empty() && seen.size() < kMost) {
      const Value* value = left.back();
      left.pop_back();
      for (const llvm::User* user : value->users()) {
        const auto* i = llvm::dyn_cast<llvm::Instruction>(user);
        if (i != nullptr && loop.contains(i) && seen.insert(i).second) left.push_back(i);
      }
    }
    return seen;
  }

  // Where zeros do not matter, x86 gives the second number where one is a NaN: the one that is not
  // tested. Where they do, both are tested.
  void Part(llvm::IntrinsicInst& call, unsigned tested) const {
    bool plain = call.hasNoSignedZeros();
    Value *x = call.getArgOperand(tested), *y = call.getArgOperand(1 - tested);
    llvm::IRBuilder<> b(&call);
    MinMaxWriter writer(b, IsLeast(call), has_range_);
    Value* number = plain ? writer.Machine(x, y) : writer.OrderedZeros(x, y);
    llvm::MDNode* unlikely = llvm::MDBuilder(call.getContext()).createBranchWeights(1, 100000);
    llvm::Instruction* then =
        llvm::SplitBlockAndInsertIfThen(b.CreateFCmpUNO(x, plain ? x : y), call.getIterator(),
                                        /*Unreachable=*/false, unlikely);
    b.SetInsertPoint(then);
    Value* nan = plain ? x : b.CreateFAdd(x, y);
    b.SetInsertPoint(&call);
    llvm::PHINode* result = b.CreatePHI(call.getType(), 2);
    for (llvm::BasicBlock* before : llvm::predecessors(call.getParent())) {
      result->addIncoming(before == then->getParent() ? nan : number, before);
    }
    call.replaceAllUsesWith(result);
    call.eraseFromParent();
  }

  bool has_range_;
};

}  // namespace

bool AddMinMaxPass(llvm::StringRef name, const llvm::TargetMachine* machine,
                   llvm::FunctionPassManager& passes) {
  if (name != "weft-lower-ieee-minmax" && name != "weft-branch-on-nan-minmax") return false;
  bool has_range = machine != nullptr && machine->getTargetTriple().isX86() &&
                   machine->getMCSubtargetInfo()->checkFeatures("+avx512dq,+avx512vl");
  if (name == "weft-lower-ieee-minmax") {
    passes.addPass(LowerIeeeMinMax(has_range));
  } else {
    passes.addPass(BranchOnNanMinMax(has_range));
  }
  return true;
}

}  // namespace weft::cpu
