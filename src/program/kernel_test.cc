#include "program/kernel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "program/builder.h"
#include "program/interpret.h"
#include "program/program.h"

namespace weft::program {
namespace {

uint64_t Bits(double d) {
  return std::bit_cast<uint64_t>(d);
}
double Real(uint64_t bits) {
  return std::bit_cast<double>(bits);
}
uint64_t Lane(Op op, DType dtype, uint64_t a, uint64_t b = 0, uint64_t c = 0) {
  Instr instr;
  instr.op = op;
  instr.type = {dtype, 1};
  return detail::EvalLane(instr, dtype, a, b, c);
}
int64_t IntLane(Op op, DType dtype, int64_t a, int64_t b = 0) {
  return static_cast<int64_t>(Lane(op, dtype, static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
}
int64_t CastTo(DType from, DType to, uint64_t a) {
  Instr instr;
  instr.op = Op::kCast;
  instr.type = {to, 1};
  return static_cast<int64_t>(detail::EvalLane(instr, from, a, 0, 0));
}

TEST(KernelSemantics, Integers) {
  EXPECT_EQ(IntLane(Op::kAdd, DType::kS8, 127, 1), -128);
  EXPECT_EQ(IntLane(Op::kMul, DType::kU8, 16, 17), 16);
  EXPECT_EQ(IntLane(Op::kDiv, DType::kS32, -7, 2), -3);
  EXPECT_EQ(IntLane(Op::kRem, DType::kS32, -7, 2), -1);
  EXPECT_EQ(IntLane(Op::kDiv, DType::kS32, 5, 0), -1);
  EXPECT_EQ(IntLane(Op::kDiv, DType::kU16, 5, 0), 65535);
  EXPECT_EQ(IntLane(Op::kRem, DType::kS32, 5, 0), 5);
  EXPECT_EQ(IntLane(Op::kDiv, DType::kS32, INT32_MIN, -1), INT32_MIN);
  EXPECT_EQ(IntLane(Op::kDiv, DType::kS64, INT64_MIN, -1), INT64_MIN);
  EXPECT_EQ(IntLane(Op::kRem, DType::kS64, INT64_MIN, -1), 0);
  EXPECT_EQ(IntLane(Op::kNeg, DType::kS8, -128), -128);
  EXPECT_EQ(IntLane(Op::kAbs, DType::kS16, -5), 5);
  EXPECT_EQ(IntLane(Op::kShl, DType::kS32, 1, 31), INT32_MIN);
  EXPECT_EQ(IntLane(Op::kShl, DType::kS32, 1, 32), 0);
  EXPECT_EQ(IntLane(Op::kShl, DType::kS32, 1, -1), 0);
  EXPECT_EQ(IntLane(Op::kShr, DType::kS32, -8, 1), -4);
  EXPECT_EQ(IntLane(Op::kShr, DType::kS32, -8, 99), -1);
  EXPECT_EQ(IntLane(Op::kShr, DType::kU32, 8, 99), 0);
  EXPECT_EQ(IntLane(Op::kPopcount, DType::kS8, -1), 8);
  EXPECT_EQ(IntLane(Op::kClz, DType::kS16, 1), 15);
  EXPECT_EQ(IntLane(Op::kClz, DType::kU64, 0), 64);
  EXPECT_EQ(IntLane(Op::kNot, DType::kPred, 1), 0);
  EXPECT_EQ(IntLane(Op::kNot, DType::kU8, 1), 254);
  EXPECT_EQ(IntLane(Op::kMin, DType::kU64, -1, 3), 3);
  EXPECT_EQ(IntLane(Op::kLt, DType::kU64, -1, 3), 0);
  EXPECT_EQ(IntLane(Op::kLt, DType::kS64, -1, 3), 1);
}

TEST(KernelSemantics, Floats) {
  double nan = NAN, inf = INFINITY;
  EXPECT_TRUE(std::isnan(Real(Lane(Op::kMin, DType::kF32, Bits(nan), Bits(1)))));
  EXPECT_TRUE(std::isnan(Real(Lane(Op::kMax, DType::kF64, Bits(1), Bits(nan)))));
  EXPECT_EQ(Lane(Op::kLt, DType::kF32, Bits(nan), Bits(1)), 0u);
  EXPECT_EQ(Lane(Op::kGe, DType::kF32, Bits(nan), Bits(1)), 0u);
  EXPECT_EQ(Lane(Op::kNe, DType::kF32, Bits(nan), Bits(nan)), 1u);
  EXPECT_EQ(Real(Lane(Op::kRound, DType::kF32, Bits(2.5))), 2);
  EXPECT_EQ(Real(Lane(Op::kRound, DType::kF64, Bits(-3.5))), -4);
  EXPECT_EQ(Real(Lane(Op::kAdd, DType::kF32, Bits(16777216), Bits(1))), 16777216);
  EXPECT_EQ(Real(Lane(Op::kDiv, DType::kF32, Bits(1), Bits(0))), inf);
  EXPECT_EQ(Real(Lane(Op::kRem, DType::kF32, Bits(-7), Bits(2))), -1);
  float a = 1 + 0x1p-12f;
  EXPECT_EQ(Real(Lane(Op::kFma, DType::kF32, Bits(a), Bits(a), Bits(-1))),
            static_cast<double>(std::fma(a, a, -1.0f)));
}

TEST(KernelSemantics, Conversions) {
  EXPECT_EQ(CastTo(DType::kF32, DType::kS32, Bits(-2.9)), -2);
  EXPECT_EQ(CastTo(DType::kF32, DType::kS32, Bits(1e20)), INT32_MAX);
  EXPECT_EQ(CastTo(DType::kF32, DType::kS64, Bits(-INFINITY)), INT64_MIN);
  EXPECT_EQ(CastTo(DType::kF64, DType::kU8, Bits(-1)), 0);
  EXPECT_EQ(CastTo(DType::kF64, DType::kU64, Bits(1e30)), -1);
  EXPECT_EQ(CastTo(DType::kF32, DType::kS16, Bits(NAN)), 0);
  EXPECT_EQ(CastTo(DType::kS32, DType::kU8, static_cast<uint64_t>(-1)), 255);
  EXPECT_EQ(CastTo(DType::kU8, DType::kS8, 255), -1);
  EXPECT_EQ(CastTo(DType::kF32, DType::kPred, Bits(NAN)), 1);
  EXPECT_EQ(Real(static_cast<uint64_t>(CastTo(DType::kU64, DType::kF32, ~uint64_t{0}))), 0x1p64);
  EXPECT_EQ(Real(static_cast<uint64_t>(CastTo(DType::kS64, DType::kF32, 16777217))), 16777216);
  Instr narrow;
  narrow.op = Op::kNarrow;
  narrow.type = {DType::kF32, 1};
  narrow.format = DType::kBF16;
  EXPECT_EQ(Real(detail::EvalLane(narrow, DType::kF32, Bits(1.001), 0, 0)), 1.0);
  narrow.format = DType::kF8E4M3FN;
  EXPECT_EQ(Real(detail::EvalLane(narrow, DType::kF32, Bits(17.5), 0, 0)), 18.0);
  Instr bits;
  bits.op = Op::kBitcast;
  bits.type = {DType::kS32, 1};
  EXPECT_EQ(static_cast<int64_t>(detail::EvalLane(bits, DType::kF32, Bits(-0.0), 0, 0)), INT32_MIN);
  bits.type = {DType::kF32, 1};
  EXPECT_EQ(Real(detail::EvalLane(bits, DType::kU32, 0x3f800000, 0, 0)), 1.0);
}

TEST(Types, Text) {
  EXPECT_EQ(ParseType("f32x8"), (Type{DType::kF32, 8}));
  EXPECT_EQ((Type{DType::kS64, 1}).ToString(), "s64");
  for (const char* bad : {"f32x", "f32x1", "f32x65", "x8", "token", "f32x8x8", "f32x-2"}) {
    EXPECT_FALSE(ParseType(bad)) << bad;
  }
  EXPECT_EQ(ComputeType(DType::kF8E5M2), DType::kF32);
  EXPECT_EQ(ComputeType(DType::kU4), DType::kU8);
  EXPECT_EQ(ComputeType(DType::kC64), DType::kInvalid);
}

// Programs made in memory can be wrong in ways that text cannot.
TEST(VerifyBuilt, NumbersOutOfRange) {
  auto message = [](const Kernel& kernel) {
    Status status = Verify(kernel);
    return status ? std::string() : status.error().message();
  };
  KernelBuilder b("k");
  auto x = b.Param("x", DType::kF32, 4, Access::kReadWrite);
  b.Store(x, b.Int(0), b.Add(b.Load(x, b.Int(1)), b.F32(1)));
  Kernel good = std::move(b).Build();
  EXPECT_EQ(message(good), "");
  Kernel k = good;
  k.code[1].args[0] = 99;
  EXPECT_EQ(message(k), "kernel k: add: value number out of range");
  k = good;
  k.code[0].memory = 3;
  EXPECT_EQ(message(k), "kernel k: load: memory number out of range");
  k = good;
  k.num_params = 2;
  EXPECT_EQ(message(k), "kernel k: wrong number of parameters");
  k = good;
  k.code.pop_back();
  k.code.push_back(good.code[1]);
  EXPECT_NE(message(k).find("is defined twice"), std::string::npos);
  k = good;
  k.code[1].args.pop_back();
  EXPECT_EQ(message(k), "kernel k: add: takes 2 operands, has 1");
  k = good;
  k.values[k.code[1].results[0]].type = {DType::kF64, 1};
  EXPECT_NE(message(k).find("and should be f32"), std::string::npos);
  k = good;
  k.values[k.code[1].results[0]].name = "a b";
  EXPECT_NE(message(k).find("malformed"), std::string::npos);
  k = good;
  Instr end;
  end.op = Op::kEnd;
  k.code.push_back(end);
  EXPECT_EQ(message(k), "kernel k: end without a block");
  k.code.back().op = Op::kElse;
  EXPECT_EQ(message(k), "kernel k: else without an if");
  k.code.back().op = Op::kLoop;
  EXPECT_EQ(message(k), "kernel k: loop: wrong number of operands");
  k.code.back() = Instr();
  k.code.back().op = Op::kIf;
  EXPECT_EQ(message(k), "kernel k: if: takes 1 operands, has 0");
  k.code.back().args = {good.code[1].results[0]};
  EXPECT_NE(message(k).find("should be pred"), std::string::npos);
}

TEST(VerifyBuilt, Steps) {
  Program p;
  p.name = "p";
  BufferId x = AddBuffer(p, "x", Shape(DType::kF32, {4}), BufferKind::kParameter);
  BufferId y = AddBuffer(p, "y", Shape(DType::kF32, {4}), BufferKind::kResult);
  p.steps.push_back(MakeStep(CopyStep{}, {In(p, x), Out(p, y)}));
  ASSERT_TRUE(Verify(p));
  auto message = [](const Program& program) { return Verify(program).error().message(); };
  Program q = p;
  q.steps[0].uses[0].slice.buffer = 7;
  EXPECT_EQ(message(q), "copy: undefined buffer");
  q = p;
  q.steps[0].op = KernelStep{3};
  EXPECT_EQ(message(q), "launch: undefined kernel");
  q = p;
  q.devices = 0;
  EXPECT_EQ(message(q), "program has 0 devices");
  q = p;
  q.buffers[0].base = 9;
  EXPECT_NE(message(q).find("undefined buffer"), std::string::npos);
  q = p;
  q.buffers[0].shape = Shape::Token();
  EXPECT_NE(message(q).find("has shape"), std::string::npos);
  q = p;
  q.buffers[1].name = "x";
  EXPECT_NE(message(q).find("defined twice"), std::string::npos);
  q = p;
  q.steps[0].source = "model.py:7";
  q.steps[0].name = "copy.1";
  q.steps[0].uses[0].slice.size = 3;
  EXPECT_EQ(Verify(q).error().ToString(), "copy.1: copy: sizes differ: 3 and 16\n  at model.py:7");
  q = p;
  Step nest = MakeStep(ConditionalStep{}, {});
  BufferId flag = AddBuffer(q, "flag", Shape(DType::kPred, {}), BufferKind::kParameter, 1);
  nest.uses = {In(q, flag)};
  for (int i = 0; i < 1030; ++i) {
    Step outer = MakeStep(ConditionalStep{}, {In(q, flag)});
    std::get<ConditionalStep>(outer.op).branches.push_back({});
    if (i > 0) std::get<ConditionalStep>(outer.op).branches[0].push_back(std::move(nest));
    nest = std::move(outer);
  }
  q.steps.push_back(std::move(nest));
  EXPECT_EQ(message(q), "steps are nested more than 1024 deep");
  q = p;
  q.buffers[0].kind = BufferKind::kConstant;
  EXPECT_NE(message(q).find("another shape than its value"), std::string::npos);
}

TEST(Steps, UsesAndEffects) {
  auto program = Parse(R"(program p
devices 2
buffer p: pred[] parameter 0
buffer x: f32[4] parameter 1
buffer y: f32[4] result 0
buffer half: f32[2] temp in y at 8
steps {
  copy(read x, write y)
  if(read p) {
    collective all_reduce add(read x[0..8], write half)
  }
})");
  ASSERT_TRUE(program) << program.error().ToString("p");
  const Step& conditional = program->steps[1];
  EXPECT_FALSE(HasEffects(program->steps[0]));
  EXPECT_TRUE(HasEffects(conditional));
  std::vector<Use> uses = AllUses(conditional);
  ASSERT_EQ(uses.size(), 3u);
  Slice half = Resolve(*program, uses[2].slice);
  EXPECT_EQ(half.buffer, 2);
  EXPECT_EQ(half.offset, 8);
  EXPECT_TRUE(Overlap(half, {2, 0, 9}));
  EXPECT_FALSE(Overlap(half, {2, 0, 8}));
}

}  // namespace
}  // namespace weft::program
