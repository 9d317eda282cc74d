// Argmin and argmax: the index of the least element, as selects that machines have for all lanes.
#include <algorithm>

#include "compiler/lower/element/element.h"
#include "hlo/computation.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Op;
using HloOp = hlo::Op;

// The index of the least element, p or (q and x < y) ? x : y, as p ? x : q ? min(x, y) : y:
// machines whose predicates are vectors have no logic for more lanes than a register has.
Result<std::optional<Element>> ElementEmitter::EmitLeastOf(const Instruction& select,
                                                           const Index& index) {
  const Instruction *choice = select.operand(0), *x = select.operand(1), *y = select.operand(2);
  bool plain = choice->op() == HloOp::kOr && choice->shape().rank() == select.shape().rank() &&
               IsInteger(select.shape().dtype());
  if (!plain) return std::nullopt;
  auto less = [&](const Instruction* i) {
    return i->op() == HloOp::kCompare && i->operand(0) == x && i->operand(1) == y &&
           i->attrs<hlo::CompareAttrs>().direction == hlo::Direction::kLt;
  };
  for (int64_t k = 0; k < 2; ++k) {
    const Instruction *first = choice->operand(1 - k), *both = choice->operand(k);
    if (both->op() != HloOp::kAnd) continue;
    for (int64_t n = 0; n < 2; ++n) {
      if (!less(both->operand(n))) continue;
      ValueId p = TRY(Emit(*first, index)).re, q = TRY(Emit(*both->operand(1 - n), index)).re;
      ValueId a = TRY(Emit(*x, index)).re, b = TRY(Emit(*y, index)).re;
      auto most_of = [&](ValueId v) -> std::optional<int64_t> {
        if (auto number = b_.IntConstant(v)) return number;
        auto it = at_most_.find(v);
        return it == at_most_.end() ? std::nullopt : std::optional(it->second);
      };
      std::optional<int64_t> most = most_of(a), next = b_.IntConstant(b);
      Match(a, b);
      Element chosen;
      if (most && next && *most < *next) {  // elements come in the order of their indices
        Match(p, q);
        chosen = Select(b_.Emit(Op::kOr, {p, q}), {a, -1}, {b, -1});
      } else {
        chosen = Select(p, {a, -1}, Select(q, {b_.Min(a, b), -1}, {b, -1}));
      }
      if (most && next) at_most_[chosen.re] = std::max(*most, *next);
      return chosen;
    }
  }
  return std::nullopt;
}

}  // namespace weft::compiler
