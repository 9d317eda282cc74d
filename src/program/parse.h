// The two halves of the parser share this; everybody else calls Parse (program.h).
#pragma once

#include "base/error.h"
#include "program/kernel.h"
#include "program/lexer.h"

namespace weft::program {

// Reads after the word `kernel` up to the closing brace.
Result<Kernel> ParseKernelBody(Lexer& lexer);

// A number, inf, nan, true or false as the bits of a constant (kernel.h) of that compute type.
Result<uint64_t> ParseNumber(Lexer& lexer, DType dtype);

}  // namespace weft::program
