#include "compiler/passes/loops/counted_loop.h"

#include "compiler/passes/expand/inline.h"
#include "compiler/passes/rewrite.h"

namespace weft::compiler {

using hlo::Builder;
using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

Result<std::vector<Instruction*>> AddCountedLoop(Builder& b, int64_t count,
                                                 std::span<Instruction* const> init,
                                                 const LoopRound& round) {
  hlo::Module& module = *b.computation().module();
  std::vector<Instruction*> first = {b.ScalarConstant(DType::kS32, 0)};
  first.insert(first.end(), init.begin(), init.end());
  Instruction* start = TRY(b.Tuple(first));

  Computation* condition = module.AddComputation(module.UniqueName("rounds"), &b.computation());
  Builder c(*condition);
  Instruction* done = TRY(c.GetTupleElement(TRY(c.Parameter(0, start->shape())), 0));
  Instruction* all = c.ScalarConstant(DType::kS32, static_cast<double>(count));
  condition->set_root(TRY(c.Compare(done, all, hlo::Direction::kLt)));

  Computation* body = module.AddComputation(module.UniqueName("round"), &b.computation());
  Builder r(*body);
  Instruction* p = TRY(r.Parameter(0, start->shape()));
  Instruction* number = TRY(r.GetTupleElement(p, 0));
  std::vector<Instruction*> state;
  for (int64_t k = 0; k < std::ssize(init); ++k) {
    state.push_back(TRY(r.GetTupleElement(p, k + 1)));
  }
  std::vector<Instruction*> next = TRY(round(r, number, state));
  Instruction* one = r.ScalarConstant(DType::kS32, 1);
  next.insert(next.begin(), TRY(r.Add(Op::kAdd, {number, one})));
  body->set_root(TRY(r.Tuple(next)));

  Instruction* loop =
      TRY(b.Add(Op::kWhile, {start}, hlo::WhileAttrs{.condition = condition, .body = body}));
  std::vector<Instruction*> last;
  for (int64_t k = 0; k < std::ssize(init); ++k) {
    last.push_back(TRY(b.GetTupleElement(loop, k + 1)));
  }
  return last;
}

Result<std::vector<Instruction*>> CallInline(Builder& b, Computation& computation,
                                             std::span<Instruction* const> arguments) {
  Instruction* value = InlineCallee(TRY(b.Call(&computation, arguments)), computation);
  if (!value->shape().IsTuple()) return std::vector<Instruction*>{value};
  std::vector<Instruction*> elements;
  for (int64_t k = 0; k < value->shape().tuple_size(); ++k) {
    elements.push_back(TRY(ElementOf(b, value, k)));
  }
  return elements;
}

}  // namespace weft::compiler
