// Forms of shardings, reshardings and whole programs against their partitioned forms.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <random>

#include "compiler/passes.h"
#include "compiler/pipeline.h"
#include "compiler/spmd/form.h"
#include "compiler/spmd/joined.h"
#include "compiler/spmd/reshard.h"
#include "hlo/clone.h"
#include "hlo/random_arguments.h"
#include "hlo/random_module.h"
#include "hlo/text.h"

namespace weft::compiler::spmd {
namespace {

DeviceMesh MeshOf(std::vector<hlo::MeshAxis> axes) {
  Result<DeviceMesh> mesh = DeviceMesh::FromAxes(std::move(axes));
  CHECK(mesh.has_value()) << mesh.error().ToString();
  return *mesh;
}

// The form of a sharding, and the sharding that it is printed as.
std::string Read(std::string_view text, const Shape& shape, const DeviceMesh& mesh,
                 bool named = true) {
  Result<hlo::Sharding> sharding = hlo::ParseSharding(text);
  if (!sharding) return sharding.error().ToString();
  Result<Form> form = ReadForm(*sharding, shape, mesh);
  if (!form) return form.error().ToString();
  const hlo::Sharding printed = named ? PrintForm(*form, mesh) : PrintTiled(*form, mesh);
  Result<Form> again = ReadForm(printed, shape, mesh);
  EXPECT_TRUE(again && *again == *form) << text << " prints as " << printed.ToString();
  return StrCat(form->ToString(mesh), " = ", printed.ToString());
}

TEST(Forms, Named) {
  const DeviceMesh mesh = MeshOf({{"x", 2}, {"y", 4}});
  const Shape shape(DType::kF32, {8, 8});
  EXPECT_EQ(Read(R"({mesh["x"=2,"y"=4], [{"x"}, {"y", ?}p1]})", shape, mesh),
            R"([{x}, {y,?}p1] = {mesh["x"=2,"y"=4], [{"x"}, {"y", ?}p1]})");
  EXPECT_EQ(
      Read(R"({mesh["x"=2,"y"=4], [{"y":(1)2, "x"}, {}], replicated={"y":(2)2}})", shape, mesh),
      R"([{y:(1)2,x}, {}] replicated {y:(2)2} = {mesh["x"=2,"y"=4], [{"y":(1)2, "x"}, {}], )"
      R"(replicated={"y":(2)2}})");
  EXPECT_EQ(Read(R"({mesh["x"=2,"y"=4], [{}, {}], unreduced=max{"y"}})", shape, mesh),
            R"([{}, {}] unreduced {y} = {mesh["x"=2,"y"=4], [{}, {}], unreduced=max{"y"}})");
}

TEST(Forms, Tiles) {
  const DeviceMesh mesh = MeshOf({{"", 8}});
  const Shape shape(DType::kF32, {8, 8});
  EXPECT_EQ(Read("{devices=[2,4]<=[8]}", shape, mesh, false),
            "[{:(1)2}, {:(2)4}] = {devices=[2,4]<=[8]}");
  EXPECT_EQ(Read("{devices=[4,2]<=[2,4]T(1,0)}", shape, mesh, false),
            "[{:(2)4}, {:(1)2}] = {devices=[4,2]<=[2,4]T(1,0)}");
  EXPECT_EQ(Read("{devices=[2,1,4]0,1,2,3,4,5,6,7 last_tile_dim_replicate}", shape, mesh, false),
            "[{:(1)2}, {}] = {devices=[2,1,4]<=[8] last_tile_dim_replicate}");
  EXPECT_EQ(
      Read("{devices=[1,2,2,2]<=[8] last_tile_dims={manual, replicated}}", shape, mesh, false),
      "[{}, {:(1)2}] manual {:(2)2} = {devices=[1,2,2,2]<=[8] last_tile_dims={manual, "
      "replicated}}");
  EXPECT_EQ(Read("{devices=[8,1]0,1,3,2,4,5,6,7}", shape, mesh, false),
            "[{:(1)8}, {}] on (0,1,3,2,4,5,6,7) = {devices=[8,1]0,1,3,2,4,5,6,7}");
  EXPECT_EQ(Read("{manual}", shape, mesh, false), "[{}, {}] manual {:(1)8} = {manual}");
}

TEST(Forms, WhatDoesNotFit) {
  const DeviceMesh mesh = MeshOf({{"x", 2}, {"y", 4}});
  const Shape shape(DType::kF32, {8, 8});
  EXPECT_EQ(Read("{devices=[2,2]<=[4]}", shape, mesh),
            "sharding: {devices=[2,2]<=[4]} in a program of 8 devices");
  EXPECT_EQ(Read("{devices=[8]<=[8]}", shape, mesh),
            "sharding: {devices=[8]<=[8]} of f32[8,8]: dimensions differ in number");
  EXPECT_EQ(Read(R"({mesh["x"=2,"y"=4], [{"x"}, {"x"}]})", shape, mesh),
            R"(sharding: axis "x" twice)");
}

std::string PlanText(std::string_view from, std::string_view to, const Shape& shape,
                     const DeviceMesh& mesh) {
  auto read = [&](std::string_view dims) {
    std::string text = R"({mesh["x"=2,"y"=2,"z"=2], )";
    Result<hlo::Sharding> sharding = hlo::ParseSharding(StrCat(text, dims, "}"));
    CHECK(sharding.has_value()) << sharding.error().ToString();
    return ReadForm(*sharding, shape, mesh).value();
  };
  std::string out;
  for (const ReshardStep& step : PlanReshard(shape, read(from), read(to), mesh, {}).steps) {
    StrAppend(out, out.empty() ? "" : "; ", step.ToString(mesh));
  }
  return out;
}

TEST(Reshard, CheapestSequence) {
  const DeviceMesh mesh = MeshOf({{"x", 2}, {"y", 2}, {"z", 2}});
  const Shape shape(DType::kF32, {1024, 1024});
  EXPECT_EQ(PlanText(R"([{"x"}, {}])", R"([{}, {"x"}])", shape, mesh), "all-to-all {x} 0 -> 1");
  EXPECT_EQ(PlanText(R"([{"x"}, {}])", R"([{"x", "y"}, {}])", shape, mesh), "cut {y} 0");
  EXPECT_EQ(PlanText(R"([{"x"}, {}])", R"([{"y"}, {}])", shape, mesh), "permute {y}");
  EXPECT_EQ(PlanText(R"([{"x"}, {"y"}])", R"([{"y"}, {"x"}])", shape, mesh), "permute {y,x}");
  EXPECT_EQ(PlanText(R"([{"x", "y"}, {}])", R"([{"x"}, {}])", shape, mesh), "all-gather {y} 0");
  EXPECT_EQ(PlanText(R"([{}, {}], unreduced={"x"})", R"([{"x"}, {}])", shape, mesh),
            "reduce-scatter {x} 0");
  EXPECT_EQ(PlanText(R"([{}, {}], unreduced={"x"})", R"([{}, {}])", shape, mesh), "all-reduce {x}");
  EXPECT_EQ(PlanText(R"([{"x", "y", "z"}, {}])", R"([{"x"}, {"y", "z"}])", shape, mesh),
            "all-to-all {y,z} 0 -> 1");
}

// A form whose axes cut dimensions at random, at times unevenly.
Form RandomForm(std::mt19937_64& random, const Shape& shape, const DeviceMesh& mesh) {
  Form form = Form::Replicated(shape.rank());
  if (shape.rank() == 0) return form;
  for (int axis = 0; axis < static_cast<int>(mesh.pieces.size()); ++axis) {
    const size_t d = random() % static_cast<size_t>(shape.rank());
    const int64_t size = shape.dim(static_cast<int64_t>(d));
    const int64_t parts = mesh.SizeOf(form.dims[d].axes) * mesh.size(axis);
    const bool even = parts > 0 && size % parts == 0;
    if (random() % 3 == 0 || size < parts || (!even && random() % 4 != 0)) continue;
    if (shape.is_dynamic(static_cast<int64_t>(d))) continue;
    form.dims[d].axes.push_back(axis);
  }
  return form;
}

hlo::Sharding RandomSharding(std::mt19937_64& random, const Shape& shape, const DeviceMesh& mesh) {
  if (!shape.IsTuple()) {
    if (!shape.IsArray()) return {};
    return PrintForm(RandomForm(random, shape, mesh), mesh);
  }
  hlo::Sharding all;
  all.kind = hlo::Sharding::Kind::kTuple;
  for (const Shape* leaf : LeavesOf(shape)) {
    all.elements.push_back(leaf->IsArray() ? PrintForm(RandomForm(random, *leaf, mesh), mesh)
                                           : hlo::Sharding());
  }
  return all;
}

// States shardings of parameters, of the result and of a few others.
void Annotate(std::mt19937_64& random, hlo::Module& module, const DeviceMesh& mesh) {
  for (hlo::Instruction* i : *module.entry()) {
    const bool edge = i->IsParameter() || i->IsRoot();
    if (!(edge && random() % 4 != 0) && random() % 8 != 0) continue;
    if (LeavesOf(i->shape()).empty() || i->shape().IsToken()) continue;
    i->mutable_extras().sharding.Make() = RandomSharding(random, i->shape(), mesh);
  }
  module.config().num_partitions = mesh.devices;
}

bool Near(const Literal& x, const Literal& y, std::span<const hlo::ResultTolerance> tolerances,
          size_t& leaf, std::string& what) {
  if (x.shape().IsTuple()) {
    for (size_t k = 0; k < x.tuple().size(); ++k) {
      if (!Near(x.tuple()[k], y.tuple()[k], tolerances, leaf, what)) return false;
    }
    return true;
  }
  const hlo::ResultTolerance allowed =
      leaf < tolerances.size() ? tolerances[leaf] : hlo::ResultTolerance{};
  ++leaf;
  if (!x.shape().IsArray()) return true;
  const bool exact = allowed.error == 0 && allowed.ulps == 0;
  for (int64_t k = 0; k < x.size(); ++k) {
    std::string a, b;
    x.AppendElement(a, k);
    y.AppendElement(b, k);
    if (a == b || (a.contains("nan") && b.contains("nan"))) continue;
    const bool number = IsFloat(x.dtype()) || IsComplex(x.dtype());
    // Sums of narrow formats may go out of range in one order and not in another.
    if (number && std::isinf(allowed.error)) continue;
    const double p = std::abs(x.GetComplex(k)), q = std::abs(x.GetComplex(k) - y.GetComplex(k));
    if (!exact && number && q <= 2 * allowed.error + 1e-2 * std::max(1.0, p)) continue;
    if (number && x.GetComplex(k) == y.GetComplex(k)) continue;  // zeroes of either sign
    what = StrCat("element ", k, " of leaf ", leaf - 1, ": ", a, " became ", b);
    return false;
  }
  return true;
}

struct Outcome {
  bool compared = false;
  std::string error = "", left_out = "";
};

Outcome CheckRandom(uint64_t seed, const DeviceMesh& mesh) {
  Result<hlo::RandomModule> made = hlo::MakeRandomModule(seed);
  if (!made || made->module->config().replica_count != 1 ||
      made->module->config().num_partitions != 1) {
    return {.left_out = "of several devices already"};
  }
  std::mt19937_64 random(seed * 77 + static_cast<uint64_t>(mesh.devices));
  std::unique_ptr<hlo::Module> whole = hlo::CloneModule(*made->module);
  Result<std::vector<Literal>> arguments = hlo::MakeArguments(*made, seed, 0);
  if (!arguments) return {.left_out = arguments.error().message()};
  Annotate(random, *made->module, mesh);
  Result<std::vector<const Pass*>> passes = FindPasses("propagate-shardings,partition");
  Result<std::vector<PassRun>> ran = RunPasses(*made->module, *passes, CompileOptions());
  if (!ran) {
    if (ran.error().code() == Code::kUnimplemented) return {.left_out = ran.error().message()};
    return {.error = ran.error().ToString()};
  }
  Result<Literal> want = hlo::Evaluate(*whole, *arguments);
  if (!want) return {.left_out = want.error().message()};
  Result<Literal> got = EvaluateJoined(*whole, *made->module, *arguments);
  if (!got) return {.compared = true, .error = got.error().ToString()};
  size_t leaf = 0;
  Outcome outcome{.compared = true};
  Near(*want, *got, made->results, leaf, outcome.error);
  return outcome;
}

TEST(Partition, RandomModules) {
  const DeviceMesh meshes[] = {
      MeshOf({{"x", 2}}),           MeshOf({{"x", 4}}),
      MeshOf({{"x", 8}}),           MeshOf({{"x", 2}, {"y", 2}}),
      MeshOf({{"x", 2}, {"y", 4}}), MeshOf({{"x", 2}, {"y", 2}, {"z", 2}})};
  // --gtest_random_seed=K: the K-th lot of seeds.
  constexpr uint64_t kLot = 50;
  const uint64_t first = kLot * static_cast<uint64_t>(GTEST_FLAG_GET(random_seed));
  const uint64_t end = first + kLot;
  int64_t compared = 0, failed = 0;
  std::map<std::string, int> left_out;
  for (uint64_t seed = first; seed < end; ++seed) {
    for (const DeviceMesh& mesh : meshes) {
      const Outcome outcome = CheckRandom(seed, mesh);
      compared += outcome.compared ? 1 : 0;
      failed += outcome.error.empty() ? 0 : 1;
      if (!outcome.left_out.empty()) ++left_out[outcome.left_out.substr(0, 60)];
      EXPECT_EQ(outcome.error, "") << "seed " << seed << " on " << mesh.devices << " devices, "
                                   << mesh.axes.size() << " axes";
    }
  }
  for (const auto& [why, count] : left_out) std::printf("%d left out: %s\n", count, why.c_str());
  std::printf("%ld compared, %ld wrong\n", static_cast<long>(compared), static_cast<long>(failed));
  EXPECT_GT(compared, static_cast<int64_t>(end - first));
}

}  // namespace
}  // namespace weft::compiler::spmd
