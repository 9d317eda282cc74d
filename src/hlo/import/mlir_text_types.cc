// Types of MLIR text.
#include <algorithm>
#include <cctype>

#include "hlo/import/mlir_text.h"

namespace weft::hlo::mlir {

const Type* TextReader::Element(DType dtype) {
  const Type*& cached = elements_[static_cast<int>(dtype)];
  if (cached == nullptr) {
    Type* type = tree_.NewType();
    type->kind = Type::Kind::kElement;
    type->dtype = dtype;
    cached = type;
  }
  return cached;
}

const Type* TextReader::TensorOf(DType dtype, std::vector<int64_t> dims) {
  Type* type = tree_.NewType();
  type->kind = Type::Kind::kTensor;
  type->dtype = dtype;
  type->dims = Dims(dims);
  return type;
}

// i32, ui8, bf16, f8E4M3FN, tf32.
Result<const Type*> TextReader::ElementType(std::string_view name) {
  if (name == "i1") return Element(DType::kPred);
  if (name == "tf32") return Element(DType::kInvalid);
  if (name.size() < 2 || name.size() > 16) return nullptr;
  std::string lower(name);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (name.starts_with("ui")) {
    lower.erase(1, 1);
  } else if (name.starts_with("si")) {
    lower.erase(1, 1);
  } else if (name[0] == 'i') {
    lower[0] = 's';
  } else if (name[0] != 'f' && name != "bf16") {
    return nullptr;
  }
  std::optional<DType> dtype = ParseDType(lower);
  if (!dtype || !(IsInteger(*dtype) || IsFloat(*dtype))) return nullptr;
  return Element(*dtype);
}

Result<const Type*> TextReader::ReadType() {
  Nested nested(depth_);
  TRY(CheckDepth());
  TRY(CountNodes(1));
  if (token().kind == Tok::kName) return ReadNamedType();
  if (token().kind == Tok::kBang) return ReadDialectType();
  if (!At('(')) return FailExpected("a type");
  Type* type = tree_.NewType();
  type->kind = Type::Kind::kFunction;
  TRY(List('(', ')', [&]() -> Status {
    type->elements.push_back(TRY(ReadType()));
    return {};
  }));
  TRY(ExpectArrow());
  TRY(ReadResultTypes(type->results));
  return type;
}

Result<const Type*> TextReader::ReadNamedType() {
  std::string_view name = token().text;
  // Buffers, which custom calls pin and unpin: their values go through as those of tensors.
  if (name == "tensor" || name == "memref") return ReadTensorType();
  if (const Type* element = TRY(ElementType(name))) {
    lexer_.Advance();
    return element;
  }
  Type* type = tree_.NewType();
  if (name == "index" || name == "none") {
    lexer_.Advance();
    type->kind = name == "index" ? Type::Kind::kIndex : Type::Kind::kNone;
    return type;
  }
  if (name == "complex") {
    lexer_.Advance();
    TRY(Expect('<'));
    const Type* part = TRY(ReadType());
    DType dtype = part->kind == Type::Kind::kElement ? ComplexType(part->dtype) : DType::kInvalid;
    if (dtype == DType::kInvalid) return Fail("complex of a type that is neither f32 nor f64");
    TRY(Expect('>'));
    return Element(dtype);
  }
  if (name == "tuple") {
    lexer_.Advance();
    type->kind = Type::Kind::kTuple;
    TRY(List('<', '>', [&]() -> Status {
      type->elements.push_back(TRY(ReadType()));
      return {};
    }));
    return type;
  }
  if (name == "vector") {
    return FailAt(token().offset, Error(Code::kUnimplemented, "types of vector are not supported"));
  }
  return FailExpected("a type");
}

// `8x?xf32` has tokens of its own: sizes are read by the character.
Status TextReader::ReadDims(Type& type) {
  std::string_view source = lexer_.source();
  size_t at = lexer_.position();
  auto skip_space = [&] {
    while (at < source.size() && source[at] == ' ') ++at;
  };
  for (skip_space(); at < source.size() && (IsDigit(source[at]) || source[at] == '?');) {
    size_t from = at;
    int64_t size = Type::kDynamic;
    if (source[at] == '?') {
      ++at;
    } else {
      while (at < source.size() && IsDigit(source[at])) ++at;
      std::optional<int64_t> parsed = ParseInt(source.substr(from, at - from));
      if (!parsed) {
        return FailAt(from, Error(Code::kInvalidArgument, "dimension does not fit in 64 bits"));
      }
      size = *parsed;
    }
    skip_space();
    if (at >= source.size() || source[at] != 'x') {
      return FailAt(at, Error(Code::kInvalidArgument, "expected 'x' after a dimension"));
    }
    ++at;
    skip_space();
    if (type.dims.size() == static_cast<size_t>(kMaxRank)) {
      return FailAt(from, Error(Code::kInvalidArgument,
                                StrCat("a tensor of more than ", kMaxRank, " dimensions")));
    }
    type.dims.push_back(size);
  }
  lexer_.Seek(at);
  return {};
}

Result<const Type*> TextReader::ReadTensorType() {
  std::string_view source = lexer_.source();
  size_t start = token().offset;
  size_t end = source.find('>', start);
  std::string_view key;
  if (end != std::string_view::npos) {
    key = source.substr(start, end + 1 - start);
    if (auto it = tensor_types_.find(key); it != tensor_types_.end()) {
      lexer_.Seek(end + 1);
      return it->second;
    }
  }
  lexer_.Advance();
  if (!At('<')) return FailExpected("'<'");
  Type* type = tree_.NewType();
  type->kind = Type::Kind::kTensor;
  TRY(ReadDims(*type));
  if (At('*')) return Fail("unranked tensors are not supported");
  const Type* element = TRY(ReadType());
  if (element->kind == Type::Kind::kIndex) {
    type->index_element = true;
    type->dtype = DType::kS64;
  } else if (element->kind == Type::Kind::kElement && element->dtype != DType::kInvalid) {
    type->dtype = element->dtype;
  } else {
    return Fail("a tensor of what is no number");
  }
  if (Take(',')) TRY(ReadEncoding(*type));
  if (!At('>')) return FailExpected("'>'");
  if (token().offset == end) tensor_types_.emplace(key, type);
  lexer_.Advance();
  return type;
}

// #stablehlo.bounds<?, 8>, #stablehlo.type_extensions<bounds = [?, 8]>.
Status TextReader::ReadEncoding(Type& type) {
  if (token().kind != Tok::kHash ||
      !(token().text.ends_with(".bounds") || token().text.ends_with(".type_extensions"))) {
    return FailExpected("#stablehlo.bounds<...>");
  }
  bool extensions = token().text.ends_with(".type_extensions");
  lexer_.Advance();
  if (extensions) {
    TRY(Expect('<'));
    TRY(ExpectName("bounds"));
    TRY(Expect('='));
  }
  TRY(List(extensions ? '[' : '<', extensions ? ']' : '>', [&]() -> Status {
    type.bounds.push_back(Take('?') ? Type::kDynamic : TRY(ExpectInt("a bound or '?'")));
    return {};
  }));
  if (extensions) TRY(Expect('>'));
  if (type.bounds.size() != type.dims.size()) {
    return Fail(type.bounds.size(), " bounds for ", type.dims.size(), " dimensions");
  }
  return {};
}

Result<const Type*> TextReader::ReadDialectType() {
  std::string_view name = token().text;
  if (name == "stablehlo.token" || name == "mhlo.token") {
    lexer_.Advance();
    Type* type = tree_.NewType();
    type->kind = Type::Kind::kToken;
    return type;
  }
  if (name == "stablehlo.future") {
    lexer_.Advance();
    Type* type = tree_.NewType();
    type->kind = Type::Kind::kFuture;
    TRY(List('<', '>', [&]() -> Status {
      type->elements.push_back(TRY(ReadType()));
      return {};
    }));
    return type;
  }
  if (name.find('.') != std::string_view::npos) {
    return FailAt(token().offset,
                  Error(Code::kUnimplemented, StrCat("the type !", name, " is not supported")));
  }
  Alias* alias = TRY(FindAlias('!', name));
  if (alias->type == nullptr) return Fail("!", name, " is not a type");
  lexer_.Advance();
  return alias->type;
}

Status TextReader::ReadTypeList(Types& types) {
  do {
    types.push_back(TRY(ReadType()));
  } while (Take(','));
  return {};
}

Status TextReader::ReadResultTypes(Types& types) {
  if (!At('(')) {
    types.push_back(TRY(ReadType()));
    return {};
  }
  return List('(', ')', [&]() -> Status {
    types.push_back(TRY(ReadType()));
    return {};
  });
}

}  // namespace weft::hlo::mlir
