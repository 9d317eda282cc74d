// Attributes and types of MLIR's builtin dialect, and the few that are written as text.
#include <array>
#include <cstring>

#include "base/float_formats.h"
#include "hlo/import/bytecode_entries.h"

namespace weft::hlo::mlir {
namespace {

// array<i64: 1, 2>: one byte for an i1, otherwise the width of the type.
const Attr* BuiltinDenseArray(EntryReader& r) {
  const Type* element = r.TypeRef();
  uint64_t n = r.VarInt();
  std::string_view bytes = r.Bytes(r.VarInt());
  if (!r.ready()) return nullptr;
  if (element->kind != Type::Kind::kElement || !IsArrayType(element->dtype) ||
      IsComplex(element->dtype)) {
    return r.Fail("array of elements that are not numbers");
  }
  DType dtype = element->dtype;
  size_t width = static_cast<size_t>(ByteWidth(dtype));
  if (bytes.size() / width != n || bytes.size() % width != 0) {
    return r.Fail(StrCat("array of ", n, " elements has ", bytes.size(), " bytes"));
  }
  Attr* attr = r.tree().NewAttr(IsFloat(dtype) ? Attr::Kind::kFloats : Attr::Kind::kInts);
  attr->type = element;
  for (size_t i = 0; i < n; ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, bytes.data() + i * width, width);
    if (IsFloat(dtype)) {
      attr->floats.push_back(DecodeBits(dtype, bits));
      continue;
    }
    int shift = 64 - (dtype == DType::kPred ? 8 : BitWidth(dtype));
    int64_t value = static_cast<int64_t>(bits << shift) >> shift;
    if (dtype == DType::kPred) value = bits != 0;
    if (IsUnsigned(dtype)) value = static_cast<int64_t>(bits);
    attr->ints.push_back(value);
  }
  return attr;
}

const Attr* BuiltinDict(EntryReader& r) {
  std::vector<std::pair<std::string_view, const Attr*>> fields(r.Count());
  for (auto& [name, value] : fields) {
    const Attr* key = r.AttrRef();
    value = r.AttrRef();
    if (r.ready() && key->kind != Attr::Kind::kString) {
      return r.Fail("dictionary with a key that is not a string");
    }
    name = key->text;
  }
  return MakeDict(r, "", std::move(fields));
}

const Attr* BuiltinSymbol(EntryReader& r, bool nested) {
  const Attr* root = r.AttrRef();
  std::vector<const Attr*> inner;
  if (nested) inner = r.Attrs();
  if (!r.ready()) return nullptr;
  if (inner.empty()) return MakeString(r, root->text, Attr::Kind::kSymbol);
  std::string text(root->text);
  for (const Attr* part : inner) StrAppend(text, "::", part->text);
  return MakeString(r, r.tree().Keep(std::move(text)), Attr::Kind::kSymbol);
}

const Type* BuiltinInteger(EntryReader& r) {
  uint64_t code = r.VarInt();
  uint64_t width = code >> 2;
  if (!r.ready()) return nullptr;
  if (width == 1) return MakeElement(r, DType::kPred);
  DTypeClass cls = (code & 3) == 2 ? DTypeClass::kUnsigned : DTypeClass::kSigned;
  DType dtype = width <= 64 ? IntegerType(cls, static_cast<int>(width)) : DType::kInvalid;
  if (dtype == DType::kInvalid) return r.Fail(StrCat("integer of ", width, " bits"));
  return MakeElement(r, dtype);
}

const Type* BuiltinPlain(EntryReader& r, Type::Kind kind) {
  if (!r.ready()) return nullptr;
  Type* type = r.tree().NewType();
  type->kind = kind;
  return type;
}

struct BytecodeFloatName {
  std::string_view name;
  DType dtype;
};
constexpr BytecodeFloatName kBytecodeFloatNames[] = {
    {"bf16", DType::kBF16},
    {"f16", DType::kF16},
    {"f32", DType::kF32},
    {"f64", DType::kF64},
    {"f4E2M1FN", DType::kF4E2M1FN},
    {"f6E2M3FN", DType::kF6E2M3FN},
    {"f6E3M2FN", DType::kF6E3M2FN},
    {"f8E3M4", DType::kF8E3M4},
    {"f8E4M3", DType::kF8E4M3},
    {"f8E4M3FN", DType::kF8E4M3FN},
    {"f8E4M3FNUZ", DType::kF8E4M3FNUZ},
    {"f8E4M3B11FNUZ", DType::kF8E4M3B11FNUZ},
    {"f8E5M2", DType::kF8E5M2},
    {"f8E5M2FNUZ", DType::kF8E5M2FNUZ},
    {"f8E8M0FNU", DType::kF8E8M0FNU},
};

// `?, 4, ?` of #stablehlo.bounds<?, 4, ?>.
const Attr* TextBounds(EntryReader& r, std::string_view list) {
  Attr* attr = r.tree().NewAttr(Attr::Kind::kInts);
  attr->type = MakeElement(r, DType::kS64);
  while (!list.empty()) {
    size_t comma = list.find(',');
    std::string_view item = list.substr(0, comma);
    while (item.starts_with(' ')) item.remove_prefix(1);
    while (item.ends_with(' ')) item.remove_suffix(1);
    std::optional<int64_t> value = item == "?" ? Type::kDynamic : ParseInt(item);
    if (!value) return r.Fail(StrCat("bound `", item, "`"));
    attr->ints.push_back(*value);
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  return attr;
}

}  // namespace

const Attr* DecodeBuiltinAttr(EntryReader& r) {
  uint64_t kind = r.VarInt();
  if (DecodeLocation(r, kind)) return nullptr;
  switch (kind) {
    case 0: return MakeArray(r, r.Attrs());
    case 1: return BuiltinDict(r);
    case 2: return MakeString(r, r.String());
    case 3: {
      std::string_view text = r.String();
      r.TypeRef();
      return MakeString(r, text);
    }
    case 4: return BuiltinSymbol(r, false);
    case 5: return BuiltinSymbol(r, true);
    case 6: {
      const Type* type = r.TypeRef();
      if (!r.ready()) return nullptr;
      Attr* attr = r.tree().NewAttr(Attr::Kind::kType);
      attr->type = type;
      return attr;
    }
    case 7: return MakeString(r, "", Attr::Kind::kUnit);
    case 8: return MakeInt(r, r.TypeRef());
    case 9: return MakeFloat(r, r.TypeRef());
    case 17: return BuiltinDenseArray(r);
    case 18: {
      const Type* type = r.TypeRef();
      std::string_view bytes = r.Bytes(r.VarInt());
      return r.ready() ? MakeDense(r, type, bytes) : nullptr;
    }
    case 16: return r.Fail("dense resources are not supported");
    case 19: return r.Fail("tensors of strings are not supported");
    case 20: return r.Fail("sparse tensors are not supported");
    default: return r.Fail(StrCat("unknown builtin attribute kind ", kind));
  }
}

const Type* DecodeBuiltinType(EntryReader& r) {
  uint64_t kind = r.VarInt();
  switch (kind) {
    case 0: return BuiltinInteger(r);
    case 1: return BuiltinPlain(r, Type::Kind::kIndex);
    case 2: {
      std::vector<const Type*> inputs = r.Types(), results = r.Types();
      if (!r.ready()) return nullptr;
      Type* type = r.tree().NewType();
      type->kind = Type::Kind::kFunction;
      type->elements = std::move(inputs);
      type->results = std::move(results);
      return type;
    }
    case 3: return MakeElement(r, DType::kBF16);
    case 4: return MakeElement(r, DType::kF16);
    case 5: return MakeElement(r, DType::kF32);
    case 6: return MakeElement(r, DType::kF64);
    case 9: return MakeComplex(r, r.TypeRef());
    case 12: return BuiltinPlain(r, Type::Kind::kNone);
    case 13:
    case 14: {
      const Attr* encoding = kind == 14 ? r.AttrRef() : nullptr;
      std::vector<int64_t> dims = r.SignedInts();
      return MakeTensor(r, std::move(dims), r.TypeRef(), encoding);
    }
    case 15: {
      std::vector<const Type*> elements = r.Types();
      if (!r.ready()) return nullptr;
      Type* type = r.tree().NewType();
      type->kind = Type::Kind::kTuple;
      type->elements = std::move(elements);
      return type;
    }
    default: return r.Fail(StrCat("builtin type kind ", kind, " is not supported"));
  }
}

const Type* DecodeStableHloType(EntryReader& r) {
  constexpr uint64_t kTokenCode = 0;
  uint64_t code = r.VarInt();
  if (r.bad()) return nullptr;
  if (code != kTokenCode) return r.Fail(StrCat("type ", code, " of dialect `stablehlo`"));
  return BuiltinPlain(r, Type::Kind::kToken);
}

const Type* DecodeTextType(EntryReader& r, std::string_view text) {
  for (const BytecodeFloatName& row : kBytecodeFloatNames) {
    if (row.name == text) return MakeElement(r, row.dtype);
  }
  if (text == "tf32") return MakeElement(r, DType::kInvalid);
  if (text == "!stablehlo.token" || text == "!vhlo.token_v1") {
    return BuiltinPlain(r, Type::Kind::kToken);
  }
  return r.Fail(StrCat("type `", text.substr(0, 200), "` is not supported"));
}

// `#stablehlo.bounds<?, 4>`, and enums: `#sdy<reduction_op sum>` or `#sdy.reduction_op<sum>`.
const Attr* DecodeTextAttr(EntryReader& r, std::string_view dialect, std::string_view text) {
  size_t open = text.find('<');
  if (text.starts_with('#') && open != std::string_view::npos && text.ends_with('>')) {
    std::string_view inner = text.substr(open + 1, text.size() - open - 2);
    if (text.substr(0, open) == "#stablehlo.bounds") return TextBounds(r, inner);
    size_t space = inner.rfind(' ');
    std::string_view word = space == std::string_view::npos ? inner : inner.substr(space + 1);
    if (dialect == "sdy" && !word.empty() && word.find_first_of("<>{}[],") == word.npos) {
      return MakeString(r, word, Attr::Kind::kEnum);
    }
  }
  return r.Fail(StrCat("attribute `", text.substr(0, 200), "` is not supported"));
}

}  // namespace weft::hlo::mlir
