#include "serve/infer_message.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/wire.h"
#include "serve/rest.h"
#include "serve/types.h"

namespace weft::serve {
namespace {

// The messages' fields, by their numbers.
namespace request_field {
enum : uint32_t { kModel = 1, kVersion, kId, kParameters, kInputs, kOutputs, kRaw };
}
namespace response_field {
enum : uint32_t { kModel = 1, kVersion, kId, kParameters, kOutputs, kRaw };
}
namespace tensor_field {
enum : uint32_t { kName = 1, kType, kShape, kParameters, kContents };
}
namespace asked_field {
enum : uint32_t { kName = 1, kParameters };
}
namespace parameter_field {
enum : uint32_t { kBool = 1, kInt, kString, kDouble, kUnsigned };
}
namespace contents_field {
enum : uint32_t { kBool = 1, kInt, kInt64, kUint, kUint64, kF32, kF64 };
}

std::unexpected<Error> NotAMessage() {
  return InvalidArgument("not a ModelInferRequest");
}

struct Parameter {
  std::string_view name;
  std::optional<std::string_view> text;
  int64_t number = 0;
};

Result<Parameter> ReadParameter(std::string_view bytes) {
  Parameter parameter;
  WireReader entry(bytes);
  while (entry.Next()) {
    if (entry.field() == 1) parameter.name = entry.Bytes();
    if (entry.field() != 2) continue;
    WireReader value(entry.Bytes());
    while (value.Next()) {
      if (value.field() == parameter_field::kString) parameter.text = value.Bytes();
      if (value.field() == parameter_field::kInt || value.field() == parameter_field::kUnsigned)
        parameter.number = value.Int();
    }
    if (!value.ok()) return NotAMessage();
  }
  if (!entry.ok()) return NotAMessage();
  return parameter;
}

Status UseParameter(const Parameter& parameter, InferRequest& request) {
  if (parameter.name == "priority") {
    request.priority =
        parameter.text ? TRY(ReadPriority(*parameter.text)) : PriorityFromNumber(parameter.number);
  } else if (parameter.name == "timeout") {
    int64_t micros = std::min<int64_t>(parameter.number, 1'000'000'000'000);
    if (micros > 0)
      request.deadline = std::min(request.deadline, request.received + micros * kMicrosecond);
  } else if (parameter.name == "signature_name") {
    request.graph = parameter.text.value_or("");
  }
  return {};
}

// Of the slice of shared memory that parameters name; without a region: none.
void UseSliceParameter(const Parameter& parameter, SharedSlice& slice) {
  if (parameter.name == "shared_memory_region") slice.region = parameter.text.value_or("");
  if (parameter.name == "shared_memory_offset") slice.offset = parameter.number;
  if (parameter.name == "shared_memory_byte_size") slice.size = parameter.number;
}

struct InputPart {
  std::string_view name, type, contents;
  std::vector<int64_t> dims;
  SharedSlice slice;
};

Result<InputPart> ReadInputPart(std::string_view bytes) {
  InputPart input;
  WireReader reader(bytes);
  while (reader.Next()) {
    switch (reader.field()) {
      case tensor_field::kName: input.name = reader.Bytes(); break;
      case tensor_field::kType: input.type = reader.Bytes(); break;
      case tensor_field::kShape: reader.Ints(input.dims); break;
      case tensor_field::kContents: input.contents = reader.Bytes(); break;
      case tensor_field::kParameters:
        UseSliceParameter(TRY(ReadParameter(reader.Bytes())), input.slice);
        break;
      default: break;
    }
  }
  if (!reader.ok()) return NotAMessage();
  return input;
}

Status ReadAsked(std::string_view bytes, InferRequest& infer, InferReply& reply) {
  std::string_view name;
  SharedSlice slice;
  WireReader reader(bytes);
  while (reader.Next()) {
    if (reader.field() == asked_field::kName) name = reader.Bytes();
    if (reader.field() == asked_field::kParameters)
      UseSliceParameter(TRY(ReadParameter(reader.Bytes())), slice);
  }
  if (!reader.ok()) return NotAMessage();
  infer.outputs.emplace_back(name);
  if (!slice.region.empty()) reply.shared.emplace_back(name, std::move(slice));
  return {};
}

Result<Shape> ShapeOfInput(const InputPart& input) {
  std::optional<DType> type = TypeFromInference(input.type);
  if (!type) return InvalidArgument("unknown datatype ", input.type);
  Shape shape(*type, {});
  if (std::ssize(input.dims) > kMaxRank)
    return InvalidArgument("more than ", kMaxRank, " dimensions");
  for (int64_t size : input.dims) {
    if (size < 0) return InvalidArgument("a dimension of ", size);
    shape.AppendDim(size);
  }
  return shape;
}

template <class To, class From>
Status FillContents(Literal& to, const std::vector<From>& from) {
  std::span<To> values = to.values<To>();
  if (from.size() != values.size()) {
    return InvalidArgument(from.size(), " elements for ", to.shape().ToStringWithoutLayout());
  }
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<To>(from[i]);
  return {};
}

// Elements one by one, in the list of their type.
Status FillTypedContents(Literal& value, std::string_view contents) {
  std::vector<int64_t> lists[contents_field::kUint64 + 1];
  std::vector<float> floats;
  std::vector<double> doubles;
  WireReader reader(contents);
  while (reader.Next()) {
    uint32_t field = reader.field();
    if (field >= contents_field::kBool && field <= contents_field::kUint64) {
      reader.Ints(lists[field]);
    } else if (field == contents_field::kF32) {
      reader.Floats(floats);
    } else if (field == contents_field::kF64) {
      reader.Doubles(doubles);
    }
  }
  if (!reader.ok()) return NotAMessage();
  switch (value.dtype()) {
    case DType::kPred: return FillContents<bool>(value, lists[contents_field::kBool]);
    case DType::kS8: return FillContents<int8_t>(value, lists[contents_field::kInt]);
    case DType::kS16: return FillContents<int16_t>(value, lists[contents_field::kInt]);
    case DType::kS32: return FillContents<int32_t>(value, lists[contents_field::kInt]);
    case DType::kS64: return FillContents<int64_t>(value, lists[contents_field::kInt64]);
    case DType::kU8: return FillContents<uint8_t>(value, lists[contents_field::kUint]);
    case DType::kU16: return FillContents<uint16_t>(value, lists[contents_field::kUint]);
    case DType::kU32: return FillContents<uint32_t>(value, lists[contents_field::kUint]);
    case DType::kU64: return FillContents<uint64_t>(value, lists[contents_field::kUint64]);
    case DType::kF32: return FillContents<float>(value, floats);
    case DType::kF64: return FillContents<double>(value, doubles);
    default: return InvalidArgument(Name(value.dtype()), " is taken as raw_input_contents only");
  }
}

// Whether a program may read these bytes of a message in place.
bool IsReadable(const Shape& shape, std::string_view raw) {
  return !raw.empty() && shape.dtype() != DType::kPred &&
         reinterpret_cast<uintptr_t>(raw.data()) % kReadInPlace == 0;
}

// `raw`: its bytes, in `storage`; none: in the input itself.
Result<Literal> ReadInferInput(const InputPart& input, std::optional<std::string_view> raw,
                               const std::shared_ptr<std::byte[]>& storage) {
  Shape shape = TRY(ShapeOfInput(input));
  std::optional<int64_t> elements = shape.CheckedElements();
  int64_t bytes = 0;
  bool fits = elements && !__builtin_mul_overflow(*elements, ByteWidth(shape.dtype()), &bytes);
  if (!fits || (raw && bytes != static_cast<int64_t>(raw->size()))) {
    return InvalidArgument(raw ? raw->size() : 0, " bytes for ", shape.ToStringWithoutLayout());
  }
  // Lists hold at least a byte for an element: a shape beyond that is wrong before it is allocated.
  if (!raw && *elements > static_cast<int64_t>(input.contents.size())) {
    return InvalidArgument("too few elements for ", shape.ToStringWithoutLayout());
  }
  if (storage != nullptr && raw && IsReadable(shape, *raw)) {
    auto* place = reinterpret_cast<std::byte*>(const_cast<char*>(raw->data()));
    return Literal::FromStorage(shape, std::shared_ptr<std::byte[]>(storage, place));
  }
  Literal value = TRY(Literal::AllocateUnset(shape));
  if (!raw) {
    TRY(FillTypedContents(value, input.contents));
    return value;
  }
  if (bytes > 0) std::memcpy(value.mutable_data(), raw->data(), raw->size());
  if (shape.dtype() == DType::kPred) {
    auto* b = reinterpret_cast<unsigned char*>(value.mutable_data());
    for (int64_t i = 0; i < bytes; ++i) b[i] = b[i] != 0;
  }
  return value;
}

Result<Literal> ReadSharedInput(const InputPart& input, const SharedMemory& memory) {
  return ReadShared(memory, input.slice, TRY(ShapeOfInput(input)));
}

Status AddInputs(const std::vector<InputPart>& inputs, const std::vector<std::string_view>& raw,
                 const SharedMemory& memory, const std::shared_ptr<std::byte[]>& storage,
                 InferRequest& infer) {
  auto shared = [](const InputPart& input) { return !input.slice.region.empty(); };
  const size_t carried = inputs.size() - static_cast<size_t>(std::ranges::count_if(inputs, shared));
  if (!raw.empty() && raw.size() != carried) {
    return InvalidArgument(raw.size(), " raw_input_contents for ", carried,
                           " inputs: all or none are given so");
  }
  size_t next = 0;
  for (const InputPart& input : inputs) {
    std::optional<std::string_view> bytes;
    if (!shared(input) && !raw.empty()) bytes = raw[next++];
    Result<Literal> value =
        shared(input) ? ReadSharedInput(input, memory) : ReadInferInput(input, bytes, storage);
    if (!value) return std::unexpected(value.error().Prefix(StrCat("input ", input.name, ": ")));
    infer.inputs.push_back({std::string(input.name), std::move(*value)});
  }
  return {};
}

// The answer but for the bytes of its tensors.
WireWriter HeadOf(const InferResponse& result, const InferReply& reply) {
  WireWriter head;
  head.Bytes(response_field::kModel, result.model);
  head.Bytes(response_field::kVersion, StrCat(result.version));
  head.Bytes(response_field::kId, reply.id);
  for (const NamedTensor& output : result.outputs) {
    WireWriter tensor;
    const TypeNames* type = FindType(output.value.dtype());
    tensor.Bytes(tensor_field::kName, output.name);
    if (type != nullptr) tensor.Bytes(tensor_field::kType, type->inference);
    const Shape& shape = output.value.shape();
    std::vector<int64_t> dims;
    for (int64_t d = 0; d < shape.rank(); ++d) dims.push_back(shape.dim(d));
    tensor.Ints(tensor_field::kShape, dims);
    for (const auto& [name, slice] : reply.shared) {
      if (name != output.name) continue;
      auto add = [&](std::string_view key, const WireWriter& value) {
        WireWriter entry;
        entry.Bytes(1, key);
        entry.Message(2, value);
        tensor.Message(tensor_field::kParameters, entry);
      };
      WireWriter region, offset, size;
      region.BytesAlways(parameter_field::kString, slice.region);
      offset.IntAlways(parameter_field::kInt, slice.offset);
      size.IntAlways(parameter_field::kInt, output.value.byte_size());
      add("shared_memory_region", region);
      add("shared_memory_offset", offset);
      add("shared_memory_byte_size", size);
    }
    head.Message(response_field::kOutputs, tensor);
  }
  return head;
}

void AppendBytesHead(std::string& out, uint32_t field, size_t count) {
  out += static_cast<char>(field << 3 | 2);
  for (uint64_t size = count;; size >>= 7) {
    bool last = size < 0x80;
    out += static_cast<char>((size & 0x7f) | (last ? 0 : 0x80));
    if (last) break;
  }
}

}  // namespace

Result<ModelQuery> ToModelQuery(std::string_view name, std::string_view version) {
  ModelQuery query{std::string(name)};
  if (version.empty()) return query;
  query.version = ParseInt(version);
  if (!query.version) return InvalidArgument("version '", version, "': not a number");
  return query;
}

Status ReadInferRequest(std::string_view bytes, const SharedMemory& memory, InferRequest& infer,
                        InferReply& reply, const std::shared_ptr<std::byte[]>& storage) {
  std::string_view model, version;
  std::vector<InputPart> inputs;
  std::vector<std::string_view> raw;
  WireReader reader(bytes);
  while (reader.Next()) {
    switch (reader.field()) {
      case request_field::kModel: model = reader.Bytes(); break;
      case request_field::kVersion: version = reader.Bytes(); break;
      case request_field::kId: reply.id = reader.Bytes(); break;
      case request_field::kParameters:
        TRY(UseParameter(TRY(ReadParameter(reader.Bytes())), infer));
        break;
      case request_field::kInputs: inputs.push_back(TRY(ReadInputPart(reader.Bytes()))); break;
      case request_field::kOutputs: TRY(ReadAsked(reader.Bytes(), infer, reply)); break;
      case request_field::kRaw: raw.push_back(reader.Bytes()); break;
      default: break;
    }
  }
  if (!reader.ok()) return NotAMessage();
  infer.model = TRY(ToModelQuery(model, version));
  return AddInputs(inputs, raw, memory, storage, infer);
}

Result<Message> WriteInferResponse(const InferResponse& result, const InferReply& reply,
                                   const SharedMemory& memory, size_t prefix) {
  WireWriter head = HeadOf(result, reply);
  constexpr size_t kMostOfTag = 11;
  size_t size = prefix + head.str().size();
  for (const NamedTensor& output : result.outputs) {
    const size_t bytes = static_cast<size_t>(output.value.byte_size());
    size += (bytes < kWorthKeeping ? bytes : 0) + kMostOfTag;
  }
  Message message;
  std::string& out = message.text;
  out.reserve(size);
  out.resize(prefix);
  out += head.str();
  for (const NamedTensor& output : result.outputs) {
    auto shared = std::ranges::find(reply.shared, output.name,
                                    [](auto& entry) -> const auto& { return entry.first; });
    const size_t bytes = static_cast<size_t>(output.value.byte_size());
    std::string_view raw(reinterpret_cast<const char*>(output.value.data()), bytes);
    if (shared != reply.shared.end()) {
      TRY(memory.Write(shared->second, {output.value.data(), bytes}));
      raw = {};  // empty: clients count them as they count outputs
    }
    AppendBytesHead(out, response_field::kRaw, raw.size());
    if (raw.size() < kWorthKeeping) {
      out += raw;
    } else {
      message.slices.push_back({out.size(), output.value.storage(), raw});
    }
  }
  return message;
}

}  // namespace weft::serve
