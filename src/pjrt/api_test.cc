// The C interface as a framework drives it: through the table alone, with memory that is not
// initialized, and with arguments that are wrong.
#include "pjrt/api.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>

#include "pjrt/abi_args.h"
#include "pjrt/abi_extensions.h"
#include "pjrt/ffi.h"

namespace weft::pjrt {
namespace {

const PJRT_Api& Api() {
  return *GetApi();
}

// Arguments as jaxlib passes them: garbage but for what the caller sets.
template <class Args>
Args New() {
  Args args;
  std::memset(static_cast<void*>(&args), 0xa5, sizeof(args));
  args.struct_size = sizeof(args);
  args.extension_start = nullptr;
  return args;
}

struct Outcome {
  int32_t code = 0;
  std::string message;
  explicit operator bool() const { return code == 0; }
};
std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
  return out << outcome.code << ": " << outcome.message;
}
Outcome Take(PJRT_Error* error) {
  if (error == nullptr) return {};
  auto message = New<PJRT_Error_Message_Args>();
  message.error = error;
  Api().PJRT_Error_Message(&message);
  auto code = New<PJRT_Error_GetCode_Args>();
  code.error = error;
  EXPECT_EQ(Api().PJRT_Error_GetCode(&code), nullptr);
  Outcome out{code.code, std::string(message.message, message.message_size)};
  auto destroy = New<PJRT_Error_Destroy_Args>();
  destroy.error = error;
  Api().PJRT_Error_Destroy(&destroy);
  return out;
}
#define CALL(name, args) Take(Api().PJRT_##name(&(args)))
#define CALL_OK(name, args)                           \
  do {                                                \
    const Outcome outcome = CALL(name, args);         \
    EXPECT_TRUE(outcome) << #name << ": " << outcome; \
  } while (false)

PJRT_Client* NewClient(int64_t devices = 1) {
  PJRT_NamedValue option{};
  option.struct_size = sizeof(option);
  option.name = "cpu_devices";
  option.name_size = 11;
  option.type = PJRT_NamedValue_kInt64;
  option.int64_value = devices;
  option.value_size = 1;
  auto args = New<PJRT_Client_Create_Args>();  // the kv callbacks stay garbage
  args.create_options = &option;
  args.num_options = 1;
  CALL_OK(Client_Create, args);
  return args.client;
}
void DestroyClient(PJRT_Client* client) {
  auto args = New<PJRT_Client_Destroy_Args>();
  args.client = client;
  CALL_OK(Client_Destroy, args);
}
Outcome Await(PJRT_Event* event) {
  auto await = New<PJRT_Event_Await_Args>();
  await.event = event;
  Outcome outcome = CALL(Event_Await, await);
  auto destroy = New<PJRT_Event_Destroy_Args>();
  destroy.event = event;
  CALL_OK(Event_Destroy, destroy);
  return outcome;
}
void Destroy(PJRT_Buffer* buffer) {
  auto args = New<PJRT_Buffer_Destroy_Args>();
  args.buffer = buffer;
  CALL_OK(Buffer_Destroy, args);
}
void Destroy(PJRT_LoadedExecutable* executable) {
  auto args = New<PJRT_LoadedExecutable_Destroy_Args>();
  args.executable = executable;
  CALL_OK(LoadedExecutable_Destroy, args);
}

class ApiTest : public ::testing::Test {
 protected:
  void SetUp() override { client_ = NewClient(); }
  void TearDown() override { DestroyClient(client_); }

  PJRT_Device* device(PJRT_Client* client = nullptr, size_t i = 0) {
    auto args = New<PJRT_Client_Devices_Args>();
    args.client = client == nullptr ? client_ : client;
    CALL_OK(Client_Devices, args);
    return i < args.num_devices ? args.devices[i] : nullptr;
  }
  PJRT_Buffer* Put(const std::vector<float>& values, std::vector<int64_t> dims,
                   std::vector<int64_t> strides = {}, PJRT_Device* on = nullptr) {
    auto args = New<PJRT_Client_BufferFromHostBuffer_Args>();
    args.client = client_;
    args.data = values.data();
    args.type = PJRT_Buffer_Type_F32;
    args.dims = dims.data();
    args.num_dims = dims.size();
    args.byte_strides = strides.empty() ? nullptr : strides.data();
    args.num_byte_strides = strides.size();
    args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
    args.device = on == nullptr ? device() : on;
    args.memory = nullptr;
    args.device_layout = nullptr;
    CALL_OK(Client_BufferFromHostBuffer, args);
    EXPECT_TRUE(Await(args.done_with_host_buffer));
    return args.buffer;
  }
  std::vector<float> Get(PJRT_Buffer* buffer, PJRT_Buffer_MemoryLayout* layout = nullptr) {
    auto args = New<PJRT_Buffer_ToHostBuffer_Args>();
    args.src = buffer;
    args.host_layout = layout;
    args.dst = nullptr;
    CALL_OK(Buffer_ToHostBuffer, args);
    std::vector<float> out(args.dst_size / 4);
    args.dst = out.data();
    CALL_OK(Buffer_ToHostBuffer, args);
    if (args.event != nullptr) {
      const Outcome outcome = Await(args.event);
      EXPECT_TRUE(outcome) << outcome;
    }
    return out;
  }
  PJRT_Program Program(std::string& code, const char* format = "mlir") {
    PJRT_Program program{};
    program.struct_size = sizeof(program);
    program.code = code.data();
    program.code_size = code.size();
    program.format = format;
    program.format_size = std::strlen(format);
    return program;
  }
  PJRT_LoadedExecutable* Compile(std::string code, PJRT_Client* client = nullptr) {
    PJRT_Program program = Program(code);
    auto args = New<PJRT_Client_Compile_Args>();
    args.client = client == nullptr ? client_ : client;
    args.program = &program;
    args.compile_options = nullptr;
    args.compile_options_size = 0;
    CALL_OK(Client_Compile, args);
    return args.executable;
  }
  Outcome Execute(PJRT_LoadedExecutable* executable, std::vector<PJRT_Buffer*> arguments,
                  std::vector<PJRT_Buffer*>& outputs, PJRT_Event** done = nullptr) {
    PJRT_ExecuteOptions options{};
    options.struct_size = sizeof(options);
    PJRT_Buffer* const* argument_list = arguments.data();
    PJRT_Buffer** output_list = outputs.data();
    auto args = New<PJRT_LoadedExecutable_Execute_Args>();
    args.executable = executable;
    args.options = &options;
    args.argument_lists = &argument_list;
    args.num_devices = 1;
    args.num_args = arguments.size();
    args.output_lists = &output_list;
    args.device_complete_events = done;
    args.execute_device = nullptr;
    return CALL(LoadedExecutable_Execute, args);
  }

  PJRT_Client* client_ = nullptr;
};

constexpr const char* kTwicePlusOne = R"(module @twice {
  func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<4xf32>
    %1 = stablehlo.constant dense<1.000000e+00> : tensor<4xf32>
    %2 = stablehlo.add %0, %1 : tensor<4xf32>
    return %2 : tensor<4xf32>
  }
})";

TEST(Api, TableIsComplete) {
  EXPECT_EQ(Api().struct_size, 1144u);
  EXPECT_EQ(Api().pjrt_api_version.major_version, 0);
  EXPECT_EQ(Api().pjrt_api_version.minor_version, 112);
  const auto* slots = reinterpret_cast<void* const*>(&Api().PJRT_Error_Destroy);
  for (int i = 0; i < 138; ++i) EXPECT_NE(slots[i], nullptr) << i;
  bool weft = false;
  for (PJRT_Extension_Base* e = Api().extension_start; e != nullptr; e = e->next) {
    EXPECT_GE(e->struct_size, sizeof(PJRT_Extension_Base));
    weft = weft || static_cast<int32_t>(e->type) == kWeftExtensionType;
  }
  EXPECT_TRUE(weft);
}

TEST(Api, NullAndShortArgumentsAreErrors) {
#define SLOT(name)                                                \
  {                                                               \
    EXPECT_EQ(Take(Api().PJRT_##name(nullptr)).code, 3) << #name; \
    auto args = New<PJRT_##name##_Args>();                        \
    args.struct_size = 8;                                         \
    EXPECT_EQ(Take(Api().PJRT_##name(&args)).code, 3) << #name;   \
  }
#include "pjrt/abi_slots.inc"
#undef SLOT
}

// Objects that are null are reported where they are needed and ignored where they are destroyed;
// nothing crashes.
TEST(Api, NullObjectsAreErrors) {
  // These take no object, and make one.
  constexpr std::string_view kMakers[] = {"Client_Create", "TopologyDescription_Create",
                                          "Event_Create", "ExecuteContext_Create"};
#define SLOT(name)                                                                              \
  {                                                                                             \
    PJRT_##name##_Args args{};                                                                  \
    args.struct_size = sizeof(args);                                                            \
    if (std::ranges::find(kMakers, #name) == std::end(kMakers)) Take(Api().PJRT_##name(&args)); \
  }
#include "pjrt/abi_slots.inc"
#undef SLOT
}

TEST(Api, PluginAttributes) {
  auto args = New<PJRT_Plugin_Attributes_Args>();
  CALL_OK(Plugin_Attributes, args);
  ASSERT_EQ(args.num_attributes, 3u);
  EXPECT_EQ(std::string_view(args.attributes[1].name, args.attributes[1].name_size),
            "stablehlo_current_version");
  EXPECT_EQ(args.attributes[1].value_size, 3u);
  EXPECT_EQ(args.attributes[1].int64_array_value[1], 16);
}

TEST(Api, EventsCreatedFromOutside) {
  auto create = New<PJRT_Event_Create_Args>();
  CALL_OK(Event_Create, create);
  auto ready = New<PJRT_Event_IsReady_Args>();
  ready.event = create.event;
  CALL_OK(Event_IsReady, ready);
  EXPECT_FALSE(ready.is_ready);
  int calls = 0;
  auto on = New<PJRT_Event_OnReady_Args>();
  on.event = create.event;
  on.user_arg = &calls;
  on.callback = [](PJRT_Error* error, void* arg) {
    EXPECT_EQ(Take(error).code, 3);
    ++*static_cast<int*>(arg);
  };
  CALL_OK(Event_OnReady, on);
  auto set = New<PJRT_Event_Set_Args>();
  set.event = create.event;
  set.error_code = PJRT_Error_Code_INVALID_ARGUMENT;
  set.error_message = "bad";
  set.error_message_size = 3;
  CALL_OK(Event_Set, set);
  EXPECT_EQ(CALL(Event_Set, set).code, 9);
  EXPECT_EQ(calls, 1);
  const Outcome outcome = Await(create.event);
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(outcome.message, "bad");
}

TEST(Api, ClientOptions) {
  PJRT_Client* client = NewClient(4);
  auto devices = New<PJRT_Client_Devices_Args>();
  devices.client = client;
  CALL_OK(Client_Devices, devices);
  EXPECT_EQ(devices.num_devices, 4u);
  DestroyClient(client);
  for (int64_t bad : {0, -1, 1 << 30}) {
    PJRT_NamedValue option{};
    option.name = "num_devices";
    option.name_size = 11;
    option.type = PJRT_NamedValue_kInt64;
    option.int64_value = bad;
    auto args = New<PJRT_Client_Create_Args>();
    args.create_options = &option;
    args.num_options = 1;
    EXPECT_EQ(CALL(Client_Create, args).code, 3);
    EXPECT_EQ(args.client, nullptr);
  }
}

TEST_F(ApiTest, DevicesAndMemories) {
  PJRT_Device* d = device();
  auto description = New<PJRT_Device_GetDescription_Args>();
  description.device = d;
  CALL_OK(Device_GetDescription, description);
  auto id = New<PJRT_DeviceDescription_Id_Args>();
  id.device_description = description.device_description;
  CALL_OK(DeviceDescription_Id, id);
  EXPECT_EQ(id.id, 0);
  auto attributes = New<PJRT_Device_GetAttributes_Args>();
  attributes.device = d;
  CALL_OK(Device_GetAttributes, attributes);
  attributes.attributes_deleter(attributes.device_attributes);
  auto memory = New<PJRT_Device_DefaultMemory_Args>();
  memory.device = d;
  CALL_OK(Device_DefaultMemory, memory);
  auto kind = New<PJRT_Memory_Kind_Args>();
  kind.memory = memory.memory;
  CALL_OK(Memory_Kind, kind);
  EXPECT_EQ(std::string_view(kind.kind, kind.kind_size), "device");
  auto lookup = New<PJRT_Client_LookupDevice_Args>();
  lookup.client = client_;
  lookup.id = 0;
  CALL_OK(Client_LookupDevice, lookup);
  EXPECT_EQ(lookup.device, d);
  for (int wrong : {-1, 1, 1 << 30}) {
    lookup.id = wrong;
    EXPECT_EQ(CALL(Client_LookupDevice, lookup).message,
              "No matching device found for device_id " + std::to_string(wrong));
  }
  auto stats = New<PJRT_Device_MemoryStats_Args>();
  stats.device = d;
  stats.struct_size = 88;  // an older framework's: what lies behind must not be written
  CALL_OK(Device_MemoryStats, stats);
  EXPECT_EQ(stats.peak_allocated_bytes, static_cast<int64_t>(0xa5a5a5a5a5a5a5a5));
}

TEST_F(ApiTest, DefaultAssignment) {
  std::vector<int> ids(8, -1);
  auto args = New<PJRT_Client_DefaultDeviceAssignment_Args>();
  args.client = client_;
  args.num_replicas = 1;
  args.num_partitions = 1;
  args.default_assignment = ids.data();
  args.default_assignment_size = 8;
  CALL_OK(Client_DefaultDeviceAssignment, args);
  EXPECT_EQ(ids[0], 0);
  args.num_replicas = 4;
  args.num_partitions = 2;
  args.default_assignment_size = 7;
  EXPECT_EQ(CALL(Client_DefaultDeviceAssignment, args).message,
            "PJRT_Client_DefaultDeviceAssignment: `default_assignment_size` 7 < `num_replicas * "
            "num_partitions`, 4 * 2 = 8");
  args.num_replicas = 65536;
  args.num_partitions = 65537;
  EXPECT_EQ(CALL(Client_DefaultDeviceAssignment, args).code, 9);
  args.num_replicas = -1;
  EXPECT_EQ(CALL(Client_DefaultDeviceAssignment, args).code, 3);
}

TEST_F(ApiTest, BuffersThereAndBack) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  PJRT_Buffer* buffer = Put(values, {2, 3});
  EXPECT_EQ(Get(buffer), values);
  // Column-major on the host.
  const int64_t order[] = {0, 1};
  PJRT_Buffer_MemoryLayout layout{};
  layout.struct_size = sizeof(layout);
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled.minor_to_major = order;
  layout.tiled.minor_to_major_size = 2;
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

TEST_F(ApiTest, CompileAndExecute) {
  PJRT_LoadedExecutable* program = Compile(kTwicePlusOne);
  ASSERT_NE(program, nullptr);
  auto get = New<PJRT_LoadedExecutable_GetExecutable_Args>();
  get.loaded_executable = program;
  CALL_OK(LoadedExecutable_GetExecutable, get);
  auto outputs = New<PJRT_Executable_NumOutputs_Args>();
  outputs.executable = get.executable;
  CALL_OK(Executable_NumOutputs, outputs);
  EXPECT_EQ(outputs.num_outputs, 1u);
  auto stats = New<PJRT_Executable_GetCompiledMemoryStats_Args>();
  stats.executable = get.executable;
  stats.struct_size -= 16;
  CALL_OK(Executable_GetCompiledMemoryStats, stats);
  EXPECT_EQ(stats.argument_size_in_bytes, 16);
  EXPECT_EQ(stats.peak_unpadded_heap_bytes, static_cast<int64_t>(0xa5a5a5a5a5a5a5a5));
  auto assignment = New<PJRT_LoadedExecutable_GetDeviceAssignment_Args>();
  assignment.executable = program;
  CALL_OK(LoadedExecutable_GetDeviceAssignment, assignment);
  EXPECT_GT(assignment.serialized_bytes_size, 0u);
  assignment.serialized_device_assignment_deleter(assignment.serialized_device_assignment);
  auto destroy = New<PJRT_Executable_Destroy_Args>();
  destroy.executable = get.executable;
  CALL_OK(Executable_Destroy, destroy);

  PJRT_Buffer* argument = Put({1, 2, 3, 4}, {4});
  std::vector<PJRT_Buffer*> results(1);
  PJRT_Event* done = nullptr;
  const Outcome outcome = Execute(program, {argument}, results, &done);
  ASSERT_TRUE(outcome) << outcome;
  EXPECT_TRUE(Await(done));
  EXPECT_EQ(Get(results[0]), (std::vector<float>{3, 5, 7, 9}));
  Destroy(results[0]);
  EXPECT_EQ(Execute(program, {}, results).code, 3);
  EXPECT_EQ(Execute(program, {argument, argument}, results).code, 3);
  EXPECT_EQ(Execute(program, {nullptr}, results).code, 3);
  PJRT_Buffer* wrong = Put({1, 2}, {2});
  EXPECT_EQ(Execute(program, {wrong}, results).code, 3);
  Destroy(wrong);
  Destroy(argument);
  Destroy(program);
}

TEST_F(ApiTest, SerializeAndLoad) {
  PJRT_LoadedExecutable* program = Compile(kTwicePlusOne);
  auto get = New<PJRT_LoadedExecutable_GetExecutable_Args>();
  get.loaded_executable = program;
  CALL_OK(LoadedExecutable_GetExecutable, get);
  auto bytes = New<PJRT_Executable_Serialize_Args>();
  bytes.executable = get.executable;
  CALL_OK(Executable_Serialize, bytes);
  auto load = New<PJRT_Executable_DeserializeAndLoad_Args>();
  load.client = client_;
  load.serialized_executable = bytes.serialized_bytes;
  load.serialized_executable_size = bytes.serialized_bytes_size;
  load.overridden_serialized_compile_options = nullptr;
  load.overridden_serialized_compile_options_size = 0;
  load.load_options = nullptr;
  CALL_OK(Executable_DeserializeAndLoad, load);
  PJRT_Buffer* argument = Put({0, 0, 0, 1}, {4});
  std::vector<PJRT_Buffer*> results(1);
  EXPECT_TRUE(Execute(load.loaded_executable, {argument}, results));
  EXPECT_EQ(Get(results[0]), (std::vector<float>{1, 1, 1, 3}));
  Destroy(results[0]);
  Destroy(load.loaded_executable);
  for (size_t cut : {size_t{0}, size_t{1}, bytes.serialized_bytes_size / 2}) {
    load.serialized_executable_size = cut;
    EXPECT_NE(CALL(Executable_DeserializeAndLoad, load).code, 0) << cut;
    EXPECT_EQ(load.loaded_executable, nullptr);
  }
  bytes.serialized_executable_deleter(bytes.serialized_executable);
  auto destroy = New<PJRT_Executable_Destroy_Args>();
  destroy.executable = get.executable;
  CALL_OK(Executable_Destroy, destroy);
  Destroy(argument);
  Destroy(program);
}

TEST_F(ApiTest, ProgramsThatAreWrong) {
  auto args = New<PJRT_Client_Compile_Args>();
  std::string code = "not a program";
  PJRT_Program program = Program(code, "invalid");
  args.client = client_;
  args.program = &program;
  args.compile_options = nullptr;
  args.compile_options_size = 0;
  EXPECT_EQ(CALL(Client_Compile, args).message, "Unknown program format 'invalid'.");
  program = Program(code);
  EXPECT_NE(CALL(Client_Compile, args).code, 0);
  EXPECT_EQ(args.executable, nullptr);
  code = kTwicePlusOne;
  program = Program(code);
  args.compile_options = "invalid compile options";
  args.compile_options_size = 23;
  const Outcome outcome = CALL(Client_Compile, args);
  EXPECT_EQ(outcome.code, 3);
  EXPECT_TRUE(
      outcome.message.starts_with("PJRT_Client_Compile: failed to deserialize CompileOptionsProto"))
      << outcome;
}

TEST_F(ApiTest, TransferManager) {
  auto memory = New<PJRT_Device_DefaultMemory_Args>();
  memory.device = device();
  CALL_OK(Device_DefaultMemory, memory);
  const int64_t dims[] = {4};
  PJRT_ShapeSpec spec{};
  spec.struct_size = sizeof(spec);
  spec.dims = dims;
  spec.num_dims = 1;
  spec.element_type = PJRT_Buffer_Type_F32;
  auto create = New<PJRT_Client_CreateBuffersForAsyncHostToDevice_Args>();
  create.client = client_;
  create.shape_specs = &spec;
  create.num_shape_specs = 1;
  create.device_layouts = nullptr;
  create.num_device_layouts = 0;
  create.memory = memory.memory;
  CALL_OK(Client_CreateBuffersForAsyncHostToDevice, create);
  auto take = New<PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args>();
  take.transfer_manager = create.transfer_manager;
  take.buffer_index = 1;
  EXPECT_EQ(CALL(AsyncHostToDeviceTransferManager_RetrieveBuffer, take).code, 3);
  take.buffer_index = 0;
  CALL_OK(AsyncHostToDeviceTransferManager_RetrieveBuffer, take);
  const float values[] = {1, 2, 3, 4};
  for (int half = 0; half < 2; ++half) {
    auto piece = New<PJRT_AsyncHostToDeviceTransferManager_TransferData_Args>();
    piece.transfer_manager = create.transfer_manager;
    piece.buffer_index = 0;
    piece.data = values + 2 * half;
    piece.offset = 8 * half;
    piece.transfer_size = 8;
    piece.is_last_transfer = half == 1;
    CALL_OK(AsyncHostToDeviceTransferManager_TransferData, piece);
    EXPECT_TRUE(Await(piece.done_with_h2d_transfer));
  }
  EXPECT_EQ(Get(take.buffer_out), (std::vector<float>{1, 2, 3, 4}));
  Destroy(take.buffer_out);
  auto destroy = New<PJRT_AsyncHostToDeviceTransferManager_Destroy_Args>();
  destroy.transfer_manager = create.transfer_manager;
  CALL_OK(AsyncHostToDeviceTransferManager_Destroy, destroy);
}

TEST_F(ApiTest, Topologies) {
  auto create = New<PJRT_TopologyDescription_Create_Args>();
  create.topology_name = "cpu:3";
  create.topology_name_size = 5;
  create.create_options = nullptr;
  create.num_options = 0;
  CALL_OK(TopologyDescription_Create, create);
  auto bytes = New<PJRT_TopologyDescription_Serialize_Args>();
  bytes.topology = create.topology;
  CALL_OK(TopologyDescription_Serialize, bytes);
  auto again = New<PJRT_TopologyDescription_Deserialize_Args>();
  again.serialized_topology = bytes.serialized_bytes;
  again.serialized_topology_size = bytes.serialized_bytes_size;
  CALL_OK(TopologyDescription_Deserialize, again);
  auto list = New<PJRT_TopologyDescription_GetDeviceDescriptions_Args>();
  list.topology = again.topology;
  CALL_OK(TopologyDescription_GetDeviceDescriptions, list);
  EXPECT_EQ(list.num_descriptions, 3u);
  bytes.serialized_topology_deleter(bytes.serialized_topology);

  std::string code = kTwicePlusOne;
  PJRT_Program program = Program(code);
  auto compile = New<PJRT_Compile_Args>();
  compile.topology = create.topology;
  compile.program = &program;
  compile.compile_options = nullptr;
  compile.compile_options_size = 0;
  compile.client = nullptr;
  CALL_OK(Compile, compile);
  auto load = New<PJRT_Client_Load_Args>();
  load.client = client_;
  load.executable = compile.executable;
  load.compile_options = nullptr;
  load.compile_options_size = 0;
  CALL_OK(Client_Load, load);
  Destroy(load.loaded_executable);
  auto gone = New<PJRT_Executable_Destroy_Args>();
  gone.executable = compile.executable;
  CALL_OK(Executable_Destroy, gone);
  for (PJRT_TopologyDescription* topology : {create.topology, again.topology}) {
    auto destroy = New<PJRT_TopologyDescription_Destroy_Args>();
    destroy.topology = topology;
    CALL_OK(TopologyDescription_Destroy, destroy);
  }
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

// A loop of many steps, so that work is under way.
constexpr const char* kLongLoop = R"(module @loop {
  func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.constant dense<3000> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %0:2 = stablehlo.while(%i = %c, %x = %arg0) : tensor<i32>, tensor<4xf32>
     cond {
      %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<i32>
      %y = stablehlo.add %x, %x : tensor<4xf32>
      stablehlo.return %j, %y : tensor<i32>, tensor<4xf32>
    }
    return %0#1 : tensor<4xf32>
  }
})";

TEST_F(ApiTest, ClientGoesWhileWorkIsInFlight) {
  PJRT_Client* other = NewClient(2);
  std::swap(client_, other);
  PJRT_LoadedExecutable* program = Compile(kLongLoop);
  ASSERT_NE(program, nullptr);
  PJRT_Buffer* argument = Put({0, 0, 0, 0}, {4});
  for (int i = 0; i < 8; ++i) {
    std::vector<PJRT_Buffer*> results(1);
    ASSERT_TRUE(Execute(program, {argument}, results));
    Destroy(results[0]);
  }
  Destroy(argument);
  Destroy(program);
  std::swap(client_, other);
  DestroyClient(other);
}

// A client under a name that programs expect: its devices and its topology have it too.
TEST(Api, PlatformNameIsAnOption) {
  PJRT_NamedValue option{};
  option.struct_size = sizeof(option);
  option.name = "platform_name";
  option.name_size = 13;
  option.type = PJRT_NamedValue_kString;
  auto args = New<PJRT_Client_Create_Args>();
  args.create_options = &option;
  args.num_options = 1;
  for (std::string_view wrong : {"", "CPU", "a,b"}) {
    option.string_value = wrong.data();
    option.value_size = wrong.size();
    EXPECT_FALSE(CALL(Client_Create, args)) << wrong;
  }
  option.string_value = "cpu";
  option.value_size = 3;
  CALL_OK(Client_Create, args);
  auto name = New<PJRT_Client_PlatformName_Args>();
  name.client = args.client;
  CALL_OK(Client_PlatformName, name);
  EXPECT_EQ(std::string_view(name.platform_name, name.platform_name_size), "cpu");
  const Device& device = *args.client->devices[0]->device;
  EXPECT_EQ(device.to_string(), "CpuDevice(id=0)");
  EXPECT_EQ(device.debug_string(), "cpu:0");
  EXPECT_EQ(device.kind(), "Weft CPU");
  auto bytes = New<PJRT_TopologyDescription_Serialize_Args>();
  bytes.topology = args.client->topology.get();
  CALL_OK(TopologyDescription_Serialize, bytes);
  auto again = New<PJRT_TopologyDescription_Deserialize_Args>();
  again.serialized_topology = bytes.serialized_bytes;
  again.serialized_topology_size = bytes.serialized_bytes_size;
  CALL_OK(TopologyDescription_Deserialize, again);
  EXPECT_EQ(again.topology->platform_name, "cpu");
  bytes.serialized_topology_deleter(bytes.serialized_topology);
  auto topology = New<PJRT_TopologyDescription_Destroy_Args>();
  topology.topology = again.topology;
  CALL_OK(TopologyDescription_Destroy, topology);
  DestroyClient(args.client);
}

TEST(Api, ManyClientsAndThreads) {
  std::atomic<int> done = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) {
        PJRT_Client* client = NewClient(1 + i % 3);
        auto name = New<PJRT_Client_PlatformName_Args>();
        name.client = client;
        CALL_OK(Client_PlatformName, name);
        EXPECT_EQ(std::string_view(name.platform_name, name.platform_name_size), "weft");
        DestroyClient(client);
        ++done;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, 20);
}

}  // namespace
}  // namespace weft::pjrt
