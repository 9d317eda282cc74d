#include "hlo/import/mlir_lexer.h"

#include <array>

namespace weft::hlo::mlir {
namespace {

enum CharClass : uint8_t { kNameStart = 1, kNameRest = 2, kSuffixRest = 4 };

constexpr std::array<uint8_t, 256> MakeClasses() {
  std::array<uint8_t, 256> classes{};
  for (int c = 'a'; c <= 'z'; ++c) classes[c] = kNameStart | kNameRest | kSuffixRest;
  for (int c = 'A'; c <= 'Z'; ++c) classes[c] = kNameStart | kNameRest | kSuffixRest;
  for (int c = '0'; c <= '9'; ++c) classes[c] = kNameRest | kSuffixRest;
  classes['_'] = kNameStart | kNameRest | kSuffixRest;
  classes['$'] = classes['.'] = kNameRest | kSuffixRest;
  classes['-'] = kSuffixRest;
  return classes;
}
constexpr std::array<uint8_t, 256> kClasses = MakeClasses();

bool Has(char c, uint8_t bit) {
  return (kClasses[static_cast<uint8_t>(c)] & bit) != 0;
}

}  // namespace

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

void Lexer::SkipSpace() {
  while (position_ < source_.size()) {
    char c = source_[position_];
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++position_;
    } else if (c == '/' && position_ + 1 < source_.size() && source_[position_ + 1] == '/') {
      size_t end = source_.find('\n', position_);
      position_ = end == std::string_view::npos ? source_.size() : end;
    } else {
      return;
    }
  }
}

void Lexer::LexSuffix(Tok kind) {
  size_t start = position_;
  while (position_ < source_.size() && Has(source_[position_], kSuffixRest)) {
    // An arrow may follow without a space: `#a->`.
    if (source_[position_] == '-' && position_ + 1 < source_.size() &&
        source_[position_ + 1] == '>') {
      break;
    }
    ++position_;
  }
  token_.kind = position_ == start ? Tok::kPunct : kind;
  token_.text = source_.substr(start, position_ - start);
  if (token_.kind == Tok::kPunct) token_.text = source_.substr(start - 1, 1);
}

void Lexer::LexString() {
  size_t start = position_;
  while (position_ < source_.size()) {
    char c = source_[position_];
    if (c == '"') {
      token_.text = source_.substr(start, position_ - start);
      ++position_;
      return;
    }
    if (c == '\n') break;
    position_ += c == '\\' ? 2 : 1;
  }
  if (position_ > source_.size()) position_ = source_.size();
  token_.kind = Tok::kError;
  token_.text = source_.substr(start - 1, 1);
}

void Lexer::LexNumber() {
  size_t start = position_ - 1;
  auto digits = [&] {
    while (position_ < source_.size() && IsDigit(source_[position_])) ++position_;
  };
  auto at = [&](size_t i) { return i < source_.size() ? source_[i] : '\0'; };
  token_.kind = Tok::kInt;
  if (source_[start] == '0' && at(position_) == 'x' && HexDigit(at(position_ + 1)) >= 0) {
    ++position_;
    while (position_ < source_.size() && HexDigit(source_[position_]) >= 0) ++position_;
  } else {
    digits();
    if (at(position_) == '.') {
      token_.kind = Tok::kFloat;
      ++position_;
      digits();
      if (at(position_) == 'e' || at(position_) == 'E') {
        size_t next = position_ + 1;
        if (at(next) == '+' || at(next) == '-') ++next;
        if (IsDigit(at(next))) {
          position_ = next;
          digits();
        }
      }
    }
  }
  token_.text = source_.substr(start, position_ - start);
}

void Lexer::Advance() {
  SkipSpace();
  token_.offset = position_;
  token_.quoted = false;
  token_.punct = 0;
  if (position_ >= source_.size()) {
    token_.kind = Tok::kEof;
    token_.text = {};
    return;
  }
  size_t start = position_;
  char c = source_[position_++];
  if (Has(c, kNameStart)) {
    while (position_ < source_.size() && Has(source_[position_], kNameRest)) ++position_;
    token_.kind = Tok::kName;
    token_.text = source_.substr(start, position_ - start);
    return;
  }
  if (IsDigit(c)) return LexNumber();
  token_.punct = c;
  switch (c) {
    case '"': token_.kind = Tok::kString; return LexString();
    case '%': return LexSuffix(Tok::kValue);
    case '^': return LexSuffix(Tok::kBlock);
    case '#': return LexSuffix(Tok::kHash);
    case '!': return LexSuffix(Tok::kBang);
    case '@':
      if (position_ < source_.size() && source_[position_] == '"') {
        ++position_;
        token_.kind = Tok::kSymbol;
        token_.quoted = true;
        return LexString();
      }
      return LexSuffix(Tok::kSymbol);
    case '-':
      if (position_ < source_.size() && source_[position_] == '>') {
        ++position_;
        token_.kind = Tok::kArrow;
        token_.text = source_.substr(start, 2);
        return;
      }
      break;
    default: break;
  }
  constexpr std::string_view kPunctuation = "()[]{}<>,:=-+*?/|";
  token_.kind = kPunctuation.find(c) != std::string_view::npos ? Tok::kPunct : Tok::kError;
  token_.text = source_.substr(start, 1);
}

bool Unescape(std::string_view raw, std::string& out) {
  out.reserve(raw.size());
  for (size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\') {
      out.push_back(raw[i]);
      continue;
    }
    if (++i >= raw.size()) return false;
    switch (raw[i]) {
      case 'n': out.push_back('\n'); continue;
      case 't': out.push_back('\t'); continue;
      case '\\':
      case '"': out.push_back(raw[i]); continue;
      default: break;
    }
    if (i + 1 >= raw.size() || HexDigit(raw[i]) < 0 || HexDigit(raw[i + 1]) < 0) return false;
    out.push_back(static_cast<char>(HexDigit(raw[i]) * 16 + HexDigit(raw[i + 1])));
    ++i;
  }
  return true;
}

}  // namespace weft::hlo::mlir
