#include <gtest/gtest.h>

#include <limits>

#include "hlo/ops/op_test_util.h"

namespace weft::hlo {
namespace {

using enum DType;

TEST(Broadcast, InfersDeclaredShape) {
  Shape to(kF32, {2, 3});
  BroadcastAttrs last{{1}}, wrong{{0}};
  EXPECT_EQ(OpTester::Infer(Op::kBroadcast, {Shape(kF32, {3})}, last, &to), "f32[2,3]");
  EXPECT_EQ(OpTester::Infer(Op::kBroadcast, {Shape(kF32, {3})}, wrong, &to),
            "broadcast: operand dimension 0 and result dimension 0 differ in size: f32[3] to "
            "f32[2,3] with dimensions={0}");
}

TEST(Broadcast, Evaluates) {
  OpTester t;
  Literal out = t.Evaluate(Op::kBroadcast, {Values(Shape(kF32, {2}), {1, 2})}, BroadcastAttrs{{0}},
                           Shape(kF32, {2, 3}));
  EXPECT_EQ(out.ToString(), "{ { 1, 1, 1 }, { 2, 2, 2 } }");
}

TEST(Iota, CountsInEveryType) {
  OpTester t;
  EXPECT_EQ(t.Evaluate(Op::kIota, {}, IotaAttrs{1}, Shape(DType::kS8, {2, 3})).ToString(),
            "{ { 0, 1, 2 }, { 0, 1, 2 } }");
  EXPECT_EQ(t.Evaluate(Op::kIota, {}, IotaAttrs{0}, Shape(DType::kBF16, {3})).GetDouble(2), 2);
}

TEST(Transpose, MovesEveryWidth) {
  for (DType type : {DType::kS8, DType::kBF16, DType::kF32, DType::kF64, DType::kC128}) {
    OpTester t;
    Literal in{Shape(type, {3, 20, 40})};
    for (int64_t i = 0; i < in.size(); ++i) in.SetDouble(i, static_cast<double>(i % 100));
    Literal out = t.Evaluate(Op::kTranspose, {in}, DimensionsAttrs{{2, 0, 1}});
    ASSERT_EQ(out.shape().ToString(), Shape(type, {40, 3, 20}).ToString());
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t j = 0; j < 20; ++j) {
        for (int64_t k = 0; k < 40; ++k) {
          ASSERT_EQ(out.GetDouble((k * 3 + i) * 20 + j), in.GetDouble((i * 20 + j) * 40 + k));
        }
      }
    }
  }
}

TEST(Transpose, LargeIsSplitOverThreads) {
  OpTester t;
  Literal in{Shape(kF32, {700, 900})};
  for (int64_t i = 0; i < in.size(); ++i) in.SetDouble(i, static_cast<double>(i));
  Literal out = t.Evaluate(Op::kTranspose, {in}, DimensionsAttrs{{1, 0}});
  for (int64_t i = 0; i < 700; i += 7) {
    for (int64_t j = 0; j < 900; ++j) {
      ASSERT_EQ(out.GetDouble(j * 700 + i), in.GetDouble(i * 900 + j));
    }
  }
}

TEST(Reverse, Evaluates) {
  OpTester t;
  Literal in = Values(Shape(kF32, {2, 3}), {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(t.Evaluate(Op::kReverse, {in}, DimensionsAttrs{{1}}).ToString(),
            "{ { 3, 2, 1 }, { 6, 5, 4 } }");
  EXPECT_EQ(t.Evaluate(Op::kReverse, {in}, DimensionsAttrs{{0, 1}}).ToString(),
            "{ { 6, 5, 4 }, { 3, 2, 1 } }");
}

TEST(Bitcast, ReadsMemoryOrder) {
  OpTester t;
  Shape from(kF32, {2, 3});
  from.set_layout(Layout{{0, 1}, {}});
  Literal in = Values(from, {1, 2, 3, 4, 5, 6});  // in memory: 1 4 2 5 3 6
  EXPECT_EQ(t.Evaluate(Op::kBitcast, {in}, {}, Shape(kF32, {3, 2})).ToString(),
            "{ { 1, 4 }, { 2, 5 }, { 3, 6 } }");
  Shape bytes(DType::kU8, {4});
  EXPECT_EQ(t.Evaluate(Op::kBitcast, {Values(Shape::Scalar(kF32), {1})}, {}, bytes).ToString(),
            "{0, 0, 128, 63}");
}

TEST(Slice, StridesAndErrors) {
  OpTester t;
  Literal in = Values(Shape(kF32, {7}), {0, 1, 2, 3, 4, 5, 6});
  EXPECT_EQ(t.Evaluate(Op::kSlice, {in}, SliceAttrs{{{1, 7, 3}}}).ToString(), "{1, 4}");
  EXPECT_EQ(t.Evaluate(Op::kSlice, {in}, SliceAttrs{{{2, 2, 1}}}).ToString(), "{}");
  EXPECT_EQ(OpTester::Infer(Op::kSlice, {in.shape()}, SliceAttrs{{{1, 8, 3}}}),
            "slice: range [1:8:3] of dimension 0 does not fit operand f32[7]");
  int64_t huge = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(OpTester::Infer(Op::kSlice, {in.shape()}, SliceAttrs{{{1, 7, huge}}}), "f32[1]");
  EXPECT_EQ(t.Evaluate(Op::kSlice, {in}, SliceAttrs{{{1, 7, huge}}}).ToString(), "{1}");
}

TEST(DynamicSlice, ClampsStarts) {
  OpTester t;
  Literal in = Values(Shape(kF32, {2, 4}), {0, 1, 2, 3, 4, 5, 6, 7});
  auto at = [&](double i, double j) {
    return t
        .Evaluate(
            Op::kDynamicSlice,
            {in, Values(Shape::Scalar(DType::kS32), {i}), Values(Shape::Scalar(DType::kS32), {j})},
            DynamicSliceAttrs{{1, 2}})
        .ToString();
  };
  EXPECT_EQ(at(1, 1), "{ { 5, 6 } }");
  EXPECT_EQ(at(-3, 100), "{ { 2, 3 } }");
  Literal far{Shape::Scalar(DType::kU64)};
  far.SetInt(0, -1);
  EXPECT_EQ(t.Evaluate(Op::kDynamicSlice, {in, far, far}, DynamicSliceAttrs{{1, 2}}).ToString(),
            "{ { 6, 7 } }");
}

TEST(DynamicUpdateSlice, UpdatesInPlaceAndClamps) {
  OpTester t;
  Literal in = Values(Shape(kF32, {4}), {0, 1, 2, 3});
  Literal update = Values(Shape(kF32, {2}), {8, 9});
  Literal start = Values(Shape::Scalar(DType::kS32), {5});
  EXPECT_EQ(t.Evaluate(Op::kDynamicUpdateSlice, {in, update, start}, {}).ToString(),
            "{0, 1, 8, 9}");
  EXPECT_EQ(in.ToString(), "{0, 1, 2, 3}");
}

TEST(Pad, NegativeAndInterior) {
  OpTester t;
  Literal in = Values(Shape(kF32, {4}), {1, 2, 3, 4});
  Literal zero = Values(Shape::Scalar(kF32), {0});
  auto pad = [&](PaddingDim p) {
    return t.Evaluate(Op::kPad, {in, zero}, PadAttrs{{p}}).ToString();
  };
  EXPECT_EQ(pad({1, 2, 0}), "{0, 1, 2, 3, 4, 0, 0}");
  EXPECT_EQ(pad({0, 0, 1}), "{1, 0, 2, 0, 3, 0, 4}");
  EXPECT_EQ(pad({-1, -2, 0}), "{2}");
  EXPECT_EQ(pad({-1, 1, 1}), "{0, 2, 0, 3, 0, 4, 0}");
  EXPECT_EQ(pad({-2, -1, 1}), "{2, 0, 3, 0}");
  EXPECT_EQ(pad({-4, 3, 0}), "{0, 0, 0}");
  int64_t huge = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(pad({-huge, huge, 0}), "{0, 0, 0, 0}");
  EXPECT_EQ(OpTester::Infer(Op::kPad, {in.shape(), zero.shape()}, PadAttrs{{{0, 0, huge}}}),
            "pad: padding 0_0_9223372036854775807 of dimension 0 of operand f32[4] gives no valid "
            "size");
}

TEST(Concatenate, Evaluates) {
  OpTester t;
  Literal a = Values(Shape(kF32, {2, 1}), {1, 2}), b = Values(Shape(kF32, {2, 2}), {3, 4, 5, 6});
  EXPECT_EQ(t.Evaluate(Op::kConcatenate, {a, b, a}, DimensionsAttrs{{1}}).ToString(),
            "{ { 1, 3, 4, 1 }, { 2, 5, 6, 2 } }");
}

TEST(Concatenate, InfersBounds) {
  Shape bounded(kF32, {3}), open(kF32, {Shape::kUnbounded});
  bounded.set_dynamic(0, true), open.set_dynamic(0, true);
  DimensionsAttrs dim{{0}};
  EXPECT_EQ(OpTester::Infer(Op::kConcatenate, {Shape(kF32, {2}), bounded}, dim), "f32[<=5]");
  EXPECT_EQ(OpTester::Infer(Op::kConcatenate, {bounded, open}, dim), "f32[?]");
}

TEST(Dynamic, SizesAndReshape) {
  OpTester t;
  Literal in = Values(Shape(kF32, {2, 3}), {1, 2, 3, 4, 5, 6});
  Literal two = Values(Shape::Scalar(DType::kS32), {2}),
          four = Values(Shape::Scalar(DType::kS32), {4});
  Literal cut = t.Evaluate(Op::kSetDimensionSize, {in, two}, DimensionsAttrs{{1}});
  EXPECT_EQ(cut.shape().ToString(), "f32[2,<=3]");
  EXPECT_EQ(t.Evaluate(Op::kGetDimensionSize, {cut}, DimensionsAttrs{{1}}).ToString(), "2");
  Shape flat(kF32, {6});
  flat.set_dynamic(0, true);
  Literal line = t.Evaluate(Op::kDynamicReshape, {cut, four}, {}, flat);
  EXPECT_EQ(line.dynamic_size(0), 4);
  EXPECT_EQ(line.GetDouble(2), 4);
}

TEST(Fold, Identities) {
  OpTester t;
  Instruction* p = t.Parameter(Shape(kF32, {2, 3}));
  auto fold = [](Instruction* i) { return GetOp(i->op()).fold(*i); };
  EXPECT_EQ(fold(t.Add(Op::kReshape, p->shape(), {p}, ReshapeAttrs{})), p);
  Instruction* flat = t.Add(Op::kReshape, Shape(kF32, {6}), {p}, ReshapeAttrs{});
  Instruction* other = t.Add(Op::kReshape, Shape(kF32, {3, 2}), {flat}, ReshapeAttrs{});
  EXPECT_EQ(fold(other)->operand(0), p);
  Instruction* turned = t.Add(Op::kTranspose, Shape(kF32, {3, 2}), {p}, DimensionsAttrs{{1, 0}});
  EXPECT_EQ(fold(turned), nullptr);
  EXPECT_EQ(fold(t.Add(Op::kTranspose, p->shape(), {turned}, DimensionsAttrs{{1, 0}})), p);
  Instruction* back = t.Add(Op::kReverse, p->shape(), {p}, DimensionsAttrs{{1}});
  EXPECT_EQ(fold(back), nullptr);
  EXPECT_EQ(fold(t.Add(Op::kReverse, p->shape(), {back}, DimensionsAttrs{{1}})), p);
  EXPECT_EQ(fold(t.Add(Op::kSlice, p->shape(), {p}, SliceAttrs{{{0, 2, 1}, {0, 3, 1}}})), p);
  Instruction* tuple = t.Add(Op::kTuple, Shape::Tuple({p->shape(), flat->shape()}), {p, flat});
  Instruction* first = t.Add(Op::kGetTupleElement, p->shape(), {tuple}, GetTupleElementAttrs{0});
  EXPECT_EQ(fold(first), p);
}

}  // namespace
}  // namespace weft::hlo
