// Tokens of HLO text. Tokens are views into the text: nothing is copied.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace weft::hlo::text {

enum class Tok : uint8_t {
  kEnd,
  kError,      // text: what is wrong
  kIdent,      // add, f32, ROOT
  kName,       // %add.3, or `add.3:` (the colon is eaten)
  kAttr,       // dimensions= (the equals sign is eaten)
  kInt,        // -3
  kDecimal,    // 1.5, 2e3, -inf
  kDimLabels,  // b01f_01io->b01f
  kDxD,        // 3x3
  kPad,        // 0_0x1_1_2
  kString,     // "x" or 'x'
  kEqual,
  kComma,
  kColon,
  kStar,
  kQuestion,
  kHash,
  kPlus,
  kTilde,
  kLeftSquare,
  kRightSquare,
  kLeftBrace,
  kRightBrace,
  kLeftParen,
  kRightParen,
  kArrow,
  kLessEqual,
  kDots,
};

std::string_view TokName(Tok kind);  // "','", "an integer"

struct Token {
  Tok kind = Tok::kEnd;
  bool escaped = false;   // kString: has backslashes
  std::string_view text;  // without %, quotes and the eaten sign
  const char* begin = nullptr;
  int64_t value = 0;  // kInt; what exceeds int64 wraps, as the format says
};

class Lexer {
 public:
  explicit Lexer(std::string_view text)
      : begin_(text.data()), cur_(text.data()), end_(text.data() + text.size()) {
    Next();
  }

  const Token& token() const { return token_; }
  void Next();
  Tok Peek();  // the kind of the token after this one

  // The current token is `{`: the text up to its matching brace, quoted strings skipped. Moves
  // past it. Nothing when there is no such brace.
  std::optional<std::string_view> RawBraces();
  // Reading goes on at `at`, which is inside the text.
  void ResumeAt(const char* at) {
    cur_ = at;
    Next();
  }
  const char* text_begin() const { return begin_; }
  const char* text_end() const { return end_; }
  // Line, column and line text of a place are added to the error.
  Error& Locate(Error& error, const char* at) const;

  // First character after white space and comments; null when a comment does not end.
  static const char* SkipBlank(const char* p, const char* end);

 private:
  void Lex();
  void Identifier();
  void Number();
  void String(char quote);
  void Punctuation(char c);
  void Take(Tok kind, const char* to);
  void Fail(std::string_view what);

  const char* begin_;
  const char* cur_;
  const char* end_;
  Token token_;
};

// The value of a string token: C escapes resolved. Nothing when an escape is malformed.
std::optional<std::string> Unescape(std::string_view raw);

}  // namespace weft::hlo::text
