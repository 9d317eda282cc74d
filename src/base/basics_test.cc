// Strings, errors, shapes and the small containers.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/error.h"
#include "base/inline_vec.h"
#include "base/log.h"
#include "base/shape.h"
#include "base/value_ptr.h"

namespace weft {
namespace {

TEST(Str, Cat) {
  const char* text = "c";
  EXPECT_EQ(StrCat("a", 'b', text, std::string("d"), 1, int64_t{-2}, uint8_t{200}, true, 0.5),
            "abcd1-2200true0.5");
  EXPECT_EQ(StrJoin(std::vector<int>{1, 2, 3}, ", "), "1, 2, 3");
  std::string quoted;
  AppendQuoted(quoted, "a\"\n\x01");
  EXPECT_EQ(quoted, "\"a\\\"\\n\\x01\"");
  EXPECT_EQ(ParseInt("-12"), -12);
  EXPECT_EQ(ParseInt("12x"), std::nullopt);
  EXPECT_EQ(ParseInt("99999999999999999999"), std::nullopt);
  EXPECT_EQ(ParseDouble("1e3"), 1000.0);
}

TEST(Error, Prints) {
  Error e(Code::kInvalidArgument, "operand shapes differ: f32[2] and f32[3]");
  e.Prefix("add: ").Hint("broadcast first").Source("model.py:12 (loss)").Note("in fusion.1");
  EXPECT_EQ(e.ToString(),
            "add: operand shapes differ: f32[2] and f32[3]\n  at model.py:12 (loss)\n"
            "  in fusion.1\n  hint: broadcast first");
  e.At(3, 5, "  x = add(a, b)");
  EXPECT_EQ(e.ToString("m.hlo").substr(0, 113),
            "m.hlo:3:5: error: add: operand shapes differ: f32[2] and f32[3]\n    x = add(a, b)\n"
            "      ^\n  at model.py:12 (loss)");
  Error copy = e;
  copy.Prefix("x: ");
  EXPECT_EQ(e.message(), "add: operand shapes differ: f32[2] and f32[3]");
}

Result<int> HalfOf(int x) {
  if (x % 2 != 0) return InvalidArgument("odd: ", x);
  return x / 2;
}
Result<int> QuarterOf(int x) {
  return HalfOf(TRY(HalfOf(x)));
}

TEST(Error, Try) {
  EXPECT_EQ(*QuarterOf(12), 3);
  EXPECT_EQ(QuarterOf(6).error().message(), "odd: 3");
}

TEST(Shape, Prints) {
  Shape s(DType::kF32, {2, 5, Shape::kUnbounded});
  s.set_dynamic(1, true);
  s.set_dynamic(2, true);
  EXPECT_EQ(s.ToString(), "f32[2,<=5,?]");
  Shape t = Shape::Tuple({Shape::Scalar(DType::kPred), Shape::Token(), Shape(DType::kS4, {3})});
  EXPECT_EQ(t.ToString(), "(pred[], token[], s4[3])");
  EXPECT_EQ(Shape::Buffer(Shape(DType::kF32, {4})).ToString(), "b(f32[4])");
  Shape l(DType::kBF16, {8, 128});
  l.MutableLayout().extras.Make().tiles.push_back(Tile{{8, 128}});
  l.MutableLayout().extras->memory_space = 5;
  EXPECT_EQ(l.ToString(), "bf16[8,128]{1,0:T(8,128)S(5)}");
  EXPECT_EQ(l.ToStringWithoutLayout(), "bf16[8,128]");
  EXPECT_TRUE(Shape::Compatible(l, Shape(DType::kBF16, {8, 128})));
  EXPECT_FALSE(l == Shape(DType::kBF16, {8, 128}));
}

TEST(Shape, SizesDoNotOverflow) {
  Shape big(DType::kF64, {int64_t{1} << 32, int64_t{1} << 32});
  EXPECT_EQ(big.CheckedElements(), std::nullopt);
  Shape bytes(DType::kF64, {int64_t{1} << 61});
  EXPECT_EQ(bytes.ByteSize(), INT64_MAX);
  EXPECT_EQ(Shape::Tuple({bytes, bytes}).ByteSize(), INT64_MAX);
  EXPECT_EQ(Shape(DType::kF64, {int64_t{1} << 40, int64_t{1} << 40, 0}).elements(), 0);
}

TEST(Shape, DeleteDim) {
  Shape s(DType::kF32, {1, 2, 3});
  s.set_dynamic(2, true);
  s.DeleteDim(0);
  EXPECT_EQ(s.ToString(), "f32[2,<=3]");
  s.DeleteDim(1);
  EXPECT_EQ(s.ToString(), "f32[2]");
  s.AppendDim(7, true);
  EXPECT_EQ(s.ToString(), "f32[2,<=7]");
}

TEST(DType, Names) {
  for (int i = 1; i <= static_cast<int>(DType::kOpaque); ++i) {
    EXPECT_EQ(ParseDType(Name(static_cast<DType>(i))), static_cast<DType>(i));
  }
  EXPECT_EQ(ParseDType("f31"), std::nullopt);
  EXPECT_EQ(IntegerType(DTypeClass::kUnsigned, 32), DType::kU32);
  EXPECT_EQ(IntegerType(DTypeClass::kSigned, 5), DType::kInvalid);
}

// Random operations, beside a std::vector.
TEST(InlineVec, BehavesLikeAVector) {
  std::mt19937 random(1);
  InlineVec<int64_t, 3> a;
  std::vector<int64_t> b;
  for (int step = 0; step < 20000; ++step) {
    int64_t value = static_cast<int64_t>(random() % 100);
    size_t at = b.empty() ? 0 : random() % b.size();
    auto offset = static_cast<std::ptrdiff_t>(at);
    switch (random() % 9) {
      case 0: a.push_back(value), b.push_back(value); break;
      case 1:
        if (!b.empty()) a.pop_back(), b.pop_back();
        break;
      case 2: a.insert_at(at, value), b.insert(b.begin() + offset, value); break;
      case 3:
        if (!b.empty()) a.erase_at(at), b.erase(b.begin() + offset);
        break;
      case 4: a.resize(at, value), b.resize(at, value); break;
      case 5: a = InlineVec<int64_t, 3>(a); break;
      case 6: {
        InlineVec<int64_t, 3> moved = std::move(a);
        a = std::move(moved);
        break;
      }
      case 7: {
        InlineVec<int64_t, 3> other(random() % 6, value);
        b.assign(other.begin(), other.end());
        a = other;
        break;
      }
      default: a.resize(at + 2, value), b.resize(at + 2, value);
    }
    if (b.size() > 40) a.clear(), b.clear();
    ASSERT_TRUE((a == InlineVec<int64_t, 3>(b))) << step;
    ASSERT_EQ(a.size(), b.size());
  }
}

TEST(ValuePtr, Copies) {
  ValuePtr<int> a;
  EXPECT_FALSE(a);
  a.Make() = 3;
  ValuePtr<int> b = a;
  *b = 4;
  EXPECT_EQ(*a, 3);
  EXPECT_FALSE(a == b);
}

TEST(Log, Filter) {
  EXPECT_EQ(detail::ModuleOf("/x/weft/src/hlo/ops/add.cc"), "hlo");
  EXPECT_EQ(detail::ModuleOf("tools/weft.cc"), "tools");
  auto lines = [](std::string_view filter) {
    EXPECT_TRUE(SetLogFilter(filter).has_value());
    testing::internal::CaptureStderr();
    LOG(warn) << "w" << 1;
    LOG(info) << "i";
    VLOG("fuse", 1) << "f1";
    VLOG("fuse", 2) << "f2";
    VLOG("cpu", 2) << "c2\nx";
    EXPECT_TRUE(SetLogFilter("").has_value());
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(lines(""), "weft: warning: base: w1\n");
  EXPECT_EQ(lines("fuse=1"), "weft: warning: base: w1\nweft: fuse: f1\n");
  EXPECT_EQ(lines("2,fuse=0"), "weft: warning: base: w1\nweft: base: i\nweft: cpu: c2 x\n");
  EXPECT_EQ(SetLogFilter("fuse=x").error().message(),
            "log filter: expected LEVEL or TAG=LEVEL with a level of 0 to 9, not 'fuse=x'");
  int evaluated = 0;
  auto count = [&] { return ++evaluated; };
  VLOG("fuse", 1) << count();
  EXPECT_EQ(evaluated, 0);
}

}  // namespace
}  // namespace weft
