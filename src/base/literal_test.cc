#include "base/literal.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/elements.h"

namespace weft {
namespace {

TEST(Literal, PrintsArrays) {
  Literal l(Shape(DType::kS32, {2, 2}));
  for (int i = 0; i < 4; ++i) l.SetInt(i, i + 1);
  EXPECT_EQ(l.ToString(), "{ { 1, 2 }, { 3, 4 } }");
  EXPECT_EQ(l.WithShape(Shape(DType::kS32, {4})).ToString(), "{1, 2, 3, 4}");
  EXPECT_EQ(l.WithShape(Shape(DType::kS32, {1, 4, 1})).ToString(), "{ { {1}, {2}, {3}, {4} } }");
  EXPECT_EQ(l.ToStringWithShape(), "s32[2,2] { { 1, 2 }, { 3, 4 } }");
  EXPECT_EQ(Literal(Shape(DType::kF32, {3, 0})).ToString(), "{}");
  Literal t = Literal::Tuple({l, Literal::Scalar<float>(DType::kF32, 1.5f), Literal::Token()});
  EXPECT_EQ(t.ToString(), "({ { 1, 2 }, { 3, 4 } }, 1.5, token)");
  std::string elided;
  t.AppendTo(elided, 3);
  EXPECT_EQ(elided, "({...}, 1.5, token)");
}

TEST(Literal, PrintsElements) {
  auto text = [](DType t, double v) {
    Literal l(Shape::Scalar(t));
    l.SetDouble(0, v);
    return l.ToString();
  };
  EXPECT_EQ(text(DType::kF32, 0.1), "0.1");
  EXPECT_EQ(text(DType::kF64, 0.1), "0.1");
  EXPECT_EQ(text(DType::kBF16, 0.1), "0.1");
  EXPECT_EQ(text(DType::kF16, 100), "100");
  EXPECT_EQ(text(DType::kF16, 65504), "65504");
  EXPECT_EQ(text(DType::kF32, -0.0), "-0");
  EXPECT_EQ(text(DType::kF8E4M3FN, 448), "448");
  double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(text(DType::kF8E5M2, -inf), "-inf");
  EXPECT_EQ(text(DType::kF8E4M3FN, -inf), "-nan");
  EXPECT_EQ(text(DType::kF8E4M3FNUZ, -inf), "nan");
  EXPECT_EQ(text(DType::kF32, std::nan("")), "nan");
  EXPECT_EQ(text(DType::kPred, 2), "true");
  EXPECT_EQ(text(DType::kC64, 1.5), "(1.5, 0)");
  EXPECT_EQ(text(DType::kS4, 100), "7");
  EXPECT_EQ(text(DType::kU64, 1e30), "18446744073709551615");
}

}  // namespace
}  // namespace weft
