// Attributes of custom calls, from MLIR text to the C structs that handlers read.
#include <algorithm>
#include <bit>
#include <complex>

#include "hlo/import/readers.h"
#include "pjrt/ffi/ffi_internal.h"

namespace weft::pjrt {

// Everything that the structs point to; nothing moves once it is here.
struct FfiAttributes::Storage {
  hlo::mlir::Tree tree;
  std::deque<std::vector<std::byte>> bytes;
  std::deque<XLA_FFI_Scalar> scalars;
  std::deque<XLA_FFI_Array> arrays;
  std::deque<XLA_FFI_ByteSpan> spans;
  std::deque<XLA_FFI_Attrs> dictionaries;
  std::deque<std::vector<XLA_FFI_AttrType>> types;
  std::deque<std::vector<XLA_FFI_ByteSpan*>> names;
  std::deque<std::vector<void*>> values;
};

namespace {

using hlo::mlir::Attr;

struct FfiAttr {
  XLA_FFI_AttrType type;
  void* value;
};

DType ElementTypeOf(const Attr& attr, DType otherwise) {
  if (attr.type == nullptr || !IsArrayType(attr.type->dtype)) return otherwise;
  return attr.type->dtype;
}

// One element in its storage form.
template <class T>
void AppendElement(std::vector<std::byte>& out, DType dtype, T number) {
  Literal one{Shape::Scalar(dtype)};
  if constexpr (std::is_floating_point_v<T>) {
    one.SetDouble(0, number);
  } else {
    one.SetInt(0, number);
  }
  out.insert(out.end(), one.data(), one.data() + one.byte_size());
}

template <class Storage>
class AttributeBuilder {
 public:
  explicit AttributeBuilder(Storage& storage) : storage_(storage) {}

  Result<FfiAttr> Convert(const Attr& attr, std::string_view name, int depth) {
    switch (attr.kind) {
      case Attr::Kind::kUnit: return Scalar(DType::kPred, int64_t{1});
      case Attr::Kind::kBool: return Scalar(DType::kPred, int64_t{attr.boolean});
      case Attr::Kind::kInt: return Scalar(ElementTypeOf(attr, DType::kS64), attr.integer);
      case Attr::Kind::kFloat: return Scalar(ElementTypeOf(attr, DType::kF64), attr.number);
      case Attr::Kind::kString:
      case Attr::Kind::kSymbol:
      case Attr::Kind::kEnum: return FfiAttr{XLA_FFI_AttrType_STRING, Span(attr.text)};
      case Attr::Kind::kInts: return Numbers(ElementTypeOf(attr, DType::kS64), attr.ints);
      case Attr::Kind::kFloats: return Numbers(ElementTypeOf(attr, DType::kF64), attr.floats);
      case Attr::Kind::kDense: return Dense(attr);
      case Attr::Kind::kDict:
        return FfiAttr{XLA_FFI_AttrType_DICTIONARY, TRY(Dictionary(attr, depth))};
      case Attr::Kind::kNone:
      case Attr::Kind::kType:
      case Attr::Kind::kArray: break;
    }
    return Unimplemented("custom-call: attribute ", name, " has a form that handlers cannot read");
  }

  Result<XLA_FFI_Attrs*> Dictionary(const Attr& attr, int depth) {
    if (depth > 32) return InvalidArgument("custom-call: attributes are nested too deeply");
    std::vector<size_t> order(attr.names.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::sort(order, {}, [&](size_t i) { return attr.names[i]; });
    std::vector<XLA_FFI_AttrType> types;
    std::vector<XLA_FFI_ByteSpan*> names;
    std::vector<void*> values;
    for (size_t i : order) {
      const FfiAttr one = TRY(Convert(*attr.elements[i], attr.names[i], depth + 1));
      types.push_back(one.type);
      names.push_back(Span(attr.names[i]));
      values.push_back(one.value);
    }
    XLA_FFI_Attrs& out = storage_.dictionaries.emplace_back();
    out = {};
    out.struct_size = sizeof(XLA_FFI_Attrs);
    out.size = static_cast<int64_t>(order.size());
    out.types = storage_.types.emplace_back(std::move(types)).data();
    out.names = storage_.names.emplace_back(std::move(names)).data();
    out.attrs = storage_.values.emplace_back(std::move(values)).data();
    return &out;
  }

 private:
  XLA_FFI_ByteSpan* Span(std::string_view text) {
    return &storage_.spans.emplace_back(XLA_FFI_ByteSpan{text.data(), text.size()});
  }
  template <class T>
  FfiAttr Scalar(DType dtype, T number) {
    std::vector<std::byte>& bytes = storage_.bytes.emplace_back();
    AppendElement(bytes, dtype, number);
    return {XLA_FFI_AttrType_SCALAR,
            &storage_.scalars.emplace_back(XLA_FFI_Scalar{ToFfiType(dtype), bytes.data()})};
  }
  FfiAttr Array(DType dtype, size_t size, std::vector<std::byte> data) {
    std::vector<std::byte>& bytes = storage_.bytes.emplace_back(std::move(data));
    return {XLA_FFI_AttrType_ARRAY,
            &storage_.arrays.emplace_back(XLA_FFI_Array{ToFfiType(dtype), size, bytes.data()})};
  }
  template <class T>
  FfiAttr Numbers(DType dtype, const std::vector<T>& numbers) {
    std::vector<std::byte> data;
    for (T number : numbers) AppendElement(data, dtype, number);
    return Array(dtype, numbers.size(), std::move(data));
  }
  Result<FfiAttr> Dense(const Attr& attr) {
    if (attr.type == nullptr || !IsArrayType(attr.type->dtype)) {
      return Unimplemented("custom-call: a dense attribute of unknown type");
    }
    const int64_t count = Shape(attr.type->dtype, attr.type->dims).CheckedElements().value_or(-1);
    const size_t width = static_cast<size_t>(ByteWidth(attr.type->dtype));
    if (count < 0 || count > int64_t{1} << 28 ||
        attr.bytes.size() < (attr.splat ? 1 : count) * width) {
      return InvalidArgument("custom-call: a dense attribute of the wrong size");
    }
    std::vector<std::byte> data;
    for (int64_t i = 0; i < (attr.splat ? count : 1); ++i) {
      data.insert(data.end(), attr.bytes.begin(), attr.bytes.end());
    }
    return Array(attr.type->dtype, static_cast<size_t>(count), std::move(data));
  }

  Storage& storage_;
};

}  // namespace

FfiAttributes::FfiAttributes() : storage_(std::make_unique<Storage>()) {}
FfiAttributes::~FfiAttributes() = default;

Result<std::unique_ptr<FfiAttributes>> FfiAttributes::Parse(std::string_view text) {
  std::unique_ptr<FfiAttributes> out(new FfiAttributes);
  const size_t begin = text.find_first_not_of(" \t\r\n");
  Attr empty;
  empty.kind = Attr::Kind::kDict;
  const Attr* attr = &empty;
  if (begin != std::string_view::npos) {
    attr = TRY(hlo::mlir::ReadAttr(text.substr(begin), out->storage_->tree));
    if (attr->kind != Attr::Kind::kDict) {
      return InvalidArgument("custom-call: backend_config is not a dictionary of attributes");
    }
  }
  out->attrs_ = TRY(AttributeBuilder(*out->storage_).Dictionary(*attr, 0));
  return out;
}

std::optional<uint64_t> FfiAttributes::FindInteger(std::string_view name) const {
  for (int64_t i = 0; i < attrs_->size; ++i) {
    if (std::string_view(attrs_->names[i]->ptr, attrs_->names[i]->len) != name) continue;
    if (attrs_->types[i] != XLA_FFI_AttrType_SCALAR) return std::nullopt;
    const auto* scalar = static_cast<const XLA_FFI_Scalar*>(attrs_->attrs[i]);
    switch (scalar->dtype) {
      case XLA_FFI_DataType_S64:
      case XLA_FFI_DataType_U64: return *static_cast<const uint64_t*>(scalar->value);
      case XLA_FFI_DataType_S32:
      case XLA_FFI_DataType_U32: return *static_cast<const uint32_t*>(scalar->value);
      default: return std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace weft::pjrt
