// Products and the kernels behind them.
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

}  // namespace

std::vector<RoutineCase> EpilogueCases(bool few) {
  // Sums in another order: a unit of the rounded product, and one of what is computed from it.
  constexpr double kSlack = 4;
  const int64_t rows = 64 * (few ? 3 : 265);  // a tile more than blocks: those of an H200, or two
  return {
      {.name = "residual", .text = ResidualText(rows, 128, 16), .slack = kSlack, .fused = 1},
      {.name = "few_rows", .text = ResidualText(64, 128, 16), .slack = kSlack, .fused = 0},
      {.name = "scalars", .text = AbsoluteText(rows, 64, 16, false), .slack = kSlack, .fused = 1},
      {.name = "by_place", .text = AbsoluteText(rows, 64, 16, true), .slack = kSlack, .fused = 0}};
}

}  // namespace weft::gpu
