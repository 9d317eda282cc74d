// What passes that put other instructions in the place of one share.
#pragma once

#include <functional>
#include <span>

#include "base/error.h"
#include "hlo/builder.h"
#include "hlo/module.h"

namespace weft::compiler {

// Calls `rewrite` for every instruction that is there when the walk begins, computation by
// computation. It may replace or remove the one it is given and add others, also computations;
// it returns whether it changed something.
using Rewrite = std::function<Result<bool>(hlo::Instruction*)>;
Result<bool> RewriteEach(hlo::Module& module, const Rewrite& rewrite);

// Users of `i` read `value`, which was there before, and `i` goes. Where control dependencies hang
// on `i`, a copy of the value takes them over.
void ReplaceWithValue(hlo::Instruction* i, hlo::Instruction* value);

// The result of `i` and all of its operands have sizes that are known.
bool IsStaticallyShaped(const hlo::Instruction& i);

// The value under other dimensions; itself when they are the same.
Result<hlo::Instruction*> ReshapeTo(hlo::Builder& b, hlo::Instruction* value,
                                    std::span<const int64_t> dims);
// Whether the permutation moves elements: dimensions of size 1 may go anywhere.
bool MovesElements(std::span<const int64_t> dims, std::span<const int64_t> permutation);
// A transpose, or a reshape when no element moves, or the value itself.
Result<hlo::Instruction*> TransposeTo(hlo::Builder& b, hlo::Instruction* value,
                                      std::span<const int64_t> permutation);
// Element `index` of a tuple, without a get-tuple-element where the tuple is made here.
Result<hlo::Instruction*> ElementOf(hlo::Builder& b, hlo::Instruction* tuple, int64_t index);
// A value of zeroes, of any shape: constants, tuples of them, tokens.
Result<hlo::Instruction*> ZeroesOf(hlo::Builder& b, const Shape& shape);
// The scalar in every element of an array of this shape.
Result<hlo::Instruction*> FillWith(hlo::Builder& b, hlo::Instruction* scalar, const Shape& shape);

// The value of branch k where the selector is k or, of the last one, anything else.
Result<hlo::Instruction*> ChooseBranch(hlo::Builder& b, hlo::Instruction* selector,
                                       std::span<hlo::Instruction* const> values);

// Computations (a, b) -> op(a, b) on scalars, made when first asked for.
class ScalarFunctions {
 public:
  explicit ScalarFunctions(hlo::Module& module) : module_(module) {}
  Result<hlo::Computation*> Get(hlo::Op op, DType dtype);

 private:
  struct Entry {
    hlo::Op op;
    DType dtype;
    hlo::Computation* computation;
  };
  hlo::Module& module_;
  std::vector<Entry> made_;
};

}  // namespace weft::compiler
