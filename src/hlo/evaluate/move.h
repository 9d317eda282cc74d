// Evaluation and folding of the ops that move elements about without looking at them (ops/
// broadcast.cc, slice.cc); signatures as in OpRow.
#pragma once

#include <span>

#include "base/error.h"
#include "base/literal.h"
#include "hlo/fwd.h"

namespace weft::hlo {

class EvalContext;

Result<Literal> EvaluateBroadcast(EvalContext&, const Instruction&, std::span<Literal>);
Result<Literal> EvaluateIota(EvalContext&, const Instruction&, std::span<Literal>);
Result<Literal> EvaluateReshape(EvalContext&, const Instruction&, std::span<Literal>);
Result<Literal> EvaluateTranspose(EvalContext&, const Instruction&, std::span<Literal>);
Result<Literal> EvaluateReverse(EvalContext&, const Instruction&, std::span<Literal>);
Result<Literal> EvaluateBitcast(EvalContext&, const Instruction&, std::span<Literal>);
Result<Literal> EvaluateCopy(EvalContext&, const Instruction&, std::span<Literal>);

Result<Literal> EvaluateSlice(EvalContext&, const Instruction&, std::span<Literal>);
Result<Literal> EvaluateDynamicSlice(EvalContext&, const Instruction&, std::span<Literal>);
Result<Literal> EvaluateDynamicUpdateSlice(EvalContext&, const Instruction&, std::span<Literal>);
Result<Literal> EvaluatePad(EvalContext&, const Instruction&, std::span<Literal>);
Result<Literal> EvaluateConcatenate(EvalContext&, const Instruction&, std::span<Literal>);

// The operand when it has the result's shape and the op then does nothing: broadcast with
// ascending dimensions, slice, dynamic-slice, concatenate of one, pad by nothing.
Instruction* FoldSameShapeIdentity(Instruction&);
Instruction* FoldReshape(Instruction&);    // to the same shape; of a reshape
Instruction* FoldTranspose(Instruction&);  // by the identity; of a transpose
Instruction* FoldReverse(Instruction&);    // of dimensions of size 1; twice

}  // namespace weft::hlo
