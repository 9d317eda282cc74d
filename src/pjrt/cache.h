// Compiled programs on disk, one file each, shared by all processes of a user.
//
// The directory belongs to the user alone (0700); a directory or file of somebody else is refused.
// Files are written beside and renamed, so that readers see all or nothing, and carry a checksum: a
// damaged one is removed and counts as a miss. The least recently used files go when all together
// exceed the limit.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace weft::pjrt {

class Cache {
 public:
  static constexpr int64_t kDefaultLimit = int64_t{2} << 30;  // bytes

  // Makes the directory where it is missing.
  static Result<std::unique_ptr<Cache>> Open(std::string directory, int64_t limit = kDefaultLimit);

  // `key`: hex digits. Nothing that goes wrong here is an error to the caller: it is a miss, or the
  // file is not written; WEFT_DEBUG=1 says why.
  std::optional<std::string> Find(std::string_view key) const;
  void Store(std::string_view key, std::string_view value) const;
  void Remove(std::string_view key) const;

  const std::string& directory() const { return directory_; }

 private:
  Cache(std::string directory, int64_t limit) : directory_(std::move(directory)), limit_(limit) {}
  std::string Path(std::string_view key) const;
  std::optional<std::string> Read(std::string_view key) const;
  void Shrink() const;

  const std::string directory_;
  const int64_t limit_;
  mutable std::atomic<int64_t> stored_ = 0;  // files written by this process
};

}  // namespace weft::pjrt
