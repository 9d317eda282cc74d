// Errors, single tokens, numbers and lists.
#include <charconv>
#include <cmath>

#include "hlo/text/parser.h"

namespace weft::hlo::text {

std::unexpected<Error> Parser::Located(const char* at, std::string message) {
  Error error(Code::kInvalidArgument, std::move(message));
  lexer_.Locate(error, at);
  return std::unexpected(std::move(error));
}

std::string Parser::Found() const {
  const Token& t = lexer_.token();
  constexpr size_t kShown = 60;
  switch (t.kind) {
    case Tok::kEnd: return "the end of the text";
    case Tok::kError: return std::string(t.text);
    case Tok::kString: return StrCat("the string \"", t.text.substr(0, kShown), "\"");
    case Tok::kName: return StrCat("the name '", t.text.substr(0, kShown), "'");
    case Tok::kAttr: return StrCat("'", t.text.substr(0, kShown), "='");
    default: return StrCat("'", t.text.substr(0, kShown), "'");
  }
}

std::unexpected<Error> Parser::Expected(std::string_view what) {
  return Fail("expected ", what, ", found ", Found());
}

std::unexpected<Error> Parser::TooDeep() {
  return Fail("nested more than ", kMaxDepth, " deep");
}

Status Parser::Expect(Tok tok) {
  if (kind() != tok) return Expected(TokName(tok));
  lexer_.Next();
  return {};
}

Status Parser::ReadEnd() {
  if (kind() != Tok::kEnd) return Expected("the end of the text");
  return {};
}

Status Parser::ReadInt(int64_t& value) {
  if (kind() != Tok::kInt) return Expected("an integer");
  value = lexer_.token().value;
  lexer_.Next();
  return {};
}

Status Parser::ReadInt32(int32_t& value) {
  const char* at = lexer_.token().begin;
  int64_t wide = 0;
  TRY(ReadInt(wide));
  value = static_cast<int32_t>(wide);
  if (value != wide) return FailAt(at, wide, " does not fit in 32 bits");
  return {};
}

Status Parser::ReadDouble(double& value) {
  const Token& t = lexer_.token();
  if (t.kind == Tok::kInt || t.kind == Tok::kDecimal || IsWord("inf") || IsWord("nan")) {
    auto [end, ec] = std::from_chars(t.text.data(), t.text.data() + t.text.size(), value);
    if (ec == std::errc::result_out_of_range) {
      // Too small is zero or a subnormal; too large has a positive exponent.
      value = std::strtod(std::string(t.text).c_str(), nullptr);
      if (std::isinf(value)) return Fail(t.text, " is out of range for a double");
    }
  } else {
    return Expected("a number");
  }
  lexer_.Next();
  return {};
}

Status Parser::ReadBool(bool& value) {
  if (!IsWord("true") && !IsWord("false")) return Expected("true or false");
  value = lexer_.token().text == "true";
  lexer_.Next();
  return {};
}

Status Parser::ReadString(std::string& value) {
  const Token& t = lexer_.token();
  if (t.kind != Tok::kString) return Expected("a string");
  if (t.escaped) {
    std::optional<std::string> text = Unescape(t.text);
    if (!text) return Fail("a malformed escape in the string \"", t.text.substr(0, 60), "\"");
    value = std::move(*text);
  } else {
    value.assign(t.text);
  }
  lexer_.Next();
  return {};
}

Status Parser::ReadName(std::string_view& name, std::string_view what) {
  if (kind() != Tok::kName && kind() != Tok::kIdent) return Expected(what);
  name = lexer_.token().text;
  lexer_.Next();
  return {};
}

Status Parser::ReadAttrName(std::string_view& name) {
  if (kind() != Tok::kAttr) return Expected("an attribute (name=)");
  name = lexer_.token().text;
  lexer_.Next();
  return {};
}

Status Parser::ReadIntList(Tok open, Tok close, std::vector<int64_t>& list) {
  return ReadList(open, close, [&]() -> Status {
    int64_t value = 0;
    TRY(ReadInt(value));
    list.push_back(value);
    return {};
  });
}

Status Parser::ReadIntListList(std::vector<std::vector<int64_t>>& lists) {
  return ReadList(Tok::kLeftBrace, Tok::kRightBrace, [&]() -> Status {
    return ReadIntList(Tok::kLeftBrace, Tok::kRightBrace, lists.emplace_back());
  });
}

Status Parser::ReadIndex(ShapeIndex& index) {
  return ReadList(Tok::kLeftBrace, Tok::kRightBrace, [&]() -> Status {
    int64_t i = 0;
    TRY(ReadInt(i));
    index.push_back(i);
    return {};
  });
}

Status Parser::ReadStringOrDict(std::string& value, bool& is_dict) {
  is_dict = kind() == Tok::kLeftBrace;
  if (!is_dict) {
    if (kind() != Tok::kString) return Expected("a string or {...}");
    return ReadString(value);
  }
  const char* at = lexer_.token().begin;
  std::optional<std::string_view> raw = lexer_.RawBraces();
  if (!raw) return FailAt(at, "'{' without its '}'");
  value.assign(*raw);
  return {};
}

}  // namespace weft::hlo::text
