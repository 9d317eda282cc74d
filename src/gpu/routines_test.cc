// Library routines on GPUs against the interpreter: their kernels on the host anywhere
// (host_cuda.h), everything where there is a GPU: gpu_test --gtest_filter='*Routine*'.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "base/elements.h"
#include "base/str.h"
#include "gpu/cuda_device.h"
#include "gpu/cuda_program.h"
#include "gpu/fake_driver.h"
#include "gpu/host_cuda.h"
#include "gpu/nvrtc.h"
#include "gpu/routines/convolution_cudnn.h"
#include "gpu/routines/library_epilogue.h"
#include "gpu/routines_cases.h"
#include "program/interpret.h"
#include "runtime/compare.h"

namespace weft::gpu {
namespace {

const std::string kPackages[] = {".venv/lib/python3*/site-packages/nvidia/*/lib"};

// Numbers in [-1, 1), of integers all that the type has (but few bits of wide ones).
Literal RandomLiteral(const Shape& shape, uint64_t seed) {
  Literal literal(shape);
  DType type = shape.dtype(), real = RealType(type);
  int64_t n = shape.elements() * (IsComplex(type) ? 2 : 1);
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  std::byte* at = literal.mutable_data();
  for (int64_t i = 0; i < n; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    uint64_t bits = state >> 33;
    if (IsFloat(real)) {
      double x = static_cast<double>(bits) * 0x1p-30 - 1;
      if (type == DType::kF8E8M0FNU) x = std::fabs(x) + 0.25;
      StoreF64(real, &x, 1, at + i * ByteWidth(real));
    } else {
      int64_t x = static_cast<int64_t>(bits % 20001) - 10000;
      StoreI64(real, &x, 1, at + i * ByteWidth(real));
    }
  }
  return literal;
}

struct RoutineDevice {
  const char* name;
  bool host;
};

class Routine : public testing::TestWithParam<RoutineDevice> {
 protected:
  void SetUp() override {
    CudaOptions options;
    options.nvrtc_folders = kPackages;
    if (GetParam().host) {
      if (!HasHostCompiler()) GTEST_SKIP() << "no C++ compiler for kernels on the host";
      options.driver = MakeHostCudaDriver(int64_t{256} << 20);
      load_ = HostCudaOptions();
    }
    auto device = CreateCudaDevice(options);
    if (!device && device.error().code() == Code::kUnavailable) {
      GTEST_SKIP() << device.error().ToString();
    }
    ASSERT_TRUE(device) << device.error().ToString();
    device_ = std::move(*device);
    stream_ = *device_->NewStream(runtime::StreamKind::kCompute);
  }

  void ExpectLikeInterpreter(const RoutineCase& c);
  void RunOnDevice(const runtime::LoadedProgram& loaded, std::vector<Literal>& arguments,
                   std::vector<Literal>& results);

  runtime::LoadOptions load_;
  std::unique_ptr<runtime::Device> device_;
  runtime::StreamPtr stream_;
};

void Routine::RunOnDevice(const runtime::LoadedProgram& loaded, std::vector<Literal>& arguments,
                          std::vector<Literal>& results) {
  std::vector<runtime::Allocation> memory;
  std::vector<std::byte*> parameters, places(results.size());
  auto allocate = [&](int64_t bytes) {
    memory.push_back(*device_->AllocateOn(*stream_, bytes, runtime::MemorySpace::kDevice));
    return memory.back().address();
  };
  for (Literal& argument : arguments) {
    parameters.push_back(allocate(argument.byte_size()));
    ASSERT_TRUE(stream_->Copy(runtime::CopyKind::kToDevice, parameters.back(), argument.data(),
                              argument.byte_size()));
  }
  for (const program::Buffer& b : loaded.program().buffers) {
    if (b.kind != program::BufferKind::kResult) continue;
    places[b.index] = b.base >= 0 ? parameters[loaded.program().buffers[b.base].index] + b.offset
                                  : allocate(*ByteSize(b));
  }
  runtime::Call call;
  call.parameters = parameters;
  call.results = places;
  ASSERT_TRUE(loaded.Enqueue(call, *stream_));
  for (size_t i = 0; i < results.size(); ++i) {
    ASSERT_TRUE(stream_->Copy(runtime::CopyKind::kToHost, results[i].mutable_data(), places[i],
                              results[i].byte_size()));
  }
  Status status = stream_->Synchronize();
  ASSERT_TRUE(status) << status.error().ToString();
}

void Routine::ExpectLikeInterpreter(const RoutineCase& c) {
  auto program = program::Parse(c.text);
  ASSERT_TRUE(program) << program.error().ToString();
  Status verified = program::Verify(*program, c.text);
  ASSERT_TRUE(verified) << verified.error().ToString() << c.text;
  std::vector<Literal> arguments;
  std::vector<Shape> shapes;
  for (const program::Buffer& b : program->buffers) {
    if (b.kind == program::BufferKind::kParameter) {
      arguments.push_back(RandomLiteral(b.shape, static_cast<uint64_t>(b.index) + 1));
      if (c.prepare) c.prepare(arguments.back(), b.index);
    }
  }
  auto wanted = program::Interpret(*program, arguments);
  ASSERT_TRUE(wanted) << wanted.error().ToString();
  auto loaded = device_->Load(*program, load_);
  ASSERT_TRUE(loaded) << loaded.error().ToString();
  EXPECT_TRUE(HostRoutinesOf(**loaded).empty()) << "on the host: " << HostRoutinesOf(**loaded)[0];
  EXPECT_EQ(FusedKernelsOf(**loaded), c.fused + (GetParam().host ? 0 : c.fused_by_library));
  for (int round = 0; round < 2; ++round) {  // the second finds what the first has left
    std::vector<Literal> got;
    for (const Literal& literal : *wanted) got.emplace_back(literal.shape());
    RunOnDevice(**loaded, arguments, got);
    for (size_t i = 0; i < wanted->size(); ++i) {
      DType type = (*wanted)[i].shape().dtype();
      std::span<const std::byte> want((*wanted)[i].data(), (*wanted)[i].byte_size());
      std::span<const std::byte> have(got[i].data(), got[i].byte_size());
      runtime::Difference d = runtime::Compare(RealType(type), want, have, c.slack,
                                               runtime::LargestOf(RealType(type), want));
      EXPECT_FALSE(d.any()) << "result " << i << ": " << d.ToString((*wanted)[i].shape().elements())
                            << "\n"
                            << c.text;
    }
    if (c.donates) break;
  }
}

TEST_P(Routine, Gemm) {
  for (const RoutineCase& c : GemmCases(GetParam().host)) {
    SCOPED_TRACE(c.name);
    ExpectLikeInterpreter(c);
  }
}
TEST_P(Routine, GemmWithEpilogue) {
  for (const RoutineCase& c : EpilogueCases(GetParam().host)) {
    SCOPED_TRACE(c.name);
    ExpectLikeInterpreter(c);
  }
}
TEST_P(Routine, Fft) {
  if (GetParam().host) GTEST_SKIP() << "cuFFT needs a GPU";
  for (const RoutineCase& c : FftCases()) {
    SCOPED_TRACE(c.name);
    ExpectLikeInterpreter(c);
  }
}
TEST_P(Routine, Sort) {
  for (const RoutineCase& c : SortCases(GetParam().host)) {
    SCOPED_TRACE(c.name);
    ExpectLikeInterpreter(c);
  }
}
TEST_P(Routine, Random) {
  for (const RoutineCase& c : RandomCases(GetParam().host)) {
    SCOPED_TRACE(c.name);
    ExpectLikeInterpreter(c);
  }
}
TEST_P(Routine, Linalg) {
  for (const RoutineCase& c : LinalgCases(GetParam().host)) {
    SCOPED_TRACE(c.name);
    ExpectLikeInterpreter(c);
  }
}
TEST_P(Routine, Convolution) {
  for (const RoutineCase& c : ConvolutionCases(GetParam().host)) {
    SCOPED_TRACE(c.name);
    ExpectLikeInterpreter(c);
  }
}

INSTANTIATE_TEST_SUITE_P(On, Routine,
                         testing::Values(RoutineDevice{"Host", true}, RoutineDevice{"Gpu", false}),
                         [](const auto& info) { return std::string(info.param.name); });

// A kernel over a product of 8 x 4, `c`, as an epilogue: its name, or "".
std::string EpilogueNameOf(std::string_view parameters, std::string_view body) {
  std::string text = StrCat("program p\nbuffer b: f32[1] result 0\nkernel k(", parameters, ") {\n",
                            body, "}\nsteps {\n}\n");
  auto program = program::Parse(text);
  EXPECT_TRUE(program) << program.error().ToString();
  if (!program) return "no program";
  const program::Kernel& kernel = program->kernels[0];
  int32_t result = kernel.memories[0].name == "c" ? 0 : 1;
  auto found = LibraryEpilogueOf(kernel, result, 4);
  if (found && found->added >= 0) EXPECT_EQ(found->added, 1 - result);
  return std::string(found ? found->name() : "");
}

TEST(LibraryEpilogue, Reads) {
  const std::string
      flat = "parallel %0 = 0..8 {\n%1 = mul s64 %0, 4\n",
      rows =
          "parallel %0 = 0..8 {\nparallel %1 = 0..4 {\n%2 = mul s64 %0, 4\n%3 = add s64 %2, %1\n";
  const std::string c = "update c: bf16[32] align 16", both = c + ", read x: bf16[32] align 16";
  const std::string load = "%4 = load f32x4 c[%1] align 8\n%5 = load f32x4 x[%1] align 8\n";
  const std::string sum = "%6 = add f32x4 %5, %4\n%7 = narrow bf16 f32x4 %6\n";
  EXPECT_EQ(EpilogueNameOf(c, flat + "%2 = load f32x4 c[%1] align 8\n%3 = max f32x4 0, %2\n"
                                     "store f32x4 c[%1], %3 align 8\n}\n"),
            "ReLU");
  EXPECT_EQ(EpilogueNameOf("update c: f32[32], read x: f32[32]",
                           flat + "%4 = load f32x4 c[%1]\n%5 = load f32x4 x[%1]\n"
                                  "%6 = add f32x4 %5, %4\nstore f32x4 c[%1], %6\n}\n"),
            "residual");
  // Of 16 bits the product is rounded before it is added.
  EXPECT_EQ(EpilogueNameOf(both, flat + load + sum + "store f32x4 c[%1], %7 align 8\n}\n"), "");
  EXPECT_EQ(EpilogueNameOf(both, flat + load + sum +
                                     "%8 = max f32x4 %7, 0\nstore f32x4 c[%1], %8 align 8\n}\n"),
            "");
  EXPECT_EQ(EpilogueNameOf("read x: f32[4], update c: f32[32]",
                           rows + "%4 = load f32 c[%3]\n%5 = load f32 x[%1]\n%6 = add f32 %4, %5\n"
                                  "%7 = max f32 %6, 0\nstore f32 c[%3], %7\n}\n}\n"),
            "bias and ReLU");
  // Rows of images, a column by four lanes.
  EXPECT_EQ(EpilogueNameOf("read x: f32[4], update c: f32[32]",
                           "parallel %0 = 0..2 {\nparallel %1 = 0..4 {\nparallel %2 = 0..1 {\n"
                           "%3 = mul s64 %2, 4\n%4 = mul s64 %1, 4\n%5 = add s64 %4, %3\n"
                           "%6 = mul s64 %0, 16\n%7 = add s64 %6, %5\n%8 = load f32x4 c[%7]\n"
                           "%9 = load f32x4 x[%3]\n%10 = add f32x4 %8, %9\n"
                           "store f32x4 c[%7], %10\n}\n}\n}\n"),
            "bias");
  // A number a row, a maximum of something else, ReLU before the sum, a sum that is not stored.
  EXPECT_EQ(EpilogueNameOf("read x: f32[8], update c: f32[32]",
                           rows + "%4 = load f32 c[%3]\n%5 = load f32 x[%0]\n%6 = add f32 %4, %5\n"
                                  "store f32 c[%3], %6\n}\n}\n"),
            "");
  EXPECT_EQ(EpilogueNameOf(c, flat + "%2 = load f32x4 c[%1] align 8\n%3 = max f32x4 1, %2\n"
                                     "store f32x4 c[%1], %3 align 8\n}\n"),
            "");
  EXPECT_EQ(EpilogueNameOf(both, flat + load +
                                     "%6 = max f32x4 %4, 0\n%7 = add f32x4 %5, %6\n"
                                     "store f32x4 c[%1], %7 align 8\n}\n"),
            "");
  EXPECT_EQ(EpilogueNameOf(both, flat + load + sum +
                                     "%8 = max f32x4 %4, 0\nstore f32x4 c[%1], %8 align 8\n}\n"),
            "");
}

// What cuDNN is asked for, computed from its own definition of a forward convolution.
struct SlowDnn {
  const DnnProblem& p;
  std::vector<double> x, w, y;

  // w[k][c][tap] of the library in the step's array.
  int64_t KernelAt(int64_t k, int64_t c, const std::vector<int64_t>& tap) const {
    int64_t group = p.groups > 1 ? k / p.per_group : 0;
    int64_t at = group * p.group_stride + (p.groups > 1 ? k % p.per_group : k) * p.w_strides[0] +
                 c * p.w_strides[1];
    for (size_t d = 0; d < tap.size(); ++d) {
      at += (p.flipped ? p.w[d + 2] - 1 - tap[d] : tap[d]) * p.w_strides[d + 2];
    }
    return at;
  }
  void Add(int64_t n, int64_t k, int64_t c, int64_t position, int64_t number) {
    std::vector<int64_t> tap(p.w.size() - 2);
    int64_t group = k / (p.y[1] / (p.x[1] / p.w[1]));
    int64_t x_at = n * p.x_strides[0] + (group * p.w[1] + c) * p.x_strides[1];
    int64_t y_at = n * p.y_strides[0] + k * p.y_strides[1];
    for (size_t d = tap.size(); d-- > 0;) {
      tap[d] = number % p.w[d + 2];
      number /= p.w[d + 2];
      int64_t o = position % p.y[d + 2];
      position /= p.y[d + 2];
      int64_t i = o * p.strides[d] - p.pre[d] + tap[d] * p.dilations[d];
      if (i < 0 || i >= p.x[d + 2]) return;
      x_at += i * p.x_strides[d + 2];
      y_at += o * p.y_strides[d + 2];
    }
    int64_t w_at = KernelAt(k, c, tap);
    if (p.operation == kDnnForward) y[y_at] += x[x_at] * w[w_at];
    if (p.operation == kDnnBackwardData) x[x_at] += y[y_at] * w[w_at];
    if (p.operation == kDnnBackwardFilter) w[w_at] += x[x_at] * y[y_at];
  }
  void Run() {
    int64_t positions = 1, taps = 1;
    for (size_t d = 2; d < p.w.size(); ++d) positions *= p.y[d], taps *= p.w[d];
    for (int64_t n = 0; n < p.x[0]; ++n) {
      for (int64_t k = 0; k < p.y[1]; ++k) {
        for (int64_t c = 0; c < p.w[1]; ++c) {
          for (int64_t o = 0; o < positions; ++o) {
            for (int64_t t = 0; t < taps; ++t) Add(n, k, c, o, t);
          }
        }
      }
    }
  }
};

TEST(RoutineCudnn, AsksForWhatTheConvolutionIs) {
  int kinds[3] = {};
  for (const RoutineCase& c : ConvolutionCases(false)) {
    if (!c.name.starts_with("f64")) continue;
    SCOPED_TRACE(c.name);
    auto program = program::Parse(c.text);
    ASSERT_TRUE(program);
    auto problem = DnnProblemOf(
        program::ConvolutionFormOf(std::get<program::LibraryStep>(program->steps[0].op)));
    if (!problem) continue;
    std::vector<Literal> arguments;
    for (size_t i = 0; i < 2; ++i) arguments.push_back(RandomLiteral(program->buffers[i].shape, i));
    auto wanted = program::Interpret(*program, arguments);
    ASSERT_TRUE(wanted);
    std::span<const double> want = std::as_const((*wanted)[0]).values<double>();
    std::vector<double> memory[3] = {{std::as_const(arguments[0]).values<double>().begin(),
                                      std::as_const(arguments[0]).values<double>().end()},
                                     {std::as_const(arguments[1]).values<double>().begin(),
                                      std::as_const(arguments[1]).values<double>().end()},
                                     std::vector<double>(want.size())};
    SlowDnn slow = {*problem, memory[problem->uses[0]], memory[problem->uses[1]],
                    memory[problem->uses[2]]};
    slow.Run();
    const std::vector<double>& got = problem->operation == kDnnForward        ? slow.y
                                     : problem->operation == kDnnBackwardData ? slow.x
                                                                              : slow.w;
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-12) << i;
    ++kinds[problem->operation - kDnnForward];
  }
  EXPECT_GE(kinds[0], 4);
  EXPECT_GE(kinds[1], 1);
  EXPECT_GE(kinds[2], 1);
}

// Kernels that the host has run are also what NVRTC takes, for the H200.
class RoutineCompiles : public testing::Test {
 protected:
  void ExpectCompile(const std::vector<RoutineCase>& cases) {
    CudaOptions options;
    options.nvrtc_folders = kPackages;
    options.driver = MakeFakeDriver(int64_t{256} << 20);
    auto device = CreateCudaDevice(options);
    if (!device) GTEST_SKIP() << device.error().ToString();
    for (const RoutineCase& c : cases) {
      SCOPED_TRACE(c.name);
      auto program = program::Parse(c.text);
      ASSERT_TRUE(program) << program.error().ToString() << c.text;
      auto loaded = (*device)->Load(*program, {});
      EXPECT_TRUE(loaded) << loaded.error().ToString();
    }
  }
};

TEST_F(RoutineCompiles, Gemm) {
  ExpectCompile(GemmCases(true));
}
TEST_F(RoutineCompiles, Sort) {
  ExpectCompile(SortCases(true));
}
TEST_F(RoutineCompiles, Random) {
  ExpectCompile(RandomCases(true));
}
TEST_F(RoutineCompiles, Linalg) {
  ExpectCompile(LinalgCases(true));
}
TEST_F(RoutineCompiles, Convolution) {
  ExpectCompile(ConvolutionCases(true));
}

}  // namespace
}  // namespace weft::gpu
