// Rules of loops, ifs and combines of a kernel: where they stand, and what they yield.
#include <algorithm>

#include "program/verify_kernel.h"

namespace weft::program {

Status KernelVerifier::MarkOther(const Instr& instr) {
  blocks_.back().has_other = true;
  if (!blocks_.back().has_grid_loop) return {};
  return Fail(instr.pos, Name(instr.op), " beside a loop of the grid");
}

Status KernelVerifier::CheckControl(const Instr& instr) {
  switch (instr.op) {
    case Op::kLoop: return CheckLoop(instr);
    case Op::kIf:
      TRY(CheckArity(instr));
      TRY(Need(instr, instr.args[0], {DType::kPred, 1}));
      TRY(MarkOther(instr));
      return Open(instr);
    case Op::kElse: {
      Block& block = blocks_.back();
      if (!block.open || block.open->op != Op::kIf || block.has_else) {
        return Fail(instr.pos, "else without an if");
      }
      HideBlock();
      block.has_else = true;
      block.yields = instr.args;
      return {};
    }
    case Op::kCombine: return CheckCombine(instr);
    default: return CheckEnd(instr);
  }
}

bool KernelVerifier::InCombine() const {
  return std::any_of(blocks_.begin(), blocks_.end(), [](const Block& b) {
    return b.open != nullptr && b.open->op == Op::kLoop && b.has_else;
  });
}

Status KernelVerifier::CheckCombine(const Instr& instr) {
  Block& block = blocks_.back();
  if (!block.open || block.open->op != Op::kLoop || block.open->loop != LoopKind::kThread ||
      block.has_else) {
    return Fail(instr.pos, "combine without a thread loop");
  }
  const Instr& loop = *block.open;
  if (block.has_grid_loop || Enclosing(LoopKind::kThread) != 1) {
    return Fail(instr.pos, "combine: of nested thread loops");
  }
  bool counts =
      kernel_.value(loop.args[0]).AsInt() == 0 && kernel_.value(loop.args[2]).AsInt() == 1;
  if (!counts || !IsPowerOfTwo(*TripCount(kernel_, loop))) {
    return Fail(instr.pos, "combine: iterations are not numbered 0 to a power of two");
  }
  size_t n = instr.args.size();
  if (n == 0 || instr.results.size() != 2 * n) {
    return Fail(instr.pos, "combine: ", instr.results.size(), " values for two of ", n);
  }
  for (ValueId id : instr.args) {
    if (T(id).lanes != 1) return Fail(instr.pos, "combine: does not take ", T(id));
  }
  HideBlock();
  block.has_else = true;
  block.yields = instr.args;
  for (size_t i = 0; i < 2 * n; ++i) TRY(Define(instr, instr.results[i], T(instr.args[i % n])));
  return {};
}

Status KernelVerifier::Open(const Instr& instr) {
  if (blocks_.size() > static_cast<size_t>(kMaxNesting)) {
    return Fail(instr.pos, "blocks are nested more than ", kMaxNesting, " deep");
  }
  blocks_.push_back({});
  blocks_.back().open = &instr;
  return {};
}

void KernelVerifier::HideBlock() {
  for (ValueId id : blocks_.back().values) visible_[id] = false;
  for (int32_t array : blocks_.back().arrays) live_[array] = false;
  blocks_.back().values.clear();
  blocks_.back().arrays.clear();
}

int KernelVerifier::Enclosing(LoopKind kind) const {
  int n = 0;
  for (const Block& b : blocks_) n += b.open && b.open->op == Op::kLoop && b.open->loop == kind;
  return n;
}

Status KernelVerifier::CheckLoop(const Instr& instr) {
  if (instr.args.size() < 3 || instr.results.size() + 2 != instr.args.size()) {
    return Fail(instr.pos, "loop: wrong number of operands");
  }
  if (instr.type != Type{DType::kS64, 1} && instr.type != Type{DType::kS32, 1}) {
    return Fail(instr.pos, "loop: the counter is ", instr.type, ", should be s64 or s32");
  }
  for (int i = 0; i < 3; ++i) TRY(Need(instr, instr.args[i], instr.type));
  const Value& step = kernel_.value(instr.args[2]);
  if (!step.is_constant || step.AsInt() <= 0) {
    return Fail(instr.pos, "loop: the step must be a constant above 0");
  }
  if (instr.loop != LoopKind::kSerial && !TripCount(kernel_, instr)) {
    return Fail(instr.pos, Name(instr.loop), " loop: bounds must be constant");
  }
  if (IsConcurrent(instr.loop) && instr.args.size() > 3) {
    return Fail(instr.pos, Name(instr.loop), " loop: cannot carry values");
  }
  TRY(CheckPlace(instr));
  TRY(Open(instr));
  for (size_t i = 0; i < instr.results.size(); ++i) {
    TRY(Define(instr, instr.results[i], i == 0 ? instr.type : T(instr.args[i + 2])));
  }
  return {};
}

Status KernelVerifier::CheckPlace(const Instr& instr) {
  Block& block = blocks_.back();
  if (Enclosing(LoopKind::kVector) > 0) return Fail(instr.pos, "loop inside a vector loop");
  if (instr.loop == LoopKind::kParallel) {
    if (Enclosing(LoopKind::kParallel) + 1 != static_cast<int>(blocks_.size())) {
      return Fail(instr.pos, "parallel loop inside a block that is not a parallel loop");
    }
  }
  bool nested_thread = instr.loop == LoopKind::kThread && Enclosing(LoopKind::kThread) > 0;
  if (nested_thread) {
    if (block.open->op != Op::kLoop || block.open->loop != LoopKind::kThread) {
      return Fail(instr.pos, "thread loop inside another block of a thread loop");
    }
  }
  if (instr.loop == LoopKind::kThread) TRY(CheckThreads(instr));
  if (instr.loop != LoopKind::kParallel && !nested_thread) return MarkOther(instr);
  if (block.has_other || block.has_grid_loop) {
    return Fail(instr.pos, Name(instr.loop), " loop does not stand alone in its block");
  }
  block.has_grid_loop = true;
  return {};
}

Status KernelVerifier::CheckThreads(const Instr& instr) const {
  int64_t threads = *TripCount(kernel_, instr);
  for (const Block& b : blocks_) {
    bool counts = b.open && b.open->op == Op::kLoop && b.open->loop == LoopKind::kThread;
    if (counts && threads <= kMaxThreads) threads *= *TripCount(kernel_, *b.open);
  }
  if (threads <= kMaxThreads) return {};
  return Fail(instr.pos, "thread loops make more than ", kMaxThreads, " threads");
}

Status KernelVerifier::CheckEnd(const Instr& instr) {
  Block& block = blocks_.back();
  if (!block.open) return Fail(instr.pos, "end without a block");
  const Instr& open = *block.open;
  std::vector<Type> types;
  if (open.op == Op::kLoop && !block.has_else) {
    for (size_t i = 1; i < open.results.size(); ++i) types.push_back(T(open.results[i]));
  } else {
    for (ValueId id : block.yields) types.push_back(T(id));
  }
  if (instr.args.size() != types.size() || instr.results.size() != types.size()) {
    return Fail(instr.pos, "block yields ", instr.args.size(), " values for ", instr.results.size(),
                " results and should yield ", types.size());
  }
  if (open.op == Op::kIf && open.branch == Branch::kGuard && !block.has_else) {
    return Fail(open.pos, "guard without an else");
  }
  for (size_t i = 0; i < types.size(); ++i) TRY(Need(instr, instr.args[i], types[i]));
  HideBlock();
  blocks_.pop_back();
  for (size_t i = 0; i < types.size(); ++i) TRY(Define(instr, instr.results[i], types[i]));
  return {};
}

}  // namespace weft::program
