// Kernels and programs as CUDA C that NVRTC accepts. Without NVRTC only the text is made.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

#include "base/file.h"
#include "gpu/nvrtc.h"
#include "gpu/render_program.h"
#include "program/builder.h"
#include "program/program.h"
#include "program/regions.h"

namespace weft::gpu {
namespace {

using program::Access;
using program::KernelBuilder;
using program::LoopKind;
using program::Op;
using program::Program;
using program::ValueId;

const Nvrtc* TestNvrtc() {
  static const std::string kPackages[] = {".venv/lib/python3*/site-packages/nvidia/*/lib"};
  static auto nvrtc = Nvrtc::Load(kPackages);
  return nvrtc ? nvrtc->get() : nullptr;
}
#define NEEDS_NVRTC() \
  if (TestNvrtc() == nullptr) GTEST_SKIP() << "NVRTC was not found: the text is not compiled"

void ExpectCompiles(const std::string& text, const std::string& name) {
  auto cubin = TestNvrtc()->Compile(text, name, "sm_90a");
  EXPECT_TRUE(cubin) << cubin.error().ToString() << "\n" << text;
  if (cubin) EXPECT_FALSE(cubin->empty());
}

Program FromFile(const std::string& name) {
  auto text = ReadFile("test/program/" + name + ".program");
  EXPECT_TRUE(text) << name;
  auto program = program::Parse(*text);
  EXPECT_TRUE(program && program::Verify(*program)) << name;
  return std::move(*program);
}

const char* const kFiles[] = {"async_copy",  "atomic",      "combine",    "functions",    "complex",
                              "conditional", "elementwise", "gemm",       "ops",          "softmax",
                              "threads",     "tiles",       "vector_sum", "while_counter"};

// A temporary of the loop lies in a result that nothing has written yet, and half of its state in
// memory of which the other half is nobody's: only what was written is copied to shared memory.
TEST(NativeLoop, CopiesInOnlyWhatWasWritten) {
  auto program = program::Parse(R"(program scratch
buffer x: f32[16] parameter 0
buffer y: f32[16] result 0
buffer arena: u8[128] temp
buffer state: f32[16] temp in arena at 0
buffer spare: f32[16] temp in arena at 64
buffer aside: f32[16] temp in y at 0
buffer i: s32[] temp
buffer go: pred[] temp

kernel less(read m0: s32[1], write m1: pred[1]) {
  %0 = load s32 m0[0]
  %1 = lt s32 %0, 3
  store pred m1[0], %1
}

kernel work(update m0: s32[1], update m1: f32[16], write m2: f32[16], write m3: f32[16]) {
  parallel %0 = 0..16 {
    %1 = load f32 m1[%0]
    %2 = add f32 %1, 1
    store f32 m1[%0], %2
    store f32 m2[%0], %2
    store f32 m3[%0], %1
  }
}

steps {
  fill(write i) hex "00000000"
  copy(read x, write state)
  while(read go) {
    launch less(read i, write go)
  } do {
    launch work(update i, update state, write aside, write spare)
  }
  copy(read state, write y)
}
)");
  ASSERT_TRUE(program) << program.error().ToString();
  ASSERT_TRUE(program::Verify(*program)) << program::Verify(*program).error().ToString();
  program::ChooseRegions(*program, program::TargetInfo::H200());
  CudaProgram cuda = RenderProgram(*program);
  ASSERT_TRUE(cuda.text.contains("loop0")) << cuda.text;
  EXPECT_TRUE(cuda.text.contains("i < 8u; ++i) ((u64*)(b2))[i] = ((const u64*)(o2))[i];"))
      << cuda.text;
  EXPECT_FALSE(cuda.text.contains("((u64*)(b1))[i] = ((const u64*)(o1))[i];")) << cuda.text;
  NEEDS_NVRTC();
  ExpectCompiles(cuda.text, "scratch.cu");
}

class CudaFile : public testing::TestWithParam<const char*> {};
TEST_P(CudaFile, Compiles) {
  Program program = FromFile(GetParam());
  program::ChooseRegions(program, program::TargetInfo::H200());
  CudaProgram cuda = RenderProgram(program);
  EXPECT_EQ(cuda.text, RenderProgram(program).text);
  NEEDS_NVRTC();
  ExpectCompiles(cuda.text, GetParam());
}
INSTANTIATE_TEST_SUITE_P(Files, CudaFile, testing::ValuesIn(kFiles),
                         [](const auto& info) { return std::string(info.param); });

TEST(Cuda, FilesHaveEveryOperation) {
  std::set<Op> seen;
  for (const char* name : kFiles) {
    for (const program::Kernel& kernel : FromFile(name).kernels) {
      for (const program::Instr& instr : kernel.code) seen.insert(instr.op);
    }
  }
  for (int op = 0; op < program::kOpCount; ++op) {
    EXPECT_TRUE(seen.contains(static_cast<Op>(op))) << Name(static_cast<Op>(op));
  }
}

Program OneKernel(program::Kernel kernel) {
  Program program;
  program.name = "one";
  std::vector<program::Use> uses;
  for (int32_t i = 0; i < kernel.num_params; ++i) {
    const program::Memory& m = kernel.memories[i];
    bool written = Writes(m.access);
    program::BufferId id = AddBuffer(
        program, m.name, Shape(m.dtype, {m.count}),
        written ? program::BufferKind::kResult : program::BufferKind::kParameter, written ? 0 : i);
    uses.push_back(Whole(program, m.access, id));
  }
  int32_t number = AddKernel(program, std::move(kernel));
  program.steps.push_back(MakeStep(program::KernelStep{number}, std::move(uses)));
  return program;
}

// Every operation that the type takes, on scalars and on lanes.
void EmitAll(KernelBuilder& b, DType dtype, ValueId x, ValueId y, KernelBuilder::MemoryId out,
             ValueId at) {
  for (int i = 0; i < program::kOpCount; ++i) {
    Op op = static_cast<Op>(i);
    using enum program::OpClass;
    bool takes = Info(op).cls == kArith     ? dtype != DType::kPred
                 : Info(op).cls == kFloat   ? IsFloat(dtype)
                 : Info(op).cls == kInteger ? IsInteger(dtype)
                 : Info(op).cls == kBits    ? !IsFloat(dtype)
                 : Info(op).cls == kCompare
                     ? dtype != DType::kPred || op == Op::kEq || op == Op::kNe
                     : false;
    if (!takes) continue;
    int arity = Info(op).arity;
    ValueId v = arity == 1   ? b.Emit(op, {x})
                : arity == 2 ? b.Emit(op, {x, y})
                             : b.Emit(op, {x, y, x});
    if (Info(op).cls == kCompare) v = b.Cast(v, dtype);
    b.Store(out, at, v);
  }
}

TEST(Cuda, EveryOperationOnEveryType) {
  NEEDS_NVRTC();
  for (DType dtype : {DType::kPred, DType::kS8, DType::kS16, DType::kS32, DType::kS64, DType::kU8,
                      DType::kU16, DType::kU32, DType::kU64, DType::kF32, DType::kF64}) {
    KernelBuilder b("all");
    auto in = b.Param("x", dtype, 64, Access::kRead);
    auto out = b.Param("y", dtype, 64, Access::kWrite);
    b.For(LoopKind::kParallel, 0, 32, [&](ValueId i) {
      EmitAll(b, dtype, b.Load(in, i), b.Load(in, b.Add(i, b.Int(32))), out, i);
    });
    Program program = OneKernel(std::move(b).Build());
    ASSERT_TRUE(program::Verify(program)) << program::Verify(program).error().ToString();
    ExpectCompiles(RenderProgram(program).text, std::string(Name(dtype)));
    KernelBuilder lanes("lanes");
    in = lanes.Param("x", dtype, 64, Access::kRead, 64);
    out = lanes.Param("y", dtype, 64, Access::kWrite);
    EmitAll(lanes, dtype, lanes.Load(in, lanes.Int(0), 8, -1, 8), lanes.Load(in, lanes.Int(8), 8),
            out, lanes.Int(16));
    program = OneKernel(std::move(lanes).Build());
    ASSERT_TRUE(program::Verify(program)) << program::Verify(program).error().ToString();
    ExpectCompiles(RenderProgram(program).text, std::string(Name(dtype)) + "x8");
  }
}

TEST(Cuda, EveryConversion) {
  NEEDS_NVRTC();
  std::string text;
  for (int i = 1; i < kDTypeCount; ++i) {
    DType dtype = static_cast<DType>(i);
    if (!IsArrayType(dtype) || IsComplex(dtype)) continue;
    KernelBuilder b("convert");
    auto in = b.Param("x", dtype, 64, Access::kRead);
    auto out = b.Param("y", dtype, 64, Access::kWrite);
    b.For(LoopKind::kParallel, 0, 64, [&](ValueId j) {
      ValueId v = b.Load(in, j);
      for (DType to : {DType::kPred, DType::kS8, DType::kU16, DType::kS32, DType::kU32, DType::kS64,
                       DType::kU64, DType::kF64, DType::kF32}) {
        v = b.Cast(v, to);
      }
      if (IsFloat(dtype) && BitWidth(dtype) < 32) v = b.Narrow(v, dtype);
      v = b.Bitcast(b.Bitcast(v, DType::kS32), DType::kF32);
      b.Store(out, j, b.Cast(v, program::ComputeType(dtype)));
    });
    program::Kernel kernel = std::move(b).Build();
    ASSERT_TRUE(program::Verify(kernel)) << program::Verify(kernel).error().ToString();
    RenderKernel(kernel, std::string("convert_") + std::string(Name(dtype)), text);
  }
  ExpectCompiles(Prelude(text) + text, "convert");
}

TEST(Cuda, ErrorsSayTheLine) {
  NEEDS_NVRTC();
  auto result = TestNvrtc()->Compile("extern \"C\" __global__ void f() {\n  int x = y;\n}\n",
                                     "wrong.cu", "sm_90a");
  ASSERT_FALSE(result);
  EXPECT_TRUE(result.error().message().contains("wrong.cu(2): error")) << result.error().message();
}

TEST(Cuda, SmallLoopsAreOneKernel) {
  Program program = FromFile("while_counter");
  program::ChooseRegions(program, program::TargetInfo::H200());
  CudaProgram cuda = RenderProgram(program);
  int loops = 0;
  for (const CudaFunction& function : cuda.functions) {
    loops += function.loop != nullptr;
    if (function.loop != nullptr) EXPECT_EQ(function.launch.blocks, 1);
  }
  EXPECT_EQ(loops, 1);
}

}  // namespace
}  // namespace weft::gpu
