// Tokens of MLIR text. Nothing is copied: every token is a view of the source.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weft::hlo::mlir {

enum class Tok : uint8_t {
  kEof,
  kError,   // a character or string that no token starts with
  kName,    // stablehlo.add, i32, dims
  kString,  // text: between the quotes, escapes not yet undone
  kInt,     // 12, 0x7f
  kFloat,   // 1.5e+00
  kValue,   // %0; text without the sigil, as for the next four
  kBlock,   // ^bb0
  kSymbol,  // @main, @"a b" (quoted: escapes not yet undone)
  kHash,    // #loc1, #stablehlo.gather, and the 1 of %0#1
  kBang,    // !stablehlo.token
  kArrow,   // ->
  kPunct,   // one character
};

struct Token {
  Tok kind = Tok::kEof;
  bool quoted = false;
  char punct = 0;
  size_t offset = 0;  // of its first character in the source
  std::string_view text;
};

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) { Advance(); }

  const Token& token() const { return token_; }
  std::string_view source() const { return source_; }
  size_t position() const { return position_; }  // behind the token
  void Advance();
  void Seek(size_t position) {
    position_ = position;
    Advance();
  }

 private:
  void SkipSpace();
  void LexSuffix(Tok kind);  // behind a sigil
  void LexString();
  void LexNumber();

  std::string_view source_;
  size_t position_ = 0;
  Token token_;
};

// A string with its escapes (\n, \t, \\, \", \hh) undone; false when one is malformed.
bool Unescape(std::string_view raw, std::string& out);

inline bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}
// 0 to 15, or -1.
int HexDigit(char c);

}  // namespace weft::hlo::mlir
