// Constants in the text of a Program: hex digits or numbers.
#include <algorithm>
#include <bit>

#include "program/parse.h"
#include "program/program.h"

namespace weft::program {
namespace {

int NibbleOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

Result<std::vector<std::byte>> ParseHex(Lexer& lexer) {
  Position pos = lexer.peek().pos;
  std::string digits = TRY(lexer.String("hex digits in quotes"));
  std::vector<std::byte> bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2) {
    int high = NibbleOf(digits[i]), low = NibbleOf(digits[i + 1]);
    if (high < 0 || low < 0) return lexer.Fail(pos, "hex digits are 0-9 and a-f");
    bytes.push_back(static_cast<std::byte>(high * 16 + low));
  }
  if (digits.size() % 2 != 0) return lexer.Fail(pos, "odd number of hex digits");
  return bytes;
}

Result<Literal> ParseConstant(Lexer& lexer, const Buffer& buffer) {
  const Shape& shape = buffer.shape;
  Buffer plain;  // constants are written an element at a time, packed or not
  plain.shape = shape;
  std::optional<int64_t> bytes = ByteSize(plain);
  if (!bytes) return lexer.Fail(buffer.pos, "constant is too large");
  Position pos = lexer.peek().pos;
  if (lexer.Accept("hex")) {
    std::vector<std::byte> data = TRY(ParseHex(lexer));
    if (static_cast<int64_t>(data.size()) != *bytes) {
      return lexer.Fail(pos, "constant has ", data.size(), " bytes, ", shape, " needs ", *bytes);
    }
    Literal literal(shape);
    std::copy(data.begin(), data.end(), literal.mutable_data());
    return literal;
  }
  DType dtype = ComputeType(shape.dtype());
  if (dtype == DType::kInvalid) return lexer.Expected("hex");
  if (dtype == DType::kPred) dtype = DType::kU8;
  TRY(lexer.Expect("{"));
  std::vector<uint64_t> values;
  while (!lexer.Accept("}")) {
    if (!values.empty()) TRY(lexer.Expect(","));
    values.push_back(TRY(ParseNumber(lexer, dtype)));
  }
  if (static_cast<int64_t>(values.size()) != shape.elements()) {
    return lexer.Fail(pos, "constant has ", values.size(), " elements, ", shape, " needs ",
                      shape.elements());
  }
  Literal literal(shape);
  for (int64_t i = 0; i < static_cast<int64_t>(values.size()); ++i) {
    if (IsFloat(dtype)) {
      literal.SetDouble(i, std::bit_cast<double>(values[i]));
    } else {
      literal.SetInt(i, static_cast<int64_t>(values[i]));
    }
  }
  return literal;
}

}  // namespace weft::program
