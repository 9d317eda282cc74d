// Compiled programs on disk, one file each, shared by all processes of a user.
//
// Files lie in a folder of their own, kFolder, in the directory that is given, which may hold other
// things and stays as it is. The folder belongs to the user alone (0700); one of somebody else, or
// open to others, is refused, as are files of somebody else. Files are written beside and renamed,
// so that readers see all or nothing, and carry a checksum: a damaged one is removed and counts as
// a miss. The least recently used files go when all together exceed the limit.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace weft::client {

class Cache {
 public:
  static constexpr int64_t kDefaultLimit = int64_t{2} << 30;  // bytes

  static constexpr std::string_view kFolder = "weft-cache";

  // Makes the directory and the folder in it where they are missing.
  static Result<std::unique_ptr<Cache>> Open(std::string directory, int64_t limit = kDefaultLimit);

  // `key`: hex digits. Nothing that goes wrong here is an error to the caller: it is a miss, or the
  // file is not written; WEFT_DEBUG=1 says why.
  std::optional<std::string> Find(std::string_view key) const;
  void Store(std::string_view key, std::string_view value) const;
  void Remove(std::string_view key) const;

  const std::string& directory() const { return directory_; }  // the folder with the files
  ~Cache();  // adds how often something was found to the counts on disk

 private:
  Cache(std::string directory, int64_t limit) : directory_(std::move(directory)), limit_(limit) {}
  std::string Path(std::string_view key) const;
  std::optional<std::string> Read(std::string_view key) const;
  void Shrink() const;

  const std::string directory_;
  const int64_t limit_;
  mutable std::atomic<int64_t> stored_ = 0;  // files written by this process
  mutable std::atomic<int64_t> hits_ = 0, misses_ = 0;
};

// What is there, without making anything.
struct CacheContents {
  std::string folder;
  int64_t entries = 0, bytes = 0;
  int64_t code = 0, programs = 0, facts = 0;  // of the entries: machine code, modules, histories
  int64_t oldest = 0, newest = 0;             // last use, in seconds since 1970
  int64_t hits = 0, misses = 0;               // of processes that ended in order
};
CacheContents LookIntoCache(const std::string& directory);

// Removes the files that Cache wrote, and the folder when that leaves it empty. Files of others,
// and files that only have such a name, stay.
struct CacheCleared {
  int64_t files = 0, bytes = 0;
  std::vector<std::string> left;  // why a file of ours is still there
};
CacheCleared ClearCache(const std::string& directory);

}  // namespace weft::client
