#include <gtest/gtest.h>

#include "compiler/schedule/timeline.h"
#include "hlo/text.h"

namespace weft::compiler::schedule {
namespace {

struct Modelled {
  std::unique_ptr<hlo::Module> module;
  Trace trace;
  Timeline line;
  Bounds bounds;
};

Modelled Model(std::string_view text, std::string_view target = "h200x8",
               std::string_view profile = "") {
  Modelled m;
  auto module = hlo::ParseModule(text);
  EXPECT_TRUE(module) << module.error().ToString();
  m.module = *std::move(module);
  auto machine = FindMachine(target);
  auto measured = Profile::Parse(profile);
  EXPECT_TRUE(machine && measured);
  Costs costs(*m.module, *machine, &*measured);
  auto trace = Execute(*m.module, costs);
  EXPECT_TRUE(trace) << trace.error().ToString();
  m.trace = *std::move(trace);
  m.line = Simulate(m.trace, machine->overlap);
  m.bounds = LowerBounds(m.trace, machine->overlap);
  return m;
}

constexpr std::string_view kGather = R"(HloModule m, num_partitions=8, is_scheduled=true
ENTRY e {
  p = bf16[512,4096] parameter(0)
  x = bf16[4096,4096] parameter(1)
  s = (bf16[512,4096], bf16[4096,4096]) all-gather-start(p), replica_groups={}, dimensions={0}
  y = bf16[4096,4096] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  d = bf16[4096,4096] all-gather-done(s)
  ROOT z = bf16[4096,4096] dot(y, d), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})";

TEST(Model, OpsAndCollectives) {
  Modelled m = Model(kGather);
  double dot = 2.0 * 4096 * 4096 * 4096 / 790e12 + 2e-6;
  double gather = 4096.0 * 4096 * 2 * 7 / 8 / 370e9 + 10e-6;
  EXPECT_NEAR(m.line.compute, 2 * dot, 1e-12);
  EXPECT_NEAR(m.line.wire, gather, 1e-12);
  EXPECT_NEAR(m.line.length, std::max(dot, gather) + dot, 1e-12);
  EXPECT_NEAR(m.bounds.best, std::max(gather + dot, 2 * dot), 1e-12);
  EXPECT_EQ(m.trace.Peak(), int64_t{512 * 4096 + 4096 * 4096 * 4} * 2);
}

TEST(Model, QueueLetsComputeGoOn) {
  constexpr std::string_view text = R"(HloModule m, num_partitions=8
ENTRY e {
  p = f32[8] parameter(0)
  s1 = (f32[8], f32[64]) all-gather-start(p), replica_groups={}, dimensions={0}
  s2 = (f32[8], f32[64]) all-gather-start(p), replica_groups={}, dimensions={0}
  a = f32[8] negate(p)
  d1 = f32[64] all-gather-done(s1)
  b = f32[64] negate(d1)
  d2 = f32[64] all-gather-done(s2)
  ROOT c = f32[64] add(d2, b)
})";
  constexpr std::string_view times = "s1 10\ns2 20 # wire\na 4\nb 5\n%c 1\n";
  Modelled m = Model(text, "h200x8", times);
  EXPECT_NEAR(m.line.length, 31e-6, 1e-12);  // 10 + 20 on one wire, then c
  EXPECT_NEAR(m.line.exposed, 21e-6, 1e-12);
  EXPECT_NEAR(Model(text, "h200x8,overlap=2", times).line.length, 21e-6, 1e-12);
  EXPECT_NEAR(InFlightWalk(m.trace), 21e-6, 1e-12);
}

TEST(Model, LoopsRunTheirBody) {
  constexpr std::string_view text = R"(HloModule m
c { s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT r = pred[] compare(i, n), direction=LT }
b { s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[8] negate(x)
  ROOT r = (s32[], f32[8]) tuple(j, y) }
ENTRY e { x = f32[8] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[8]) tuple(zero, x)
  ROOT w = (s32[], f32[8]) while(t), condition=c, body=b })";
  Modelled m = Model(text, "h200x8", "j 1\ny 2\n");
  EXPECT_NEAR(m.line.length, 15e-6, 1e-12);
  EXPECT_EQ(m.trace.iterations.size(), 5u);
}

TEST(Model, AcrossNodesTheLeastAlgorithm) {
  Machine m = *FindMachine("h200x64");
  double ring = 1e9 * 63 / 64 / m.node_link;
  EXPECT_LT(CollectiveSeconds(m, hlo::Op::kAllGather, 1e9, 64), ring / 4);
  EXPECT_GT(CollectiveSeconds(m, hlo::Op::kAllGather, 1e9, 64),
            CollectiveSeconds(m, hlo::Op::kAllGather, 1e9, 8));
}

TEST(Model, RefusesWhatItCannotRead) {
  EXPECT_FALSE(FindMachine("h300x8"));
  EXPECT_FALSE(FindMachine("h200x8,link=-1"));
  EXPECT_FALSE(FindMachine("h200x8,link"));
  EXPECT_FALSE(FindMachine("h200x8,wire=3"));
  EXPECT_FALSE(Profile::Parse("a b\n"));
  EXPECT_FALSE(Profile::Parse("a\n"));
}

TEST(Bounds, OneMachine) {
  EXPECT_DOUBLE_EQ(OneMachineBound({}), 0);
  EXPECT_DOUBLE_EQ(OneMachineBound({{0, 2, 0}, {1, 2, 5}}), 8);  // the second interrupts the first
  EXPECT_DOUBLE_EQ(OneMachineBound({{3, 1, 0}, {0, 1, 0}}), 4);
}

}  // namespace
}  // namespace weft::compiler::schedule
