// Tokens of the Program text, with positions for errors. Comments run from // to the end of line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "program/kernel.h"

namespace weft::program {

enum class TokenKind : uint8_t { kEnd, kName, kValue, kNumber, kString, kPunct, kBad };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  // kValue without its %, kString without quotes and still escaped, kPunct one of
  // ( ) { } [ ] , : = .. ->
  std::string_view text;
  Position pos;
};

class Lexer {
 public:
  explicit Lexer(std::string_view text);

  const Token& peek() const { return token_; }
  Token Next();  // the current token; moves on

  bool Is(std::string_view text) const;             // a name or punctuation
  bool Accept(std::string_view text);               // moves on if it is
  Status Expect(std::string_view text);             // error otherwise
  Result<std::string> Name(std::string_view what);  // identifier or string
  Result<std::string> String(std::string_view what);
  Result<std::string> ValueName();
  Result<int64_t> Int(std::string_view what);
  Result<int64_t> Size(std::string_view what);  // an Int that is not negative

  template <class... Args>
  std::unexpected<Error> Fail(Position pos, const Args&... args) const {
    return std::unexpected(Located(Error(Code::kInvalidArgument, StrCat(args...)), pos));
  }
  // "expected X, found Y" at the current token.
  std::unexpected<Error> Expected(std::string_view what) const;

 private:
  Error Located(Error error, Position pos) const;
  void Advance();
  void SkipSpace();

  std::string_view text_;
  size_t at_ = 0, line_start_ = 0;
  int line_ = 1;
  Token token_;
};

// The text of a line, counted from 1.
std::string_view LineOf(std::string_view text, int line);

}  // namespace weft::program
