#include "hlo/random_module.h"

#include <gtest/gtest.h>

#include <set>

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
    limits.num_replicas = made->module->config().replica_count;
    limits.num_partitions = made->module->config().num_partitions;
    auto devices = static_cast<size_t>(limits.num_replicas * limits.num_partitions);
    std::vector<std::vector<Literal>> each(devices, *arguments);
    EXPECT_TRUE(EvaluateOnDevices(**read, each, limits)) << seed;
  }
}

// How loops and branches lie in each other, outermost first: "while conditional while".
void FindNests(const Computation& c, const std::string& around, std::set<std::string>& found) {
  for (const Instruction* i : c) {
    if (i->op() != Op::kWhile && i->op() != Op::kConditional) continue;
    std::string nest = StrCat(around, around.empty() ? "" : " ", Mnemonic(i->op()));
    found.insert(nest);
    for (const Computation* called : i->called_computations()) FindNests(*called, nest, found);
  }
}

TEST(RandomModule, HasLoopsInLoopsAndBranches) {
  std::set<std::string> found;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    auto made = MakeRandomModule(seed);
    ASSERT_TRUE(made) << seed;
    FindNests(*made->module->entry(), "", found);
  }
  for (const char* nest :
       {"while while while", "while conditional while", "while while conditional",
        "conditional while", "while conditional conditional"}) {
    EXPECT_TRUE(found.contains(nest)) << nest;
  }
}

}  // namespace
}  // namespace weft::hlo
