#include "base/storage.h"

#include <gtest/gtest.h>

#include <vector>

namespace weft {
namespace {

// Whatever was freed before, blocks that are used over and over are kept: their bytes are still
// there, since nobody asked for zeros.
TEST(Storage, KeepsWhatIsUsedLast) {
  constexpr size_t kBytes = size_t{3} << 20, kOthers = 200;
  std::vector<std::shared_ptr<std::byte[]>> others;
  for (size_t i = 0; i < kOthers; ++i) {
    others.push_back(AllocateStorage((size_t{2} << 20) + i * 4096, false));
  }
  others.clear();  // more than is kept
  auto block = AllocateStorage(kBytes, false);
  block[kBytes / 2] = std::byte{0x5a};
  block.reset();
  block = AllocateStorage(kBytes, false);
  EXPECT_EQ(block[kBytes / 2], std::byte{0x5a});
  block.reset();
  EXPECT_EQ(AllocateStorage(kBytes, true)[kBytes / 2], std::byte{0});
}

TEST(Storage, KeepsAsMuchAsIsSaid) {
  constexpr size_t kBytes = size_t{48} << 20, kBlocks = 8;  // more than kKeptStorageBytes
  auto marked = [](bool write) {
    size_t found = 0;
    std::vector<std::shared_ptr<std::byte[]>> blocks;
    for (size_t i = 0; i < kBlocks; ++i) {
      blocks.push_back(AllocateStorage(kBytes, false));
      std::byte& mark = blocks.back()[kBytes / 2];
      found += mark == std::byte{0x5b} ? 1 : 0;
      if (write) mark = std::byte{0x5b};
    }
    return found;
  };
  KeepStorage(size_t{1} << 30);
  marked(true);
  EXPECT_EQ(marked(false), kBlocks);
  KeepStorage(kKeptStorageBytes);
  EXPECT_LT(marked(false), kBlocks);
}

}  // namespace
}  // namespace weft
