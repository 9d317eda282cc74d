// Joining and cutting of rows, the cache of programs, weights.
#include "serve/graph.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "base/file.h"
#include "serve/batch.h"
#include "serve/test_model.h"

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
  Variables variables(*backend, *WeightsFile::Open(path));
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
}

}  // namespace
}  // namespace weft::serve
