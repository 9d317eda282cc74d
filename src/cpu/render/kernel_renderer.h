// The text of one kernel: its state, and what is made of single operations (kernel.cc) and of
// control flow (control_flow.cc).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cpu/render/access.h"
#include "cpu/render/critical_path.h"
#include "cpu/render/kernel.h"
#include "cpu/render/ops.h"
#include "cpu/render/outline.h"
#include "cpu/render/slow_path.h"

namespace weft::cpu {

class KernelRenderer {
 public:
  KernelRenderer(const program::Kernel& kernel, const RenderTarget& target, IrMetadata& metadata)
      : kernel_(kernel),
        target_(target),
        metadata_(metadata),
        access_(kernel, target, ir_, names_) {}
  KernelRenderer(const KernelRenderer&) = delete;

  void Render(const KernelText& how, std::string& out);

 private:
  using Instr = program::Instr;
  using ValueId = program::ValueId;

  void AppendParam(int32_t i, std::string& out) const;
  void LoadParam(int32_t i);
  void NameConstants();
  const std::string& NameOf(ValueId id) const { return names_[id]; }
  std::string Typed(ValueId id) const { return StrCat(IrType(kernel_.type(id)), " ", names_[id]); }
  void RenderBlock(size_t begin, size_t end);
  Operand OperandOf(ValueId id) const;
  void RenderReassociated(const Instr& whole, const Reassociation& form);
  void RenderCompute(const Instr& instr);
  // A remainder of a number whose quotient by the same constant is computed as well.
  bool HasQuotient(const Instr& instr) const;
  // What the quotient leaves. Where quotients are divided again, LLVM makes one division of both
  // and would divide once more for the remainder.
  std::string RenderRemainder(const Instr& instr);
  // Divisors of 0 and -1, which LLVM's division does not take, are unlikely: where the division may
  // be on the critical path of a loop, a predicted branch takes the place of the selects before it.
  bool GuardsDivisor(const Instr& instr) const;
  std::string RenderGuardedDivision(const Instr& instr);
  void FindOutlined();
  void ReduceAddresses();
  // What a stretch computes, as one type.
  std::string ResultType(const OutlineCandidate& candidate) const;
  std::string FunctionOf(const OutlineCandidate& candidate);
  void RenderCall(const OutlineCandidate& candidate);
  std::string Likely();
  std::string Unlikely();
  std::string Weights(program::Branch branch);
  // Keeps LLVM from if-converting the unlikely block (its little code would be computed always, for
  // a select) and from hoisting it out of loops: what it reads goes through an optimization
  // barrier, an empty `asm sideeffect`, and has other names inside; returns the old ones.
  std::map<ValueId, std::string> BlockSpeculation(size_t begin, size_t end);
  // The load that follows at once, if it is all that the number which the `if` gives is for.
  const Instr* LoadBehind(size_t pc) const;
  // Returns the last instruction of what it rendered. A load of the place that the two blocks give
  // is duplicated into both (tail duplication), so that the likely path has no phi of addresses.
  size_t RenderGuard(size_t pc);
  void RenderIf(size_t pc);
  void RenderLoop(size_t pc);
  void SetCounter(const Instr& loop, std::string name);
  void RenderUnrolled(size_t pc, int64_t trips);
  std::string LoopMetadata(program::LoopKind kind);
  // What no sum or product of counters is larger than, or less than its negative; none if there are
  // many of them.
  std::optional<int64_t> MostOf(ValueId id, int depth = 0) const;
  // It ends some numbers after it begins, as chunks of the same size do.
  bool AlwaysRuns(const Instr& loop) const;
  // Tested at the end, with a test before it where it may not run at all.
  void RenderRealLoop(size_t pc, std::optional<int64_t> trips);
  // The next counter and whether there is one more iteration, without overflow.
  std::string RenderStep(const Instr& loop, std::optional<int64_t> trips, const std::string& id);
  // The parallel nest as one loop over the range, its counters from the number of the iteration.
  void RenderGrid(size_t pc);
  // `size`: iterations of this loop and those inside.
  void RenderGridLevel(size_t pc, int64_t size);
  void DeclareArray(int32_t memory);

  const program::Kernel& kernel_;
  const RenderTarget& target_;
  IrMetadata& metadata_;
  IrBody ir_;
  std::string entry_;  // allocas
  program::Blocks blocks_;
  bool in_loop_ = false;  // part of a native region, in a loop around it
  std::vector<std::string> names_, allocated_;
  std::vector<bool> arrays_, uncontracted_;  // the latter by value (critical_path.h)
  std::vector<OutlineCandidate> outlined_;
  std::vector<int32_t> outlined_at_;    // by instruction: the one that begins there, or -1
  std::vector<std::string> functions_;  // by the instruction with which they begin
  std::vector<Operand> operands_;
  std::map<size_t, Reassociation> reassociations_;
  std::vector<int64_t> grid_;
  size_t grid_level_ = 0;
  int64_t threads_in_all_ = 1, stack_bytes_ = 0, next_loop_ = 0;
  int64_t copies_ = 1;             // of the code at hand, in loops that are written out
  std::string likely_, unlikely_;  // weights of a branch
  SlowPathCalls slow_path_calls_;
  AccessRenderer access_;  // last: it uses some of the others
};

}  // namespace weft::cpu
