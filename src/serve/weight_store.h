// Weights that several versions have in common: the same bytes of the same type and shape are
// placed on the device once, for as long as somebody uses them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/literal.h"
#include "base/mutex.h"
#include "serve/backend.h"

namespace weft::serve {

// Two independent hashes of 64 bits of the bytes. Reads several GB a second.
struct ContentKey {
  uint64_t first = 0, second = 0;
  auto operator<=>(const ContentKey&) const = default;
};
ContentKey ContentOf(std::string_view bytes);

class WeightStore {
 public:
  explicit WeightStore(Backend& backend) : backend_(backend) {}

  // The value on the device: one that is there already, where its bytes are the same.
  Result<DeviceValueRef> Place(Literal value) WEFT_EXCLUDES(mutex_);
  int64_t shared() const WEFT_EXCLUDES(mutex_);  // how often one was there already

 private:
  struct Key {
    ContentKey content;
    DType dtype;
    std::vector<int64_t> dims;
    auto operator<=>(const Key&) const = default;
  };
  Backend& backend_;
  mutable Mutex mutex_;
  std::map<Key, std::weak_ptr<const DeviceValue>> values_ WEFT_GUARDED_BY(mutex_);
  int64_t shared_ WEFT_GUARDED_BY(mutex_) = 0;
};

}  // namespace weft::serve
