// Joining and cutting of rows, the cache of programs, weights.
#include "serve/graph.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "base/file.h"
#include "serve/batch.h"
#include "serve/test_model.h"
#include "serve/weight_store.h"

namespace weft::serve {
namespace {

using testing::Floats;

TEST(BatchRows, JoinPadAndCut) {
  Literal a = Floats({1, 2}, {1, 2}), b = Floats({2, 2}, {3, 4, 5, 6});
  const Literal* parts[] = {&a, &b};
  Literal all = *Assemble(parts, Shape(DType::kF32, {4, 2}));
  EXPECT_EQ(all.ToString(), "{ { 1, 2 }, { 3, 4 }, { 5, 6 }, { 0, 0 } }");
  EXPECT_EQ(CutAt(all, a.shape(), 0)->ToString(), a.ToString());
  EXPECT_EQ(CutAt(all, b.shape(), 1)->ToString(), b.ToString());
  // Other dimensions that are padded.
  Literal wide = *Assemble(parts, Shape(DType::kF32, {3, 3}));
  EXPECT_EQ(wide.ToString(), "{ { 1, 2, 0 }, { 3, 4, 0 }, { 5, 6, 0 } }");
  EXPECT_EQ(CutAt(wide, b.shape(), 1)->ToString(), b.ToString());
  // One that fits is taken as it is.
  const Literal* one[] = {&b};
  EXPECT_EQ(Assemble(one, b.shape())->data(), b.data());
  EXPECT_EQ(JoinRows(std::vector{a, b})->ToString(), "{ { 1, 2 }, { 3, 4 }, { 5, 6 } }");
}

ProgramKey KeyOf(std::vector<Shape> inputs, std::string graph = "g") {
  return {std::move(graph), std::move(inputs)};
}

TEST(ProgramCache, TypesAndNamesArePartOfTheKey) {
  Shape f(DType::kF32, {2}), s(DType::kS32, {2});
  ProgramCache<int> cache;
  auto make = [](int value) {
    return [value]() -> Result<std::shared_ptr<const int>> { return std::make_shared<int>(value); };
  };
  EXPECT_EQ(**cache.Get(KeyOf({f}), make(1)), 1);
  EXPECT_EQ(**cache.Get(KeyOf({s}), make(2)), 2);
  EXPECT_EQ(**cache.Get(KeyOf({f}, "g-"), make(3)), 3);
  EXPECT_EQ(**cache.Get(KeyOf({f}), make(4)), 1);
  EXPECT_EQ(cache.compiles(), 3);
}

TEST(ProgramCache, OneCompileForManyWaitersAndOthersGoOn) {
  ProgramCache<int> cache;
  Shape f(DType::kF32, {2}), s(DType::kS32, {2});
  std::promise<void> go;
  std::shared_future<void> may = go.get_future().share();
  std::atomic<int> compiled = 0;
  auto slow = [&]() -> Result<std::shared_ptr<const int>> {
    may.wait();
    return std::make_shared<int>(++compiled);
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] { EXPECT_EQ(**cache.Get(KeyOf({f}), slow), 1); });
  while (cache.compiles() == 0) std::this_thread::yield();
  // Another key is not held up by the one that compiles.
  auto quick = []() -> Result<std::shared_ptr<const int>> { return std::make_shared<int>(7); };
  EXPECT_EQ(**cache.Get(KeyOf({s}), quick), 7);
  go.set_value();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(compiled, 1);
}

TEST(ProgramCache, AFailureIsForgottenAndAFrozenGraphSaysWhatThereIs) {
  ProgramCache<int> cache;
  Shape f(DType::kF32, {2}), s(DType::kS32, {3});
  auto fail = []() -> Result<std::shared_ptr<const int>> { return InvalidArgument("no"); };
  auto quick = []() -> Result<std::shared_ptr<const int>> { return std::make_shared<int>(7); };
  EXPECT_FALSE(cache.Get(KeyOf({f}), fail));
  EXPECT_TRUE(cache.Get(KeyOf({f}), quick));
  {
    ProgramCache<int>::NoCompileScope scope(cache);
    EXPECT_EQ(cache.Get(KeyOf({s}), quick).error().message(),
              "no program for g(s32[3]), and compilation is disabled; there are: g(f32[2])");
  }
  cache.Freeze();
  EXPECT_TRUE(cache.Get(KeyOf({f}), fail));
  Result<std::shared_ptr<const int>> refused = cache.Get(KeyOf({s}), quick);
  EXPECT_EQ(refused.error().code(), Code::kFailedPrecondition);
  EXPECT_EQ(refused.error().message(),
            "no program for g(s32[3]), and the graph is frozen; there are: g(f32[2])");
}

TEST(VariablesTest, RegisteredOnceAndReadWhenAskedFor) {
  testing::TempFolder folder;
  std::string path = folder.path() + "/weights.safetensors";
  ASSERT_TRUE(WriteFile(path, testing::SafetensorsScalars({{"a", 1}, {"b", 2}})));
  auto backend = testing::TestBackend();
  WeightStore store(*backend);
  Variables variables(store, *WeightsFile::Open(path));
  Shape scalar = Shape::Scalar(DType::kF32);
  EXPECT_TRUE(variables.Register({"a", scalar}));
  EXPECT_TRUE(variables.Register({"a", scalar}));
  EXPECT_TRUE(variables.Register({"b", scalar}));
  Status wrong = variables.Register({"a", Shape::Scalar(DType::kS32)});
  EXPECT_EQ(wrong.error().message(), path + ": tensor a: is f32[], the signature says s32[]");
  EXPECT_EQ(variables.Register({"c", scalar}).error().code(), Code::kNotFound);
  EXPECT_EQ(variables.loaded_bytes(), 0);
  auto first = variables.Get("a"), second = variables.Get("a");
  ASSERT_TRUE(first);
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(variables.loaded_bytes(), 4);  // b was not needed
  EXPECT_EQ(variables.registered_bytes(), 8);
  // Its type is known without its elements.
  EXPECT_EQ(variables.ShapeOf("b")->ToString(), "f32[]");
  EXPECT_EQ(variables.ShapeOf("c").error().code(), Code::kNotFound);
}

TEST(VariablesTest, ClustersAreReadAtOnceAndOneThatFailsHoldsUpNobody) {
  testing::TempFolder folder;
  std::string path = folder.path() + "/weights.safetensors";
  std::vector<std::pair<std::string, float>> values;
  for (int i = 0; i < 9; ++i) values.emplace_back(StrCat("v", i), static_cast<float>(i));
  ASSERT_TRUE(WriteFile(path, testing::SafetensorsScalars(values)));

  // A device that has no room for one of them.
  class Full final : public Backend {
   public:
    std::string description() const override { return "full"; }
    bool is_gpu() const override { return false; }
    Result<DeviceValueRef> Place(Literal value) override {
      ++asked;
      if (value.values<float>()[0] == 3) return MakeError(Code::kResourceExhausted, "no room");
      return std::make_shared<DeviceValue>();
    }
    Result<bool> Holds(const DeviceValue&, const Literal&) const override { return false; }
    Result<std::shared_ptr<const Program>> Compile(const ProgramText&) override {
      return Unimplemented("no programs");
    }
    std::atomic<int> asked = 0;
  } backend;
  WeightStore store(backend);
  Variables variables(store, *WeightsFile::Open(path));
  std::vector<std::string> names;
  for (const auto& [name, value] : values) {
    ASSERT_TRUE(variables.Register({name, Shape::Scalar(DType::kF32)}));
    names.push_back(name);
  }
  names.push_back("v1");  // twice, and one that nobody registered
  names.push_back("none");
  variables.Prefetch(names);
  for (const auto& [name, value] : values) {
    Result<DeviceValueRef> got = variables.Get(name);
    EXPECT_EQ(got.has_value(), value != 3) << name;
    if (!got) EXPECT_EQ(got.error().message(), path + ": tensor v3: no room");
  }
  EXPECT_GE(backend.asked, 9);
  EXPECT_EQ(variables.loaded_bytes(), 32);
}

// Two inputs and two outputs whose names would be the same if they were joined.
// A program may ask for a weight in another order in memory. Elements lie row-major on every
// device: one placed value serves programs that ask and programs that do not, and what was asked is
// told.
TEST(BackendTest, WeightsInTheLayoutThatAProgramAsksFor) {
  std::unique_ptr<Backend> backend = testing::TestBackend();
  ASSERT_NE(backend, nullptr);
  auto compile = [&](std::string_view attribute) {
    ProgramText text;
    text.text = StrCat("module @m {\n  func.func public @main(%w: tensor<2x3xf32>", attribute,
                       ", %x: tensor<2x3xf32>) -> tensor<2x3xf32> {\n    %r = stablehlo.subtract ",
                       "%x, %w : tensor<2x3xf32>\n    return %r : tensor<2x3xf32>\n  }\n}\n");
    return backend->Compile(text);
  };
  auto plain = compile(""), turned = compile(" {mhlo.layout_mode = \"{0,1}\"}");
  ASSERT_TRUE(plain) << plain.error().ToString();
  ASSERT_TRUE(turned) << turned.error().ToString();
  EXPECT_EQ((*plain)->parameters()[0].layout(), nullptr);
  ASSERT_NE((*turned)->parameters()[0].layout(), nullptr);
  EXPECT_FALSE((*turned)->parameters()[0].layout()->IsRowMajor());
  WeightStore store(*backend);
  DeviceValueRef weight = *store.Place(Floats({2, 3}, {1, 2, 3, 4, 5, 6}));
  for (const auto& program : {*plain, *turned}) {
    RunTimes times;
    std::vector<RunArgument> arguments(2);
    arguments[0].placed = weight.get();
    arguments[1].host = Floats({2, 3}, {10, 20, 30, 40, 50, 60});
    auto results = program->Run(std::move(arguments), nullptr, &times);
    ASSERT_TRUE(results) << results.error().ToString();
    EXPECT_EQ((*results)[0].ToString(), "{ { 9, 18, 27 }, { 36, 45, 54 } }");
  }
}

// A program may write its results over its arguments. Inputs are the run's own; weights stay as
// they are.
TEST(BackendTest, ProgramsThatOverwriteTheirArguments) {
  std::unique_ptr<Backend> backend = testing::TestBackend();
  ASSERT_NE(backend, nullptr);
  WeightStore store(*backend);
  DeviceValueRef weight = *store.Place(Floats({2, 2}, {1, 2, 3, 4}));
  constexpr std::string_view kAliases = " {tf.aliasing_output = 0 : i32}";
  for (bool of_weight : {false, true}) {
    ProgramText text;
    text.text = StrCat("module @m {\n  func.func public @main(%w: tensor<2x2xf32>",
                       of_weight ? kAliases : "", ", %x: tensor<2x2xf32>",
                       of_weight ? "" : kAliases, ") -> tensor<2x2xf32> {\n    %r = ",
                       "stablehlo.subtract %x, %w : tensor<2x2xf32>\n    return %r : ",
                       "tensor<2x2xf32>\n  }\n}\n");
    auto program = backend->Compile(text);
    ASSERT_TRUE(program) << program.error().ToString();
    const Literal input = Floats({2, 2}, {10, 20, 30, 40});
    for (int run = 0; run < 3; ++run) {
      RunTimes times;
      std::vector<RunArgument> arguments(2);
      arguments[0].placed = weight.get();
      arguments[1].host = input;
      auto results = (*program)->Run(std::move(arguments), nullptr, &times);
      ASSERT_TRUE(results) << results.error().ToString();
      EXPECT_EQ((*results)[0].ToString(), "{ { 9, 18 }, { 27, 36 } }");
    }
    EXPECT_EQ(input.ToString(), "{ { 10, 20 }, { 30, 40 } }");
  }
}

TEST(GraphTest, NamesInAnyOrderAndResultsAsAsked) {
  testing::TempFolder folder;
  testing::MakeFolder(folder.path() + "/1");
  ASSERT_TRUE(WriteFile(folder.path() + "/1/p.hlo",
                        "ENTRY main {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
                        "  s = f32[] subtract(a, b)\n  m = f32[] multiply(a, b)\n"
                        "  ROOT r = (f32[], f32[]) tuple(s, m)\n}\n"));
  auto tensor = [](std::string_view name) {
    return StrCat("{\"name\": \"", name, "\", \"dtype\": \"f32\", \"shape\": []}");
  };
  ASSERT_TRUE(WriteFile(
      folder.path() + "/1/signature.json",
      StrCat("{\"format\": \"weft-serve/1\", \"variables\": [], \"graphs\": [{\"name\": \"g\", ",
             "\"inputs\": [", tensor("x-y"), ", ", tensor("x"), "], \"outputs\": [", tensor("z-y"),
             ", ", tensor("a"), "], \"arguments\": [{\"input\": \"x-y\"}, ",
             "{\"input\": \"x\"}], \"programs\": [{\"file\": \"p.hlo\", \"sizes\": {}}]}]}")));
  Server server(testing::TestBackend(), DefaultServerOptions());
  ASSERT_TRUE(server.models().SetConfig({{"m", folder.path()}}));
  auto ask = [&](std::vector<std::string> inputs, std::vector<std::string> outputs) {
    InferRequest request{.model = {"m"}};
    for (const std::string& name : inputs)
      request.inputs.push_back({name, Literal::Scalar<float>(DType::kF32, name == "x" ? 2 : 7)});
    request.outputs = std::move(outputs);
    auto response = server.InferAndWait(std::move(request));
    if (!response) return response.error().message();
    std::string out;
    for (const NamedTensor& o : response->outputs)
      StrAppend(out, o.name, "=", o.value.ToString(), " ");
    return out;
  };
  EXPECT_EQ(ask({"x", "x-y"}, {}), "z-y=5 a=14 ");
  EXPECT_EQ(ask({"x-y", "x"}, {"a", "z-y"}), "a=14 z-y=5 ");
  EXPECT_EQ(ask({"x-y", "x"}, {"a"}), "a=14 ");
  EXPECT_EQ(ask({"x"}, {}), "input x-y: missing: g takes x-y, x");
  EXPECT_EQ(ask({"x", "x"}, {}), "input x: twice");
  EXPECT_EQ(ask({"x", "x-y"}, {"b"}), "output b: g has no such output, it has z-y, a");
}

}  // namespace
}  // namespace weft::serve
