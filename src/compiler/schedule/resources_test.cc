// What transfers occupy: one test for each rule that is easily got wrong, and limits on the wire.
#include "compiler/schedule/resources.h"

#include <gtest/gtest.h>

#include "compiler/schedule/certificate.h"
#include "compiler/schedule/scheduler.h"
#include "compiler/schedule/verify_schedule.h"
#include "hlo/text.h"

namespace weft::compiler::schedule {
namespace {

using hlo::Instruction;

std::unique_ptr<hlo::Module> Parsed(std::string_view text) {
  auto module = hlo::ParseModule(text);
  EXPECT_TRUE(module) << module.error().ToString();
  return *std::move(module);
}
const Instruction& Named(const hlo::Module& m, std::string_view name) {
  for (const auto& c : m.computations()) {
    for (const Instruction* i : *c) {
      if (i->name() == name) return *i;
    }
  }
  ADD_FAILURE() << "no " << name;
  return *m.entry()->root();
}
int64_t Of(const ResourceCounts& counts, Resource r) {
  return counts[static_cast<size_t>(r)];
}
ScheduleRules Limit(Resource r, int64_t most) {
  ScheduleRules rules;
  rules.limits.most[static_cast<size_t>(r)] = most;
  return rules;
}

// A loop whose body has two kinds, one of them twice and overlapping; beside it one of each.
constexpr std::string_view kLoop = R"(HloModule m, num_partitions=8
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
cond { s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  g1 = (f32[8], f32[64]) all-gather-start(x), replica_groups={}, dimensions={0}
  g2 = (f32[8], f32[64]) all-gather-start(x), replica_groups={}, dimensions={0}
  h1 = f32[64] all-gather-done(g1)
  h2 = f32[64] all-gather-done(g2)
  r1 = f32[8] all-reduce-start(x), replica_groups={}, to_apply=sum
  q1 = f32[8] all-reduce-done(r1)
  g3 = (f32[8], f32[64]) all-gather-start(q1), replica_groups={}, dimensions={0}
  h3 = f32[64] all-gather-done(g3)
  y = f32[8] slice(h3), slice={[0:8]}
  ROOT t = (s32[], f32[8]) tuple(j, y) }
ENTRY e { p = f32[8] parameter(0)
  zero = s32[] constant(0)
  a = (f32[8], f32[64]) all-gather-start(p), replica_groups={}, dimensions={0}
  t = (s32[], f32[8]) tuple(zero, p)
  w = (s32[], f32[8]) while(t), condition=cond, body=body
  b = f32[64] all-gather-done(a)
  ROOT r = ((s32[], f32[8]), f32[64]) tuple(w, b) })";

TEST(Resources, LoopsOccupyAllThatTheirBodiesUse) {  // rules 1, 2 and 5
  auto m = Parsed(kLoop);
  ResourceUse use;
  ResourceCounts inside = use.Inside(Named(*m, "w"));
  EXPECT_EQ(Of(inside, Resource::kAllGather), 2);  // the most along the list, not their number
  EXPECT_EQ(Of(inside, Resource::kAllReduce), 1);
  EXPECT_EQ(Of(inside, Resource::kPermute), 0);
  EXPECT_EQ(Of(use.Peak(*m->entry()), Resource::kAllGather), 3);
  EXPECT_TRUE(VerifySchedules(*m, Limit(Resource::kAllGather, 3)));
  Status status = VerifySchedules(*m, Limit(Resource::kAllGather, 2));
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().ToString().find("w of e: 3 of all-gather"), std::string::npos)
      << status.error().ToString();
  // In all: what are at most two at once inside, and the one beside them.
  EXPECT_FALSE(VerifySchedules(*m, {.in_flight = 2}));
  EXPECT_TRUE(VerifySchedules(*m, {.in_flight = 3}));
  // Scheduled anew, it is counted anew.
  hlo::Computation& body = *m->FindComputation("body");
  Instruction *h1 = nullptr, *g2 = nullptr;
  for (Instruction* i : body) {
    if (i->name() == "h1") h1 = i;
    if (i->name() == "g2") g2 = i;
  }
  body.MoveBefore(h1, g2);
  EXPECT_EQ(Of(use.Peak(body), Resource::kAllGather), 2);
  use.Forget(body);
  EXPECT_EQ(Of(use.Peak(body), Resource::kAllGather), 1);
}

TEST(Resources, BranchesExcludeEachOther) {  // rule 3
  auto m = Parsed(R"(HloModule m, num_partitions=8
one { x = f32[8] parameter(0)
  s = (f32[8], f32[64]) all-gather-start(x), replica_groups={}, dimensions={0}
  ROOT d = f32[64] all-gather-done(s) }
two { x = f32[8] parameter(0)
  s = (f32[8], f32[64]) all-gather-start(x), replica_groups={}, dimensions={0}
  u = (f32[8], f32[64]) all-gather-start(x), replica_groups={}, dimensions={0}
  d = f32[64] all-gather-done(s)
  v = f32[64] all-gather-done(u)
  ROOT w = f32[64] add(d, v) }
ENTRY e { k = s32[] parameter(0)
  x = f32[8] parameter(1)
  ROOT c = f32[64] conditional(k, x, x), branch_computations={one, two} })");
  ResourceUse use;
  EXPECT_EQ(Of(use.Inside(Named(*m, "c")), Resource::kAllGather), 2);
  EXPECT_TRUE(VerifySchedules(*m, {.in_flight = 2}));
  EXPECT_FALSE(VerifySchedules(*m, {.in_flight = 1}));
}

TEST(Resources, WrappersUseWhatTheyWrap) {  // rules 4 and 9, and marked custom calls
  auto m = Parsed(R"(HloModule m, num_partitions=8
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
both { x = f32[64] parameter(0)
  a = f32[8] reduce-scatter(x), replica_groups={}, dimensions={0}, to_apply=sum
  b = f32[8] reduce-scatter(x), replica_groups={}, dimensions={0}, to_apply=sum
  ROOT t = (f32[8], f32[8]) tuple(a, b) }
own { x = f32[64] parameter(0)
  ROOT a = f32[64] custom-call(x), custom_call_target="ring", frontend_attributes={is_collective="true"} }
ENTRY e { x = f32[64] parameter(0)
  s = ((f32[64]), (f32[8], f32[8])) async-start(x), calls=both
  u = ((f32[64]), f32[64]) async-start(x), calls=own
  d = (f32[8], f32[8]) async-done(s), calls=both
  v = f32[64] async-done(u), calls=own
  plain = f32[64] custom-call(x), custom_call_target="ring"
  ROOT r = ((f32[8], f32[8]), f32[64], f32[64]) tuple(d, v, plain) })");
  EXPECT_EQ(ResourceOf(Named(*m, "s")), Resource::kReduceScatter);
  EXPECT_EQ(ResourceOf(Named(*m, "u")), Resource::kCustom);
  EXPECT_EQ(ResourceOf(Named(*m, "plain")), std::nullopt);
  ResourceUse use;
  EXPECT_EQ(Of(use.Peak(*m->entry()), Resource::kReduceScatter), 1);  // one launch
  EXPECT_FALSE(VerifySchedules(*m, {.in_flight = 1}));
  EXPECT_TRUE(VerifySchedules(*m, {.in_flight = 2}));
}

// A permute that is in flight across the back edge: ended first, begun last.
constexpr std::string_view kCarried = R"(HloModule m, num_partitions=8
cond { s = (s32[], (f32[8], f32[8])) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], (f32[8], f32[8])) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  flying = (f32[8], f32[8]) get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = f32[8] collective-permute-done(flying)
  y = f32[8] negate(x)
  next = (f32[8], f32[8]) collective-permute-start(y), source_target_pairs={{0,1},{1,0}}
  ROOT t = (s32[], (f32[8], f32[8])) tuple(j, next) }
ENTRY e { p = f32[8] parameter(0)
  zero = s32[] constant(0)
  first = (f32[8], f32[8]) collective-permute-start(p), source_target_pairs={{0,1},{1,0}}
  t = (s32[], (f32[8], f32[8])) tuple(zero, first)
  w = (s32[], (f32[8], f32[8])) while(t), condition=cond, body=body
  last = (f32[8], f32[8]) get-tuple-element(w), index=1
  ROOT r = f32[8] collective-permute-done(last) })";

TEST(Resources, PipelinedTransfersAreReleasedFirst) {  // rules 6, 7 and 8
  auto m = Parsed(kCarried);
  ResourceUse use;
  EXPECT_EQ(Of(use.Peak(*m->FindComputation("body")), Resource::kPermute), 1);
  // What the loop takes along is counted by its body, not once more beside it.
  EXPECT_EQ(Of(ResourceUse::CarriedInto(Named(*m, "w")), Resource::kPermute), 1);
  EXPECT_EQ(Of(use.Peak(*m->entry()), Resource::kPermute), 1);
  Status status = VerifySchedules(*m, {.in_flight = 1});
  EXPECT_TRUE(status) << status.error().ToString();
}

TEST(Resources, NoneAtAllIsALimit) {  // rule 10
  auto m = Parsed(kLoop);
  EXPECT_FALSE(VerifySchedules(*m, Limit(Resource::kAllReduce, 0)));
  EXPECT_TRUE(VerifySchedules(*m, Limit(Resource::kAllToAll, 0)));
}

// Four gathers of one array, over all devices or over halves, and compute beside them.
std::string Gathers(std::string_view groups, std::string_view other) {
  std::string text = "HloModule m, num_partitions=8\nENTRY e {\n  p = f32[8] parameter(0)\n";
  for (int k = 0; k < 4; ++k) {
    StrAppend(text, "  s", k, " = (f32[8], f32[32]) all-gather-start(p), replica_groups=",
              k % 2 == 0 ? groups : other, ", dimensions={0}, use_global_device_ids=true, ",
              "channel_id=", k + 1, "\n  d", k, " = f32[32] all-gather-done(s", k, ")\n");
  }
  StrAppend(text, "  ROOT r = (f32[32], f32[32], f32[32], f32[32]) tuple(d0, d1, d2, d3)\n}\n");
  return text;
}
double LengthOn(std::string_view text, std::string_view target) {
  auto m = Parsed(text);
  auto machine = FindMachine(target);
  EXPECT_TRUE(machine) << machine.error().ToString();
  auto profile = Profile::Parse("s0 10\ns1 10\ns2 10\ns3 10\n");
  auto made = ScheduleModule(*m, *machine, &*profile, {});
  EXPECT_TRUE(made) << made.error().ToString();
  auto c = Certify(*m, *machine, &*profile);
  EXPECT_TRUE(c) << c.error().ToString();
  return c->line.length * 1e6;
}

TEST(WireRules, LimitsByKindAndTopology) {
  std::string_view rows = "{{0,1,2,3},{4,5,6,7}}", columns = "{{0,4,1,5},{2,6,3,7}}";
  std::string same = Gathers(rows, rows), crossed = Gathers(rows, columns);
  EXPECT_NEAR(LengthOn(same, "h200x8"), 40, 1e-6);
  EXPECT_NEAR(LengthOn(same, "h200x8,overlap=2"), 20, 1e-6);
  EXPECT_NEAR(LengthOn(same, "h200x8,overlap=4"), 10, 1e-6);
  EXPECT_NEAR(LengthOn(same, "h200x8,overlap=4,all-gather=2"), 20, 1e-6);
  EXPECT_NEAR(LengthOn(same, "h200x8,overlap=4,all-reduce=1"), 10, 1e-6);
  // Groups that share two devices exclude each other; those that share one do not.
  EXPECT_NEAR(LengthOn(same, "h200x8,overlap=4,topology=1"), 40, 1e-6);
  EXPECT_NEAR(LengthOn(crossed, "h200x8,overlap=4,topology=1"), 40, 1e-6);
  std::string apart = Gathers("{{0,1},{2,3},{4,5},{6,7}}", "{{0,2},{1,3},{4,6},{5,7}}");
  for (size_t at; (at = apart.find("f32[32]")) != apart.npos;) apart.replace(at, 7, "f32[16]");
  EXPECT_NEAR(LengthOn(apart, "h200x8,overlap=4,topology=1"), 20, 1e-6);
  EXPECT_FALSE(FindMachine("h200x8,all-gather=0"));
  EXPECT_FALSE(FindMachine("h200x8,topology=2"));
}

TEST(WireRules, MarkedCustomCallsAreTransfers) {
  auto m = Parsed(R"(HloModule m, num_partitions=8
ENTRY e { p = f32[1024] parameter(0)
  a = f32[1024] custom-call(p), custom_call_target="ring", frontend_attributes={is_collective="true",latency_metadata="5000"}
  b = f32[1024] custom-call(p), custom_call_target="work"
  ROOT r = f32[1024] add(a, b) })");
  Machine machine = *FindMachine("h200x8");
  auto profile = Profile::Parse("b 5\nr 1\n");
  ASSERT_TRUE(ScheduleModule(*m, machine, &*profile, {}));
  auto c = Certify(*m, machine, &*profile);
  ASSERT_TRUE(c);
  EXPECT_EQ(c->collectives.size(), 1u);
  EXPECT_NEAR(c->line.length * 1e6, 6, 0.5);
}

}  // namespace
}  // namespace weft::compiler::schedule
