// The C interface: buffers, transfers and copies.
#include <algorithm>
#include <numeric>

#include "pjrt/api_testing.h"

namespace weft::pjrt {
namespace {

// Minor to major, as the caller keeps it.
PJRT_Buffer_MemoryLayout LayoutOf(const std::vector<int64_t>& order) {
  PJRT_Buffer_MemoryLayout layout{};
  layout.struct_size = sizeof(layout);
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled.minor_to_major = order.data();
  layout.tiled.minor_to_major_size = order.size();
  return layout;
}

TEST_F(ApiTest, BuffersThereAndBack) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  PJRT_Buffer* buffer = Put(values, {2, 3});
  EXPECT_EQ(Get(buffer), values);
  // Column-major on the host.
  const std::vector<int64_t> order = {0, 1};
  PJRT_Buffer_MemoryLayout layout = LayoutOf(order);
  EXPECT_EQ(Get(buffer, &layout), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  auto raw = New<PJRT_Buffer_CopyRawToHost_Args>();
  float two[2] = {};
  raw.buffer = buffer;
  raw.dst = two;
  raw.offset = 4;
  raw.transfer_size = 8;
  CALL_OK(Buffer_CopyRawToHost, raw);
  EXPECT_TRUE(Await(raw.event));
  EXPECT_EQ(two[1], 3);
  raw.offset = 20;
  EXPECT_EQ(CALL(Buffer_CopyRawToHost, raw).code, 3);
  Destroy(buffer);
  PJRT_Buffer* strided = Put(values, {3, 2}, {4, 12});  // a transposed view
  EXPECT_EQ(Get(strided), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  Destroy(strided);
}

TEST_F(ApiTest, BufferArgumentsThatAreWrong) {
  int64_t dims[] = {int64_t{1} << 40, int64_t{1} << 40};
  auto args = New<PJRT_Client_BufferFromHostBuffer_Args>();
  args.client = client_;
  args.data = dims;
  args.type = PJRT_Buffer_Type_F32;
  args.dims = dims;
  args.num_dims = 2;
  args.byte_strides = nullptr;
  args.num_byte_strides = 0;
  args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableZeroCopy;
  args.device = device();
  args.memory = nullptr;
  args.device_layout = nullptr;
  EXPECT_EQ(CALL(Client_BufferFromHostBuffer, args).code, 3);
  dims[0] = -1;
  EXPECT_EQ(CALL(Client_BufferFromHostBuffer, args).code, 3);
  dims[0] = dims[1] = 1;
  args.type = static_cast<PJRT_Buffer_Type>(99);
  EXPECT_EQ(CALL(Client_BufferFromHostBuffer, args).code, 3);
  args.type = PJRT_Buffer_Type_F32;
  args.num_byte_strides = 1;
  args.byte_strides = dims;
  EXPECT_EQ(CALL(Client_BufferFromHostBuffer, args).code, 3);
  args.num_byte_strides = 0;
  args.device = nullptr;
  EXPECT_EQ(CALL(Client_BufferFromHostBuffer, args).code, 3);
  EXPECT_EQ(args.buffer, nullptr);
}

TEST_F(ApiTest, EveryElementTypeSurvives) {
  for (int type = 1; type <= 33; ++type) {
    if (type == PJRT_Buffer_Type_TOKEN) continue;
    const uint8_t data[64] = {1, 0, 1, 1};
    const int64_t dims[] = {2};
    auto args = New<PJRT_Client_BufferFromHostBuffer_Args>();
    args.client = client_;
    args.data = data;
    args.type = static_cast<PJRT_Buffer_Type>(type);
    args.dims = dims;
    args.num_dims = 1;
    args.byte_strides = nullptr;
    args.num_byte_strides = 0;
    args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
    args.device = device();
    args.memory = nullptr;
    args.device_layout = nullptr;
    CALL_OK(Client_BufferFromHostBuffer, args);
    EXPECT_TRUE(Await(args.done_with_host_buffer));
    auto element = New<PJRT_Buffer_ElementType_Args>();
    element.buffer = args.buffer;
    CALL_OK(Buffer_ElementType, element);
    EXPECT_EQ(element.type, type);
    Destroy(args.buffer);
  }
}

TEST_F(ApiTest, DeletedBuffers) {
  PJRT_Buffer* buffer = Put({1, 2}, {2});
  auto drop = New<PJRT_Buffer_DecreaseExternalReferenceCount_Args>();
  drop.buffer = buffer;
  EXPECT_NE(CALL(Buffer_DecreaseExternalReferenceCount, drop).code, 0);
  auto add = New<PJRT_Buffer_IncreaseExternalReferenceCount_Args>();
  add.buffer = buffer;
  CALL_OK(Buffer_IncreaseExternalReferenceCount, add);
  auto pointer = New<PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args>();
  pointer.buffer = buffer;
  CALL_OK(Buffer_OpaqueDeviceMemoryDataPointer, pointer);
  auto del = New<PJRT_Buffer_Delete_Args>();
  del.buffer = buffer;
  CALL_OK(Buffer_Delete, del);
  EXPECT_EQ(static_cast<const float*>(pointer.device_memory_ptr)[1], 2);  // still held
  auto deleted = New<PJRT_Buffer_IsDeleted_Args>();
  deleted.buffer = buffer;
  CALL_OK(Buffer_IsDeleted, deleted);
  EXPECT_TRUE(deleted.is_deleted);
  CALL_OK(Buffer_DecreaseExternalReferenceCount, drop);
  Destroy(buffer);
}

TEST_F(ApiTest, ErrorBuffers) {
  auto memory = New<PJRT_Device_DefaultMemory_Args>();
  memory.device = device();
  CALL_OK(Device_DefaultMemory, memory);
  auto args = New<PJRT_Client_CreateErrorBuffer_Args>();
  args.client = client_;
  args.error_code = PJRT_Error_Code_INTERNAL;
  args.error_message = "it broke";
  args.error_message_size = 8;
  args.shape_dims = nullptr;
  args.shape_num_dims = 0;
  args.shape_element_type = PJRT_Buffer_Type_F32;
  args.shape_layout = nullptr;
  args.memory = memory.memory;
  CALL_OK(Client_CreateErrorBuffer, args);
  auto ready = New<PJRT_Buffer_ReadyEvent_Args>();
  ready.buffer = args.buffer;
  CALL_OK(Buffer_ReadyEvent, ready);
  EXPECT_EQ(Await(ready.event).message, "it broke");
  Destroy(args.buffer);
}

TEST_F(ApiTest, DonateWithControlDependency) {
  PJRT_Buffer* buffer = Put({7, 8}, {2});
  auto args = New<PJRT_Buffer_DonateWithControlDependency_Args>();
  args.buffer = buffer;
  CALL_OK(Buffer_DonateWithControlDependency, args);
  auto ready = New<PJRT_Buffer_ReadyEvent_Args>();
  ready.buffer = args.out_buffer;
  CALL_OK(Buffer_ReadyEvent, ready);
  auto is_ready = New<PJRT_Event_IsReady_Args>();
  is_ready.event = ready.event;
  CALL_OK(Event_IsReady, is_ready);
  EXPECT_FALSE(is_ready.is_ready);
  PJRT_Buffer_DonateWithControlDependency_Callback_Args done{};
  done.struct_size = sizeof(done);
  done.callback_data = args.callback_data;
  args.dependency_ready_callback(&done);
  EXPECT_TRUE(Await(ready.event));
  EXPECT_EQ(Get(args.out_buffer), (std::vector<float>{7, 8}));
  Destroy(buffer);
  Destroy(args.out_buffer);
}

// For one array of floats.
PJRT_AsyncHostToDeviceTransferManager* NewTransfers(PJRT_Client* client, PJRT_Device* device,
                                                    const std::vector<int64_t>& dims,
                                                    PJRT_Buffer_MemoryLayout* layout = nullptr) {
  auto memory = New<PJRT_Device_DefaultMemory_Args>();
  memory.device = device;
  CALL_OK(Device_DefaultMemory, memory);
  PJRT_ShapeSpec spec{};
  spec.struct_size = sizeof(spec);
  spec.dims = dims.data();
  spec.num_dims = dims.size();
  spec.element_type = PJRT_Buffer_Type_F32;
  auto create = New<PJRT_Client_CreateBuffersForAsyncHostToDevice_Args>();
  create.client = client;
  create.shape_specs = &spec;
  create.num_shape_specs = 1;
  create.device_layouts = layout == nullptr ? nullptr : &layout;
  create.num_device_layouts = layout == nullptr ? 0 : 1;
  create.memory = memory.memory;
  CALL_OK(Client_CreateBuffersForAsyncHostToDevice, create);
  return create.transfer_manager;
}
void TransferPiece(PJRT_AsyncHostToDeviceTransferManager* transfers, std::span<const float> values,
                   int64_t offset, bool is_last) {
  auto piece = New<PJRT_AsyncHostToDeviceTransferManager_TransferData_Args>();
  piece.transfer_manager = transfers;
  piece.buffer_index = 0;
  piece.data = values.data();
  piece.offset = offset;
  piece.transfer_size = static_cast<int64_t>(values.size_bytes());
  piece.is_last_transfer = is_last;
  CALL_OK(AsyncHostToDeviceTransferManager_TransferData, piece);
  EXPECT_TRUE(Await(piece.done_with_h2d_transfer));
}
void DestroyTransfers(PJRT_AsyncHostToDeviceTransferManager* transfers) {
  auto destroy = New<PJRT_AsyncHostToDeviceTransferManager_Destroy_Args>();
  destroy.transfer_manager = transfers;
  CALL_OK(AsyncHostToDeviceTransferManager_Destroy, destroy);
}

TEST_F(ApiTest, TransferManager) {
  PJRT_AsyncHostToDeviceTransferManager* transfers = NewTransfers(client_, device(), {4});
  auto take = New<PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args>();
  take.transfer_manager = transfers;
  take.buffer_index = 1;
  EXPECT_EQ(CALL(AsyncHostToDeviceTransferManager_RetrieveBuffer, take).code, 3);
  take.buffer_index = 0;
  CALL_OK(AsyncHostToDeviceTransferManager_RetrieveBuffer, take);
  const std::vector<float> values = {1, 2, 3, 4};
  TransferPiece(transfers, std::span(values).first(2), 0, false);
  TransferPiece(transfers, std::span(values).last(2), 8, true);
  EXPECT_EQ(Get(take.buffer_out), values);
  Destroy(take.buffer_out);
  DestroyTransfers(transfers);
}

// Whoever looks at the bytes of an array with a layout sees them in its order.
TEST_F(ApiTest, BytesInTheOrderOfTheLayout) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6}, columns = {1, 4, 2, 5, 3, 6};
  const std::vector<int64_t> order = {0, 1};
  PJRT_Buffer_MemoryLayout layout = LayoutOf(order);
  PJRT_Buffer* buffer = Put(values, {2, 3}, {}, nullptr, &layout);
  EXPECT_EQ(Get(buffer), columns);
  auto raw = New<PJRT_Buffer_CopyRawToHost_Args>();
  float two[2] = {};
  raw.buffer = buffer;
  raw.dst = two;
  raw.offset = 4;
  raw.transfer_size = 8;
  CALL_OK(Buffer_CopyRawToHost, raw);
  EXPECT_TRUE(Await(raw.event));
  EXPECT_EQ(two[0], 4);
  auto address = New<PJRT_Buffer_UnsafePointer_Args>();
  address.buffer = buffer;
  auto host = New<PJRT_Buffer_IsOnCpu_Args>();
  host.buffer = buffer;
  CALL_OK(Buffer_IsOnCpu, host);
  if (host.is_on_cpu) {
    CALL_OK(Buffer_UnsafePointer, address);
    EXPECT_EQ(reinterpret_cast<const float*>(address.buffer_pointer)[1], 4);
  } else {  // devices keep it row-major
    EXPECT_FALSE(CALL(Buffer_UnsafePointer, address));
  }
  Destroy(buffer);
}

TEST_F(ApiTest, PiecesInTheOrderOfTheLayout) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6}, columns = {1, 4, 2, 5, 3, 6};
  const std::vector<int64_t> by_column = {0, 1}, by_row = {1, 0};
  PJRT_Buffer_MemoryLayout layout = LayoutOf(by_column), row_major = LayoutOf(by_row);
  PJRT_AsyncHostToDeviceTransferManager* transfers =
      NewTransfers(client_, device(), {2, 3}, &layout);
  auto take = New<PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args>();
  take.transfer_manager = transfers;
  take.buffer_index = 0;
  CALL_OK(AsyncHostToDeviceTransferManager_RetrieveBuffer, take);
  TransferPiece(transfers, columns, 0, true);
  EXPECT_EQ(Get(take.buffer_out, &row_major), values);
  Destroy(take.buffer_out);
  DestroyTransfers(transfers);
}

TEST_F(ApiTest, CopiesBetweenDevices) {
  PJRT_Client* four = NewClient(4);
  std::swap(client_, four);
  PJRT_Buffer* on0 = Put({1, 2}, {2});
  auto memory = New<PJRT_Device_DefaultMemory_Args>();
  memory.device = device(client_, 3);
  CALL_OK(Device_DefaultMemory, memory);
  auto copy = New<PJRT_Buffer_CopyToMemory_Args>();
  copy.buffer = on0;
  copy.dst_memory = memory.memory;
  CALL_OK(Buffer_CopyToMemory, copy);
  auto where = New<PJRT_Buffer_Device_Args>();
  where.buffer = copy.dst_buffer;
  CALL_OK(Buffer_Device, where);
  EXPECT_EQ(where.device, device(client_, 3));
  EXPECT_EQ(Get(copy.dst_buffer), (std::vector<float>{1, 2}));
  Destroy(on0);
  Destroy(copy.dst_buffer);
  std::swap(client_, four);
  DestroyClient(four);
}

}  // namespace
}  // namespace weft::pjrt
