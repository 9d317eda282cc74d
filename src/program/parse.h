// The two halves of the parser share this; everybody else calls Parse (program.h).
#pragma once

#include <cstddef>
#include <vector>

#include "base/error.h"
#include "base/literal.h"
#include "program/kernel.h"
#include "program/lexer.h"

namespace weft::program {

// Reads after the word `kernel` up to the closing brace.
Result<Kernel> ParseKernelBody(Lexer& lexer);

struct Buffer;
// The value of a constant buffer.
Result<Literal> ParseConstant(Lexer& lexer, const Buffer& buffer);
// Bytes as hex digits in quotes.
Result<std::vector<std::byte>> ParseHex(Lexer& lexer);

// A number, inf, nan, true or false as the bits of a constant (kernel.h) of that compute type.
Result<uint64_t> ParseNumber(Lexer& lexer, DType dtype);

}  // namespace weft::program
