#include "runtime/buffers.h"

#include <gtest/gtest.h>

namespace weft::runtime {
namespace {

TEST(Buffers, BytesInUnits) {
  EXPECT_EQ(HumanBytes(1), "1 byte");
  EXPECT_EQ(HumanBytes(999), "999 bytes");
  EXPECT_EQ(HumanBytes(1500), "1.5 kB");
  EXPECT_EQ(HumanBytes(2'000'000), "2.0 MB");
  EXPECT_EQ(HumanBytes(139'000'000'000), "139.00 GB");
  EXPECT_EQ(HumanBytes(4'400'000'000'000), "4.40 TB");
}

}  // namespace
}  // namespace weft::runtime
