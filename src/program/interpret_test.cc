#include "program/interpret.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/elements.h"
#include "program/builder.h"
#include "program/math.h"
#include "program/program.h"

namespace weft::program {
namespace {

Program LoadProgram(const std::string& name) {
  std::ifstream in("test/program/" + name + ".program");
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  auto program = Parse(text);
  EXPECT_TRUE(program) << program.error().ToString(name);
  return program ? *program : Program();
}

Literal Numbers(DType dtype, std::vector<int64_t> dims, const std::vector<double>& values) {
  Literal literal(Shape(dtype, dims));
  for (size_t i = 0; i < values.size(); ++i) literal.SetDouble(static_cast<int64_t>(i), values[i]);
  return literal;
}

// Values that bf16 holds exactly, spread around zero.
Literal Pattern(DType dtype, std::vector<int64_t> dims, int seed = 0) {
  Literal literal(Shape(dtype, dims));
  for (int64_t i = 0; i < literal.size(); ++i) {
    literal.SetDouble(i, static_cast<double>((i * 37 + seed * 11) % 41 - 20) / 8);
  }
  return literal;
}

std::vector<Literal> RunOk(const Program& program, std::vector<Literal> arguments) {
  InterpretOptions options;
  options.check_races = true;
  auto results = Interpret(program, arguments, options);
  EXPECT_TRUE(results) << results.error().ToString();
  return results ? *results : std::vector<Literal>();
}

std::string ErrorOf(const Program& program, std::vector<Literal> arguments,
                    const InterpretOptions& options = {}) {
  auto results = Interpret(program, arguments, options);
  return results ? "" : results.error().message();
}

TEST(Interpret, Elementwise) {
  Literal x = Pattern(DType::kBF16, {4, 8});
  auto y = RunOk(LoadProgram("elementwise"), {x});
  ASSERT_EQ(y.size(), 1u);
  for (int64_t i = 0; i < 32; ++i) EXPECT_EQ(y[0].GetDouble(i), x.GetDouble(i) * 2 - 0.5);
}

TEST(Interpret, FlushSubnormals) {
  Program program = LoadProgram("flush");
  Literal x = Numbers(DType::kF32, {4}, {0x1.8p-126, -0x1.8p-126, 0x1.8p-125, 1});
  auto flushed = RunOk(program, {x});
  program.flush_subnormals = false;
  auto kept = RunOk(program, {x});
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(kept[0].GetDouble(i), x.GetDouble(i) / 2);
    EXPECT_EQ(flushed[0].GetDouble(i), i < 2 ? 0 : x.GetDouble(i) / 2);
  }
}

void ExpectSoftmax(const Literal& x, const Literal& y, int64_t rows, int64_t cols, double tol) {
  for (int64_t r = 0; r < rows; ++r) {
    double top = -INFINITY, sum = 0;
    for (int64_t c = 0; c < cols; ++c) top = std::max(top, x.GetDouble(r * cols + c));
    for (int64_t c = 0; c < cols; ++c) sum += std::exp(x.GetDouble(r * cols + c) - top);
    for (int64_t c = 0; c < cols; ++c) {
      double expected = std::exp(x.GetDouble(r * cols + c) - top) / sum;
      EXPECT_NEAR(y.GetDouble(r * cols + c), expected, tol * expected) << r << " " << c;
    }
  }
}

TEST(Interpret, SoftmaxFromText) {
  Literal x = Pattern(DType::kBF16, {4, 16});
  auto y = RunOk(LoadProgram("softmax"), {x});
  ASSERT_EQ(y.size(), 1u);
  ExpectSoftmax(x, y[0], 4, 16, 1e-5);
}

// exp and a sum over rows in 8 lanes, bf16 in, f32 sums: what a fusion's emit will write.
Program FusedRowSums(int64_t rows, int64_t cols) {
  KernelBuilder b("row_sums");
  auto x = b.Param("x", DType::kBF16, rows * cols, Access::kRead);
  auto bias = b.Param("bias", DType::kF32, cols, Access::kRead);
  auto y = b.Param("y", DType::kF32, rows, Access::kWrite);
  b.For(LoopKind::kParallel, 0, rows, [&](ValueId row) {
    b.Named(row, "row");
    ValueId base = b.Named(b.Mul(row, b.Int(cols)), "base");
    auto sum = b.Reduce(
        0, cols, {b.F32(0, 8)},
        [&](ValueId i, const KernelBuilder::Carry& carried) -> KernelBuilder::Carry {
          ValueId lanes = b.Add(b.Splat(i, 8), b.Iota({DType::kS64, 8}));
          ValueId inside = b.Emit(Op::kLt, {lanes, b.Int(cols, {DType::kS64, 8})});
          ValueId v = b.Load(x, b.Add(base, i), 8, inside);
          ValueId w = b.Load(bias, i, 8, inside);
          ValueId e = math::Exp(b, b.Fma(v, b.F32(2, 8), w));
          return {b.Add(carried[0], b.Select(inside, e, b.F32(0, 8)))};
        },
        8);
    b.Store(y, row, b.ReduceLanes(Op::kAdd, sum[0]));
  });
  Program program;
  program.name = "fused";
  BufferId xb = AddBuffer(program, "x", Shape(DType::kBF16, {rows, cols}), BufferKind::kParameter);
  BufferId bb = AddBuffer(program, "bias", Shape(DType::kF32, {cols}), BufferKind::kParameter, 1);
  BufferId yb = AddBuffer(program, "y", Shape(DType::kF32, {rows}), BufferKind::kResult);
  int32_t kernel = AddKernel(program, std::move(b).Build());
  program.steps.push_back(MakeStep(
      KernelStep{kernel}, {In(program, xb), In(program, bb), Out(program, yb)}, "row_sums.1"));
  return program;
}

TEST(Interpret, FusionFromBuilder) {
  Program program = FusedRowSums(5, 30);
  ASSERT_TRUE(Verify(program)) << Verify(program).error().ToString();
  std::string text = Print(program);
  auto parsed = Parse(text);
  ASSERT_TRUE(parsed) << parsed.error().ToString("text") << text;
  EXPECT_EQ(Print(*parsed), text);
  EXPECT_EQ(Extents(parsed->kernels[0]).grid, std::vector<int64_t>{5});

  Literal x = Pattern(DType::kBF16, {5, 30}), bias = Pattern(DType::kF32, {30}, 3);
  auto y = RunOk(program, {x, bias});
  auto z = RunOk(*parsed, {x, bias});
  ASSERT_EQ(y.size(), 1u);
  EXPECT_TRUE(y[0] == z[0]);
  for (int64_t r = 0; r < 5; ++r) {
    double sum = 0;
    for (int64_t c = 0; c < 30; ++c) {
      sum += std::exp(2 * x.GetDouble(r * 30 + c) + bias.GetDouble(c));
    }
    EXPECT_NEAR(y[0].GetDouble(r), sum, 1e-6 * sum);
  }
}

TEST(Interpret, ExpIsAccurate) {
  KernelBuilder b("exp");
  constexpr int64_t kCount = 2001;
  auto x = b.Param("x", DType::kF32, kCount, Access::kRead);
  auto y = b.Param("y", DType::kF32, kCount, Access::kWrite);
  b.For(LoopKind::kParallel, 0, kCount,
        [&](ValueId i) { b.Store(y, i, math::Exp(b, b.Load(x, i))); });
  Program p;
  p.name = "exp";
  BufferId xb = AddBuffer(p, "x", Shape(DType::kF32, {kCount}), BufferKind::kParameter);
  BufferId yb = AddBuffer(p, "y", Shape(DType::kF32, {kCount}), BufferKind::kResult);
  AddKernel(p, std::move(b).Build());
  p.steps.push_back(MakeStep(KernelStep{0}, {In(p, xb), Out(p, yb)}));
  Literal input(Shape(DType::kF32, {kCount}));
  for (int64_t i = 0; i < kCount; ++i) input.SetDouble(i, -86.0 + 0.0871 * static_cast<double>(i));
  input.SetDouble(0, INFINITY);
  input.SetDouble(1, -INFINITY);
  input.SetDouble(2, NAN);
  auto out = RunOk(p, {input});
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].GetDouble(0), INFINITY);
  EXPECT_EQ(out[0].GetDouble(1), 0);
  EXPECT_TRUE(std::isnan(out[0].GetDouble(2)));
  for (int64_t i = 3; i < kCount; ++i) {
    double expected = std::exp(input.GetDouble(i));
    if (expected > 3.4e38) continue;
    EXPECT_NEAR(out[0].GetDouble(i), expected, 3e-7 * expected) << input.GetDouble(i);
  }
}

TEST(Interpret, While) {
  auto y = RunOk(LoadProgram("while_counter"), {Numbers(DType::kF32, {4}, {1, 2, 3, -4})});
  ASSERT_EQ(y.size(), 1u);
  EXPECT_TRUE(y[0] == Numbers(DType::kF32, {4}, {32, 64, 96, -128}));
}

TEST(Interpret, Conditional) {
  Program program = LoadProgram("conditional");
  const double a[2] = {2, 1};
  const std::pair<int, int> picks[] = {{0, 0}, {1, 10}, {2, -1}, {7, -1}, {-3, -1}};
  for (auto [index, expected] : picks) {
    for (int p = 0; p < 2; ++p) {
      auto out = RunOk(program, {Numbers(DType::kPred, {}, {static_cast<double>(p)}),
                                 Numbers(DType::kS32, {}, {static_cast<double>(index)})});
      ASSERT_EQ(out.size(), 2u);
      EXPECT_EQ(out[0].GetDouble(0), a[p]);
      EXPECT_EQ(out[1].GetInt(0), expected) << index;
    }
  }
}

TEST(Interpret, Gemm) {
  Literal a = Pattern(DType::kBF16, {3, 4}), b = Pattern(DType::kBF16, {5, 4}, 1);
  Literal c = Pattern(DType::kF32, {3, 5}, 2);
  auto out = RunOk(LoadProgram("gemm"), {a, b, c});
  ASSERT_EQ(out.size(), 1u);
  for (int64_t m = 0; m < 3; ++m) {
    for (int64_t n = 0; n < 5; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < 4; ++k) sum += a.GetDouble(m * 4 + k) * b.GetDouble(n * 4 + k);
      EXPECT_EQ(out[0].GetDouble(m * 5 + n), 2 * sum + c.GetDouble(m * 5 + n));
    }
  }
}

TEST(Interpret, AsyncCopy) {
  Literal host = Pattern(DType::kF32, {8}), x = Pattern(DType::kF32, {8}, 4);
  auto out = RunOk(LoadProgram("async_copy"), {host, x});
  ASSERT_EQ(out.size(), 1u);
  for (int64_t i = 0; i < 8; ++i) {
    EXPECT_EQ(out[0].GetDouble(i), host.GetDouble(i) + 2 * x.GetDouble(i));
  }
}

// Three rounds of a loop, each with a reduction under way beside a kernel.
TEST(Interpret, AsyncAllReduceInALoop) {
  std::vector<std::vector<Literal>> arguments;
  for (double d : {1.0, 10.0}) {
    arguments.push_back({Numbers(DType::kF32, {4}, {d, 2 * d, 3 * d, 4 * d}),
                         Numbers(DType::kF32, {4}, {d, d, d, d})});
  }
  auto out = InterpretDevices(LoadProgram("async_all_reduce"), arguments);
  ASSERT_TRUE(out) << out.error().ToString();
  for (int64_t d = 0; d < 2; ++d) {
    const double eight = d == 0 ? 8 : 80;
    EXPECT_TRUE((*out)[d][0] == Numbers(DType::kF32, {4}, {11, 22, 33, 44}));
    EXPECT_TRUE((*out)[d][1] == Numbers(DType::kF32, {4}, {eight, eight, eight, eight}));
  }
}

TEST(Interpret, AllReduceOnTwoDevices) {
  std::vector<std::vector<Literal>> arguments = {{Numbers(DType::kF32, {4}, {1, 2, 3, 4})},
                                                 {Numbers(DType::kF32, {4}, {10, 20, 30, 40})}};
  auto out = InterpretDevices(LoadProgram("all_reduce"), arguments);
  ASSERT_TRUE(out) << out.error().ToString();
  for (int64_t d = 0; d < 2; ++d) {
    EXPECT_TRUE((*out)[d][0] == Numbers(DType::kF32, {4}, {11, 22, 33, 44}));
    EXPECT_EQ((*out)[d][1].GetInt(0), d);
    EXPECT_TRUE((*out)[d][2] == Numbers(DType::kF32, {8}, {1, 2, 3, 4, 10, 20, 30, 40}));
  }
}

TEST(Interpret, OtherCollectives) {
  auto program = Parse(R"(program c
devices 4
buffer x: s32[4] parameter 0
buffer scattered: s32[2] result 0
buffer exchanged: s32[4] result 1
buffer moved: s32[4] result 2
steps {
  collective reduce_scatter max(read x, write scattered) groups [[0, 2], [3, 1]]
  collective all_to_all(read x, write exchanged)
  collective permute(read x, write moved) pairs [[0, 1], [1, 3]]
})");
  ASSERT_TRUE(program) << program.error().ToString("c");
  std::vector<std::vector<Literal>> arguments;
  for (double d = 0; d < 4; ++d) {
    arguments.push_back({Numbers(DType::kS32, {4}, {d, 10 + d, 20 + d, 30 - d})});
  }
  auto out = InterpretDevices(*program, arguments);
  ASSERT_TRUE(out) << out.error().ToString();
  EXPECT_TRUE((*out)[0][0] == Numbers(DType::kS32, {2}, {2, 12}));
  EXPECT_TRUE((*out)[2][0] == Numbers(DType::kS32, {2}, {22, 30}));
  EXPECT_TRUE((*out)[3][0] == Numbers(DType::kS32, {2}, {3, 13}));
  EXPECT_TRUE((*out)[1][0] == Numbers(DType::kS32, {2}, {23, 29}));
  EXPECT_TRUE((*out)[1][1] == Numbers(DType::kS32, {4}, {10, 11, 12, 13}));
  EXPECT_TRUE((*out)[1][2] == arguments[0][0]);
  EXPECT_TRUE((*out)[3][2] == arguments[1][0]);
  EXPECT_TRUE((*out)[0][2] == Numbers(DType::kS32, {4}, {0, 0, 0, 0}));
}

TEST(Interpret, DevicesThatDoNotMeet) {
  auto program = Parse(R"(program c
devices 2
buffer p: pred[] parameter 0
buffer x: s32[4] parameter 1
buffer y: s32[4] result 0
steps {
  copy(read x, write y)
  if(read p) {
    lonely: collective all_reduce add(read x, write y)
  }
})");
  ASSERT_TRUE(program) << program.error().ToString("c");
  Literal x = Numbers(DType::kS32, {4}, {1, 2, 3, 4});
  std::vector<std::vector<Literal>> arguments = {{Numbers(DType::kPred, {}, {1}), x},
                                                 {Numbers(DType::kPred, {}, {0}), x}};
  auto out = InterpretDevices(*program, arguments);
  ASSERT_FALSE(out);
  EXPECT_NE(out.error().message().find("lonely"), std::string::npos);
}

TEST(Interpret, VectorsAndThreads) {
  Literal x = Pattern(DType::kF32, {30});
  auto sum = RunOk(LoadProgram("vector_sum"), {x});
  ASSERT_EQ(sum.size(), 1u);
  double expected = 0;
  for (int64_t i = 0; i < 30; ++i) expected += x.GetDouble(i);
  EXPECT_EQ(sum[0].GetDouble(0), expected);

  Program threads = LoadProgram("threads");
  LaunchExtents extents = Extents(threads.kernels[0]);
  EXPECT_EQ(extents.grid, std::vector<int64_t>{3});
  EXPECT_EQ(extents.threads, 32);
  Literal rows = Pattern(DType::kF16, {3, 100});
  auto sums = RunOk(threads, {rows});
  ASSERT_EQ(sums.size(), 1u);
  for (int64_t r = 0; r < 3; ++r) {
    expected = 0;
    for (int64_t c = 0; c < 100; ++c) expected += rows.GetDouble(r * 100 + c);
    EXPECT_EQ(sums[0].GetDouble(r), expected);
  }
}

TEST(Interpret, TiledMatmul) {
  Program program = LoadProgram("tiles");
  EXPECT_EQ(Extents(program.kernels[0]).grid, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(Extents(program.kernels[0]).threads, 16);
  Literal a = Pattern(DType::kF32, {8, 12}), b = Pattern(DType::kF32, {12, 8}, 1);
  auto c = RunOk(program, {a, b});
  ASSERT_EQ(c.size(), 1u);
  Literal expected(Shape(DType::kBF16, {8, 8}));
  for (int64_t m = 0; m < 8; ++m) {
    for (int64_t n = 0; n < 8; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < 12; ++k) sum += a.GetDouble(m * 12 + k) * b.GetDouble(k * 8 + n);
      expected.SetDouble(m * 8 + n, sum);
    }
  }
  EXPECT_TRUE(c[0] == expected) << c[0].ToString() << expected.ToString();
}

TEST(Interpret, Complex) {
  Literal a(Shape(DType::kC64, {6})), b(Shape(DType::kC64, {6}));
  for (int64_t i = 0; i < 6; ++i) {
    double d = static_cast<double>(i);
    a.SetComplex(i, {d, 1 - d});
    b.SetComplex(i, {2, d});
  }
  auto y = RunOk(LoadProgram("complex"), {a, b});
  ASSERT_EQ(y.size(), 1u);
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(y[0].GetComplex(i), a.GetComplex(i) * b.GetComplex(i));
}

TEST(Interpret, HostAndUnknownRoutines) {
  Program program = LoadProgram("host");
  EXPECT_NE(ErrorOf(program, {Pattern(DType::kF32, {4, 2})}).find("no host"), std::string::npos);
  std::vector<int> sent;
  InterpretOptions options;
  options.recv = [](int64_t device, int64_t, std::span<std::byte> to) -> Status {
    for (std::byte& b : to) b = static_cast<std::byte>(device + 5);
    return {};
  };
  options.call = [](int64_t, const Step&, std::span<const std::span<std::byte>> memory) -> Status {
    memory[0][63] = std::byte{9};
    return {};
  };
  options.send = [&](int64_t, int64_t channel, std::span<const std::byte> from) -> Status {
    EXPECT_EQ(channel, 3);
    sent.push_back(std::to_integer<int>(from[0]) * 100 + std::to_integer<int>(from[63]));
    return {};
  };
  Literal x = Pattern(DType::kF32, {4, 2});
  auto out = Interpret(program, std::vector<Literal>{x}, options);
  ASSERT_TRUE(out) << out.error().ToString();
  EXPECT_EQ(sent, (std::vector<int>{509, 609, 709, 809}));
  // The layout {0,1} puts column 0 first; device 0 gets its part 0 from everybody there, and
  // zeroes in column 1, since nobody sends to it.
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ((*out)[0].GetDouble(i * 2), x.GetDouble(0));
    EXPECT_EQ((*out)[0].GetDouble(i * 2 + 1), 0);
  }
}

TEST(Interpret, Limits) {
  auto program = Parse(R"(program forever
buffer p: pred[] parameter 0
buffer y: s32[] result 0
steps {
  fill(write y) hex "01"
  while(read p) {
  } do {
  }
})");
  ASSERT_TRUE(program) << program.error().ToString("forever");
  InterpretOptions options;
  options.max_instructions = 10000;
  Literal yes = Numbers(DType::kPred, {}, {1});
  EXPECT_NE(ErrorOf(*program, {yes}, options).find("too many instructions"), std::string::npos);
  options.max_bytes = 2;
  EXPECT_NE(ErrorOf(*program, {yes}, options).find("out of memory"), std::string::npos);
  EXPECT_NE(ErrorOf(*program, {}).find("argument 0 is missing"), std::string::npos);
  EXPECT_NE(ErrorOf(*program, {yes, yes}).find("takes 1 arguments"), std::string::npos);
  EXPECT_NE(ErrorOf(*program, {Numbers(DType::kS32, {}, {1})}).find("argument 0 is s32[]"),
            std::string::npos);
}

std::string KernelError(const std::string& body, bool races = false) {
  std::string text =
      "program k\nbuffer n: s64[4] parameter 0\nbuffer y: f32[8] result 0\n"
      "kernel k(read n: s64[4], write y: f32[8] align 16) {\n" +
      body + "}\nsteps {\n  launch k(read n, write y)\n}\n";
  auto program = Parse(text);
  EXPECT_TRUE(program) << program.error().ToString("k");
  InterpretOptions options;
  options.check_races = races;
  return program ? ErrorOf(*program, {Numbers(DType::kS64, {4}, {0, 1, 3, 9})}, options) : "";
}

TEST(Interpret, ChecksAccesses) {
  EXPECT_NE(KernelError("%i = load s64 n[3]\nstore f32 y[%i], 1\n").find("store of element 9"),
            std::string::npos);
  EXPECT_EQ(KernelError("%i = load s64 n[2]\nstore f32x4 y[%i], 1\n"), "");
  EXPECT_NE(KernelError("%i = load s64 n[2]\nstore f32x4 y[%i], 1 align 16\n").find("not aligned"),
            std::string::npos);
  std::string collide =
      "parallel %i = 0..4 {\n%j = load s64 n[%i]\n%k = shr s64 %j, 1\n%m = min s64 %k, 7\n"
      "store f32 y[%m], 1\n}\n";
  EXPECT_EQ(KernelError(collide), "");
  EXPECT_NE(KernelError(collide, true).find("the same element 0 of 'y'"), std::string::npos);
}

}  // namespace
}  // namespace weft::program
