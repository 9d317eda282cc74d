#include "runtime/pretend/device_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/str.h"
#include "runtime/memory.h"

namespace weft::runtime {
namespace {

int64_t BlockBytes(int64_t bytes) {
  return (std::max<int64_t>(bytes, 1) + kDeviceAlignment - 1) / kDeviceAlignment * kDeviceAlignment;
}

std::byte* Map(int64_t bytes, int protection, int flags, int file) {
  void* at = mmap(nullptr, static_cast<size_t>(bytes), protection, flags | MAP_NORESERVE, file, 0);
  return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
}

}  // namespace

Result<std::unique_ptr<DeviceMemory>> DeviceMemory::Create(int64_t bytes, bool accessible) {
  if (bytes <= 0) return InvalidArgument("pretend: a device with ", bytes, " bytes of memory");
  auto memory = std::unique_ptr<DeviceMemory>(new DeviceMemory);
  bytes = BlockBytes(bytes);
  memory->bytes_ = bytes;
  if (accessible) {
    int file = memfd_create("weft-device", MFD_CLOEXEC);
    if (file >= 0 && ftruncate(file, bytes) == 0) {
      memory->seen_ = Map(bytes, PROT_NONE, MAP_SHARED, file);
      memory->own_ = Map(bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file);
    }
    if (file >= 0) close(file);
  } else {
    memory->seen_ = Map(bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  }
  if (memory->seen_ == nullptr || (accessible && memory->own_ == nullptr)) {
    return ResourceExhausted("pretend: no ", bytes, " bytes of memory: ", strerror(errno));
  }
  MutexLock lock(memory->mutex_);
  memory->free_[0] = bytes;
  return memory;
}

DeviceMemory::~DeviceMemory() {
  if (seen_ != nullptr) munmap(seen_, static_cast<size_t>(bytes_));
  if (own_ != nullptr) munmap(own_, static_cast<size_t>(bytes_));
}

std::byte* DeviceMemory::Take(int64_t bytes, const void* stream) {
  if (bytes > bytes_) return nullptr;
  int64_t need = BlockBytes(bytes);
  MutexLock lock(mutex_);
  for (size_t i = 0; i < pending_.size(); ++i) {
    Pending& p = pending_[i];
    if (p.stream != stream || p.bytes < need) continue;
    int64_t offset = p.offset;
    p.offset += need;
    p.bytes -= need;
    if (p.bytes == 0) pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
    taken_[offset] = need;
    return seen_ + offset;
  }
  for (auto [offset, size] : free_) {
    if (size < need) continue;
    free_.erase(offset);
    if (size > need) free_[offset + need] = size - need;
    taken_[offset] = need;
    return seen_ + offset;
  }
  return nullptr;
}

DeviceMemory::Freed DeviceMemory::Release(std::byte* address, const void* stream) {
  MutexLock lock(mutex_);
  auto found = taken_.find(address - seen_);
  CHECK(found != taken_.end()) << "pretend: freed what was not allocated";
  Freed freed = {released_++, address, found->second};
  pending_.push_back({freed.number, found->first, found->second, stream});
  open_[freed.number] = freed.bytes;
  taken_.erase(found);
  return freed;
}

void DeviceMemory::Settle(const Freed& freed) {
  MutexLock lock(mutex_);
  for (const Pending& p : pending_) {
    if (p.number == freed.number) AddFree(p.offset, p.bytes);
  }
  std::erase_if(pending_, [&](const Pending& p) { return p.number == freed.number; });
  open_.erase(freed.number);
  settled_.notify_all();
}

DeviceMemory::Holes DeviceMemory::holes() {
  MutexLock lock(mutex_);
  Holes holes;
  for (auto [offset, bytes] : free_) {
    holes.bytes += bytes;
    ++holes.count;
    holes.largest = std::max(holes.largest, bytes);
  }
  return holes;
}

void DeviceMemory::WaitSettled() {
  MutexLock lock(mutex_);
  int64_t until = released_;
  while (!open_.empty() && open_.begin()->first < until) mutex_.Wait(settled_);
}

void DeviceMemory::AddFree(int64_t offset, int64_t bytes) {
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  free_[offset] = bytes;
}

}  // namespace weft::runtime
