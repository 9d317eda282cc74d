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

struct KernelContext {
  KernelContext(const program::Kernel& kernel, const RenderTarget& target, IrMetadata& metadata)
      : kernel(kernel), target(target), metadata(metadata), access(kernel, target, ir, names) {}
  KernelContext(const KernelContext&) = delete;
  const program::Kernel& kernel;
  const RenderTarget& target;
  IrMetadata& metadata;
  IrBody ir;
  std::string entry;  // allocas
  program::Blocks blocks;
  bool in_loop = false;  // part of a native region, in a loop around it
  std::vector<std::string> names, allocated;
  std::vector<bool> arrays, uncontracted;  // the latter by value (critical_path.h)
  std::vector<OutlineCandidate> outlined;
  std::vector<int32_t> outlined_at;    // by instruction: the one that begins there, or -1
  std::vector<std::string> functions;  // by the instruction with which they begin
  std::vector<Operand> operands;
  std::map<size_t, Reassociation> reassociations;
  std::vector<int64_t> grid;
  size_t grid_level = 0;
  int64_t threads_in_all = 1, stack_bytes = 0, next_loop = 0;
  int64_t copies = 1;            // of the code at hand, in loops that are written out
  std::string likely, unlikely;  // weights of a branch
  SlowPathCalls slow_path_calls;
  AccessRenderer access;  // last: it uses some of the others
};

void RenderFunction(KernelContext& cx, const KernelText& how, std::string& out);
void AppendParam(const KernelContext& cx, int32_t i, std::string& out);
void LoadParam(KernelContext& cx, int32_t i);
void NameConstants(KernelContext& cx);
void RenderBlock(KernelContext& cx, size_t begin, size_t end);
Operand OperandOf(const KernelContext& cx, program::ValueId id);
void RenderReassociated(KernelContext& cx, const program::Instr& whole, const Reassociation& form);
void RenderCompute(KernelContext& cx, const program::Instr& instr);
// A remainder of a number whose quotient by the same constant is computed as well.
bool HasQuotient(const KernelContext& cx, const program::Instr& instr);
// What the quotient leaves. Where quotients are divided again, LLVM makes one division of both
// and would divide once more for the remainder.
std::string RenderRemainder(KernelContext& cx, const program::Instr& instr);
// Divisors of 0 and -1, which LLVM's division does not take, are unlikely: where the division may
// be on the critical path of a loop, a predicted branch takes the place of the selects before it.
bool GuardsDivisor(const KernelContext& cx, const program::Instr& instr);
std::string RenderGuardedDivision(KernelContext& cx, const program::Instr& instr);
void FindOutlined(KernelContext& cx);
void ReduceAddresses(KernelContext& cx);
// What a stretch computes, as one type.
std::string ResultType(const KernelContext& cx, const OutlineCandidate& candidate);
std::string FunctionOf(KernelContext& cx, const OutlineCandidate& candidate);
void RenderCall(KernelContext& cx, const OutlineCandidate& candidate);
std::string Likely(KernelContext& cx);
std::string Unlikely(KernelContext& cx);
std::string Weights(KernelContext& cx, program::Branch branch);
// Keeps LLVM from if-converting the unlikely block (its little code would be computed always, for
// a select) and from hoisting it out of loops: what it reads goes through an optimization
// barrier, an empty `asm sideeffect`, and has other names inside; returns the old ones.
std::map<program::ValueId, std::string> BlockSpeculation(KernelContext& cx, size_t begin,
                                                         size_t end);
// The load that follows at once, if it is all that the number which the `if` gives is for.
const program::Instr* LoadBehind(const KernelContext& cx, size_t pc);
// Returns the last instruction of what it rendered. A load of the place that the two blocks give
// is duplicated into both (tail duplication), so that the likely path has no phi of addresses.
size_t RenderGuard(KernelContext& cx, size_t pc);
void RenderIf(KernelContext& cx, size_t pc);
void RenderLoop(KernelContext& cx, size_t pc);
void SetCounter(KernelContext& cx, const program::Instr& loop, std::string name);
void RenderUnrolled(KernelContext& cx, size_t pc, int64_t trips);
std::string LoopMetadata(KernelContext& cx, program::LoopKind kind);
// What no sum or product of counters is larger than, or less than its negative; none if there are
// many of them.
std::optional<int64_t> MostOf(const KernelContext& cx, program::ValueId id, int depth = 0);
// It ends some numbers after it begins, as chunks of the same size do.
bool AlwaysRuns(const KernelContext& cx, const program::Instr& loop);
// Tested at the end, with a test before it where it may not run at all.
void RenderRealLoop(KernelContext& cx, size_t pc, std::optional<int64_t> trips);
// The next counter and whether there is one more iteration, without overflow.
std::string RenderStep(KernelContext& cx, const program::Instr& loop, std::optional<int64_t> trips,
                       const std::string& id);
// The parallel nest as one loop over the range, its counters from the number of the iteration.
void RenderGrid(KernelContext& cx, size_t pc);
// `size`: iterations of this loop and those inside.
void RenderGridLevel(KernelContext& cx, size_t pc, int64_t size);
void DeclareArray(KernelContext& cx, int32_t memory);

inline const std::string& NameOf(const KernelContext& cx, program::ValueId id) {
  return cx.names[id];
}
inline std::string Typed(const KernelContext& cx, program::ValueId id) {
  return StrCat(IrType(cx.kernel.type(id)), " ", cx.names[id]);
}

}  // namespace weft::cpu
