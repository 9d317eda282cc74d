#include <cmath>

#include "hlo/ops/row_test_util.h"

namespace weft::hlo::sort_test {
namespace {

using enum DType;
constexpr double kQuiet = std::numeric_limits<double>::quiet_NaN();

class SortTest : public OpTest {
 protected:
  Computation* Comparator(DType dtype, CompareAttrs compare) {
    return Binary(Op::kCompare, dtype, compare);
  }
  // As JAX writes it: -0 is 0, every NaN is one NaN, then total order.
  Computation* JaxComparator() {
    Computation* c = NewComputation({kF32, kF32});
    Instruction* zero = AddConstant(c, Scalar(kF32, 0));
    Instruction* nan = AddConstant(c, Scalar(kF32, kQuiet));
    Instruction* sides[2];
    for (int i = 0; i < 2; ++i) {
      Instruction* p = c->parameter(i);
      Instruction* is_zero = Add(c, Op::kCompare, {p, zero}, CompareAttrs{Direction::kEq});
      Instruction* no_sign = Add(c, Op::kSelect, {is_zero, zero, p});
      Instruction* is_nan = Add(c, Op::kCompare, {p, p}, CompareAttrs{Direction::kNe});
      sides[i] = Add(c, Op::kSelect, {is_nan, nan, no_sign});
    }
    Add(c, Op::kCompare, {sides[0], sides[1]},
        CompareAttrs{Direction::kLt, ComparisonType::kTotalOrder});
    return c;
  }
};

TEST_F(SortTest, Orders) {
  Literal x = Vector(kF32, {3, -0.0, kQuiet, 0.0, -1});
  auto sort = [&](Computation* f) { return EvalText(Op::kSort, {x}, SortAttrs{{0}, true, f}); };
  EXPECT_EQ(sort(JaxComparator()), "{-1, -0, 0, 3, nan}");
  EXPECT_EQ(sort(Comparator(kF32, {Direction::kGt, ComparisonType::kTotalOrder})),
            "{nan, 3, 0, -0, -1}");
  // Comparators that are no order end all the same.
  EXPECT_EQ(sort(Comparator(kF32, {Direction::kLt})).size(), sort(JaxComparator()).size());
  EXPECT_NE(sort(Comparator(kF32, {Direction::kNe})), "");
}

TEST_F(SortTest, MovesValuesAlongAnyDimension) {
  Literal keys = Array(kS32, {2, 3}, {3, 1, 2, 1, 5, 0});
  Literal values = Array(kS8, {2, 3}, {0, 1, 2, 3, 4, 5});
  Computation* f = NewComputation({kS32, kS32, kS8, kS8});
  Add(f, Op::kCompare, {f->parameter(0), f->parameter(1)}, CompareAttrs{Direction::kLt});
  EXPECT_EQ(EvalText(Op::kSort, {keys, values}, SortAttrs{{1}, true, f}),
            "({ { 1, 2, 3 }, { 0, 1, 5 } }, { { 1, 2, 0 }, { 5, 3, 4 } })");
  EXPECT_EQ(EvalText(Op::kSort, {keys, values}, SortAttrs{{0}, true, f}),
            "({ { 1, 1, 0 }, { 3, 5, 2 } }, { { 3, 1, 5 }, { 0, 4, 2 } })");
}

TEST_F(SortTest, TwoKeysInLexicographicOrder) {
  Computation* f = NewComputation({kS32, kS32, kF32, kF32});
  auto p = [&](int i) { return f->parameter(i); };
  Instruction* lt0 = Add(f, Op::kCompare, {p(0), p(1)}, CompareAttrs{Direction::kLt});
  Instruction* eq0 = Add(f, Op::kCompare, {p(0), p(1)}, CompareAttrs{Direction::kEq});
  Instruction* lt1 = Add(f, Op::kCompare, {p(2), p(3)}, CompareAttrs{Direction::kLt});
  Add(f, Op::kOr, {lt0, Add(f, Op::kAnd, {eq0, lt1})});
  EXPECT_EQ(EvalText(Op::kSort, {Vector(kS32, {1, 0, 1, 0}), Vector(kF32, {5, 7, 4, 6})},
                     SortAttrs{{0}, false, f}),
            "({0, 0, 1, 1}, {6, 7, 4, 5})");
}

TEST_F(SortTest, TopK) {
  Literal x = Array(kF32, {2, 4}, {1, 3, 3, 2, -1, -2, -3, -4});
  EXPECT_EQ(EvalText(Op::kTopK, {x}, TopKAttrs{2, true, true}),
            "({ { 3, 3 }, { -1, -2 } }, { { 1, 2 }, { 0, 1 } })");
  EXPECT_EQ(EvalText(Op::kTopK, {x}, TopKAttrs{1, false, true}), "({ {1}, {-4} }, { {0}, {3} })");
  EXPECT_FALSE(Infer(Op::kTopK, {Shape(kF32, {3})}, TopKAttrs{4}));
}

}  // namespace
}  // namespace weft::hlo::sort_test
