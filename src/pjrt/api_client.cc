// Slots of clients.
#include <optional>

#include "base/log.h"
#include "client/accelerator.h"
#include "pjrt/api.h"

namespace weft::pjrt {
namespace {

Result<int64_t> IntOption(const PJRT_NamedValue& option, std::string_view name) {
  if (option.type != PJRT_NamedValue_kInt64) {
    return InvalidArgument("client option ", name, ": expected an integer");
  }
  return option.int64_value;
}

Result<std::string> StringOption(const PJRT_NamedValue& option, std::string_view name) {
  if (option.type != PJRT_NamedValue_kString) {
    return InvalidArgument("client option ", name, ": expected a string");
  }
  return std::string(ToView(option.string_value, option.value_size));
}

Status ApplyOption(ClientOptions& options, const PJRT_NamedValue& option) {
  const std::string_view name = ToView(option.name, option.name_size);
  if (name == "cpu_devices" || name == "num_devices") {
    const int64_t n = TRY(IntOption(option, name));
    if (n < 1 || n > 4096)
      return InvalidArgument("client option ", name, ": ", n, ", expected 1 to 4096");
    options.cpu_devices = static_cast<int>(n);
    if (name == "num_devices") options.gpu_devices = options.cpu_devices;
  } else if (name == "threads") {
    const int64_t n = TRY(IntOption(option, name));
    if (n < 0 || n > 4096)
      return InvalidArgument("client option threads: ", n, ", expected 0 to 4096");
    options.threads = static_cast<int>(n);
  } else if (name == "memory_limit") {
    options.memory_limit = TRY(IntOption(option, name));
    if (options.memory_limit < 0) return InvalidArgument("client option memory_limit is negative");
  } else if (name == "cache_directory" && option.type == PJRT_NamedValue_kString) {
    options.cache_directory = ToView(option.string_value, option.value_size);
  } else if (name == "platform_name") {
    options.platform_name = TRY(StringOption(option, name));
  } else if (name == "platform") {
    const std::string text = TRY(StringOption(option, name));
    const std::optional<Platform> platform = ParsePlatform(text);
    if (!platform) {
      return InvalidArgument("client option platform: ", text, ": expected cpu, gpu or pretend");
    }
    options.platform = *platform;
  } else if (name == "gpu_devices") {
    const int64_t n = TRY(IntOption(option, name));
    if (n < 1 || n > kMaxGpuDevices) {
      return InvalidArgument("client option gpu_devices: ", n, ", expected 1 to ", kMaxGpuDevices);
    }
    options.gpu_devices = static_cast<int>(n);
  } else if (name == "num_nodes") {
    const int64_t n = TRY(IntOption(option, name));
    if (n > 1)
      return Unimplemented("client option num_nodes: ", n, ": several processes are not supported");
  } else if (name != "node_id" && name != "partition_index") {
    LOG(warn) << "unknown client option " << name << " is ignored";
  }
  return {};
}

void Describe(PJRT_DeviceDescription& to, const Device& device) {
  to.id = device.id();
  to.process_index = device.process_index();
  to.kind = device.kind();
  to.debug_string = device.debug_string();
  if (device.accelerator() != nullptr) {
    const program::TargetInfo& target = device.accelerator()->device().target();
    // As JAX and its libraries ask for it: "9.0" of sm_90a.
    const std::string number = target.name.substr(target.name.find('_') + 1);
    const size_t digits = std::min(number.find_first_not_of("0123456789"), number.size());
    if (target.name.starts_with("sm_") && digits >= 2) {
      to.attributes.Add("compute_capability",
                        StrCat(number.substr(0, digits - 1), ".", number.substr(digits - 1, 1)));
    }
    to.attributes.Add("core_count", static_cast<int64_t>(target.cores));
  }
  to.to_string = device.to_string();
}

void WrapDevices(PJRT_Client& client) {
  for (const auto& device : client.client->devices()) {
    auto& wrapped = client.devices.emplace_back(std::make_unique<PJRT_Device>());
    wrapped->device = device.get();
    wrapped->client = &client;
    wrapped->default_memory = nullptr;
    Describe(wrapped->description, *device);
    client.device_list.push_back(wrapped.get());
  }
  for (const auto& memory : client.client->memories()) {
    auto& wrapped = client.memories.emplace_back(std::make_unique<MemoryObject>());
    wrapped->vtable = nullptr;
    wrapped->memory = memory.get();
    wrapped->client = &client;
    client.memory_list.push_back(wrapped.get());
    PJRT_Device* device = client.Wrap(memory->device());
    wrapped->devices.push_back(device);
    device->memories.push_back(wrapped.get());
  }
  for (const auto& device : client.devices) {
    device->default_memory = client.Wrap(device->device->default_memory());
  }
}

}  // namespace

std::unique_ptr<PJRT_TopologyDescription> MakeTopology(const Client& client) {
  auto topology = std::make_unique<PJRT_TopologyDescription>();
  topology->platform_name = client.platform_name();
  topology->platform_version = client.platform_version();
  for (const auto& device : client.devices()) {
    auto& description = topology->devices.emplace_back(std::make_unique<PJRT_DeviceDescription>());
    Describe(*description, *device);
    topology->device_list.push_back(description.get());
  }
  return topology;
}

namespace slot {

// The key-value callbacks are not looked at: without a distributed client they are not set to
// anything.
Status Client_Create(PJRT_Client_Create_Args& args) {
  args.client = nullptr;
  ClientOptions options = TRY(ClientOptions::FromEnvironment());
  if (args.num_options != 0) REQUIRE_ARG(create_options);
  for (size_t i = 0; i < args.num_options; ++i) TRY(ApplyOption(options, args.create_options[i]));
  auto client = std::make_unique<PJRT_Client>();
  client->client = TRY(Client::Create(std::move(options)));
  WrapDevices(*client);
  client->topology = MakeTopology(*client->client);
  args.client = client.release();
  return {};
}
Status Client_Destroy(PJRT_Client_Destroy_Args& args) {
  if (args.client == nullptr) return {};
  std::unique_ptr<PJRT_Client> client(args.client);
  weft::client::Client::End(std::move(client->client));
  return {};
}
Status Client_PlatformName(PJRT_Client_PlatformName_Args& args) {
  REQUIRE_ARG(client);
  args.platform_name = args.client->client->platform_name().data();
  args.platform_name_size = args.client->client->platform_name().size();
  return {};
}
Status Client_PlatformVersion(PJRT_Client_PlatformVersion_Args& args) {
  REQUIRE_ARG(client);
  args.platform_version = args.client->client->platform_version().data();
  args.platform_version_size = args.client->client->platform_version().size();
  return {};
}
Status Client_ProcessIndex(PJRT_Client_ProcessIndex_Args& args) {
  args.process_index = 0;
  return {};
}
Status Client_Devices(PJRT_Client_Devices_Args& args) {
  REQUIRE_ARG(client);
  args.devices = args.client->device_list.data();
  args.num_devices = args.client->device_list.size();
  return {};
}
Status Client_AddressableDevices(PJRT_Client_AddressableDevices_Args& args) {
  REQUIRE_ARG(client);
  args.addressable_devices = args.client->device_list.data();
  args.num_addressable_devices = args.client->device_list.size();
  return {};
}
Status Client_LookupDevice(PJRT_Client_LookupDevice_Args& args) {
  args.device = nullptr;
  REQUIRE_ARG(client);
  if (args.id < 0 || static_cast<size_t>(args.id) >= args.client->devices.size()) {
    return InvalidArgument("No matching device found for device_id ", args.id);
  }
  args.device = args.client->device_list[args.id];
  return {};
}
Status Client_LookupAddressableDevice(PJRT_Client_LookupAddressableDevice_Args& args) {
  args.addressable_device = nullptr;
  REQUIRE_ARG(client);
  const int id = args.local_hardware_id;
  if (id < 0 || static_cast<size_t>(id) >= args.client->devices.size()) {
    return InvalidArgument("No matching device found for local_hardware_id ", id);
  }
  args.addressable_device = args.client->device_list[id];
  return {};
}
Status Client_AddressableMemories(PJRT_Client_AddressableMemories_Args& args) {
  REQUIRE_ARG(client);
  args.addressable_memories = args.client->memory_list.data();
  args.num_addressable_memories = args.client->memory_list.size();
  return {};
}
Status Client_TopologyDescription(PJRT_Client_TopologyDescription_Args& args) {
  REQUIRE_ARG(client);
  args.topology = args.client->topology.get();
  return {};
}
Status Client_UpdateGlobalProcessInfo(PJRT_Client_UpdateGlobalProcessInfo_Args&) {
  return {};
}

Status Client_DefaultDeviceAssignment(PJRT_Client_DefaultDeviceAssignment_Args& args) {
  REQUIRE_ARG(client);
  const int64_t replicas = args.num_replicas, partitions = args.num_partitions;
  if (replicas <= 0 || partitions <= 0) {
    return InvalidArgument("PJRT_Client_DefaultDeviceAssignment: `num_replicas` and ",
                           "`num_partitions` must be positive, got ", replicas, " and ",
                           partitions);
  }
  const int64_t count = replicas * partitions;  // 62 bits
  if (args.default_assignment_size < static_cast<size_t>(count)) {
    return FailedPrecondition("PJRT_Client_DefaultDeviceAssignment: `default_assignment_size` ",
                              args.default_assignment_size, " < `num_replicas * num_partitions`, ",
                              replicas, " * ", partitions, " = ", count);
  }
  REQUIRE_ARG(default_assignment);
  const std::vector<int64_t> ids =
      TRY(args.client->client->DefaultAssignment(replicas, partitions));
  for (int64_t i = 0; i < count; ++i) args.default_assignment[i] = static_cast<int>(ids[i]);
  return {};
}

// All memory is the host's: there is nothing to map.
Status Client_DmaMap(PJRT_Client_DmaMap_Args&) {
  return {};
}
Status Client_DmaUnmap(PJRT_Client_DmaUnmap_Args&) {
  return {};
}

}  // namespace slot
}  // namespace weft::pjrt
