// Arguments of the functions of PJRT_Api about buffers and transfers (abi_args.h has the others).
#pragma once

#include "pjrt/abi/abi.h"

// Buffers, and where they come from.
struct PJRT_Client_CreateUninitializedBuffer_Args : PJRT_Head {
  PJRT_Client* client;
  const int64_t* shape_dims;
  size_t shape_num_dims;
  PJRT_Buffer_Type shape_element_type;
  PJRT_Buffer_MemoryLayout* shape_layout;
  PJRT_Device* device;
  PJRT_Memory* memory;
  PJRT_Buffer* buffer;
};
struct PJRT_Client_CreateErrorBuffer_Args : PJRT_Head {
  PJRT_Client* client;
  PJRT_Error_Code error_code;
  const char* error_message;
  size_t error_message_size;
  const int64_t* shape_dims;
  size_t shape_num_dims;
  PJRT_Buffer_Type shape_element_type;
  PJRT_Buffer_MemoryLayout* shape_layout;
  PJRT_Memory* memory;
  PJRT_Buffer* buffer;
  const PJRT_NamedValue* payload;
  size_t num_payload;
};
struct PJRT_Client_CreateAliasBuffer_Args : PJRT_Head {
  PJRT_Client* client;
  PJRT_Memory* memory;
  const int64_t* shape_dims;
  size_t shape_num_dims;
  PJRT_Buffer_Type shape_element_type;
  PJRT_Buffer_MemoryLayout* shape_layout;
  PJRT_Buffer* alias_buffer;
  PJRT_FulfillAliasBufferCallback* fulfill_alias_buffer_cb;
};
struct PJRT_Client_FulfillAliasBuffer_Args : PJRT_Head {
  PJRT_Client* client;
  PJRT_Buffer* buffer;
  PJRT_Error_Code status_code;
  const char* error_message;
  size_t error_message_size;
  PJRT_FulfillAliasBufferCallback* fulfill_alias_buffer_cb;
};
struct PJRT_Client_BufferFromHostBuffer_Args : PJRT_Head {
  PJRT_Client* client;
  const void* data;
  PJRT_Buffer_Type type;
  const int64_t* dims;
  size_t num_dims;
  const int64_t* byte_strides;
  size_t num_byte_strides;
  PJRT_HostBufferSemantics host_buffer_semantics;
  PJRT_Device* device;
  PJRT_Memory* memory;
  PJRT_Buffer_MemoryLayout* device_layout;
  PJRT_Event* done_with_host_buffer;
  PJRT_Buffer* buffer;
};
struct PJRT_Client_CreateViewOfDeviceBuffer_Args : PJRT_Head {
  PJRT_Client* client;
  void* device_buffer_ptr;
  const int64_t* dims;
  size_t num_dims;
  PJRT_Buffer_Type element_type;
  PJRT_Buffer_MemoryLayout* layout;
  PJRT_Device* device;
  void (*on_delete_callback)(void* device_buffer_ptr, void* user_arg);
  void* on_delete_callback_arg;
  intptr_t stream;
  PJRT_Buffer* buffer;
  PJRT_Memory* memory;
};
struct PJRT_Client_CreateBuffersForAsyncHostToDevice_Args : PJRT_Head {
  PJRT_Client* client;
  PJRT_ShapeSpec* shape_specs;
  size_t num_shape_specs;
  PJRT_Buffer_MemoryLayout** device_layouts;
  size_t num_device_layouts;
  PJRT_Memory* memory;
  PJRT_AsyncHostToDeviceTransferManager* transfer_manager;
};
struct PJRT_Buffer_Destroy_Args : PJRT_Head {
  PJRT_Buffer* buffer;
};
struct PJRT_Buffer_ElementType_Args : PJRT_Head {
  PJRT_Buffer* buffer;
  PJRT_Buffer_Type type;
};
struct PJRT_Buffer_Dimensions_Args : PJRT_Head {
  PJRT_Buffer* buffer;
  const int64_t* dims;
  size_t num_dims;
};
struct PJRT_Buffer_UnpaddedDimensions_Args : PJRT_Head {
  PJRT_Buffer* buffer;
  const int64_t* unpadded_dims;
  size_t num_dims;
};
struct PJRT_Buffer_DynamicDimensionIndices_Args : PJRT_Head {
  PJRT_Buffer* buffer;
  const size_t* dynamic_dim_indices;
  size_t num_dynamic_dims;
};
struct PJRT_Buffer_GetMemoryLayout_Args : PJRT_Head {
  PJRT_Buffer* buffer;
  PJRT_Buffer_MemoryLayout layout;
};
struct PJRT_Buffer_ToHostBuffer_Args : PJRT_Head {
  PJRT_Buffer* src;
  PJRT_Buffer_MemoryLayout* host_layout;
  void* dst;
  size_t dst_size;
  PJRT_Event* event;
};
struct PJRT_Buffer_OnDeviceSizeInBytes_Args : PJRT_Head {
  PJRT_Buffer* buffer;
  size_t on_device_size_in_bytes;
};
struct PJRT_Buffer_Delete_Args : PJRT_Head {
  PJRT_Buffer* buffer;
};
struct PJRT_Buffer_IsDeleted_Args : PJRT_Head {
  PJRT_Buffer* buffer;
  bool is_deleted;
};
struct PJRT_Buffer_CopyRawToHost_Args : PJRT_Head {
  PJRT_Buffer* buffer;
  void* dst;
  int64_t offset, transfer_size;
  PJRT_Event* event;
};
struct PJRT_Buffer_CopyRawToHostFuture_Callback_Args {
  size_t struct_size;
  void* callback_data;
  PJRT_Error_Code error_code;
  const char* error_message;
  size_t error_message_size;
  void* dst;
};
struct PJRT_Buffer_CopyRawToHostFuture_Args : PJRT_Head {
  PJRT_Buffer* buffer;
  int64_t offset, transfer_size;
  PJRT_Event* event;
  void* callback_data;
  void (*future_ready_callback)(PJRT_Buffer_CopyRawToHostFuture_Callback_Args*);
};
struct PJRT_Buffer_CopyToDevice_Args : PJRT_Head {
  PJRT_Buffer* buffer;
  PJRT_Device* dst_device;
  PJRT_Buffer* dst_buffer;
};
struct PJRT_Buffer_CopyToMemory_Args : PJRT_Head {
  PJRT_Buffer* buffer;
  PJRT_Memory* dst_memory;
  PJRT_Buffer* dst_buffer;
};
struct PJRT_Buffer_Bitcast_Args : PJRT_Head {
  PJRT_Buffer* buffer;
  PJRT_Buffer_Type element_type;
  const int64_t* dims;
  size_t num_dims;
  PJRT_Buffer_MemoryLayout* device_layout;
  PJRT_Buffer* out_buffer;
};
struct PJRT_Buffer_IsOnCpu_Args : PJRT_Head {
  PJRT_Buffer* buffer;
  bool is_on_cpu;
};
struct PJRT_Buffer_Device_Args : PJRT_Head {
  PJRT_Buffer* buffer;
  PJRT_Device* device;
};
struct PJRT_Buffer_Memory_Args : PJRT_Head {
  PJRT_Buffer* buffer;
  PJRT_Memory* memory;
};
struct PJRT_Buffer_ReadyEvent_Args : PJRT_Head {
  PJRT_Buffer* buffer;
  PJRT_Event* event;
};
struct PJRT_Buffer_UnsafePointer_Args : PJRT_Head {
  PJRT_Buffer* buffer;
  uintptr_t buffer_pointer;
};
struct PJRT_Buffer_IncreaseExternalReferenceCount_Args : PJRT_Head {
  PJRT_Buffer* buffer;
};
struct PJRT_Buffer_DecreaseExternalReferenceCount_Args : PJRT_Head {
  PJRT_Buffer* buffer;
};
struct PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args : PJRT_Head {
  PJRT_Buffer* buffer;
  void* device_memory_ptr;
};
struct PJRT_Buffer_DonateWithControlDependency_Callback_Args {
  size_t struct_size;
  void* callback_data;
  PJRT_Error_Code error_code;
  const char* error_message;
  size_t error_message_size;
};
struct PJRT_Buffer_DonateWithControlDependency_Args : PJRT_Head {
  PJRT_Buffer* buffer;
  void* callback_data;
  void (*dependency_ready_callback)(PJRT_Buffer_DonateWithControlDependency_Callback_Args*);
  PJRT_Buffer* out_buffer;
};

// Transfers in pieces.
struct PJRT_AsyncHostToDeviceTransferManager_Destroy_Args : PJRT_Head {
  PJRT_AsyncHostToDeviceTransferManager* transfer_manager;
};
struct PJRT_AsyncHostToDeviceTransferManager_TransferData_Args : PJRT_Head {
  PJRT_AsyncHostToDeviceTransferManager* transfer_manager;
  int buffer_index;
  const void* data;
  int64_t offset, transfer_size;
  bool is_last_transfer;
  PJRT_Event* done_with_h2d_transfer;
};
struct PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args : PJRT_Head {
  PJRT_AsyncHostToDeviceTransferManager* transfer_manager;
  int buffer_index;
  PJRT_Buffer* buffer_out;
};
struct PJRT_AsyncHostToDeviceTransferManager_Device_Args : PJRT_Head {
  PJRT_AsyncHostToDeviceTransferManager* transfer_manager;
  PJRT_Device* device_out;
};
struct PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args : PJRT_Head {
  PJRT_AsyncHostToDeviceTransferManager* transfer_manager;
  size_t buffer_count;
};
struct PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args : PJRT_Head {
  PJRT_AsyncHostToDeviceTransferManager* transfer_manager;
  int buffer_index;
  size_t buffer_size;
};
struct PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args : PJRT_Head {
  PJRT_AsyncHostToDeviceTransferManager* transfer_manager;
  int buffer_index;
  PJRT_Error_Code error_code;
  const char* error_message;
  size_t error_message_size;
};
struct PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args : PJRT_Head {
  PJRT_AsyncHostToDeviceTransferManager* transfer_manager;
  const PJRT_NamedValue* transfer_metadata;
  size_t num_metadata;
};
struct PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args : PJRT_Head {
  PJRT_AsyncHostToDeviceTransferManager* transfer_manager;
  int buffer_index;
  const void* data;
  const int64_t* shape_dims;
  size_t shape_num_dims;
  PJRT_Buffer_Type shape_element_type;
  PJRT_Buffer_MemoryLayout* shape_layout;
  PJRT_Event* done_with_h2d_transfer;
};
struct PJRT_CopyToDeviceStream_Destroy_Args : PJRT_Head {
  PJRT_CopyToDeviceStream* stream;
};
struct PJRT_CopyToDeviceStream_AddChunk_Args : PJRT_Head {
  PJRT_CopyToDeviceStream* stream;
  PJRT_Chunk* chunk;
  PJRT_Event* transfer_complete;
};
struct PJRT_CopyToDeviceStream_TotalBytes_Args : PJRT_Head {
  PJRT_CopyToDeviceStream* stream;
  int64_t total_bytes;
};
struct PJRT_CopyToDeviceStream_GranuleSize_Args : PJRT_Head {
  PJRT_CopyToDeviceStream* stream;
  int64_t granule_size_in_bytes;
};
struct PJRT_CopyToDeviceStream_CurrentBytes_Args : PJRT_Head {
  PJRT_CopyToDeviceStream* stream;
  int64_t current_bytes;
};
