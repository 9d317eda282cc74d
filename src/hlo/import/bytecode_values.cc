// What the dialects' attributes and types have in common: numbers, tensors, lists.
#include <array>
#include <cstring>

#include "base/float_formats.h"
#include "hlo/import/bytecode_entries.h"

namespace weft::hlo::mlir {
namespace {

int64_t ExtendBits(DType dtype, uint64_t bits) {
  int width = BitWidth(dtype);
  if (width >= 64) return static_cast<int64_t>(bits);
  bits &= (uint64_t{1} << width) - 1;
  if (IsSigned(dtype) && (bits >> (width - 1)) != 0) bits |= ~uint64_t{0} << width;
  return static_cast<int64_t>(bits);
}

// Eight bytes of 0 or 1 for each byte.
constexpr auto kBitsOfByte = [] {
  std::array<std::array<uint8_t, 8>, 256> table{};
  for (int byte = 0; byte < 256; ++byte) {
    for (int bit = 0; bit < 8; ++bit) table[byte][bit] = (byte >> bit) & 1;
  }
  return table;
}();

// i1: packed eight to a byte, least significant first; one byte 0xff stands for all true, and one
// byte 0 for all false. Early files have one byte an element.
const Attr* MakeDensePred(EntryReader& r, const Type* type, int64_t n, std::string_view bytes) {
  size_t count = static_cast<size_t>(n);
  size_t packed = count / 8 + (count % 8 != 0);
  bool splat =
      bytes.size() == 1 && count > 1 && (static_cast<uint8_t>(bytes[0]) == 0xff || packed != 1);
  std::vector<std::byte> values;
  if (splat) {
    values.push_back(std::byte{bytes[0] != 0});
  } else if (bytes.size() == count) {
    for (char c : bytes) values.push_back(std::byte{c != 0});
  } else if (bytes.size() == packed) {
    values.resize(packed * 8);
    for (size_t i = 0; i < packed; ++i) {
      std::memcpy(values.data() + i * 8, &kBitsOfByte[static_cast<uint8_t>(bytes[i])], 8);
    }
    values.resize(count);
  } else {
    return r.Fail(StrCat("dense i1 of ", count, " elements has ", bytes.size(), " bytes"));
  }
  Attr* attr = r.tree().NewAttr(Attr::Kind::kDense);
  attr->type = type;
  attr->splat = splat;
  attr->bytes = r.tree().KeepBytes(std::move(values));
  return attr;
}

}  // namespace

const Attr* MakeDense(EntryReader& r, const Type* type, std::string_view bytes) {
  if (type->kind != Type::Kind::kTensor) return r.Fail("dense of a type that is not a tensor");
  int64_t n = 1;
  for (int64_t dim : type->dims) {
    if (dim < 0 || __builtin_mul_overflow(n, dim, &n)) return r.Fail("dense of a dynamic shape");
  }
  if (type->dtype == DType::kPred) return MakeDensePred(r, type, n, bytes);
  size_t width = static_cast<size_t>(ByteWidth(type->dtype));
  if (n == 0) bytes = {};
  bool splat = n > 1 && bytes.size() == width;
  if (!splat && (bytes.size() % width != 0 || bytes.size() / width != static_cast<size_t>(n))) {
    return r.Fail(StrCat("dense of ", n, " elements of ", Name(type->dtype), " has ", bytes.size(),
                         " bytes"));
  }
  Attr* attr = r.tree().NewAttr(Attr::Kind::kDense);
  attr->type = type;
  attr->splat = splat;
  attr->bytes = std::as_bytes(std::span(bytes));
  if (IsSubByte(type->dtype) && IsInteger(type->dtype)) {
    std::vector<std::byte> values(attr->bytes.begin(), attr->bytes.end());
    for (std::byte& b : values) {
      b = static_cast<std::byte>(ExtendBits(type->dtype, static_cast<uint8_t>(b)));
    }
    attr->bytes = r.tree().KeepBytes(std::move(values));
  }
  return attr;
}

const Attr* MakeInt(EntryReader& r, const Type* type) {
  bool index = type->kind == Type::Kind::kIndex;
  if (!r.ready()) return nullptr;
  if (!index && (type->kind != Type::Kind::kElement ||
                 !(IsInteger(type->dtype) || type->dtype == DType::kPred))) {
    return r.Fail("integer of a type that is none");
  }
  DType dtype = index ? DType::kS64 : type->dtype;
  uint64_t bits = r.Bits(BitWidth(dtype));
  if (r.bad()) return nullptr;
  if (dtype == DType::kPred) {
    Attr* attr = r.tree().NewAttr(Attr::Kind::kBool);
    attr->boolean = bits & 1;
    return attr;
  }
  Attr* attr = r.tree().NewAttr(Attr::Kind::kInt);
  attr->type = type;
  attr->integer = ExtendBits(dtype, bits);
  return attr;
}

const Attr* MakeFloat(EntryReader& r, const Type* type) {
  if (!r.ready()) return nullptr;
  if (type->kind != Type::Kind::kElement || !IsFloat(type->dtype)) {
    return r.Fail("float of a type that is none");
  }
  int width = BitWidth(type->dtype);
  uint64_t bits = r.Bits(width);
  if (r.bad()) return nullptr;
  if (width < 64) bits &= (uint64_t{1} << width) - 1;
  Attr* attr = r.tree().NewAttr(Attr::Kind::kFloat);
  attr->type = type;
  attr->number = DecodeBits(type->dtype, bits);
  return attr;
}

const Attr* MakeDict(EntryReader& r, std::string_view text,
                     std::vector<std::pair<std::string_view, const Attr*>> fields) {
  if (!r.ready()) return nullptr;
  Attr* attr = r.tree().NewAttr(Attr::Kind::kDict);
  attr->text = text;
  for (auto& [name, value] : fields) {
    if (!value) continue;
    attr->names.push_back(name);
    attr->elements.push_back(value);
  }
  return attr;
}

const Attr* MakeArray(EntryReader& r, std::vector<const Attr*> elements) {
  if (!r.ready()) return nullptr;
  Attr* attr = r.tree().NewAttr(Attr::Kind::kArray);
  attr->elements = std::move(elements);
  return attr;
}

const Attr* MakeString(EntryReader& r, std::string_view text, Attr::Kind kind) {
  if (!r.ready()) return nullptr;
  Attr* attr = r.tree().NewAttr(kind);
  attr->text = text;
  return attr;
}

const Type* MakeElement(EntryReader& r, DType dtype) {
  if (!r.ready()) return nullptr;
  Type* type = r.tree().NewType();
  type->kind = Type::Kind::kElement;
  type->dtype = dtype;
  return type;
}

const Attr* MakeI64(EntryReader& r, int64_t value) {
  if (!r.ready()) return nullptr;
  Attr* attr = r.tree().NewAttr(Attr::Kind::kInt);
  attr->type = MakeElement(r, DType::kS64);
  attr->integer = value;
  return attr;
}

const Type* MakeTensor(EntryReader& r, std::vector<int64_t> dims, const Type* element,
                       const Attr* encoding) {
  if (!r.ready()) return nullptr;
  bool index = element->kind == Type::Kind::kIndex;
  if (!index && (element->kind != Type::Kind::kElement || !IsArrayType(element->dtype))) {
    return r.Fail("tensor of elements that are not numbers");
  }
  if (dims.size() > 64) return r.Fail(StrCat("tensor of rank ", dims.size()));
  for (int64_t dim : dims) {
    if (dim < 0 && dim != Type::kDynamic) return r.Fail(StrCat("tensor dimension of ", dim));
  }
  Type* type = r.tree().NewType();
  type->kind = Type::Kind::kTensor;
  type->dtype = index ? DType::kS64 : element->dtype;
  type->index_element = index;
  if (encoding && encoding->kind == Attr::Kind::kInts) {
    if (encoding->ints.size() != dims.size()) return r.Fail("bounds of another rank");
    type->bounds = encoding->ints;
  }
  type->dims = Dims(std::span<const int64_t>(dims));
  return type;
}

const Type* MakeComplex(EntryReader& r, const Type* part) {
  if (!r.ready()) return nullptr;
  DType dtype = part->kind == Type::Kind::kElement ? ComplexType(part->dtype) : DType::kInvalid;
  if (dtype == DType::kInvalid) return r.Fail("complex of a type other than f32 and f64");
  return MakeElement(r, dtype);
}

}  // namespace weft::hlo::mlir
