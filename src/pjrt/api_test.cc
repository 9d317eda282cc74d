// The C interface: the table, clients, devices and memories, topologies, arguments that are wrong.
#include <atomic>
#include <thread>

#include "pjrt/api_testing.h"
#include "pjrt/ffi/ffi.h"

namespace weft::pjrt {
namespace {

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
#include "pjrt/abi/abi_slots.inc"
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
#include "pjrt/abi/abi_slots.inc"
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
  stats = New<PJRT_Device_MemoryStats_Args>();
  stats.device = d;
  CALL_OK(Device_MemoryStats, stats);
  EXPECT_TRUE(stats.bytes_reservable_limit_is_set);  // of one device: all there is
  EXPECT_EQ(stats.bytes_reservable_limit, stats.bytes_limit);
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
