#include "hlo/random_arguments.h"

#include <gtest/gtest.h>

#include "hlo/text.h"

namespace weft::hlo {
namespace {

TEST(RandomArgumentsTest, SameSeedSameValues) {
  Shape shape(DType::kBF16, {100, 1000});
  Literal a = *RandomLiteral(shape, 1), b = *RandomLiteral(shape, 1), c = *RandomLiteral(shape, 2);
  EXPECT_EQ(a, b);
  EXPECT_FALSE(a == c);
}

TEST(RandomArgumentsTest, EveryTypeStaysInItsRange) {
  for (int t = 1; t < static_cast<int>(DType::kToken); ++t) {
    DType dtype = static_cast<DType>(t);
    Result<Literal> value = RandomLiteral(Shape(dtype, {1000}), 7);
    ASSERT_TRUE(value) << Name(dtype);
    double low = 1e9, high = -1e9;
    for (int64_t i = 0; i < value->size(); ++i) {
      low = std::min(low, value->GetDouble(i));
      high = std::max(high, value->GetDouble(i));
    }
    EXPECT_LT(low, high) << Name(dtype);
    EXPECT_GE(low, IsUnsigned(dtype) || dtype == DType::kPred ? 0 : -8) << Name(dtype);
    EXPECT_LE(high, 16) << Name(dtype);
    if (IsFloat(dtype) && dtype != DType::kF8E8M0FNU) {
      EXPECT_LE(high, 1) << Name(dtype);
    }
  }
}

TEST(RandomArgumentsTest, IndicesAreNotNegative) {
  auto module = ParseModule(R"(
ENTRY main {
  a = f32[100] parameter(0)
  i = s32[] parameter(1)
  t = (s32[50], (pred[2], token[])) parameter(2)
  ROOT r = f32[4] dynamic-slice(a, i), dynamic_slice_sizes={4}
})");
  ASSERT_TRUE(module) << module.error().ToString("text");
  for (uint64_t seed = 0; seed < 50; ++seed) {
    auto arguments = RandomArguments(*(*module)->entry(), seed);
    ASSERT_TRUE(arguments);
    ASSERT_EQ(arguments->size(), 3u);
    EXPECT_GE((*arguments)[1].GetInt(0), 0);
    EXPECT_TRUE(
        Shape::Compatible((*arguments)[2].shape(), (*module)->entry()->parameter(2)->shape()));
    auto other = RandomArguments(*(*module)->entry(), seed, /*device=*/1);
    EXPECT_FALSE((*arguments)[0] == (*other)[0]);
  }
}

TEST(RandomArgumentsTest, TooLargeIsAnError) {
  EXPECT_FALSE(RandomLiteral(Shape(DType::kF32, {int64_t{1} << 40, int64_t{1} << 20}), 0));
  EXPECT_FALSE(RandomLiteral(Shape::Opaque(), 0));
}

}  // namespace
}  // namespace weft::hlo
