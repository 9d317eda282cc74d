// Indices in 32 bits: the same results, and what is left of arithmetic in 64 bits.
#include "gpu/narrow_indices.h"

#include <gtest/gtest.h>

#include <string>

#include "gpu/nvrtc.h"
#include "gpu/render_cuda.h"
#include "gpu/render_program.h"
#include "program/builder.h"
#include "program/interpret.h"
#include "program/program.h"

namespace weft::gpu {
namespace {

using program::Access;
using program::Kernel;
using program::KernelBuilder;
using program::LoopKind;
using program::Op;
using program::ValueId;

// y[i, j, k] = x[k, i, (j + shift) % b], clamped: products, divisions, remainders, a serial loop.
Kernel Moved(int64_t a, int64_t b, int64_t c) {
  KernelBuilder k("moved");
  auto x = k.Param("x", DType::kF32, a * b * c, Access::kRead);
  auto s = k.Param("s", DType::kS32, 1, Access::kRead);
  auto y = k.Param("y", DType::kF32, a * b * c, Access::kWrite);
  k.For(LoopKind::kParallel, 0, a * b, [&](ValueId n) {
    ValueId i = k.Div(n, k.Int(b)), j = k.Rem(n, k.Int(b));
    ValueId shift = k.Cast(k.Load(s, k.Int(0)), DType::kS64);
    ValueId at = k.Min(k.Max(k.Add(j, shift), k.Int(0)), k.Int(b - 1));
    k.For(LoopKind::kSerial, 0, c, [&](ValueId l) {
      ValueId from = k.Add(k.Mul(k.Add(k.Mul(l, k.Int(a)), i), k.Int(b)), at);
      k.Store(y, k.Add(k.Mul(n, k.Int(c)), l), k.Load(x, from));
    });
  });
  return std::move(k).Build();
}

program::Program ProgramOf(Kernel kernel, int64_t n) {
  program::Program p;
  p.name = "moved";
  auto x = AddBuffer(p, "x", Shape(DType::kF32, {n}), program::BufferKind::kParameter, 0);
  auto s = AddBuffer(p, "s", Shape(DType::kS32, {1}), program::BufferKind::kParameter, 1);
  auto y = AddBuffer(p, "y", Shape(DType::kF32, {n}), program::BufferKind::kResult, 0);
  int32_t k = AddKernel(p, std::move(kernel));
  p.steps.push_back(MakeStep(program::KernelStep{k}, {In(p, x), In(p, s), Out(p, y)}));
  return p;
}

int64_t Count(const std::string& text, std::string_view what) {
  int64_t n = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++n;
  return n;
}

// Arithmetic in 64 bits, in the text of a kernel of the kernel language.
int64_t WideOperations(const Kernel& kernel) {
  std::string text = program::Print(kernel);
  int64_t n = 0;
  for (std::string_view op : {"add s64", "mul s64", "div s64", "rem s64", "min s64", "max s64"}) {
    n += Count(text, op);
  }
  return n;
}

TEST(NarrowIndices, ComputesTheSame) {
  Literal x(Shape(DType::kF32, {3 * 5 * 7})), s(Shape(DType::kS32, {1}));
  for (int64_t i = 0; i < x.size(); ++i) x.SetDouble(i, static_cast<double>(i));
  for (int64_t shift : {0, 2, -3, 2147483647, -2147483647}) {
    s.SetInt(0, shift);
    program::Program wide = ProgramOf(Moved(3, 5, 7), x.size());
    program::Program narrow = ProgramOf(NarrowIndices(Moved(3, 5, 7)), x.size());
    Status verified = Verify(narrow);
    ASSERT_TRUE(verified) << verified.error().ToString() << Print(narrow);
    std::vector<Literal> arguments = {x, s};
    auto want = program::Interpret(wide, arguments, {}),
         got = program::Interpret(narrow, arguments, {});
    ASSERT_TRUE(want && got);
    EXPECT_TRUE((*want)[0] == (*got)[0]) << shift;
  }
}

TEST(NarrowIndices, LeavesWhatDoesNotFit) {
  Kernel small = Moved(64, 128, 32);
  EXPECT_GT(WideOperations(small), 5);
  // The sum of a counter and any s32 is all that needs more, and what is made of it before the
  // clamp.
  EXPECT_LE(WideOperations(NarrowIndices(small)), 3) << Print(NarrowIndices(small));
  // 2^33 elements.
  Kernel large = Moved(int64_t{1} << 11, int64_t{1} << 11, int64_t{1} << 11);
  EXPECT_GT(WideOperations(NarrowIndices(large)), 3);
}

// No 64-bit multiplications and divisions in the PTX; products that widen 32 bits are addresses.
TEST(NarrowIndices, NoWideInstructions) {
  static const std::string kPackages[] = {".venv/lib/python3*/site-packages/nvidia/*/lib"};
  auto nvrtc = Nvrtc::Load(kPackages);
  if (!nvrtc) GTEST_SKIP() << "NVRTC was not found: " << nvrtc.error().ToString();
  auto wide_of = [&](const Kernel& kernel) -> int64_t {
    program::Program p = ProgramOf(kernel, kernel.memories[0].count);
    auto ptx = (*nvrtc)->Compile(RenderProgram(p).text, "moved", "compute_90");
    EXPECT_TRUE(ptx) << ptx.error().ToString();
    if (!ptx) return 0;
    return Count(*ptx, "mul.lo.s64") + Count(*ptx, "mad.lo.s64") + Count(*ptx, "div.s64") +
           Count(*ptx, "rem.s64") + Count(*ptx, "div.u64") + Count(*ptx, "rem.u64") +
           Count(*ptx, "mul.hi.u64") + Count(*ptx, "mul.hi.s64");
  };
  EXPECT_EQ(wide_of(Moved(64, 127, 32)), 0);
}

}  // namespace
}  // namespace weft::gpu
