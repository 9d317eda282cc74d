// Kernels for GPUs that do much use the machine: none of 100'000 elements has fewer than 1024
// threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/str.h"
#include "compiler/lower/compile.h"
#include "hlo/text.h"
#include "program/cost.h"

namespace weft::compiler {
namespace {

constexpr int64_t kMuch = 400'000;  // instructions: 100'000 elements of a few each
constexpr int64_t kLeastThreads = 1024;

// Elements of the largest array that it reads or writes.
int64_t ElementsOf(const program::Kernel& kernel) {
  int64_t most = 0;
  for (const program::Memory& m : kernel.memories) most = std::max(most, m.count);
  return most;
}

// Whatever runs on fewer threads than it should, of kernels of at least so many elements.
std::string TooFewThreads(std::string_view text, int64_t elements = 0) {
  auto module = hlo::ParseModule(text);
  EXPECT_TRUE(module) << module.error().ToString();
  auto compiled = Compile(**module, {}, program::TargetInfo::H200(), {});
  EXPECT_TRUE(compiled) << compiled.error().ToString();
  std::string found;
  ForEachStep(compiled->program.steps, [&](const program::Step& step) {
    auto* launch = std::get_if<program::KernelStep>(&step.op);
    if (launch == nullptr) return;
    const program::Kernel& kernel = compiled->program.kernels[launch->kernel];
    int64_t threads = GridSize(kernel) * Extents(kernel).threads;
    if (WorkOf(kernel) < kMuch || threads >= kLeastThreads) return;
    if (ElementsOf(kernel) < elements) return;
    StrAppend(found, kernel.name, ": ", WorkOf(kernel), " instructions on ", threads, " threads\n");
  });
  return found;
}

constexpr std::string_view kFunctions = R"(HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] maximum(a, b) }
addi { a = s32[] parameter(0)  b = s32[] parameter(1)  ROOT s = s32[] add(a, b) }
last { a = f32[] parameter(0)  ROOT b = f32[] parameter(1) }
ge { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = pred[] compare(a, b), direction=GE }
ENTRY main {
  zero = f32[] constant(0)
  low = f32[] constant(-inf)
)";

struct Case {
  const char* name;
  const char* lines;
};
const Case kCases[] = {
    {"Elementwise", "  x = f32[1000000] parameter(0)\n  ROOT r = f32[1000000] exponential(x)\n}"},
    {"FullSum",
     "  x = f32[3000000] parameter(0)\n"
     "  ROOT r = f32[] reduce(x, zero), dimensions={0}, to_apply=add\n}"},
    {"FewLongRows",
     "  x = f32[3,1000000] parameter(0)\n"
     "  ROOT r = f32[3] reduce(x, zero), dimensions={1}, to_apply=add\n}"},
    {"ManyShortRows",
     "  x = f32[100000,20] parameter(0)\n"
     "  ROOT r = f32[100000] reduce(x, low), dimensions={1}, to_apply=max\n}"},
    {"FewColumns",
     "  x = f32[1000000,3] parameter(0)\n"
     "  ROOT r = f32[3] reduce(x, zero), dimensions={0}, to_apply=add\n}"},
    {"Columns",
     "  x = f32[4096,1024] parameter(0)\n"
     "  ROOT r = f32[1024] reduce(x, zero), dimensions={0}, to_apply=add\n}"},
    {"Softmax",
     "  x = f32[64,10000] parameter(0)\n"
     "  m = f32[64] reduce(x, low), dimensions={1}, to_apply=max\n"
     "  mb = f32[64,10000] broadcast(m), dimensions={0}\n"
     "  d = f32[64,10000] subtract(x, mb)\n  e = f32[64,10000] exponential(d)\n"
     "  s = f32[64] reduce(e, zero), dimensions={1}, to_apply=add\n"
     "  sb = f32[64,10000] broadcast(s), dimensions={0}\n"
     "  ROOT r = f32[64,10000] divide(e, sb)\n}"},
    {"SoftmaxOfFewRows",
     "  x = f32[2,500000] parameter(0)\n"
     "  m = f32[2] reduce(x, low), dimensions={1}, to_apply=max\n"
     "  mb = f32[2,500000] broadcast(m), dimensions={0}\n"
     "  d = f32[2,500000] subtract(x, mb)\n  e = f32[2,500000] exponential(d)\n"
     "  s = f32[2] reduce(e, zero), dimensions={1}, to_apply=add\n"
     "  sb = f32[2,500000] broadcast(s), dimensions={0}\n"
     "  ROOT r = f32[2,500000] divide(e, sb)\n}"},
    {"Transpose",
     "  x = f32[1000,2000] parameter(0)\n"
     "  ROOT r = f32[2000,1000] transpose(x), dimensions={1,0}\n}"},
    {"Cumsum",
     "  x = f32[1000000] parameter(0)\n"
     "  ROOT r = f32[1000000] reduce-window(x, zero), window={size=1000000 pad=999999_0}, "
     "to_apply=add\n}"},
    {"CumsumAlongRows",
     "  x = f32[8,100000] parameter(0)\n"
     "  ROOT r = f32[8,100000] reduce-window(x, zero), window={size=1x100000 pad=0_0x99999_0}, "
     "to_apply=add\n}"},
    {"CumsumDownColumns",
     "  x = f32[20000,64] parameter(0)\n"
     "  ROOT r = f32[20000,64] reduce-window(x, zero), window={size=20000x1 pad=19999_0x0_0}, "
     "to_apply=add\n}"},
    {"Gather",
     "  x = f32[5000,64] parameter(0)\n  i = s32[20000,1] parameter(1)\n"
     "  ROOT r = f32[20000,64] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, "
     "start_index_map={0}, index_vector_dim=1, slice_sizes={1,64}\n}"},
    {"Histogram",
     "  x = s32[256] parameter(0)\n  i = s32[500000,1] parameter(1)\n"
     "  u = s32[500000] parameter(2)\n"
     "  ROOT r = s32[256] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=addi\n}"},
    {"FloatHistogram",
     "  x = f32[256] parameter(0)\n  i = s32[500000,1] parameter(1)\n"
     "  u = f32[500000] parameter(2)\n"
     "  ROOT r = f32[256] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add\n}"},
    {"ReplacedRows",
     "  x = f32[5000,64] parameter(0)\n  i = s32[20000,1] parameter(1)\n"
     "  u = f32[20000,64] parameter(2)\n"
     "  ROOT r = f32[5000,64] scatter(x, i, u), update_window_dims={1}, "
     "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
     "to_apply=last\n}"},
    {"Pooling",
     "  x = f32[8,224,224,16] parameter(0)\n"
     "  ROOT r = f32[8,112,112,16] reduce-window(x, low), window={size=1x2x2x1 "
     "stride=1x2x2x1}, to_apply=max\n}"},
    {"PoolingGradient",
     "  x = f32[8,224,224,16] parameter(0)\n  g = f32[8,112,112,16] parameter(1)\n"
     "  ROOT r = f32[8,224,224,16] select-and-scatter(x, g, zero), window={size=1x2x2x1 "
     "stride=1x2x2x1}, select=ge, scatter=add\n}"},
};

class GpuLaunch : public testing::TestWithParam<Case> {};
TEST_P(GpuLaunch, UsesTheMachine) {
  EXPECT_EQ(TooFewThreads(StrCat(kFunctions, GetParam().lines)), "");
}
INSTANTIATE_TEST_SUITE_P(Kernels, GpuLaunch, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

// The cases of a text test, or a module.
std::vector<std::string> ModulesIn(const std::filesystem::path& path) {
  auto text = ReadFile(path.string());
  EXPECT_TRUE(text) << path;
  std::vector<std::string> modules;
  for (std::string rest = *text; !rest.empty();) {
    size_t end = rest.find("\n// -----");
    modules.push_back(
        rest.substr(0, rest.find("\n// expect") < end ? rest.find("\n// expect") : end));
    rest = end == rest.npos ? "" : rest.substr(end + 1);
  }
  return modules;
}

// What text tests run, and what JAX sends for bench/gpu/programs.py at full size.
TEST(GpuLaunch, ProgramsOfTheRepositoryUseTheMachine) {
  // Where arrays are small, much work is a guess: loops of which nobody knows how long they are.
  constexpr int64_t kElements = 100'000;
  int compiled = 0;
  for (const char* folder : {"test/gpu/programs", "test/run", "test/lower"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() != ".hlo") continue;
      for (const std::string& text : ModulesIn(entry.path())) {
        auto module = hlo::ParseModule(text);
        if (!module || !Compile(**module, {}, program::TargetInfo::H200(), {})) continue;
        EXPECT_EQ(TooFewThreads(text, kElements), "") << entry.path();
        ++compiled;
      }
    }
  }
  EXPECT_GT(compiled, 150);  // not those of several devices, and what the evaluator alone runs
}

// What the program keeps for itself while it runs.
int64_t TempBytes(std::string_view text) {
  auto module = hlo::ParseModule(text);
  EXPECT_TRUE(module) << module.error().ToString();
  auto compiled = Compile(**module, {}, program::TargetInfo::H200(), {});
  EXPECT_TRUE(compiled) << compiled.error().ToString();
  int64_t bytes = 0;
  for (const program::Buffer& buffer : compiled->program.buffers) {
    if (buffer.kind == program::BufferKind::kTemp && buffer.base < 0) bytes += *ByteSize(buffer);
  }
  return bytes;
}

// Rows that do not fit a block: exponentials are computed again rather than kept in memory.
TEST(GpuFusion, LargeArraysAreComputedAgain) {
  constexpr std::string_view kLines = R"(
  h = bf16[64,1000000] parameter(0)
  x = f32[64,1000000] convert(h)
  m = f32[64] reduce(x, low), dimensions={1}, to_apply=max
  mb = f32[64,1000000] broadcast(m), dimensions={0}
  d = f32[64,1000000] subtract(x, mb)
  e = f32[64,1000000] exponential(d)
  s = f32[64] reduce(e, zero), dimensions={1}, to_apply=add
  sb = f32[64,1000000] broadcast(s), dimensions={0}
  ROOT r = f32[64,1000000] divide(e, sb)
})";
  EXPECT_LT(TempBytes(StrCat(kFunctions, kLines)), int64_t{1} << 20);
}

// A transpose that keeps rows is read through, also by several kernels.
TEST(GpuFusion, RowsThatChangePlacesAreReadThrough) {
  constexpr std::string_view kLines = R"(
  x = f32[64,256,1024] parameter(0)
  t = f32[256,64,1024] transpose(x), dimensions={1,0,2}
  s = f32[1024] reduce(t, zero), dimensions={0,1}, to_apply=add
  sb = f32[256,64,1024] broadcast(s), dimensions={2}
  ROOT r = f32[256,64,1024] divide(t, sb)
})";
  EXPECT_LT(TempBytes(StrCat(kFunctions, kLines)), int64_t{8} << 20);
}

// Bytes that a thread reads at once of the first parameter of the one kernel.
int64_t BytesReadAtOnce(std::string_view lines) {
  auto module = hlo::ParseModule(StrCat(kFunctions, lines));
  EXPECT_TRUE(module) << module.error().ToString();
  auto compiled = Compile(**module, {}, program::TargetInfo::H200(), {});
  EXPECT_TRUE(compiled) << compiled.error().ToString();
  const program::Kernel& kernel = compiled->program.kernels[0];
  for (const program::Instr& i : kernel.code) {
    if (i.op != program::Op::kLoad || i.memory != 0) continue;
    EXPECT_EQ(i.align, i.type.lanes * ByteWidth(kernel.memories[0].dtype));
    return i.align;
  }
  return 0;
}

// Of f32 and of 16 bits alike, where enough threads are left and not much is computed.
TEST(GpuAccess, ReadsSixteenBytesAtOnce) {
  EXPECT_EQ(BytesReadAtOnce("x = f32[4194304] parameter(0)\nROOT r = f32[4194304] negate(x)\n}"),
            16);
  EXPECT_EQ(BytesReadAtOnce("x = bf16[4194304] parameter(0)\nROOT r = bf16[4194304] negate(x)\n}"),
            16);
  EXPECT_EQ(BytesReadAtOnce("x = bf16[64,65536] parameter(0)\nb = bf16[65536] parameter(1)\n"
                            "y = bf16[64,65536] broadcast(b), dimensions={1}\n"
                            "ROOT r = bf16[64,65536] add(x, y)\n}"),
            16);
  // Half of the machine's threads are enough; of fewer elements eight a thread would leave less.
  EXPECT_EQ(BytesReadAtOnce("x = f32[1000000] parameter(0)\nROOT r = f32[1000000] negate(x)\n}"),
            16);
  EXPECT_EQ(BytesReadAtOnce("x = bf16[1048576] parameter(0)\nROOT r = bf16[1048576] negate(x)\n}"),
            8);
  // An array of f32 beside it has 16 bytes for four.
  EXPECT_EQ(BytesReadAtOnce("x = bf16[4194304] parameter(0)\nROOT r = f32[4194304] convert(x)\n}"),
            8);
}

}  // namespace
}  // namespace weft::compiler
