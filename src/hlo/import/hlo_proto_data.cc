// Shapes, literals and metadata of xla_data.proto.
#include <algorithm>
#include <cstring>

#include "base/wire.h"
#include "hlo/import/hlo_proto.h"

namespace weft::hlo {
namespace {

// By their number in XLA's PrimitiveType.
constexpr DType kProtoTypes[] = {
    DType::kInvalid,    DType::kPred,       DType::kS8,     DType::kS16,
    DType::kS32,        DType::kS64,        DType::kU8,     DType::kU16,
    DType::kU32,        DType::kU64,        DType::kF16,    DType::kF32,
    DType::kF64,        DType::kTuple,      DType::kOpaque, DType::kC64,
    DType::kBF16,       DType::kToken,      DType::kC128,   DType::kF8E5M2,
    DType::kF8E4M3FN,   DType::kS4,         DType::kU4,     DType::kF8E4M3B11FNUZ,
    DType::kF8E5M2FNUZ, DType::kF8E4M3FNUZ, DType::kS2,     DType::kU2,
    DType::kF8E4M3,     DType::kF8E3M4,     DType::kS1,     DType::kU1,
    DType::kF4E2M1FN,   DType::kF8E8M0FNU,  DType::kBuffer, DType::kF6E3M2FN,
    DType::kF6E2M3FN};

Result<Layout> ReadLayout(std::string_view bytes) {
  WireReader reader(bytes);
  Layout layout;
  std::vector<int64_t> order;
  LayoutExtras extras;
  bool has_extras = false;
  while (reader.Next()) {
    switch (reader.field()) {
      case 1: reader.Ints(order); break;
      case 6: {
        WireReader tile(reader.Bytes());
        std::vector<int64_t> dims;
        while (tile.Next()) {
          if (tile.field() == 1) tile.Ints(dims);
        }
        if (!tile.ok()) return MalformedProto("TileProto");
        extras.tiles.push_back({.dims = InlineVec<int64_t, 4>(dims)});
        has_extras = true;
        break;
      }
      case 7: extras.element_bits = reader.Int(), has_extras |= extras.element_bits != 0; break;
      case 8: extras.memory_space = reader.Int(), has_extras |= extras.memory_space != 0; break;
      case 16: {
        int64_t alignment = reader.Int();
        if (alignment > 1) extras.tail_padding_alignment = alignment, has_extras = true;
        break;
      }
      default: break;
    }
  }
  if (!reader.ok()) return MalformedProto("LayoutProto");
  layout.minor_to_major = Dims(order);
  if (has_extras) layout.extras.Make() = std::move(extras);
  return layout;
}

Result<Shape> ReadShapeAt(std::string_view bytes, int depth) {
  if (depth > kMaxProtoDepth) return InvalidArgument("shape nested too deep");
  WireReader reader(bytes);
  DType dtype = DType::kInvalid;
  std::vector<int64_t> dims, dynamic;
  std::vector<Shape> elements;
  std::optional<Layout> layout;
  while (reader.Next()) {
    switch (reader.field()) {
      case 2: dtype = DTypeOfProto(reader.Varint()); break;
      case 3: reader.Ints(dims); break;
      case 4: elements.push_back(TRY(ReadShapeAt(reader.Bytes(), depth + 1))); break;
      case 5: layout = TRY(ReadLayout(reader.Bytes())); break;
      case 6: reader.Ints(dynamic); break;
      default: break;
    }
  }
  if (!reader.ok()) return MalformedProto("ShapeProto");
  if (dtype == DType::kTuple) return Shape::Tuple(std::move(elements));
  if (dtype == DType::kToken) return Shape::Token();
  if (dtype == DType::kOpaque) return Shape::Opaque();
  if (dtype == DType::kBuffer) {
    if (elements.size() != 1) return InvalidArgument("a buffer without its shape");
    return Shape::Buffer(std::move(elements[0]));
  }
  if (dtype == DType::kInvalid) return InvalidArgument("a shape of an unknown element type");
  if (dims.size() > static_cast<size_t>(kMaxRank) || dynamic.size() > dims.size()) {
    return InvalidArgument("a shape of ", dims.size(), " dimensions");
  }
  Shape shape(dtype, dims);
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0 && dims[i] != Shape::kUnbounded) {
      return InvalidArgument("a shape with a dimension of size ", dims[i]);
    }
    bool is_dynamic = i < dynamic.size() && dynamic[i] != 0;
    shape.set_dynamic(static_cast<int64_t>(i), is_dynamic || dims[i] == Shape::kUnbounded);
  }
  // Scalars are written without a layout.
  if (layout && (!dims.empty() || layout->extras)) {
    std::vector<int64_t> order(layout->minor_to_major.begin(), layout->minor_to_major.end());
    std::sort(order.begin(), order.end());
    for (size_t i = 0; i < order.size(); ++i) {
      if (order[i] != static_cast<int64_t>(i)) order.clear();
    }
    if (order.size() != dims.size()) return InvalidArgument("a layout that is no permutation");
    shape.set_layout(std::move(*layout));
  }
  return shape;
}

template <class To, class From>
bool CopyNumbers(const std::vector<From>& from, Literal& literal) {
  size_t width = static_cast<size_t>(ByteWidth(literal.shape().dtype()));
  size_t count = static_cast<size_t>(literal.shape().elements());
  if (from.size() * sizeof(To) != count * width) return false;
  std::byte* to = literal.mutable_data();
  for (size_t i = 0; i < from.size(); ++i) {
    To value = static_cast<To>(from[i]);
    std::memcpy(to + i * sizeof(To), &value, sizeof(To));
  }
  return true;
}

// The bits above an element's own are its sign's, or zero.
void ExtendSubBytes(DType dtype, std::byte* data, size_t count) {
  int shift = 8 - BitWidth(dtype);
  for (size_t i = 0; i < count; ++i) {
    auto raw = static_cast<uint8_t>(static_cast<uint8_t>(data[i]) << shift);
    data[i] = IsSigned(dtype) ? static_cast<std::byte>(static_cast<int8_t>(raw) >> shift)
                              : static_cast<std::byte>(raw >> shift);
  }
}

// The elements of an array from the fields that hold them.
Result<Literal> ReadArray(const Shape& shape, std::string_view bytes) {
  DType dtype = shape.dtype();
  if (const Layout* layout = shape.layout(); layout != nullptr && !layout->IsRowMajor()) {
    return Unimplemented("a literal that is not row-major: ", shape);
  }
  std::vector<int64_t> ints;
  std::vector<float> floats;
  std::vector<double> doubles;
  std::string_view raw;
  WireReader reader(bytes);
  uint32_t bytes_field = LiteralBytesField(dtype), numbers_field = LiteralNumbersField(dtype);
  while (reader.Next()) {
    if (bytes_field != 0 && reader.field() == bytes_field) raw = reader.Bytes();
    if (numbers_field == 0 || reader.field() != numbers_field) continue;
    if (dtype == DType::kF32 || dtype == DType::kC64) {
      reader.Floats(floats);
    } else if (dtype == DType::kF64 || dtype == DType::kC128) {
      reader.Doubles(doubles);
    } else {
      reader.Ints(ints);
    }
  }
  if (!reader.ok()) return MalformedProto("LiteralProto");
  std::optional<int64_t> count = shape.CheckedElements();
  if (!count || *count / 8 > static_cast<int64_t>(bytes.size())) {
    return InvalidArgument("a literal with fewer elements than ", shape);
  }
  Shape plain = shape;
  plain.ClearLayout();
  // Elements of less than a byte: one to a byte, or packed.
  if (IsSubByte(dtype) && static_cast<int64_t>(raw.size()) != *count) {
    return Literal::Unpack(plain, std::as_bytes(std::span(raw)));
  }
  Literal literal = TRY(Literal::Allocate(plain));
  bool fits = false;
  if (bytes_field != 0) {
    fits = static_cast<int64_t>(raw.size()) == *count * ByteWidth(dtype);
    if (fits && !raw.empty()) std::memcpy(literal.mutable_data(), raw.data(), raw.size());
    if (fits && IsSubByte(dtype)) ExtendSubBytes(dtype, literal.mutable_data(), raw.size());
  } else if (!floats.empty() || dtype == DType::kF32 || dtype == DType::kC64) {
    fits = CopyNumbers<float>(floats, literal);
  } else if (dtype == DType::kF64 || dtype == DType::kC128) {
    fits = CopyNumbers<double>(doubles, literal);
  } else if (dtype == DType::kPred) {
    for (int64_t& value : ints) value = value != 0;
    fits = CopyNumbers<uint8_t>(ints, literal);
  } else if (ByteWidth(dtype) == 4) {
    fits = CopyNumbers<uint32_t>(ints, literal);
  } else {
    fits = CopyNumbers<uint64_t>(ints, literal);
  }
  if (!fits) return InvalidArgument("a literal with another number of elements than ", shape);
  return literal;
}

Result<Literal> ReadLiteralAt(std::string_view bytes, int depth) {
  if (depth > kMaxProtoDepth) return InvalidArgument("literal nested too deep");
  WireReader reader(bytes);
  Shape shape;
  std::vector<Literal> elements;
  while (reader.Next()) {
    if (reader.field() == 1) shape = TRY(ReadShapeProto(reader.Bytes()));
    if (reader.field() == 10) elements.push_back(TRY(ReadLiteralAt(reader.Bytes(), depth + 1)));
    if (reader.field() == 34) return Unimplemented("a literal with dynamic sizes");
  }
  if (!reader.ok()) return MalformedProto("LiteralProto");
  if (shape.IsTuple()) {
    if (elements.size() != shape.elements_of_tuple().size()) {
      return InvalidArgument("a tuple literal with ", elements.size(), " elements for ", shape);
    }
    return Literal::Tuple(std::move(elements));
  }
  if (shape.IsToken()) return Literal::Token();
  if (!shape.IsArray()) return InvalidArgument("a literal without a shape");
  return ReadArray(shape, bytes);
}

}  // namespace

DType DTypeOfProto(uint64_t value) {
  return value < std::size(kProtoTypes) ? kProtoTypes[value] : DType::kInvalid;
}

uint64_t ProtoOfDType(DType dtype) {
  return static_cast<uint64_t>(std::ranges::find(kProtoTypes, dtype) - std::begin(kProtoTypes));
}

uint32_t LiteralBytesField(DType dtype) {
  switch (dtype) {
    case DType::kS8: return 15;
    case DType::kU8: return 3;
    case DType::kF16: return 11;
    case DType::kBF16: return 13;
    case DType::kU16: return 16;
    case DType::kS16: return 17;
    case DType::kS1: return 30;
    case DType::kS2: return 26;
    case DType::kS4: return 21;
    case DType::kU1: return 31;
    case DType::kU2: return 27;
    case DType::kU4: return 22;
    case DType::kF4E2M1FN: return 32;
    case DType::kF8E3M4: return 29;
    case DType::kF8E4M3B11FNUZ: return 23;
    case DType::kF8E4M3FN: return 20;
    case DType::kF8E4M3FNUZ: return 25;
    case DType::kF8E4M3: return 28;
    case DType::kF8E5M2FNUZ: return 24;
    case DType::kF8E5M2: return 19;
    case DType::kF8E8M0FNU: return 33;
    case DType::kF6E3M2FN: return 35;
    case DType::kF6E2M3FN: return 36;
    default: return 0;
  }
}

uint32_t LiteralNumbersField(DType dtype) {
  switch (dtype) {
    case DType::kPred: return 2;
    case DType::kS32: return 4;
    case DType::kS64: return 5;
    case DType::kU32: return 6;
    case DType::kU64: return 7;
    case DType::kF32: return 8;
    case DType::kF64: return 9;
    case DType::kC64: return 12;
    case DType::kC128: return 18;
    default: return 0;
  }
}

std::unexpected<Error> MalformedProto(std::string_view message) {
  return InvalidArgument("HLO proto: the bytes of a ", message, " are malformed");
}

Result<Shape> ReadShapeProto(std::string_view bytes) {
  return ReadShapeAt(bytes, 0);
}

Result<Literal> ReadLiteralProto(std::string_view bytes) {
  return ReadLiteralAt(bytes, 0);
}

Result<Metadata> ReadMetadataProto(std::string_view bytes) {
  Metadata metadata;
  WireReader reader(bytes);
  while (reader.Next()) {
    switch (reader.field()) {
      case 1: metadata.op_type = reader.Bytes(); break;
      case 2: metadata.op_name = reader.Bytes(); break;
      case 3: metadata.source_file = reader.Bytes(); break;
      case 4: metadata.source_line = static_cast<int32_t>(reader.Varint()); break;
      case 5: reader.Ints(metadata.profile_type); break;
      case 12: metadata.deduplicated_name = reader.Bytes(); break;
      case 15: metadata.stack_frame_id = static_cast<int32_t>(reader.Varint()); break;
      case 16: metadata.scheduling_name = reader.Bytes(); break;
      case 17: metadata.source_end_line = static_cast<int32_t>(reader.Varint()); break;
      case 18: metadata.source_column = static_cast<int32_t>(reader.Varint()); break;
      case 19: metadata.source_end_column = static_cast<int32_t>(reader.Varint()); break;
      default: break;
    }
  }
  if (!reader.ok()) return MalformedProto("OpMetadata");
  return metadata;
}

Result<FrontendAttributes> ReadFrontendAttributesProto(std::string_view bytes) {
  FrontendAttributes attributes;
  WireReader reader(bytes);
  while (reader.Next()) {
    if (reader.field() != 1) continue;
    FrontendAttribute& attribute = attributes.emplace_back();
    WireReader entry(reader.Bytes());
    while (entry.Next()) {
      if (entry.field() == 1) attribute.key = entry.Bytes();
      if (entry.field() == 2) attribute.value = entry.Bytes();
    }
    if (!entry.ok()) return MalformedProto("FrontendAttributes");
    attribute.is_dict = attribute.value.starts_with('{') && attribute.value.ends_with('}');
  }
  if (!reader.ok()) return MalformedProto("FrontendAttributes");
  std::ranges::sort(attributes, {}, &FrontendAttribute::key);
  return attributes;
}

}  // namespace weft::hlo
