// The arguments of the functions of PJRT_Api (abi.h has what they are made of), and the table
// itself.
// `_Args` structs are allocated by the framework, which does not initialize what the plugin returns
// in them.
#pragma once

#include "pjrt/abi/abi.h"
#include "pjrt/abi/abi_buffer_args.h"
#include "pjrt/abi/abi_executable_args.h"

// Errors, the plugin, events.
struct PJRT_Error_Destroy_Args : PJRT_Head {
  PJRT_Error* error;
};
struct PJRT_Error_Message_Args : PJRT_Head {
  const PJRT_Error* error;
  const char* message;
  size_t message_size;
};
struct PJRT_Error_GetCode_Args : PJRT_Head {
  const PJRT_Error* error;
  PJRT_Error_Code code;
};
struct PJRT_Error_ForEachPayload_Args : PJRT_Head {
  const PJRT_Error* error;
  PJRT_Error_PayloadVisitor visitor;
  void* user_arg;
};
struct PJRT_Plugin_Initialize_Args : PJRT_Head {};
struct PJRT_Plugin_Attributes_Args : PJRT_Head {
  const PJRT_NamedValue* attributes;
  size_t num_attributes;
};
struct PJRT_Event_Destroy_Args : PJRT_Head {
  PJRT_Event* event;
};
struct PJRT_Event_IsReady_Args : PJRT_Head {
  PJRT_Event* event;
  bool is_ready;
};
struct PJRT_Event_Error_Args : PJRT_Head {
  PJRT_Event* event;
};
struct PJRT_Event_Await_Args : PJRT_Head {
  PJRT_Event* event;
};
struct PJRT_Event_OnReady_Args : PJRT_Head {
  PJRT_Event* event;
  PJRT_Event_OnReadyCallback callback;
  void* user_arg;
};
struct PJRT_Event_Create_Args : PJRT_Head {
  PJRT_Event* event;
};
struct PJRT_Event_Set_Args : PJRT_Head {
  PJRT_Event* event;
  PJRT_Error_Code error_code;
  const char* error_message;
  size_t error_message_size;
};

// Clients.
struct PJRT_KeyValueGetCallback_Args : PJRT_Head {
  const char* key;
  size_t key_size;
  int timeout_in_ms;
  PJRT_CallbackError* callback_error;
  void* user_arg;
  char* value;
  size_t value_size;
  PJRT_KeyValueGetCallback_ValueDeleter value_deleter_callback;
};
struct PJRT_KeyValueTryGetCallback_Args : PJRT_Head {
  const char* key;
  size_t key_size;
  PJRT_CallbackError* callback_error;
  void* user_arg;
  char* value;
  size_t value_size;
  PJRT_KeyValueTryGetCallback_ValueDeleter value_deleter_callback;
};
struct PJRT_KeyValuePutCallback_Args : PJRT_Head {
  const char* key;
  size_t key_size;
  const char* value;
  size_t value_size;
  PJRT_CallbackError* callback_error;
  void* user_arg;
};
struct PJRT_Client_Create_Args : PJRT_Head {
  const PJRT_NamedValue* create_options;
  size_t num_options;
  PJRT_KeyValueGetCallback kv_get_callback;
  void* kv_get_user_arg;
  PJRT_KeyValuePutCallback kv_put_callback;
  void* kv_put_user_arg;
  PJRT_Client* client;
  PJRT_KeyValueTryGetCallback kv_try_get_callback;
  void* kv_try_get_user_arg;
};
struct PJRT_Client_Destroy_Args : PJRT_Head {
  PJRT_Client* client;
};
struct PJRT_Client_PlatformName_Args : PJRT_Head {
  PJRT_Client* client;
  const char* platform_name;
  size_t platform_name_size;
};
struct PJRT_Client_ProcessIndex_Args : PJRT_Head {
  PJRT_Client* client;
  int process_index;
};
struct PJRT_Client_PlatformVersion_Args : PJRT_Head {
  PJRT_Client* client;
  const char* platform_version;
  size_t platform_version_size;
};
struct PJRT_Client_TopologyDescription_Args : PJRT_Head {
  PJRT_Client* client;
  PJRT_TopologyDescription* topology;
};
struct PJRT_Client_Devices_Args : PJRT_Head {
  PJRT_Client* client;
  PJRT_Device* const* devices;
  size_t num_devices;
};
struct PJRT_Client_AddressableDevices_Args : PJRT_Head {
  PJRT_Client* client;
  PJRT_Device* const* addressable_devices;
  size_t num_addressable_devices;
};
struct PJRT_Client_LookupDevice_Args : PJRT_Head {
  PJRT_Client* client;
  int id;
  PJRT_Device* device;
};
struct PJRT_Client_LookupAddressableDevice_Args : PJRT_Head {
  PJRT_Client* client;
  int local_hardware_id;
  PJRT_Device* addressable_device;
};
struct PJRT_Client_UpdateGlobalProcessInfo_Args : PJRT_Head {
  PJRT_Client* client;
  PJRT_ProcessInfo* process_infos;
  size_t num_process_infos;
};
struct PJRT_Client_AddressableMemories_Args : PJRT_Head {
  PJRT_Client* client;
  PJRT_Memory* const* addressable_memories;
  size_t num_addressable_memories;
};
struct PJRT_Client_Compile_Args : PJRT_Head {
  PJRT_Client* client;
  const PJRT_Program* program;
  const char* compile_options;
  size_t compile_options_size;
  PJRT_LoadedExecutable* executable;
};
struct PJRT_Client_Load_Args : PJRT_Head {
  PJRT_Client* client;
  PJRT_Executable* executable;
  const char* compile_options;
  size_t compile_options_size;
  PJRT_LoadedExecutable* loaded_executable;
};
struct PJRT_Client_DefaultDeviceAssignment_Args : PJRT_Head {
  PJRT_Client* client;
  int num_replicas, num_partitions;
  size_t default_assignment_size;
  int* default_assignment;
};
struct PJRT_Client_DmaMap_Args : PJRT_Head {
  PJRT_Client* client;
  void* data;
  size_t size;
};
struct PJRT_Client_DmaUnmap_Args : PJRT_Head {
  PJRT_Client* client;
  void* data;
};

// Devices and their descriptions.
struct PJRT_DeviceDescription_Id_Args : PJRT_Head {
  PJRT_DeviceDescription* device_description;
  int id;
};
struct PJRT_DeviceDescription_ProcessIndex_Args : PJRT_Head {
  PJRT_DeviceDescription* device_description;
  int process_index;
};
struct PJRT_DeviceDescription_Attributes_Args : PJRT_Head {
  PJRT_DeviceDescription* device_description;
  size_t num_attributes;
  const PJRT_NamedValue* attributes;
};
struct PJRT_DeviceDescription_Kind_Args : PJRT_Head {
  PJRT_DeviceDescription* device_description;
  const char* device_kind;
  size_t device_kind_size;
};
struct PJRT_DeviceDescription_DebugString_Args : PJRT_Head {
  PJRT_DeviceDescription* device_description;
  const char* debug_string;
  size_t debug_string_size;
};
struct PJRT_DeviceDescription_ToString_Args : PJRT_Head {
  PJRT_DeviceDescription* device_description;
  const char* to_string;
  size_t to_string_size;
};
struct PJRT_Device_GetDescription_Args : PJRT_Head {
  PJRT_Device* device;
  PJRT_DeviceDescription* device_description;
};
struct PJRT_Device_IsAddressable_Args : PJRT_Head {
  PJRT_Device* device;
  bool is_addressable;
};
struct PJRT_Device_LocalHardwareId_Args : PJRT_Head {
  PJRT_Device* device;
  int local_hardware_id;
};
struct PJRT_Device_AddressableMemories_Args : PJRT_Head {
  PJRT_Device* device;
  PJRT_Memory* const* memories;
  size_t num_memories;
};
struct PJRT_Device_DefaultMemory_Args : PJRT_Head {
  PJRT_Device* device;
  PJRT_Memory* memory;
};
struct PJRT_Device_MemoryStats_Args : PJRT_Head {
  PJRT_Device* device;
  int64_t bytes_in_use, peak_bytes_in_use;
  bool peak_bytes_in_use_is_set;
  int64_t num_allocs;
  bool num_allocs_is_set;
  int64_t largest_alloc_size;
  bool largest_alloc_size_is_set;
  int64_t bytes_limit;
  bool bytes_limit_is_set;
  int64_t bytes_reserved;
  bool bytes_reserved_is_set;
  int64_t peak_bytes_reserved;
  bool peak_bytes_reserved_is_set;
  int64_t bytes_reservable_limit;
  bool bytes_reservable_limit_is_set;
  int64_t largest_free_block_bytes;
  bool largest_free_block_bytes_is_set;
  int64_t pool_bytes;
  bool pool_bytes_is_set;
  int64_t peak_pool_bytes;
  bool peak_pool_bytes_is_set;
  int64_t peak_allocated_bytes;
  bool peak_allocated_bytes_is_set;
};
struct PJRT_Device_ClearMemoryStats_Args : PJRT_Head {
  PJRT_Device* device;
};
struct PJRT_Device_PoisonExecution_Args : PJRT_Head {
  PJRT_Device* device;
  int32_t launch_id;
  PJRT_Error_Code error_code;
  const char* error_message;
  size_t error_message_size;
  bool poisoned;
  const PJRT_NamedValue* payload;
  size_t num_payload;
};
struct PJRT_Device_GetAttributes_Args : PJRT_Head {
  PJRT_Device* device;
  const PJRT_NamedValue* attributes;
  size_t num_attributes;
  PJRT_Device_Attributes* device_attributes;
  void (*attributes_deleter)(PJRT_Device_Attributes*);
};
struct PJRT_Device_CreateAsyncTrackingEvent_Args : PJRT_Head {
  PJRT_Device* device;
  const char* description;
  size_t description_size;
  PJRT_AsyncTrackingEvent* event;
};
struct PJRT_AsyncTrackingEvent_Destroy_Args : PJRT_Head {
  PJRT_AsyncTrackingEvent* event;
};

// Memories.
struct PJRT_Memory_Id_Args : PJRT_Head {
  PJRT_Memory* memory;
  int id;
};
struct PJRT_Memory_Kind_Args : PJRT_Head {
  PJRT_Memory* memory;
  const char* kind;
  size_t kind_size;
};
struct PJRT_Memory_Kind_Id_Args : PJRT_Head {
  PJRT_Memory* memory;
  int kind_id;
};
struct PJRT_Memory_DebugString_Args : PJRT_Head {
  PJRT_Memory* memory;
  const char* debug_string;
  size_t debug_string_size;
};
struct PJRT_Memory_ToString_Args : PJRT_Head {
  PJRT_Memory* memory;
  const char* to_string;
  size_t to_string_size;
};
struct PJRT_Memory_AddressableByDevices_Args : PJRT_Head {
  PJRT_Memory* memory;
  PJRT_Device* const* devices;
  size_t num_devices;
};

// Topologies.
struct PJRT_TopologyDescription_Create_Args : PJRT_Head {
  const char* topology_name;
  size_t topology_name_size;
  const PJRT_NamedValue* create_options;
  size_t num_options;
  PJRT_TopologyDescription* topology;
};
struct PJRT_TopologyDescription_Destroy_Args : PJRT_Head {
  PJRT_TopologyDescription* topology;
};
struct PJRT_TopologyDescription_PlatformVersion_Args : PJRT_Head {
  PJRT_TopologyDescription* topology;
  const char* platform_version;
  size_t platform_version_size;
};
struct PJRT_TopologyDescription_PlatformName_Args : PJRT_Head {
  const PJRT_TopologyDescription* topology;
  const char* platform_name;
  size_t platform_name_size;
};
struct PJRT_TopologyDescription_GetDeviceDescriptions_Args : PJRT_Head {
  const PJRT_TopologyDescription* topology;
  PJRT_DeviceDescription* const* descriptions;
  size_t num_descriptions;
};
struct PJRT_TopologyDescription_Serialize_Args : PJRT_Head {
  PJRT_TopologyDescription* topology;
  const char* serialized_bytes;
  size_t serialized_bytes_size;
  PJRT_SerializedTopology* serialized_topology;
  void (*serialized_topology_deleter)(PJRT_SerializedTopology*);
};
struct PJRT_TopologyDescription_Deserialize_Args : PJRT_Head {
  const char* serialized_topology;
  size_t serialized_topology_size;
  PJRT_TopologyDescription* topology;
};
struct PJRT_TopologyDescription_Attributes_Args : PJRT_Head {
  PJRT_TopologyDescription* topology;
  const PJRT_NamedValue* attributes;
  size_t num_attributes;
};
struct PJRT_TopologyDescription_Fingerprint_Args : PJRT_Head {
  const PJRT_TopologyDescription* topology;
  uint64_t fingerprint;
};
struct PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args : PJRT_Head {
  const PJRT_TopologyDescription* topology;
  int memory_space_kind_id;
  const int64_t* dims;
  size_t num_dims;
  PJRT_Buffer_Type element_type;
  const PJRT_Buffer_MemoryLayout* layout;
  const char* serialized_shape;
  size_t serialized_shape_size;
  void (*serialized_shape_deleter)(const char*);
};
struct PJRT_TopologyDescription_GetMemorySpaceKindIds_Args : PJRT_Head {
  const PJRT_TopologyDescription* topology;
  const int* memory_space_kind_ids;
  size_t num_memory_space_kind_ids;
};

struct PJRT_Api {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Api_Version pjrt_api_version;
  void (*PJRT_Error_Destroy)(PJRT_Error_Destroy_Args*);
  void (*PJRT_Error_Message)(PJRT_Error_Message_Args*);
#define SLOT(name) PJRT_Error* (*PJRT_##name)(PJRT_##name##_Args*);
#include "pjrt/abi/abi_slots.inc"
#undef SLOT
};
