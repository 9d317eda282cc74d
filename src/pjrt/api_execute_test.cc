// The C interface: programs are compiled, stored, loaded and run.
#include <algorithm>

#include "pjrt/api_testing.h"

namespace weft::pjrt {
namespace {

TEST_F(ApiTest, CompileAndExecute) {
  PJRT_LoadedExecutable* program = Compile(kTwicePlusOne);
  ASSERT_NE(program, nullptr);
  auto get = New<PJRT_LoadedExecutable_GetExecutable_Args>();
  get.loaded_executable = program;
  CALL_OK(LoadedExecutable_GetExecutable, get);
  auto outputs = New<PJRT_Executable_NumOutputs_Args>();
  outputs.executable = get.executable;
  CALL_OK(Executable_NumOutputs, outputs);
  EXPECT_EQ(outputs.num_outputs, 1u);
  auto stats = New<PJRT_Executable_GetCompiledMemoryStats_Args>();
  stats.executable = get.executable;
  stats.struct_size -= 16;
  CALL_OK(Executable_GetCompiledMemoryStats, stats);
  EXPECT_EQ(stats.argument_size_in_bytes, 16);
  EXPECT_EQ(stats.peak_unpadded_heap_bytes, static_cast<int64_t>(0xa5a5a5a5a5a5a5a5));
  auto assignment = New<PJRT_LoadedExecutable_GetDeviceAssignment_Args>();
  assignment.executable = program;
  CALL_OK(LoadedExecutable_GetDeviceAssignment, assignment);
  EXPECT_GT(assignment.serialized_bytes_size, 0u);
  assignment.serialized_device_assignment_deleter(assignment.serialized_device_assignment);
  auto destroy = New<PJRT_Executable_Destroy_Args>();
  destroy.executable = get.executable;
  CALL_OK(Executable_Destroy, destroy);

  PJRT_Buffer* argument = Put({1, 2, 3, 4}, {4});
  std::vector<PJRT_Buffer*> results(1);
  PJRT_Event* done = nullptr;
  const Outcome outcome = Execute(program, {argument}, results, &done);
  ASSERT_TRUE(outcome) << outcome;
  EXPECT_TRUE(Await(done));
  EXPECT_EQ(Get(results[0]), (std::vector<float>{3, 5, 7, 9}));
  Destroy(results[0]);
  EXPECT_EQ(Execute(program, {}, results).code, 3);
  EXPECT_EQ(Execute(program, {argument, argument}, results).code, 3);
  EXPECT_EQ(Execute(program, {nullptr}, results).code, 3);
  PJRT_Buffer* wrong = Put({1, 2}, {2});
  EXPECT_EQ(Execute(program, {wrong}, results).code, 3);
  Destroy(wrong);
  Destroy(argument);
  Destroy(program);
}

// One event stands for all that is done: who destroys it leaves it to the others.
TEST_F(ApiTest, DoneEventsOutliveTheirHolders) {
  PJRT_LoadedExecutable* program = Compile(kTwicePlusOne);
  PJRT_Buffer* argument = Put({1, 2, 3, 4}, {4});
  for (int round = 0; round < 3; ++round) {
    std::vector<PJRT_Buffer*> results(1);
    PJRT_Event* done = nullptr;
    ASSERT_TRUE(Execute(program, {argument}, results, &done));
    auto ready = New<PJRT_Buffer_ReadyEvent_Args>();
    ready.buffer = results[0];
    CALL_OK(Buffer_ReadyEvent, ready);
    EXPECT_TRUE(Await(done));  // and destroys it
    int calls = 0;
    auto on = New<PJRT_Event_OnReady_Args>();
    on.event = ready.event;
    on.user_arg = &calls;
    on.callback = [](PJRT_Error* error, void* arg) {
      EXPECT_EQ(error, nullptr);
      ++*static_cast<int*>(arg);
    };
    CALL_OK(Event_OnReady, on);
    EXPECT_TRUE(Await(ready.event));
    EXPECT_EQ(calls, 1);
    Destroy(results[0]);
  }
  Destroy(argument);
  Destroy(program);
}

TEST_F(ApiTest, SerializeAndLoad) {
  PJRT_LoadedExecutable* program = Compile(kTwicePlusOne);
  auto get = New<PJRT_LoadedExecutable_GetExecutable_Args>();
  get.loaded_executable = program;
  CALL_OK(LoadedExecutable_GetExecutable, get);
  auto bytes = New<PJRT_Executable_Serialize_Args>();
  bytes.executable = get.executable;
  CALL_OK(Executable_Serialize, bytes);
  auto load = New<PJRT_Executable_DeserializeAndLoad_Args>();
  load.client = client_;
  load.serialized_executable = bytes.serialized_bytes;
  load.serialized_executable_size = bytes.serialized_bytes_size;
  load.overridden_serialized_compile_options = nullptr;
  load.overridden_serialized_compile_options_size = 0;
  load.load_options = nullptr;
  CALL_OK(Executable_DeserializeAndLoad, load);
  PJRT_Buffer* argument = Put({0, 0, 0, 1}, {4});
  std::vector<PJRT_Buffer*> results(1);
  EXPECT_TRUE(Execute(load.loaded_executable, {argument}, results));
  EXPECT_EQ(Get(results[0]), (std::vector<float>{1, 1, 1, 3}));
  Destroy(results[0]);
  Destroy(load.loaded_executable);
  for (size_t cut : {size_t{0}, size_t{1}, bytes.serialized_bytes_size / 2}) {
    load.serialized_executable_size = cut;
    EXPECT_NE(CALL(Executable_DeserializeAndLoad, load).code, 0) << cut;
    EXPECT_EQ(load.loaded_executable, nullptr);
  }
  bytes.serialized_executable_deleter(bytes.serialized_executable);
  auto destroy = New<PJRT_Executable_Destroy_Args>();
  destroy.executable = get.executable;
  CALL_OK(Executable_Destroy, destroy);
  Destroy(argument);
  Destroy(program);
}

TEST_F(ApiTest, ProgramsThatAreWrong) {
  auto args = New<PJRT_Client_Compile_Args>();
  std::string code = "not a program";
  PJRT_Program program = Program(code, "invalid");
  args.client = client_;
  args.program = &program;
  args.compile_options = nullptr;
  args.compile_options_size = 0;
  EXPECT_EQ(CALL(Client_Compile, args).message, "Unknown program format 'invalid'.");
  program = Program(code);
  EXPECT_NE(CALL(Client_Compile, args).code, 0);
  EXPECT_EQ(args.executable, nullptr);
  code = kTwicePlusOne;
  program = Program(code);
  args.compile_options = "invalid compile options";
  args.compile_options_size = 23;
  const Outcome outcome = CALL(Client_Compile, args);
  EXPECT_EQ(outcome.code, 3);
  EXPECT_TRUE(
      outcome.message.starts_with("PJRT_Client_Compile: failed to deserialize CompileOptionsProto"))
      << outcome;
}

// A loop of many steps, so that work is under way.
constexpr const char* kLongLoop = R"(module @loop {
  func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.constant dense<3000> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %0:2 = stablehlo.while(%i = %c, %x = %arg0) : tensor<i32>, tensor<4xf32>
     cond {
      %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<i32>
      %y = stablehlo.add %x, %x : tensor<4xf32>
      stablehlo.return %j, %y : tensor<i32>, tensor<4xf32>
    }
    return %0#1 : tensor<4xf32>
  }
})";

TEST_F(ApiTest, ClientGoesWhileWorkIsInFlight) {
  PJRT_Client* other = NewClient(2);
  std::swap(client_, other);
  PJRT_LoadedExecutable* program = Compile(kLongLoop);
  ASSERT_NE(program, nullptr);
  PJRT_Buffer* argument = Put({0, 0, 0, 0}, {4});
  for (int i = 0; i < 8; ++i) {
    std::vector<PJRT_Buffer*> results(1);
    ASSERT_TRUE(Execute(program, {argument}, results));
    Destroy(results[0]);
  }
  Destroy(argument);
  Destroy(program);
  std::swap(client_, other);
  DestroyClient(other);
}

}  // namespace
}  // namespace weft::pjrt
