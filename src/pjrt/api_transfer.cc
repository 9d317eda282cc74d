// Slots of transfers in pieces: AsyncHostToDeviceTransferManager, CopyToDeviceStream.
#include "pjrt/api.h"

namespace weft::pjrt {
namespace {

Status CheckIndex(const PJRT_AsyncHostToDeviceTransferManager* manager, int index) {
  TRY(CheckNotNull(manager, "transfer_manager"));
  if (index < 0 || index >= manager->transfer->count()) {
    return InvalidArgument("transfer manager: no buffer ", index, " of ",
                           manager->transfer->count());
  }
  return {};
}

Status StreamsAreUnimplemented(const char* name) {
  return Unimplemented(name, " is not implemented: there are no recv callbacks");
}

}  // namespace

namespace slot {

Status Client_CreateBuffersForAsyncHostToDevice(
    PJRT_Client_CreateBuffersForAsyncHostToDevice_Args& args) {
  args.transfer_manager = nullptr;
  REQUIRE_ARG(client);
  REQUIRE_ARG(memory);
  if (args.num_shape_specs != 0) REQUIRE_ARG(shape_specs);
  if (args.num_device_layouts != 0 && args.num_device_layouts != args.num_shape_specs) {
    return InvalidArgument(
        "PJRT_Client_CreateBuffersForAsyncHostToDevice: ", args.num_device_layouts, " layouts for ",
        args.num_shape_specs, " buffers");
  }
  std::vector<Shape> shapes;
  for (size_t i = 0; i < args.num_shape_specs; ++i) {
    const PJRT_ShapeSpec& spec = args.shape_specs[i];
    const PJRT_Buffer_MemoryLayout* layout =
        args.num_device_layouts == 0 || args.device_layouts == nullptr ? nullptr
                                                                       : args.device_layouts[i];
    shapes.push_back(TRY(ToShape(spec.element_type, spec.dims, spec.num_dims, layout)));
  }
  auto manager = std::make_unique<PJRT_AsyncHostToDeviceTransferManager>();
  manager->client = args.client;
  manager->memory = args.memory;
  manager->transfer = TRY(HostTransfer::Create(Object(args.memory)->memory, std::move(shapes)));
  args.transfer_manager = manager.release();
  return {};
}
Status AsyncHostToDeviceTransferManager_Destroy(
    PJRT_AsyncHostToDeviceTransferManager_Destroy_Args& args) {
  delete args.transfer_manager;
  return {};
}
Status AsyncHostToDeviceTransferManager_TransferData(
    PJRT_AsyncHostToDeviceTransferManager_TransferData_Args& args) {
  args.done_with_h2d_transfer = nullptr;
  TRY(CheckIndex(args.transfer_manager, args.buffer_index));
  if (args.transfer_size != 0) REQUIRE_ARG(data);
  TRY(args.transfer_manager->transfer->TransferRaw(args.buffer_index, args.data, args.offset,
                                                   args.transfer_size, args.is_last_transfer));
  args.done_with_h2d_transfer = ToC(Event::Done());
  return {};
}
Status AsyncHostToDeviceTransferManager_TransferLiteral(
    PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args& args) {
  args.done_with_h2d_transfer = nullptr;
  TRY(CheckIndex(args.transfer_manager, args.buffer_index));
  HostArray host;
  host.shape = TRY(ToShape(args.shape_element_type, args.shape_dims, args.shape_num_dims));
  const std::vector<int64_t> strides = TRY(ToByteStrides(host.shape, args.shape_layout));
  if (host.shape.elements() != 0) REQUIRE_ARG(data);
  host.data = args.data;
  host.byte_strides = strides;
  TRY(args.transfer_manager->transfer->TransferLiteral(args.buffer_index, host));
  args.done_with_h2d_transfer = ToC(Event::Done());
  return {};
}
Status AsyncHostToDeviceTransferManager_RetrieveBuffer(
    PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args& args) {
  args.buffer_out = nullptr;
  TRY(CheckIndex(args.transfer_manager, args.buffer_index));
  std::unique_ptr<Buffer> buffer =
      TRY(args.transfer_manager->transfer->TakeBuffer(args.buffer_index));
  args.buffer_out = new PJRT_Buffer(args.transfer_manager->client, std::move(buffer));
  return {};
}
Status AsyncHostToDeviceTransferManager_Device(
    PJRT_AsyncHostToDeviceTransferManager_Device_Args& args) {
  REQUIRE_ARG(transfer_manager);
  args.device_out = Object(args.transfer_manager->memory)->devices[0];
  return {};
}
Status AsyncHostToDeviceTransferManager_BufferCount(
    PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args& args) {
  REQUIRE_ARG(transfer_manager);
  args.buffer_count = args.transfer_manager->transfer->count();
  return {};
}
Status AsyncHostToDeviceTransferManager_BufferSize(
    PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args& args) {
  args.buffer_size = 0;
  TRY(CheckIndex(args.transfer_manager, args.buffer_index));
  args.buffer_size = TRY(args.transfer_manager->transfer->ByteSize(args.buffer_index));
  return {};
}
Status AsyncHostToDeviceTransferManager_SetBufferError(
    PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args& args) {
  TRY(CheckIndex(args.transfer_manager, args.buffer_index));
  return args.transfer_manager->transfer->SetError(
      args.buffer_index, FromC(args.error_code, args.error_message, args.error_message_size));
}
Status AsyncHostToDeviceTransferManager_AddMetadata(
    PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args&) {
  return {};  // nobody asks for it
}

Status CopyToDeviceStream_Destroy(PJRT_CopyToDeviceStream_Destroy_Args&) {
  return {};
}
Status CopyToDeviceStream_AddChunk(PJRT_CopyToDeviceStream_AddChunk_Args& args) {
  args.transfer_complete = nullptr;
  return StreamsAreUnimplemented("PJRT_CopyToDeviceStream_AddChunk");
}
Status CopyToDeviceStream_TotalBytes(PJRT_CopyToDeviceStream_TotalBytes_Args& args) {
  args.total_bytes = 0;
  return StreamsAreUnimplemented("PJRT_CopyToDeviceStream_TotalBytes");
}
Status CopyToDeviceStream_GranuleSize(PJRT_CopyToDeviceStream_GranuleSize_Args& args) {
  args.granule_size_in_bytes = 0;
  return StreamsAreUnimplemented("PJRT_CopyToDeviceStream_GranuleSize");
}
Status CopyToDeviceStream_CurrentBytes(PJRT_CopyToDeviceStream_CurrentBytes_Args& args) {
  args.current_bytes = 0;
  return StreamsAreUnimplemented("PJRT_CopyToDeviceStream_CurrentBytes");
}

}  // namespace slot
}  // namespace weft::pjrt
