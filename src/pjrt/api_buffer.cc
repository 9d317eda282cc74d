// Slots of buffers.
#include <algorithm>
#include <array>
#include <cstring>

#include "client/interrupt.h"
#include "client/wait_habit.h"
#include "pjrt/api.h"
#include "pjrt/ffi/ffi.h"

PJRT_Buffer::PJRT_Buffer(PJRT_Client* client, std::unique_ptr<weft::pjrt::Buffer> b)
    : client(client), buffer(std::move(b)) {
  const weft::pjrt::Memory* in = buffer->memory();
  memory = in->client() == client->client.get() ? client->Wrap(in) : client->memory_list[0];
  device = weft::pjrt::Object(memory)->devices[0];
  const weft::Shape& shape = buffer->shape();
  if (!shape.HasDynamicDims()) return;
  for (int64_t i = 0; i < shape.rank(); ++i) {
    if (shape.is_dynamic(i)) dynamic_dims.push_back(i);
  }
}

namespace weft::pjrt {
namespace {

// rank - 1, ..., 0: for who is shown an array without a layout of its own.
const int64_t* RowMajorOrder(int64_t rank) {
  static const auto orders = [] {
    std::array<int64_t, kMaxRank> all;
    for (int64_t i = 0; i < kMaxRank; ++i) all[static_cast<size_t>(i)] = kMaxRank - 1 - i;
    return all;
  }();
  return orders.data() + (kMaxRank - rank);
}

// `to` becomes what `from` is, under its own shape.
void ForwardArray(const ArrayRef& from, const ArrayRef& to) {
  from->defined()->OnReady([from, to](const Status& status) {
    if (!status) {
      to->Fulfil(std::unexpected(status.error()));
    } else if (from->device != nullptr) {
      to->Define(from->device, from->ready);
    } else if (Shape::Compatible(from->shape, to->shape)) {
      to->Fulfil(from->value);
    } else {
      to->Fulfil(from->value.WithShape(to->shape));
    }
  });
}

}  // namespace

namespace slot {

// --- New buffers --------------------------------------------------------------------------------

Status Client_BufferFromHostBuffer(PJRT_Client_BufferFromHostBuffer_Args& args) {
  args.buffer = nullptr;
  args.done_with_host_buffer = nullptr;
  REQUIRE_ARG(client);
  HostArray host;
  host.shape = TRY(ToShape(args.type, args.dims, args.num_dims, args.device_layout));
  if (host.shape.elements() != 0) REQUIRE_ARG(data);
  host.data = args.data;
  if (args.byte_strides != nullptr && args.num_byte_strides != 0) {
    if (args.num_byte_strides != args.num_dims) {
      return InvalidArgument("PJRT_Client_BufferFromHostBuffer: ", args.num_byte_strides,
                             " strides for ", host.shape);
    }
    host.byte_strides = std::span(args.byte_strides, args.num_byte_strides);
  }
  if (args.host_buffer_semantics < 0 || args.host_buffer_semantics > 3) {
    return InvalidArgument("PJRT_Client_BufferFromHostBuffer: unknown semantics ",
                           static_cast<int>(args.host_buffer_semantics));
  }
  host.semantics = static_cast<HostSemantics>(args.host_buffer_semantics);
  Memory* memory = TRY(ToMemory(args.memory, args.device));
  EventRef done;
  std::unique_ptr<Buffer> buffer = TRY(BufferFromHost(memory, host, &done));
  args.buffer = new PJRT_Buffer(args.client, std::move(buffer));
  args.done_with_host_buffer = ToC(done == nullptr ? Event::Done() : std::move(done));
  return {};
}
Status Client_CreateViewOfDeviceBuffer(PJRT_Client_CreateViewOfDeviceBuffer_Args& args) {
  args.buffer = nullptr;
  REQUIRE_ARG(client);
  Shape shape = TRY(ToShape(args.element_type, args.dims, args.num_dims, args.layout));
  if (shape.layout() != nullptr) return Unimplemented("PJRT: views that are not row-major");
  if (shape.elements() != 0) REQUIRE_ARG(device_buffer_ptr);
  Memory* memory = TRY(ToMemory(HAS_FIELD(args, memory) ? args.memory : nullptr, args.device));
  std::function<void()> on_delete;
  if (args.on_delete_callback != nullptr) {
    on_delete = [callback = args.on_delete_callback, data = args.device_buffer_ptr,
                 arg = args.on_delete_callback_arg] { callback(data, arg); };
  }
  std::unique_ptr<Buffer> buffer =
      TRY(BufferFromView(memory, std::move(shape), args.device_buffer_ptr, std::move(on_delete),
                         reinterpret_cast<void*>(args.stream)));
  args.buffer = new PJRT_Buffer(args.client, std::move(buffer));
  return {};
}
Status Client_CreateUninitializedBuffer(PJRT_Client_CreateUninitializedBuffer_Args& args) {
  args.buffer = nullptr;
  REQUIRE_ARG(client);
  Shape shape = TRY(
      ToShape(args.shape_element_type, args.shape_dims, args.shape_num_dims, args.shape_layout));
  Memory* memory = TRY(ToMemory(args.memory, args.device));
  std::unique_ptr<Buffer> buffer = TRY(UninitializedBuffer(memory, std::move(shape)));
  args.buffer = new PJRT_Buffer(args.client, std::move(buffer));
  return {};
}
Status Client_CreateErrorBuffer(PJRT_Client_CreateErrorBuffer_Args& args) {
  args.buffer = nullptr;
  REQUIRE_ARG(client);
  Shape shape = TRY(
      ToShape(args.shape_element_type, args.shape_dims, args.shape_num_dims, args.shape_layout));
  Memory* memory = TRY(ToMemory(args.memory, nullptr));
  args.buffer = new PJRT_Buffer(args.client, ErrorBuffer(memory, std::move(shape),
                                                         FromC(args.error_code, args.error_message,
                                                               args.error_message_size)));
  return {};
}
Status Client_CreateAliasBuffer(PJRT_Client_CreateAliasBuffer_Args& args) {
  args.alias_buffer = nullptr;
  args.fulfill_alias_buffer_cb = nullptr;
  REQUIRE_ARG(client);
  Shape shape = TRY(
      ToShape(args.shape_element_type, args.shape_dims, args.shape_num_dims, args.shape_layout));
  Memory* memory = TRY(ToMemory(args.memory, nullptr));
  auto array = std::make_shared<Array>(std::move(shape), memory);
  args.alias_buffer =
      new PJRT_Buffer(args.client, std::make_unique<Buffer>(args.client->client.get(), array));
  args.fulfill_alias_buffer_cb = new PJRT_FulfillAliasBufferCallback{std::move(array)};
  return {};
}
Status Client_FulfillAliasBuffer(PJRT_Client_FulfillAliasBuffer_Args& args) {
  REQUIRE_ARG(fulfill_alias_buffer_cb);
  std::unique_ptr<PJRT_FulfillAliasBufferCallback> alias(args.fulfill_alias_buffer_cb);
  Result<ArrayRef> from = InvalidArgument("PJRT_Client_FulfillAliasBuffer: buffer is null");
  if (args.status_code != PJRT_Error_Code_OK) {
    from = std::unexpected(FromC(args.status_code, args.error_message, args.error_message_size));
  } else if (args.buffer != nullptr) {
    from = args.buffer->buffer->Get();
    if (from && !Shape::Compatible((*from)->shape, alias->array->shape)) {
      from = InvalidArgument("PJRT_Client_FulfillAliasBuffer: ", (*from)->shape, " for ",
                             alias->array->shape);
    }
  }
  if (from) {
    ForwardArray(*from, alias->array);
    return {};
  }
  alias->array->Fulfil(std::unexpected(from.error()));
  if (args.status_code != PJRT_Error_Code_OK) return {};
  return std::unexpected(from.error());
}

Status Buffer_Destroy(PJRT_Buffer_Destroy_Args& args) {
  delete args.buffer;
  return {};
}

// --- What they are ------------------------------------------------------------------------------

Status Buffer_ElementType(PJRT_Buffer_ElementType_Args& args) {
  REQUIRE_ARG(buffer);
  args.type = ToBufferType(args.buffer->buffer->shape().dtype());
  return {};
}
Status Buffer_Dimensions(PJRT_Buffer_Dimensions_Args& args) {
  REQUIRE_ARG(buffer);
  const Dims& dims = args.buffer->buffer->shape().dims();
  args.dims = dims.data();
  args.num_dims = dims.size();
  return {};
}
Status Buffer_UnpaddedDimensions(PJRT_Buffer_UnpaddedDimensions_Args& args) {
  REQUIRE_ARG(buffer);
  const Dims& dims = args.buffer->buffer->shape().dims();
  args.unpadded_dims = dims.data();
  args.num_dims = dims.size();
  return {};
}
Status Buffer_DynamicDimensionIndices(PJRT_Buffer_DynamicDimensionIndices_Args& args) {
  REQUIRE_ARG(buffer);
  args.dynamic_dim_indices = args.buffer->dynamic_dims.data();
  args.num_dynamic_dims = args.buffer->dynamic_dims.size();
  return {};
}
Status Buffer_GetMemoryLayout(PJRT_Buffer_GetMemoryLayout_Args& args) {
  REQUIRE_ARG(buffer);
  args.layout = {};
  args.layout.struct_size = sizeof(args.layout);
  args.layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  args.layout.tiled = {};
  args.layout.tiled.struct_size = sizeof(args.layout.tiled);
  const Shape& shape = args.buffer->buffer->shape();
  args.layout.tiled.minor_to_major = shape.layout() != nullptr
                                         ? shape.layout()->minor_to_major.data()
                                         : RowMajorOrder(shape.rank());
  args.layout.tiled.minor_to_major_size = static_cast<size_t>(shape.rank());
  return {};
}
Status Buffer_OnDeviceSizeInBytes(PJRT_Buffer_OnDeviceSizeInBytes_Args& args) {
  REQUIRE_ARG(buffer);
  args.on_device_size_in_bytes = args.buffer->buffer->size_in_bytes();
  return {};
}
Status Buffer_Device(PJRT_Buffer_Device_Args& args) {
  REQUIRE_ARG(buffer);
  args.device = args.buffer->device;
  return {};
}
Status Buffer_Memory(PJRT_Buffer_Memory_Args& args) {
  REQUIRE_ARG(buffer);
  args.memory = args.buffer->memory;
  return {};
}
Status Buffer_IsOnCpu(PJRT_Buffer_IsOnCpu_Args& args) {
  REQUIRE_ARG(buffer);
  args.is_on_cpu = HostViews() && args.buffer->buffer->on_host();
  return {};
}
Status Buffer_ReadyEvent(PJRT_Buffer_ReadyEvent_Args& args) {
  args.event = nullptr;
  REQUIRE_ARG(buffer);
  WaitHabit::Asked();
  if (const Accelerator* gpu = args.buffer->buffer->memory()->accelerator();
      gpu != nullptr && !args.buffer->buffer->ready()->IsReady()) {
    gpu->Hurry(*args.buffer->buffer->ready());
  }
  AboutToWait(args.buffer->buffer->ready());
  args.event = ToC(args.buffer->buffer->ready());
  return {};
}
Status Buffer_Delete(PJRT_Buffer_Delete_Args& args) {
  REQUIRE_ARG(buffer);
  args.buffer->buffer->Delete();
  return {};
}
Status Buffer_IsDeleted(PJRT_Buffer_IsDeleted_Args& args) {
  args.is_deleted = true;
  REQUIRE_ARG(buffer);
  args.is_deleted = args.buffer->buffer->IsDeleted();
  return {};
}

// --- The elements -------------------------------------------------------------------------------

Status Buffer_UnsafePointer(PJRT_Buffer_UnsafePointer_Args& args) {
  args.buffer_pointer = 0;
  REQUIRE_ARG(buffer);
  args.buffer_pointer = reinterpret_cast<uintptr_t>(TRY(args.buffer->buffer->Address()));
  return {};
}
Status Buffer_OpaqueDeviceMemoryDataPointer(PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args& args) {
  args.device_memory_ptr = nullptr;
  REQUIRE_ARG(buffer);
  args.device_memory_ptr = const_cast<void*>(TRY(args.buffer->buffer->Address()));
  return {};
}
Status Buffer_IncreaseExternalReferenceCount(
    PJRT_Buffer_IncreaseExternalReferenceCount_Args& args) {
  REQUIRE_ARG(buffer);
  return args.buffer->buffer->AddExternalReference();
}
Status Buffer_DecreaseExternalReferenceCount(
    PJRT_Buffer_DecreaseExternalReferenceCount_Args& args) {
  REQUIRE_ARG(buffer);
  return args.buffer->buffer->DropExternalReference();
}

Status Buffer_Bitcast(PJRT_Buffer_Bitcast_Args& args) {
  args.out_buffer = nullptr;
  REQUIRE_ARG(buffer);
  Shape shape = TRY(ToShape(args.element_type, args.dims, args.num_dims, args.device_layout));
  ArrayRef from = TRY(args.buffer->buffer->Get());
  if (!from->shape.IsArray() || !shape.IsArray() || shape.layout() != nullptr ||
      from->shape.layout() != nullptr || shape.elements() != from->shape.elements() ||
      ByteWidth(shape.dtype()) != ByteWidth(from->shape.dtype()) ||
      ((IsPackable(shape.dtype()) || IsPackable(from->shape.dtype())) &&
       BitWidth(shape.dtype()) != BitWidth(from->shape.dtype()))) {
    return Unimplemented("PJRT_Buffer_Bitcast: from ", from->shape, " to ", shape);
  }
  auto to = std::make_shared<Array>(std::move(shape), from->memory);
  ForwardArray(from, to);
  args.out_buffer = new PJRT_Buffer(
      args.buffer->client, std::make_unique<Buffer>(args.buffer->buffer->client(), std::move(to)));
  return {};
}

// The new buffer has the elements of the old one, but is not there before the caller says so.
Status Buffer_DonateWithControlDependency(PJRT_Buffer_DonateWithControlDependency_Args& args) {
  struct Pending {
    ArrayRef from, to;
  };
  args.callback_data = nullptr;
  args.dependency_ready_callback = nullptr;
  args.out_buffer = nullptr;
  REQUIRE_ARG(buffer);
  ArrayRef from = TRY(args.buffer->buffer->Donate());
  auto to = std::make_shared<Array>(from->shape, from->memory);
  args.out_buffer = new PJRT_Buffer(args.buffer->client,
                                    std::make_unique<Buffer>(args.buffer->buffer->client(), to));
  args.callback_data = new Pending{std::move(from), std::move(to)};
  args.dependency_ready_callback =
      [](PJRT_Buffer_DonateWithControlDependency_Callback_Args* ready) {
        std::unique_ptr<Pending> owned(static_cast<Pending*>(ready->callback_data));
        if (ready->error_code == PJRT_Error_Code_OK) {
          ForwardArray(owned->from, owned->to);
        } else {
          owned->to->Fulfil(std::unexpected(
              FromC(ready->error_code, ready->error_message, ready->error_message_size)));
        }
      };
  return {};
}

}  // namespace slot
}  // namespace weft::pjrt
