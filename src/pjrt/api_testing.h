// For tests of the C interface: calls through the table as a framework makes them, with memory that
// is not initialized.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "pjrt/abi/abi_args.h"
#include "pjrt/abi/abi_extensions.h"
#include "pjrt/api.h"

namespace weft::pjrt {

inline const PJRT_Api& Api() {
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
inline std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
  return out << outcome.code << ": " << outcome.message;
}
inline Outcome Take(PJRT_Error* error) {
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

inline PJRT_Client* NewClient(int64_t devices = 1) {
  PJRT_NamedValue option{};
  option.struct_size = sizeof(option);
  option.name = "num_devices";
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
inline void DestroyClient(PJRT_Client* client) {
  auto args = New<PJRT_Client_Destroy_Args>();
  args.client = client;
  CALL_OK(Client_Destroy, args);
}
inline Outcome Await(PJRT_Event* event) {
  auto await = New<PJRT_Event_Await_Args>();
  await.event = event;
  Outcome outcome = CALL(Event_Await, await);
  auto destroy = New<PJRT_Event_Destroy_Args>();
  destroy.event = event;
  CALL_OK(Event_Destroy, destroy);
  return outcome;
}
inline void Destroy(PJRT_Buffer* buffer) {
  auto args = New<PJRT_Buffer_Destroy_Args>();
  args.buffer = buffer;
  CALL_OK(Buffer_Destroy, args);
}
inline void Destroy(PJRT_LoadedExecutable* executable) {
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
                   std::vector<int64_t> strides = {}, PJRT_Device* on = nullptr,
                   PJRT_Buffer_MemoryLayout* layout = nullptr) {
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
    args.device_layout = layout;
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

inline constexpr const char* kTwicePlusOne = R"(module @twice {
  func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<4xf32>
    %1 = stablehlo.constant dense<1.000000e+00> : tensor<4xf32>
    %2 = stablehlo.add %0, %1 : tensor<4xf32>
    return %2 : tensor<4xf32>
  }
})";

}  // namespace weft::pjrt
