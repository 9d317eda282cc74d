// The weights of one version. Registered by name, type and shape before anything is read; read and
// placed on the device when a graph first needs them, once, whoever asks; bytes that another
// version has already are shared with it.
#pragma once

#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "serve/backend.h"
#include "serve/signature.h"
#include "serve/weight_store.h"
#include "serve/weights.h"

namespace weft::serve {

class Variables {
 public:
  // `file` may be null where nothing is registered.
  Variables(WeightStore& store, std::shared_ptr<const WeightsFile> file)
      : store_(store), file_(std::move(file)) {}
  ~Variables();  // waits for what is being read
  Variables(const Variables&) = delete;

  // The same name again is fine, with another type or shape it is refused. The file must have it,
  // as it says where the format does.
  Status Register(const VariableSpec& variable) WEFT_EXCLUDES(mutex_);
  // Its type and shape, known before its elements are.
  Result<Shape> ShapeOf(std::string_view name) const WEFT_EXCLUDES(mutex_);
  // Waits for who reads it already. An error is not kept: the next one tries again.
  Result<DeviceValueRef> Get(std::string_view name) WEFT_EXCLUDES(mutex_);

  // Reads and places these on threads of its own, in clusters of similar size; Get waits for what
  // is under way. What fails is an error of Get, which tries again; the others are not held up.
  void Prefetch(std::vector<std::string> names) WEFT_EXCLUDES(mutex_);

  int64_t registered_bytes() const WEFT_EXCLUDES(mutex_);
  int64_t loaded_bytes() const WEFT_EXCLUDES(mutex_);  // of those that a graph asked for

 private:
  using Value = Result<DeviceValueRef>;
  struct Entry {
    Shape shape;
    std::shared_future<Value> value;  // invalid: nobody asked yet
  };
  Value Load(std::string_view name, const Shape& shape);
  WeightStore& store_;
  std::shared_ptr<const WeightsFile> file_;
  mutable Mutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_ WEFT_GUARDED_BY(mutex_);
  std::vector<std::jthread> fetching_ WEFT_GUARDED_BY(mutex_);  // last: they use the rest
};

}  // namespace weft::serve
