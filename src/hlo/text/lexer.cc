#include "hlo/text/lexer.h"

#include <array>
#include <cstring>
#include <limits>

namespace weft::hlo::text {
namespace {

enum : uint8_t { kDigit = 1, kIdentStart = 2, kIdentPart = 4, kBlank = 8 };

constexpr std::array<uint8_t, 256> MakeClasses() {
  std::array<uint8_t, 256> t{};
  for (int c = '0'; c <= '9'; ++c) t[c] = kDigit | kIdentPart;
  for (int c = 'a'; c <= 'z'; ++c) t[c] = kIdentStart | kIdentPart;
  for (int c = 'A'; c <= 'Z'; ++c) t[c] = kIdentStart | kIdentPart;
  t['_'] = kIdentStart | kIdentPart;
  t['.'] = t['-'] = kIdentPart;
  t[' '] = t['\t'] = t['\n'] = t['\r'] = kBlank;
  return t;
}
constexpr std::array<uint8_t, 256> kClasses = MakeClasses();

bool Is(char c, uint8_t classes) {
  return (kClasses[static_cast<unsigned char>(c)] & classes) != 0;
}

const char* Digits(const char* p, const char* end) {
  while (p < end && Is(*p, kDigit)) ++p;
  return p;
}

// Each matcher gives the end of its pattern at p, or null.
const char* MatchDecimal(const char* p, const char* end) {
  if (p < end && *p == '-') ++p;
  const char* q = Digits(p, end);
  bool digits = q > p, point = false;
  if (q < end && *q == '.') {
    point = true;
    const char* r = Digits(q + 1, end);
    digits |= r > q + 1;
    q = r;
  }
  if (!digits) return nullptr;
  if (q < end && (*q == 'e' || *q == 'E')) {
    const char* r = q + 1;
    if (r < end && (*r == '+' || *r == '-')) ++r;
    const char* s = Digits(r, end);
    if (s > r) return s;
  }
  return point ? q : nullptr;
}

const char* MatchLabels(const char* p, const char* end, char a, char b) {
  const char* q = p;
  while (q < end && (Is(*q, kDigit) || *q == a || *q == b || *q == '?')) ++q;
  return q - p >= 2 ? q : nullptr;
}

const char* MatchDimLabels(const char* p, const char* end) {
  p = MatchLabels(p, end, 'b', 'f');
  if (p == nullptr || p == end || *p != '_') return nullptr;
  p = MatchLabels(p + 1, end, 'i', 'o');
  if (p == nullptr || end - p < 2 || p[0] != '-' || p[1] != '>') return nullptr;
  return MatchLabels(p + 2, end, 'b', 'f');
}

const char* MatchDxD(const char* p, const char* end) {
  const char* q = Digits(p, end);
  if (q == p) return nullptr;
  const char* last = nullptr;
  while (q < end && *q == 'x') {
    const char* r = Digits(q + 1, end);
    if (r == q + 1) break;
    last = q = r;
  }
  return last;
}

const char* MatchSigned(const char* p, const char* end) {
  if (p < end && *p == '-') ++p;
  const char* q = Digits(p, end);
  return q > p ? q : nullptr;
}

const char* MatchPad(const char* p, const char* end) {
  const char* last = nullptr;
  for (;;) {
    p = MatchSigned(p, end);
    if (p == nullptr || p == end || *p != '_') return last;
    p = MatchSigned(p + 1, end);
    if (p == nullptr) return last;
    if (p < end && *p == '_') {
      const char* q = Digits(p + 1, end);
      if (q > p + 1) p = q;
    }
    last = p;
    if (p == end || *p != 'x') return last;
    ++p;
  }
}

}  // namespace

std::string_view TokName(Tok kind) {
  static constexpr std::string_view kNames[] = {"the end of the text",
                                                "an error",
                                                "a word",
                                                "a name",
                                                "an attribute",
                                                "an integer",
                                                "a number",
                                                "dimension labels",
                                                "sizes like 3x3",
                                                "padding like 0_0x1_1",
                                                "a string",
                                                "'='",
                                                "','",
                                                "':'",
                                                "'*'",
                                                "'?'",
                                                "'#'",
                                                "'+'",
                                                "'~'",
                                                "'['",
                                                "']'",
                                                "'{'",
                                                "'}'",
                                                "'('",
                                                "')'",
                                                "'->'",
                                                "'<='",
                                                "'...'"};
  return kNames[static_cast<int>(kind)];
}

const char* Lexer::SkipBlank(const char* p, const char* end) {
  for (;;) {
    while (p < end && Is(*p, kBlank)) ++p;
    if (end - p < 2 || p[0] != '/') return p;
    if (p[1] == '/') {
      while (p < end && *p != '\n' && *p != '\r') ++p;
    } else if (p[1] == '*') {
      std::string_view rest(p + 2, static_cast<size_t>(end - p - 2));
      size_t close = rest.find("*/");
      if (close == std::string_view::npos) return nullptr;
      p += close + 4;
    } else {
      return p;
    }
  }
}

void Lexer::Take(Tok kind, const char* to) {
  token_.kind = kind;
  token_.text = std::string_view(cur_, static_cast<size_t>(to - cur_));
  cur_ = to;
}

void Lexer::Fail(std::string_view what) {
  token_.kind = Tok::kError;
  token_.text = what;
  cur_ = end_;
}

void Lexer::Next() {
  if (token_.kind == Tok::kError) return;
  const char* p = SkipBlank(cur_, end_);
  if (p == nullptr) {
    while (Is(*cur_, kBlank)) ++cur_;
    token_.begin = cur_;
    return Fail("a comment that does not end");
  }
  cur_ = p;
  token_.begin = p;
  Lex();
}

void Lexer::Lex() {
  if (cur_ == end_) return Take(Tok::kEnd, end_);
  char c = *cur_;
  if (Is(c, kIdentStart)) return Identifier();
  if (Is(c, kDigit) || c == '-' || c == '?') return Number();
  if (c == '"' || c == '\'') return String(c);
  if (c == '%') {
    ++cur_;
    if (cur_ == end_ || !Is(*cur_, kIdentStart)) return Fail("'%' without a name");
    const char* p = cur_;
    while (p < end_ && Is(*p, kIdentPart)) ++p;
    return Take(Tok::kName, p);
  }
  Punctuation(c);
}

void Lexer::Identifier() {
  const char* p = cur_ + 1;
  while (p < end_ && Is(*p, kIdentPart)) ++p;
  if (p < end_) {
    if (*p == ':' || *p == '=') {
      Take(*p == ':' ? Tok::kName : Tok::kAttr, p);
      ++cur_;
      return;
    }
    if ((*p == '>' && p[-1] == '-') || *p == '?') {
      if (const char* q = MatchDimLabels(cur_, end_)) return Take(Tok::kDimLabels, q);
    }
  }
  Take(Tok::kIdent, p);
}

void Lexer::Number() {
  const char* p = cur_;
  bool negative = *p == '-';
  if (negative) {
    ++p;
    if (p < end_ && *p == '>') return Take(Tok::kArrow, p + 1);
    std::string_view rest(p, static_cast<size_t>(end_ - p));
    if (rest.starts_with("inf") || rest.starts_with("nan")) return Take(Tok::kDecimal, p + 3);
  }
  const char* digits = p;
  uint64_t value = 0;
  bool overflow = false;
  for (; p < end_ && Is(*p, kDigit); ++p) {
    overflow |= __builtin_mul_overflow(value, uint64_t{10}, &value);
    overflow |= __builtin_add_overflow(value, static_cast<uint64_t>(*p - '0'), &value);
  }
  if (p < end_ && (Is(*p, kIdentStart) || *p == '.' || *p == '?')) {
    if (const char* q = MatchDecimal(cur_, end_)) return Take(Tok::kDecimal, q);
    if (const char* q = MatchDimLabels(cur_, end_)) return Take(Tok::kDimLabels, q);
    if (const char* q = MatchDxD(cur_, end_)) return Take(Tok::kDxD, q);
    if (const char* q = MatchPad(cur_, end_)) return Take(Tok::kPad, q);
  }
  if (p == digits) {
    if (*cur_ == '?') return Take(Tok::kQuestion, cur_ + 1);
    return Fail("'-' without a number");
  }
  if (negative) {
    overflow |= value > uint64_t{1} << 63;
    value = uint64_t{0} - value;
  }
  if (overflow) return Fail("an integer of more than 64 bits");
  Take(Tok::kInt, p);
  token_.value = static_cast<int64_t>(value);
}

void Lexer::String(char quote) {
  const char* p = cur_ + 1;
  bool escaped = false;
  while (p < end_ && *p != quote) {
    if (*p == '\\') {
      escaped = true;
      ++p;
    }
    ++p;
  }
  if (p >= end_) return Fail("a string that does not end");
  ++cur_;
  Take(Tok::kString, p);
  token_.escaped = escaped;
  ++cur_;
}

void Lexer::Punctuation(char c) {
  char next = end_ - cur_ > 1 ? cur_[1] : '\0';
  switch (c) {
    case '=': return Take(Tok::kEqual, cur_ + 1);
    case ',': return Take(Tok::kComma, cur_ + 1);
    case ':': return Take(Tok::kColon, cur_ + 1);
    case '*': return Take(Tok::kStar, cur_ + 1);
    case '#': return Take(Tok::kHash, cur_ + 1);
    case '+': return Take(Tok::kPlus, cur_ + 1);
    case '~': return Take(Tok::kTilde, cur_ + 1);
    case '[': return Take(Tok::kLeftSquare, cur_ + 1);
    case ']': return Take(Tok::kRightSquare, cur_ + 1);
    case '{': return Take(Tok::kLeftBrace, cur_ + 1);
    case '}': return Take(Tok::kRightBrace, cur_ + 1);
    case '(': return Take(Tok::kLeftParen, cur_ + 1);
    case ')': return Take(Tok::kRightParen, cur_ + 1);
    case '<':
      if (next == '=') return Take(Tok::kLessEqual, cur_ + 2);
      break;
    case '.':
      if (end_ - cur_ > 2 && next == '.' && cur_[2] == '.') return Take(Tok::kDots, cur_ + 3);
      break;
    default: break;
  }
  Fail("a character that starts nothing");
}

Tok Lexer::Peek() {
  Token token = token_;
  const char* cur = cur_;
  Next();
  Tok kind = token_.kind;
  token_ = token;
  cur_ = cur;
  return kind;
}

std::optional<std::string_view> Lexer::RawBraces() {
  const char* start = token_.begin;
  int64_t depth = 0;
  for (const char* p = start; p < end_; ++p) {
    if (*p == '"') {
      for (++p; p < end_ && *p != '"'; ++p) {
        if (*p == '\\') ++p;
      }
      if (p >= end_) return std::nullopt;
    } else if (*p == '{') {
      ++depth;
    } else if (*p == '}' && --depth == 0) {
      std::string_view raw(start, static_cast<size_t>(p + 1 - start));
      ResumeAt(p + 1);
      return raw;
    }
  }
  return std::nullopt;
}

Error& Lexer::Locate(Error& error, const char* at) const {
  int line = 1;
  const char* line_start = begin_;
  for (const char* p = begin_; p < at; ++p) {
    bool ends = *p == '\n' || (*p == '\r' && (p + 1 == end_ || p[1] != '\n'));
    if (!ends) continue;
    ++line;
    line_start = p + 1;
  }
  const char* line_end = line_start;
  while (line_end < end_ && *line_end != '\n' && *line_end != '\r') ++line_end;
  int64_t column = at - line_start + 1;
  constexpr int64_t kMaxColumn = std::numeric_limits<int>::max();
  return error.At(line, static_cast<int>(column < kMaxColumn ? column : kMaxColumn),
                  std::string_view(line_start, static_cast<size_t>(line_end - line_start)));
}

}  // namespace weft::hlo::text
