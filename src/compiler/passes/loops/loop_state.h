// A while over a tuple that body and condition read element by element, and changes to that tuple.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "hlo/module.h"

namespace weft::compiler {

struct Loop {
  hlo::Instruction* op;
  hlo::Computation *body, *condition;
  hlo::Instruction *body_state, *condition_state;  // their parameters

  int64_t size() const { return op->shape().tuple_size(); }
  // Element k after an iteration.
  hlo::Instruction* Next(int64_t k) const { return body->root()->operand(k); }
  // Body or condition read an element there.
  bool ReadsElement(const hlo::Instruction& i) const;
  // The body hands element k on as it got it.
  bool IsInvariant(int64_t k) const;
  // Element k of the initial value, where it is a tuple built in place; null: it is not.
  hlo::Instruction* Init(int64_t k) const;
};

// nullopt: the loop is of another form, or has annotations that name elements.
std::optional<Loop> FindLoop(hlo::Instruction* while_op);

// State that is an array by itself becomes a tuple of it: passes over loops ask for one. The loop
// that stands for it; null: it stays.
Result<hlo::Instruction*> MakeStateTuple(hlo::Instruction* while_op);

// One element of an array of the state that an iteration writes: state[index] = value.
struct ElementStore {
  int64_t k;
  hlo::Instruction *write, *value, *index;
};
// Of a dynamic-update-slice of one element, or of the scatter of one that replaces it.
std::optional<ElementStore> FindElementStore(int64_t k, hlo::Instruction* write);

// Element k of the initial value, read from it where need be.
Result<hlo::Instruction*> ReadInit(const Loop& loop, int64_t k);

// Makes the state the elements `kept` (ascending) and then invariant ones that start as `added`.
// What is not kept is not read by body or condition any more; users of the loop that read it read
// the initial value instead, which it must equal then. The loop is replaced by another one, which
// is returned; elements added are the last ones.
Result<Loop> RebuildLoop(const Loop& loop, std::span<const int64_t> kept,
                         std::span<hlo::Instruction* const> added);

}  // namespace weft::compiler
