// Host callbacks: a custom call whose work a Python function does.
#include <atomic>
#include <cstring>
#include <memory>

#include "base/float_mode.h"
#include "base/metrics.h"
#include "base/trace.h"
#include "client/custom_calls.h"
#include "client/executor.h"
#include "hlo/attrs.h"
#include "pjrt/api.h"
#include "pjrt/ffi/ffi.h"
#include "pjrt/ffi/ffi_internal.h"

namespace weft::pjrt {
namespace {

std::atomic<CallbackTrampoline>& Trampoline() {
  static constinit std::atomic<CallbackTrampoline> trampoline = nullptr;
  return trampoline;
}
std::atomic<bool>& HostViewsFlag() {
  static constinit std::atomic<bool> allowed = true;
  return allowed;
}

Result<std::vector<CallbackArray>> DescribeLeaves(std::span<Literal* const> leaves, bool writable) {
  std::vector<CallbackArray> arrays;
  for (Literal* leaf : leaves) {
    const Shape& shape = leaf->shape();
    const PJRT_Buffer_Type type = ToBufferType(shape.dtype());
    if (type == PJRT_Buffer_Type_INVALID) {
      return Unimplemented("host callback: an operand or result ", shape);
    }
    void* data = nullptr;
    if (shape.IsArray()) {
      data = writable ? leaf->mutable_data() : const_cast<std::byte*>(leaf->data());
    }
    arrays.push_back({data, shape.dims().data(), shape.rank(), type, 0});
  }
  return arrays;
}

}  // namespace

void SetHostViews(bool allowed) {
  HostViewsFlag() = allowed;
}
bool HostViews() {
  return HostViewsFlag().load(std::memory_order_relaxed);
}

void SetCallbackTrampoline(CallbackTrampoline trampoline) {
  Trampoline() = trampoline;
}

namespace {

CallbackArray Describe(char* bytes, const int64_t& size) {
  return {bytes, &size, 1, PJRT_Buffer_Type_U8, 0};
}

constexpr size_t kMessageBytes = 64 << 10;  // for a traceback

Status CallPython(CallbackTrampoline trampoline, uint64_t id,
                  std::span<const CallbackArray> arguments,
                  std::span<const CallbackArray> results) {
  auto message = std::make_unique_for_overwrite<char[]>(kMessageBytes);
  message[0] = '\0';
  const int32_t code = trampoline(id, static_cast<int32_t>(arguments.size()), arguments.data(),
                                  static_cast<int32_t>(results.size()), results.data(),
                                  message.get(), static_cast<int64_t>(kMessageBytes));
  if (code == 0) return {};
  return std::unexpected(FromC(code, message.get(), strnlen(message.get(), kMessageBytes)));
}

}  // namespace

// At compile time: what there is to be said, and room for what is answered.
Status TellPython(uint64_t id, std::string_view bytes) {
  CallbackTrampoline trampoline = Trampoline();
  if (trampoline == nullptr) return {};  // nobody is there to be told
  std::string copy(bytes);
  const int64_t size = static_cast<int64_t>(copy.size());
  const CallbackArray argument = Describe(copy.data(), size);
  return CallPython(trampoline, id, {&argument, 1}, {});
}

Result<std::string> AskPython(uint64_t id, std::string_view bytes) {
  CallbackTrampoline trampoline = Trampoline();
  if (trampoline == nullptr) return FailedPrecondition("Python is not there to be asked");
  std::string copy(bytes), answer;
  const int64_t size = static_cast<int64_t>(copy.size()), one = 1;
  int64_t room = 0;
  const CallbackArray argument = Describe(copy.data(), size);
  const CallbackArray length{&room, &one, 1, PJRT_Buffer_Type_S64, 0};
  TRY(CallPython(trampoline, id, {&argument, 1}, {&length, 1}));
  if (room < 0) return InvalidArgument("an answer of ", room, " bytes");
  answer.resize(static_cast<size_t>(room));
  const CallbackArray result = Describe(answer.data(), room);
  TRY(CallPython(trampoline, id, {}, {&result, 1}));
  return answer;
}

Result<Literal> RunHostCallback(const hlo::Instruction& call, std::span<Literal> operands) {
  std::unique_ptr<FfiAttributes> attributes = TRY(FfiAttributes::Parse(BackendConfig(call)));
  const std::optional<uint64_t> id = attributes->FindInteger("id");
  if (!id) return InvalidArgument("host callback: no id in backend_config");
  Literal result = TRY(AllocateResult(call.shape()));
  std::vector<Literal*> operand_leaves, result_leaves;
  for (Literal& operand : operands) CollectLeaves(operand, operand_leaves);
  CollectLeaves(result, result_leaves);
  const std::vector<CallbackArray> arguments = TRY(DescribeLeaves(operand_leaves, false));
  const std::vector<CallbackArray> results = TRY(DescribeLeaves(result_leaves, true));

  Executor::BlockingScope blocking;
  trace::Span span(trace::Kind::kCallback, [&] {
    return trace::What{.name = StrCat("python callback ", call.name()),
                       .op_name = call.metadata() ? call.metadata()->op_name : "",
                       .source = call.SourceLocation()};
  });
  metrics::Add(metrics::kCallbacks);
  CallbackTrampoline trampoline = Trampoline();
  if (trampoline == nullptr) {
    return FailedPrecondition("host callback: Python is not there to run it");
  }
  FloatMode mode(/*flush=*/false);  // NumPy computes as it does elsewhere
  TRY(CallPython(trampoline, *id, arguments, results));
  return result;
}

}  // namespace weft::pjrt
