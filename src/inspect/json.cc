#include "inspect/json.h"

#include <cmath>
#include <cstdio>

#include "base/str.h"

namespace weft::inspect {
namespace {

// Bytes of the UTF-8 sequence at the begin, as far as it is a valid one; else 0.
size_t SequenceLength(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  size_t length = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (lead > 0xF4 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Too long a form, halves of surrogates, beyond the last code point.
  if ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) > 0x9F) ||
      (lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) > 0x8F)) {
    return 0;
  }
  return length;
}

bool IsEscaped(unsigned char c) {
  return c < 0x20 || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' || c == 0x7F;
}

}  // namespace

void AppendJsonString(std::string& out, std::string_view text) {
  out.push_back('"');
  while (!text.empty()) {
    size_t length = SequenceLength(text);
    const unsigned char c = static_cast<unsigned char>(text[0]);
    if (length == 0) {
      out += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(text[0]);
    } else if (IsEscaped(c)) {
      char code[8];
      std::snprintf(code, sizeof(code), "\\u%04x", static_cast<unsigned>(c));
      out += code;
    } else {
      out.append(text.substr(0, length));
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  out.push_back('"');
}

void Json::Comma() {
  if (!first_) out_.push_back(',');
  first_ = false;
}

void Json::Open(char bracket) {
  Comma();
  out_.push_back(bracket);
  first_ = true;
}

void Json::Close(char bracket) {
  out_.push_back(bracket);
  first_ = false;
}

void Json::Key(std::string_view name) {
  Comma();
  AppendJsonString(out_, name);
  out_.push_back(':');
  first_ = true;
}

void Json::Text(std::string_view text) {
  Comma();
  AppendJsonString(out_, text);
}

void Json::Int(int64_t value) {
  Comma();
  AppendOne(out_, value);
}

void Json::Number(double value) {
  if (!std::isfinite(value)) return Null();
  Comma();
  AppendDouble(out_, value);
}

void Json::Null() {
  Comma();
  out_ += "null";
}

}  // namespace weft::inspect
