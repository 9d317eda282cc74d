#include "compiler/options.h"

#include <gtest/gtest.h>

#include "compiler/pipeline.h"

namespace weft::compiler {
namespace {

TEST(OptionsTest, DefaultsPrintAsNothing) {
  EXPECT_EQ(PrintOptions({}), "");
}

TEST(OptionsTest, ParsesWhatItPrints) {
  CompileOptions options;
  std::string text =
      "pipeline.disable=simplify+inline-calls,pipeline.verify=false,optimize.fold_max_bytes=64,"
      "dump.dir=x";
  ASSERT_TRUE(ParseOptions(text, options));
  EXPECT_EQ(options.pipeline.disable, (std::vector<std::string>{"simplify", "inline-calls"}));
  EXPECT_FALSE(options.pipeline.verify);
  EXPECT_EQ(options.optimize.fold_max_bytes, 64);
  EXPECT_EQ(PrintOptions(options), text);
  EXPECT_EQ(CacheKey(options), "pipeline.disable=simplify+inline-calls,optimize.fold_max_bytes=64");
}

TEST(OptionsTest, WrongOptionsAreErrorsAndChangeNothing) {
  CompileOptions options;
  for (const char* text : {"no.such=1", "pipeline.verify=maybe", "dump.dir", "dump.dir=x,a=b",
                           "optimize.fold_max_bytes=many"}) {
    EXPECT_FALSE(ParseOptions(text, options)) << text;
    EXPECT_EQ(PrintOptions(options), "");
  }
}

TEST(PipelineTest, KnowsItsPasses) {
  EXPECT_TRUE(DefaultPipeline());
  EXPECT_EQ(FindPasses("simplify,inline-calls")->size(), 2u);
  Result<std::vector<const Pass*>> none = FindPasses("no-such-pass");
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().hint().find("simplify"), std::string::npos);
  for (size_t i = 1; i < Passes().size(); ++i) {
    EXPECT_LT(Passes()[i - 1].name, Passes()[i].name);
  }
}

}  // namespace
}  // namespace weft::compiler
