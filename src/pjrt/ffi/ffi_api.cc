// What custom call handlers may ask for (XLA_FFI_Api), and the registered targets and types.
#include <algorithm>
#include <cstdlib>

#include "base/cores.h"
#include "base/mutex.h"
#include "client/executor.h"
#include "pjrt/ffi/ffi_internal.h"

namespace weft::pjrt {
namespace {

// Handlers are registered once for the whole process, before or after clients are made.
struct FfiRegistry {
  struct Type {
    int64_t id = 0;
    void (*deleter)(void*) = nullptr;
  };
  Mutex mutex;
  std::map<std::string, FfiTarget, std::less<>> targets WEFT_GUARDED_BY(mutex);
  std::map<std::string, Type, std::less<>> types WEFT_GUARDED_BY(mutex);
  int64_t next_type WEFT_GUARDED_BY(mutex) = 1;
  int64_t next_run WEFT_GUARDED_BY(mutex) = 1;
};
FfiRegistry& Registry() {
  static FfiRegistry* const registry = new FfiRegistry;
  return *registry;
}

void (*FindDeleter(int64_t type_id))(void*) {
  FfiRegistry& registry = Registry();
  MutexLock lock(registry.mutex);
  for (const auto& [name, type] : registry.types) {
    if (type.id == type_id) return type.deleter;
  }
  return nullptr;
}

template <class... Parts>
XLA_FFI_Error* FfiError(Code code, const Parts&... parts) {
  return new XLA_FFI_Error{Error(code, StrCat(parts...))};
}
std::string_view FfiView(const XLA_FFI_ByteSpan& span) {
  return span.ptr == nullptr ? std::string_view() : std::string_view(span.ptr, span.len);
}

XLA_FFI_Error* ErrorCreate(XLA_FFI_Error_Create_Args* args) {
  const bool known = args->errc > 0 && args->errc <= static_cast<int>(Code::kUnauthenticated);
  return FfiError(known ? static_cast<Code>(args->errc) : Code::kUnknown,
                  args->message == nullptr ? "" : args->message);
}
void ErrorGetDetails(XLA_FFI_Error_GetDetails_Args* args) {
  args->message = args->error->error.message().c_str();
  if (args->struct_size > 32) {  // 0.3 has no code
    args->errc = static_cast<int32_t>(args->error->error.code());
  }
}
void FfiErrorDestroy(XLA_FFI_Error_Destroy_Args* args) {
  delete args->error;
}

XLA_FFI_Error* Handler_Register(XLA_FFI_Handler_Register_Args* args) {
  FfiTarget target;
  target.bundle = args->bundle;
  Status status = RegisterFfiTarget(std::string(FfiView(args->name)), target);
  return status ? nullptr : new XLA_FFI_Error{status.error()};
}
XLA_FFI_Error* Stream_Get(XLA_FFI_Stream_Get_Args* args) {
  args->stream = nullptr;
  return FfiError(Code::kUnimplemented, "a CPU has no stream");
}
XLA_FFI_Error* Type_Register(XLA_FFI_Type_Register_Args* args) {
  Result<int64_t> id =
      RegisterFfiType(FfiView(args->name), args->type_id->type_id,
                      args->type_info == nullptr ? nullptr : args->type_info->deleter);
  if (!id) return new XLA_FFI_Error{id.error()};
  args->type_id->type_id = *id;
  return nullptr;
}
XLA_FFI_Error* ExecutionContext_Get(XLA_FFI_ExecutionContext_Get_Args* args) {
  args->data = nullptr;
  return FfiError(Code::kNotFound, "no user data of type ", args->type_id->type_id);
}
XLA_FFI_Error* State_Set(XLA_FFI_State_Set_Args* args) {
  if (args->stage < 0 || args->stage > 3) return FfiError(Code::kInvalidArgument, "unknown stage");
  XLA_FFI_ExecutionContext::State& state = args->ctx->states[args->stage];
  if (state.state != nullptr) return FfiError(Code::kFailedPrecondition, "state was set already");
  state = {args->type_id->type_id, args->state};
  return nullptr;
}
XLA_FFI_Error* State_Get(XLA_FFI_State_Get_Args* args) {
  args->state = nullptr;
  if (args->stage < 0 || args->stage > 3) return FfiError(Code::kInvalidArgument, "unknown stage");
  const XLA_FFI_ExecutionContext::State& state = args->ctx->states[args->stage];
  if (state.state == nullptr) return FfiError(Code::kNotFound, "no state was set");
  if (state.type_id != args->type_id->type_id) {
    return FfiError(Code::kInvalidArgument, "the state has type ", state.type_id, ", not ",
                    args->type_id->type_id);
  }
  args->state = state.state;
  return nullptr;
}
XLA_FFI_Error* DeviceMemory_Allocate(XLA_FFI_DeviceMemory_Allocate_Args* args) {
  args->data = nullptr;
  size_t alignment = args->alignment < 64 ? 64 : args->alignment;
  if ((alignment & (alignment - 1)) != 0 || args->size > size_t{1} << 47) {
    return FfiError(Code::kInvalidArgument, "scratch memory: ", args->size, " bytes aligned to ",
                    args->alignment);
  }
  const size_t size = (args->size + alignment) / alignment * alignment;
  args->data = std::aligned_alloc(alignment, size);
  if (args->data == nullptr) {
    return FfiError(Code::kResourceExhausted, "scratch memory: ", args->size, " bytes");
  }
  MutexLock lock(args->ctx->mutex);
  args->ctx->scratch[args->data] = size;
  return nullptr;
}
XLA_FFI_Error* DeviceMemory_Free(XLA_FFI_DeviceMemory_Free_Args* args) {
  MutexLock lock(args->ctx->mutex);
  if (args->data != nullptr && args->ctx->scratch.erase(args->data) == 0) {
    return FfiError(Code::kInvalidArgument, "scratch memory: freed twice or not ours");
  }
  std::free(args->data);
  return nullptr;
}
// Asked once: it reads the limits of containers from files.
int64_t HandlerThreads() {
  static const int64_t threads = AvailableCores();
  return threads;
}
XLA_FFI_Error* ThreadPool_Schedule(XLA_FFI_ThreadPool_Schedule_Args* args) {
  static Executor* const threads = new Executor(HandlerThreads());
  threads->Schedule([task = args->task, data = args->data] { task(data); });
  return nullptr;
}
XLA_FFI_Error* ThreadPool_NumThreads(XLA_FFI_ThreadPool_NumThreads_Args* args) {
  *args->num_threads = HandlerThreads();
  return nullptr;
}
XLA_FFI_Error* Future_Create(XLA_FFI_Future_Create_Args* args) {
  args->future = new XLA_FFI_Future;
  return nullptr;
}
// The waiting call deletes the future as soon as it is set: the event is kept here meanwhile.
XLA_FFI_Error* Future_SetAvailable(XLA_FFI_Future_SetAvailable_Args* args) {
  EventRef done = args->future->done;
  done->Set({});
  return nullptr;
}
XLA_FFI_Error* Future_SetError(XLA_FFI_Future_SetError_Args* args) {
  EventRef done = args->future->done;
  std::unique_ptr<XLA_FFI_Error> error(args->error);
  done->Set(error == nullptr ? Status() : std::unexpected(error->error));
  return nullptr;
}
XLA_FFI_Error* RunId_Get(XLA_FFI_RunId_Get_Args* args) {
  args->run_id = args->ctx->run_id;
  return nullptr;
}
XLA_FFI_Error* DeviceOrdinal_Get(XLA_FFI_DeviceOrdinal_Get_Args* args) {
  args->device_ordinal = 0;
  return nullptr;
}
XLA_FFI_Error* InvokeContext_FindExtension(XLA_FFI_InvokeContext_FindExtension_Args* args) {
  args->extension = nullptr;
  return nullptr;
}

XLA_FFI_Api MakeFfiApi() {
  XLA_FFI_Api api{};
  api.struct_size = sizeof(XLA_FFI_Api);
  api.api_version = {sizeof(XLA_FFI_Api_Version), nullptr, 0, 4};
  api.XLA_FFI_Error_Create = ErrorCreate;
  api.XLA_FFI_Error_GetDetails = ErrorGetDetails;
  api.XLA_FFI_Error_Destroy = FfiErrorDestroy;
#define WEFT_FFI_SET(name) api.XLA_FFI_##name = name;
  WEFT_FFI_SLOTS(WEFT_FFI_SET)
#undef WEFT_FFI_SET
  return api;
}

}  // namespace

const XLA_FFI_Api* GetFfiApi() {
  static const XLA_FFI_Api api = MakeFfiApi();
  return &api;
}

Status RegisterFfiTarget(std::string name, const FfiTarget& target) {
  if (target.bundle.execute == nullptr && target.function == nullptr) {
    return InvalidArgument("custom call ", name, ": the handler is null");
  }
  FfiRegistry& registry = Registry();
  MutexLock lock(registry.mutex);
  registry.targets.insert_or_assign(std::move(name), target);
  return {};
}
std::optional<FfiTarget> FindFfiTarget(std::string_view name) {
  FfiRegistry& registry = Registry();
  MutexLock lock(registry.mutex);
  const auto found = registry.targets.find(name);
  if (found == registry.targets.end()) return std::nullopt;
  return found->second;
}
Result<int64_t> RegisterFfiType(std::string_view name, int64_t id, void (*deleter)(void*)) {
  FfiRegistry& registry = Registry();
  MutexLock lock(registry.mutex);
  FfiRegistry::Type& type = registry.types[std::string(name)];
  if (type.id == 0) type.id = id != 0 ? id : registry.next_type++;
  if (id != 0 && id != type.id) {
    return InvalidArgument("FFI type ", name, ": has number ", type.id, ", not ", id);
  }
  if (deleter != nullptr) type.deleter = deleter;
  registry.next_type = std::max(registry.next_type, type.id + 1);
  return type.id;
}

}  // namespace weft::pjrt

XLA_FFI_ExecutionContext::~XLA_FFI_ExecutionContext() {
  for (const State& state : states) {
    if (state.state == nullptr) continue;
    if (auto* deleter = weft::pjrt::FindDeleter(state.type_id)) deleter(state.state);
  }
  weft::MutexLock lock(mutex);
  for (const auto& [data, size] : scratch) std::free(data);
}
