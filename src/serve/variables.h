// The weights of one version. Registered by name, type and shape before anything is read; read and
// placed on the device when a graph first needs them, once, whoever asks.
#pragma once

#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/mutex.h"
#include "serve/backend.h"
#include "serve/signature.h"
#include "serve/weights.h"

namespace weft::serve {

class Variables {
 public:
  // `file` may be null where nothing is registered.
  Variables(Backend& backend, std::shared_ptr<const WeightsFile> file)
      : backend_(backend), file_(std::move(file)) {}

  // The same name again is fine, with another type or shape it is refused. The file must have it,
  // as it says where the format does.
  Status Register(const VariableSpec& variable) WEFT_EXCLUDES(mutex_);
  // Its type and shape, known before its elements are.
  Result<Shape> ShapeOf(std::string_view name) const WEFT_EXCLUDES(mutex_);
  // Waits for who reads it already. An error is not kept: the next one tries again.
  Result<DeviceValueRef> Get(std::string_view name) WEFT_EXCLUDES(mutex_);

  int64_t registered_bytes() const WEFT_EXCLUDES(mutex_);
  int64_t loaded_bytes() const WEFT_EXCLUDES(mutex_);  // of those that a graph asked for

 private:
  using Value = Result<DeviceValueRef>;
  struct Entry {
    Shape shape;
    std::shared_future<Value> value;  // invalid: nobody asked yet
  };
  Value Load(std::string_view name, const Shape& shape);
  Backend& backend_;
  std::shared_ptr<const WeightsFile> file_;
  mutable Mutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft::serve
