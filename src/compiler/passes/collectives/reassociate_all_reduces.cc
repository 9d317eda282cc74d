// Gradients of activations that several products share are summed over devices one by one and then
// added: added first, they are summed over devices once.
#include "compiler/analysis/collectives.h"
#include "compiler/passes.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/rewrite.h"
#include "hlo/clone.h"

namespace weft::compiler {
namespace {

using hlo::Instruction;
using hlo::Op;

const hlo::Computation* DeviceSum(const Instruction& i) {
  const hlo::Computation* function =
      i.op() == Op::kAllReduce       ? i.attrs<hlo::AllReduceAttrs>().to_apply
      : i.op() == Op::kReduceScatter ? i.attrs<hlo::ReduceScatterAttrs>().to_apply
                                     : nullptr;
  if (function == nullptr) return nullptr;
  return SimpleReduction(*function) == program::ReduceOp::kAdd ? function : nullptr;
}

// A sum over devices that only `user` reads, and that nobody has given a place of its own.
bool IsSummand(const Instruction& i, const Instruction& user) {
  bool is_annotated = i.extras() != nullptr && !i.extras()->frontend_attributes.empty();
  return DeviceSum(i) != nullptr && i.operand_count() == 1 && i.users().size() == 1 &&
         i.users()[0] == &user && !i.IsRoot() && !HasControlDependencies(i) && !is_annotated;
}

// The same but for channel and spelling of the sum.
bool SameSum(const Instruction& a, const Instruction& b) {
  if (a.op() != b.op() || !Shape::Compatible(a.shape(), b.shape())) return false;
  hlo::Attrs other = b.attrs();
  other.MutableCollective()->channel_id = a.attrs().Collective()->channel_id;
  if (a.op() == Op::kAllReduce) {
    other.Mutable<hlo::AllReduceAttrs>().to_apply = a.attrs<hlo::AllReduceAttrs>().to_apply;
  } else {
    other.Mutable<hlo::ReduceScatterAttrs>().to_apply = a.attrs<hlo::ReduceScatterAttrs>().to_apply;
  }
  return other == a.attrs();
}

Result<bool> AddBeforeSumming(Instruction* add) {
  if (add->op() != Op::kAdd || add->shape().dtype() == DType::kPred) return false;
  Instruction *a = add->operand(0), *b = add->operand(1);
  if (a == b || !IsSummand(*a, *add) || !IsSummand(*b, *add) || !SameSum(*a, *b)) return false;
  hlo::Builder build(*add->parent(), add, add);
  Instruction* parts = TRY(build.Add(Op::kAdd, {a->operand(0), b->operand(0)}));
  Instruction* sum =
      TRY(build.Add(a->op(), std::span(&parts, 1), a->attrs(), &a->shape(), a->name()));
  hlo::CopyFacts(*a, *sum);
  ReplaceWithValue(add, sum);
  a->parent()->Remove(a);
  b->parent()->Remove(b);
  return true;
}

}  // namespace

Result<bool> ReassociateAllReduces(hlo::Module& module, const PassContext&) {
  if (module.config().is_scheduled) return false;
  return RewriteEach(module, AddBeforeSumming);
}

}  // namespace weft::compiler
