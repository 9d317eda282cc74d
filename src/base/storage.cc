#include "base/storage.h"

#include <sys/mman.h>

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
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

// Blocks from here on are asked for in large pages, of which a processor remembers more memory.
constexpr size_t kHugePage = size_t{1} << 21;
constexpr size_t kHugeBlock = 2 * kHugePage;
constexpr size_t kColors = 8, kColorStep = 4096 + 512;

// Zeroed. The size is a whole number of pages, as those of large blocks are. Large pages are for
// what is `needed` alone: the last one would be there as a whole though little of it is used.
void* NewHugeBlock(size_t size, size_t needed) {
  size_t mapped = size + kHugePage;
  if (mapped < size) return nullptr;
  void* memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* first = static_cast<std::byte*>(memory);
  size_t before = (kHugePage - reinterpret_cast<uintptr_t>(memory) % kHugePage) % kHugePage;
  if (before > 0) munmap(first, before);
  munmap(first + before + size, kHugePage - before);
#ifdef MADV_HUGEPAGE
  madvise(first + before, needed / kHugePage * kHugePage, MADV_HUGEPAGE);  // a wish
#endif
  return first + before;
}

void* NewBlock(size_t size, size_t needed, bool zero) {
  if (size >= kHugeBlock) return NewHugeBlock(size, needed);
  return zero ? std::calloc(size, 1) : std::malloc(size);
}

void FreeBlock(void* block, size_t size) {
  size >= kHugeBlock ? static_cast<void>(munmap(block, size)) : std::free(block);
}

// Where elements begin in a block: blocks of large pages all begin at the same place of the caches,
// and arrays that are read together should not.
size_t OffsetIn(const void* block, size_t size) {
  uintptr_t address = reinterpret_cast<uintptr_t>(block);
  if (size >= kHugeBlock) return kControlBytes + address / kHugePage % kColors * kColorStep;
  address += kControlBytes;
  return kControlBytes + (kStorageAlignment - address % kStorageAlignment) % kStorageAlignment;
}

// Free blocks by size. Where they are too many, those that have waited longest go: what a program
// uses over and over stays, whatever ran before.
class BlockCache {
 public:
  void* Take(size_t size) WEFT_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    std::deque<Free>& blocks = blocks_[IndexOf(size)];
    if (blocks.empty()) return nullptr;
    void* block = blocks.back().block;
    blocks.pop_back();
    kept_ -= size;
    return block;
  }
  void Give(void* block, size_t size) WEFT_EXCLUDES(mutex_) {
    std::vector<Free> too_many;
    {
      MutexLock lock(mutex_);
      if (size > most_) {
        too_many.push_back({block, size, 0});
      } else {
        too_many = MakeRoom(size);
        kept_ += size;
        blocks_[IndexOf(size)].push_back({block, size, given_++});
      }
    }
    for (const Free& old : too_many) FreeBlock(old.block, old.size);
  }
  void Keep(size_t most) WEFT_EXCLUDES(mutex_) {
    std::vector<Free> too_many;
    {
      MutexLock lock(mutex_);
      most_ = most;
      too_many = MakeRoom(0);
    }
    for (const Free& old : too_many) FreeBlock(old.block, old.size);
  }

 private:
  struct Free {
    void* block;
    size_t size;
    uint64_t given;  // as the how-manieth
  };

  static size_t IndexOf(size_t size) {
    size_t power = static_cast<size_t>(std::bit_width(size)) - 1;
    return power * kSteps + (size - (size_t{1} << power)) / ((size_t{1} << power) / kSteps);
  }

  // The blocks that have to go so that one more of this size can be kept.
  std::vector<Free> MakeRoom(size_t size) WEFT_REQUIRES(mutex_) {
    std::vector<Free> gone;
    while (kept_ + size > most_) {
      gone.push_back(TakeOldest());
      kept_ -= gone.back().size;
    }
    return gone;
  }

  Free TakeOldest() WEFT_REQUIRES(mutex_) {
    std::deque<Free>* oldest = nullptr;
    for (std::deque<Free>& blocks : blocks_) {
      if (blocks.empty()) continue;
      if (oldest == nullptr || blocks.front().given < oldest->front().given) oldest = &blocks;
    }
    CHECK(oldest != nullptr);
    Free found = oldest->front();
    oldest->pop_front();
    return found;
  }

  Mutex mutex_;
  std::deque<Free> blocks_[64 * kSteps] WEFT_GUARDED_BY(mutex_);  // the newest last
  size_t kept_ WEFT_GUARDED_BY(mutex_) = 0, most_ WEFT_GUARDED_BY(mutex_) = kKeptStorageBytes;
  uint64_t given_ WEFT_GUARDED_BY(mutex_) = 0;
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
    size >= kLargeBlock ? Cache().Give(block, size) : FreeBlock(block, size);
  }
  bool operator==(const InBlock&) const = default;
};

}  // namespace

std::shared_ptr<std::byte[]> AllocateStorage(size_t bytes, bool zero) {
  size_t size = bytes + kControlBytes + kStorageAlignment;
  if (size + kColors * kColorStep >= kHugeBlock) size += kColors * kColorStep;
  if (size < bytes) return nullptr;
  const size_t needed = size;
  void* block = nullptr;
  bool fresh = true;
  if (size >= kLargeBlock) {
    size = LargeBlockSize(size);
    block = Cache().Take(size);
    fresh = block == nullptr;
  }
  if (fresh) block = NewBlock(size, needed, zero);
  if (block == nullptr) return nullptr;
  std::byte* elements = static_cast<std::byte*>(block) + OffsetIn(block, size);
  if (zero && !fresh) std::memset(elements, 0, bytes);
  return std::shared_ptr<std::byte[]>(elements, [](std::byte*) {}, InBlock<std::byte>(block, size));
}

void KeepStorage(size_t bytes) {
  Cache().Keep(bytes);
}

}  // namespace weft
