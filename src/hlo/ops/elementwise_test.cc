#include <cmath>

#include "hlo/ops/row_test_util.h"

namespace weft::hlo::elementwise_test {
namespace {

using enum DType;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class ElementwiseTest : public OpTest {};

TEST_F(ElementwiseTest, InferenceAcceptsMixedPrecisionAndDynamicSizes) {
  EXPECT_EQ(*Infer(Op::kAdd, {Shape(kBF16, {2}), Shape(kF32, {2})}), Shape(kF32, {2}));
  Shape bounded(kF32, {4});
  bounded.set_dynamic(0, true);
  EXPECT_EQ(*Infer(Op::kAdd, {Shape(kF32, {4}), bounded}), bounded);
  Shape unbounded(kF32, {Shape::kUnbounded});
  unbounded.set_dynamic(0, true);
  EXPECT_EQ(*Infer(Op::kAdd, {unbounded, Shape(kF32, {4})}), Shape(kF32, {4}));
  EXPECT_EQ(*Infer(Op::kAdd, {unbounded, bounded}), bounded);
  EXPECT_EQ(*Infer(Op::kAbs, {Shape(kC64, {3})}), Shape(kF32, {3}));
  EXPECT_EQ(*Infer(Op::kCompare, {Shape(kS8, {3}), Shape(kS8, {3})}, CompareAttrs{}),
            Shape(kPred, {3}));
}

TEST_F(ElementwiseTest, InferenceRejects) {
  auto message = [&](Op op, std::vector<Shape> operands, Attrs attrs = {}) {
    Result<Shape> shape = Infer(op, operands, attrs);
    return shape ? std::string("accepted") : shape.error().message();
  };
  EXPECT_EQ(message(Op::kAnd, {Shape(kF32, {2}), Shape(kF32, {2})}),
            "and: element type must be one of pred, signed, unsigned; got f32[2]");
  EXPECT_EQ(message(Op::kSine, {Shape(kS32, {2})}),
            "sine: element type must be one of float, complex; got s32[2]");
  EXPECT_EQ(message(Op::kAdd, {Shape(kF32, {2}), Shape(kF32, {3})}),
            "add: operands of different shapes: f32[2] and f32[3]");
  EXPECT_EQ(message(Op::kAdd, {Shape(kF32, {2}), Shape(kS32, {2})}),
            "add: operands of different element types: f32[2] and s32[2]");
  EXPECT_EQ(message(Op::kAdd, {Shape(kF32, {2})}), "add: takes 2 operands, got 1");
  EXPECT_EQ(message(Op::kCompare, {Shape::Tuple({}), Shape::Tuple({})}, CompareAttrs{}),
            "compare: operand must be an array, got ()");
  EXPECT_EQ(message(Op::kSelect, {Shape(kS32, {}), Shape(kF32, {2}), Shape(kF32, {2})}),
            "select: first operand must be pred, got s32[]");
  EXPECT_EQ(message(Op::kClamp, {Shape(kF32, {2}), Shape(kF32, {3}), Shape(kF32, {})}),
            "clamp: bound f32[2] for an operand f32[3]");
}

TEST_F(ElementwiseTest, Integers) {
  EXPECT_EQ(EvalText(Op::kAdd, {Vector(kS8, {127, -128, 5}), Vector(kS8, {1, -1, 6})}),
            "{-128, 127, 11}");
  EXPECT_EQ(
      EvalText(Op::kDivide, {Vector(kS32, {7, -7, 5, -2147483648.0}), Vector(kS32, {2, 2, 0, -1})}),
      "{3, -3, -1, -2147483648}");
  EXPECT_EQ(EvalText(Op::kRemainder,
                     {Vector(kS32, {7, -7, 5, -2147483648.0}), Vector(kS32, {2, 2, 0, -1})}),
            "{1, -1, 5, 0}");
  EXPECT_EQ(EvalText(Op::kDivide, {Vector(kU8, {7, 255}), Vector(kU8, {0, 2})}), "{255, 127}");
  EXPECT_EQ(EvalText(Op::kShiftLeft, {Vector(kS8, {1, 1, 1, 1}), Vector(kS8, {7, 8, -1, 0})}),
            "{-128, 0, 0, 1}");
  EXPECT_EQ(
      EvalText(Op::kShiftRightArithmetic, {Vector(kS8, {-128, -128, 64}), Vector(kS8, {1, 9, 9})}),
      "{-64, -1, 0}");
  EXPECT_EQ(EvalText(Op::kShiftRightLogical, {Vector(kS8, {-128, -128}), Vector(kS8, {1, 9})}),
            "{64, 0}");
  EXPECT_EQ(
      EvalText(Op::kPower, {Vector(kS32, {2, -3, 2, 1, 0}), Vector(kS32, {10, 3, -1, -5, 0})}),
      "{1024, -27, 0, 1, 1}");
  EXPECT_EQ(EvalText(Op::kMulhi, {Vector(kS8, {100, -100}), Vector(kS8, {100, 100})}), "{39, -40}");
  EXPECT_EQ(EvalText(Op::kMulhi, {Vector(kU8, {255}), Vector(kU8, {255})}), "{254}");
  EXPECT_EQ(EvalText(Op::kCountLeadingZeros, {Vector(kS8, {0, 1, -1})}), "{8, 7, 0}");
  EXPECT_EQ(EvalText(Op::kPopulationCount, {Vector(kS16, {-1, 5})}), "{16, 2}");
  EXPECT_EQ(EvalText(Op::kNot, {Vector(kPred, {0, 1})}), "{true, false}");
  EXPECT_EQ(EvalText(Op::kNot, {Vector(kU4, {0, 15})}), "{15, 0}");
  EXPECT_EQ(EvalText(Op::kAbs, {Vector(kS8, {-128, -3})}), "{-128, 3}");
}

TEST_F(ElementwiseTest, UnsignedOf64BitsIsComparedAndDividedAsSuch) {
  Literal big{Shape(kU64, {2})};
  big.SetInt(0, -1);
  big.SetInt(1, 1);
  Literal other{Shape(kU64, {2})};
  other.SetInt(0, 2);
  other.SetInt(1, -1);
  EXPECT_EQ(EvalText(Op::kMaximum, {big, other}), "{18446744073709551615, 18446744073709551615}");
  EXPECT_EQ(EvalText(Op::kDivide, {big, other}), "{9223372036854775807, 0}");
  EXPECT_EQ(EvalText(Op::kCompare, {big, other}, CompareAttrs{Direction::kLt}), "{false, true}");
}

TEST_F(ElementwiseTest, Floats) {
  EXPECT_EQ(
      EvalText(Op::kMaximum, {Vector(kF32, {1, kNan, -0.0, 2}), Vector(kF32, {kNan, 1, 0.0, 3})}),
      "{nan, nan, 0, 3}");
  EXPECT_EQ(EvalText(Op::kMinimum, {Vector(kF32, {0.0, 2}), Vector(kF32, {-0.0, 3})}), "{-0, 2}");
  EXPECT_EQ(EvalText(Op::kRoundNearestAfz, {Vector(kF32, {0.5, -2.5, 2.4})}), "{1, -3, 2}");
  EXPECT_EQ(EvalText(Op::kRoundNearestEven, {Vector(kF32, {0.5, -2.5, 3.5})}), "{0, -2, 4}");
  EXPECT_EQ(EvalText(Op::kSign, {Vector(kF32, {-2, -0.0, 0, kNan, 5})}), "{-1, -0, 0, nan, 1}");
  EXPECT_EQ(EvalText(Op::kIsFinite, {Vector(kF16, {1, kInfinity, kNan})}), "{true, false, false}");
  EXPECT_EQ(
      EvalText(Op::kClamp, {Scalar(kF32, 0), Vector(kF32, {-1, 0.5, 2, kNan}), Scalar(kF32, 1)}),
      "{0, 0.5, 1, nan}");
  EXPECT_EQ(EvalText(Op::kSelect, {Scalar(kPred, 1), Vector(kF32, {1, 2}), Vector(kF32, {3, 4})}),
            "{1, 2}");
  EXPECT_EQ(EvalText(Op::kAdd, {Vector(kBF16, {256}), Vector(kBF16, {1})}), "{256}");
  EXPECT_EQ(EvalText(Op::kLogistic, {Vector(kF32, {0, -kInfinity, kInfinity})}), "{0.5, 0, 1}");
  EXPECT_EQ(EvalText(Op::kPower, {Vector(kF32, {-2, 1, kNan}), Vector(kF32, {3, kNan, 0})}),
            "{-8, 1, 1}");
  EXPECT_EQ(EvalText(Op::kRsqrt, {Vector(kF32, {4, 0, kInfinity})}), "{0.5, inf, 0}");
}

TEST_F(ElementwiseTest, FunctionsOfF32AreRoundedOnce) {
  std::vector<double> xs;
  for (int i = 0; i < 3000; ++i) xs.push_back(static_cast<float>(0.001 * i + 0.25));
  auto same = [&](Op op, double (*fn)(double)) {
    Result<Literal> got = Eval(op, {Vector(kF32, xs)}, UnaryMathAttrs{});
    ASSERT_TRUE(got);
    for (size_t i = 0; i < xs.size(); ++i) {
      ASSERT_EQ(got->values<float>()[i], static_cast<float>(fn(xs[i]))) << Mnemonic(op) << xs[i];
    }
  };
  same(Op::kExponential, std::exp);
  same(Op::kLog, std::log);
  same(Op::kTanh, std::tanh);
  same(Op::kErf, std::erf);
  same(Op::kCbrt, std::cbrt);
}

TEST_F(ElementwiseTest, CompareInTotalOrder) {
  CompareAttrs lt{Direction::kLt, ComparisonType::kTotalOrder};
  Literal x = Vector(kF32, {-0.0, kNan, 1, kInfinity}), y = Vector(kF32, {0.0, 1, kNan, kNan});
  EXPECT_EQ(EvalText(Op::kCompare, {x, y}, lt), "{true, false, true, true}");
  EXPECT_EQ(EvalText(Op::kCompare, {x, y}, CompareAttrs{Direction::kLt}),
            "{false, false, false, false}");
  EXPECT_EQ(EvalText(Op::kCompare, {x, x}, CompareAttrs{Direction::kNe}),
            "{false, true, false, false}");
}

TEST_F(ElementwiseTest, Complex) {
  EXPECT_EQ(EvalText(Op::kAbs, {Complexes({{3, 4}, {0, -2}})}), "{5, 2}");
  EXPECT_EQ(EvalText(Op::kMultiply, {Complexes({{1, 2}}), Complexes({{3, -1}})}), "{(5, 5)}");
  EXPECT_EQ(EvalText(Op::kDivide, {Complexes({{5, 5}}), Complexes({{3, -1}})}), "{(1, 2)}");
  EXPECT_EQ(EvalText(Op::kSqrt, {Complexes({{-4, 0}})}, UnaryMathAttrs{}), "{(0, 2)}");
  EXPECT_EQ(EvalText(Op::kSign, {Complexes({{3, 4}, {0, 0}}, kC128)}), "{(0.6, 0.8), (0, 0)}");
  EXPECT_EQ(EvalText(Op::kComplex, {Vector(kF32, {1}), Vector(kF32, {2})}), "{(1, 2)}");
  EXPECT_EQ(EvalText(Op::kImag, {Complexes({{1, 2}})}), "{2}");
  // Accurate where 1 + z rounds.
  Result<Literal> l = Eval(Op::kLog1p, {Complexes({{1e-20, 1e-20}}, kC128)}, UnaryMathAttrs{});
  EXPECT_DOUBLE_EQ(l->GetComplex(0).real(), 1e-20);
  Result<Literal> e =
      Eval(Op::kExpm1, {Complexes({{1e-20, 0}, {0, 1e-9}}, kC128)}, UnaryMathAttrs{});
  EXPECT_DOUBLE_EQ(e->GetComplex(0).real(), 1e-20);
  EXPECT_DOUBLE_EQ(e->GetComplex(1).real(), -5e-19);
}

TEST_F(ElementwiseTest, ReducePrecision) {
  Literal x = Vector(kF32, {1.0009765625, 65520, 1e-5, kNan, -1e-8});
  EXPECT_EQ(EvalText(Op::kReducePrecision, {x}, ReducePrecisionAttrs{5, 10}),
            "{1.0009766, inf, 0, nan, -0}");
  EXPECT_EQ(EvalText(Op::kReducePrecision, {Vector(kF32, {1.5, 1.75})}, ReducePrecisionAttrs{8, 1}),
            "{1.5, 2}");
}

TEST_F(ElementwiseTest, Convert) {
  Shape s8(kS8, {4});
  EXPECT_EQ(EvalText(Op::kConvert, {Vector(kF32, {1.9, -1.9, 300, kNan})}, {}, &s8),
            "{1, -1, 127, 0}");
  Shape u32(kU32, {2});
  EXPECT_EQ(EvalText(Op::kBitcastConvert, {Vector(kF32, {1, -0.0})}, {}, &u32),
            "{1065353216, 2147483648}");
  Shape u8(kU8, {1, 4});
  EXPECT_EQ(EvalText(Op::kBitcastConvert, {Vector(kU32, {0x04030201})}, {}, &u8),
            "{ { 1, 2, 3, 4 } }");
  Shape u16(kU16, {});
  EXPECT_EQ(EvalText(Op::kBitcastConvert, {Vector(kU8, {1, 2})}, {}, &u16), "513");
  EXPECT_FALSE(Infer(Op::kBitcastConvert, {Shape(kU8, {3})}, {}, &u16));
  Shape s32(kS32, {3});
  EXPECT_EQ(
      EvalText(Op::kStochasticConvert,
               {Vector(kF32, {1.5, 1.5, -1.25}), Vector(kU32, {0, 4294967295.0, 0})}, {}, &s32),
      "{2, 1, -2}");
}

TEST_F(ElementwiseTest, DynamicSizesStay) {
  Shape bounded(kF32, {4});
  bounded.set_dynamic(0, true);
  Literal x{bounded};
  x.set_dynamic_size(0, 2);
  Result<Literal> y = Eval(Op::kNegate, {x});
  ASSERT_TRUE(y);
  EXPECT_EQ(y->dynamic_size(0), 2);
}

TEST_F(ElementwiseTest, Folds) {
  Computation* c = NewComputation({kF32, kS32});
  Instruction* x = c->parameter(0);
  Instruction* n = c->parameter(1);
  auto fold = [](Instruction* i) { return i->def().fold(*i); };
  Instruction* negated = Add(c, Op::kNegate, {x});
  EXPECT_EQ(fold(Add(c, Op::kNegate, {negated})), x);
  EXPECT_EQ(fold(negated), nullptr);
  Instruction* one = AddConstant(c, Scalar(kF32, 1));
  Instruction* zero = AddConstant(c, Scalar(kF32, 0));
  Instruction* int_zero = AddConstant(c, Scalar(kS32, 0));
  EXPECT_EQ(fold(Add(c, Op::kMultiply, {one, x})), x);
  EXPECT_EQ(fold(Add(c, Op::kAdd, {x, zero})), nullptr);
  EXPECT_EQ(fold(Add(c, Op::kAdd, {n, int_zero})), n);
  EXPECT_EQ(fold(Add(c, Op::kAnd, {n, int_zero})), int_zero);
  EXPECT_EQ(fold(Add(c, Op::kMultiply, {x, zero})), nullptr);
}

}  // namespace
}  // namespace weft::hlo::elementwise_test
