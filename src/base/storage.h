// Memory for the elements of arrays. Large blocks that were given back are kept for a while (up to
// kKeptStorageBytes in all, or as KeepStorage says), since fresh ones cost a page fault for every
// few kilobytes, or two megabytes to be cleared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace weft {

inline constexpr size_t kStorageAlignment = 64;
inline constexpr size_t kKeptStorageBytes = size_t{256} << 20;

// Aligned to kStorageAlignment; one allocation or none. Null when there is no memory.
std::shared_ptr<std::byte[]> AllocateStorage(size_t bytes, bool zero);

// From now on up to so many bytes are kept. For who knows how much memory there is.
void KeepStorage(size_t bytes);

}  // namespace weft
