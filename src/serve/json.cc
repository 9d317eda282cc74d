#include "serve/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "inspect/json.h"

namespace weft::serve {
namespace {

bool IsJsonSpace(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

bool IsNumberChar(char c) {
  return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

void AppendUtf8(std::string& out, uint32_t c) {
  auto tail = [&](int shift) { out.push_back(static_cast<char>(0x80 | ((c >> shift) & 0x3f))); };
  if (c < 0x80) {
    out.push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out.push_back(static_cast<char>(0xc0 | (c >> 6)));
    tail(0);
  } else if (c < 0x10000) {
    out.push_back(static_cast<char>(0xe0 | (c >> 12)));
    tail(6), tail(0);
  } else {
    out.push_back(static_cast<char>(0xf0 | (c >> 18)));
    tail(12), tail(6), tail(0);
  }
}

// -?(0|[1-9][0-9]*)(.[0-9]+)?([eE][+-]?[0-9]+)?
bool IsJsonNumber(std::string_view text) {
  size_t i = 0;
  auto digits = [&] {
    size_t begin = i;
    while (i < text.size() && text[i] >= '0' && text[i] <= '9') ++i;
    return i > begin;
  };
  if (i < text.size() && text[i] == '-') ++i;
  if (i < text.size() && text[i] == '0') {
    ++i;
  } else if (!digits()) {
    return false;
  }
  if (i < text.size() && text[i] == '.') {
    ++i;
    if (!digits()) return false;
  }
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '+' || text[i] == '-')) ++i;
    if (!digits()) return false;
  }
  return i == text.size();
}

// NaN and the infinities are tokens of their own.
std::string_view SpecialNumber(std::string_view rest) {
  for (std::string_view word : {"NaN", "-Infinity", "Infinity"}) {
    if (rest.starts_with(word)) return word;
  }
  return "";
}

template <class T>
void AppendFloatToken(std::string& out, T value) {
  if (std::isnan(value)) {
    out += "NaN";
  } else if (std::isinf(value)) {
    out += value < 0 ? "-Infinity" : "Infinity";
  } else {
    char buffer[40];
    auto [end, ec] = std::to_chars(buffer, buffer + sizeof(buffer), value);
    std::string_view text(buffer, static_cast<size_t>(end - buffer));
    out += text;
    // A float stays one for readers that tell them from integers.
    if (text.find_first_of(".e") == text.npos) out += ".0";
  }
}

}  // namespace

std::unexpected<Error> JsonReader::FailAt(std::string message) const {
  size_t at = std::min(at_, text_.size());
  std::string_view before = text_.substr(0, at);
  auto line = std::count(before.begin(), before.end(), '\n') + 1;
  size_t begin = before.rfind('\n') + 1;  // npos + 1 is 0
  return InvalidArgument("json: line ", line, ", column ", at - begin + 1, ": ", message);
}

void JsonReader::SkipSpace() {
  while (at_ < text_.size() && IsJsonSpace(text_[at_])) ++at_;
}

bool JsonReader::Take(char c) {
  SkipSpace();
  if (at_ >= text_.size() || text_[at_] != c) return false;
  ++at_;
  return true;
}

JsonReader::Kind JsonReader::Peek() {
  SkipSpace();
  if (at_ >= text_.size()) return Kind::kOther;
  switch (text_[at_]) {
    case '{': return Kind::kObject;
    case '[': return Kind::kArray;
    case '"': return Kind::kString;
    case 't':
    case 'f': return Kind::kBool;
    case 'n': return Kind::kNull;
    case 'N':
    case 'I': return Kind::kNumber;
    default: return IsNumberChar(text_[at_]) ? Kind::kNumber : Kind::kOther;
  }
}

Status JsonReader::Open(char bracket) {
  if (!Take(bracket)) return Fail("expected '", bracket, "'");
  if (first_.size() >= kMaxDepth) return Fail("brackets nest deeper than ", kMaxDepth);
  first_.push_back(true);
  return {};
}

Status JsonReader::BeginObject() {
  return Open('{');
}
Status JsonReader::BeginArray() {
  return Open('[');
}

Result<bool> JsonReader::Next(char close) {
  if (first_.empty()) return Fail("no bracket is open");
  if (Take(close)) {
    first_.pop_back();
    return false;
  }
  if (!first_.back() && !Take(',')) return Fail("expected ',' or '", close, "'");
  first_.back() = false;
  return true;
}

Result<bool> JsonReader::NextElement() {
  return Next(']');
}

Result<bool> JsonReader::NextKey(std::string& key) {
  if (!TRY(Next('}'))) return false;
  key = TRY(String());
  if (!Take(':')) return Fail("expected ':'");
  return true;
}

Result<uint32_t> JsonReader::HexDigits() {
  uint32_t value = 0;
  if (text_.size() - at_ < 4) return Fail("expected four hexadecimal digits");
  const char* begin = text_.data() + at_;
  auto [end, ec] = std::from_chars(begin, begin + 4, value, 16);
  if (ec != std::errc() || end != begin + 4) return Fail("expected four hexadecimal digits");
  at_ += 4;
  return value;
}

Status JsonReader::ReadEscape(std::string& out) {
  if (at_ >= text_.size()) return Fail("the text ends in a string");
  char c = text_[at_++];
  constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
  if (size_t i = kFrom.find(c); i != kFrom.npos) {
    out.push_back(kTo[i]);
    return {};
  }
  if (c != 'u') return Fail("unknown escape");
  uint32_t code = TRY(HexDigits());
  if (code >= 0xd800 && code < 0xdc00 && text_.substr(at_).starts_with("\\u")) {
    at_ += 2;
    uint32_t low = TRY(HexDigits());
    if (low < 0xdc00 || low >= 0xe000) return Fail("half of a surrogate pair");
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  } else if (code >= 0xd800 && code < 0xe000) {
    return Fail("half of a surrogate pair");
  }
  AppendUtf8(out, code);
  return {};
}

Result<std::string> JsonReader::String() {
  if (!Take('"')) return Fail("expected a string");
  std::string out;
  for (;;) {
    size_t end = text_.find_first_of("\"\\", at_);
    if (end == text_.npos) return Fail("the text ends in a string");
    std::string_view piece = text_.substr(at_, end - at_);
    auto control = std::ranges::find_if(piece, [](unsigned char c) { return c < 0x20; });
    if (control != piece.end()) return Fail("a control character in a string");
    out += piece;
    at_ = end + 1;
    if (text_[end] == '"') return out;
    TRY(ReadEscape(out));
  }
}

Result<std::string_view> JsonReader::NumberText() {
  SkipSpace();
  std::string_view rest = text_.substr(at_);
  std::string_view special = SpecialNumber(rest);
  size_t n = special.size();
  if (special.empty()) {
    while (n < rest.size() && IsNumberChar(rest[n])) ++n;
    if (!IsJsonNumber(rest.substr(0, n))) return Fail("expected a number");
  }
  at_ += n;
  return rest.substr(0, n);
}

Result<double> JsonReader::Number() {
  std::string_view text = TRY(NumberText());
  if (text == "NaN") return std::nan("");
  if (text == "Infinity") return HUGE_VAL;
  if (text == "-Infinity") return -HUGE_VAL;
  double value = 0;
  auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  // Too large or too small is what the nearest double is: from_chars leaves that to us.
  if (ec == std::errc::result_out_of_range) {
    bool small = text.find("e-") != text.npos || text.find("E-") != text.npos ||
                 text.find_first_of("eE") == text.npos;
    value = small ? 0.0 : HUGE_VAL;
    if (text[0] == '-') value = -value;
  }
  return value;
}

Result<int64_t> JsonReader::Int() {
  size_t begin = at_;
  std::string_view text = TRY(NumberText());
  if (std::optional<int64_t> value = ParseInt(text)) return *value;
  at_ = begin;
  double value = TRY(Number());
  if (value == std::trunc(value) && std::abs(value) < 9e15) return static_cast<int64_t>(value);
  return Fail("expected an integer, found ", text);
}

Result<bool> JsonReader::Bool() {
  SkipSpace();
  std::string_view rest = text_.substr(std::min(at_, text_.size()));
  if (rest.starts_with("true")) {
    at_ += 4;
    return true;
  }
  if (!rest.starts_with("false")) return Fail("expected true or false");
  at_ += 5;
  return false;
}

Status JsonReader::Null() {
  SkipSpace();
  if (!text_.substr(std::min(at_, text_.size())).starts_with("null")) return Fail("expected null");
  at_ += 4;
  return {};
}

Result<std::string_view> JsonReader::Skip() {
  SkipSpace();
  size_t begin = at_, outside = first_.size();
  std::string key;
  std::vector<bool> is_object;  // by bracket opened here
  do {
    if (!is_object.empty()) {
      bool more = is_object.back() ? TRY(NextKey(key)) : TRY(NextElement());
      if (!more) {
        is_object.pop_back();
        continue;
      }
    }
    switch (Peek()) {
      case Kind::kObject: TRY(BeginObject()), is_object.push_back(true); break;
      case Kind::kArray: TRY(BeginArray()), is_object.push_back(false); break;
      case Kind::kString: TRY(String()); break;
      case Kind::kNumber: TRY(NumberText()); break;
      case Kind::kBool: TRY(Bool()); break;
      case Kind::kNull: TRY(Null()); break;
      case Kind::kOther: return Fail("expected a value");
    }
  } while (first_.size() > outside);
  return text_.substr(begin, at_ - begin);
}

Status JsonReader::End() {
  SkipSpace();
  if (at_ != text_.size()) return Fail("something follows the value");
  return {};
}

void AppendJsonText(std::string& out, std::string_view text) {
  inspect::AppendJsonString(out, text);
}

void AppendJsonNumber(std::string& out, double value) {
  AppendFloatToken(out, value);
}
void AppendJsonNumber(std::string& out, float value) {
  AppendFloatToken(out, value);
}

Result<std::string> DecodeBase64(std::string_view text) {
  std::string out;
  out.reserve(text.size() / 4 * 3);
  uint32_t bits = 0;
  int count = 0;
  while (text.ends_with('=')) text.remove_suffix(1);
  for (char c : text) {
    int digit = c >= 'A' && c <= 'Z'   ? c - 'A'
                : c >= 'a' && c <= 'z' ? c - 'a' + 26
                : c >= '0' && c <= '9' ? c - '0' + 52
                : c == '+' || c == '-' ? 62
                : c == '/' || c == '_' ? 63
                                       : -1;
    if (digit < 0) return InvalidArgument("b64: not a base64 character: code ", int{c});
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out.push_back(static_cast<char>(bits >> count & 0xff));
  }
  return out;
}

}  // namespace weft::serve
