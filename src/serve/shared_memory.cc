#include "serve/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace weft::serve {

class SharedMemory::File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() { close(descriptor_); }
  File(const File&) = delete;

  Status Read(std::byte* to, size_t size, int64_t at) const {
    return Move(size, at, [&](size_t done, int64_t place) {
      return pread(descriptor_, to + done, size - done, place);
    });
  }
  Status Write(const std::byte* from, size_t size, int64_t at) const {
    // Beyond its end the file would grow, which is not ours to do.
    struct stat info{};
    if (fstat(descriptor_, &info) != 0 || info.st_size < at + static_cast<int64_t>(size)) {
      return InvalidArgument("the region became shorter");
    }
    return Move(size, at, [&](size_t done, int64_t place) {
      return pwrite(descriptor_, from + done, size - done, place);
    });
  }

 private:
  template <class Step>
  Status Move(size_t size, int64_t at, Step step) const {
    for (size_t done = 0; done < size;) {
      ssize_t moved = step(done, at + static_cast<int64_t>(done));
      if (moved < 0 && errno == EINTR) continue;
      if (moved < 0) return InvalidArgument("cannot be used: ", std::strerror(errno));
      if (moved == 0) return InvalidArgument("the region became shorter");
      done += static_cast<size_t>(moved);
    }
    return {};
  }
  const int descriptor_;
};

Status SharedMemory::CheckEnabled() const {
  if (enabled_) return {};
  Error error(Code::kUnimplemented, "shared memory: not enabled");
  error.Hint("start weft-serve with --enable_shared_memory");
  return std::unexpected(std::move(error));
}

Status SharedMemory::Register(const std::string& name, const Facts& facts) {
  TRY(CheckEnabled());
  if (name.empty()) return InvalidArgument("shared memory: a region without a name");
  auto wrong = [&](const auto&... what) {
    return InvalidArgument("shared memory: region ", name, ": ", what...);
  };
  // One name below the place of shared memory, not a path.
  if (facts.key.find('/', 1) != facts.key.npos || facts.key.empty() || facts.key == "/" ||
      facts.key.find('\0') != facts.key.npos) {
    return wrong("key '", facts.key, "': not a name");
  }
  int64_t end = 0;
  if (facts.offset < 0 || facts.size <= 0 ||
      __builtin_add_overflow(facts.offset, facts.size, &end)) {
    return wrong(facts.size, " bytes at ", facts.offset);
  }
  int descriptor = shm_open(facts.key.c_str(), O_RDWR | O_CLOEXEC, 0);
  if (descriptor < 0) return wrong("key ", facts.key, ": ", std::strerror(errno));
  auto file = std::make_shared<const File>(descriptor);
  struct stat info{};
  if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) return wrong("not shared memory");
  if (info.st_size < end) return wrong("ends at ", info.st_size, ", before ", end);
  MutexLock lock(mutex_);
  if (!regions_.try_emplace(name, Region{facts, std::move(file)}).second) {
    return MakeError(Code::kAlreadyExists, "shared memory: region ", name, ": registered already");
  }
  return {};
}

Status SharedMemory::Unregister(std::string_view name) {
  MutexLock lock(mutex_);
  if (name.empty()) {
    regions_.clear();
  } else if (auto found = regions_.find(name); found != regions_.end()) {
    regions_.erase(found);
  }
  return {};
}

Result<std::map<std::string, SharedMemory::Facts>> SharedMemory::Regions(
    std::string_view name) const {
  std::map<std::string, Facts> facts;
  MutexLock lock(mutex_);
  for (const auto& [own, region] : regions_) {
    if (name.empty() || own == name) facts.emplace(own, region.facts);
  }
  if (facts.empty() && !name.empty()) {
    return NotFound("shared memory: no region ", name);
  }
  return facts;
}

Result<std::pair<std::shared_ptr<const SharedMemory::File>, int64_t>> SharedMemory::Find(
    const SharedSlice& slice, size_t bytes) const {
  TRY(CheckEnabled());
  MutexLock lock(mutex_);
  auto found = regions_.find(slice.region);
  if (found == regions_.end()) return NotFound("shared memory: no region ", slice.region);
  const Facts& facts = found->second.facts;
  int64_t end = 0;
  if (slice.offset < 0 || slice.size < 0 || bytes > static_cast<size_t>(slice.size) ||
      __builtin_add_overflow(slice.offset, slice.size, &end) || end > facts.size) {
    return InvalidArgument("shared memory: region ", slice.region, " has ", facts.size,
                           " bytes: not ", bytes, " in ", slice.size, " at ", slice.offset);
  }
  return std::pair(found->second.file, facts.offset + slice.offset);
}

Status SharedMemory::Read(const SharedSlice& slice, std::span<std::byte> to) const {
  auto [file, at] = TRY(Find(slice, to.size()));
  Status status = file->Read(to.data(), to.size(), at);
  if (!status) status.error().Prefix(StrCat("shared memory: region ", slice.region, ": "));
  return status;
}

Result<Literal> ReadShared(const SharedMemory& memory, const SharedSlice& slice,
                           const Shape& shape) {
  std::optional<int64_t> elements = shape.CheckedElements();
  int64_t bytes = 0;
  if (!elements || __builtin_mul_overflow(*elements, ByteWidth(shape.dtype()), &bytes) ||
      bytes > slice.size) {
    return InvalidArgument(slice.size, " bytes for ", shape.ToStringWithoutLayout());
  }
  Literal value = TRY(Literal::AllocateUnset(shape));
  TRY(memory.Read(slice, {value.mutable_data(), static_cast<size_t>(bytes)}));
  if (shape.dtype() == DType::kPred) {
    for (bool& b : value.values<bool>()) b = *reinterpret_cast<const unsigned char*>(&b) != 0;
  }
  return value;
}

Status SharedMemory::Write(const SharedSlice& slice, std::span<const std::byte> from) const {
  auto [file, at] = TRY(Find(slice, from.size()));
  Status status = file->Write(from.data(), from.size(), at);
  if (!status) status.error().Prefix(StrCat("shared memory: region ", slice.region, ": "));
  return status;
}

}  // namespace weft::serve
