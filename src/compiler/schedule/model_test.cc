#include <gtest/gtest.h>

#include <set>
#include <string>

#include "compiler/schedule/overlap.h"
#include "compiler/schedule/priorities.h"
#include "compiler/schedule/rank_set.h"
#include "compiler/schedule/search.h"
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

// A library routine of ours is costed by what it computes, not by its bytes alone.
TEST(Model, AttentionIsComputed) {
  Modelled m = Model(R"(HloModule m
ENTRY e {
  q = f32[512,8,64] parameter(0)
  k = f32[1024,8,64] parameter(1)
  v = f32[1024,8,32] parameter(2)
  dout = f32[512,8,32] parameter(3)
  a = (f32[512,8,32], f32[512,8,2]) custom-call(q, k, v), custom_call_target="weft.attention", backend_config={"spec":"thd,shd,shv->thv","scale":1}
  out = f32[512,8,32] get-tuple-element(a), index=0
  s = f32[512,8,2] get-tuple-element(a), index=1
  ROOT g = (f32[512,8,64], f32[1024,8,64], f32[1024,8,32]) custom-call(q, k, v, out, s, dout), custom_call_target="weft.attention_gradient", backend_config={"spec":"thd,shd,shv,thv,thv->thd,shd,shv","scale":1}
})",
                     "cpu,launch=0");
  EXPECT_NEAR(m.line.compute, 2.0 * 512 * 8 * 1024 * (64 + 32 + 3 * 64 + 2 * 32) / 142e9, 1e-9);
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

// Measured times decide, of copies and of pairs made of a collective too; what is not measured is
// estimated. `latency_metadata` stands back behind a measurement.
TEST(Model, MeasuredTimes) {
  constexpr std::string_view text = R"(HloModule m, num_partitions=8
ENTRY e {
  p = f32[8] parameter(0)
  g.4-start = (f32[8], f32[64]) all-gather-start(p), replica_groups={}, dimensions={0}
  g.4-done = f32[64] all-gather-done(g.4-start)
  a.7 = f32[64] negate(g.4-done), frontend_attributes={latency_metadata="9000"}
  b.7 = f32[64] negate(a.7), frontend_attributes={latency_metadata="9000"}
  ROOT c = f32[64] negate(b.7)
})";
  const double c = Model(text, "h200x8", "g.4 10\na 4\nb.8 1\n").line.length - 23e-6;
  EXPECT_NEAR(c, 2e-6, 1e-9);  // launched
  EXPECT_NEAR(Model(text, "h200x8", "g.4-start 20\ng.4 10\na.7 5\nc 0\n").line.length, 34e-6,
              1e-12);
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

// Eight devices that share 16 cores: with tiles products of bf16 are quick, and those by vectors
// are as quick as the clock is kept.
TEST(Model, ProcessorsWithTiles) {
  program::TargetInfo target = program::TargetInfo::CpuAvx512();
  const Machine tiles = MachineOf(target, CollectiveOptions(), 8);
  EXPECT_NEAR(tiles.FlopRate(DType::kF32), 0.72 * target.f32_flops / 8, 1);
  EXPECT_NEAR(tiles.FlopRate(DType::kBF16), 2e12, 1);
  EXPECT_EQ(tiles.FlopRate(DType::kF16), tiles.FlopRate(DType::kF32));
  target.matrix_tiles = false, target.bf16_matrix_flops = 0;
  const Machine vectors = MachineOf(target, CollectiveOptions(), 8);
  EXPECT_NEAR(vectors.FlopRate(DType::kF32), target.f32_flops / 16, 1);
  EXPECT_EQ(vectors.FlopRate(DType::kBF16), vectors.FlopRate(DType::kF32));
  target.vector_bits = 256;
  EXPECT_NEAR(MachineOf(target, CollectiveOptions(), 8).f32, target.f32_flops / 8, 1);
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

TEST(RankSet, WalksAsASetDoes) {
  for (int32_t size : {1, 63, 64, 65, 4096, 5000}) {
    RankSet ranks(static_cast<size_t>(size));
    std::set<int32_t> expected;
    uint64_t state = 7;
    for (int k = 0; k < 4000; ++k) {
      state = state * 6364136223846793005 + 1442695040888963407;
      auto n = static_cast<int32_t>((state >> 33) % static_cast<uint64_t>(size));
      if (state >> 63) {
        ranks.Insert(n);
        expected.insert(n);
      } else {
        ranks.Erase(n);
        expected.erase(n);
      }
      auto it = expected.lower_bound(n / 2);
      ASSERT_EQ(ranks.From(n / 2), it == expected.end() ? -1 : *it);
      ASSERT_EQ(ranks.empty(), expected.empty());
    }
  }
}

// A chain of compute with a transfer in the middle, and work for later that takes memory.
Problem WaitingProblem(int64_t bytes) {
  Problem p;
  auto add = [&](Stream stream, double seconds, std::vector<int32_t> preds) {
    Job job;
    job.stream = stream, job.is_async = stream != Stream::kCompute, job.seconds = seconds;
    job.preds = preds;
    for (int32_t q : preds) {
      p.jobs[static_cast<size_t>(q)].succs.push_back(static_cast<int32_t>(p.size()));
    }
    p.jobs.push_back(job);
  };
  add(Stream::kCompute, 1, {});
  add(Stream::kWire, 2, {0});
  add(Stream::kCompute, 1, {1});
  add(Stream::kCompute, 2, {0});
  add(Stream::kCompute, 1, {2, 3});
  p.bytes = {bytes};
  p.jobs[3].makes = {0};
  p.jobs[4].reads = {0};
  p.readers = {1};
  p.reader_set = {4};
  p.FindTails();
  return p;
}

TEST(FillWaits, FillsWithinTheLimit) {
  Problem p = WaitingProblem(100);
  std::vector<int32_t> order = {0, 1, 2, 3, 4};
  EXPECT_EQ(Evaluate(p, order).length, 7);
  int64_t work = 0;
  FillOptions options{.memory_limit = 100, .bound = 5, .overshoot = 1};
  std::vector<int32_t> filled = FillWaits(p, order, options, &work);
  EXPECT_EQ(Evaluate(p, filled).length, 5);
  EXPECT_GT(work, 0);
  options.memory_limit = 99;
  EXPECT_EQ(FillWaits(p, order, options, &work), order);
  // The whole search knows the limit too, and when there is none it need not.
  EXPECT_EQ(FindOrder(p, {.memory_limit = 100}).value.length, 5);
  EXPECT_EQ(FindOrder(p, {}).value.length, 5);
}

// A chain of products, and products that fill waits at the cost of memory; every third product is
// waited for by a transfer.
Problem FilledChain(int32_t size) {
  Problem p;
  auto add = [&](Stream stream, double seconds, std::vector<int32_t> preds, int64_t bytes) {
    auto n = static_cast<int32_t>(p.size());
    Job job;
    job.stream = stream, job.is_async = stream != Stream::kCompute, job.seconds = seconds;
    job.preds = job.reads = preds;
    job.makes = {n};
    for (int32_t q : preds) {
      p.jobs[static_cast<size_t>(q)].succs.push_back(n);
      ++p.readers[static_cast<size_t>(q)];
      p.reader_set[static_cast<size_t>(q)] ^= n;
    }
    p.jobs.push_back(std::move(job));
    p.bytes.push_back(bytes);
    p.readers.push_back(0);
    p.reader_set.push_back(0);
    return n;
  };
  int32_t last = add(Stream::kCompute, 1e-4, {}, 100);
  std::vector<int32_t> kept;
  for (int32_t k = 1; k < size; ++k) {
    kept.push_back(add(Stream::kCompute, 4e-5, {last}, 30 + k % 7));
    last = add(Stream::kCompute, 1e-4, {last}, 100);
    if (k % 3 == 0) last = add(Stream::kWire, 1e-4, {last}, 100);
  }
  for (size_t k = kept.size(); k-- > 0;) last = add(Stream::kCompute, 3e-5, {kept[k], last}, 100);
  p.FindTails();
  return p;
}

// The order of the one computation of a module by one rule set: priorities as listed.
std::string Listed(std::string_view text, double horizon, int64_t limit = 0) {
  auto module = hlo::ParseModule(text);
  EXPECT_TRUE(module) << module.error().ToString();
  Costs costs(**module, *FindMachine("h200x8"));
  Problem p = MakeProblem(*(*module)->entry(), costs, {});
  std::vector<int32_t> natural(p.size());
  ListRules rules;
  for (size_t n = 0; n < p.size(); ++n) {
    natural[n] = static_cast<int32_t>(n);
    rules.priority.push_back(-static_cast<double>(n));
  }
  rules.need = NeedTimes(p, natural);
  rules.horizon = horizon;
  rules.memory_limit = limit;
  std::string names;
  for (int32_t job : ListSchedule(p, rules).jobs) {
    StrAppend(names, names.empty() ? "" : " ", p.jobs[static_cast<size_t>(job)].op->name());
  }
  return names;
}

// Four layers, a gather of 10 us and a product of 20 us each.
constexpr std::string_view kLayers = R"(HloModule m, num_partitions=8
ENTRY e {
  x = f32[64,64] parameter(0)
  w = f32[8,64] parameter(1)
  s0 = (f32[8,64], f32[64,64]) all-gather-start(w), replica_groups={}, dimensions={0}, frontend_attributes={latency_metadata="10000"}
  s1 = (f32[8,64], f32[64,64]) all-gather-start(w), replica_groups={}, dimensions={0}, frontend_attributes={latency_metadata="10000"}
  s2 = (f32[8,64], f32[64,64]) all-gather-start(w), replica_groups={}, dimensions={0}, frontend_attributes={latency_metadata="10000"}
  s3 = (f32[8,64], f32[64,64]) all-gather-start(w), replica_groups={}, dimensions={0}, frontend_attributes={latency_metadata="10000"}
  d0 = f32[64,64] all-gather-done(s0)
  y0 = f32[64,64] dot(x, d0), lhs_contracting_dims={1}, rhs_contracting_dims={0}, frontend_attributes={latency_metadata="20000"}
  d1 = f32[64,64] all-gather-done(s1)
  y1 = f32[64,64] dot(y0, d1), lhs_contracting_dims={1}, rhs_contracting_dims={0}, frontend_attributes={latency_metadata="20000"}
  d2 = f32[64,64] all-gather-done(s2)
  y2 = f32[64,64] dot(y1, d2), lhs_contracting_dims={1}, rhs_contracting_dims={0}, frontend_attributes={latency_metadata="20000"}
  d3 = f32[64,64] all-gather-done(s3)
  ROOT y3 = f32[64,64] dot(y2, d3), lhs_contracting_dims={1}, rhs_contracting_dims={0}, frontend_attributes={latency_metadata="20000"}
})";

// A start stands back behind what can compute until its result is read within the horizon.
TEST(ListSchedule, StartsAreDelayed) {
  EXPECT_EQ(Listed(kLayers, 1), "s0 s1 s2 s3 y0 y1 y2 y3");
  EXPECT_EQ(Listed(kLayers, 25e-6), "s0 s1 y0 s2 y1 s3 y2 y3");
  EXPECT_EQ(Listed(kLayers, 45e-6), "s0 s1 s2 y0 s3 y1 y2 y3");
}

TEST(Search, MovesKeepToTheMemoryLimit) {
  Problem p = FilledChain(40);
  std::vector<int32_t> listed(p.size());
  for (size_t n = 0; n < listed.size(); ++n) listed[n] = static_cast<int32_t>(n);
  const Evaluation before = Evaluate(p, listed);
  for (double part : {0.75, 0.9, 1.0, 1.1}) {
    MoveOptions options{400'000, 400'000, static_cast<int64_t>(part * double(before.peak)), 0,
                        1e-3};
    const Evaluation after = Evaluate(p, ImproveByMoves(p, listed, options));
    EXPECT_LE(after.length, before.length * (1 + 1e-12));
    // The peak of places is the walk's: no order of more is taken.
    if (part >= 1) EXPECT_LE(after.peak, options.memory_limit);
    if (part >= 1) EXPECT_LT(after.length, before.length);
  }
}

TEST(Search, CriticalBlocksAreReordered) {
  Problem p = FilledChain(30);
  std::vector<int32_t> listed(p.size());
  for (size_t n = 0; n < listed.size(); ++n) listed[n] = static_cast<int32_t>(n);
  const double bound = LowerBound(p);
  MoveOptions options{8'000'000, 8'000'000, 0, bound, 0};
  std::vector<int32_t> jobs = ImproveByCriticalBlocks(p, listed, options);
  EXPECT_EQ(std::set<int32_t>(jobs.begin(), jobs.end()).size(), p.size());
  EXPECT_LE(Evaluate(p, jobs).length, bound * 1.01);
  EXPECT_EQ(jobs, ImproveByCriticalBlocks(p, listed, options));  // the same in every run
  p.overlap = 2;
  EXPECT_TRUE(ImproveByCriticalBlocks(p, listed, options).empty());
}

}  // namespace
}  // namespace weft::compiler::schedule
