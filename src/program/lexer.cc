#include "program/lexer.h"

#include <cctype>

#include "base/str.h"

namespace weft::program {

namespace {

bool IsWord(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$';
}
bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

// End of the name that starts at `at`: words joined by single dots or minuses.
size_t NameEnd(std::string_view text, size_t at) {
  while (at < text.size()) {
    bool joint = (text[at] == '.' || text[at] == '-') && at + 1 < text.size() &&
                 std::isalnum(static_cast<unsigned char>(text[at + 1]));
    if (!IsWord(text[at]) && !joint) break;
    ++at;
  }
  return at;
}

// End of the number that starts at `at`; "0..8" ends after the 0.
size_t NumberEnd(std::string_view text, size_t at) {
  auto digits = [&] {
    while (at < text.size() && IsDigit(text[at])) ++at;
  };
  if (text[at] == '-') ++at;
  digits();
  if (at + 1 < text.size() && text[at] == '.' && IsDigit(text[at + 1])) {
    ++at;
    digits();
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    size_t exponent = at + 1;
    if (exponent < text.size() && (text[exponent] == '-' || text[exponent] == '+')) ++exponent;
    if (exponent < text.size() && IsDigit(text[exponent])) {
      at = exponent;
      digits();
    }
  }
  return at;
}

int HexDigit(char c) {
  if (IsDigit(c)) return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

std::string UnescapeString(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 >= text.size()) {
      out.push_back(text[i]);
      continue;
    }
    char c = text[++i];
    bool hex =
        c == 'x' && i + 2 < text.size() && HexDigit(text[i + 1]) >= 0 && HexDigit(text[i + 2]) >= 0;
    if (hex) {
      out.push_back(static_cast<char>(HexDigit(text[i + 1]) * 16 + HexDigit(text[i + 2])));
      i += 2;
    } else {
      out.push_back(c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c);
    }
  }
  return out;
}

}  // namespace

std::string_view LineOf(std::string_view text, int line) {
  for (; line > 1; --line) {
    size_t end = text.find('\n');
    if (end == text.npos) return {};
    text.remove_prefix(end + 1);
  }
  return text.substr(0, text.find('\n'));
}

Lexer::Lexer(std::string_view text) : text_(text) {
  Advance();
}

void Lexer::SkipSpace() {
  while (at_ < text_.size()) {
    char c = text_[at_];
    if (c == '\n') {
      ++line_;
      line_start_ = at_ + 1;
    } else if (text_.substr(at_, 2) == "//") {
      at_ = std::min(text_.find('\n', at_), text_.size());
      continue;
    } else if (c != ' ' && c != '\t' && c != '\r') {
      return;
    }
    ++at_;
  }
}

void Lexer::Advance() {
  SkipSpace();
  token_ = Token();
  token_.pos = {line_, static_cast<int>(at_ - line_start_) + 1};
  if (at_ >= text_.size()) return;
  char c = text_[at_];
  char following = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
  size_t begin = at_, end = at_ + 1;
  if (c == '"') {
    while (end < text_.size() && text_[end] != '"' && text_[end] != '\n') {
      end += text_[end] == '\\' && end + 1 < text_.size() && text_[end + 1] != '\n' ? 2 : 1;
    }
    bool closed = end < text_.size() && text_[end] == '"';
    token_.kind = closed ? TokenKind::kString : TokenKind::kBad;
    token_.text = text_.substr(begin + 1, end - begin - 1);
    at_ = closed ? end + 1 : end;
    return;
  }
  if (c == '%' && (IsWord(following))) {
    token_.kind = TokenKind::kValue;
    begin += 1;
    end = NameEnd(text_, begin);
  } else if (IsDigit(c) || (c == '-' && IsDigit(following))) {
    token_.kind = TokenKind::kNumber;
    end = NumberEnd(text_, at_);
  } else if (text_.substr(at_, 4) == "-inf" || text_.substr(at_, 4) == "-nan") {
    token_.kind = TokenKind::kNumber;
    end = at_ + 4;
  } else if (std::isalpha(static_cast<unsigned char>(c)) || c == '_') {
    token_.kind = TokenKind::kName;
    end = NameEnd(text_, at_);
  } else if ((c == '.' && following == '.') || (c == '-' && following == '>')) {
    token_.kind = TokenKind::kPunct;
    end = at_ + 2;
  } else {
    bool known = std::string_view("(){}[],:=").find(c) != std::string_view::npos;
    token_.kind = known ? TokenKind::kPunct : TokenKind::kBad;
  }
  token_.text = text_.substr(begin, end - begin);
  at_ = end;
}

Token Lexer::Next() {
  Token token = token_;
  Advance();
  return token;
}

bool Lexer::Is(std::string_view text) const {
  return (token_.kind == TokenKind::kName || token_.kind == TokenKind::kPunct) &&
         token_.text == text;
}

bool Lexer::Accept(std::string_view text) {
  if (!Is(text)) return false;
  Advance();
  return true;
}

Status Lexer::Expect(std::string_view text) {
  if (!Accept(text)) return Expected(StrCat("'", text, "'"));
  return {};
}

Result<std::string> Lexer::Name(std::string_view what) {
  if (token_.kind == TokenKind::kString) return String(what);
  if (token_.kind != TokenKind::kName) return Expected(what);
  return std::string(Next().text);
}

Result<std::string> Lexer::String(std::string_view what) {
  if (token_.kind != TokenKind::kString) return Expected(what);
  return UnescapeString(Next().text);
}

Result<std::string> Lexer::ValueName() {
  if (token_.kind != TokenKind::kValue) return Expected("a value (%name)");
  return std::string(Next().text);
}

Result<int64_t> Lexer::Int(std::string_view what) {
  if (token_.kind != TokenKind::kNumber) return Expected(what);
  std::optional<int64_t> value = ParseInt(token_.text);
  if (!value) return Expected(what);
  Advance();
  return *value;
}

Result<int64_t> Lexer::Size(std::string_view what) {
  Position pos = token_.pos;
  int64_t value = TRY(Int(what));
  if (value < 0) return Fail(pos, "expected ", what, ", found ", value);
  return value;
}

std::unexpected<Error> Lexer::Expected(std::string_view what) const {
  constexpr size_t kShown = 40;  // characters
  std::string_view text = token_.text.substr(0, kShown);
  switch (token_.kind) {
    case TokenKind::kEnd: return Fail(token_.pos, "expected ", what, ", found end of text");
    case TokenKind::kValue: return Fail(token_.pos, "expected ", what, ", found '%", text, "'");
    case TokenKind::kString: return Fail(token_.pos, "expected ", what, ", found a string");
    default: return Fail(token_.pos, "expected ", what, ", found '", text, "'");
  }
}

Error Lexer::Located(Error error, Position pos) const {
  error.At(pos.line, pos.column, LineOf(text_, pos.line));
  return error;
}

}  // namespace weft::program
