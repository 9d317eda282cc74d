// Slots of topologies: which devices there would be, without a client.
#include <charconv>

#include "base/wire.h"
#include "pjrt/api.h"

struct PJRT_SerializedTopology {
  std::string bytes;
};

namespace weft::pjrt {
namespace {

constexpr std::string_view kTopologyMagic = "weft topology 1 ";

std::optional<int> DeviceCount(std::string_view text) {
  int n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size() || n < 1 || n > 4096) {
    return std::nullopt;
  }
  return n;
}

Result<PJRT_TopologyDescription*> TopologyOf(int devices, std::string_view platform_name) {
  ClientOptions options = TRY(ClientOptions::FromEnvironment());
  options.cpu_devices = devices;
  if (!platform_name.empty()) options.platform_name = platform_name;
  std::unique_ptr<Client> client = TRY(Client::Create(std::move(options)));
  std::unique_ptr<PJRT_TopologyDescription> topology = MakeTopology(*client);
  MutexLock lock(topology->mutex);
  topology->compiler = std::move(client);
  return topology.release();
}

std::string SerializeTopology(const PJRT_TopologyDescription& topology) {
  return StrCat(kTopologyMagic, topology.devices.size(), " ", topology.platform_name);
}

// The number of an element type in xla.PrimitiveType.
int PrimitiveTypeNumber(PJRT_Buffer_Type type) {
  static constexpr int8_t kNumbers[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                        12, 16, 15, 18, 19, 20, 23, 24, 25, 21, 22, 17,
                                        26, 27, 28, 29, 33, 32, 30, 31, 36, 35};
  return type < 0 || type >= static_cast<int>(std::size(kNumbers)) ? 0 : kNumbers[type];
}

}  // namespace

namespace slot {

// Named by a number of devices, "8" or "cpu:8", or with the option num_devices; the option
// platform_name is that of clients.
Status TopologyDescription_Create(PJRT_TopologyDescription_Create_Args& args) {
  args.topology = nullptr;
  std::string_view name = ToView(args.topology_name, args.topology_name_size);
  if (name.starts_with("cpu:")) name.remove_prefix(4);
  int devices = DeviceCount(name).value_or(0);
  if (devices == 0) devices = TRY(ClientOptions::FromEnvironment()).cpu_devices;
  std::string_view platform_name;
  if (args.num_options != 0) REQUIRE_ARG(create_options);
  for (size_t i = 0; i < args.num_options; ++i) {
    const PJRT_NamedValue& option = args.create_options[i];
    const std::string_view key = ToView(option.name, option.name_size);
    if (key == "platform_name" && option.type == PJRT_NamedValue_kString) {
      platform_name = ToView(option.string_value, option.value_size);
    }
    if (key != "num_devices" && key != "cpu_devices") continue;
    if (option.type != PJRT_NamedValue_kInt64 || option.int64_value < 1 ||
        option.int64_value > 4096) {
      return InvalidArgument("topology option ", key, ": expected 1 to 4096");
    }
    devices = static_cast<int>(option.int64_value);
  }
  args.topology = TRY(TopologyOf(devices, platform_name));
  return {};
}
Status TopologyDescription_Destroy(PJRT_TopologyDescription_Destroy_Args& args) {
  delete args.topology;
  return {};
}
Status TopologyDescription_PlatformName(PJRT_TopologyDescription_PlatformName_Args& args) {
  REQUIRE_ARG(topology);
  args.platform_name = args.topology->platform_name.data();
  args.platform_name_size = args.topology->platform_name.size();
  return {};
}
Status TopologyDescription_PlatformVersion(PJRT_TopologyDescription_PlatformVersion_Args& args) {
  REQUIRE_ARG(topology);
  args.platform_version = args.topology->platform_version.data();
  args.platform_version_size = args.topology->platform_version.size();
  return {};
}
Status TopologyDescription_GetDeviceDescriptions(
    PJRT_TopologyDescription_GetDeviceDescriptions_Args& args) {
  REQUIRE_ARG(topology);
  args.descriptions = args.topology->device_list.data();
  args.num_descriptions = args.topology->device_list.size();
  return {};
}
Status TopologyDescription_Attributes(PJRT_TopologyDescription_Attributes_Args& args) {
  REQUIRE_ARG(topology);
  args.attributes = args.topology->attributes.data();
  args.num_attributes = args.topology->attributes.size();
  return {};
}
Status TopologyDescription_Serialize(PJRT_TopologyDescription_Serialize_Args& args) {
  args.serialized_topology = nullptr;
  REQUIRE_ARG(topology);
  auto* bytes = new PJRT_SerializedTopology{SerializeTopology(*args.topology)};
  args.serialized_topology = bytes;
  args.serialized_bytes = bytes->bytes.data();
  args.serialized_bytes_size = bytes->bytes.size();
  args.serialized_topology_deleter = [](PJRT_SerializedTopology* p) { delete p; };
  return {};
}
Status TopologyDescription_Deserialize(PJRT_TopologyDescription_Deserialize_Args& args) {
  args.topology = nullptr;
  std::string_view bytes = ToView(args.serialized_topology, args.serialized_topology_size);
  std::optional<int> devices;
  std::string_view platform_name;
  if (bytes.starts_with(kTopologyMagic)) {
    bytes.remove_prefix(kTopologyMagic.size());
    const size_t space = bytes.find(' ');  // without one: of a version that had one name
    if (space != bytes.npos) platform_name = bytes.substr(space + 1);
    devices = DeviceCount(bytes.substr(0, space));
  }
  if (!devices) return InvalidArgument("topology: these bytes are not one of Weft");
  args.topology = TRY(TopologyOf(*devices, platform_name));
  return {};
}
Status TopologyDescription_Fingerprint(PJRT_TopologyDescription_Fingerprint_Args& args) {
  args.fingerprint = 0;
  REQUIRE_ARG(topology);
  uint64_t hash = 0xcbf29ce484222325;
  for (char c : StrCat(SerializeTopology(*args.topology), args.topology->platform_version)) {
    hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  }
  args.fingerprint = hash;
  return {};
}
// ShapeProto: element_type 2, dimensions 3, layout 5 with minor_to_major 1, is_dynamic_dimension 6.
Status TopologyDescription_MakeCanonicalShapeForMemorySpace(
    PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args& args) {
  args.serialized_shape = nullptr;
  args.serialized_shape_size = 0;
  args.serialized_shape_deleter = [](const char* p) { delete[] p; };
  const Shape shape = TRY(ToShape(args.element_type, args.dims, args.num_dims, args.layout));
  WireWriter layout, writer;
  layout.Ints(1, shape.LayoutOrDefault().minor_to_major);
  writer.Int(2, PrimitiveTypeNumber(args.element_type));
  writer.Ints(3, shape.dims());
  writer.Message(5, layout);
  writer.Ints(6, std::vector<int64_t>(shape.rank(), 0));
  const std::string& proto = writer.str();
  char* bytes = new char[proto.size()];
  proto.copy(bytes, proto.size());
  args.serialized_shape = bytes;
  args.serialized_shape_size = proto.size();
  return {};
}
Status TopologyDescription_GetMemorySpaceKindIds(
    PJRT_TopologyDescription_GetMemorySpaceKindIds_Args& args) {
  static constexpr int kKindIds[] = {Memory::IdOf(Memory::Kind::kDevice),
                                     Memory::IdOf(Memory::Kind::kPinnedHost),
                                     Memory::IdOf(Memory::Kind::kUnpinnedHost)};
  args.memory_space_kind_ids = kKindIds;
  args.num_memory_space_kind_ids = std::size(kKindIds);
  return {};
}

}  // namespace slot
}  // namespace weft::pjrt
