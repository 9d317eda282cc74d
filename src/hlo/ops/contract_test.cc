#include <gtest/gtest.h>

#include <limits>

#include "hlo/ops/op_test_util.h"

namespace weft::hlo {
namespace {

// Small whole numbers, different from element to element.
Literal Pattern(Shape shape, int64_t step, int64_t modulus = 11) {
  Literal literal{std::move(shape)};
  for (int64_t i = 0; i < literal.size(); ++i) {
    literal.SetDouble(i, static_cast<double>(i * step % modulus - modulus / 2));
  }
  return literal;
}

DotAttrs DotOver(Ints lhs, Ints rhs, Ints lhs_batch = {}, Ints rhs_batch = {}) {
  DotAttrs a;
  a.lhs_contracting_dims = lhs, a.rhs_contracting_dims = rhs;
  a.lhs_batch_dims = lhs_batch, a.rhs_batch_dims = rhs_batch;
  return a;
}

TEST(Dot, InfersAndRejects) {
  Shape a(DType::kF32, {2, 3}), b(DType::kF32, {3, 4});
  EXPECT_EQ(OpTester::Infer(Op::kDot, {a, b}, DotOver({1}, {0})), "f32[2,4]");
  EXPECT_EQ(OpTester::Infer(Op::kDot, {a, b}, DotOver({}, {})), "f32[2,3,3,4]");
  EXPECT_EQ(OpTester::Infer(Op::kDot, {a, b}, DotOver({0}, {0})),
            "dot: contracting dimensions 0 of lhs and 0 of rhs differ in size: f32[2,3] and "
            "f32[3,4]");
  Shape wide(DType::kF64, {2, 4});
  EXPECT_EQ(OpTester::Infer(Op::kDot, {a, b}, DotOver({1}, {0}), &wide), "f64[2,4]");
}

TEST(Dot, MatchesSumsOverAnyDimensions) {
  for (DType type :
       {DType::kF32, DType::kBF16, DType::kF64, DType::kS32, DType::kS64, DType::kC64}) {
    OpTester t;
    // lhs [k, b, m], rhs [n, k, b] with sizes that are no multiples of the blocks.
    constexpr int64_t kB = 2, kM = 67, kN = 131, kK = 259;
    Literal lhs = Pattern(Shape(type, {kK, kB, kM}), 7),
            rhs = Pattern(Shape(type, {kN, kK, kB}), 5);
    Shape declared(type == DType::kBF16 ? DType::kF32 : type, {kB, kM, kN});
    Literal out = t.Evaluate(Op::kDot, {lhs, rhs}, DotOver({0}, {1}, {1}, {2}), declared);
    for (int64_t b = 0; b < kB; ++b) {
      for (int64_t m = 0; m < kM; m += 13) {
        for (int64_t n = 0; n < kN; n += 10) {
          double sum = 0;
          for (int64_t k = 0; k < kK; ++k) {
            sum += lhs.GetDouble((k * kB + b) * kM + m) * rhs.GetDouble((n * kK + k) * kB + b);
          }
          ASSERT_EQ(out.GetDouble((b * kM + m) * kN + n), sum) << Name(type);
        }
      }
    }
  }
}

TEST(Dot, IntegersWrapAndWiden) {
  OpTester t;
  Literal a = Values(Shape(DType::kS8, {1, 2}), {-128, 127}),
          b = Values(Shape(DType::kS8, {2, 1}), {-128, 127});
  EXPECT_EQ(t.Evaluate(Op::kDot, {a, b}, DotOver({1}, {0}), Shape(DType::kS32, {1, 1})).GetInt(0),
            32513);
  EXPECT_EQ(t.Evaluate(Op::kDot, {a, b}, DotOver({1}, {0})).GetInt(0),
            32513 % 256 - 256 * (32513 % 256 > 127));
  Literal p = Values(Shape(DType::kPred, {1, 2}), {1, 1}),
          q = Values(Shape(DType::kPred, {2, 2}), {1, 0, 1, 0});
  EXPECT_EQ(t.Evaluate(Op::kDot, {p, q}, DotOver({1}, {0})).ToString(), "{ { true, false } }");
}

TEST(Dot, EmptySumIsZero) {
  OpTester t;
  Literal a{Shape(DType::kF32, {2, 0})}, b{Shape(DType::kF32, {0, 2})};
  EXPECT_EQ(t.Evaluate(Op::kDot, {a, b}, DotOver({1}, {0})).ToString(), "{ { 0, 0 }, { 0, 0 } }");
}

TEST(ScaledDot, ScalesBlocks) {
  OpTester t;
  Literal a = Values(Shape(DType::kF8E4M3FN, {1, 4}), {1, 2, 3, 4});
  Literal b = Values(Shape(DType::kF8E4M3FN, {4, 1}), {1, 1, 1, 1});
  Literal scale = Values(Shape(DType::kF8E8M0FNU, {1, 2}), {2, 0.5});
  Literal none = Values(Shape::Scalar(DType::kBF16), {1});
  Shape to(DType::kF32, {1, 1});
  EXPECT_EQ(t.Evaluate(Op::kScaledDot, {a, b, scale, none}, DotOver({1}, {0}), to).GetDouble(0),
            9.5);
}

RaggedDotAttrs RaggedOver(int64_t dim, Ints groups) {
  RaggedDotAttrs a;
  a.lhs_contracting_dims = {1}, a.rhs_contracting_dims = {groups.empty() ? 0 : 1};
  a.lhs_ragged_dims = {dim}, a.rhs_group_dims = groups;
  return a;
}

TEST(RaggedDot, RowsTakeTheMatrixOfTheirGroup) {
  OpTester t;
  Literal a = Values(Shape(DType::kF32, {4, 1}), {1, 2, 3, 4});
  Literal b = Values(Shape(DType::kF32, {2, 1, 2}), {1, 10, 100, 1000});
  EXPECT_EQ(t.Evaluate(Op::kRaggedDot, {a, b, Ints32({1, 2})}, RaggedOver(0, {0})).ToString(),
            "{ { 1, 10 }, { 200, 2000 }, { 300, 3000 }, { 0, 0 } }");
}

TEST(RaggedDot, ContractingGivesOneResultPerGroup) {
  OpTester t;
  Literal a = Values(Shape(DType::kF32, {1, 4}), {1, 2, 3, 4});
  Literal b = Values(Shape(DType::kF32, {4, 1}), {1, 1, 10, 10});
  EXPECT_EQ(t.Evaluate(Op::kRaggedDot, {a, b, Ints32({2, 1, 5})}, RaggedOver(1, {})).ToString(),
            "{ { {3} }, { {30} }, { {40} } }");
}

// A two-dimensional convolution b01f_01io->b01f by its definition.
double ConvAt(const Literal& in, const Literal& kernel, const ConvolutionAttrs& a,
              int64_t out_features, int64_t n, int64_t y, int64_t x, int64_t f) {
  const Shape& s = in.shape();
  const Shape& k = kernel.shape();
  int64_t group = f / (out_features / (a.feature_group_count * a.batch_group_count));
  int64_t batch = n + (a.batch_group_count > 1 ? group * (s.dim(0) / a.batch_group_count) : 0);
  double sum = 0;
  for (int64_t i = 0; i < k.dim(0); ++i) {
    for (int64_t j = 0; j < k.dim(1); ++j) {
      int64_t at[2] = {y, x}, tap[2] = {i, j};
      bool inside = true;
      for (int d = 0; d < 2; ++d) {
        const WindowDim& w = a.window.dims[d];
        int64_t step = w.reversal ? w.size - 1 - tap[d] : tap[d];
        int64_t p = at[d] * w.stride + step * w.window_dilation - w.pad_low;
        inside = inside && p >= 0 && p % w.base_dilation == 0 && p / w.base_dilation < s.dim(1 + d);
        at[d] = p / w.base_dilation;
      }
      if (!inside) continue;
      for (int64_t c = 0; c < k.dim(2); ++c) {
        int64_t feature = c + (a.feature_group_count > 1 ? group * k.dim(2) : 0);
        sum += in.GetDouble(((batch * s.dim(1) + at[0]) * s.dim(2) + at[1]) * s.dim(3) + feature) *
               kernel.GetDouble(((i * k.dim(1) + j) * k.dim(2) + c) * k.dim(3) + f);
      }
    }
  }
  return sum;
}

ConvDims ConvLabels() {
  ConvDims d;
  d.input_batch = 0, d.input_feature = 3, d.input_spatial = {1, 2};
  d.kernel_input = 2, d.kernel_output = 3, d.kernel_spatial = {0, 1};
  d.output_batch = 0, d.output_feature = 3, d.output_spatial = {1, 2};
  d.input_rank = d.kernel_rank = d.output_rank = 4;
  return d;
}

void CheckConv(ConvolutionAttrs a, Shape in_shape, Shape kernel_shape) {
  OpTester t;
  a.dim_labels = ConvLabels();
  Literal in = Pattern(in_shape, 7), kernel = Pattern(kernel_shape, 5);
  Literal out = t.Evaluate(Op::kConvolution, {in, kernel}, a);
  const Shape& s = out.shape();
  for (int64_t i = 0; i < out.size(); ++i) {
    int64_t f = i % s.dim(3), x = i / s.dim(3) % s.dim(2), y = i / s.dim(3) / s.dim(2) % s.dim(1);
    int64_t n = i / s.dim(3) / s.dim(2) / s.dim(1);
    ASSERT_EQ(out.GetDouble(i), ConvAt(in, kernel, a, s.dim(3), n, y, x, f))
        << s.ToString() << " at " << i;
  }
}

TEST(Convolution, AnyWindow) {
  ConvolutionAttrs a;
  a.window.dims = {{3, 2, 1, 2, 1, 1, false}, {2, 1, 0, 1, 2, 2, true}};
  CheckConv(a, Shape(DType::kF32, {2, 5, 6, 3}), Shape(DType::kF32, {3, 2, 3, 4}));
  a.window.dims = {{3, 1, -1, -1, 1, 1, false}, {2, 3, 5, -2, 3, 1, false}};
  CheckConv(a, Shape(DType::kF32, {1, 8, 6, 5}), Shape(DType::kF32, {3, 2, 5, 70}));
}

TEST(Convolution, Groups) {
  ConvolutionAttrs a;
  a.window.dims = {{3, 1, 1, 1, 1, 1, false}, {3, 1, 1, 1, 1, 1, false}};
  a.feature_group_count = 3;
  CheckConv(a, Shape(DType::kF32, {2, 4, 4, 6}), Shape(DType::kF32, {3, 3, 2, 9}));
  a.feature_group_count = 1;
  a.batch_group_count = 2;
  CheckConv(a, Shape(DType::kF32, {4, 4, 4, 3}), Shape(DType::kF32, {3, 3, 3, 6}));
}

TEST(Convolution, OtherLabels) {
  OpTester t;
  ConvolutionAttrs a;  // bf0_oi0->0bf
  a.window.dims = {{2}};
  ConvDims& d = a.dim_labels;
  d.input_batch = 0, d.input_feature = 1, d.input_spatial = {2};
  d.kernel_output = 0, d.kernel_input = 1, d.kernel_spatial = {2};
  d.output_spatial = {0}, d.output_batch = 1, d.output_feature = 2;
  Literal in = Values(Shape(DType::kF32, {1, 2, 3}), {1, 2, 3, 4, 5, 6});
  Literal kernel = Values(Shape(DType::kF32, {1, 2, 2}), {1, 10, 100, 1000});
  EXPECT_EQ(t.Evaluate(Op::kConvolution, {in, kernel}, a).ToString(), "{ { {5421} }, { {6532} } }");
}

TEST(Convolution, RejectsOverflow) {
  ConvolutionAttrs a;
  a.dim_labels = ConvLabels();
  int64_t huge = std::numeric_limits<int64_t>::max();
  a.window.dims = {{3, 1, 0, 0, huge, 1, false}, {1}};
  std::string error = OpTester::Infer(
      Op::kConvolution, {Shape(DType::kF32, {1, 4, 4, 1}), Shape(DType::kF32, {3, 1, 1, 1})}, a);
  EXPECT_NE(error.find("the window overflows"), std::string::npos) << error;
}

}  // namespace
}  // namespace weft::hlo
