// Custom calls: typed handlers, older interfaces, host callbacks.
#include "pjrt/ffi/ffi.h"

#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>
#include <thread>

#include "client/custom_calls.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "pjrt/ffi/ffi_internal.h"

namespace weft::pjrt {
namespace {

Result<Literal> Evaluate(std::string_view text, std::vector<Literal> arguments) {
  std::unique_ptr<hlo::Module> module = TRY(hlo::ParseModule(text));
  hlo::EvalOptions options;
  DoForeignCalls();
  options.custom_call = RunCustomCall;
  return hlo::Evaluate(*module, arguments, options);
}

Literal FloatArray(std::vector<float> values, std::vector<int64_t> dims) {
  Literal literal{Shape(DType::kF32, dims)};
  std::ranges::copy(values, literal.values<float>().begin());
  return literal;
}
std::vector<float> ValuesOf(const Literal& literal) {
  return {literal.values<float>().begin(), literal.values<float>().end()};
}

XLA_FFI_Error* Fail(const XLA_FFI_CallFrame* frame, const char* message) {
  XLA_FFI_Error_Create_Args args{};
  args.struct_size = sizeof(args);
  args.message = message;
  args.errc = 9;
  return frame->api->XLA_FFI_Error_Create(&args);
}

// y = x * scale + offset[0], the attributes in order of their names.
XLA_FFI_Error* ScaleHandler(XLA_FFI_CallFrame* frame) {
  if (frame->args.size != 1 || frame->rets.size != 1) return Fail(frame, "wrong counts");
  if (frame->attrs.size != 3) return Fail(frame, "wrong attributes");
  const std::string_view names[] = {"mode", "offset", "scale"};
  for (int i = 0; i < 3; ++i) {
    const XLA_FFI_ByteSpan* name = frame->attrs.names[i];
    if (std::string_view(name->ptr, name->len) != names[i]) return Fail(frame, "wrong order");
  }
  const auto* mode = static_cast<const XLA_FFI_ByteSpan*>(frame->attrs.attrs[0]);
  if (std::string_view(mode->ptr, mode->len) == "fail") return Fail(frame, "told to fail");
  const auto* offset = static_cast<const XLA_FFI_Array*>(frame->attrs.attrs[1]);
  const auto* scale = static_cast<const XLA_FFI_Scalar*>(frame->attrs.attrs[2]);
  if (offset->dtype != XLA_FFI_DataType_S64 || scale->dtype != XLA_FFI_DataType_F32) {
    return Fail(frame, "wrong types");
  }
  const auto* x = static_cast<const XLA_FFI_Buffer*>(frame->args.args[0]);
  const auto* y = static_cast<const XLA_FFI_Buffer*>(frame->rets.rets[0]);
  int64_t count = 1;
  for (int64_t i = 0; i < x->rank; ++i) count *= x->dims[i];
  for (int64_t i = 0; i < count; ++i) {
    static_cast<float*>(y->data)[i] =
        static_cast<const float*>(x->data)[i] * *static_cast<const float*>(scale->value) +
        static_cast<float>(static_cast<const int64_t*>(offset->data)[0]);
  }
  return nullptr;
}

TEST(Ffi, TypedHandler) {
  FfiTarget target;
  target.bundle.execute = ScaleHandler;
  ASSERT_TRUE(RegisterFfiTarget("test_scale", target));
  auto program = [](std::string_view mode) {
    return StrCat(R"(HloModule m
ENTRY e {
  x = f32[3] parameter(0)
  ROOT y = f32[3] custom-call(x), custom_call_target="test_scale", api_version=API_VERSION_TYPED_FFI, backend_config="{scale = 2.0 : f32, mode = \")",
                  mode, R"(\", offset = array<i64: 10, 20>}"
})");
  };
  Result<Literal> result = Evaluate(program("go"), {FloatArray({1, 2, 3}, {3})});
  ASSERT_TRUE(result) << result.error().ToString();
  EXPECT_EQ(ValuesOf(*result), (std::vector<float>{12, 14, 16}));
  result = Evaluate(program("fail"), {FloatArray({1, 2, 3}, {3})});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), Code::kFailedPrecondition);
  EXPECT_NE(result.error().message().find("told to fail"), std::string::npos);
}

XLA_FFI_Error* ThrowingHandler(XLA_FFI_CallFrame*) {
  throw std::runtime_error("out of patience");
}

TEST(Ffi, WhatAHandlerThrowsIsAnError) {
  FfiTarget target;
  target.bundle.execute = ThrowingHandler;
  ASSERT_TRUE(RegisterFfiTarget("test_throw", target));
  constexpr std::string_view kProgram = R"(HloModule m
ENTRY e {
  x = f32[3] parameter(0)
  ROOT y = f32[3] custom-call(x), custom_call_target="test_throw", api_version=API_VERSION_TYPED_FFI
})";
  Result<Literal> result = Evaluate(kProgram, {FloatArray({1, 2, 3}, {3})});
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message().find("out of patience"), std::string::npos);
}

// A handler is not called for what only arrays without elements are made from.
TEST(Ffi, EmptyArraysNeedNoCall) {
  FfiTarget target;
  target.bundle.execute = ThrowingHandler;
  ASSERT_TRUE(RegisterFfiTarget("test_throw_empty", target));
  Result<Literal> result = Evaluate(R"(HloModule m
ENTRY e {
  x = f32[0,0] parameter(0)
  y = (f32[0,0], s32[]) custom-call(x), custom_call_target="test_throw_empty", api_version=API_VERSION_TYPED_FFI
  v = f32[0,0] get-tuple-element(y), index=0
  info = s32[] get-tuple-element(y), index=1
  zero = s32[] constant(0)
  fine = pred[] compare(info, zero), direction=EQ
  all = pred[0,0] broadcast(fine), dimensions={}
  ROOT r = f32[0,0] select(all, v, x)
})",
                                    {FloatArray({}, {0, 0})});
  ASSERT_TRUE(result) << result.error().ToString();
  EXPECT_EQ(result->size(), 0);
}

TEST(Ffi, UnknownTarget) {
  Result<Literal> result = Evaluate(R"(HloModule m
ENTRY e {
  x = f32[3] parameter(0)
  ROOT y = f32[3] custom-call(x), custom_call_target="nobody", api_version=API_VERSION_TYPED_FFI
})",
                                    {FloatArray({1, 2, 3}, {3})});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), Code::kUnimplemented);
}

// Copies its operand as it lies in memory.
XLA_FFI_Error* CopyHandler(XLA_FFI_CallFrame* frame) {
  const auto* x = static_cast<const XLA_FFI_Buffer*>(frame->args.args[0]);
  const auto* y = static_cast<const XLA_FFI_Buffer*>(frame->rets.rets[0]);
  std::memmove(y->data, x->data, 6 * 4);
  return nullptr;
}

TEST(Ffi, LayoutsAreHonoured) {
  FfiTarget target;
  target.bundle.execute = CopyHandler;
  ASSERT_TRUE(RegisterFfiTarget("test_copy", target));
  // Column-major in, row-major of the transposed shape out: a transpose.
  Result<Literal> result = Evaluate(R"(HloModule m
ENTRY e {
  x = f32[2,3]{1,0} parameter(0)
  ROOT y = f32[3,2]{1,0} custom-call(x), custom_call_target="test_copy", operand_layout_constraints={f32[2,3]{0,1}}, api_version=API_VERSION_TYPED_FFI
})",
                                    {FloatArray({1, 2, 3, 4, 5, 6}, {2, 3})});
  ASSERT_TRUE(result) << result.error().ToString();
  EXPECT_EQ(ValuesOf(*result), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  // Column-major both ways: the same again.
  result = Evaluate(R"(HloModule m
ENTRY e {
  x = f32[2,3]{1,0} parameter(0)
  ROOT y = f32[2,3]{0,1} custom-call(x), custom_call_target="test_copy", operand_layout_constraints={f32[2,3]{0,1}}, api_version=API_VERSION_TYPED_FFI
})",
                    {FloatArray({1, 2, 3, 4, 5, 6}, {2, 3})});
  ASSERT_TRUE(result) << result.error().ToString();
  EXPECT_EQ(ValuesOf(*result), (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

// Adds one in place; says so when it is not.
XLA_FFI_Error* InPlaceHandler(XLA_FFI_CallFrame* frame) {
  const auto* x = static_cast<const XLA_FFI_Buffer*>(frame->args.args[0]);
  const auto* y = static_cast<const XLA_FFI_Buffer*>(frame->rets.rets[0]);
  if (x->data != y->data) return Fail(frame, "not in place");
  for (int i = 0; i < 3; ++i) static_cast<float*>(y->data)[i] += 1;
  return nullptr;
}

TEST(Ffi, AliasedResultsAreTheirOperands) {
  FfiTarget target;
  target.bundle.execute = InPlaceHandler;
  ASSERT_TRUE(RegisterFfiTarget("test_in_place", target));
  Literal argument = FloatArray({1, 2, 3}, {3});
  Result<Literal> result = Evaluate(R"(HloModule m
ENTRY e {
  x = f32[3] parameter(0)
  y = f32[3] custom-call(x), custom_call_target="test_in_place", output_to_operand_aliasing={{}: (0, {})}, api_version=API_VERSION_TYPED_FFI
  ROOT z = f32[3] add(x, y)
})",
                                    {argument});
  ASSERT_TRUE(result) << result.error().ToString();
  EXPECT_EQ(ValuesOf(*result), (std::vector<float>{3, 5, 7}));
  EXPECT_EQ(ValuesOf(argument), (std::vector<float>{1, 2, 3}));
}

// Finishes on another thread.
XLA_FFI_Error* LaterHandler(XLA_FFI_CallFrame* frame) {
  XLA_FFI_Future_Create_Args create{};
  create.struct_size = sizeof(create);
  if (XLA_FFI_Error* error = frame->api->XLA_FFI_Future_Create(&create)) return error;
  frame->future = create.future;
  const auto* y = static_cast<const XLA_FFI_Buffer*>(frame->rets.rets[0]);
  struct Task {
    float* to;
    XLA_FFI_Future* future;
    const XLA_FFI_Api* api;
  };
  XLA_FFI_ThreadPool_Schedule_Args schedule{};
  schedule.struct_size = sizeof(schedule);
  schedule.ctx = frame->ctx;
  schedule.data = new Task{static_cast<float*>(y->data), create.future, frame->api};
  schedule.task = [](void* data) {
    std::unique_ptr<Task> task(static_cast<Task*>(data));
    *task->to = 42;
    XLA_FFI_Future_SetAvailable_Args done{};
    done.struct_size = sizeof(done);
    done.future = task->future;
    task->api->XLA_FFI_Future_SetAvailable(&done);
  };
  return frame->api->XLA_FFI_ThreadPool_Schedule(&schedule);
}

TEST(Ffi, HandlersThatFinishLater) {
  FfiTarget target;
  target.bundle.execute = LaterHandler;
  ASSERT_TRUE(RegisterFfiTarget("test_later", target));
  Result<Literal> result = Evaluate(R"(HloModule m
ENTRY e {
  ROOT y = f32[] custom-call(), custom_call_target="test_later", api_version=API_VERSION_TYPED_FFI
})",
                                    {});
  ASSERT_TRUE(result) << result.error().ToString();
  EXPECT_EQ(ValuesOf(*result), (std::vector<float>{42}));
}

void OldStyle(void* out, const void** in) {
  *static_cast<float*>(out) = *static_cast<const float*>(in[0]) + 1;
}

TEST(Ffi, OldInterface) {
  FfiTarget target;
  target.api_version = hlo::ApiVersion::kOriginal;
  target.function = reinterpret_cast<void*>(&OldStyle);
  ASSERT_TRUE(RegisterFfiTarget("test_old", target));
  Result<Literal> result = Evaluate(R"(HloModule m
ENTRY e {
  x = f32[] parameter(0)
  ROOT y = f32[] custom-call(x), custom_call_target="test_old"
})",
                                    {FloatArray({1}, {})});
  ASSERT_TRUE(result) << result.error().ToString();
  EXPECT_EQ(ValuesOf(*result), (std::vector<float>{2}));
}

TEST(Ffi, HostCallback) {
  constexpr std::string_view kProgram = R"(HloModule m
ENTRY e {
  x = f32[2] parameter(0)
  c = (f32[2], s32[]) custom-call(x), custom_call_target="weft_python_callback", api_version=API_VERSION_TYPED_FFI, backend_config="{id = 7 : ui64}"
  ROOT y = f32[2] get-tuple-element(c), index=0
})";
  EXPECT_EQ(Evaluate(kProgram, {FloatArray({1, 2}, {2})}).error().code(),
            Code::kFailedPrecondition);
  SetCallbackTrampoline([](uint64_t id, int32_t argument_count, const CallbackArray* arguments,
                           int32_t result_count, const CallbackArray* results, char* error,
                           int64_t error_size) -> int32_t {
    if (id != 7 || argument_count != 1 || result_count != 2 || arguments[0].rank != 1) {
      std::strncpy(error, "ValueError: no", static_cast<size_t>(error_size));
      return 13;
    }
    const auto* x = static_cast<const float*>(arguments[0].data);
    if (x[0] < 0) {
      std::strncpy(error, "ValueError: negative", static_cast<size_t>(error_size));
      return 13;
    }
    for (int i = 0; i < 2; ++i) static_cast<float*>(results[0].data)[i] = 10 * x[i];
    return 0;
  });
  Result<Literal> result = Evaluate(kProgram, {FloatArray({1, 2}, {2})});
  ASSERT_TRUE(result) << result.error().ToString();
  EXPECT_EQ(ValuesOf(*result), (std::vector<float>{10, 20}));
  result = Evaluate(kProgram, {FloatArray({-1, 2}, {2})});
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message().find("ValueError: negative"), std::string::npos);
  SetCallbackTrampoline(nullptr);
}

TEST(Ffi, AttributesThatAreWrong) {
  for (std::string_view text : {"{", "[1]", "{a = }", "{a = [1, 2]}", "xyz"}) {
    EXPECT_FALSE(FfiAttributes::Parse(text)) << text;
  }
  EXPECT_TRUE(FfiAttributes::Parse(""));
  auto nested = FfiAttributes::Parse("{b = {c = 1 : i32}, a = true}");
  ASSERT_TRUE(nested) << nested.error().ToString();
  EXPECT_EQ((*nested)->attrs().types[0], XLA_FFI_AttrType_SCALAR);
  EXPECT_EQ((*nested)->attrs().types[1], XLA_FFI_AttrType_DICTIONARY);
}

}  // namespace
}  // namespace weft::pjrt
