// The table of functions, errors, and what all slots share.
#include "pjrt/api.h"

#include <algorithm>

#include "base/log.h"
#include "client/strided.h"
#include "pjrt/ffi/ffi.h"

namespace weft::pjrt {

// --- Values in the form of C --------------------------------------------------------------------

PJRT_NamedValue& NamedValues::New(std::string_view name, PJRT_NamedValue_Type type) {
  const std::string& kept = strings_.emplace_back(name);
  PJRT_NamedValue& value = values_.emplace_back();
  value = {};
  value.struct_size = sizeof(PJRT_NamedValue);
  value.name = kept.data();
  value.name_size = kept.size();
  value.type = type;
  value.value_size = 1;
  return value;
}
void NamedValues::Add(std::string_view name, std::string_view text) {
  PJRT_NamedValue& value = New(name, PJRT_NamedValue_kString);
  const std::string& kept = strings_.emplace_back(text);
  value.string_value = kept.data();
  value.value_size = kept.size();
}
void NamedValues::Add(std::string_view name, int64_t number) {
  New(name, PJRT_NamedValue_kInt64).int64_value = number;
}
void NamedValues::Add(std::string_view name, std::vector<int64_t> list) {
  PJRT_NamedValue& value = New(name, PJRT_NamedValue_kInt64List);
  const std::vector<int64_t>& kept = lists_.emplace_back(std::move(list));
  value.int64_array_value = kept.data();
  value.value_size = kept.size();
}
void NamedValues::AddFloat(std::string_view name, double number) {
  New(name, PJRT_NamedValue_kFloat).float_value = static_cast<float>(number);
}

StringList::StringList(std::vector<std::string> list) : strings(std::move(list)) {
  for (const std::string& s : strings) {
    addresses.push_back(s.data());
    sizes.push_back(s.size());
  }
}

namespace {

struct BufferTypeRow {
  PJRT_Buffer_Type type;
  DType dtype;
};
constexpr BufferTypeRow kBufferTypes[] = {
    {PJRT_Buffer_Type_PRED, DType::kPred},
    {PJRT_Buffer_Type_S8, DType::kS8},
    {PJRT_Buffer_Type_S16, DType::kS16},
    {PJRT_Buffer_Type_S32, DType::kS32},
    {PJRT_Buffer_Type_S64, DType::kS64},
    {PJRT_Buffer_Type_U8, DType::kU8},
    {PJRT_Buffer_Type_U16, DType::kU16},
    {PJRT_Buffer_Type_U32, DType::kU32},
    {PJRT_Buffer_Type_U64, DType::kU64},
    {PJRT_Buffer_Type_F16, DType::kF16},
    {PJRT_Buffer_Type_F32, DType::kF32},
    {PJRT_Buffer_Type_F64, DType::kF64},
    {PJRT_Buffer_Type_BF16, DType::kBF16},
    {PJRT_Buffer_Type_C64, DType::kC64},
    {PJRT_Buffer_Type_C128, DType::kC128},
    {PJRT_Buffer_Type_F8E5M2, DType::kF8E5M2},
    {PJRT_Buffer_Type_F8E4M3FN, DType::kF8E4M3FN},
    {PJRT_Buffer_Type_F8E4M3B11FNUZ, DType::kF8E4M3B11FNUZ},
    {PJRT_Buffer_Type_F8E5M2FNUZ, DType::kF8E5M2FNUZ},
    {PJRT_Buffer_Type_F8E4M3FNUZ, DType::kF8E4M3FNUZ},
    {PJRT_Buffer_Type_S4, DType::kS4},
    {PJRT_Buffer_Type_U4, DType::kU4},
    {PJRT_Buffer_Type_TOKEN, DType::kToken},
    {PJRT_Buffer_Type_S2, DType::kS2},
    {PJRT_Buffer_Type_U2, DType::kU2},
    {PJRT_Buffer_Type_F8E4M3, DType::kF8E4M3},
    {PJRT_Buffer_Type_F8E3M4, DType::kF8E3M4},
    {PJRT_Buffer_Type_F8E8M0FNU, DType::kF8E8M0FNU},
    {PJRT_Buffer_Type_F4E2M1FN, DType::kF4E2M1FN},
    {PJRT_Buffer_Type_S1, DType::kS1},
    {PJRT_Buffer_Type_U1, DType::kU1},
    {PJRT_Buffer_Type_F6E2M3FN, DType::kF6E2M3FN},
    {PJRT_Buffer_Type_F6E3M2FN, DType::kF6E3M2FN},
};

// A row-major layout is not kept: it is what an absent one means.
Status SetLayout(Shape& shape, const PJRT_Buffer_MemoryLayout& layout) {
  if (layout.type != PJRT_Buffer_MemoryLayout_Type_Tiled) {
    return Unimplemented("PJRT: device layouts given by strides");
  }
  const PJRT_Buffer_MemoryLayout_Tiled& tiled = layout.tiled;
  if (tiled.num_tiles != 0) return Unimplemented("PJRT: tiled device layouts");
  if (static_cast<int64_t>(tiled.minor_to_major_size) != shape.rank()) {
    return InvalidArgument("PJRT: a layout of ", tiled.minor_to_major_size,
                           " dimensions for an array of ", shape.rank());
  }
  Layout kept;
  uint64_t seen = 0;
  for (size_t i = 0; i < tiled.minor_to_major_size; ++i) {
    const int64_t d = tiled.minor_to_major[i];
    if (d < 0 || d >= shape.rank() || (seen >> d & 1) != 0) {
      return InvalidArgument("PJRT: minor_to_major is no permutation of the dimensions");
    }
    seen |= uint64_t{1} << d;
    kept.minor_to_major.push_back(d);
  }
  if (!kept.IsRowMajor()) shape.set_layout(std::move(kept));
  return {};
}

}  // namespace

DType ToDType(int32_t type) {
  for (const BufferTypeRow& row : kBufferTypes) {
    if (row.type == type) return row.dtype;
  }
  return DType::kInvalid;
}
PJRT_Buffer_Type ToBufferType(DType dtype) {
  for (const BufferTypeRow& row : kBufferTypes) {
    if (row.dtype == dtype) return row.type;
  }
  return PJRT_Buffer_Type_INVALID;
}

Result<Shape> ToShape(int32_t type, const int64_t* dims, size_t num_dims,
                      const PJRT_Buffer_MemoryLayout* layout) {
  const DType dtype = ToDType(type);
  if (dtype == DType::kToken) return Shape::Token();
  if (!IsArrayType(dtype)) return InvalidArgument("PJRT: unknown element type ", type);
  if (num_dims > static_cast<size_t>(kMaxRank)) {
    return InvalidArgument("PJRT: an array of ", num_dims, " dimensions; at most ", kMaxRank);
  }
  if (num_dims != 0) TRY(CheckNotNull(dims, "dims"));
  Shape shape(dtype, std::span(dims, num_dims));
  for (size_t i = 0; i < num_dims; ++i) {
    if (dims[i] < 0) return InvalidArgument("PJRT: dimension ", i, " is ", dims[i]);
  }
  if (!shape.CheckedElements() || shape.ByteSize() > (int64_t{1} << 48)) {
    return InvalidArgument("PJRT: ", shape, " is too large");
  }
  if (layout != nullptr) TRY(SetLayout(shape, *layout));
  return shape;
}

Result<std::vector<int64_t>> ToByteStrides(const Shape& shape,
                                           const PJRT_Buffer_MemoryLayout* layout) {
  if (layout == nullptr) return std::vector<int64_t>();
  const size_t rank = static_cast<size_t>(shape.rank());
  if (layout->type == PJRT_Buffer_MemoryLayout_Type_Strides) {
    if (layout->strides.num_byte_strides != rank) {
      return InvalidArgument("PJRT: ", layout->strides.num_byte_strides, " strides for ", shape);
    }
    return std::vector<int64_t>(layout->strides.byte_strides, layout->strides.byte_strides + rank);
  }
  Shape ordered = shape;
  ordered.ClearLayout();
  TRY(SetLayout(ordered, *layout));
  if (ordered.layout() == nullptr) return std::vector<int64_t>();
  const Dims strides = client::LayoutStrides(ordered);
  return std::vector<int64_t>(strides.begin(), strides.end());
}

Result<Memory*> ToMemory(PJRT_Memory* memory, PJRT_Device* device) {
  if (memory != nullptr) return Object(memory)->memory;
  if (device != nullptr) return device->device->default_memory();
  return InvalidArgument("PJRT: neither a memory nor a device was given");
}

// --- Errors -------------------------------------------------------------------------------------

PJRT_Error* ToC(Error error) {
  return new ErrorObject(std::move(error));
}

PJRT_Event* DoneEvent() {
  // Never destroyed: threads may use it until the very end.
  static PJRT_Event* const done = new PJRT_Event{Event::Done()};
  return done;
}

PJRT_Event* ToC(EventRef event) {
  return event == DoneEvent()->event ? DoneEvent() : new PJRT_Event{std::move(event)};
}

Error FromC(int32_t code, const char* message, size_t message_size) {
  const bool known = code > 0 && code <= static_cast<int32_t>(Code::kUnauthenticated);
  return Error(known ? static_cast<Code>(code) : Code::kUnknown,
               std::string(ToView(message, message_size)));
}

namespace slot {

Status Error_GetCode(PJRT_Error_GetCode_Args& args) {
  args.code = PJRT_Error_Code_UNKNOWN;
  REQUIRE_ARG(error);
  const Error& error = static_cast<const ErrorObject*>(args.error)->error;
  args.code = static_cast<PJRT_Error_Code>(error.code());
  return {};
}
// Our errors carry no payloads.
Status Error_ForEachPayload(PJRT_Error_ForEachPayload_Args&) {
  return {};
}

}  // namespace slot

namespace {

void ErrorDestroy(PJRT_Error_Destroy_Args* args) {
  if (args != nullptr) delete static_cast<ErrorObject*>(args->error);
}
void ErrorMessage(PJRT_Error_Message_Args* args) {
  if (args == nullptr) return;
  const auto* error = static_cast<const ErrorObject*>(args->error);
  args->message = error == nullptr ? "" : error->text.data();
  args->message_size = error == nullptr ? 0 : error->text.size();
}

PJRT_Api MakeApi() {
  DoForeignCalls();
  PJRT_Api api{};
  api.struct_size = sizeof(PJRT_Api);
  api.extension_start = Extensions();
  api.pjrt_api_version = {sizeof(PJRT_Api_Version), nullptr, kPjrtMajor, kPjrtMinor};
  api.PJRT_Error_Destroy = ErrorDestroy;
  api.PJRT_Error_Message = ErrorMessage;
#define SLOT(name) api.PJRT_##name = Slot<&slot::name>::Call;
#include "pjrt/abi/abi_slots.inc"
#undef SLOT
  return api;
}

}  // namespace

const PJRT_Api* GetApi() {
  static const PJRT_Api api = MakeApi();
  return &api;
}

// --- The plugin ---------------------------------------------------------------------------------

namespace slot {

Status Plugin_Initialize(PJRT_Plugin_Initialize_Args&) {
  return {};
}

// A framework lowers to the StableHLO version named here, whatever newer one it speaks.
Status Plugin_Attributes(PJRT_Plugin_Attributes_Args& args) {
  static const NamedValues* const attributes = [] {
    auto* values = new NamedValues;
    values->Add("xla_version", int64_t{2});
    values->Add("stablehlo_current_version", std::vector<int64_t>{1, 16, 0});
    values->Add("stablehlo_minimum_version", std::vector<int64_t>{0, 9, 0});
    return values;
  }();
  args.attributes = attributes->data();
  args.num_attributes = attributes->size();
  return {};
}

}  // namespace slot
}  // namespace weft::pjrt

extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  return weft::pjrt::GetApi();
}
