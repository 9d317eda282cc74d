// Every op says which of its dimensions go together, or why it does not.
#include <gtest/gtest.h>

#include "hlo/dim_rule.h"
#include "hlo/module.h"
#include "hlo/text.h"

namespace weft::hlo {
namespace {

TEST(DimRules, EveryOpHasARuleOrAReason) {
  for (int k = 0; k < kOpCount; ++k) {
    const OpDef& def = GetOp(static_cast<Op>(k));
    const bool rule = def.dim_rule != nullptr || IsElementwise(def.op);
    EXPECT_NE(rule, !def.no_dim_rule.empty()) << def.mnemonic;
  }
}

std::string RuleText(std::string_view text) {
  Result<std::unique_ptr<Module>> module = ParseModule(text);
  if (!module) return module.error().ToString();
  return RuleOf(*(*module)->entry()->root()).ToString();
}

TEST(DimRules, Elementwise) {
  EXPECT_EQ(RuleText("ENTRY e { x = f32[4,1] parameter(0) ROOT y = f32[4,1] negate(x) }"),
            "([i, 1]) -> ([i, 1]) i=4 j=1");
  EXPECT_EQ(RuleText("ENTRY e { p = pred[] parameter(0) x = f32[4] parameter(1) "
                     "ROOT y = f32[4] select(p, x, x) }"),
            "([], [i], [i]) -> ([i]) i=4");
}

TEST(DimRules, Dot) {
  EXPECT_EQ(RuleText("ENTRY e { a = f32[2,8,4] parameter(0) b = f32[2,4,6] parameter(1) ROOT d = "
                     "f32[2,8,6] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0}, "
                     "lhs_contracting_dims={2}, rhs_contracting_dims={1} }"),
            "([i, j, l], [i, l, k]) -> ([i, j, k]) i=2 j=8 k=6 l=4:reduced");
}

TEST(DimRules, Reshape) {
  EXPECT_EQ(RuleText("ENTRY e { x = f32[8,6] parameter(0) ROOT y = f32[2,4,3,2] reshape(x) }"),
            "([i j, k l]) -> ([i, j, k, l]) i=2 j=4 k=3 l=2");
  EXPECT_EQ(RuleText("ENTRY e { x = f32[2,4,1,5] parameter(0) ROOT y = f32[8,5] reshape(x) }"),
            "([i, j, 1, k]) -> ([i j, k]) i=2 j=4 k=5");
  EXPECT_EQ(RuleText("ENTRY e { x = f32[4,3] parameter(0) ROOT y = f32[6,2] reshape(x) }"),
            "([i, j]) -> ([k, l]) i=4:whole j=3:whole k=6:whole l=2:whole");
}

TEST(DimRules, Gather) {
  EXPECT_EQ(RuleText("ENTRY e { x = f32[10,8] parameter(0) i = s32[5,1] parameter(1) ROOT g = "
                     "f32[5,8] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, "
                     "start_index_map={0}, index_vector_dim=1, slice_sizes={1,8} }"),
            "([j, k], [i, 1]) -> ([i, k]) i=5 j=10:reduced k=8");
}

// Parts of a slice are summands where each start is a scalar of its own.
TEST(DimRules, DynamicSlice) {
  EXPECT_EQ(RuleText("ENTRY e { x = f32[8,4] parameter(0) i = s32[] parameter(1) ROOT s = "
                     "f32[2,4] dynamic-slice(x, i, i), dynamic_slice_sizes={2,4} }"),
            "([i, j], [], []) -> ([k, j]) i=8:reduced j=4 k=2:whole");
  EXPECT_EQ(RuleText("ENTRY e { x = f32[8,4] parameter(0) i = s32[2] parameter(1) ROOT s = "
                     "f32[2,4] dynamic-slice(x, i), dynamic_slice_sizes={2,4} }"),
            "([j, i], [k]) -> ([l, i]) i=4 j=8:whole k=2:whole l=2:whole");
}

}  // namespace
}  // namespace weft::hlo
