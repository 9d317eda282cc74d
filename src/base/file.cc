#include "base/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/str.h"

namespace weft {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using FilePtr = std::unique_ptr<std::FILE, CloseFile>;

std::unexpected<Error> FileError(const std::string& path, int error) {
  Code code = error == ENOENT   ? Code::kNotFound
              : error == EACCES ? Code::kPermissionDenied
                                : Code::kInvalidArgument;
  return MakeError(code, path, ": ", std::strerror(error));
}

}  // namespace

Result<std::string> ReadFile(const std::string& path, int64_t max_bytes, int64_t max_stream_bytes) {
  FilePtr file(std::fopen(path.c_str(), "rbe"));
  if (!file) return FileError(path, errno);
  struct stat info;
  if (fstat(fileno(file.get()), &info) != 0) return FileError(path, errno);
  if (S_ISDIR(info.st_mode)) return FileError(path, EISDIR);
  const bool stream = !S_ISREG(info.st_mode);
  if (stream) max_bytes = std::min(max_bytes, max_stream_bytes);
  // The size is a hint: pipes and files of /proc have none.
  if (info.st_size > max_bytes) {
    return ResourceExhausted(path, ": ", static_cast<int64_t>(info.st_size),
                             " bytes are more than the limit of ", max_bytes);
  }
  std::string text;
  size_t used = 0;
  text.resize(static_cast<size_t>(info.st_size) + 1);
  while (size_t n = std::fread(text.data() + used, 1, text.size() - used, file.get())) {
    used += n;
    if (static_cast<int64_t>(used) > max_bytes) {
      return ResourceExhausted(path, stream ? ": a pipe or device that gives" : ":",
                               " more than the limit of ", max_bytes, " bytes");
    }
    if (used == text.size()) text.resize(used + used / 2 + 4096);
  }
  if (std::ferror(file.get())) return FileError(path, errno);
  text.resize(used);
  return text;
}

Status WriteFile(const std::string& path, std::string_view contents) {
  FilePtr file(std::fopen(path.c_str(), "wbe"));
  if (!file) return FileError(path, errno);
  if (std::fwrite(contents.data(), 1, contents.size(), file.get()) != contents.size()) {
    return FileError(path, errno);
  }
  if (std::fclose(file.release()) != 0) return FileError(path, errno);
  return {};
}

Status ReplaceFile(const std::string& path, std::string_view contents) {
  const std::string temporary = StrCat(path, ".", getpid(), ".tmp");
  Status written = WriteFile(temporary, contents);
  if (written && std::rename(temporary.c_str(), path.c_str()) == 0) return {};
  const int why = errno;  // of whichever failed
  std::remove(temporary.c_str());
  return FileError(path, why);
}

}  // namespace weft
