// Reductions over the minor dimension and over others that kept dimensions separate from it, as the
// statistics of features that stand before places, or of groups of features: neither vectors of a
// row nor of columns go through all of what is reduced, but they do after each other.
#include <algorithm>

#include "compiler/analysis/queries.h"
#include "compiler/passes.h"
#include "compiler/passes/rewrite.h"
#include "hlo/clone.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Ints;
using hlo::Op;

// Whether the reduction may be done in two steps, both of which begin with its init.
bool MayBeSplit(const Instruction& i) {
  if (i.op() != Op::kReduce || i.operand_count() != 2 || !IsStaticallyShaped(i)) return false;
  std::optional<Op> op = BinaryReducer(*i.attrs<hlo::ReduceAttrs>().to_apply);
  if (!op) return false;
  switch (*op) {
    case Op::kMaximum:
    case Op::kMinimum:
    case Op::kAnd:
    case Op::kOr: return true;
    case Op::kAdd:
    case Op::kMultiply: break;
    default: return false;
  }
  DType dtype = i.shape().dtype();
  // Narrow floats would be rounded once more.
  if (!IsInteger(dtype) && dtype != DType::kF32 && dtype != DType::kF64) return false;
  const Literal* init = SplatValue(*i.operand(1));
  return init != nullptr && init->GetDouble(0) == (*op == Op::kAdd ? 0 : 1);
}

// Reduced dimensions of x: those of the minor run, and those that others separate from it.
struct Split {
  Ints minor, outer;
  int64_t run = 1;  // elements of the former
};
Split SplitOf(const Shape& x, const Ints& dims) {
  Split split;
  bool in_run = true;
  for (int64_t d = x.rank(); d-- > 0;) {
    bool reduced = std::ranges::count(dims, d) > 0;
    if (!reduced) in_run = in_run && x.dim(d) == 1;
    if (!reduced) continue;
    (in_run ? split.minor : split.outer).push_back(d);
    if (in_run) split.run *= x.dim(d);
  }
  std::sort(split.minor.begin(), split.minor.end());
  std::sort(split.outer.begin(), split.outer.end());
  return split;
}

Result<bool> SplitReduction(Instruction* i) {
  // Less is soon done, whichever way it goes; rows that are shorter had better be columns.
  constexpr int64_t kWorthIt = program::TargetFacts::kCachedNumbers,
                    kLongRow = program::CodeBounds::kShortLoop;
  if (!MayBeSplit(*i)) return false;
  Instruction* x = i->operand(0);
  const auto& attrs = i->attrs<hlo::ReduceAttrs>();
  if (x->shape().elements() < kWorthIt) return false;
  Split split = SplitOf(x->shape(), attrs.dimensions);
  if (split.run == 1 || split.outer.empty()) return false;
  const Ints& first = split.run >= kLongRow ? split.minor : split.outer;
  const Ints& then = split.run >= kLongRow ? split.outer : split.minor;
  Ints rest;  // `then`, as dimensions of what the first step leaves
  for (int64_t d : then) {
    auto before = std::count_if(first.begin(), first.end(), [&](int64_t f) { return f < d; });
    rest.push_back(d - before);
  }
  Builder b(*i->parent(), i, i);
  Instruction* part = TRY(b.Reduce(x, i->operand(1), first, attrs.to_apply));
  hlo::ReplaceInstruction(i, TRY(b.Reduce(part, i->operand(1), rest, attrs.to_apply)));
  return true;
}

}  // namespace

Result<bool> SplitReductions(hlo::Module& module, const PassContext& context) {
  if (!context.target.RunsOnHost()) return false;
  return RewriteEach(module, SplitReduction);
}

}  // namespace weft::compiler
