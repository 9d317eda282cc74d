#include "hlo/random_module.h"

#include <gtest/gtest.h>

#include "hlo/computation.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"

namespace weft::hlo {
namespace {

TEST(RandomModule, SameSeedSameText) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    auto a = MakeRandomModule(seed), b = MakeRandomModule(seed);
    ASSERT_TRUE(a && b) << seed;
    EXPECT_EQ(PrintModule(*a->module), PrintModule(*b->module)) << seed;
  }
}

TEST(RandomModule, ReadsBackAndEvaluates) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    auto made = MakeRandomModule(seed);
    ASSERT_TRUE(made) << seed;
    std::string text = PrintModule(*made->module);
    auto read = ParseModule(text);
    ASSERT_TRUE(read) << seed << read.error().ToString();
    EXPECT_EQ(PrintModule(**read), text) << seed;
    auto arguments = MakeArguments(*made, seed, 0);
    ASSERT_TRUE(arguments);
    EvalOptions limits;
    limits.max_loop_steps = 100'000;
    auto value = Evaluate(**read, *arguments, limits);
    EXPECT_TRUE(value) << seed;
  }
}

}  // namespace
}  // namespace weft::hlo
