#include <cmath>
#include <numeric>

#include "hlo/evaluate/scalar_function.h"
#include "hlo/ops/row_test_util.h"

namespace weft::hlo::reduce_test {
namespace {

using enum DType;

class ReduceTest : public OpTest {
 protected:
  // JAX's argmax: (value, index) of the larger value, of equal ones the smaller index.
  Computation* ArgMax() {
    Computation* c = NewComputation({kF32, kS32, kF32, kS32});
    auto p = [&](int i) { return c->parameter(i); };
    Instruction* gt = Add(c, Op::kCompare, {p(0), p(2)}, CompareAttrs{Direction::kGt});
    Instruction* eq = Add(c, Op::kCompare, {p(0), p(2)}, CompareAttrs{Direction::kEq});
    Instruction* lt = Add(c, Op::kCompare, {p(1), p(3)}, CompareAttrs{Direction::kLt});
    Instruction* first = Add(c, Op::kAnd, {eq, lt});
    Instruction* take = Add(c, Op::kOr, {gt, first});
    Instruction* value = Add(c, Op::kSelect, {gt, p(0), p(2)});
    Instruction* index = Add(c, Op::kSelect, {take, p(1), p(3)});
    c->set_root(c->Add(Op::kTuple, "t", Shape::Tuple({value->shape(), index->shape()}),
                       std::vector<Instruction*>{value, index}, {}));
    return c;
  }
  static Literal Iota(DType dtype, int64_t n) {
    std::vector<double> values(static_cast<size_t>(n));
    std::iota(values.begin(), values.end(), 0.0);
    return Vector(dtype, values);
  }
};

TEST_F(ReduceTest, AlongAnyDimensions) {
  std::vector<double> values(24);
  std::iota(values.begin(), values.end(), 0.0);
  Literal x = Array(kF32, {2, 3, 4}, values);
  auto sum = [&](Ints dims) {
    return EvalText(Op::kReduce, {x, Scalar(kF32, 100)}, ReduceAttrs{dims, Binary(Op::kAdd, kF32)});
  };
  EXPECT_EQ(sum({0, 1, 2}), "376");
  EXPECT_EQ(sum({2}), "{ { 106, 122, 138 }, { 154, 170, 186 } }");
  EXPECT_EQ(sum({1}), "{ { 112, 115, 118, 121 }, { 148, 151, 154, 157 } }");
  EXPECT_EQ(sum({0, 2}), "{160, 192, 224}");
  EXPECT_EQ(
      EvalText(Op::kReduce, {x, Scalar(kF32, 7)}, ReduceAttrs{{1}, Binary(Op::kMaximum, kF32)}),
      "{ { 8, 9, 10, 11 }, { 20, 21, 22, 23 } }");
  // A function that is no plain op: a - b, in order.
  EXPECT_EQ(
      EvalText(Op::kReduce, {x, Scalar(kF32, 0)}, ReduceAttrs{{1}, Binary(Op::kSubtract, kF32)}),
      "{ { -12, -15, -18, -21 }, { -48, -51, -54, -57 } }");
  EXPECT_EQ(
      EvalText(Op::kReduce, {x, Scalar(kF32, 0)}, ReduceAttrs{{2}, Binary(Op::kSubtract, kF32)}),
      "{ { -6, -22, -38 }, { -54, -70, -86 } }");
  Literal none{Shape(kF32, {0, 3})};
  EXPECT_EQ(
      EvalText(Op::kReduce, {none, Scalar(kF32, 5)}, ReduceAttrs{{0}, Binary(Op::kAdd, kF32)}),
      "{5, 5, 5}");
}

TEST_F(ReduceTest, LongSumsAreAccurateAndWrap) {
  Literal tenths{Shape(kF32, {1 << 20})};
  for (float& x : tenths.values<float>()) x = 0.1f;
  Result<Literal> sum =
      Eval(Op::kReduce, {tenths, Scalar(kF32, 0)}, ReduceAttrs{{0}, Binary(Op::kAdd, kF32)});
  ASSERT_TRUE(sum);
  EXPECT_EQ(sum->values<float>()[0], static_cast<float>(0.1f * double{1 << 20}));
  EXPECT_EQ(EvalText(Op::kReduce, {Vector(kU8, {200, 100}), Scalar(kU8, 0)},
                     ReduceAttrs{{0}, Binary(Op::kAdd, kU8)}),
            "44");
}

TEST_F(ReduceTest, ArgMaxOfFewAndMany) {
  Literal x = Array(kF32, {2, 3}, {1, 5, 5, 9, 2, 3});
  Literal i = Array(kS32, {2, 3}, {0, 1, 2, 0, 1, 2});
  Literal low = Scalar(kF32, -1e30), none = Scalar(kS32, 0);
  Computation* f = ArgMax();
  EXPECT_EQ(EvalText(Op::kReduce, {x, i, low, none}, ReduceAttrs{{1}, f}), "({5, 9}, {1, 0})");
  EXPECT_EQ(EvalText(Op::kReduce, {x, i, low, none}, ReduceAttrs{{0}, f}),
            "({9, 5, 5}, {0, 1, 2})");
  constexpr int64_t kMany = 1 << 20;
  Literal many{Shape(kF32, {kMany})};
  for (int64_t k = 0; k < kMany; ++k) {
    many.values<float>()[static_cast<size_t>(k)] = static_cast<float>(k * 7919 % 1000003);
  }
  many.values<float>()[777777] = 2e6f;
  EXPECT_EQ(EvalText(Op::kReduce, {many, Iota(kS32, kMany), low, none}, ReduceAttrs{{0}, f}),
            "(2e+06, 777777)");
}

TEST_F(ReduceTest, Inference) {
  Computation* add = Binary(Op::kAdd, kF32);
  EXPECT_TRUE(Infer(Op::kReduce, {Shape(kBF16, {2, 3}), Shape(kF32, {})}, ReduceAttrs{{0}, add}));
  auto message = [&](std::vector<Shape> operands, Ints dims) {
    Result<Shape> shape = Infer(Op::kReduce, operands, ReduceAttrs{dims, add});
    return shape ? std::string("accepted") : shape.error().message();
  };
  EXPECT_EQ(message({Shape(kF32, {2}), Shape(kF32, {})}, {1}),
            "reduce: dimension 1 is not one of f32[2]");
  EXPECT_EQ(message({Shape(kF32, {2}), Shape(kF32, {})}, {0, 0}),
            "reduce: dimension 0 twice for f32[2]");
  EXPECT_NE(message({Shape(kS32, {2}), Shape(kS32, {})}, {0}), "accepted");
  EXPECT_NE(message({Shape(kF32, {2}), Shape(kF32, {2})}, {0}), "accepted");
}

TEST_F(ReduceTest, Map) {
  EXPECT_EQ(EvalText(Op::kMap, {Vector(kF32, {1, 2}), Vector(kF32, {3, 5})},
                     MapAttrs{{0}, Binary(Op::kSubtract, kF32)}),
            "{-2, -3}");
}

TEST_F(ReduceTest, Windows) {
  auto window = [](std::vector<WindowDim> dims) { return Window{std::move(dims)}; };
  Literal x = Vector(kF32, {1, 2, 3, 4, 5});
  auto run = [&](Op op, WindowDim w) {
    return EvalText(Op::kReduceWindow, {x, Scalar(kF32, 0)},
                    ReduceWindowAttrs{window({w}), Binary(op, kF32)});
  };
  EXPECT_EQ(run(Op::kAdd, {.size = 5, .pad_low = 4}), "{1, 3, 6, 10, 15}");
  EXPECT_EQ(run(Op::kAdd, {.size = 5, .pad_high = 4}), "{15, 14, 12, 9, 5}");
  EXPECT_EQ(run(Op::kMaximum, {.size = 2, .stride = 2}), "{2, 4}");
  EXPECT_EQ(run(Op::kAdd, {.size = 2, .window_dilation = 2}), "{4, 6, 8}");
  EXPECT_EQ(run(Op::kAdd, {.size = 2, .pad_low = -1, .base_dilation = 2}), "{2, 2, 3, 3, 4, 4, 5}");
  EXPECT_EQ(run(Op::kSubtract, {.size = 5, .pad_low = 4}), "{-1, -3, -6, -10, -15}");
  EXPECT_EQ(run(Op::kSubtract, {.size = 2, .pad_low = 1}), "{-1, -3, -5, -7, -9}");
  Literal square = Array(kS32, {3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_EQ(EvalText(Op::kReduceWindow, {square, Scalar(kS32, 0)},
                     ReduceWindowAttrs{window({{.size = 2}, {.size = 2}}), Binary(Op::kAdd, kS32)}),
            "{ { 12, 16 }, { 24, 28 } }");
}

TEST_F(ReduceTest, CumulativeSumsTakeLinearTime) {
  constexpr int64_t kMany = 1 << 20;
  Literal ones{Shape(kF32, {kMany})};
  for (float& x : ones.values<float>()) x = 1;
  Window window{{{.size = kMany, .pad_low = kMany - 1}}};
  Result<Literal> sums = Eval(Op::kReduceWindow, {ones, Scalar(kF32, 0)},
                              ReduceWindowAttrs{window, Binary(Op::kAdd, kF32)});
  ASSERT_TRUE(sums);
  EXPECT_EQ(sums->values<float>()[kMany - 1], float{kMany});
}

TEST_F(ReduceTest, SelectAndScatter) {
  Literal x = Array(kF32, {4, 4}, {1, 2, 5, 6, 3, 4, 8, 7, 9, 1, 1, 1, 1, 1, 1, 1});
  Literal source = Array(kF32, {2, 2}, {10, 20, 30, 40});
  WindowDim w{.size = 2, .stride = 2};
  SelectAndScatterAttrs attrs{Window{{w, w}},
                              Binary(Op::kCompare, kF32, CompareAttrs{Direction::kGe}),
                              Binary(Op::kAdd, kF32)};
  EXPECT_EQ(EvalText(Op::kSelectAndScatter, {x, source, Scalar(kF32, 0)}, attrs),
            "{ { 0, 0, 0, 0 }, { 0, 10, 20, 0 }, { 30, 0, 40, 0 }, { 0, 0, 0, 0 } }");
}

TEST_F(ReduceTest, ScanCarriesAlong) {
  Computation* body = NewComputation({kF32, kF32});
  Instruction* sum = Add(body, Op::kAdd, {body->parameter(0), body->parameter(1)});
  body->set_root(body->Add(Op::kTuple, "t", Shape::Tuple({sum->shape(), sum->shape()}),
                           std::vector<Instruction*>{sum, sum}, {}));
  Literal x = Vector(kF32, {1, 2, 3, 4});
  EXPECT_EQ(EvalText(Op::kScan, {x, Scalar(kF32, 10)}, ScanAttrs{{0}, 1, false, false, body}),
            "({11, 13, 16, 20}, 20)");
  EXPECT_EQ(EvalText(Op::kScan, {x, Scalar(kF32, 0)}, ScanAttrs{{0}, 1, true, false, body}),
            "({10, 9, 7, 4}, 10)");
}

TEST_F(ReduceTest, BatchNorm) {
  Literal x = Array(kF32, {2, 2}, {1, 10, 3, 30});
  BatchNormAttrs attrs{0, 1};
  EXPECT_EQ(
      EvalText(Op::kBatchNormTraining, {x, Vector(kF32, {1, 2}), Vector(kF32, {0, 5})}, attrs),
      "({ { -1, 3 }, { 1, 7 } }, {2, 20}, {1, 100})");
  EXPECT_EQ(EvalText(Op::kBatchNormInference,
                     {x, Vector(kF32, {1, 1}), Vector(kF32, {0, 0}), Vector(kF32, {1, 10}),
                      Vector(kF32, {4, 4})},
                     attrs),
            "{ { 0, 0 }, { 1, 10 } }");
  EXPECT_EQ(EvalText(Op::kBatchNormGrad,
                     {x, Vector(kF32, {1, 1}), Vector(kF32, {2, 20}), Vector(kF32, {1, 100}),
                      Array(kF32, {2, 2}, {1, 0, 3, 0})},
                     attrs),
            "({ { 0, 0 }, { 0, 0 } }, {2, 0}, {4, 0})");
}

TEST_F(ReduceTest, ScalarFunctionRunsInPlace) {
  Computation* c = NewComputation({kF32, kF32});
  c->set_root(c->Add(Op::kTuple, "t", Shape::Tuple({Shape::Scalar(kF32), Shape::Scalar(kF32)}),
                     std::vector<Instruction*>{c->parameter(1), c->parameter(0)}, {}));
  Result<ScalarFunction> swap = ScalarFunction::Compile(*c);
  ASSERT_TRUE(swap);
  Literal a = Vector(kF32, {1, 2}), b = Vector(kF32, {3, 4});
  ScalarFunction::In in[] = {{kF32, a.data()}, {kF32, b.data()}};
  ScalarFunction::Out out[] = {{kF32, a.mutable_data()}, {kF32, b.mutable_data()}};
  swap->Run(in, out, 2);
  EXPECT_EQ(a.ToString(), "{3, 4}");
  EXPECT_EQ(b.ToString(), "{1, 2}");
  EXPECT_EQ(ScalarFunction::Compile(*Binary(Op::kAdd, kS32))->commutative_op(), Op::kAdd);
}

}  // namespace
}  // namespace weft::hlo::reduce_test
