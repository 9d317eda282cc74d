// Between the C interface and the objects behind it: the structs whose pointers a framework
// carries, and how a function of ours becomes a slot of PJRT_Api.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "base/shape.h"
#include "client/buffer.h"
#include "client/client.h"
#include "client/event.h"
#include "client/executable.h"
#include "pjrt/abi/abi_args.h"
#include "pjrt/abi/abi_extensions.h"

namespace weft::pjrt {

// The C interface only wraps the client's objects, under their own names.
using namespace client;

// PJRT_NamedValues and what they point to; the list stays valid until the next Add.
class NamedValues {
 public:
  void Add(std::string_view name, std::string_view value);
  void Add(std::string_view name, int64_t value);
  void Add(std::string_view name, std::vector<int64_t> value);
  void AddFloat(std::string_view name, double value);
  const PJRT_NamedValue* data() const { return values_.data(); }
  size_t size() const { return values_.size(); }

 private:
  PJRT_NamedValue& New(std::string_view name, PJRT_NamedValue_Type type);
  std::deque<std::string> strings_;
  std::deque<std::vector<int64_t>> lists_;
  std::vector<PJRT_NamedValue> values_;
};

// Strings as the two arrays of C: addresses and sizes.
struct StringList {
  explicit StringList(std::vector<std::string> list);
  StringList(const StringList&) = delete;
  std::vector<std::string> strings;
  std::vector<const char*> addresses;
  std::vector<size_t> sizes;
};

// The C view of an Executable; made once for each.
struct ExecutableView;

struct ErrorObject : PJRT_Error {
  explicit ErrorObject(Error e)
      : PJRT_Error{nullptr}, error(std::move(e)), text(error.ToString()) {}
  Error error;
  std::string text;
};
struct MemoryObject : PJRT_Memory {
  Memory* memory;
  PJRT_Client* client;
  std::vector<PJRT_Device*> devices;
};
inline MemoryObject* Object(PJRT_Memory* memory) {
  return static_cast<MemoryObject*>(memory);
}

}  // namespace weft::pjrt

struct PJRT_Event {
  weft::client::EventRef event;
};
struct PJRT_MemoryDescription {
  std::string kind;
  int kind_id;
};
struct PJRT_DeviceDescription {
  int id = 0, process_index = 0;
  std::string kind, debug_string, to_string;
  weft::pjrt::NamedValues attributes;
};
struct PJRT_Device {
  weft::client::Device* device;
  PJRT_Client* client;
  PJRT_DeviceDescription description;
  std::vector<PJRT_Memory*> memories;
  PJRT_Memory* default_memory;
};
struct PJRT_TopologyDescription {
  std::string platform_name, platform_version;
  std::vector<std::unique_ptr<PJRT_DeviceDescription>> devices;
  std::vector<PJRT_DeviceDescription*> device_list;
  weft::pjrt::NamedValues attributes;
  weft::Mutex mutex;
  std::unique_ptr<weft::client::Client> compiler WEFT_GUARDED_BY(mutex);  // for PJRT_Compile
};
struct PJRT_Client {
  // Last to go: everything else refers to it. Buffers, executables and devices must not be used
  // after the client was destroyed; work in flight is waited for.
  std::unique_ptr<weft::client::Client> client;
  std::vector<std::unique_ptr<PJRT_Device>> devices;  // [id]
  std::vector<PJRT_Device*> device_list;
  std::vector<std::unique_ptr<weft::pjrt::MemoryObject>> memories;
  std::vector<PJRT_Memory*> memory_list;
  std::unique_ptr<PJRT_TopologyDescription> topology;

  PJRT_Device* Wrap(const weft::client::Device* device) const {
    return devices[device->id()].get();
  }
  PJRT_Memory* Wrap(const weft::client::Memory* memory) const { return memory_list[memory->id()]; }
};
struct PJRT_Buffer {
  PJRT_Buffer(PJRT_Client* client, std::unique_ptr<weft::client::Buffer> buffer);
  PJRT_Client* client;
  std::unique_ptr<weft::client::Buffer> buffer;
  PJRT_Memory* memory;
  PJRT_Device* device;
  std::vector<size_t> dynamic_dims;
};
struct PJRT_Executable {
  std::shared_ptr<const weft::pjrt::ExecutableView> view;
};
struct PJRT_LoadedExecutable {
  PJRT_Client* client;
  std::unique_ptr<weft::client::LoadedExecutable> loaded;
  std::shared_ptr<const weft::pjrt::ExecutableView> view;
  std::vector<PJRT_Device*> devices;
  std::vector<PJRT_LogicalDeviceIds> logical_ids;
};
struct PJRT_ExecuteContext {
  weft::Mutex mutex;
  std::vector<PJRT_FFI_UserData> user_data WEFT_GUARDED_BY(mutex);
};
struct PJRT_AsyncHostToDeviceTransferManager {
  PJRT_Client* client;
  PJRT_Memory* memory;
  std::unique_ptr<weft::client::HostTransfer> transfer;
};
struct PJRT_FulfillAliasBufferCallback {
  weft::client::ArrayRef array;
};
struct PJRT_Layouts_MemoryLayout {
  std::string text;
};

namespace weft::pjrt {

// The functions of the Profiler extension.
const PLUGIN_Profiler_Api* ProfilerApi();
// The number that the framework gave to a call, from the extensions of its arguments; 0: none.
uint64_t CallerOf(const PJRT_Extension_Base* extensions);

struct ExecutableView {
  explicit ExecutableView(std::shared_ptr<Executable> executable);
  ExecutableView(const ExecutableView&) = delete;

  std::shared_ptr<Executable> executable;
  const NamedValues& Costs() const;  // worked out when first asked for
  // The module as the compiler left it, as HloModuleProtoWithConfig. Asked for twice, first for the
  // size: kept until `last`.
  std::shared_ptr<const std::string> OptimizedProgram(bool last) const;
  StringList output_kinds, parameter_kinds, output_shardings, parameter_shardings;
  bool has_shardings;  // programs on several devices; an empty one is replicated
  std::vector<PJRT_Buffer_Type> output_types;
  std::vector<int64_t> output_dims;
  std::vector<size_t> output_ranks;
  std::vector<PJRT_Layouts_MemoryLayout> layouts;  // outputs, then parameters
  std::vector<PJRT_Layouts_MemoryLayout*> layout_list;

 private:
  mutable std::once_flag costs_once_;
  mutable NamedValues costs_;
  mutable Mutex program_mutex_;
  mutable std::shared_ptr<const std::string> program_ WEFT_GUARDED_BY(program_mutex_);
};

// --- Helpers of the slots -----------------------------------------------------------------------

PJRT_Error* ToC(Error error);
inline PJRT_Error* ToC(const Status& status) {
  return status ? nullptr : ToC(status.error());
}
PJRT_Event* DoneEvent();  // one for all; to destroy it does nothing
PJRT_Event* ToC(EventRef event);
// An error that came from the framework.
Error FromC(int32_t code, const char* message, size_t message_size);

DType ToDType(int32_t buffer_type);  // kInvalid when there is none
PJRT_Buffer_Type ToBufferType(DType dtype);
// The array that C describes; sizes are checked so that nothing overflows later.
Result<Shape> ToShape(int32_t type, const int64_t* dims, size_t num_dims,
                      const PJRT_Buffer_MemoryLayout* layout = nullptr);
// Byte strides that a host layout asks for; empty: row-major.
Result<std::vector<int64_t>> ToByteStrides(const Shape& shape,
                                           const PJRT_Buffer_MemoryLayout* layout);
Result<Memory*> ToMemory(PJRT_Memory* memory, PJRT_Device* device);
inline std::string_view ToView(const char* data, size_t size) {
  return data == nullptr ? std::string_view() : std::string_view(data, size);
}
std::unique_ptr<PJRT_TopologyDescription> MakeTopology(const Client& client);

template <class T>
Status CheckNotNull(const T* p, const char* what) {
  if (p != nullptr) return {};
  return InvalidArgument("PJRT: ", what, " is null");
}
#define REQUIRE_ARG(field) TRY(CheckNotNull(args.field, #field))
// Whether the writer of `args` knows the field.
#define HAS_FIELD(args, field)                                           \
  (reinterpret_cast<const char*>(&(args).field) + sizeof((args).field) - \
       reinterpret_cast<const char*>(&(args)) <=                         \
   static_cast<ptrdiff_t>((args).struct_size))

// Structs that have grown since the oldest framework that can load us; their fields are looked at
// with HAS_FIELD.
template <class Args>
inline constexpr size_t kMinimumSize = sizeof(Args) - 7;
template <>
inline constexpr size_t kMinimumSize<PJRT_Client_Create_Args> = 72;
template <>
inline constexpr size_t kMinimumSize<PJRT_Client_CreateViewOfDeviceBuffer_Args> = 104;
template <>
inline constexpr size_t kMinimumSize<PJRT_Client_CreateErrorBuffer_Args> = 96;
template <>
inline constexpr size_t kMinimumSize<PJRT_Device_MemoryStats_Args> = 32;
template <>
inline constexpr size_t kMinimumSize<PJRT_Device_PoisonExecution_Args> = 49;
template <>
inline constexpr size_t kMinimumSize<PJRT_Executable_GetCompiledMemoryStats_Args> = 64;
template <>
inline constexpr size_t kMinimumSize<PJRT_Executable_DeserializeAndLoad_Args> = 48;
template <>
inline constexpr size_t kMinimumSize<PJRT_LoadedExecutable_Execute_Args> = 72;

// A function `Status fn(Args&)` as C calls it: nothing escapes but an error.
template <auto fn>
struct Slot;
template <class Args, Status (*fn)(Args&)>
struct Slot<fn> {
  static PJRT_Error* Call(Args* args) noexcept {
    try {
      if (args == nullptr)
        return ToC(Error(Code::kInvalidArgument, "PJRT: the arguments are null"));
      if (args->struct_size < kMinimumSize<Args>) {
        return ToC(Error(Code::kInvalidArgument,
                         StrCat("PJRT: struct_size is ", args->struct_size, ", expected at least ",
                                kMinimumSize<Args>, " (a framework too old for this plugin?)")));
      }
      return ToC(fn(*args));
    } catch (const std::bad_alloc&) {
      return ToC(Error(Code::kResourceExhausted, "out of memory"));
    } catch (...) {
      return ToC(Error(Code::kInternal, "an unexpected exception"));
    }
  }
};

// The functions behind the slots, one for each, in api_*.cc.
namespace slot {
#define SLOT(name) Status name(PJRT_##name##_Args& args);
#include "pjrt/abi/abi_slots.inc"
#undef SLOT
}  // namespace slot

PJRT_Extension_Base* Extensions();  // api_extensions.cc
const PJRT_Api* GetApi();           // api.cc

}  // namespace weft::pjrt
