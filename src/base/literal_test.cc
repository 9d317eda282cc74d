#include "base/literal.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

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

// Reads back what AppendElement wrote, the way a parser does.
bool SetFromText(Literal& l, std::string_view text) {
  bool negative = text.starts_with("-");
  if (negative) text.remove_prefix(1);
  if (text == "nan") return l.SetNan(0, negative, std::nullopt);
  if (text.starts_with("nan(0x")) {
    uint64_t payload = std::stoull(std::string(text.substr(6)), nullptr, 16);
    return l.SetNan(0, negative, payload);
  }
  double value = text == "inf" ? std::numeric_limits<double>::infinity() : *ParseDouble(text);
  l.SetDouble(0, negative ? -value : value);
  return true;
}

TEST(Literal, TextOfSmallFloatsReadsBackToTheSameBits) {
  for (int i = static_cast<int>(DType::kF4E2M1FN); i <= static_cast<int>(DType::kBF16); ++i) {
    DType t = static_cast<DType>(i);
    Literal l(Shape::Scalar(t)), back(Shape::Scalar(t));
    for (uint32_t bits = 0; bits < 1u << BitWidth(t); ++bits) {
      std::memcpy(l.mutable_data(), &bits, static_cast<size_t>(ByteWidth(t)));
      std::string text = l.ToString();
      ASSERT_TRUE(SetFromText(back, text)) << Name(t) << " " << bits << " " << text;
      ASSERT_TRUE(l == back) << Name(t) << " " << bits << " " << text << " " << back.ToString();
    }
  }
}

TEST(Literal, Nans) {
  Literal l(Shape::Scalar(DType::kF32));
  EXPECT_TRUE(l.SetNan(0, true, 0x123));
  EXPECT_EQ(l.ToString(), "-nan(0x123)");
  EXPECT_TRUE(l.SetNan(0, true, std::nullopt));
  EXPECT_EQ(l.ToString(), "-nan");
  EXPECT_EQ(l.values<uint32_t>()[0], 0xffc00000u);
  EXPECT_FALSE(l.SetNan(0, false, 0));         // that is infinity
  EXPECT_FALSE(l.SetNan(0, false, 0x800000));  // more than the mantissa holds
  EXPECT_FALSE(Literal(Shape::Scalar(DType::kF4E2M1FN)).SetNan(0, false, std::nullopt));
  EXPECT_FALSE(Literal(Shape::Scalar(DType::kS32)).SetNan(0, false, std::nullopt));
  Literal c(Shape::Scalar(DType::kC64));
  EXPECT_TRUE(c.SetNan(0, false, std::nullopt, /*imaginary=*/true));
  EXPECT_EQ(c.ToString(), "(0, nan)");
}

TEST(Literal, PackAndUnpack) {
  for (DType t : {DType::kS1, DType::kU1, DType::kS2, DType::kU2, DType::kS4, DType::kU4,
                  DType::kF4E2M1FN, DType::kF6E2M3FN, DType::kF8E5M2, DType::kS8, DType::kS16}) {
    for (int64_t n = 0; n < 20; ++n) {
      Literal l(Shape(t, {n}));
      for (int64_t i = 0; i < n; ++i) {
        if (IsInteger(t)) {
          l.SetInt(i, i * 7 - 3);
        } else {
          l.mutable_data()[i] = static_cast<std::byte>(i * 5 & ((1 << BitWidth(t)) - 1));
        }
      }
      std::vector<std::byte> packed = l.Pack();
      EXPECT_EQ(static_cast<int64_t>(packed.size()), (n * BitWidth(t) + 7) / 8);
      Result<Literal> back = Literal::Unpack(l.shape(), packed);
      ASSERT_TRUE(back.has_value()) << back.error().ToString();
      EXPECT_TRUE(*back == l) << Name(t) << " " << n;
      Literal kept = *l.Packed();
      EXPECT_EQ(kept.packed(), IsPackable(t));
      EXPECT_EQ(kept.byte_size(), IsPackable(t) ? std::ssize(packed) : l.byte_size());
      EXPECT_TRUE(kept == l && kept.Pack() == packed && !kept.Unpacked()->packed()) << Name(t);
      EXPECT_EQ(kept.Unpacked()->ToString(), l.ToString());
      packed.emplace_back();
      EXPECT_FALSE(Literal::Unpack(l.shape(), packed).has_value());
    }
  }
  Literal s4(Shape(DType::kS4, {3}));
  for (int i = 0; i < 3; ++i) s4.SetInt(i, i - 1);
  EXPECT_EQ(s4.Pack(), (std::vector<std::byte>{std::byte{0x0f}, std::byte{0x01}}));
  Result<Literal> bad = Literal::Unpack(Shape(DType::kS4, {3}), {});
  EXPECT_EQ(bad.error().ToString(), "unpack: s4[3] takes 2 bytes, not 0");
}

TEST(Literal, CopiesShareUntilWritten) {
  Literal a(Shape(DType::kF32, {4}));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a.data()) % 64, 0u);
  Literal b = a;
  EXPECT_EQ(std::as_const(a).data(), std::as_const(b).data());
  b.SetDouble(1, 2);
  EXPECT_EQ(a.ToString(), "{0, 0, 0, 0}");
  EXPECT_EQ(b.ToString(), "{0, 2, 0, 0}");
  EXPECT_FALSE(a == b);
}

TEST(Literal, TooLargeIsAnError) {
  EXPECT_FALSE(Literal::Allocate(Shape(DType::kF32, {int64_t{1} << 40, int64_t{1} << 40})));
  EXPECT_FALSE(Literal::Allocate(Shape(DType::kF32, {int64_t{1} << 62})));
  EXPECT_FALSE(Literal::Allocate(Shape(DType::kF32, {Shape::kUnbounded})));
  EXPECT_TRUE(Literal::Allocate(Shape(DType::kF32, {int64_t{1} << 40, int64_t{1} << 40, 0})));
}

TEST(Literal, DynamicSizes) {
  Literal l(Shape(DType::kS32, {2, 3}));
  l.set_dynamic_size(1, 2);
  EXPECT_EQ(l.ToString(), "{ { 0, 0 }, { 0, 0 } }");
  EXPECT_FALSE(l == Literal(l.shape()));
  l.set_dynamic_size(1, 3);
  EXPECT_TRUE(l == Literal(l.shape()));
}

TEST(Literal, TupleShapesAreZeroed) {
  Literal t(Shape::Tuple({Shape(DType::kS32, {2}), Shape::Tuple({Shape::Scalar(DType::kPred)})}));
  EXPECT_EQ(t.ToString(), "({0, 0}, (false))");
  EXPECT_TRUE(t == Literal(t.shape()));
}

}  // namespace
}  // namespace weft
