// Programs on several devices.
#include <gtest/gtest.h>

#include <set>

#include "base/str.h"
#include "client/shards.h"
#include "client/test_util.h"
#include "hlo/text.h"

namespace weft::client {
namespace {

using testing::CompileText;
using testing::F32;
using testing::Floats;
using testing::MakeClient;

Shards ShardsOf(std::string_view sharding, std::vector<int64_t> dims, int64_t devices) {
  auto parsed = hlo::ParseSharding(sharding);
  EXPECT_TRUE(parsed.has_value());
  auto shards = Shards::Of(&*parsed, Shape(DType::kF32, dims), devices);
  if (!shards) ADD_FAILURE() << shards.error().ToString();
  return *shards;
}

TEST(Shards, TilesAndMeshes) {
  Shards tiled = ShardsOf("{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}", {4, 3}, 4);
  EXPECT_EQ(tiled.counts, (Dims{2, 1}));
  EXPECT_EQ(tiled.blocks[1], (Dims{1, 0}));
  EXPECT_EQ(tiled.blocks[2], (Dims{0, 0}));
  EXPECT_EQ(tiled.ShardShape(Shape(DType::kF32, {5, 3})), Shape(DType::kF32, {3, 3}));
  EXPECT_EQ(SerializeSharding(tiled), std::string("\x08\x03\x1a\x03\x02\x01\x02\x22\x04\x00\x02\x01"
                                                  "\x03\x30\x01",
                                                  15));
  EXPECT_TRUE(ShardsOf("{replicated}", {4}, 4).IsReplicated());
  auto wrong = hlo::ParseSharding("{devices=[8]<=[8]}");
  EXPECT_FALSE(Shards::Of(&*wrong, Shape(DType::kF32, {8}), 4).has_value());
}

TEST(Shards, Unreduced) {
  EXPECT_EQ(SerializeSharding(ShardsOf("{unreduced}", {4}, 2)), "\x08\x06");
  EXPECT_EQ(SerializeSharding(ShardsOf(R"({mesh["x"=2], [{}], unreduced=max{"x"}})", {4}, 2)),
            "\x08\x06\x3a\x18\x0a\x11sdy::reduction_op\x12\x03MAX");
  Shards shards = ShardsOf("{devices=[2,1,2]<=[4] last_tile_dims={unreduced}}", {4, 3}, 4);
  EXPECT_EQ(shards.parts, 2);
  EXPECT_EQ(shards.part_of, (std::vector<int64_t>{0, 1, 0, 1}));
  EXPECT_EQ(shards.ShardShape(Shape(DType::kF32, {4, 3})), Shape(DType::kF32, {2, 3}));
  EXPECT_EQ(SerializeSharding(shards),
            std::string("\x08\x03\x1a\x03\x02\x01\x02\x22\x04\x00\x01\x02\x03\x42\x01\x06", 16));
}

Result<ExecuteResult> CallOn(LoadedExecutable& program,
                             std::vector<std::vector<Buffer*>> arguments) {
  std::vector<Buffer* const*> lists;
  for (auto& list : arguments) lists.push_back(list.data());
  ExecuteRequest request{.arguments = lists,
                         .argument_count = static_cast<int64_t>(arguments[0].size())};
  return program.Execute(request);
}

std::unique_ptr<Client> MakeTwoDevices() {
  ClientOptions options;
  options.cpu_devices = 2;
  return MakeClient(options);
}

TEST(Sharded, WholeProgram) {
  auto client = MakeTwoDevices();
  CompileRequest request;
  request.num_partitions = 2;
  request.use_spmd_partitioning = true;
  auto program = CompileText(*client, R"(HloModule whole, num_partitions=2
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[4] parameter(0), sharding={devices=[2]<=[2]}
  k = f32[] parameter(1), sharding={replicated}
  w = f32[4] broadcast(k), dimensions={}
  y = f32[4] multiply(x, w)
  zero = f32[] constant(0)
  s = f32[] reduce(y, zero), dimensions={0}, to_apply=sum
  ROOT t = (f32[4], f32[]) tuple(y, s), sharding={{devices=[2]<=[2]}, {replicated}}
})",
                             request);
  ASSERT_NE(program, nullptr);
  EXPECT_EQ(program->executable()->parameters()[0], Shape(DType::kF32, {2}));
  EXPECT_EQ(program->executable()->outputs()[0].shape, Shape(DType::kF32, {2}));
  auto x0 = F32(*client, {1, 2}, {2}, 0), x1 = F32(*client, {3, 4}, {2}, 1);
  auto k0 = F32(*client, {10}, {}, 0), k1 = F32(*client, {10}, {}, 1);
  auto result = CallOn(*program, {{x0.get(), k0.get()}, {x1.get(), k1.get()}});
  ASSERT_TRUE(result.has_value()) << result.error().ToString();
  EXPECT_EQ(Floats(*result->outputs[0][0]), (std::vector<float>{10, 20}));
  EXPECT_EQ(Floats(*result->outputs[1][0]), (std::vector<float>{30, 40}));
  EXPECT_EQ(Floats(*result->outputs[1][1]), (std::vector<float>{100}));
  EXPECT_EQ(result->outputs[1][1]->device()->id(), 1);
}

TEST(Sharded, ManualComputation) {
  ClientOptions options;
  options.cpu_devices = 4;
  auto client = MakeClient(options);
  CompileRequest request;
  request.num_partitions = 4;
  auto program = CompileText(*client, R"(HloModule manual, num_partitions=4
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
body {
  p = f32[1,3] parameter(0)
  ROOT r = f32[1,3] all-reduce(p), channel_id=1, replica_groups={{0,1},{2,3}}, use_global_device_ids=true, to_apply=sum
}
ENTRY main {
  x = f32[2,6] parameter(0), sharding={devices=[2,2]<=[4]}
  a = f32[1,3] custom-call(x), custom_call_target="SPMDFullToShardShape", sharding={devices=[2,2]<=[4]}
  b = f32[1,3] call(a), to_apply=body
  ROOT c = f32[2,3] custom-call(b), custom_call_target="SPMDShardToFullShape", sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
})",
                             request);
  ASSERT_NE(program, nullptr);
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<std::vector<Buffer*>> arguments;
  for (int d = 0; d < 4; ++d) {
    float base = static_cast<float>(d * 10);
    buffers.push_back(F32(*client, {base, base + 1, base + 2}, {1, 3}, d));
    arguments.push_back({buffers.back().get()});
  }
  auto result = CallOn(*program, arguments);
  ASSERT_TRUE(result.has_value()) << result.error().ToString();
  // The root has the sharding of its last operation.
  EXPECT_EQ(Floats(*result->outputs[0][0]), (std::vector<float>{10, 12, 14}));
  EXPECT_EQ(Floats(*result->outputs[3][0]), (std::vector<float>{50, 52, 54}));
}

// Devices of the region stand in another order than the program's.
TEST(Sharded, ManualComputationInAnotherOrder) {
  auto client = MakeTwoDevices();
  CompileRequest request;
  request.num_partitions = 2;
  auto program = CompileText(*client, R"(HloModule order, num_partitions=2
ENTRY main {
  x = f32[4] parameter(0), sharding={devices=[2]<=[2]}
  y = f32[4] custom-call(x), custom_call_target="Sharding", sharding={devices=[2]1,0}
  a = f32[2] custom-call(y), custom_call_target="SPMDFullToShardShape", sharding={manual}
  id = u32[] partition-id(), sharding={manual}
  ten = f32[] constant(10), sharding={manual}
  number = f32[] convert(id), sharding={manual}
  more = f32[] multiply(number, ten), sharding={manual}
  all = f32[2] broadcast(more), dimensions={}, sharding={manual}
  b = f32[2] add(a, all), sharding={manual}
  c = f32[4] custom-call(b), custom_call_target="SPMDShardToFullShape", sharding={devices=[2]1,0}
  ROOT r = f32[4] negate(c), sharding={devices=[2]<=[2]}
})",
                             request);
  ASSERT_NE(program, nullptr);
  auto x0 = F32(*client, {1, 2}, {2}, 0), x1 = F32(*client, {3, 4}, {2}, 1);
  auto result = CallOn(*program, {{x0.get()}, {x1.get()}});
  ASSERT_TRUE(result.has_value()) << result.error().ToString();
  EXPECT_EQ(Floats(*result->outputs[0][0]), (std::vector<float>{-11, -12}));
  EXPECT_EQ(Floats(*result->outputs[1][0]), (std::vector<float>{-3, -4}));
}

// What has no part on one device is an error that says so.
TEST(Sharded, WhatHasNoParts) {
  auto client = MakeTwoDevices();
  CompileRequest request;
  request.num_partitions = 2;
  auto program = Executable::Compile(*client, "hlo", R"(HloModule ids, num_partitions=2
ENTRY main { ROOT id = u32[] partition-id() })",
                                     request);
  ASSERT_FALSE(program.has_value());
  EXPECT_EQ(program.error().code(), Code::kUnimplemented);
  EXPECT_TRUE(program.error().message().contains("partition-id: outside of a manual computation"));
}

TEST(Sharded, Replicas) {
  auto client = MakeTwoDevices();
  CompileRequest request;
  request.num_replicas = 2;
  auto program = CompileText(*client, R"(HloModule replicas, replica_count=2
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[2] parameter(0)
  ROOT r = f32[2] all-reduce(x), replica_groups={}, to_apply=sum
})",
                             request);
  ASSERT_NE(program, nullptr);
  auto a = F32(*client, {1, 2}, {2}, 0), b = F32(*client, {3, 4}, {2}, 1);
  auto result = CallOn(*program, {{a.get()}, {b.get()}});
  ASSERT_TRUE(result.has_value()) << result.error().ToString();
  EXPECT_EQ(Floats(*result->outputs[0][0]), (std::vector<float>{4, 6}));
  EXPECT_EQ(Floats(*result->outputs[1][0]), (std::vector<float>{4, 6}));
}

// All devices of a tiny program take turns on the caller's thread, whether they meet or not.
TEST(Sharded, TinyProgramsRunHere) {
  auto client = MakeTwoDevices();
  CompileRequest request;
  request.num_replicas = 2;
  for (std::string_view root :
       {"add(x, x)", "all-reduce(x), replica_groups={{0,1}}, to_apply=sum"}) {
    auto program = CompileText(*client,
                               StrCat(R"(HloModule tiny, replica_count=2
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY main { x = f32[2] parameter(0) ROOT r = f32[2] )",
                                      root, " }"),
                               request);
    ASSERT_NE(program, nullptr);
    auto a = F32(*client, {1, 2}, {2}, 0), b = F32(*client, {1, 2}, {2}, 1);
    auto result = CallOn(*program, {{a.get()}, {b.get()}});
    ASSERT_TRUE(result.has_value()) << result.error().ToString();
    for (size_t d = 0; d < 2; ++d) {
      EXPECT_TRUE(result->done[d]->IsReady());
      EXPECT_EQ(Floats(*result->outputs[d][0]), (std::vector<float>{2, 4}));
      EXPECT_EQ(result->outputs[d][0]->device()->id(), static_cast<int64_t>(d));
    }
  }
}

// Results have memory of their own, one that is a parameter too, on every device.
TEST(Sharded, TinyResultsAreNobodyElses) {
  auto client = MakeTwoDevices();
  CompileRequest request;
  request.num_replicas = 2;
  auto program = CompileText(*client,
                             R"(HloModule hand_on, replica_count=2
ENTRY main {
  x = f32[2] parameter(0)
  k = f32[2] constant({7, 8})
  id = u32[] replica-id()
  me = f32[] convert(id)
  ROOT t = (f32[2], f32[2], f32[2], f32[]) tuple(x, x, k, me)
})",
                             request);
  ASSERT_NE(program, nullptr);
  auto a = F32(*client, {1, 2}, {2}, 0), b = F32(*client, {3, 4}, {2}, 1);
  auto result = CallOn(*program, {{a.get()}, {b.get()}});
  ASSERT_TRUE(result.has_value()) << result.error().ToString();
  std::set<const void*> addresses = {*a->Address(), *b->Address()};
  for (size_t d = 0; d < 2; ++d) {
    ASSERT_EQ(result->outputs[d].size(), 4u);
    for (const auto& output : result->outputs[d]) addresses.insert(*output->Address());
    EXPECT_EQ(Floats(*result->outputs[d][0]), Floats(d == 0 ? *a : *b));
    EXPECT_EQ(Floats(*result->outputs[d][2]), (std::vector<float>{7, 8}));
    EXPECT_EQ(Floats(*result->outputs[d][3])[0], static_cast<float>(d));
  }
  EXPECT_EQ(addresses.size(), 10u);
}

}  // namespace
}  // namespace weft::client
