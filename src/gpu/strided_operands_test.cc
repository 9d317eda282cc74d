// Products that read through transposes, on the host's kernels against the interpreter.
#include "gpu/strided_operands.h"

#include <gtest/gtest.h>

#include <bit>

#include "base/str.h"
#include "gpu/cuda_device.h"
#include "gpu/fake_driver.h"
#include "gpu/host_cuda.h"
#include "program/interpret.h"
#include "program/verify.h"
#include "runtime/stream_runner.h"

namespace weft::gpu {
namespace {

struct StridedSizes {
  int64_t outer, rows, inner;
};

// Keys [outer, rows, inner, 8], transposed to [outer, inner, rows, 8], by queries [.., 4, 8]:
// scores, or with `values` sums of rows by weights [.., rows, 4].
std::string AttentionText(const StridedSizes& s, bool values, std::string_view between = "",
                          std::string_view type = "f32") {
  const int64_t batch = s.outer * s.inner, all = batch * s.rows * 8;
  std::string flat = StrCat(type, "[", all, "]");
  return StrCat(
      "program attention\nbuffer x: ", type, "[", batch, ",", values ? s.rows : 4, ",",
      values ? 4 : 8, "] parameter 0\nbuffer keys: ", type, "[", s.outer, ",", s.rows, ",", s.inner,
      ",8] parameter 1\nbuffer t: ", type, "[", batch, ",", s.rows, ",8] temp\nbuffer y: f32[",
      batch, ",", values ? 8 : 4, ",", values ? 4 : s.rows,
      "] result 0\nkernel transpose(read m0: ", flat, ", write m1: ", flat,
      ") {\n  parallel %0 = 0..", s.outer, " {\n  parallel %1 = 0..", s.inner,
      " {\n  parallel %2 = 0..", s.rows, " {\n  parallel %3 = 0..8 {\n    %4 = mul s64 %1, 8\n",
      "    %5 = add s64 %4, %3\n    %6 = mul s64 %2, ", s.inner * 8,
      "\n    %7 = add s64 %6, %5\n    %8 = mul s64 %0, ", s.rows * s.inner * 8,
      "\n    %9 = add s64 %8, %7\n    %10 = load f32 m0[%9]\n    %11 = mul s64 %2, 8\n",
      "    %12 = add s64 %11, %3\n    %13 = mul s64 %1, ", s.rows * 8,
      "\n    %14 = add s64 %13, %12\n    %15 = add s64 %8, %14\n    store f32 m1[%15], %10\n",
      "  }\n  }\n  }\n  }\n}\nsteps {\n  launch transpose(read keys, write t)\n", between,
      values ? "  call \"gemm\"(read t, read x, write y) {m = 8, n = 4, k = "
             : "  call \"gemm\"(read x, read t, write y) {m = 4, n = ",
      s.rows, values ? ", trans_a = true" : ", k = 8, trans_b = true", ", batch = ", batch,
      "}\n}\n");
}

// Small integers, so that sums are exact in any order.
Literal Numbers(const Shape& shape) {
  Literal literal(shape);
  for (int64_t i = 0; i < shape.elements(); ++i) {
    const auto x = static_cast<float>(i * 7 % 23 - 11);
    if (shape.dtype() == DType::kF32) {
      reinterpret_cast<float*>(literal.mutable_data())[i] = x;
    } else {  // bf16: the upper half, the lower one is 0
      reinterpret_cast<uint16_t*>(literal.mutable_data())[i] =
          static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16);
    }
  }
  return literal;
}

program::TargetInfo WithoutLaunches() {
  program::TargetInfo target = program::TargetInfo::H200();
  target.launch_seconds = 0;
  return target;
}

// On the host, or on a GPU.
void ExpectSameWithoutCopies(const std::string& text, bool on_host = true) {
  if (on_host && !HasHostCompiler()) GTEST_SKIP() << "no C++ compiler for kernels on the host";
  auto program = program::Parse(text);
  ASSERT_TRUE(program) << program.error().ToString() << text;
  ASSERT_TRUE(program::Verify(*program)) << text;
  std::vector<Literal> arguments = {Numbers(program->buffers[0].shape),
                                    Numbers(program->buffers[1].shape)};
  auto wanted = program::Interpret(*program, arguments);
  ASSERT_TRUE(wanted) << wanted.error().ToString();
  program::Program direct = ReadThroughTransposes(*program, WithoutLaunches());
  ASSERT_EQ(direct.steps.size(), 1u) << text;
  CudaOptions options;
  if (on_host) options.driver = MakeHostCudaDriver(int64_t{64} << 20);
  auto device = CreateCudaDevice(options);
  if (!device && device.error().code() == Code::kUnavailable) {
    GTEST_SKIP() << device.error().ToString();
  }
  ASSERT_TRUE(device) << device.error().ToString();
  auto loaded = (*device)->Load(direct, on_host ? HostCudaOptions() : runtime::LoadOptions());
  ASSERT_TRUE(loaded) << loaded.error().ToString();
  auto runner = runtime::StreamRunner::Create(**device, **loaded);
  ASSERT_TRUE(runner) << runner.error().ToString();
  auto got = runner->Run(arguments, {});
  ASSERT_TRUE(got) << got.error().ToString();
  EXPECT_EQ((*got)[0], (*wanted)[0]) << text;
}

TEST(StridedOperands, ProductsReadThroughTransposes) {
  ExpectSameWithoutCopies(AttentionText({3, 5, 2}, false));
  ExpectSameWithoutCopies(AttentionText({2, 5, 3}, true));
  // Sums of several chunks of rows, columns that are no whole block.
  ExpectSameWithoutCopies(AttentionText({2, 600, 2}, true));
  ExpectSameWithoutCopies(AttentionText({2, 300, 2}, false));
  ExpectSameWithoutCopies(AttentionText({2, 300, 2}, true, "", "bf16"));
  ExpectSameWithoutCopies(AttentionText({2, 140, 2}, false, "", "bf16"));
}

TEST(StridedOperands, CudaReadsThroughTransposes) {
  for (const char* type : {"f32", "bf16"}) {
    for (bool values : {false, true}) {
      ExpectSameWithoutCopies(AttentionText({16, 2000, 4}, values, "", type), /*on_host=*/false);
    }
  }
}

// What NVRTC makes of it, for a GPU.
TEST(StridedOperands, CompileForGpus) {
  CudaOptions options;
  options.driver = MakeFakeDriver(int64_t{64} << 20);
  auto device = CreateCudaDevice(options);
  if (!device) GTEST_SKIP() << device.error().ToString();
  for (bool values : {false, true}) {
    auto program = program::Parse(AttentionText({2, 600, 2}, values, "", "bf16"));
    ASSERT_TRUE(program) << program.error().ToString();
    auto loaded = (*device)->Load(ReadThroughTransposes(*program, WithoutLaunches()), {});
    EXPECT_TRUE(loaded) << loaded.error().ToString();
  }
}

size_t StepsLeft(const std::string& text, const program::TargetInfo& target) {
  auto program = program::Parse(text);
  EXPECT_TRUE(program) << program.error().ToString() << text;
  return ReadThroughTransposes(*program, target).steps.size();
}

TEST(StridedOperands, CopiesStay) {
  // Small ones take less than launches.
  EXPECT_EQ(StepsLeft(AttentionText({3, 5, 2}, false), program::TargetInfo::H200()), 2u);
  // What is written between, and what others read too.
  EXPECT_EQ(StepsLeft(AttentionText({3, 5, 2}, false,
                                    "  copy(read x, write y)\n  copy(read y, write keys)\n"),
                      WithoutLaunches()),
            4u);
  EXPECT_EQ(
      StepsLeft(AttentionText({3, 5, 2}, false, "  copy(read t, write y)\n"), WithoutLaunches()),
      3u);
}

TEST(StridedOperands, Views) {
  // [2, 3, 4, 5] to [2, 4, 3, 5]: 8 matrices of 3 x 5.
  std::vector<CopiedDim> dims = {{2, 60, 60}, {4, 5, 15}, {3, 20, 5}, {5, 1, 1}};
  auto view = ViewOfCopy(dims, 8, 3, 5);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->row, 20);
  EXPECT_EQ(view->inner_count, 4);
  EXPECT_EQ(view->inner, 5);
  EXPECT_EQ(view->outer, 60);
  EXPECT_FALSE(ViewOfCopy(dims, 2, 12, 5));                             // rows of two strides
  EXPECT_FALSE(ViewOfCopy(dims, 8, 5, 3));                              // columns apart
  EXPECT_TRUE(ViewOfCopy({{7, 6, 6}, {2, 3, 3}, {3, 1, 1}}, 7, 2, 3));  // nothing moves
}

}  // namespace
}  // namespace weft::gpu
