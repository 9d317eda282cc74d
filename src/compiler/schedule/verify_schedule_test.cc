// Schedules that are wrong in one place each: all of them are refused.
#include "compiler/schedule/verify_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "compiler/schedule/scheduler.h"
#include "hlo/text.h"

namespace weft::compiler::schedule {
namespace {

using hlo::Instruction;
using Orders = std::vector<const Instruction*>;

// Layers of gather, product, reduction; an update of what a gather reads; control dependences.
std::string Layers(int count) {
  std::string text = R"(HloModule layers, num_partitions=8
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e {
  x0 = f32[64,64] parameter(0)
  w = f32[8,64] parameter(1)
  zero = s32[] constant(0)
  own = f32[8,64] negate(w)
)";
  for (int k = 0; k < count; ++k) {
    StrAppend(
        text, "  s", k,
        " = (f32[8,64], f32[64,64]) all-gather-start(own), replica_groups={}, dimensions={0}\n");
    StrAppend(text, "  g", k, " = f32[64,64] all-gather-done(s", k, ")\n");
    StrAppend(text, "  y", k, " = f32[64,64] dot(x", k, ", g", k,
              "), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n");
    StrAppend(text, "  r", k, " = f32[64,64] all-reduce-start(y", k,
              "), replica_groups={}, to_apply=sum\n");
    StrAppend(text, "  z", k, " = f32[64,64] all-reduce-done(r", k, ")\n");
    StrAppend(text, "  n", k, " = f32[64,64] negate(y", k, "), control-predecessors={r", k, "}\n");
    StrAppend(text, "  x", k + 1, " = f32[64,64] add(z", k, ", n", k, ")\n");
  }
  StrAppend(text, "  u = f32[1,64] slice(x0), slice={[0:1],[0:64]}\n",
            "  new = f32[8,64] dynamic-update-slice(own, u, zero, zero)\n",
            "  ROOT t = (f32[64,64], f32[8,64]) tuple(x", count, ", new)\n}\n");
  return text;
}

Orders ListOf(const hlo::Module& m) {
  Orders order;
  for (const Instruction* i : *m.entry()) order.push_back(i);
  return order;
}
size_t Find(const Orders& order, std::string_view name) {
  for (size_t n = 0; n < order.size(); ++n) {
    if (order[n]->name() == name) return n;
  }
  return order.size();
}
Orders Moved(Orders order, size_t from, size_t to) {
  const Instruction* i = order[from];
  order.erase(order.begin() + static_cast<int64_t>(from));
  order.insert(order.begin() + static_cast<int64_t>(to), i);
  return order;
}

TEST(VerifySchedule, AcceptsWhatIsRight) {
  auto module = hlo::ParseModule(Layers(6));
  ASSERT_TRUE(module) << module.error().ToString();
  Orders order = ListOf(**module);
  Status status = VerifySchedule(*(*module)->entry(), order, {.in_flight = 1});
  EXPECT_TRUE(status) << status.error().ToString();
  // Two gathers at once: right, unless one is the limit.
  Orders early = Moved(order, Find(order, "s1"), Find(order, "s0") + 1);
  EXPECT_TRUE(VerifySchedule(*(*module)->entry(), early, {.in_flight = 2}));
  EXPECT_FALSE(VerifySchedule(*(*module)->entry(), early, {.in_flight = 1}));
}

TEST(VerifySchedule, RefusesEveryMutation) {
  auto module = hlo::ParseModule(Layers(6));
  ASSERT_TRUE(module);
  const hlo::Computation& c = *(*module)->entry();
  Orders order = ListOf(**module);
  int refused = 0;
  auto refuse = [&](const Orders& wrong, std::string_view what, const Instruction* i,
                    ScheduleRules rules = {}) {
    EXPECT_FALSE(VerifySchedule(c, wrong, rules)) << what << " " << i->name();
    ++refused;
  };
  for (size_t n = 0; n < order.size(); ++n) {
    const Instruction* i = order[n];
    Orders missing = order, doubled = order;
    missing.erase(missing.begin() + static_cast<int64_t>(n));
    refuse(missing, "missing", i);
    doubled.insert(doubled.begin() + static_cast<int64_t>(n), i);
    refuse(doubled, "doubled", i);
    doubled = order;
    doubled[(n + 1) % order.size()] = i;
    refuse(doubled, "in the place of another", i);
    for (const Instruction* operand : i->operands()) {
      size_t at = Find(order, operand->name());
      refuse(Moved(order, n, at), "before its operand", i);
      Orders swapped = order;
      std::swap(swapped[n], swapped[at]);
      refuse(swapped, "swapped with its operand", i);
    }
    for (const Instruction* before : i->control_predecessors()) {
      refuse(Moved(order, n, Find(order, before->name())), "before its control predecessor", i);
    }
    if (HasTrait(i->op(), hlo::kAsyncDone)) {
      for (const Instruction* user : i->users()) {
        refuse(Moved(order, n, Find(order, user->name())), "wait moved behind its user", i);
      }
      // A wait moved behind the next start: one too many in flight.
      for (size_t k = n + 1; k < order.size() && HasTrait(i->op(), hlo::kAsyncDone); ++k) {
        if (!HasTrait(order[k]->op(), hlo::kAsyncStart)) continue;
        Orders early = Moved(order, k, Find(order, i->operand(0)->name()) + 1);
        if (VerifySchedule(c, early)) refuse(early, "over the limit", i, {.in_flight = 1});
        break;
      }
    }
  }
  // The update of what is read in flight.
  for (int k = 0; k < 6; ++k) {
    size_t start = Find(order, StrCat("s", k));
    Orders early = Moved(order, Find(order, "u"), start);
    early = Moved(early, Find(early, "new"), Find(early, StrCat("s", k)) + 1);
    refuse(early, "overwritten in flight", order[start]);
  }
  EXPECT_GE(refused, 200);
}

// Values of any earlier ones: gathers, sums over devices, arithmetic, updates, custom calls that
// overwrite what they are given; some wait for others by control dependences.
std::string RandomModule(std::mt19937& rng, int count) {
  auto below = [&](size_t n) { return static_cast<size_t>(rng() % n); };
  std::string text = R"(HloModule m, num_partitions=8
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e {
  v0 = f32[8] parameter(0)
  zero = s32[] constant(0)
  one = f32[1] constant({1})
)";
  for (int k = 1; k <= count; ++k) {
    const std::string a = StrCat("v", below(static_cast<size_t>(k)));
    const std::string b = StrCat("v", below(static_cast<size_t>(k)));
    const bool waits = below(6) == 0 && b != "v0";
    const std::string edge = waits ? StrCat(", control-predecessors={", b, "}") : "";
    const std::string v = StrCat("  v", k, " = f32[8] "), s = StrCat("s", k);
    switch (below(6)) {
      case 0:
        StrAppend(text, "  ", s, " = (f32[8], f32[64]) all-gather-start(", a,
                  "), replica_groups={}, dimensions={0}", edge, "\n  g", k,
                  " = f32[64] all-gather-done(", s, ")\n", v, "slice(g", k, "), slice={[0:8]}\n");
        break;
      case 1:
        StrAppend(text, "  ", s, " = f32[8] all-reduce-start(", a,
                  "), replica_groups={}, to_apply=sum", edge, "\n", v, "all-reduce-done(", s,
                  ")\n");
        break;
      case 2: StrAppend(text, v, "dynamic-update-slice(", a, ", one, zero)", edge, "\n"); break;
      case 3:
        StrAppend(text, v, "custom-call(", a,
                  "), custom_call_target=\"x\", output_to_operand_aliasing={{}: (0, {})}", edge,
                  "\n");
        break;
      default: StrAppend(text, v, "add(", a, ", ", b, ")", edge, "\n");
    }
  }
  return StrCat(text, "  ROOT r = f32[8] negate(v", count, ")\n}\n");
}

// By the definition: each once, what it needs before it, and between a start and its done nothing
// that writes where the start reads; nobody reads what was overwritten.
bool IsRight(const hlo::Computation& c, const Orders& order) {
  auto at = [&](const Instruction* i) { return std::ranges::find(order, i) - order.begin(); };
  if (std::ssize(order) != c.size()) return false;
  for (const Instruction* i : c) {
    if (std::ranges::count(order, i) != 1) return false;
  }
  auto writes = [](const Instruction* w, const Instruction* value) {
    return (w->op() == hlo::Op::kDynamicUpdateSlice || w->op() == hlo::Op::kCustomCall) &&
           w->operand(0) == value;
  };
  for (const Instruction* i : c) {
    for (const Instruction* before : i->operands()) {
      if (at(before) > at(i)) return false;
    }
    for (const Instruction* before : i->control_predecessors()) {
      if (at(before) > at(i)) return false;
    }
    for (const Instruction* w : c) {
      for (const Instruction* value : i->operands()) {
        const bool is_gone = w->op() == hlo::Op::kCustomCall && !value->IsParameter();
        if (w != i && writes(w, value) && is_gone && at(w) < at(i)) return false;
        const bool in_flight = HasTrait(i->op(), hlo::kAsyncStart) && at(w) > at(i);
        if (in_flight && writes(w, value) && at(w) < at(i->users()[0])) return false;
      }
    }
  }
  return true;
}

Orders Mutated(Orders order, std::mt19937& rng) {
  auto any = [&] { return static_cast<int64_t>(rng() % order.size()); };
  const int64_t a = any(), b = any();
  switch (rng() % 6) {
    case 0: order.erase(order.begin() + a); break;
    case 1: order.insert(order.begin() + a, order[static_cast<size_t>(b)]); break;
    case 2: order[static_cast<size_t>(a)] = order[static_cast<size_t>(b)]; break;
    case 3: std::swap(order[static_cast<size_t>(a)], order[static_cast<size_t>(b)]); break;
    case 4: std::reverse(order.begin() + std::min(a, b), order.begin() + std::max(a, b) + 1); break;
    default: order = Moved(std::move(order), static_cast<size_t>(a), static_cast<size_t>(b));
  }
  return order;
}

// --gtest_random_seed=K for others.
TEST(VerifySchedule, RandomMutations) {
  std::mt19937 rng(static_cast<uint32_t>(testing::UnitTest::GetInstance()->random_seed()));
  int refused = 0, taken = 0;
  for (int round = 0; round < 40; ++round) {
    auto module = hlo::ParseModule(RandomModule(rng, 5 + static_cast<int>(rng() % 25)));
    ASSERT_TRUE(module) << module.error().ToString();
    const hlo::Computation& c = *(*module)->entry();
    for (int k = 0; k < 60; ++k) {
      Orders order = Mutated(ListOf(**module), rng);
      const bool is_right = IsRight(c, order);
      Status status = VerifySchedule(c, order);
      ASSERT_EQ(static_cast<bool>(status), is_right)
          << (status ? "" : status.error().ToString()) << "\n"
          << hlo::PrintModule(**module);
      ++(is_right ? taken : refused);
    }
  }
  EXPECT_GE(refused, 1000);
  EXPECT_GE(taken, 20);
}

TEST(Scheduler, KeepsMeaningfulStructure) {
  auto module = hlo::ParseModule(Layers(6));
  ASSERT_TRUE(module);
  Machine machine = *FindMachine("h200x8");
  auto done = ScheduleModule(**module, machine, nullptr, {});
  ASSERT_TRUE(done) << done.error().ToString();
  EXPECT_TRUE((*module)->config().is_scheduled);
  EXPECT_LE(done->back().length, done->back().bound * 1.2);
  std::string first = hlo::PrintModule(**module);
  auto again = hlo::ParseModule(Layers(6));
  ASSERT_TRUE(ScheduleModule(**again, machine, nullptr, {}));
  EXPECT_EQ(first, hlo::PrintModule(**again));  // the same bytes in every run
}

}  // namespace
}  // namespace weft::compiler::schedule
