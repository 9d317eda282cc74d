// Scheduling annotations: what is legal, and where members are placed.
#include "compiler/schedule/groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "compiler/schedule/certificate.h"
#include "compiler/schedule/scheduler.h"
#include "hlo/text.h"

namespace weft::compiler::schedule {
namespace {

using hlo::Instruction;

std::unique_ptr<hlo::Module> Annotated(std::string_view text) {
  auto module = hlo::ParseModule(text);
  EXPECT_TRUE(module) << module.error().ToString();
  return *std::move(module);
}
std::vector<std::string> Names(const hlo::Computation& c) {
  std::vector<std::string> names;
  for (const Instruction* i : c) names.push_back(i->name());
  return names;
}
int64_t Place(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) - names.begin();
}
std::optional<int64_t> GroupIn(const hlo::Module& m, std::string_view name) {
  for (const auto& c : m.computations()) {
    for (const Instruction* i : *c) {
      if (i->name() == name) return GroupOf(*i);
    }
  }
  ADD_FAILURE() << "no " << name;
  return {};
}
std::string ErrorOf(std::string_view text, GroupOptions options = {}) {
  auto m = Annotated(text);
  auto made = LegalizeGroups(*m, options);
  return made ? "" : made.error().ToString();
}

TEST(Groups, Annotations) {
  EXPECT_EQ(ParseGroupAnnotation("7")->group, 7);
  EXPECT_EQ(ParseGroupAnnotation("7:-1")->group, 7);
  EXPECT_EQ(ParseGroupAnnotation("7:-1")->iteration, -1);
  EXPECT_EQ(ParseGroupAnnotation(":1")->group, std::nullopt);
  EXPECT_EQ(ParseGroupAnnotation("noop")->group, std::nullopt);
  for (std::string_view bad : {"", "x", "-1", "1:", "1:x", "annotation1"}) {
    EXPECT_FALSE(ParseGroupAnnotation(bad)) << bad;
  }
}

// Two gathers; the product of the first is to run beside the second.
std::string Overlapped(std::string_view attribute, std::string_view dot_attribute) {
  return StrCat(R"(HloModule m, num_partitions=8
ENTRY e {
  x = f32[64,64] parameter(0)
  w = f32[8,64] parameter(1)
  v = f32[8,64] parameter(2)
  s1 = (f32[8,64], f32[64,64]) all-gather-start(w), replica_groups={}, dimensions={0}
  d1 = f32[64,64] all-gather-done(s1)
  s2 = (f32[8,64], f32[64,64]) all-gather-start(v), replica_groups={}, dimensions={0})",
                attribute, R"(
  d2 = f32[64,64] all-gather-done(s2)
  y = f32[64,64] dot(x, d1), lhs_contracting_dims={1}, rhs_contracting_dims={0})",
                dot_attribute, R"(
  z = f32[64,64] dot(y, d2), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  q = f32[64,64] sine(x)
  ROOT r = (f32[64,64], f32[64,64]) tuple(z, q)
})");
}
constexpr std::string_view kSeven = R"(, frontend_attributes={_scheduling_group_id="7"})";

TEST(Groups, MembersArePlacedSideBySide) {
  auto m = Annotated(Overlapped(kSeven, kSeven));
  auto made = ScheduleModule(*m, *FindMachine("h200x8"), nullptr, {});
  ASSERT_TRUE(made) << made.error().ToString();
  std::vector<std::string> names = Names(*m->entry());
  EXPECT_EQ(Place(names, "y"), Place(names, "s2") + 1);
  EXPECT_EQ(Place(names, "d2"), Place(names, "y") + 1);
  // Without the annotation the second gather begins before the first has ended.
  auto free = Annotated(Overlapped("", ""));
  ASSERT_TRUE(ScheduleModule(*free, *FindMachine("h200x8"), nullptr, {}));
  names = Names(*free->entry());
  EXPECT_LT(Place(names, "s2"), Place(names, "d1"));
}

// What the search counts is what the order takes: two transfers of a group take their turns on the
// wire, behind one that is there already, and with each other's room where two may be at once.
TEST(Groups, TransfersOfAGroupTakeTheirTurns) {
  std::string text(Overlapped(kSeven, kSeven));
  const size_t first =
      text.find("dimensions={0}\n  d1") + std::string_view("dimensions={0}").size();
  text.insert(first, kSeven);
  const size_t at = text.find("  y = ");
  text.insert(at,
              "  s3 = (f32[8,64], f32[64,64]) all-gather-start(w), replica_groups={}, "
              "dimensions={0}\n  d3 = f32[64,64] all-gather-done(s3)\n  e = f32[64,64] "
              "dot(x, d3), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n");
  text.replace(text.find("dot(x, d1)"), 10, "dot(x, e)");
  text.replace(text.find("dot(y, d2)"), 10, "dot(d1, d2)");
  text.replace(text.find("tuple(z, q)"), 11, "tuple(z, y)");
  double before = 0;
  for (std::string_view target : {"h200x8", "h200x8,overlap=2"}) {
    auto m = Annotated(text);
    const Machine machine = *FindMachine(target);
    auto made = ScheduleModule(*m, machine, nullptr, {});
    ASSERT_TRUE(made) << made.error().ToString();
    auto certificate = Certify(*m, machine);
    ASSERT_TRUE(certificate);
    EXPECT_NEAR(made->back().length, certificate->line.length, 1e-12);
    if (before > 0) EXPECT_LT(made->back().length, before);
    before = made->back().length;
  }
}

TEST(Groups, LegalizationFindsWhatBelongsTogether) {
  // The done is its start's; an iteration id goes; what is neither a transfer nor a product leaves.
  auto m = Annotated(Overlapped(R"(, frontend_attributes={_scheduling_group_id="7:-1"})", kSeven));
  ASSERT_TRUE(LegalizeGroups(*m, {}));
  EXPECT_EQ(GroupIn(*m, "s2"), 7);
  EXPECT_EQ(GroupIn(*m, "d2"), 7);
  EXPECT_EQ(GroupIn(*m, "d1"), std::nullopt);
  // A lone product is no group, and one without any transfer is none either.
  auto alone = Annotated(Overlapped("", kSeven));
  ASSERT_TRUE(LegalizeGroups(*alone, {}));
  EXPECT_EQ(GroupIn(*alone, "y"), std::nullopt);
  EXPECT_NE(
      ErrorOf(Overlapped(R"(, frontend_attributes={_scheduling_group_id="annotation1"})", "")), "");
}

constexpr std::string_view kBranches = R"(HloModule m, num_partitions=8
ENTRY e {
  p = f32[64] parameter(0)
  s = (f32[64], f32[512]) all-gather-start(p), replica_groups={}, dimensions={0}, frontend_attributes={_scheduling_group_id="1"}
  d = f32[512] all-gather-done(s), frontend_attributes={_scheduling_group_id="1"}
  a = f32[512] sine(d)
  b = f32[512] add(a, d)
  c = f32[512] multiply(b, a), frontend_attributes={_scheduling_group_id="1"}
  ROOT r = f32[512] negate(c) })";

TEST(Groups, GapsAreErrorsOrDropTheGroup) {
  std::string error = ErrorOf(kBranches);
  EXPECT_NE(error.find("group 1 of e: a stands between its members"), std::string::npos) << error;
  EXPECT_NE(error.find("--groups=drop"), std::string::npos) << error;
  auto m = Annotated(kBranches);
  auto dropped = LegalizeGroups(*m, {.on_bad = OnBadGroup::kDrop});
  ASSERT_TRUE(dropped);
  EXPECT_EQ(*dropped, 1);
  EXPECT_EQ(GroupIn(*m, "s"), std::nullopt);
  EXPECT_EQ(GroupIn(*m, "c"), std::nullopt);
  // By selection only the pair is left, which has no gap.
  m = Annotated(kBranches);
  ASSERT_TRUE(LegalizeGroups(*m, {.selective = true}));
  EXPECT_EQ(GroupIn(*m, "s"), 1);
  EXPECT_EQ(GroupIn(*m, "c"), std::nullopt);
}

TEST(Groups, PlainChainsJoin) {
  auto m = Annotated(R"(HloModule m, num_partitions=8
ENTRY e {
  p = f32[64] parameter(0)
  s = (f32[64], f32[512]) all-gather-start(p), replica_groups={}, dimensions={0}, frontend_attributes={_scheduling_group_id="1"}
  d = f32[512] all-gather-done(s)
  a = f32[512] sine(d)
  b = f32[512] cosine(a)
  c = f32[512] negate(b), frontend_attributes={_scheduling_group_id="1"}
  ROOT r = f32[512] negate(c) })");
  auto made = LegalizeGroups(*m, {});
  ASSERT_TRUE(made) << made.error().ToString();
  EXPECT_EQ(GroupIn(*m, "a"), 1);
  EXPECT_EQ(GroupIn(*m, "b"), 1);
}

// Neither group has a gap, but each waits for the other.
constexpr std::string_view kCircle = R"(HloModule m, num_partitions=8
ENTRY e {
  p = f32[64] parameter(0)
  q = f32[64] parameter(1)
  a1 = f32[64] sine(p), frontend_attributes={_scheduling_group_id="1"}
  b1 = f32[64] sine(q), frontend_attributes={_scheduling_group_id="2"}
  s = (f32[64], f32[512]) all-gather-start(b1), replica_groups={}, dimensions={0}, frontend_attributes={_scheduling_group_id="1"}
  d = f32[512] all-gather-done(s), frontend_attributes={_scheduling_group_id="1"}
  u = (f32[64], f32[512]) all-gather-start(a1), replica_groups={}, dimensions={0}, frontend_attributes={_scheduling_group_id="2"}
  v = f32[512] all-gather-done(u), frontend_attributes={_scheduling_group_id="2"}
  w = f32[512] sine(v), frontend_attributes={_scheduling_group_id="2"}
  ROOT r = f32[512] add(d, w) })";

TEST(Groups, CirclesDropTheSmallest) {
  EXPECT_NE(ErrorOf(kCircle).find("it waits for another group"), std::string::npos);
  auto m = Annotated(kCircle);
  SchedulerOptions options;
  options.groups.on_bad = OnBadGroup::kDrop;
  auto made = ScheduleModule(*m, *FindMachine("h200x8"), nullptr, options);
  ASSERT_TRUE(made) << made.error().ToString();
  EXPECT_EQ(GroupIn(*m, "a1"), std::nullopt);
  EXPECT_EQ(GroupIn(*m, "w"), 2);
}

TEST(Groups, TheSameIdInSeveralComputations) {
  auto m = Annotated(R"(HloModule m, num_partitions=8
cond { s = (s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[64] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  g = (f32[64], f32[512]) all-gather-start(x), replica_groups={}, dimensions={0}, frontend_attributes={_scheduling_group_id="3"}
  y = f32[64] sine(x), frontend_attributes={_scheduling_group_id="3"}
  h = f32[512] all-gather-done(g), frontend_attributes={_scheduling_group_id="3"}
  z = f32[64] slice(h), slice={[0:64]}
  v = f32[64] add(y, z)
  ROOT t = (s32[], f32[64]) tuple(j, v) }
ENTRY e { p = f32[64] parameter(0)
  zero = s32[] constant(0)
  g0 = (f32[64], f32[512]) all-gather-start(p), replica_groups={}, dimensions={0}, frontend_attributes={_scheduling_group_id="3"}
  y0 = f32[64] sine(p), frontend_attributes={_scheduling_group_id="3"}
  h0 = f32[512] all-gather-done(g0), frontend_attributes={_scheduling_group_id="3"}
  t = (s32[], f32[64]) tuple(zero, y0)
  w = (s32[], f32[64]) while(t), condition=cond, body=body
  ROOT r = ((s32[], f32[64]), f32[512]) tuple(w, h0) })");
  SchedulerOptions options;
  options.unroll = 0;
  auto made = ScheduleModule(*m, *FindMachine("h200x8"), nullptr, options);
  ASSERT_TRUE(made) << made.error().ToString();
  for (auto [first, last, comp] : {std::tuple("g", "h", "body"), std::tuple("g0", "h0", "e")}) {
    std::vector<std::string> names = Names(*m->FindComputation(comp));
    EXPECT_EQ(Place(names, last), Place(names, first) + 2) << comp;
  }
}

TEST(Hints, EarlyAndLate) {
  auto text = [](std::string_view a, std::string_view c) {
    return StrCat(R"(HloModule m, num_partitions=8
ENTRY e {
  p = f32[64] parameter(0)
  s = (f32[64], f32[512]) all-gather-start(p), replica_groups={}, dimensions={0}
  d = f32[512] all-gather-done(s)
  a = f32[64] sine(p))",
                  a, R"(
  b = f32[64] cosine(p)
  c = f32[64] negate(b))",
                  c, R"(
  f = f32[512] negate(d)
  ROOT r = (f32[64], f32[64], f32[512]) tuple(a, c, f) })");
  };
  auto scheduled = [&](std::string_view a, std::string_view c) {
    auto m = Annotated(text(a, c));
    auto made = ScheduleModule(*m, *FindMachine("h200x8"), nullptr, {});
    EXPECT_TRUE(made) << made.error().ToString();
    return Names(*m->entry());
  };
  std::vector<std::string> names =
      scheduled(R"(, frontend_attributes={scheduler_hint="force_delay"})",
                R"(, frontend_attributes={scheduler_hint="force_early"})");
  EXPECT_LT(Place(names, "c"), Place(names, "s"));
  EXPECT_GT(Place(names, "a"), Place(names, "f"));
  names = scheduled(R"(, frontend_attributes={scheduler_hint="force_early"})",
                    R"(, frontend_attributes={scheduler_hint="force_delay"})");
  EXPECT_LT(Place(names, "a"), Place(names, "s"));
  EXPECT_GT(Place(names, "c"), Place(names, "f"));
  // Of two, the one of the larger priority is the last.
  names = scheduled(
      R"(, frontend_attributes={scheduler_hint="force_delay",scheduler_delay_priority="2"})",
      R"(, frontend_attributes={scheduler_hint="force_delay",scheduler_delay_priority="1"})");
  EXPECT_GT(Place(names, "a"), Place(names, "c"));
}

}  // namespace
}  // namespace weft::compiler::schedule
