#include "compiler/lower/table.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/str.h"
#include "compiler/lower/compile.h"
#include "hlo/text.h"

namespace weft::compiler {
namespace {

using program::TargetInfo;

std::vector<LoweringChoice> ChoicesOf(std::string_view text, const TargetInfo& target) {
  auto module = hlo::ParseModule(text);
  EXPECT_TRUE(module) << module.error().ToString();
  auto compiled = Compile(**module, {}, target, {}, /*explain=*/true);
  EXPECT_TRUE(compiled) << compiled.error().ToString();
  return std::move(compiled->choices);
}

// The row that lowers the last instruction.
std::string RowOf(std::string_view text, const TargetInfo& target) {
  std::vector<LoweringChoice> choices = ChoicesOf(text, target);
  return choices.empty() ? "" : std::string(choices.back().taken.row);
}

// Why a row refused the last instruction; empty: it was not asked.
std::string Refusal(std::string_view text, const TargetInfo& target, std::string_view row) {
  std::vector<LoweringChoice> choices = ChoicesOf(text, target);
  for (const RowVerdict& verdict : choices.back().refused) {
    if (verdict.row == row) return std::string(verdict.reason);
  }
  return "";
}

// A module with these lines in the entry, and reducers.
std::string Entry(std::string_view lines) {
  return StrCat(R"(HloModule m
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
ENTRY main {
)",
                lines, "\n}");
}

// A product of x and y, the dimension `k` of both contracted.
std::string Dot(std::string_view x, std::string_view y, std::string_view z, int lhs, int rhs,
                std::string_view batch = "") {
  return Entry(StrCat("  x = ", x, " parameter(0)\n  y = ", y, " parameter(1)\n  ROOT z = ", z,
                      " dot(x, y)", batch, ", lhs_contracting_dims={", lhs,
                      "}, rhs_contracting_dims={", rhs, "}"));
}

std::string Reduce(std::string_view from, std::string_view to, int dim) {
  return Entry(StrCat("  x = ", from, " parameter(0)\n  z = f32[] constant(0)\n  ROOT r = ", to,
                      " reduce(x, z), dimensions={", dim, "}, to_apply=add"));
}

const TargetInfo kCpu = TargetInfo::CpuAvx512(), kGpu = TargetInfo::H200();

TEST(Table, EveryRowIsWhole) {
  LoweringTable cpu = CpuTable(), gpu = GpuTable();
  for (auto rows : {cpu.ops, cpu.kernels, gpu.ops, gpu.kernels, SharedOps()}) {
    for (const LoweringRow* row : rows) {
      EXPECT_FALSE(row->name.empty());
      EXPECT_NE(row->matches, nullptr) << row->name;
      EXPECT_NE(row->lower, nullptr) << row->name;
      EXPECT_EQ(std::count(rows.begin(), rows.end(), row), 1) << row->name;
    }
  }
  // Whatever refuses before it, the last row for kernels takes them.
  EXPECT_EQ(cpu.kernels.back()->name, "loop");
  EXPECT_EQ(gpu.kernels.back()->name, "loop");
}

TEST(Table, Products) {
  std::string large = Dot("f32[64,48]", "f32[48,80]", "f32[64,80]", 1, 0);
  EXPECT_EQ(RowOf(large, kCpu), "gemm");
  EXPECT_EQ(RowOf(large, kGpu), "gemm");
  EXPECT_EQ(Refusal(large, kCpu, "tall dot"), "rows of operands are not contracted");
  EXPECT_EQ(Refusal(large, kGpu, "tall dot"), "");  // not a row of that table
  std::string tall = Dot("f32[1000,8]", "f32[1000,8]", "f32[8,8]", 0, 0);
  EXPECT_EQ(RowOf(tall, kCpu), "tall dot");
  EXPECT_EQ(RowOf(tall, kGpu), "gemm");
  // A vector lies both ways, on either side.
  EXPECT_EQ(RowOf(Dot("f32[4096,8]", "f32[4096]", "f32[8]", 0, 0), kCpu), "tall dot");
  EXPECT_EQ(RowOf(Dot("f32[4096]", "f32[4096,8]", "f32[8]", 0, 0), kCpu), "tall dot");
  std::string vectors = Dot("f32[1000]", "f32[1000]", "f32[]", 0, 0);
  EXPECT_EQ(Refusal(vectors, kCpu, "tall dot"), "both operands are vectors");
  std::string many = Dot("f32[256,4,4]", "f32[256,4,4]", "f32[256,4,4]", 2, 1,
                         ", lhs_batch_dims={0}, rhs_batch_dims={0}");
  EXPECT_EQ(RowOf(many, kCpu), "dot in lanes");
  EXPECT_EQ(RowOf(many, kGpu), "loop");
  std::string_view batch = ", lhs_batch_dims={0}, rhs_batch_dims={0}";
  std::string tiny = Dot("c64[300,8,8]", "c64[300,8,8]", "c64[300,8,8]", 2, 1, batch);
  EXPECT_EQ(RowOf(tiny, kCpu), "loop");
  EXPECT_EQ(RowOf(tiny, kGpu), "gemm");
  EXPECT_EQ(Refusal(tiny, kCpu, "gemm"),
            "for each product of the batch a call would cost more than the product");
  std::string turned = Dot("c64[300,8,8]", "c64[300,8,8]", "c64[300,8,8]", 2, 2, batch);
  EXPECT_EQ(RowOf(turned, kCpu), "gemm");  // columns of complex numbers that lie apart
  std::string vector = Dot("f32[20,64]", "f32[64]", "f32[20]", 1, 0);
  EXPECT_EQ(RowOf(vector, kCpu), "dot along the contraction");
}

TEST(Table, Reductions) {
  EXPECT_EQ(RowOf(Reduce("f32[64,80]", "f32[80]", 0), kCpu), "column reduction");
  EXPECT_EQ(RowOf(Reduce("f32[64,80]", "f32[80]", 0), kGpu), "reduction by blocks");
  EXPECT_EQ(RowOf(Reduce("f32[64,1000]", "f32[64]", 1), kCpu), "row reduction");
  std::string few_rows = Reduce("f32[2,1000000]", "f32[2]", 1);
  EXPECT_EQ(RowOf(few_rows, kCpu), "row reduction in pieces");
  EXPECT_EQ(Refusal(few_rows, kCpu, "row reduction"), "there are few rows, and they are long");
  EXPECT_EQ(Refusal(few_rows, kCpu, "column reduction"), "the minor dimension is reduced");
  EXPECT_EQ(RowOf(Reduce("f32[64,20]", "f32[64]", 1), kGpu), "loop");
  EXPECT_EQ(Refusal(Reduce("f32[64,20]", "f32[64]", 1), kGpu, "reduction by blocks"),
            "a thread for each result keeps the machine busy");
}

TEST(Table, PartsInOnePiece) {
  std::string rows = Entry(
      "  x = f32[8,100] parameter(0)\n"
      "  ROOT y = f32[2,100] slice(x), slice={[3:5], [0:100]}");
  EXPECT_EQ(RowOf(rows, kCpu), "copy of a part");
  EXPECT_EQ(RowOf(rows, kGpu), "loop");
  std::string part_of_a_row = Entry(
      "  x = f32[8,100] parameter(0)\n"
      "  ROOT y = f32[1,7] slice(x), slice={[3:4], [90:97]}");
  EXPECT_EQ(RowOf(part_of_a_row, kCpu), "copy of a part");
  std::string columns = Entry(
      "  x = f32[8,100] parameter(0)\n"
      "  ROOT y = f32[8,10] slice(x), slice={[0:8], [0:10]}");
  EXPECT_EQ(Refusal(columns, kCpu, "copy of a part"), "its elements do not follow each other");
  std::string strided = Entry(
      "  x = f32[100] parameter(0)\n"
      "  ROOT y = f32[50] slice(x), slice={[0:100:2]}");
  EXPECT_EQ(Refusal(strided, kCpu, "copy of a part"), "its elements do not follow each other");
}

TEST(Table, Kernels) {
  EXPECT_EQ(RowOf(Entry("  x = f32[100] parameter(0)\n  ROOT y = f32[100] tanh(x)"), kCpu), "loop");
  EXPECT_EQ(RowOf(Entry("  x = f32[256,256] parameter(0)\n"
                        "  ROOT y = f32[256,256] transpose(x), dimensions={1,0}"),
                  kCpu),
            "transpose by tiles");
  EXPECT_EQ(RowOf(Entry("  x = f32[100] parameter(0)\n  y = f32[60] parameter(1)\n"
                        "  ROOT z = f32[160] concatenate(x, y), dimensions={0}"),
                  kCpu),
            "loop for each operand");
  EXPECT_EQ(RowOf(Entry("  x = f32[100,2] parameter(0)\n  y = f32[100,1] parameter(1)\n"
                        "  ROOT z = f32[100,3] concatenate(x, y), dimensions={1}"),
                  kCpu),
            "interleaved loop");
  EXPECT_EQ(RowOf(Entry("  x = f32[100] parameter(0)\n  y = f32[4] parameter(1)\n"
                        "  i = s32[] parameter(2)\n"
                        "  ROOT z = f32[100] dynamic-update-slice(x, y, i)"),
                  kGpu),
            "update");
}

TEST(Table, AnEpilogueIsPartOfTheCallBefore) {
  std::string text = Entry(
      "  x = f32[64,48] parameter(0)\n  y = f32[48,80] parameter(1)\n"
      "  d = f32[64,80] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "  ROOT t = f32[64,80] tanh(d)");
  EXPECT_EQ(RowOf(text, kCpu), "epilogue of a product");
  EXPECT_EQ(RowOf(text, kGpu), "loop");
}

std::string Scatter(std::string_view window, std::string_view more) {
  return Entry(StrCat("  x = f32[50,", window, "] parameter(0)\n  i = s32[9,1] parameter(1)\n",
                      "  u = f32[9,", window, "] parameter(2)\n  ROOT r = f32[50,", window,
                      "] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, "
                      "scatter_dims_to_operand_dims={0}, index_vector_dim=1, ",
                      more, "to_apply=add"));
}

TEST(Table, UniqueScatters) {
  EXPECT_EQ(RowOf(Scatter("1", "unique_indices=true, "), kCpu), "scatter in lanes");
  EXPECT_EQ(Refusal(Scatter("1", ""), kCpu, "scatter in lanes"), "updates may meet");
  EXPECT_EQ(Refusal(Scatter("7", "unique_indices=true, "), kCpu, "scatter in lanes"),
            "windows are runs of memory");
}

TEST(Table, RowsOfGpus) {
  EXPECT_EQ(RowOf(Entry("  x = f32[100,200] parameter(0)\n"
                        "  ROOT r = f32[200,100] transpose(x), dimensions={1,0}"),
                  kGpu),
            "transpose by shared tiles");
  EXPECT_EQ(RowOf(Scatter("7", ""), kGpu), "parallel scatter");
  EXPECT_EQ(ChoicesOf(Scatter("7", "unique_indices=true, "), kGpu).back().taken.reason,
            "no two updates meet");
  EXPECT_EQ(ChoicesOf(Scatter("7", ""), kGpu).back().taken.reason,
            "updates are sorted by place, in their order");
  auto cumsum = [](std::string_view dims, std::string_view window) {
    return Entry(StrCat("  x = f32[", dims, "] parameter(0)\n  zero = f32[] constant(0)\n",
                        "  ROOT r = f32[", dims, "] reduce-window(x, zero), window={", window,
                        "}, to_apply=add"));
  };
  auto row_of_scan = [&](std::string_view text) {
    for (const LoweringChoice& choice : ChoicesOf(text, kGpu)) {
      if (choice.name.contains("scan")) return std::string(choice.taken.row);
    }
    return std::string();
  };
  EXPECT_EQ(row_of_scan(cumsum("5000", "size=5000 pad=4999_0")), "reduce then scan");
  EXPECT_EQ(row_of_scan(cumsum("60", "size=60 pad=59_0")), "scan");
}

TEST(Table, DisabledRowsAreNotAsked) {
  auto module = hlo::ParseModule(Reduce("f32[64,1024]", "f32[64]", 1));
  ASSERT_TRUE(module);
  auto row = [&](CompileOptions options) {
    auto compiled = Compile(**module, options, kCpu, {}, /*explain=*/true);
    EXPECT_TRUE(compiled) << compiled.error().ToString();
    return std::string(compiled->choices.back().taken.row);
  };
  std::string usual = row({});
  CompileOptions options;
  options.lower.disable = {usual};
  std::replace(options.lower.disable[0].begin(), options.lower.disable[0].end(), ' ', '-');
  EXPECT_NE(row(options), usual);
  options.lower.disable = {"no-such-row"};
  auto wrong = Compile(**module, options, kCpu);
  ASSERT_FALSE(wrong);
  EXPECT_TRUE(wrong.error().message().contains("no-such-row")) << wrong.error().ToString();
}

TEST(Table, TextOfAChoice) {
  LoweringChoice choice{"fusion.3", "model.py:12", {"loop", "why"}, {{"tiles", "why not"}}, {}};
  EXPECT_EQ(ToString(choice), "fusion.3 (model.py:12): loop: why\n  not tiles: why not\n");
  choice.steps = {"fusion.3", "fusion.3.join"};
  EXPECT_EQ(ToString(choice),
            "fusion.3 (model.py:12): loop: why\n  steps: fusion.3, fusion.3.join\n"
            "  not tiles: why not\n");
}

}  // namespace
}  // namespace weft::compiler
