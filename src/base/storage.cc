#include "base/storage.h"

#include <bit>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/mutex.h"

namespace weft {
namespace {

constexpr size_t kControlBytes = 64;             // of a shared_ptr, in front of the elements
constexpr size_t kLargeBlock = size_t{1} << 16;  // blocks from here on are kept
constexpr size_t kSteps = 8;                     // sizes of large blocks between powers of two

// The size of the block that holds so many bytes: one of kSteps for each power of two.
size_t LargeBlockSize(size_t bytes) {
  size_t step = std::bit_floor(bytes) / kSteps;
  return (bytes + step - 1) / step * step;
}

// Free blocks by size.
class BlockCache {
 public:
  void* Take(size_t size) WEFT_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    std::vector<void*>& blocks = blocks_[IndexOf(size)];
    if (blocks.empty()) return nullptr;
    void* block = blocks.back();
    blocks.pop_back();
    kept_ -= size;
    return block;
  }
  void Give(void* block, size_t size) WEFT_EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      if (kept_ + size <= kKeptStorageBytes) {
        kept_ += size;
        blocks_[IndexOf(size)].push_back(block);
        return;
      }
    }
    std::free(block);
  }

 private:
  static size_t IndexOf(size_t size) {
    size_t power = static_cast<size_t>(std::bit_width(size)) - 1;
    return power * kSteps + (size - (size_t{1} << power)) / ((size_t{1} << power) / kSteps);
  }

  Mutex mutex_;
  std::vector<void*> blocks_[64 * kSteps] WEFT_GUARDED_BY(mutex_);
  size_t kept_ WEFT_GUARDED_BY(mutex_) = 0;
};

// Never destroyed: arrays may outlive everything else.
BlockCache& Cache() {
  static BlockCache& cache = *new BlockCache;
  return cache;
}

// Puts the control block of a shared_ptr where the block begins.
template <class T>
struct InBlock {
  using value_type = T;
  void* block;
  size_t size;
  InBlock(void* memory, size_t bytes) : block(memory), size(bytes) {}
  template <class U>
  InBlock(const InBlock<U>& other) : block(other.block), size(other.size) {}
  T* allocate(size_t n) {
    static_assert(sizeof(T) <= kControlBytes && alignof(T) <= alignof(std::max_align_t));
    CHECK(n == 1);
    return static_cast<T*>(block);
  }
  void deallocate(T*, size_t) {
    size >= kLargeBlock ? Cache().Give(block, size) : std::free(block);
  }
  bool operator==(const InBlock&) const = default;
};

}  // namespace

std::shared_ptr<std::byte[]> AllocateStorage(size_t bytes, bool zero) {
  size_t size = bytes + kControlBytes + kStorageAlignment;
  if (size < bytes) return nullptr;
  void* block = nullptr;
  bool fresh = true;
  if (size >= kLargeBlock) {
    size = LargeBlockSize(size);
    block = Cache().Take(size);
    fresh = block == nullptr;
  }
  if (fresh) block = zero ? std::calloc(size, 1) : std::malloc(size);
  if (block == nullptr) return nullptr;
  uintptr_t address = reinterpret_cast<uintptr_t>(block) + kControlBytes;
  size_t offset = (kStorageAlignment - address % kStorageAlignment) % kStorageAlignment;
  std::byte* elements = static_cast<std::byte*>(block) + kControlBytes + offset;
  if (zero && !fresh) std::memset(elements, 0, bytes);
  return std::shared_ptr<std::byte[]>(elements, [](std::byte*) {}, InBlock<std::byte>(block, size));
}

}  // namespace weft
