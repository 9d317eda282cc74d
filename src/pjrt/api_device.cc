// Slots of devices, their descriptions and memories.
#include <algorithm>

#include "pjrt/api.h"

namespace weft::pjrt::slot {

// --- Descriptions -------------------------------------------------------------------------------

Status DeviceDescription_Id(PJRT_DeviceDescription_Id_Args& args) {
  REQUIRE_ARG(device_description);
  args.id = args.device_description->id;
  return {};
}
Status DeviceDescription_ProcessIndex(PJRT_DeviceDescription_ProcessIndex_Args& args) {
  REQUIRE_ARG(device_description);
  args.process_index = args.device_description->process_index;
  return {};
}
Status DeviceDescription_Attributes(PJRT_DeviceDescription_Attributes_Args& args) {
  REQUIRE_ARG(device_description);
  args.attributes = args.device_description->attributes.data();
  args.num_attributes = args.device_description->attributes.size();
  return {};
}
Status DeviceDescription_Kind(PJRT_DeviceDescription_Kind_Args& args) {
  REQUIRE_ARG(device_description);
  args.device_kind = args.device_description->kind.data();
  args.device_kind_size = args.device_description->kind.size();
  return {};
}
Status DeviceDescription_DebugString(PJRT_DeviceDescription_DebugString_Args& args) {
  REQUIRE_ARG(device_description);
  args.debug_string = args.device_description->debug_string.data();
  args.debug_string_size = args.device_description->debug_string.size();
  return {};
}
Status DeviceDescription_ToString(PJRT_DeviceDescription_ToString_Args& args) {
  REQUIRE_ARG(device_description);
  args.to_string = args.device_description->to_string.data();
  args.to_string_size = args.device_description->to_string.size();
  return {};
}

// --- Devices ------------------------------------------------------------------------------------

Status Device_GetDescription(PJRT_Device_GetDescription_Args& args) {
  REQUIRE_ARG(device);
  args.device_description = &args.device->description;
  return {};
}
Status Device_IsAddressable(PJRT_Device_IsAddressable_Args& args) {
  args.is_addressable = true;
  return {};
}
Status Device_LocalHardwareId(PJRT_Device_LocalHardwareId_Args& args) {
  REQUIRE_ARG(device);
  args.local_hardware_id = args.device->device->local_id();
  return {};
}
Status Device_AddressableMemories(PJRT_Device_AddressableMemories_Args& args) {
  REQUIRE_ARG(device);
  args.memories = args.device->memories.data();
  args.num_memories = args.device->memories.size();
  return {};
}
Status Device_DefaultMemory(PJRT_Device_DefaultMemory_Args& args) {
  REQUIRE_ARG(device);
  args.memory = args.device->default_memory;
  return {};
}
Status Device_GetAttributes(PJRT_Device_GetAttributes_Args& args) {
  REQUIRE_ARG(device);
  args.attributes = args.device->description.attributes.data();
  args.num_attributes = args.device->description.attributes.size();
  args.device_attributes = nullptr;
  args.attributes_deleter = [](PJRT_Device_Attributes*) {};  // they live as long as the device
  return {};
}

// Every flag that the caller knows is written: its memory is not initialized.
Status Device_MemoryStats(PJRT_Device_MemoryStats_Args& args) {
  REQUIRE_ARG(device);
  const MemoryUse& use = args.device->device->default_memory()->use();
  runtime::MemoryStats stats{.in_use = use.bytes,
                             .peak = use.peak_bytes,
                             .limit = args.device->client->client->memory_limit()};
  // A GPU counts what programs take for themselves too.
  const Accelerator* gpu = args.device->device->accelerator();
  if (gpu != nullptr) stats = gpu->device().memory();
  // Devices of the host take from one memory: what each may take if all of them do.
  auto devices = static_cast<int64_t>(args.device->client->client->devices().size());
  int64_t own = gpu != nullptr ? stats.limit : stats.limit / std::max<int64_t>(devices, 1);
  args.bytes_in_use = stats.in_use;
#define WEFT_STAT(field, value, is_set)  \
  if (HAS_FIELD(args, field##_is_set)) { \
    args.field = (value);                \
    args.field##_is_set = (is_set);      \
  }
  WEFT_STAT(peak_bytes_in_use, stats.peak, true)
  WEFT_STAT(num_allocs, use.allocations, true)
  WEFT_STAT(largest_alloc_size, 0, false)
  WEFT_STAT(bytes_limit, stats.limit, stats.limit > 0)
  WEFT_STAT(bytes_reserved, stats.reserved, gpu != nullptr)
  WEFT_STAT(peak_bytes_reserved, 0, false)
  WEFT_STAT(bytes_reservable_limit, own, own > 0)
  WEFT_STAT(largest_free_block_bytes, 0, false)
  WEFT_STAT(pool_bytes, stats.reserved, gpu != nullptr)
  WEFT_STAT(peak_pool_bytes, 0, false)
  WEFT_STAT(peak_allocated_bytes, 0, false)
#undef WEFT_STAT
  return {};
}
Status Device_ClearMemoryStats(PJRT_Device_ClearMemoryStats_Args& args) {
  REQUIRE_ARG(device);
  MemoryUse& use = args.device->device->default_memory()->use();
  use.peak_bytes = use.bytes.load();
  use.allocations = 0;
  return {};
}
Status Device_PoisonExecution(PJRT_Device_PoisonExecution_Args& args) {
  args.poisoned = false;
  return Unimplemented("PJRT_Device_PoisonExecution is not implemented");
}
Status Device_CreateAsyncTrackingEvent(PJRT_Device_CreateAsyncTrackingEvent_Args& args) {
  args.event = nullptr;  // nothing is tracked
  return {};
}
Status AsyncTrackingEvent_Destroy(PJRT_AsyncTrackingEvent_Destroy_Args&) {
  return {};
}

// --- Memories -----------------------------------------------------------------------------------

Status Memory_Id(PJRT_Memory_Id_Args& args) {
  REQUIRE_ARG(memory);
  args.id = Object(args.memory)->memory->id();
  return {};
}
Status Memory_Kind(PJRT_Memory_Kind_Args& args) {
  REQUIRE_ARG(memory);
  const std::string& kind = Object(args.memory)->memory->kind_name();
  args.kind = kind.data();
  args.kind_size = kind.size();
  return {};
}
Status Memory_Kind_Id(PJRT_Memory_Kind_Id_Args& args) {
  REQUIRE_ARG(memory);
  args.kind_id = Object(args.memory)->memory->kind_id();
  return {};
}
Status Memory_DebugString(PJRT_Memory_DebugString_Args& args) {
  REQUIRE_ARG(memory);
  const std::string& text = Object(args.memory)->memory->debug_string();
  args.debug_string = text.data();
  args.debug_string_size = text.size();
  return {};
}
Status Memory_ToString(PJRT_Memory_ToString_Args& args) {
  REQUIRE_ARG(memory);
  const std::string& text = Object(args.memory)->memory->debug_string();
  args.to_string = text.data();
  args.to_string_size = text.size();
  return {};
}
Status Memory_AddressableByDevices(PJRT_Memory_AddressableByDevices_Args& args) {
  REQUIRE_ARG(memory);
  args.devices = Object(args.memory)->devices.data();
  args.num_devices = Object(args.memory)->devices.size();
  return {};
}

}  // namespace weft::pjrt::slot
