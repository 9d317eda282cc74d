#include "program/builder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "program/interpret.h"
#include "program/math.h"
#include "program/program.h"

namespace weft::program {
namespace {

using Carry = KernelBuilder::Carry;

Literal Ramp(DType dtype, int64_t n, double first = 0, double step = 1) {
  Literal literal(Shape(dtype, {n}));
  for (int64_t i = 0; i < n; ++i) literal.SetDouble(i, first + step * static_cast<double>(i));
  return literal;
}

// A program of one kernel: parameters that are read become arguments, others results.
Program Around(Kernel kernel) {
  Program p;
  p.name = "around";
  int64_t parameters = 0, results = 0;
  std::vector<Use> uses;
  for (int32_t i = 0; i < kernel.num_params; ++i) {
    const Memory& m = kernel.memories[i];
    bool read = m.access == Access::kRead;
    BufferId id = AddBuffer(p, m.name, Shape(m.dtype, {m.count}),
                            read ? BufferKind::kParameter : BufferKind::kResult,
                            read ? parameters++ : results++);
    uses.push_back(Whole(p, m.access, id));
  }
  p.steps.push_back(MakeStep(KernelStep{AddKernel(p, std::move(kernel))}, uses));
  return p;
}

// Runs it, and again after a trip through text.
std::vector<Literal> RunBoth(const Program& program, std::vector<Literal> arguments) {
  InterpretOptions options;
  options.check_races = true;
  auto first = Interpret(program, arguments, options);
  EXPECT_TRUE(first) << first.error().ToString() << Print(program);
  std::string text = Print(program);
  auto parsed = Parse(text);
  EXPECT_TRUE(parsed) << parsed.error().ToString("text") << text;
  if (!first || !parsed) return {};
  EXPECT_EQ(Print(*parsed), text);
  auto second = Interpret(*parsed, arguments, options);
  EXPECT_TRUE(second) << second.error().ToString();
  if (!second) return {};
  for (size_t i = 0; i < first->size(); ++i) EXPECT_TRUE((*first)[i] == (*second)[i]) << i;
  return *first;
}

TEST(Builder, IfElseAndConversions) {
  KernelBuilder b("branches");
  auto x = b.Param("x", DType::kF64, 6, Access::kRead);
  auto y = b.Param("y", DType::kS32, 6, Access::kWrite);
  auto z = b.Param("z", DType::kU4, 6, Access::kWrite);
  b.For(LoopKind::kParallel, 0, 6, [&](ValueId i) {
    ValueId v = b.Named(b.Load(x, i), "v");
    b.BeginIf(b.Emit(Op::kLt, {v, b.Float(0, b.type(v))}));
    ValueId small = b.Cast(b.Cast(v, DType::kF32), DType::kS32);
    b.BeginElse(std::vector<ValueId>{small});
    ValueId bits = b.Bitcast(b.Narrow(b.Cast(v, DType::kF32), DType::kBF16), DType::kS32);
    ValueId joined = b.Named(b.End(std::vector<ValueId>{bits})[0], "v");  // becomes v.1
    b.Store(y, i, joined);
    ValueId nibble = b.Narrow(b.Cast(v, DType::kU8), DType::kU4);
    b.Store(z, i, b.Number(7, b.type(nibble)));
    b.If(b.Emit(Op::kGt, {v, b.Number(0.5, b.type(v))}), [&] { b.Store(z, i, nibble); });
  });
  Kernel kernel = std::move(b).Build();
  EXPECT_NE(Print(kernel).find("%v.1"), std::string::npos);
  auto out = RunBoth(Around(std::move(kernel)), {Ramp(DType::kF64, 6, -3.5, 5.0)});
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].GetInt(0), -3);
  EXPECT_EQ(out[0].GetInt(1), 0x3fc00000);  // 1.5f
  EXPECT_EQ(out[1].GetInt(0), 7);
  EXPECT_EQ(out[1].GetInt(1), 1);
  EXPECT_EQ(out[1].GetInt(4), 0);  // 16 wraps in four bits
}

TEST(Builder, CarriedValuesSwapAndEmptyLoops) {
  KernelBuilder b("fibonacci");
  auto n = b.Param("n", DType::kS32, 1, Access::kRead);
  auto y = b.Param("y", DType::kU64, 3, Access::kWrite);
  auto x = b.Param("p", DType::kPred, 1, Access::kWrite);
  ValueId count = b.Load(n, b.Int(0));
  Type s32{DType::kS32, 1}, u64{DType::kU64, 1};
  auto in = b.BeginLoop(LoopKind::kSerial, b.Int(0, s32), count, b.Int(1, s32),
                        Carry{b.Int(0, u64), b.Int(1, u64)});
  // Yields its carried values in another order.
  auto after = b.End(Carry{in[2], b.Add(in[1], in[2])});
  b.Store(y, b.Int(0), after[0]);
  auto none = b.Reduce(5, 5, {b.Int(-1, u64)}, [&](ValueId, const Carry& c) { return c; });
  b.Store(y, b.Int(1), none[0]);
  std::vector<ValueId> index = {b.Int(0), b.Int(2)};
  std::vector<int64_t> dims = {1, 3};
  b.Store(y, b.Linear(index, dims), b.Cast(count, DType::kU64));
  b.Store(x, b.Int(0), b.Emit(Op::kNot, {b.Pred(false)}));
  auto out = RunBoth(Around(std::move(b).Build()), {Ramp(DType::kS32, 1, 50)});
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].GetInt(0), 12586269025);
  EXPECT_EQ(out[0].GetInt(1), -1);  // 2^64 - 1
  EXPECT_EQ(out[0].GetInt(2), 50);
  EXPECT_EQ(out[1].GetInt(0), 1);
}

TEST(Builder, SharedAndPrivateArrays) {
  KernelBuilder b("reverse");
  auto x = b.Param("x", DType::kF32, 64, Access::kRead);
  auto y = b.Param("y", DType::kF32, 64, Access::kWrite);
  b.For(LoopKind::kParallel, 0, 4, [&](ValueId block) {
    auto tile = b.Array("tile", DType::kF32, 16);
    auto own = b.Array("own", DType::kF32, 1, true);
    ValueId base = b.Mul(block, b.Int(16));
    b.For(LoopKind::kThread, 0, 16, [&](ValueId t) {
      ValueId v = b.Load(x, b.Add(base, t));
      b.Store(own, b.Int(0), v);
      b.Store(tile, t, v);
    });
    b.For(LoopKind::kThread, 0, 16, [&](ValueId t) {
      ValueId other = b.Load(tile, b.Sub(b.Int(15), t));
      b.Store(y, b.Add(base, t), b.Sub(other, b.Load(own, b.Int(0))));
    });
  });
  auto out = RunBoth(Around(std::move(b).Build()), {Ramp(DType::kF32, 64)});
  ASSERT_EQ(out.size(), 1u);
  for (int64_t i = 0; i < 64; ++i) {
    EXPECT_EQ(out[0].GetDouble(i), static_cast<double>(15 - 2 * (i % 16)));
  }
}

TEST(Builder, LogAndConstants) {
  KernelBuilder b("log");
  auto x = b.Param("x", DType::kF64, 3, Access::kRead);
  auto y = b.Param("y", DType::kF64, 3, Access::kWrite);
  b.For(LoopKind::kVector, 0, 3, [&](ValueId i) { b.Store(y, i, math::Log(b, b.Load(x, i))); });
  Program p = Around(std::move(b).Build());
  p.buffers[0].kind = BufferKind::kTemp;
  BufferId c = AddConstant(p, "c", Ramp(DType::kF64, 3, 1, 0.1));
  BufferId head = AddView(p, "head", Shape(DType::kF64, {2}), 0, 8);
  p.steps.insert(p.steps.begin(), MakeStep(CopyStep{}, {In(p, c), Out(p, 0)}));
  p.steps.insert(p.steps.begin() + 1,
                 MakeStep(CopyStep{}, {{Access::kRead, {c, 0, 16}}, Out(p, head)}));
  auto out = RunBoth(p, {});
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].GetDouble(0), 0);
  EXPECT_EQ(out[0].GetDouble(1), 0);
  EXPECT_NEAR(out[0].GetDouble(2), std::log(1.1), 1e-16);
}

// test/program/ops.program against the same formulas in C++.
TEST(Builder, EveryOperation) {
  std::ifstream in("test/program/ops.program");
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  auto program = Parse(text);
  ASSERT_TRUE(program) << program.error().ToString("ops");
  for (int i = 0; i < kOpCount; ++i) {
    Op op = static_cast<Op>(i);
    if (op == Op::kLoop) continue;
    if (op == Op::kCombine || op == Op::kAtomic) continue;  // have files of their own
    if (Info(op).cls == OpClass::kFunction) continue;
    bool used = std::any_of(program->kernels[0].code.begin(), program->kernels[0].code.end(),
                            [&](const Instr& instr) { return instr.op == op; });
    EXPECT_TRUE(used) << Name(op) << " is not in ops.program";
  }
  Literal n = Ramp(DType::kS32, 4, -3, 40);
  auto out = RunBoth(*program, {Ramp(DType::kF32, 4, -1.5, 0.75), n});
  ASSERT_EQ(out.size(), 3u);
  for (int64_t i = 0; i < 4; ++i) {
    // max(min(x, nan), inf) is NaN, so only ne of the comparisons is true.
    EXPECT_TRUE(std::isnan(out[2].GetDouble(i)));
    int32_t v = static_cast<int32_t>(n.GetInt(i));
    int32_t ones = static_cast<int32_t>(__builtin_popcount(~static_cast<uint32_t>(v)));
    int32_t zeros = ones == 0 ? 32 : __builtin_clz(static_cast<unsigned>(ones));
    int32_t mixed = ((((zeros & v) | 1) ^ -1) << 2) >> 1;
    EXPECT_EQ(out[0].GetDouble(i), mixed == v ? mixed : v) << i;
  }
  // Every mask is false unless mixed == v, so the array's bytes decide nothing but a sign.
  EXPECT_EQ(out[1].size(), 4);
}

// Neighbours first, the lower number on the left.
TEST(Builder, CombineIsABalancedTree) {
  KernelBuilder b("tree");
  auto x = b.Param("x", DType::kF32, 8, Access::kRead);
  auto y = b.Param("y", DType::kF32, 2, Access::kWrite);
  ValueId t = b.BeginLoop(LoopKind::kThread, b.Int(0), b.Int(8), b.Int(1))[0];
  ValueId v = b.Load(x, t);
  std::vector<ValueId> two = b.BeginCombine(std::vector<ValueId>{v, v});
  ValueId sum = b.Add(two[0], two[2]), difference = b.Sub(two[1], two[3]);
  std::vector<ValueId> all = b.End(std::vector<ValueId>{sum, difference});
  b.Store(y, b.Int(0), all[0]);
  b.Store(y, b.Int(1), all[1]);
  Program program;
  program.name = "tree";
  BufferId from = AddBuffer(program, "x", Shape(DType::kF32, {8}), BufferKind::kParameter);
  BufferId to = AddBuffer(program, "y", Shape(DType::kF32, {2}), BufferKind::kResult);
  int32_t kernel = AddKernel(program, std::move(b).Build());
  program.steps.push_back(MakeStep(KernelStep{kernel}, {In(program, from), Out(program, to)}));
  auto out = RunBoth(program, {Ramp(DType::kF32, 8, 1e8, 3)});
  ASSERT_EQ(out.size(), 1u);
  std::vector<float> sums, differences;
  for (int i = 0; i < 8; ++i) sums.push_back(static_cast<float>(1e8 + 3 * i));
  differences = sums;
  for (size_t n = 8; n > 1; n /= 2) {
    for (size_t i = 0; i < n / 2; ++i) {
      sums[i] = sums[2 * i] + sums[2 * i + 1];
      differences[i] = differences[2 * i] - differences[2 * i + 1];
    }
  }
  EXPECT_EQ(out[0].GetDouble(0), sums[0]);
  EXPECT_EQ(out[0].GetDouble(1), differences[0]);
}

TEST(Library, GemmInOtherTypes) {
  for (auto [text, dtype] : {std::pair{"f64", DType::kF64}, std::pair{"s32", DType::kS32}}) {
    std::string t = text;
    auto program = Parse("program g\nbuffer a: " + t + "[2,3,2] parameter 0\nbuffer b: " + t +
                         "[2,3,4] parameter 1\nbuffer c: " + t +
                         "[2,2,4] result 0\nsteps {\n  call \"gemm\"(read a, read b, write c) "
                         "{batch = 2, m = 2, n = 4, k = 3, trans_a = true}\n}\n");
    ASSERT_TRUE(program) << program.error().ToString("g");
    Literal a = Ramp(dtype, 12, 1).WithShape(Shape(dtype, {2, 3, 2}));
    Literal b = Ramp(dtype, 24, -5).WithShape(Shape(dtype, {2, 3, 4}));
    auto out = RunBoth(*program, {a, b});
    ASSERT_EQ(out.size(), 1u);
    for (int64_t i = 0; i < 16; ++i) {
      int64_t batch = i / 8, m = i / 4 % 2, n = i % 4;
      double sum = 0;
      for (int64_t k = 0; k < 3; ++k) {
        sum += a.GetDouble(batch * 6 + k * 2 + m) * b.GetDouble(batch * 12 + k * 4 + n);
      }
      EXPECT_EQ(out[0].GetDouble(i), sum);
    }
  }
}

Literal AllReduced(const std::string& op, const Literal& a, const Literal& b) {
  std::string type(weft::Name(a.dtype()));
  auto program =
      Parse("program r\ndevices 2\nbuffer x: " + type + "[2] parameter 0\nbuffer y: " + type +
            "[2] result 0\nsteps {\n  collective all_reduce " + op + "(read x, write y)\n}\n");
  EXPECT_TRUE(program) << program.error().ToString("r");
  std::vector<std::vector<Literal>> arguments = {{a}, {b}};
  auto out = InterpretDevices(*program, arguments);
  EXPECT_TRUE(out) << out.error().ToString();
  return out ? (*out)[1][0] : Literal();
}

TEST(Collectives, Reductions) {
  Literal a = Ramp(DType::kF64, 2, 1, 5), b = Ramp(DType::kF64, 2, 4, -2);  // 1 6, 4 2
  EXPECT_TRUE(AllReduced("mul", a, b) == Ramp(DType::kF64, 2, 4, 8));
  EXPECT_TRUE(AllReduced("min", a, b) == Ramp(DType::kF64, 2, 1, 1));
  EXPECT_TRUE(AllReduced("max", a, b) == Ramp(DType::kF64, 2, 4, 2));
  a.SetDouble(0, NAN);
  EXPECT_TRUE(std::isnan(AllReduced("max", a, b).GetDouble(0)));
  Literal c = Ramp(DType::kU64, 2, 6, 1), d = Ramp(DType::kU64, 2, 3, 6);  // 6 7, 3 9
  EXPECT_TRUE(AllReduced("add", c, d) == Ramp(DType::kU64, 2, 9, 7));
  EXPECT_TRUE(AllReduced("mul", c, d) == Ramp(DType::kU64, 2, 18, 45));
  EXPECT_TRUE(AllReduced("and", c, d) == Ramp(DType::kU64, 2, 2, -1));
  EXPECT_TRUE(AllReduced("or", c, d) == Ramp(DType::kU64, 2, 7, 8));
  c.SetInt(0, -1);  // the largest
  EXPECT_EQ(AllReduced("min", c, d).GetInt(0), 3);
  EXPECT_EQ(AllReduced("max", c, d).GetInt(0), -1);
  Literal e(Shape(DType::kC64, {2})), f = e;
  e.SetComplex(0, {1, 2});
  f.SetComplex(0, {3, -1});
  EXPECT_EQ(AllReduced("add", e, f).GetComplex(0), std::complex<double>(4, 1));
  EXPECT_EQ(AllReduced("mul", e, f).GetComplex(0), std::complex<double>(5, 5));
  Literal p = Ramp(DType::kPred, 2), q = Ramp(DType::kPred, 2, 0, 0);
  EXPECT_TRUE(AllReduced("add", p, q) == p);
  EXPECT_TRUE(AllReduced("mul", p, q) == q);
}

TEST(Builder, ReusesWhatIfsCompute) {
  KernelBuilder b("ifs");
  b.ReuseValues();
  auto x = b.Param("x", DType::kF32, 4, Access::kRead);
  auto y = b.Param("y", DType::kF32, 12, Access::kWrite);
  b.For(LoopKind::kSerial, 0, 4, [&](ValueId i) {
    ValueId v = b.Load(x, i);
    auto scaled = [&](double by) {
      b.BeginIf(b.Emit(Op::kGt, {v, b.Float(1, {DType::kF32, 1})}));
      ValueId large = b.Mul(v, b.Float(by, {DType::kF32, 1}));
      ValueId larger = b.Add(large, v);
      b.BeginElse(std::vector<ValueId>{larger});
      return b.End(std::vector<ValueId>{v})[0];
    };
    ValueId first = scaled(2), again = scaled(2), other = scaled(3);
    EXPECT_EQ(first, again);
    EXPECT_NE(first, other);
    // Code behind one that went has the numbers of its instructions.
    ValueId sum = b.Add(first, other);
    EXPECT_EQ(b.Add(first, other), sum);
    b.Store(y, i, again);
    b.Store(y, b.Add(i, b.Int(4)), other);
    b.Store(y, b.Add(i, b.Int(8)), sum);
  });
  Kernel kernel = std::move(b).Build();
  EXPECT_EQ(std::count_if(kernel.code.begin(), kernel.code.end(),
                          [](const Instr& instr) { return instr.op == Op::kIf; }),
            2);
  std::vector<Literal> results = RunBoth(Around(std::move(kernel)), {Ramp(DType::kF32, 4)});
  ASSERT_EQ(results.size(), 1u);
  std::vector<double> want = {0, 1, 6, 9, 0, 1, 8, 12, 0, 2, 14, 21};
  for (int64_t i = 0; i < 12; ++i) EXPECT_EQ(results[0].GetDouble(i), want[static_cast<size_t>(i)]);
}

}  // namespace
}  // namespace weft::program
