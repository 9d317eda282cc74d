// Extensions of PJRT_Api that Weft offers: a list that starts at PJRT_Api::extension_start, each
// with a PJRT_Extension_Base in front. Which of them a framework uses it decides by their type.
#pragma once

#include "pjrt/abi/abi_args.h"

// Layouts: how arrays lie in memory, as text `{1,0}`.
struct PJRT_Layouts_MemoryLayout;
struct PJRT_Layouts_SerializedLayout;
struct PJRT_Layouts_MemoryLayout_Destroy_Args : PJRT_Head {
  PJRT_Layouts_MemoryLayout* layout;
};
struct PJRT_Layouts_MemoryLayout_Serialize_Args : PJRT_Head {
  PJRT_Layouts_MemoryLayout* layout;
  const char* serialized_bytes;
  size_t serialized_bytes_size;
  PJRT_Layouts_SerializedLayout* serialized_layout;
  void (*serialized_layout_deleter)(PJRT_Layouts_SerializedLayout*);
};
struct PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args : PJRT_Head {
  PJRT_Buffer* buffer;
  PJRT_Layouts_MemoryLayout* layout;
};
struct PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args : PJRT_Head {
  PJRT_Client* client;
  PJRT_Buffer_Type type;
  const int64_t* dims;
  size_t num_dims;
  PJRT_Layouts_MemoryLayout* layout;
};
struct PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args : PJRT_Head {
  PJRT_TopologyDescription* topology_description;
  PJRT_Buffer_Type type;
  const int64_t* dims;
  size_t num_dims;
  PJRT_Layouts_MemoryLayout* layout;
};
struct PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args : PJRT_Head {
  PJRT_Executable* executable;
  size_t num_outputs;
  PJRT_Layouts_MemoryLayout** layouts;
};
struct PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args : PJRT_Head {
  PJRT_Executable* executable;
  size_t num_parameters;
  PJRT_Layouts_MemoryLayout** layouts;
};
struct PJRT_Layouts_Extension {
  PJRT_Extension_Base base;
  PJRT_Error* (*memory_layout_destroy)(PJRT_Layouts_MemoryLayout_Destroy_Args*);
  PJRT_Error* (*memory_layout_serialize)(PJRT_Layouts_MemoryLayout_Serialize_Args*);
  PJRT_Error* (*client_default)(PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args*);
  PJRT_Error* (*of_buffer)(PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args*);
  PJRT_Error* (*topology_default)(PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args*);
  PJRT_Error* (*of_outputs)(PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args*);
  PJRT_Error* (*of_parameters)(PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args*);
};

// Shardings: OpSharding messages; a null list says that there are none.
struct PJRT_Shardings_PJRT_Executable_ParameterShardings_Args : PJRT_Head {
  PJRT_Executable* executable;
  size_t num_parameters;
  const char* const* shardings;
  const size_t* sharding_sizes;
};
struct PJRT_Shardings_PJRT_Executable_OutputShardings_Args : PJRT_Head {
  PJRT_Executable* executable;
  size_t num_outputs;
  const char* const* shardings;
  const size_t* sharding_sizes;
};
struct PJRT_Shardings_Extension {
  PJRT_Extension_Base base;
  PJRT_Error* (*of_parameters)(PJRT_Shardings_PJRT_Executable_ParameterShardings_Args*);
  PJRT_Error* (*of_outputs)(PJRT_Shardings_PJRT_Executable_OutputShardings_Args*);
};

// FFI: custom calls.
struct PJRT_FFI_Type_Info {
  void (*deleter)(void* object);
  void (*serialize)();
  void (*deserialize)();
};
struct PJRT_FFI_Type_Register_Args : PJRT_Head {
  const char* type_name;
  size_t type_name_size;
  int64_t type_id;  // 0: give it one
  PJRT_FFI_Type_Info* type_info;
};
struct PJRT_FFI_UserData {
  int64_t type_id;
  void* data;
};
struct PJRT_FFI_UserData_Add_Args : PJRT_Head {
  PJRT_ExecuteContext* context;
  PJRT_FFI_UserData user_data;
};
struct PJRT_FFI_Register_Handler_Args {
  size_t struct_size;
  const char* target_name;
  size_t target_name_size;
  void* handler;  // XLA_FFI_Handler*
  const char* platform_name;
  size_t platform_name_size;
  int32_t traits;
};
struct PJRT_FFI_Extension {
  PJRT_Extension_Base base;
  PJRT_Error* (*type_register)(PJRT_FFI_Type_Register_Args*);
  PJRT_Error* (*user_data_add)(PJRT_FFI_UserData_Add_Args*);
  PJRT_Error* (*register_handler)(PJRT_FFI_Register_Handler_Args*);
};

// MemoryDescriptions: the memories that devices of a topology have.
struct PJRT_MemoryDescription;
struct PJRT_DeviceDescription_MemoryDescriptions_Args : PJRT_Head {
  PJRT_DeviceDescription* device_description;
  const PJRT_MemoryDescription* const* memory_descriptions;
  size_t num_memory_descriptions;
  size_t default_memory_index;
};
struct PJRT_MemoryDescription_Kind_Args : PJRT_Head {
  const PJRT_MemoryDescription* memory_description;
  const char* kind;
  size_t kind_size;
  int kind_id;
};
struct PJRT_MemoryDescriptions_Extension {
  PJRT_Extension_Base base;
  PJRT_Error* (*of_device)(PJRT_DeviceDescription_MemoryDescriptions_Args*);
  PJRT_Error* (*kind)(PJRT_MemoryDescription_Kind_Args*);
};

// Stream: of an accelerator; there is none here.
struct PJRT_Get_Stream_For_External_Ready_Events_Args {
  size_t struct_size;
  PJRT_Device* device;
  intptr_t stream;
};
struct PJRT_Wait_Until_Buffer_Ready_On_Stream_Args {
  size_t struct_size;
  intptr_t stream;
  PJRT_Buffer* buffer;
};
struct PJRT_Stream_Extension {
  PJRT_Extension_Base base;
  PJRT_Error* (*get_stream)(PJRT_Get_Stream_For_External_Ready_Events_Args*);
  PJRT_Error* (*wait_stream)(PJRT_Wait_Until_Buffer_Ready_On_Stream_Args*);
};

// Profiler: timelines for jax.profiler, as serialized XSpaces. Its functions have errors of their
// own, and callers leave struct_size unset. In the arguments of Compile and Execute the extension
// names the call: `traceme_context_id`, without functions.
struct PLUGIN_Profiler;
struct PLUGIN_Profiler_Error;
struct PLUGIN_Profiler_Error_Destroy_Args {
  size_t struct_size;
  void* priv;
  PLUGIN_Profiler_Error* error;
};
struct PLUGIN_Profiler_Error_Message_Args {
  size_t struct_size;
  void* priv;
  const PLUGIN_Profiler_Error* error;
  const char* message;
  size_t message_size;
};
struct PLUGIN_Profiler_Error_GetCode_Args {
  size_t struct_size;
  void* priv;
  const PLUGIN_Profiler_Error* error;
  int code;
};
struct PLUGIN_Profiler_Create_Args {
  size_t struct_size;
  const char* options;  // ProfileOptions
  size_t options_size;
  PLUGIN_Profiler* profiler;
};
struct PLUGIN_Profiler_Args {  // of Destroy, Start and Stop
  size_t struct_size;
  PLUGIN_Profiler* profiler;
};
struct PLUGIN_Profiler_CollectData_Args {
  size_t struct_size;
  PLUGIN_Profiler* profiler;
  uint8_t* buffer;  // null: the profiler's own, until it is destroyed
  size_t buffer_size_in_bytes;
};
struct PLUGIN_Profiler_Api {
  size_t struct_size;
  void* priv;
  void (*error_destroy)(PLUGIN_Profiler_Error_Destroy_Args*);
  void (*error_message)(PLUGIN_Profiler_Error_Message_Args*);
  PLUGIN_Profiler_Error* (*error_get_code)(PLUGIN_Profiler_Error_GetCode_Args*);
  PLUGIN_Profiler_Error* (*create)(PLUGIN_Profiler_Create_Args*);
  PLUGIN_Profiler_Error* (*destroy)(PLUGIN_Profiler_Args*);
  PLUGIN_Profiler_Error* (*start)(PLUGIN_Profiler_Args*);
  PLUGIN_Profiler_Error* (*stop)(PLUGIN_Profiler_Args*);
  PLUGIN_Profiler_Error* (*collect_data)(PLUGIN_Profiler_CollectData_Args*);
};  // newer versions have more, for profiles without end; older ones take this size alone
struct PJRT_Profiler_Extension {
  PJRT_Extension_Base base;
  const PLUGIN_Profiler_Api* profiler_api;
  int64_t traceme_context_id;
};
