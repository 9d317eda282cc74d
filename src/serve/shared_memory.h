// System shared memory, an extension of Triton's: clients on the same machine name a region, and
// requests and answers refer to it instead of carrying bytes.
//
// Regions are read and written as files, never mapped: a client that makes its region shorter gets
// an error, where a mapping would end the server.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/literal.h"
#include "base/mutex.h"

namespace weft::serve {

// A part of a region, as a request names it.
struct SharedSlice {
  std::string region;
  int64_t offset = 0, size = 0;
};

class SharedMemory {
 public:
  struct Facts {
    std::string key;  // "/name", of shm_open
    int64_t offset = 0, size = 0;
  };

  // Off until told otherwise: whoever may call could read whatever the process may.
  void Enable() { enabled_ = true; }
  bool enabled() const { return enabled_; }

  Status Register(const std::string& name, const Facts& facts) WEFT_EXCLUDES(mutex_);
  // An empty name: all. Requests under way keep what they hold.
  Status Unregister(std::string_view name) WEFT_EXCLUDES(mutex_);
  // An empty name: all.
  Result<std::map<std::string, Facts>> Regions(std::string_view name) const WEFT_EXCLUDES(mutex_);

  Status Read(const SharedSlice& slice, std::span<std::byte> to) const WEFT_EXCLUDES(mutex_);
  Status Write(const SharedSlice& slice, std::span<const std::byte> from) const
      WEFT_EXCLUDES(mutex_);

 private:
  class File;
  struct Region {
    Facts facts;
    std::shared_ptr<const File> file;
  };
  // The file, and where in it the slice begins.
  Result<std::pair<std::shared_ptr<const File>, int64_t>> Find(const SharedSlice& slice,
                                                               size_t bytes) const
      WEFT_EXCLUDES(mutex_);
  Status CheckEnabled() const;

  bool enabled_ = false;
  mutable Mutex mutex_;
  std::map<std::string, Region, std::less<>> regions_ WEFT_GUARDED_BY(mutex_);
};

// A tensor of this shape from a slice. Truth values become 0 or 1.
Result<Literal> ReadShared(const SharedMemory& memory, const SharedSlice& slice,
                           const Shape& shape);

}  // namespace weft::serve
