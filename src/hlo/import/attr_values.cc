#include "hlo/import/attr_values.h"

#include <cstring>

namespace weft::hlo::mlir {
namespace {

// Element i of the bytes of a dense integer attribute.
int64_t IntElement(DType dtype, const std::byte* data, size_t i) {
  auto get = [&]<class T>(T) -> int64_t {
    T value;
    std::memcpy(&value, data + i * sizeof(T), sizeof(T));
    return static_cast<int64_t>(value);
  };
  switch (ByteWidth(dtype)) {
    case 1: return IsSigned(dtype) ? get(int8_t()) : get(uint8_t());
    case 2: return IsSigned(dtype) ? get(int16_t()) : get(uint16_t());
    case 4: return IsSigned(dtype) ? get(int32_t()) : get(uint32_t());
    default: return get(int64_t());
  }
}

constexpr int64_t kMaxListElements = int64_t{1} << 24;

// All elements of a dense integer attribute, row-major.
Result<Ints> DenseInts(const Attr& attr) {
  if (attr.type == nullptr || attr.type->kind != Type::Kind::kTensor ||
      !(IsInteger(attr.type->dtype) || attr.type->dtype == DType::kPred)) {
    return InvalidArgument("a tensor of integers is expected");
  }
  for (int64_t size : attr.type->dims) {
    if (size < 0) return InvalidArgument("a dense attribute has a dimension of size ", size);
  }
  std::optional<int64_t> count = Shape(attr.type->dtype, attr.type->dims).CheckedElements();
  if (!count || *count > kMaxListElements) return InvalidArgument("a list is too long");
  int64_t width = ByteWidth(attr.type->dtype);
  int64_t stored = attr.splat ? 1 : *count;
  if (static_cast<int64_t>(attr.bytes.size()) < stored * width) {
    return InvalidArgument("a dense attribute has ", attr.bytes.size(), " bytes for ", stored,
                           " elements of ", Name(attr.type->dtype));
  }
  Ints values(static_cast<size_t>(*count));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = IntElement(attr.type->dtype, attr.bytes.data(), attr.splat ? 0 : i);
  }
  return values;
}

Error Named(Error error, const Operation&, std::string_view name) {
  return error.Prefix(StrCat(name, ": "));
}

}  // namespace

std::optional<int64_t> IntOf(const Attr& attr) {
  if (attr.kind == Attr::Kind::kInt) return attr.integer;
  if (attr.kind == Attr::Kind::kBool) return attr.boolean;
  return std::nullopt;
}

Result<Ints> IntsOf(const Attr& attr) {
  if (attr.kind == Attr::Kind::kInts) return attr.ints;
  if (attr.kind == Attr::Kind::kDense) return DenseInts(attr);
  if (attr.kind == Attr::Kind::kArray) {
    Ints values;
    for (const Attr* element : attr.elements) {
      std::optional<int64_t> value = IntOf(*element);
      if (!value) return InvalidArgument("a list of integers is expected");
      values.push_back(*value);
    }
    return values;
  }
  return InvalidArgument("a list of integers is expected");
}

Result<std::vector<Ints>> IntRowsOf(const Attr& attr) {
  std::vector<Ints> rows;
  if (attr.kind == Attr::Kind::kArray) {
    for (const Attr* element : attr.elements) rows.push_back(TRY(IntsOf(*element)));
    return rows;
  }
  Ints flat = TRY(IntsOf(attr));
  if (attr.kind != Attr::Kind::kDense || attr.type->dims.size() != 2) {
    if (flat.empty()) return rows;
    return InvalidArgument("a table of integers is expected");
  }
  size_t width = static_cast<size_t>(attr.type->dims[1]);
  size_t count = static_cast<size_t>(attr.type->dims[0]);
  if (width == 0) count = std::min<size_t>(count, 1);
  for (size_t i = 0; i < count; ++i) {
    rows.emplace_back(flat.begin() + static_cast<ptrdiff_t>(i * width),
                      flat.begin() + static_cast<ptrdiff_t>((i + 1) * width));
  }
  return rows;
}

Result<Literal> LiteralOf(const Attr& dense, const Shape& shape) {
  if (dense.kind != Attr::Kind::kDense || !shape.IsArray()) {
    return InvalidArgument("a dense attribute is expected");
  }
  size_t width = static_cast<size_t>(ByteWidth(shape.dtype()));
  std::optional<int64_t> count = shape.CheckedElements();
  if (!count || *count > INT64_MAX / 16) {
    return InvalidArgument("the tensor is too large: ", shape.ToStringWithoutLayout());
  }
  size_t stored = dense.splat ? 1 : static_cast<size_t>(*count);
  if (dense.bytes.size() != stored * width) {
    return InvalidArgument("a dense attribute has ", dense.bytes.size(), " bytes for ", stored,
                           " elements of ", Name(shape.dtype()));
  }
  Literal literal;
  if (dense.splat) {
    literal = TRY(Literal::Allocate(shape));
    std::byte* data = literal.mutable_data();
    for (int64_t i = 0; i < *count; ++i) {
      std::memcpy(data + static_cast<size_t>(i) * width, dense.bytes.data(), width);
    }
  } else {
    literal = Literal::Uninitialized(shape);
    if (stored > 0) std::memcpy(literal.mutable_data(), dense.bytes.data(), stored * width);
  }
  if (shape.dtype() == DType::kPred) {
    std::byte* data = literal.mutable_data();
    for (int64_t i = 0; i < *count; ++i) data[i] = std::byte{data[i] != std::byte{0}};
  }
  return literal;
}

Result<Ints> IntsAttr(const Operation& op, std::string_view name) {
  const Attr* attr = op.Find(name);
  if (attr == nullptr) return Ints();
  Result<Ints> values = IntsOf(*attr);
  if (!values) return std::unexpected(Named(std::move(values).error(), op, name));
  return values;
}

Result<Ints> RequiredInts(const Operation& op, std::string_view name) {
  if (op.Find(name) == nullptr) return InvalidArgument("attribute ", name, " is missing");
  return IntsAttr(op, name);
}

Result<std::vector<Ints>> IntRowsAttr(const Operation& op, std::string_view name) {
  const Attr* attr = op.Find(name);
  if (attr == nullptr) return std::vector<Ints>();
  Result<std::vector<Ints>> rows = IntRowsOf(*attr);
  if (!rows) return std::unexpected(Named(std::move(rows).error(), op, name));
  return rows;
}

Result<int64_t> IntAttr(const Operation& op, std::string_view name, int64_t otherwise) {
  const Attr* attr = op.Find(name);
  if (attr == nullptr) return otherwise;
  std::optional<int64_t> value = IntOf(*attr);
  if (!value) return InvalidArgument(name, ": an integer is expected");
  return *value;
}

Result<int64_t> RequiredInt(const Operation& op, std::string_view name) {
  if (op.Find(name) == nullptr) return InvalidArgument("attribute ", name, " is missing");
  return IntAttr(op, name, 0);
}

Result<double> FloatAttr(const Operation& op, std::string_view name, double otherwise) {
  const Attr* attr = op.Find(name);
  if (attr == nullptr) return otherwise;
  if (attr->kind == Attr::Kind::kFloat) return attr->number;
  return InvalidArgument(name, ": a float is expected");
}

bool BoolAttr(const Operation& op, std::string_view name, bool otherwise) {
  const Attr* attr = op.Find(name);
  if (attr == nullptr) return otherwise;
  if (attr->kind == Attr::Kind::kUnit) return true;
  std::optional<int64_t> value = IntOf(*attr);
  return value ? *value != 0 : otherwise;
}

std::string_view TextAttr(const Operation& op, std::string_view name) {
  const Attr* attr = op.Find(name);
  return attr == nullptr ? std::string_view() : attr->text;
}

Result<std::vector<bool>> BoolsAttr(const Operation& op, std::string_view name) {
  Ints values = TRY(IntsAttr(op, name));
  std::vector<bool> bools;
  for (int64_t value : values) bools.push_back(value != 0);
  return bools;
}

}  // namespace weft::hlo::mlir
