// Argmin and argmax: the index of the least element, as selects that machines have for all lanes.
#include <algorithm>

#include "compiler/lower/element/ops.h"
#include "hlo/computation.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Op;
using HloOp = hlo::Op;

// The index of the least element, p or (q and x < y) ? x : y, as p ? x : q ? min(x, y) : y:
// machines whose predicates are vectors have no logic for more lanes than a register has.
Result<std::optional<Element>> EmitLeastOf(ElementContext& e, const Instruction& select,
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
      ValueId p = TRY(EmitElement(e, *first, index)).re,
              q = TRY(EmitElement(e, *both->operand(1 - n), index)).re;
      ValueId a = TRY(EmitElement(e, *x, index)).re, b = TRY(EmitElement(e, *y, index)).re;
      auto most_of = [&](ValueId v) -> std::optional<int64_t> {
        if (auto number = e.b.IntConstant(v)) return number;
        auto it = e.at_most.find(v);
        return it == e.at_most.end() ? std::nullopt : std::optional(it->second);
      };
      std::optional<int64_t> most = most_of(a), next = e.b.IntConstant(b);
      MatchLanes(e, a, b);
      Element chosen;
      if (most && next && *most < *next) {  // elements come in the order of their indices
        MatchLanes(e, p, q);
        chosen = SelectElement(e, e.b.Emit(Op::kOr, {p, q}), {a, -1}, {b, -1});
      } else {
        chosen = SelectElement(e, p, {a, -1}, SelectElement(e, q, {e.b.Min(a, b), -1}, {b, -1}));
      }
      if (most && next) e.at_most[chosen.re] = std::max(*most, *next);
      return chosen;
    }
  }
  return std::nullopt;
}

}  // namespace weft::compiler
