#include <gtest/gtest.h>

#include "hlo/ops/op_test_util.h"

namespace weft::hlo {
namespace {

GatherAttrs Rows() {
  GatherAttrs a;
  a.offset_dims = {1}, a.collapsed_slice_dims = {0}, a.start_index_map = {0};
  a.index_vector_dim = 1, a.slice_sizes = {1, 2};
  return a;
}

TEST(Gather, RowsAreClamped) {
  OpTester t;
  Literal in = Values(Shape(DType::kF32, {3, 2}), {0, 1, 10, 11, 20, 21});
  EXPECT_EQ(t.Evaluate(Op::kGather, {in, Ints32({2, -5, 9})}, Rows()).ToString(),
            "{ { 20, 21 }, { 0, 1 }, { 20, 21 } }");
}

TEST(Gather, BatchingDims) {
  OpTester t;
  Literal in = Values(Shape(DType::kS32, {2, 3}), {0, 1, 2, 10, 11, 12});
  Literal at = Values(Shape(DType::kS64, {2, 2}), {2, 0, 1, 1});
  GatherAttrs a;
  a.collapsed_slice_dims = {1}, a.start_index_map = {1}, a.operand_batching_dims = {0};
  a.start_indices_batching_dims = {0}, a.index_vector_dim = 2, a.slice_sizes = {1, 1};
  EXPECT_EQ(t.Evaluate(Op::kGather, {in, at}, a).ToString(), "{ { 2, 0 }, { 11, 11 } }");
}

TEST(Gather, IndexVectorsOfTwo) {
  OpTester t;
  Literal in = Values(Shape(DType::kF32, {3, 3}), {0, 1, 2, 3, 4, 5, 6, 7, 8});
  Literal at = Values(Shape(DType::kS32, {2, 2}), {1, 0, 2, 1});  // columns are index vectors
  GatherAttrs a;
  a.offset_dims = {1}, a.collapsed_slice_dims = {0}, a.start_index_map = {1, 0};
  a.index_vector_dim = 0, a.slice_sizes = {1, 2};
  // Vectors (1, 2) and (0, 1): columns 1 and 0, rows 2 and 1.
  EXPECT_EQ(t.Evaluate(Op::kGather, {in, at}, a).ToString(), "{ { 7, 8 }, { 3, 4 } }");
}

TEST(Gather, Rejects) {
  GatherAttrs a = Rows();
  a.slice_sizes = {2, 2};
  EXPECT_EQ(OpTester::Infer(Op::kGather, {Shape(DType::kF32, {3, 2}), Shape(DType::kS32, {4})}, a),
            "gather: slice_sizes={2,2} of operand f32[3,2]: size 2 of dimension 0, which is "
            "collapsed, must be 1 or 0");
}

class ScatterTest : public testing::Test {
 protected:
  // A computation (x, y) -> op(x, y), or y for kParameter.
  Computation* Combiner(Op op, DType type) {
    Computation* c = t.module().AddComputation("combine");
    Shape s = Shape::Scalar(type);
    Instruction* x = c->Add(Op::kParameter, "x", s, {}, ParameterAttrs{0});
    Instruction* y = c->Add(Op::kParameter, "y", s, {}, ParameterAttrs{1});
    Instruction* both[] = {x, y};
    c->set_root(op == Op::kParameter ? y : c->Add(op, "r", s, both, Attrs()));
    return c;
  }
  ScatterAttrs Rows(Computation* combiner) {
    ScatterAttrs a;
    a.update_window_dims = {1}, a.inserted_window_dims = {0}, a.scatter_dims_to_operand_dims = {0};
    a.index_vector_dim = 1, a.to_apply = combiner;
    return a;
  }
  OpTester t;
};

TEST_F(ScatterTest, AddsRowsAndDropsOutside) {
  Literal in = Values(Shape(DType::kF32, {3, 2}), {0, 0, 1, 1, 2, 2});
  Literal updates = Values(Shape(DType::kF32, {4, 2}), {1, 2, 3, 4, 5, 6, 7, 8});
  ScatterAttrs a = Rows(Combiner(Op::kAdd, DType::kF32));
  EXPECT_EQ(t.Evaluate(Op::kScatter, {in, Ints32({1, 1, 3, -1}), updates}, a).ToString(),
            "{ { 0, 0 }, { 5, 7 }, { 2, 2 } }");
}

TEST_F(ScatterTest, ReplacesInOrder) {
  Literal in{Shape(DType::kS8, {4})};
  Literal updates = Values(Shape(DType::kS8, {3}), {1, 2, 3});
  ScatterAttrs a;
  a.inserted_window_dims = {0}, a.scatter_dims_to_operand_dims = {0}, a.index_vector_dim = 1;
  a.to_apply = Combiner(Op::kParameter, DType::kS8);
  EXPECT_EQ(t.Evaluate(Op::kScatter, {in, Ints32({1, 3, 1}), updates}, a).ToString(),
            "{0, 3, 0, 2}");
  a.to_apply = Combiner(Op::kMaximum, DType::kS8);
  EXPECT_EQ(t.Evaluate(Op::kScatter, {in, Ints32({1, 3, 1}), updates}, a).ToString(),
            "{0, 3, 0, 2}");
}

TEST_F(ScatterTest, AnyElementwiseCombiner) {
  Literal in = Values(Shape(DType::kF32, {2, 2}), {10, 10, 10, 10});
  Literal updates = Values(Shape(DType::kF32, {1, 2}), {1, 2});
  ScatterAttrs a = Rows(Combiner(Op::kSubtract, DType::kF32));
  EXPECT_EQ(t.Evaluate(Op::kScatter, {in, Ints32({1}), updates}, a).ToString(),
            "{ { 10, 10 }, { 9, 8 } }");
}

TEST_F(ScatterTest, WindowThatSticksOutIsDropped) {
  Literal in{Shape(DType::kF32, {4})};
  Literal updates = Values(Shape(DType::kF32, {2, 2}), {1, 2, 3, 4});
  ScatterAttrs a;
  a.update_window_dims = {1}, a.scatter_dims_to_operand_dims = {0}, a.index_vector_dim = 1;
  a.to_apply = Combiner(Op::kAdd, DType::kF32);
  EXPECT_EQ(t.Evaluate(Op::kScatter, {in, Ints32({3, 1}), updates}, a).ToString(), "{0, 3, 4, 0}");
}

}  // namespace
}  // namespace weft::hlo
