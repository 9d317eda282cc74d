// Collectives, messages and deadlocks between simulated devices.
#include <gtest/gtest.h>

#include "hlo/evaluate.h"
#include "hlo/evaluate/collectives.h"
#include "hlo/text.h"
#include "hlo/verify.h"

namespace weft::hlo {
namespace {

constexpr std::string_view kAdd = R"(
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
)";

std::unique_ptr<Module> Parse(std::string_view header, std::string_view entry) {
  Result<std::unique_ptr<Module>> module = ParseModule(StrCat(header, kAdd, entry));
  if (!module) {
    ADD_FAILURE() << module.error().ToString("test");
    return nullptr;
  }
  if (Status status = Verify(**module); !status) ADD_FAILURE() << status.error().ToString();
  return std::move(*module);
}

// Device d gets the f32[n] of d * 10, d * 10 + 1, ...
std::vector<std::vector<Literal>> Ramps(int64_t devices, int64_t n) {
  std::vector<std::vector<Literal>> arguments;
  for (int64_t d = 0; d < devices; ++d) {
    Literal value{Shape(DType::kF32, {n})};
    for (int64_t i = 0; i < n; ++i) value.SetDouble(i, static_cast<double>(10 * d + i));
    arguments.push_back({std::move(value)});
  }
  return arguments;
}

// The values of all devices as text, or the error.
std::string RunOnDevices(const Module* module, const std::vector<std::vector<Literal>>& arguments,
                         int64_t replicas, int64_t partitions) {
  if (module == nullptr) return "no module";
  EvalOptions options;
  options.num_replicas = replicas;
  options.num_partitions = partitions;
  Result<std::vector<Literal>> results = EvaluateOnDevices(*module, arguments, options);
  if (!results) return results.error().message();
  std::string out;
  for (const Literal& result : *results) StrAppend(out, out.empty() ? "" : " ", result.ToString());
  return out;
}

TEST(Collective, AllReduceByMode) {
  auto reduce = [](std::string_view attributes) {
    return StrCat("ENTRY main {\n p = f32[1] parameter(0)\n ROOT r = f32[1] all-reduce(p), ",
                  attributes, ", to_apply=add\n}\n");
  };
  auto run = [&](std::string_view attributes) {
    auto module = Parse("HloModule m\n", reduce(attributes));
    return RunOnDevices(module.get(), Ramps(4, 1), 2, 2);  // devices 00 01 10 11 hold 0 10 20 30
  };
  EXPECT_EQ(run("replica_groups={}"), "{20} {40} {20} {40}");
  EXPECT_EQ(run("replica_groups={{0},{1}}"), "{0} {10} {20} {30}");
  EXPECT_EQ(run("channel_id=1, replica_groups={{0},{1}}"), "{10} {10} {50} {50}");
  EXPECT_EQ(run("channel_id=1, replica_groups={{0,1}}"), "{60} {60} {60} {60}");
  EXPECT_EQ(run("channel_id=1, replica_groups={{0,3},{1,2}}, use_global_device_ids=true"),
            "{30} {30} {30} {30}");
  EXPECT_EQ(run("channel_id=1, replica_groups={{3},{0,1,2}}, use_global_device_ids=true"),
            "{30} {30} {30} {30}");
}

TEST(Collective, AllReduceOrderIsFixed) {
  auto module = Parse("HloModule m\n", R"(
ENTRY main {
  p = f32[1] parameter(0)
  ROOT r = f32[1] all-reduce(p), replica_groups={}, to_apply=add
}
)");
  std::vector<std::vector<Literal>> arguments = Ramps(8, 1);
  for (int d = 0; d < 8; ++d) arguments[d][0].SetDouble(0, d % 2 == 0 ? 1e8 : 1.5 * d);
  std::string first = RunOnDevices(module.get(), arguments, 8, 1);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(RunOnDevices(module.get(), arguments, 8, 1), first);
}

TEST(Collective, GatherScatterAndExchange) {
  auto gather = Parse("HloModule m\n", R"(
ENTRY main {
  p = f32[2] parameter(0)
  ROOT r = f32[4] all-gather(p), replica_groups={{0,2},{3,1}}, dimensions={0}
}
)");
  EXPECT_EQ(RunOnDevices(gather.get(), Ramps(4, 2), 4, 1),
            "{0, 1, 20, 21} {30, 31, 10, 11} {0, 1, 20, 21} {30, 31, 10, 11}");
  auto scatter = Parse("HloModule m\n", R"(
ENTRY main {
  p = f32[4] parameter(0)
  ROOT r = f32[2] reduce-scatter(p), replica_groups={{0,1}}, dimensions={0}, to_apply=add
}
)");
  EXPECT_EQ(RunOnDevices(scatter.get(), Ramps(2, 4), 2, 1), "{10, 12} {14, 16}");
  auto exchange = Parse("HloModule m\n", R"(
ENTRY main {
  p = f32[4] parameter(0)
  ROOT r = f32[4] all-to-all(p), replica_groups={{0,1}}, dimensions={0}
}
)");
  EXPECT_EQ(RunOnDevices(exchange.get(), Ramps(2, 4), 2, 1), "{0, 1, 10, 11} {2, 3, 12, 13}");
  auto broadcast = Parse("HloModule m\n", R"(
ENTRY main {
  p = f32[1] parameter(0)
  ROOT r = f32[1] collective-broadcast(p), replica_groups={{1,0}}
}
)");
  EXPECT_EQ(RunOnDevices(broadcast.get(), Ramps(3, 1), 3, 1), "{10} {10} {0}");
}

TEST(Collective, PermuteWholeAndInPlace) {
  auto permute = Parse("HloModule m\n", R"(
ENTRY main {
  p = f32[1] parameter(0)
  ROOT r = f32[1] collective-permute(p), source_target_pairs={{0,1},{1,2}}
}
)");
  EXPECT_EQ(RunOnDevices(permute.get(), Ramps(4, 1), 4, 1), "{0} {0} {10} {0}");
  auto slices = Parse("HloModule m\n", R"(
ENTRY main {
  p = f32[4] parameter(0)
  minus = f32[] constant(-1)
  out = f32[4] broadcast(minus), dimensions={}
  one = s32[] constant(1)
  two = s32[] constant(2)
  from = (s32[]) tuple(one)
  to = (s32[]) tuple(two)
  ROOT r = f32[4] collective-permute(p, out, from, to), source_target_pairs={{0,1},{1,0}}, slice_sizes={{2}}
}
)");
  EXPECT_EQ(RunOnDevices(slices.get(), Ramps(2, 4), 2, 1), "{-1, -1, 11, 12} {-1, -1, 1, 2}");
}

TEST(Collective, StartsAndDones) {
  auto module = Parse("HloModule m\n", R"(
ENTRY main {
  p = f32[1] parameter(0)
  ags = (f32[1], f32[2]) all-gather-start(p), replica_groups={{0,1}}, dimensions={0}
  ars = f32[1] all-reduce-start(p), replica_groups={{0,1}}, to_apply=add
  cps = (f32[1], f32[1], u32[], u32[]) collective-permute-start(p), source_target_pairs={{0,1},{1,0}}
  agd = f32[2] all-gather-done(ags)
  ard = f32[1] all-reduce-done(ars)
  cpd = f32[1] collective-permute-done(cps)
  ROOT r = (f32[2], f32[1], f32[1]) tuple(agd, ard, cpd)
}
)");
  EXPECT_EQ(RunOnDevices(module.get(), Ramps(2, 1), 2, 1),
            "({0, 10}, {10}, {10}) ({0, 10}, {10}, {0})");
}

TEST(Collective, RaggedAllToAll) {
  auto module = Parse("HloModule m\n", R"(
ENTRY main {
  input = f32[4] parameter(0)
  zero = f32[] constant(0)
  output = f32[4] broadcast(zero), dimensions={}
  in_at = s32[2] constant({0, 1})
  send = s32[2] constant({1, 2})
  me = u32[] replica-id()
  row = s32[] convert(me)
  two = s32[] constant(2)
  at = s32[] multiply(row, two)
  out_at = s32[2] broadcast(at), dimensions={}
  recv = s32[2] constant({1, 2})
  ROOT r = f32[4] ragged-all-to-all(input, output, in_at, send, out_at, recv), replica_groups={{0,1}}
}
)");
  EXPECT_EQ(RunOnDevices(module.get(), Ramps(2, 4), 2, 1), "{0, 0, 10, 0} {1, 2, 11, 12}");
}

TEST(Messages, SendAndReceiveByPairs) {
  auto module = Parse("HloModule m\n", R"(
ENTRY main {
  p = f32[1] parameter(0)
  t = token[] after-all()
  r = (f32[1], u32[], token[]) recv(t), channel_id=1, frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,2}}}
  s = (f32[1], u32[], token[]) send(p, t), channel_id=1, frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,2}}}
  rd = (f32[1], token[]) recv-done(r), channel_id=1
  sd = token[] send-done(s), channel_id=1
  ROOT v = f32[1] get-tuple-element(rd), index=0
}
)");
  EXPECT_EQ(RunOnDevices(module.get(), Ramps(3, 1), 1, 3), "{0} {0} {10}");
}

TEST(Messages, DeadlockNamesWhoWaits) {
  auto module = Parse("HloModule m\n", R"(
ENTRY main {
  t = token[] after-all()
  r = (f32[1], u32[], token[]) recv(t), channel_id=1
  rd = (f32[1], token[]) recv-done(r), channel_id=1
  ROOT v = f32[1] get-tuple-element(rd), index=0
}
)");
  std::vector<std::vector<Literal>> none(2);
  EXPECT_EQ(RunOnDevices(module.get(), none, 2, 1),
            "deadlock: device 0 waits at rd, device 1 waits at rd");
}

// Device 0 takes the branch with a collective, device 1 does not.
TEST(Messages, DeadlockAfterOthersFinished) {
  auto module = Parse("HloModule m\n", R"(
yes {
  p = f32[1] parameter(0)
  ROOT r = f32[1] all-reduce(p), replica_groups={}, to_apply=add
}
no {
  ROOT q = f32[1] parameter(0)
}
ENTRY main {
  p = f32[1] parameter(0)
  id = u32[] replica-id()
  index = s32[] convert(id)
  ROOT c = f32[1] conditional(index, p, p), branch_computations={yes, no}
}
)");
  EXPECT_EQ(RunOnDevices(module.get(), Ramps(2, 1), 2, 1),
            "deadlock: device 0 waits at r, 1 finished");
}

TEST(Messages, FailureWakesTheOthers) {
  auto module = Parse("HloModule m\n", R"(
fails {
  p = f32[1] parameter(0)
  ROOT r = f32[1] custom-call(p), custom_call_target="nobody"
}
waits {
  q = f32[1] parameter(0)
  ROOT s = f32[1] all-reduce(q), replica_groups={}, to_apply=add
}
ENTRY main {
  p = f32[1] parameter(0)
  id = u32[] replica-id()
  index = s32[] convert(id)
  ROOT c = f32[1] conditional(index, p, p), branch_computations={fails, waits}
}
)");
  EXPECT_EQ(RunOnDevices(module.get(), Ramps(4, 1), 4, 1),
            "custom-call: target nobody is not known for f32[1]");
}

TEST(Collective, InALoopMeetsOncePerIteration) {
  auto module = Parse("HloModule m\n", R"(
condition {
  s = (s32[], f32[1]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(10)
  ROOT less = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[1]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = f32[1] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  sum = f32[1] all-reduce(v), replica_groups={}, to_apply=add
  ROOT t = (s32[], f32[1]) tuple(next, sum)
}
ENTRY main {
  p = f32[1] parameter(0)
  zero = s32[] constant(0)
  init = (s32[], f32[1]) tuple(zero, p)
  loop = (s32[], f32[1]) while(init), condition=condition, body=body
  ROOT r = f32[1] get-tuple-element(loop), index=1
}
)");
  EXPECT_EQ(RunOnDevices(module.get(), Ramps(2, 1), 2, 1), "{5120} {5120}");
}

TEST(Pairs, Parsed) {
  EXPECT_EQ(ParsePairs("{{0,1},{1,2}}"), (IntPairs{{0, 1}, {1, 2}}));
  EXPECT_EQ(ParsePairs("{}"), IntPairs{});
  EXPECT_FALSE(ParsePairs("{{0,1,2}}").has_value());
  EXPECT_FALSE(ParsePairs("{{0,x}}").has_value());
}

}  // namespace
}  // namespace weft::hlo
