#include <algorithm>

#include "cpu/routines/routine_testing.h"

namespace weft::cpu {
namespace {

using Sizes = std::vector<int64_t>;

struct ConvolutionCase {
  int64_t batch, in_features, out_features;
  Sizes in, window;
  Sizes strides = {}, pads = {}, base_dilation = {}, window_dilation = {}, reversal = {};
  int64_t feature_groups = 1, batch_groups = 1;
};

// The layout of dimensions given in canonical order, and the shape in memory.
std::pair<Sizes, Sizes> Laid(Random& random, Sizes canonical, int form) {
  Sizes order;  // canonical dimensions in memory order
  for (size_t i = 0; i < canonical.size(); ++i) order.push_back(static_cast<int64_t>(i));
  if (form == 0) std::rotate(order.begin() + 1, order.begin() + 2, order.end());  // NHWC
  if (form == 2) std::shuffle(order.begin(), order.end(), random);
  if (form == 3) std::rotate(order.begin(), order.begin() + 2, order.end());  // HWIO
  Sizes shape, layout(canonical.size());
  for (size_t i = 0; i < order.size(); ++i) {
    shape.push_back(canonical[static_cast<size_t>(order[i])]);
    layout[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  }
  return {shape, layout};
}

// form: 0 NHWC with HWIO, 1 NCHW with IOHW, 2 any order.
CallUnderTest ConvolutionCall(Random& random, ConvolutionCase c, DType in, DType out, int form) {
  size_t rank = c.in.size();
  auto fill = [&](Sizes& list, int64_t value) {
    if (list.empty()) list.assign(rank, value);
  };
  fill(c.strides, 1), fill(c.pads, 0), fill(c.base_dilation, 1), fill(c.window_dilation, 1);
  fill(c.reversal, 0);
  Sizes input = {c.batch, c.in_features}, output = {c.batch / c.batch_groups, c.out_features};
  Sizes kernel = {c.in_features / c.feature_groups, c.out_features};
  for (size_t i = 0; i < rank; ++i) {
    input.push_back(c.in[i]);
    kernel.push_back(c.window[i]);
    int64_t base = c.in[i] == 0 ? 0 : (c.in[i] - 1) * c.base_dilation[i] + 1;
    int64_t room = base + 2 * c.pads[i] - ((c.window[i] - 1) * c.window_dilation[i] + 1);
    output.push_back(room < 0 ? 0 : room / c.strides[i] + 1);
  }
  auto [input_shape, input_layout] = Laid(random, input, form);
  auto [kernel_shape, kernel_layout] = Laid(random, kernel, form == 0 ? 3 : form);
  auto [output_shape, output_layout] = Laid(random, output, form);
  CallUnderTest call;
  call.routine = "convolution";
  call.attrs = {{"input_shape", input_shape},
                {"input_layout", input_layout},
                {"kernel_shape", kernel_shape},
                {"kernel_layout", kernel_layout},
                {"output_shape", output_shape},
                {"output_layout", output_layout},
                {"strides", c.strides},
                {"pads", c.pads},
                {"base_dilation", c.base_dilation},
                {"window_dilation", c.window_dilation},
                {"reversal", c.reversal},
                {"feature_groups", c.feature_groups},
                {"batch_groups", c.batch_groups}};
  call.inputs = {RandomLiteral(random, in, input_shape), RandomLiteral(random, in, kernel_shape)};
  call.outputs = {Shape(out, output_shape)};
  return call;
}

void CheckConvolution(Random& random, const ConvolutionCase& c, DType in, DType out, int form,
                      double tolerance) {
  Check(ConvolutionCall(random, c, in, out, form), tolerance,
        StrCat("convolution ", Name(in), " form ", form, " rank ", c.in.size(), " features ",
               c.in_features, " to ", c.out_features, " groups ", c.feature_groups, " and ",
               c.batch_groups));
}

TEST(Convolution, AllForms) {
  ConvolutionCase cases[] = {
      {2, 3, 5, {9, 8}, {3, 3}},
      {2, 16, 20, {9, 8}, {3, 3}, {2, 1}, {1, 1}},
      {1, 4, 6, {12}, {5}, {1}, {2}, {2}, {2}, {1}},
      {2, 2, 3, {4, 5, 6}, {2, 3, 1}, {1, 2, 1}, {1, 0, 1}},
      {3, 7, 2, {}, {}},
      {1, 1, 1, {1, 1}, {1, 1}},
      {2, 3, 4, {5, 5}, {7, 3}},  // no output
      {2, 3, 4, {6, 6}, {2, 2}, {1, 1}, {-1, 1}},
      {2, 6, 9, {7, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 1}, 3},
      {6, 4, 8, {7, 7}, {3, 3}, {1, 1}, {1, 1}, {}, {}, {}, 1, 2},
      {2, 24, 24, {7, 7}, {3, 3}, {1, 1}, {1, 1}, {}, {}, {}, 24},
      {2, 5, 10, {7, 7}, {3, 3}, {2, 2}, {1, 1}, {}, {2, 1}, {}, 5},
      // Channels apart: ends of vectors, holes, windows longer than the input, gradients by weights.
      {2, 27, 27, {9, 20}, {7, 5}, {1, 1}, {3, 2}, {}, {}, {0, 1}, 27},
      {3, 9, 9, {4, 11}, {3, 3}, {1, 1}, {1, 2}, {2, 2}, {1, 3}, {1, 0}, 9},
      {1, 31, 31, {40}, {31}, {1}, {15}, {}, {}, {}, 31},
      {19, 5, 19, {12, 13}, {10, 11}, {1, 1}, {1, 1}, {}, {}, {}, 1, 19},
      {16, 3, 8, {9, 8}, {4, 3}, {2, 1}, {1, 0}, {}, {2, 2}, {}, 1, 8},
      {2, 24, 8, {6, 7, 3}, {3, 2, 2}, {2, 1, 1}, {1, 0, 1}, {}, {}, {}, 8},
      {2, 6, 6, {3}, {9}, {1}, {4}, {}, {}, {}, 6},
      {0, 5, 10, {7, 7}, {3, 3}},
      {1, 0, 3, {4}, {2}},
      {2, 64, 17, {10, 11}, {1, 1}},
      {2, 3, 8, {11, 9}, {7, 5}, {2, 2}, {3, 2}},   // taps side by side
      {1, 64, 20, {6, 5}, {3, 3}, {1, 1}, {1, 1}},  // whole lines of bf16 and int8
      // Transposed: phases with taps, and some without; strides and dilations beside.
      {2, 6, 5, {5, 6}, {4, 3}, {1, 1}, {1, 1}, {2, 3}},
      {2, 3, 4, {5}, {2}, {1}, {0}, {3}},
      {1, 4, 6, {7, 8}, {3, 2}, {2, 3}, {1, 0}, {3, 2}, {2, 3}, {1, 0}},
      {2, 5, 9, {6}, {4}, {4}, {2}, {6}, {3}, {1}},
      {2, 9, 6, {4, 3}, {3, 3}, {1, 1}, {1, 1}, {2, 2}, {}, {}, 3},
      // Many features to few.
      {2, 16, 3, {9, 8}, {5, 5}, {1, 1}, {2, 2}},
      {3, 9, 1, {40}, {9}, {1}, {4}, {1}, {1}, {1}},
      {2, 24, 2, {7, 6}, {7, 4}, {1, 1}, {3, 2}, {2, 2}, {}, {1, 1}},
      {1, 8, 4, {5, 6, 4}, {2, 3, 3}, {1, 1, 1}, {1, 0, 2}, {1, 3, 2}, {2, 2, 1}, {1, 0, 1}},
      {2, 8, 1, {6, 5}, {4, 4}, {1, 1}, {-1, -2}, {2, 1}},
      {2, 8, 2, {3}, {4}, {1}, {9}, {2}},
      // Enough features to be transposed, where they stand before places.
      {2, 18, 21, {9, 7}, {3, 2}, {1, 1}, {1, 1}},
      {3, 16, 19, {21}, {4}, {2}, {3}, {3}, {2}, {1}},
  };
  Random random(1);
  for (const ConvolutionCase& c : cases) {
    for (int form : {0, 1, 2}) {
      CheckConvolution(random, c, DType::kF32, DType::kF32, form, 2e-5);
      CheckConvolution(random, c, DType::kF64, DType::kF64, form, 1e-13);
      CheckConvolution(random, c, DType::kBF16, DType::kBF16, form, 1e-2);
      CheckConvolution(random, c, DType::kS8, DType::kS32, form, 0);
      CheckConvolution(random, c, DType::kC64, DType::kC64, form, 2e-5);
    }
  }
}

TEST(Convolution, LargeEnoughForThreads) {
  Random random(2);
  for (int form : {0, 1}) {
    CheckConvolution(random, {2, 40, 70, {20, 20}, {3, 3}, {}, {1, 1}}, DType::kF32, DType::kF32,
                     form, 2e-5);
    CheckConvolution(random, {4, 64, 64, {20, 20}, {3, 3}, {}, {1, 1}, {}, {}, {}, 64}, DType::kF32,
                     DType::kF32, form, 2e-5);
    CheckConvolution(random, {2, 64, 3, {60, 60}, {7, 7}, {}, {3, 3}, {2, 2}}, DType::kF32,
                     DType::kF32, form, 2e-5);
  }
}

TEST(Convolution, SameBitsForAnyNumberOfThreads) {
  Random random(3);
  ConvolutionCase cases[] = {{2, 32, 48, {20, 20}, {3, 3}, {}, {1, 1}},
                             {4, 16, 24, {9, 9}, {4, 4}, {}, {2, 2}, {2, 2}},
                             {32, 4, 40, {12, 12}, {10, 10}, {}, {1, 1}},  // a weight gradient
                             {4, 70, 70, {20, 30}, {5, 5}, {}, {2, 2}, {}, {}, {}, 70},
                             {40, 4, 40, {22, 22}, {20, 20}, {}, {1, 1}, {}, {}, {}, 1, 40}};
  for (const ConvolutionCase& c : cases) {
    for (int form : {0, 1}) {
      for (DType dtype : {DType::kF32, DType::kBF16}) {
        CallUnderTest call = ConvolutionCall(random, c, dtype, dtype, form);
        auto one = RunRoutine(call, 1);
        ASSERT_TRUE(one) << one.error().ToString();
        for (int threads : {2, 7}) {
          auto more = RunRoutine(call, threads);
          ASSERT_TRUE(more) << more.error().ToString();
          ExpectNear((*more)[0], (*one)[0], 0, StrCat(Name(dtype), " on ", threads));
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft::cpu
