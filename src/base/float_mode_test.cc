#include "base/float_mode.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "base/thread_pool.h"

namespace weft {
namespace {

// Kept from the compiler, which computes as IEEE says.
float Half(float x) {
  volatile float v = x;
  return v * 0.5f;
}
double Half(double x) {
  volatile double v = x;
  return v * 0.5;
}

TEST(FloatMode, FlushesWhileItLives) {
  const float small = 2e-38f, subnormal = 5e-39f;
  EXPECT_GT(Half(small), 0);
  {
    FloatMode flush(true);
    EXPECT_TRUE(FloatMode::Flushes());
    EXPECT_TRUE(std::signbit(Half(-small)));
    float half = Half(small), third = subnormal;
    EXPECT_EQ(Half(3e-308), 0);
    {
      FloatMode keep(false);
      EXPECT_FALSE(FloatMode::Flushes());
      EXPECT_EQ(half, 0);
      EXPECT_GT(Half(small), 0);
      EXPECT_GT(Half(third), 0);
    }
    EXPECT_EQ(Half(third * 4), 0);  // an operand is taken as zero
    EXPECT_TRUE(FloatMode::Flushes());
  }
  EXPECT_FALSE(FloatMode::Flushes());
  EXPECT_GT(Half(small), 0);
}

TEST(FloatMode, ThreadsOfALoopComputeAsItsCaller) {
  ThreadPool pool(4);
  std::atomic<int> flushing{0}, keeping{0};
  auto count = [&](int64_t, int64_t) { ++(FloatMode::Flushes() ? flushing : keeping); };
  for (int i = 0; i < 50; ++i) {
    pool.ParallelFor(64, 1, count);
    FloatMode flush(true);
    pool.ParallelFor(64, 1, count);
  }
  EXPECT_EQ(flushing, 50 * 64);
  EXPECT_EQ(keeping, 50 * 64);
}

}  // namespace
}  // namespace weft
