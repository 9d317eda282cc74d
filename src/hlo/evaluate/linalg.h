// Evaluation of cholesky and triangular-solve; signatures as in OpRow.
#pragma once

#include <optional>
#include <span>

#include "base/error.h"
#include "base/literal.h"
#include "hlo/fwd.h"

namespace weft::hlo {

class EvalContext;

Result<Literal> EvaluateCholesky(EvalContext&, const Instruction&, std::span<Literal>);
Result<Literal> EvaluateTriangularSolve(EvalContext&, const Instruction&, std::span<Literal>);

// LAPACK's getrf of each matrix, the custom call "weft.lu": (L below and U above the diagonal, s32
// pivots from 1, s32 number of the first pivot that is 0, or 0). Of equally large pivots the first.
Result<std::optional<Literal>> LuFactors(const Literal& operand);
// LAPACK's geqrf of each matrix: (R and the reflectors below it, taus). Nothing: not matrices.
Result<std::optional<Literal>> QrFactors(const Literal& operand);
// The first columns of the product of those reflectors (orgqr, ungqr).
Result<std::optional<Literal>> HouseholderProduct(const Literal& factors, const Literal& taus);

}  // namespace weft::hlo
