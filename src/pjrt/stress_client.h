// A client of the C interface, as tests that run long write it.
#pragma once

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "pjrt/abi/abi_args.h"
#include "pjrt/api.h"

namespace weft::pjrt {

template <class Args>
Args NewArgs() {
  Args args;
  std::memset(static_cast<void*>(&args), 0xa5, sizeof(args));
  args.struct_size = sizeof(args);
  args.extension_start = nullptr;
  return args;
}

// The code of an error, which is destroyed; 0: none.
inline int CodeOf(PJRT_Error* error) {
  if (error == nullptr) return 0;
  auto code = NewArgs<PJRT_Error_GetCode_Args>();
  code.error = error;
  CHECK(GetApi()->PJRT_Error_GetCode(&code) == nullptr);
  auto destroy = NewArgs<PJRT_Error_Destroy_Args>();
  destroy.error = error;
  GetApi()->PJRT_Error_Destroy(&destroy);
  return code.code;
}
#define PJRT(name, args) CodeOf(GetApi()->PJRT_##name(&(args)))
#define PJRT_OK(name, args) CHECK(PJRT(name, args) == 0) << #name

inline PJRT_Client* Open(int64_t devices, int64_t threads) {
  PJRT_NamedValue options[2] = {};
  const char* names[2] = {"cpu_devices", "threads"};
  const int64_t values[2] = {devices, threads};
  for (int i = 0; i < 2; ++i) {
    options[i].struct_size = sizeof(options[i]);
    options[i].name = names[i];
    options[i].name_size = std::strlen(names[i]);
    options[i].type = PJRT_NamedValue_kInt64;
    options[i].int64_value = values[i];
    options[i].value_size = 1;
  }
  auto args = NewArgs<PJRT_Client_Create_Args>();
  args.create_options = options;
  args.num_options = 2;
  PJRT_OK(Client_Create, args);
  return args.client;
}
inline void Close(PJRT_Client* client) {
  auto args = NewArgs<PJRT_Client_Destroy_Args>();
  args.client = client;
  PJRT_OK(Client_Destroy, args);
}
inline PJRT_Device* DeviceOf(PJRT_Client* client, size_t i = 0) {
  auto args = NewArgs<PJRT_Client_Devices_Args>();
  args.client = client;
  PJRT_OK(Client_Devices, args);
  return args.devices[i];
}
inline int AwaitAndDestroy(PJRT_Event* event) {
  auto await = NewArgs<PJRT_Event_Await_Args>();
  await.event = event;
  const int code = PJRT(Event_Await, await);
  auto destroy = NewArgs<PJRT_Event_Destroy_Args>();
  destroy.event = event;
  PJRT_OK(Event_Destroy, destroy);
  return code;
}
inline PJRT_Buffer* PutFloats(PJRT_Client* client, const std::vector<float>& values,
                              size_t device = 0) {
  const int64_t dims[1] = {static_cast<int64_t>(values.size())};
  auto args = NewArgs<PJRT_Client_BufferFromHostBuffer_Args>();
  args.client = client;
  args.data = values.data();
  args.type = PJRT_Buffer_Type_F32;
  args.dims = dims;
  args.num_dims = 1;
  args.byte_strides = nullptr;
  args.num_byte_strides = 0;
  args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  args.device = DeviceOf(client, device);
  args.memory = nullptr;
  args.device_layout = nullptr;
  PJRT_OK(Client_BufferFromHostBuffer, args);
  CHECK(AwaitAndDestroy(args.done_with_host_buffer) == 0);
  return args.buffer;
}
// The code of what became of it; `out` is set when that is 0.
inline int GetFloats(PJRT_Buffer* buffer, std::vector<float>& out) {
  auto args = NewArgs<PJRT_Buffer_ToHostBuffer_Args>();
  args.src = buffer;
  args.host_layout = nullptr;
  args.dst = out.data();
  args.dst_size = out.size() * 4;
  const int code = PJRT(Buffer_ToHostBuffer, args);
  return code != 0 ? code : AwaitAndDestroy(args.event);
}
inline void DestroyBuffer(PJRT_Buffer* buffer) {
  auto args = NewArgs<PJRT_Buffer_Destroy_Args>();
  args.buffer = buffer;
  PJRT_OK(Buffer_Destroy, args);
}
inline void DeleteBuffer(PJRT_Buffer* buffer) {
  auto args = NewArgs<PJRT_Buffer_Delete_Args>();
  args.buffer = buffer;
  PJRT_OK(Buffer_Delete, args);
}
inline PJRT_Buffer* CopyBuffer(PJRT_Buffer* buffer, PJRT_Device* device) {
  auto args = NewArgs<PJRT_Buffer_CopyToDevice_Args>();
  args.buffer = buffer;
  args.dst_device = device;
  return PJRT(Buffer_CopyToDevice, args) == 0 ? args.dst_buffer : nullptr;
}
inline int TryCompile(PJRT_Client* client, std::string text, PJRT_LoadedExecutable** executable) {
  PJRT_Program program{};
  program.struct_size = sizeof(program);
  program.code = text.data();
  program.code_size = text.size();
  program.format = "mlir";
  program.format_size = 4;
  auto args = NewArgs<PJRT_Client_Compile_Args>();
  args.client = client;
  args.program = &program;
  args.compile_options = nullptr;
  args.compile_options_size = 0;
  const int code = PJRT(Client_Compile, args);
  *executable = args.executable;
  return code;
}
inline PJRT_LoadedExecutable* CompileMlir(PJRT_Client* client, std::string text) {
  PJRT_LoadedExecutable* executable = nullptr;
  CHECK(TryCompile(client, std::move(text), &executable) == 0);
  return executable;
}
inline void DestroyExecutable(PJRT_LoadedExecutable* executable) {
  auto args = NewArgs<PJRT_LoadedExecutable_Destroy_Args>();
  args.executable = executable;
  PJRT_OK(LoadedExecutable_Destroy, args);
}
// One result, or null where the call was refused. `done`, where given, becomes the event.
inline PJRT_Buffer* TryExecute(PJRT_LoadedExecutable* executable,
                               std::vector<PJRT_Buffer*> arguments, PJRT_Event** done = nullptr) {
  PJRT_ExecuteOptions options{};
  options.struct_size = sizeof(options);
  PJRT_Buffer* const* argument_list = arguments.data();
  PJRT_Buffer* output = nullptr;
  PJRT_Buffer** output_list = &output;
  auto args = NewArgs<PJRT_LoadedExecutable_Execute_Args>();
  args.executable = executable;
  args.options = &options;
  args.argument_lists = &argument_list;
  args.num_devices = 1;
  args.num_args = arguments.size();
  args.output_lists = &output_list;
  args.device_complete_events = done;
  args.execute_device = nullptr;
  return PJRT(LoadedExecutable_Execute, args) == 0 ? output : nullptr;
}

}  // namespace weft::pjrt
