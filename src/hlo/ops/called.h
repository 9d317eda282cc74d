// Shapes and called computations, as the shape rules of control flow, async and collective ops see
// them.
#pragma once

#include <span>
#include <string_view>

#include "base/error.h"
#include "base/shape.h"
#include "hlo/computation.h"
#include "hlo/op.h"

namespace weft::hlo {

enum class MatchPrecision : uint8_t { kExact, kAnyFloat };

// Same structure and dimensions; layouts and whether dimensions are dynamic do not matter, and `?`
// matches any size.
bool ShapesMatch(const Shape& a, const Shape& b, MatchPrecision precision = MatchPrecision::kExact);

// The shape without layouts, which inference does not decide.
Shape StripLayout(Shape shape);

// The shape that a computation returns; an error when it has no root.
Result<Shape> ResultShape(std::string_view op, const Computation* computation);

// The computation takes `arguments`.
Status CheckParameters(std::string_view op, const Computation* computation,
                       std::span<const Shape* const> arguments);

// Output and operand indices exist and have the same shape.
Status CheckOperandAliases(const Instruction& instruction, const OperandAliases& aliases);

// Operand `i` is a token.
Status CheckTokenOperand(const InferArgs& args, int64_t i);

// The declared shape when it matches, else an error that shows both.
Result<Shape> MatchDeclared(const InferArgs& args, const Shape& inferred);

}  // namespace weft::hlo
