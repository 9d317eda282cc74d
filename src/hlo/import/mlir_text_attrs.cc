// Builtin attributes of MLIR text.
#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

#include "base/float_formats.h"
#include "hlo/import/mlir_text.h"

namespace weft::hlo::mlir {

// --- Making attributes

const Attr* TextReader::Int(int64_t value, DType dtype) {
  Attr* attr = tree_.NewAttr(Attr::Kind::kInt);
  attr->integer = value;
  attr->type = Element(dtype);
  return attr;
}

const Attr* TextReader::Bool(bool value) {
  if (bools_[value] == nullptr) {
    Attr* attr = tree_.NewAttr(Attr::Kind::kBool);
    attr->boolean = value;
    bools_[value] = attr;
  }
  return bools_[value];
}

const Attr* TextReader::Text(Attr::Kind kind, std::string_view text) {
  Attr* attr = tree_.NewAttr(kind);
  attr->text = text;
  return attr;
}

const Attr* TextReader::Ints(std::span<const int64_t> values, DType dtype) {
  Attr* attr = tree_.NewAttr(Attr::Kind::kInts);
  attr->ints.assign(values.begin(), values.end());
  attr->type = Element(dtype);
  return attr;
}

// VHLO has arrays of integers as tensors. Those of booleans are never splats.
const Attr* TextReader::DenseInts(std::span<const int64_t> values, std::vector<int64_t> dims,
                                  DType dtype) {
  Attr* attr = tree_.NewAttr(Attr::Kind::kDense);
  attr->type = TensorOf(dtype, std::move(dims));
  attr->splat = dtype != DType::kPred && values.size() > 1 &&
                std::ranges::all_of(values, [&](int64_t v) { return v == values[0]; });
  if (attr->splat) values = values.first(1);
  size_t width = dtype == DType::kPred ? 1 : 8;
  std::vector<std::byte> bytes(values.size() * width);
  for (size_t i = 0; i < values.size(); ++i) {
    std::memcpy(bytes.data() + i * width, &values[i], width);
  }
  attr->bytes = tree_.KeepBytes(std::move(bytes));
  return attr;
}

const Attr* TextReader::Array(std::vector<const Attr*> elements) {
  Attr* attr = tree_.NewAttr(Attr::Kind::kArray);
  attr->elements = std::move(elements);
  return attr;
}

Attr* TextReader::NewDict(std::string_view name) {
  Attr* attr = tree_.NewAttr(Attr::Kind::kDict);
  attr->text = name;
  return attr;
}

void TextReader::AddField(Attr* dict, std::string_view name, const Attr* value) {
  dict->names.push_back(name);
  dict->elements.push_back(value);
}

// --- Reading them

Result<const Attr*> TextReader::ReadAttr() {
  Nested nested(depth_);
  TRY(CheckDepth());
  TRY(CountNodes(1));
  switch (token().kind) {
    case Tok::kString: {
      const Attr* attr = Text(Attr::Kind::kString, TRY(ExpectString("a string")));
      if (Take(':')) TRY(ReadType());
      return attr;
    }
    case Tok::kInt:
    case Tok::kFloat: return ReadNumber();
    case Tok::kName: return ReadNamedAttr();
    case Tok::kHash: return ReadHashAttr();
    case Tok::kSymbol: {
      std::string_view first = TRY(ExpectSymbol());
      std::string whole;
      while (At(':') && lexer_.source().substr(token().offset, 3) == "::@") {
        lexer_.Advance();
        lexer_.Advance();
        if (whole.empty()) whole = first;
        StrAppend(whole, "::", TRY(ExpectSymbol()));
      }
      return Text(Attr::Kind::kSymbol, whole.empty() ? first : tree_.Keep(std::move(whole)));
    }
    case Tok::kBang: break;
    case Tok::kPunct:
      if (token().punct == '-') return ReadNumber();
      if (token().punct == '[') return ReadArrayAttr();
      if (token().punct == '{') return ReadDict();
      if (token().punct == '(') break;
      return FailExpected("an attribute");
    default: return FailExpected("an attribute");
  }
  return ReadTypeAttr();
}

// tf32, which dot algorithms name, is the one type without a DType.
Result<const Attr*> TextReader::ReadTypeAttr() {
  const Type* type = TRY(ReadType());
  if (type->kind == Type::Kind::kNone) return tree_.NewAttr(Attr::Kind::kNone);
  Attr* attr = tree_.NewAttr(Attr::Kind::kType);
  attr->type = type;
  if (type->kind == Type::Kind::kElement && type->dtype == DType::kInvalid) attr->text = "tf32";
  return attr;
}

Result<const Attr*> TextReader::ReadNamedAttr() {
  std::string_view name = token().text;
  if (name == "true" || name == "false") {
    lexer_.Advance();
    return Bool(name == "true");
  }
  if (name == "unit") {
    lexer_.Advance();
    return tree_.NewAttr(Attr::Kind::kUnit);
  }
  if (name == "dense") return ReadDense();
  if (name == "array") return ReadTypedArray();
  if (name == "affine_map" || name == "affine_set" || name == "strided") return ReadOpaque(name);
  if (name == "dense_resource" || name == "sparse") {
    return FailAt(token().offset,
                  Error(Code::kUnimplemented, StrCat(name, " constants are not supported")));
  }
  if (name == "loc") {
    TRY(ReadOptionalLocation(nullptr));
    return tree_.NewAttr(Attr::Kind::kUnit);
  }
  return ReadTypeAttr();
}

// The bits of `0x...` or the value of a decimal number, already past its sign.
Result<double> TextReader::ReadDouble(const Type& type) {
  std::string_view text = token().text;
  double value = 0;
  if (text.starts_with("0x")) {
    uint64_t bits = 0;
    auto [end, ec] = std::from_chars(text.data() + 2, text.data() + text.size(), bits, 16);
    int width = BitWidth(type.dtype);
    if (ec != std::errc() || (width < 64 && bits >> width != 0)) {
      return Fail("more bits than ", Name(type.dtype), " has: ", text);
    }
    value = DecodeBits(type.dtype, bits);
  } else {
    auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (ec == std::errc::result_out_of_range) {
      value = std::strtod(std::string(text).c_str(), nullptr);
    } else if (ec != std::errc()) {
      return Fail("malformed number ", text);
    }
    value = DecodeBits(type.dtype, EncodeBits(type.dtype, value));
  }
  return value;
}

Result<const Attr*> TextReader::ReadNumber() {
  bool negative = Take('-');
  if (token().kind != Tok::kInt && token().kind != Tok::kFloat) return FailExpected("a number");
  bool is_float = token().kind == Tok::kFloat;
  Lexer at_number = lexer_;
  lexer_.Advance();
  const Type* type = Element(is_float ? DType::kF64 : DType::kS64);
  if (Take(':')) type = TRY(ReadType());
  Lexer behind = lexer_;
  lexer_ = at_number;
  if (type->kind == Type::Kind::kElement && IsFloat(type->dtype)) {
    Attr* attr = tree_.NewAttr(Attr::Kind::kFloat);
    double value = TRY(ReadDouble(*type));
    attr->number = negative ? -value : value;
    attr->type = type;
    lexer_ = behind;
    return attr;
  }
  bool integral =
      type->kind == Type::Kind::kIndex || (type->kind == Type::Kind::kElement &&
                                           (IsInteger(type->dtype) || type->dtype == DType::kPred));
  if (is_float || !integral) return Fail("a number of a type that it cannot have");
  std::string_view text = token().text;
  bool hex = text.starts_with("0x");
  uint64_t value = 0;
  auto [end, ec] =
      std::from_chars(text.data() + (hex ? 2 : 0), text.data() + text.size(), value, hex ? 16 : 10);
  if (ec != std::errc() || (negative && value > uint64_t{1} << 63)) {
    return Fail("integer does not fit in 64 bits: ", text);
  }
  lexer_ = behind;
  if (type->dtype == DType::kPred) return Bool(value != 0);
  Attr* attr = tree_.NewAttr(Attr::Kind::kInt);
  attr->integer = static_cast<int64_t>(negative ? uint64_t{0} - value : value);
  attr->type = type;
  return attr;
}

Result<const Attr*> TextReader::ReadArrayAttr() {
  Attr* attr = tree_.NewAttr(Attr::Kind::kArray);
  TRY(List('[', ']', [&]() -> Status {
    attr->elements.push_back(TRY(ReadAttr()));
    return {};
  }));
  return attr;
}

// array<i64: 1, 2>, array<i1: true>, array<f32>.
Result<const Attr*> TextReader::ReadTypedArray() {
  lexer_.Advance();
  TRY(Expect('<'));
  const Type* type = TRY(ReadType());
  if (type->kind != Type::Kind::kElement || type->dtype == DType::kInvalid ||
      IsComplex(type->dtype)) {
    return Fail("an array of what is no number");
  }
  Attr* attr = tree_.NewAttr(IsFloat(type->dtype) ? Attr::Kind::kFloats : Attr::Kind::kInts);
  attr->type = type;
  if (Take(':')) TRY(ReadArrayElements(*attr, type->dtype));
  TRY(Expect('>'));
  return attr;
}

Status TextReader::ReadArrayElements(Attr& attr, DType dtype) {
  do {
    if (dtype == DType::kPred && token().kind == Tok::kName) {
      attr.ints.push_back(TRY(ExpectBool()));
    } else if (IsFloat(dtype)) {
      bool negative = Take('-');
      if (token().kind != Tok::kInt && token().kind != Tok::kFloat) return FailExpected("a number");
      double value = TRY(ReadDouble(*attr.type));
      lexer_.Advance();
      attr.floats.push_back(negative ? -value : value);
    } else {
      attr.ints.push_back(TRY(ExpectInt("an integer")));
    }
  } while (Take(','));
  return {};
}

Result<const Attr*> TextReader::ReadDict() {
  Attrs entries;
  TRY(ReadDictEntries(entries));
  auto by_name = [](const NamedAttr& a, const NamedAttr& b) { return a.name < b.name; };
  if (!std::ranges::is_sorted(entries, by_name)) std::ranges::sort(entries, by_name);
  Attr* attr = tree_.NewAttr(Attr::Kind::kDict);
  for (const NamedAttr& entry : entries) {
    if (!attr->names.empty() && attr->names.back() == entry.name) {
      return Fail("a dictionary with two entries named ", entry.name);
    }
    AddField(attr, entry.name, entry.value);
  }
  return attr;
}

Status TextReader::ReadDictEntries(Attrs& attrs) {
  return List('{', '}', [&]() -> Status {
    std::string_view name = token().kind == Tok::kString
                                ? TRY(ExpectString("a name"))
                                : TRY(ExpectAnyName("the name of an attribute"));
    const Attr* value = Take('=') ? TRY(ReadAttr()) : tree_.NewAttr(Attr::Kind::kUnit);
    attrs.push_back({name, value});
    return {};
  });
}

Status TextReader::ReadOptionalDict(Attrs& attrs) {
  if (!At('{')) return {};
  return ReadDictEntries(attrs);
}

Result<const Attr*> TextReader::ReadOpaque(std::string_view name) {
  lexer_.Advance();
  std::string_view body = TRY(SkipBalanced());
  return Text(Attr::Kind::kString, tree_.Keep(StrCat(name, body)));
}

// The arrow of `<(d0) -> (d0)>` is one token and does not close.
Result<std::string_view> TextReader::SkipBalanced() {
  size_t start = token().offset;
  if (!At('<')) return FailExpected("'<'");
  for (int open = 0;;) {
    if (At('<') || At('[') || At('(') || At('{')) ++open;
    if (At('>') || At(']') || At(')') || At('}')) --open;
    if (token().kind == Tok::kEof) return FailExpected("'>'");
    size_t end = lexer_.position();
    lexer_.Advance();
    if (open <= 0) return lexer_.source().substr(start, end - start);
  }
}

Result<std::vector<int64_t>> TextReader::ReadInts() {
  std::vector<int64_t> values;
  TRY(List('[', ']', [&]() -> Status {
    if (AtName("true") || AtName("false")) {
      values.push_back(TRY(ExpectBool()));
    } else {
      values.push_back(TRY(ExpectInt("an integer")));
    }
    return {};
  }));
  return values;
}

}  // namespace weft::hlo::mlir
