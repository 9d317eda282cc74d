// Products and the kernels behind them.
#include <limits>

#include "base/elements.h"
#include "base/str.h"
#include "gpu/routines_cases.h"

namespace weft::gpu {
namespace {

// relu(a b + x), with one more block of rows than run at once.
std::string ResidualText(int64_t m, int64_t n, int64_t k) {
  std::string c = StrCat("bf16[", m, ",", n, "]"), flat = StrCat("bf16[", m * n, "] align 16");
  return StrCat("program residual\nbuffer a: bf16[", m, ",", k, "] parameter 0\nbuffer b: bf16[", k,
                ",", n, "] parameter 1\nbuffer x: ", c, " parameter 2\nbuffer y: ", c,
                " result 0\nkernel add_relu(read m0: ", flat, ", update m1: ", flat,
                ") {\n  parallel %0 = 0..", m * n / 4, " {\n    %1 = mul s64 %0, 4\n",
                "    %2 = load f32x4 m1[%1] align 8\n    %3 = load f32x4 m0[%1] align 8\n",
                "    %4 = add f32x4 %2, %3\n    %5 = narrow bf16 f32x4 %4\n",
                "    %6 = max f32x4 %5, 0\n    store f32x4 m1[%1], %6 align 8\n  }\n}\n",
                "steps {\n  call \"gemm\"(read a, read b, write y) {m = ", m, ", n = ", n,
                ", k = ", k, "}\n  launch add_relu(read x, update y)\n}\n");
}

// |a b^T|, an element at a time; `by_place`: plus the number of the element.
std::string AbsoluteText(int64_t m, int64_t n, int64_t k, bool by_place) {
  std::string flat = StrCat("f16[", m * n, "]");
  return StrCat("program absolute\nbuffer a: f16[", m, ",", k, "] parameter 0\nbuffer b: f16[", n,
                ",", k, "] parameter 1\nbuffer y: f16[", m, ",", n,
                "] result 0\nkernel absolute(update m0: ", flat, ") {\n  parallel %0 = 0..", m * n,
                " {\n    %1 = load f32 m0[%0]\n    %2 = abs f32 %1\n",
                by_place ? "    %3 = cast f32 from s64 %0\n    %4 = add f32 %2, %3\n" : "",
                "    store f32 m0[%0], ", by_place ? "%4" : "%2",
                "\n  }\n}\nsteps {\n  call \"gemm\"(read a, read b, write y) {m = ", m, ", n = ", n,
                ", k = ", k, ", trans_b = true}\n  launch absolute(update y)\n}\n");
}

// A kernel that adds a number for each column, or an element each, and takes the maximum with 0.
std::string LibraryKernelText(std::string_view type, int64_t rows, int64_t columns, bool bias) {
  std::string round = type == "f32" ? "" : StrCat("      %6 = narrow ", type, " f32 %sum\n");
  return StrCat("kernel behind(update m0: ", type, "[", rows * columns, "], read m1: ", type, "[",
                bias ? columns : rows * columns, "]) {\n  parallel %0 = 0..", rows,
                " {\n    parallel %1 = 0..", columns, " {\n      %2 = mul s64 %0, ", columns,
                "\n      %3 = add s64 %2, %1\n      %4 = load f32 m0[%3]\n      %5 = load f32 m1[",
                bias ? "%1" : "%3", "]\n      ", round.empty() ? "%6" : "%sum",
                " = add f32 %4, %5\n", round,
                "      %7 = max f32 %6, 0\n      store f32 m0[%3], %7\n    }\n  }\n}\n");
}

std::string LibraryGemmText(std::string_view type, int64_t m, int64_t n, int64_t k, bool bias) {
  std::string added = bias ? StrCat("[", n, "]") : StrCat("[", m, ",", n, "]");
  return StrCat("program p\nbuffer a: ", type, "[", m, ",", k, "] parameter 0\nbuffer b: ", type,
                "[", k, ",", n, "] parameter 1\nbuffer x: ", type, added,
                " parameter 2\nbuffer y: ", type, "[", m, ",", n, "] result 0\n",
                LibraryKernelText(type, m, n, bias),
                "steps {\n  call \"gemm\"(read a, read b, write y) {m = ", m, ", n = ", n,
                ", k = ", k, "}\n  launch behind(update y, read x)\n}\n");
}

// Images of 14 x 16 with features beside each other.
std::string LibraryConvolutionText(std::string_view type, int64_t features, bool bias) {
  std::string image = StrCat("[2,14,16,", features, "]"), square = StrCat(features, ",", features);
  return StrCat("program p\nbuffer a: ", type, image, " parameter 0\nbuffer b: ", type, "[3,3,",
                square, "] parameter 1\nbuffer x: ", type,
                bias ? StrCat("[", features, "]") : image, " parameter 2\nbuffer y: ", type, image,
                " result 0\n", LibraryKernelText(type, 2 * 14 * 16, features, bias),
                "steps {\n  call \"convolution\"(read a, read b, write y) {input_shape = ", image,
                ", kernel_shape = [3, 3, ", square, "], output_shape = ", image,
                ", input_layout = [0, 3, 1, 2], kernel_layout = [2, 3, 0, 1], output_layout = [0, "
                "3, 1, 2], pads = [1, 1]",
                type == "f32" ? ", precision = \"default\"" : "",
                "}\n  launch behind(update y, read x)\n}\n");
}

// NaN among the operands, and in what is added: libraries have to let them through.
void PutNan(Literal& argument, int64_t number) {
  if (number == 1) return;
  double nan = std::numeric_limits<double>::quiet_NaN();
  DType type = argument.shape().dtype();
  StoreF64(type, &nan, 1, argument.mutable_data() + 5 * ByteWidth(type));
}

}  // namespace

std::vector<RoutineCase> EpilogueCases(bool few) {
  // Sums in another order: a unit of the rounded product, and one of what is computed from it.
  constexpr double kSlack = 4;
  const int64_t rows = 64 * (few ? 3 : 265);  // a tile more than blocks: those of an H200, or two
  std::vector<RoutineCase> cases;
  for (const char* type : {"bf16", "f16", "f32"}) {
    for (bool bias : {false, true}) {
      if (few) continue;  // on the host there is no library
      std::string name = StrCat(type, bias ? " bias" : " residual");
      // A product of 16 bits is rounded before it is added, which libraries do not do.
      const int64_t fused = std::string_view(type) == "f32" ? 1 : 0;
      auto add = [&](const std::string& suffix, std::string text, double slack) {
        cases.push_back({.name = name + suffix,
                         .text = std::move(text),
                         .slack = slack,
                         .prepare = PutNan,
                         .fused_by_library = fused});
      };
      add("", LibraryGemmText(type, 64, 32, 16, bias), kSlack);
      double slack = std::string_view(type) == "f32" ? 40000 : kSlack;  // TF32
      add(" of images", LibraryConvolutionText(type, 64, bias), slack);
    }
  }
  std::vector<RoutineCase> kernels = {
      {.name = "residual", .text = ResidualText(rows, 128, 16), .slack = kSlack, .fused = 1},
      {.name = "few_rows", .text = ResidualText(64, 128, 16), .slack = kSlack},
      {.name = "scalars", .text = AbsoluteText(rows, 64, 16, false), .slack = kSlack, .fused = 1},
      {.name = "by_place", .text = AbsoluteText(rows, 64, 16, true), .slack = kSlack}};
  cases.insert(cases.end(), kernels.begin(), kernels.end());
  return cases;
}

}  // namespace weft::gpu
