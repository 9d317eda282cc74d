// The C interface of XLA's typed FFI, version 0.4 (0.3 is its beginning), as Weft writes it down:
// what custom call handlers in shared libraries are compiled against. Names, order and types of the
// fields are the interface's.
#pragma once

#include <cstddef>
#include <cstdint>

struct XLA_FFI_Api;
struct XLA_FFI_Error;             // ours to define (ffi_api.cc)
struct XLA_FFI_ExecutionContext;  // also
struct XLA_FFI_Future;            // also

struct XLA_FFI_Extension_Base {
  size_t struct_size;
  int32_t type;
  XLA_FFI_Extension_Base* next;
};
inline constexpr int32_t kFfiMetadataExtension = 1;

struct XLA_FFI_Head {
  size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
};
struct XLA_FFI_Api_Version {
  size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  int major_version, minor_version;
};

enum XLA_FFI_DataType : int32_t {  // the numbers of xla::PrimitiveType
  XLA_FFI_DataType_INVALID = 0,
  XLA_FFI_DataType_PRED = 1,
  XLA_FFI_DataType_S8 = 2,
  XLA_FFI_DataType_S16 = 3,
  XLA_FFI_DataType_S32 = 4,
  XLA_FFI_DataType_S64 = 5,
  XLA_FFI_DataType_U8 = 6,
  XLA_FFI_DataType_U16 = 7,
  XLA_FFI_DataType_U32 = 8,
  XLA_FFI_DataType_U64 = 9,
  XLA_FFI_DataType_F16 = 10,
  XLA_FFI_DataType_F32 = 11,
  XLA_FFI_DataType_F64 = 12,
  XLA_FFI_DataType_C64 = 15,
  XLA_FFI_DataType_BF16 = 16,
  XLA_FFI_DataType_TOKEN = 17,
  XLA_FFI_DataType_C128 = 18,
  XLA_FFI_DataType_F8E5M2 = 19,
  XLA_FFI_DataType_F8E4M3FN = 20,
  XLA_FFI_DataType_S4 = 21,
  XLA_FFI_DataType_U4 = 22,
  XLA_FFI_DataType_F8E4M3B11FNUZ = 23,
  XLA_FFI_DataType_F8E5M2FNUZ = 24,
  XLA_FFI_DataType_F8E4M3FNUZ = 25,
  XLA_FFI_DataType_S2 = 26,
  XLA_FFI_DataType_U2 = 27,
  XLA_FFI_DataType_F8E4M3 = 28,
  XLA_FFI_DataType_F8E3M4 = 29,
  XLA_FFI_DataType_S1 = 30,
  XLA_FFI_DataType_U1 = 31,
  XLA_FFI_DataType_F4E2M1FN = 32,
  XLA_FFI_DataType_F8E8M0FNU = 33,
};
enum XLA_FFI_AttrType : int32_t {
  XLA_FFI_AttrType_ARRAY = 1,
  XLA_FFI_AttrType_DICTIONARY = 2,
  XLA_FFI_AttrType_SCALAR = 3,
  XLA_FFI_AttrType_STRING = 4,
};
enum XLA_FFI_ExecutionStage : int32_t {
  XLA_FFI_ExecutionStage_INSTANTIATE = 0,
  XLA_FFI_ExecutionStage_PREPARE = 1,
  XLA_FFI_ExecutionStage_INITIALIZE = 2,
  XLA_FFI_ExecutionStage_EXECUTE = 3,
};

// Arguments, results and attributes of one call.
struct XLA_FFI_Buffer : XLA_FFI_Head {
  XLA_FFI_DataType dtype;
  void* data;
  int64_t rank;
  int64_t* dims;
};
struct XLA_FFI_ByteSpan {
  const char* ptr;
  size_t len;
};
struct XLA_FFI_Scalar {
  XLA_FFI_DataType dtype;
  void* value;
};
struct XLA_FFI_Array {
  XLA_FFI_DataType dtype;
  size_t size;
  void* data;
};
struct XLA_FFI_TypeId {
  int64_t type_id;
};
struct XLA_FFI_TypeInfo : XLA_FFI_Head {
  void (*deleter)(void* object);
};
struct XLA_FFI_Args : XLA_FFI_Head {
  int64_t size;
  int32_t* types;  // all 1: a buffer
  void** args;     // XLA_FFI_Buffer*
};
struct XLA_FFI_Rets : XLA_FFI_Head {
  int64_t size;
  int32_t* types;
  void** rets;
};
struct XLA_FFI_Attrs : XLA_FFI_Head {
  int64_t size;
  XLA_FFI_AttrType* types;
  XLA_FFI_ByteSpan** names;  // in order
  void** attrs;              // XLA_FFI_Array*, XLA_FFI_Attrs*, XLA_FFI_Scalar*, XLA_FFI_ByteSpan*
};
struct XLA_FFI_CallFrame : XLA_FFI_Head {
  const XLA_FFI_Api* api;
  XLA_FFI_ExecutionContext* ctx;
  XLA_FFI_ExecutionStage stage;
  XLA_FFI_Args args;
  XLA_FFI_Rets rets;
  XLA_FFI_Attrs attrs;
  XLA_FFI_Future* future;  // set by a handler that finishes later
};
using XLA_FFI_Handler = XLA_FFI_Error*(XLA_FFI_CallFrame*);
struct XLA_FFI_Handler_Bundle {  // 0.4 has `record` after these
  XLA_FFI_Handler* instantiate;
  XLA_FFI_Handler* prepare;
  XLA_FFI_Handler* initialize;
  XLA_FFI_Handler* execute;
};
// A handler that is asked for its metadata gets a call frame with this extension.
struct XLA_FFI_Metadata {
  size_t struct_size;
  XLA_FFI_Api_Version api_version;
  uint32_t traits;
  XLA_FFI_TypeId state_type_id;
};
struct XLA_FFI_Metadata_Extension {
  XLA_FFI_Extension_Base extension_base;
  XLA_FFI_Metadata* metadata;
};

// What a handler may ask for.
struct XLA_FFI_Error_Create_Args : XLA_FFI_Head {
  const char* message;
  int32_t errc;
};
struct XLA_FFI_Error_GetDetails_Args : XLA_FFI_Head {
  XLA_FFI_Error* error;
  const char* message;
  int32_t errc;  // since 0.4
};
struct XLA_FFI_Error_Destroy_Args : XLA_FFI_Head {
  XLA_FFI_Error* error;
};
struct XLA_FFI_Handler_Register_Args : XLA_FFI_Head {
  XLA_FFI_ByteSpan name, platform;
  XLA_FFI_Handler_Bundle bundle;
};
struct XLA_FFI_Type_Register_Args : XLA_FFI_Head {
  XLA_FFI_ByteSpan name;
  XLA_FFI_TypeId* type_id;
  const XLA_FFI_TypeInfo* type_info;
};
struct XLA_FFI_ExecutionContext_Get_Args : XLA_FFI_Head {
  XLA_FFI_ExecutionContext* ctx;
  XLA_FFI_TypeId* type_id;
  void* data;
};
struct XLA_FFI_State_Set_Args : XLA_FFI_Head {
  XLA_FFI_ExecutionContext* ctx;
  XLA_FFI_ExecutionStage stage;
  XLA_FFI_TypeId* type_id;
  void* state;
};
struct XLA_FFI_State_Get_Args : XLA_FFI_Head {
  XLA_FFI_ExecutionContext* ctx;
  XLA_FFI_ExecutionStage stage;
  XLA_FFI_TypeId* type_id;
  void* state;
};
struct XLA_FFI_Stream_Get_Args : XLA_FFI_Head {
  XLA_FFI_ExecutionContext* ctx;
  void* stream;
};
struct XLA_FFI_DeviceMemory_Allocate_Args : XLA_FFI_Head {
  XLA_FFI_ExecutionContext* ctx;
  size_t size, alignment;
  void* data;
};
struct XLA_FFI_DeviceMemory_Free_Args : XLA_FFI_Head {
  XLA_FFI_ExecutionContext* ctx;
  size_t size;
  void* data;
};
struct XLA_FFI_ThreadPool_Schedule_Args : XLA_FFI_Head {
  XLA_FFI_ExecutionContext* ctx;
  void (*task)(void* data);
  void* data;
};
struct XLA_FFI_ThreadPool_NumThreads_Args : XLA_FFI_Head {
  XLA_FFI_ExecutionContext* ctx;
  int64_t* num_threads;
};
struct XLA_FFI_Future_Create_Args : XLA_FFI_Head {
  XLA_FFI_Future* future;
};
struct XLA_FFI_Future_SetAvailable_Args : XLA_FFI_Head {
  XLA_FFI_Future* future;
};
struct XLA_FFI_Future_SetError_Args : XLA_FFI_Head {
  XLA_FFI_Future* future;
  XLA_FFI_Error* error;
};
struct XLA_FFI_RunId_Get_Args : XLA_FFI_Head {
  XLA_FFI_ExecutionContext* ctx;
  int64_t run_id;
};
struct XLA_FFI_DeviceOrdinal_Get_Args : XLA_FFI_Head {
  XLA_FFI_ExecutionContext* ctx;
  int32_t device_ordinal;
};
struct XLA_FFI_InvokeContext_FindExtension_Args : XLA_FFI_Head {
  XLA_FFI_ExecutionContext* ctx;
  int64_t extension_type;
  const void* extension;
};

struct XLA_FFI_Api {
  size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  XLA_FFI_Api_Version api_version;
  const void* internal_api;
  XLA_FFI_Error* (*XLA_FFI_Error_Create)(XLA_FFI_Error_Create_Args*);
  void (*XLA_FFI_Error_GetDetails)(XLA_FFI_Error_GetDetails_Args*);  // 0.3: Error_GetMessage
  void (*XLA_FFI_Error_Destroy)(XLA_FFI_Error_Destroy_Args*);
#define WEFT_FFI_SLOTS(SLOT)                                                              \
  SLOT(Handler_Register)                                                                  \
  SLOT(Stream_Get)                                                                        \
  SLOT(Type_Register)                                                                     \
  SLOT(ExecutionContext_Get)                                                              \
  SLOT(State_Set)                                                                         \
  SLOT(State_Get)                                                                         \
  SLOT(DeviceMemory_Allocate)                                                             \
  SLOT(DeviceMemory_Free) SLOT(ThreadPool_Schedule) SLOT(ThreadPool_NumThreads)           \
      SLOT(Future_Create) SLOT(Future_SetAvailable) SLOT(Future_SetError) SLOT(RunId_Get) \
          SLOT(DeviceOrdinal_Get) SLOT(InvokeContext_FindExtension)
#define WEFT_FFI_FIELD(name) XLA_FFI_Error* (*XLA_FFI_##name)(XLA_FFI_##name##_Args*);
  WEFT_FFI_SLOTS(WEFT_FFI_FIELD)
#undef WEFT_FFI_FIELD
};
