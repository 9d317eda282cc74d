// Modules prepared once and run many times: donation, threads, cancelling.
#include "hlo/evaluator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "hlo/text.h"

namespace weft::hlo {
namespace {

std::unique_ptr<Module> ParseHlo(std::string_view text) {
  Result<std::unique_ptr<Module>> module = ParseModule(text);
  EXPECT_TRUE(module.has_value()) << module.error().ToString();
  return module ? std::move(*module) : nullptr;
}

Literal FloatVector(std::initializer_list<float> values) {
  Literal l{Shape(DType::kF32, {static_cast<int64_t>(values.size())})};
  std::copy(values.begin(), values.end(), l.values<float>().begin());
  return l;
}

constexpr std::string_view kAddTwoHlo = R"(HloModule m
ENTRY e {
  a = f32[4] parameter(0)
  b = f32[4] parameter(1)
  ROOT c = f32[4] add(a, b)
})";

TEST(Evaluator, RunsManyTimesFromManyThreads) {
  std::unique_ptr<Module> module = ParseHlo(R"(HloModule m
double {
  x = f32[4] parameter(0)
  ROOT y = f32[4] add(x, x)
}
ENTRY e {
  a = f32[4] parameter(0)
  b = f32[4] call(a), to_apply=double
  ROOT c = f32[4] call(b), to_apply=double
})");
  auto evaluator = Evaluator::Prepare(*module);
  ASSERT_TRUE(evaluator.has_value());
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        std::vector<Literal> arguments = {FloatVector({1, 2, 3, static_cast<float>(t)})};
        Result<Literal> result = (*evaluator)->Run(arguments);
        if (!result || *result != FloatVector({4, 8, 12, static_cast<float>(4 * t)})) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Evaluator, ArgumentsThatNobodyHoldsAreReused) {
  std::unique_ptr<Module> module = ParseHlo(R"(HloModule m
ENTRY e {
  a = f32[4] parameter(0)
  u = f32[1] parameter(1)
  i = s32[] parameter(2)
  ROOT c = f32[4] dynamic-update-slice(a, u, i)
})");
  auto evaluator = Evaluator::Prepare(*module);
  ASSERT_TRUE(evaluator.has_value());
  std::vector<Literal> arguments = {FloatVector({1, 2, 3, 4}), FloatVector({9}),
                                    Literal::Scalar(DType::kS32, int32_t{2})};
  const std::byte* bytes = arguments[0].data();
  Result<Literal> result = (*evaluator)->Run(arguments);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(*result, FloatVector({1, 2, 9, 4}));
  EXPECT_EQ(result->data(), bytes);

  Literal kept = FloatVector({1, 2, 3, 4});
  arguments = {kept, FloatVector({9}), Literal::Scalar(DType::kS32, int32_t{1})};
  result = (*evaluator)->Run(arguments);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(*result, FloatVector({1, 9, 3, 4}));
  EXPECT_EQ(kept, FloatVector({1, 2, 3, 4}));
}

TEST(Evaluator, WrapsOutsideMemory) {
  std::unique_ptr<Module> module = ParseHlo(kAddTwoHlo);
  auto evaluator = Evaluator::Prepare(*module);
  ASSERT_TRUE(evaluator.has_value());
  alignas(64) float outside[4] = {1, 2, 3, 4};
  bool released = false;
  {
    std::shared_ptr<std::byte[]> storage(reinterpret_cast<std::byte*>(outside),
                                         [&](std::byte*) { released = true; });
    std::vector<Literal> arguments = {Literal::FromStorage(Shape(DType::kF32, {4}), storage),
                                      FloatVector({1, 1, 1, 1})};
    EXPECT_EQ(arguments[0].storage(), storage);
    Result<Literal> result = (*evaluator)->Run(arguments);
    ASSERT_TRUE(result.has_value());
    EXPECT_EQ(*result, FloatVector({2, 3, 4, 5}));
    EXPECT_EQ(outside[0], 1);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(result->data()) % 64, 0u);
  }
  EXPECT_TRUE(released);
}

TEST(Evaluator, LetsGoOfOutsideMemoryInTuples) {
  std::unique_ptr<Module> module = ParseHlo(R"(HloModule m
ENTRY e {
  p = (f32[4]) parameter(0)
  a = f32[4] get-tuple-element(p), index=0
  ROOT c = f32[4] negate(a)
})");
  auto evaluator = Evaluator::Prepare(*module);
  ASSERT_TRUE(evaluator.has_value());
  float outside[4] = {1, 2, 3, 4};
  bool released = false;
  std::shared_ptr<std::byte[]> storage(reinterpret_cast<std::byte*>(outside),
                                       [&](std::byte*) { released = true; });
  std::vector<Literal> arguments = {
      Literal::Tuple({Literal::FromStorage(Shape(DType::kF32, {4}), std::move(storage))})};
  Result<Literal> result = (*evaluator)->Run(arguments);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(*result, FloatVector({-1, -2, -3, -4}));
  EXPECT_TRUE(released);
}

TEST(Evaluator, WrongArgumentsAreErrors) {
  std::unique_ptr<Module> module = ParseHlo(kAddTwoHlo);
  auto evaluator = Evaluator::Prepare(*module);
  ASSERT_TRUE(evaluator.has_value());
  std::vector<Literal> arguments = {FloatVector({1, 2, 3, 4})};
  EXPECT_FALSE((*evaluator)->Run(arguments).has_value());
  arguments = {FloatVector({1, 2, 3, 4}), FloatVector({1})};
  EXPECT_FALSE((*evaluator)->Run(arguments).has_value());
}

TEST(Evaluator, CancelsALoopThatDoesNotEnd) {
  std::unique_ptr<Module> module = ParseHlo(R"(HloModule m
body {
  ROOT p = (s32[]) parameter(0)
}
condition {
  p = (s32[]) parameter(0)
  ROOT c = pred[] constant(true)
}
ENTRY e {
  a = s32[] parameter(0)
  t = (s32[]) tuple(a)
  ROOT w = (s32[]) while(t), condition=condition, body=body
})");
  std::atomic<bool> cancel = false;
  EvalOptions options;
  options.cancel = &cancel;
  options.max_loop_steps = INT64_MAX;
  auto evaluator = Evaluator::Prepare(*module, options);
  ASSERT_TRUE(evaluator.has_value());
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    cancel = true;
  });
  std::vector<Literal> arguments = {Literal::Scalar(DType::kS32, int32_t{0})};
  Result<Literal> result = (*evaluator)->Run(arguments);
  canceller.join();
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code(), Code::kCancelled);
}

}  // namespace
}  // namespace weft::hlo
