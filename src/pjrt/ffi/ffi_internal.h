// What the files of the typed FFI share: registered targets and types, the arguments of a call as
// handlers see them, and the context of a call.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/literal.h"
#include "base/mutex.h"
#include "client/event.h"
#include "hlo/attr_types.h"
#include "hlo/instruction.h"
#include "pjrt/ffi/ffi_abi.h"

struct XLA_FFI_Error {
  weft::Error error;
};
struct XLA_FFI_Future {
  weft::client::EventRef done = std::make_shared<weft::client::Event>();
};
// State that a handler keeps between its stages, and scratch memory; gone after the call.
struct XLA_FFI_ExecutionContext {
  XLA_FFI_ExecutionContext() = default;
  XLA_FFI_ExecutionContext(const XLA_FFI_ExecutionContext&) = delete;
  ~XLA_FFI_ExecutionContext();

  struct State {
    int64_t type_id = 0;
    void* state = nullptr;
  };
  State states[4];  // by stage
  weft::Mutex mutex;
  std::map<void*, size_t> scratch WEFT_GUARDED_BY(mutex);
  int64_t run_id = 0;
};

namespace weft::pjrt {

using namespace client;

struct FfiTarget {
  hlo::ApiVersion api_version = hlo::ApiVersion::kTypedFfi;
  XLA_FFI_Handler_Bundle bundle{};  // typed
  void* function = nullptr;         // the others
};
Status RegisterFfiTarget(std::string name, const FfiTarget& target);
std::optional<FfiTarget> FindFfiTarget(std::string_view name);

// Returns the type's number; `id` 0 asks for one.
Result<int64_t> RegisterFfiType(std::string_view name, int64_t id, void (*deleter)(void*));

const XLA_FFI_Api* GetFfiApi();

// The attributes of a custom call, from MLIR text `{uplo = 76 : ui8}`.
class FfiAttributes {
 public:
  static Result<std::unique_ptr<FfiAttributes>> Parse(std::string_view text);
  ~FfiAttributes();
  const XLA_FFI_Attrs& attrs() const { return *attrs_; }
  // A number by name.
  std::optional<uint64_t> FindInteger(std::string_view name) const;

 private:
  struct Storage;
  FfiAttributes();
  std::unique_ptr<Storage> storage_;
  const XLA_FFI_Attrs* attrs_ = nullptr;
};

XLA_FFI_DataType ToFfiType(DType dtype);

}  // namespace weft::pjrt
