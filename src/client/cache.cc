#include "client/cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <vector>

#include "base/digest.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/write_all.h"

namespace weft::client {
namespace {

constexpr std::string_view kCacheMagic = "WEFTCACH";
constexpr size_t kCacheHeader = kCacheMagic.size() + 32;  // and a checksum of what follows
constexpr std::string_view kCacheSuffix = ".weft";
constexpr std::string_view kFactsPrefix = "facts-", kCodePrefix = "cpu-";
constexpr int64_t kShrinkEvery = 64;          // files written between looks at the whole directory
constexpr int64_t kStaleTemporary = 60 * 60;  // seconds; its writer is gone

std::string ErrnoText() {
  return std::strerror(errno);
}

struct FileHandle {
  explicit FileHandle(int fd) : fd(fd) {}
  ~FileHandle() {
    if (fd >= 0) close(fd);
  }
  FileHandle(const FileHandle&) = delete;
  int fd;
};

bool ReadAll(int fd, std::string& bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t n = read(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

// The directory and those above it.
bool MakeDirectories(const std::string& path) {
  for (size_t slash = 1; slash != path.npos; ++slash) {
    slash = path.find('/', slash);
    std::string part = path.substr(0, slash);
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST && slash == path.npos) return false;
    if (slash == path.npos) break;
  }
  return true;
}

std::string FolderOf(const std::string& directory) {
  return StrCat(directory, directory.ends_with('/') ? "" : "/", Cache::kFolder);
}

constexpr std::string_view kCountsFile = "counts";
struct Counts {
  int64_t hits = 0, misses = 0;
};
Counts ReadCounts(int fd) {
  char text[64] = {};
  Counts counts;
  if (pread(fd, text, sizeof(text) - 1, 0) <= 0) return counts;
  long long hits = 0, misses = 0;
  if (std::sscanf(text, "%lld %lld", &hits, &misses) == 2 && hits >= 0 && misses >= 0) {
    counts = {hits, misses};
  }
  return counts;
}

void AddCounts(const std::string& folder, int64_t hits, int64_t misses) {
  if (hits + misses == 0) return;
  FileHandle file(open(StrCat(folder, "/", kCountsFile).c_str(),
                       O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.fd < 0 || flock(file.fd, LOCK_EX) != 0) return;
  Counts counts = ReadCounts(file.fd);
  std::string text = StrCat(counts.hits + hits, " ", counts.misses + misses, "\n");
  if (pwrite(file.fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size())) {
    (void)!ftruncate(file.fd, static_cast<off_t>(text.size()));
  }
}

struct CacheFile {
  std::string name;
  int64_t bytes = 0;
  timespec used{};
};

std::vector<CacheFile> ListCache(const std::string& directory) {
  std::vector<CacheFile> files;
  DIR* dir = opendir(directory.c_str());
  if (dir == nullptr) return files;
  while (dirent* entry = readdir(dir)) {
    std::string_view name = entry->d_name;
    if (!name.ends_with(kCacheSuffix) && !name.starts_with(".tmp.")) continue;
    struct stat info;
    if (fstatat(dirfd(dir), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (!S_ISREG(info.st_mode)) continue;
    files.push_back({std::string(name), info.st_size, info.st_mtim});
  }
  closedir(dir);
  return files;
}

}  // namespace

Result<std::unique_ptr<Cache>> Cache::Open(std::string directory, int64_t limit) {
  std::string folder = FolderOf(directory);
  if (!MakeDirectories(folder)) {
    return MakeError(Code::kPermissionDenied, "cache: cannot make ", folder, ": ", ErrnoText());
  }
  struct stat info;
  if (lstat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return FailedPrecondition("cache: ", folder, " is not a directory");
  }
  if (info.st_uid != geteuid()) {
    return MakeError(Code::kPermissionDenied, "cache: ", folder, " belongs to user ", info.st_uid);
  }
  if ((info.st_mode & 077) != 0) {
    // Others could have put anything there.
    auto error = MakeError(Code::kPermissionDenied, "cache: ", folder, " is open to other users");
    error.error().Hint(StrCat("chmod 700 ", folder, ", or name another folder in WEFT_CACHE"));
    return error;
  }
  return std::unique_ptr<Cache>(new Cache(std::move(folder), limit));
}

Cache::~Cache() {
  AddCounts(directory_, hits_, misses_);
}

std::string Cache::Path(std::string_view key) const {
  return StrCat(directory_, "/", key, kCacheSuffix);
}

std::optional<std::string> Cache::Find(std::string_view key) const {
  std::optional<std::string> found = Read(key);
  if (!key.starts_with(kFactsPrefix)) (found ? hits_ : misses_).fetch_add(1);
  metrics::Add(found ? metrics::kCacheHits : metrics::kCacheMisses);
  if (found) metrics::Add(metrics::kCacheRead, static_cast<int64_t>(found->size()));
  return found;
}

std::optional<std::string> Cache::Read(std::string_view key) const {
  std::string path = Path(key);
  FileHandle file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (file.fd < 0) {
    if (errno != ENOENT) {
      VLOG("cache", 1) << path << ": " << ErrnoText();
    }
    return std::nullopt;
  }
  struct stat info;
  if (fstat(file.fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid() ||
      info.st_size > limit_) {
    VLOG("cache", 1) << path << " is not ours: left alone";
    return std::nullopt;
  }
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  if (!ReadAll(file.fd, bytes) || bytes.size() < kCacheHeader || !bytes.starts_with(kCacheMagic) ||
      Digest::Raw(std::string_view(bytes).substr(kCacheHeader)) !=
          std::string_view(bytes).substr(kCacheMagic.size(), 32)) {
    VLOG("cache", 1) << path << " is damaged: removed";
    Remove(key);
    return std::nullopt;
  }
  futimens(file.fd, nullptr);  // used now
  bytes.erase(0, kCacheHeader);
  return bytes;
}

void Cache::Remove(std::string_view key) const {
  unlink(Path(key).c_str());
}

void Cache::Store(std::string_view key, std::string_view value) const {
  if (static_cast<int64_t>(value.size() + kCacheHeader) > limit_ / 4) return;
  int64_t number = stored_.fetch_add(1, std::memory_order_relaxed);
  std::string temporary =
      StrCat(directory_, "/.tmp.", getpid(), ".", number, ".", key.substr(0, 16));
  {
    FileHandle file(
        open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (file.fd < 0 || !WriteAll(file.fd, StrCat(kCacheMagic, Digest::Raw(value))) ||
        !WriteAll(file.fd, value)) {
      VLOG("cache", 1) << temporary << " cannot be written: " << ErrnoText();
      if (file.fd >= 0) unlink(temporary.c_str());
      return;
    }
  }
  if (rename(temporary.c_str(), Path(key).c_str()) != 0) {
    VLOG("cache", 1) << Path(key) << " cannot be written: " << ErrnoText();
    unlink(temporary.c_str());
    return;
  }
  metrics::Add(metrics::kCacheWritten, static_cast<int64_t>(value.size()));
  if (number % kShrinkEvery == 0) Shrink();
}

void Cache::Shrink() const {
  std::vector<CacheFile> files = ListCache(directory_);
  int64_t now = time(nullptr), total = 0;
  for (const CacheFile& file : files) {
    if (file.name.starts_with(".tmp.")) {
      if (file.used.tv_sec + kStaleTemporary < now) {
        unlink(StrCat(directory_, "/", file.name).c_str());
      }
    } else {
      total += file.bytes;
    }
  }
  if (total <= limit_) return;
  std::sort(files.begin(), files.end(), [](const CacheFile& a, const CacheFile& b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
  });
  for (const CacheFile& file : files) {
    if (total <= limit_ / 10 * 9) break;
    if (file.name.starts_with(".tmp.")) continue;
    unlink(StrCat(directory_, "/", file.name).c_str());
    total -= file.bytes;
  }
}

CacheContents LookIntoCache(const std::string& directory) {
  CacheContents contents;
  contents.folder = FolderOf(directory);
  for (const CacheFile& file : ListCache(contents.folder)) {
    if (file.name.starts_with(".tmp.")) continue;
    ++contents.entries;
    contents.bytes += file.bytes;
    int64_t& kind = file.name.starts_with(kCodePrefix)    ? contents.code
                    : file.name.starts_with(kFactsPrefix) ? contents.facts
                                                          : contents.programs;
    ++kind;
    int64_t used = file.used.tv_sec;
    contents.oldest = contents.oldest == 0 ? used : std::min(contents.oldest, used);
    contents.newest = std::max(contents.newest, used);
  }
  FileHandle counts(
      open(StrCat(contents.folder, "/", kCountsFile).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (counts.fd >= 0) {
    Counts read = ReadCounts(counts.fd);
    contents.hits = read.hits;
    contents.misses = read.misses;
  }
  return contents;
}

namespace {

// Written by Cache, as far as can be told: the name, the owner and the first bytes.
bool IsOurs(const std::string& path, const std::string& name) {
  FileHandle file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info;
  if (file.fd < 0 || fstat(file.fd, &info) != 0 || !S_ISREG(info.st_mode) ||
      info.st_uid != geteuid()) {
    return false;
  }
  if (name.starts_with(".tmp.")) return true;
  std::string magic(kCacheMagic.size(), '\0');
  return ReadAll(file.fd, magic) && magic == kCacheMagic;
}

}  // namespace

CacheCleared ClearCache(const std::string& directory) {
  CacheCleared cleared;
  std::string folder = FolderOf(directory);
  // Files lay in the directory itself once, where others may lie too.
  for (const std::string& place : {folder, directory}) {
    for (const CacheFile& file : ListCache(place)) {
      if (place == directory && !file.name.ends_with(kCacheSuffix)) continue;
      std::string path = StrCat(place, "/", file.name);
      if (!IsOurs(path, file.name)) continue;
      if (unlink(path.c_str()) != 0) {
        cleared.left.push_back(StrCat(path, ": ", ErrnoText()));
        continue;
      }
      ++cleared.files;
      cleared.bytes += file.bytes;
    }
  }
  unlink(StrCat(folder, "/", kCountsFile).c_str());
  rmdir(folder.c_str());
  return cleared;
}

}  // namespace weft::client
