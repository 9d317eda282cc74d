// Evaluation of cholesky and triangular-solve; signatures as in OpRow.
#pragma once

#include <span>

#include "base/error.h"
#include "base/literal.h"
#include "hlo/fwd.h"

namespace weft::hlo {

class EvalContext;

Result<Literal> EvaluateCholesky(EvalContext&, const Instruction&, std::span<Literal>);
Result<Literal> EvaluateTriangularSolve(EvalContext&, const Instruction&, std::span<Literal>);

}  // namespace weft::hlo
