// Routines whose run is cancelled at any moment: they end, and touch nothing that is not theirs.
#include <atomic>
#include <chrono>
#include <thread>

#include "base/cancel_flag.h"
#include "cpu/routines/routine_testing.h"

namespace weft::cpu {
namespace {

CallUnderTest SortCall(Random& random, std::vector<DType> dtypes, int64_t outer, int64_t n,
                       int64_t keys) {
  CallUnderTest call;
  call.routine = "sort";
  call.attrs = {{"outer", outer},
                {"n", n},
                {"inner", int64_t{1}},
                {"keys", keys},
                {"order", std::string("asc")}};
  for (DType dtype : dtypes) {
    call.inputs.push_back(RandomLiteral(random, dtype, {outer, n, 1}));
    call.outputs.push_back(call.inputs.back().shape());
  }
  return call;
}

std::vector<CallUnderTest> Calls() {
  Random random(1);
  std::vector<CallUnderTest> calls;
  calls.push_back(SortCall(random, {DType::kF32}, 1, 300'000, 1));
  calls.push_back(SortCall(random, {DType::kF32, DType::kS64}, 1, 200'000, 1));
  calls.push_back(SortCall(random, {DType::kS32, DType::kF32, DType::kF32}, 1, 150'000, 2));
  calls.push_back(SortCall(random, {DType::kF64, DType::kS32}, 50, 5'000, 1));
  int64_t n = 400;
  Shape square(DType::kF32, {n, n});
  calls.push_back(
      {"gemm",
       {{"m", n}, {"n", n}, {"k", n}},
       {RandomLiteral(random, DType::kF32, {n, n}), RandomLiteral(random, DType::kF32, {n, n})},
       {square}});
  for (DType dtype : {DType::kF32, DType::kC64}) {
    calls.push_back({"lu",
                     {{"m", n}, {"n", n}},
                     {RandomLiteral(random, dtype, {n, n})},
                     {Shape(dtype, {n, n}), Shape(DType::kS32, {n}), Shape(DType::kS32, {})}});
    calls.push_back({"householder_qr",
                     {{"m", n / 2}, {"n", n / 2}},
                     {RandomLiteral(random, dtype, {n / 2, n / 2})},
                     {Shape(dtype, {n / 2, n / 2}), Shape(dtype, {n / 2})}});
    Literal positive = RandomLiteral(random, dtype, {n, n});
    for (int64_t i = 0; i < n; ++i) {
      if (IsComplex(dtype)) positive.SetComplex(i * n + i, static_cast<double>(n));
      if (!IsComplex(dtype)) positive.SetDouble(i * n + i, static_cast<double>(n));
    }
    calls.push_back({"cholesky", {{"n", n}}, {std::move(positive)}, {Shape(dtype, {n, n})}});
  }
  calls.push_back({"fft",
                   {{"type", std::string("fft")}, {"lengths", std::vector<int64_t>{1 << 16}}},
                   {RandomLiteral(random, DType::kC64, {1 << 16})},
                   {Shape(DType::kC64, {1 << 16})}});
  calls.push_back({"topk",
                   {{"rows", int64_t{64}}, {"n", int64_t{4000}}, {"k", int64_t{100}}},
                   {RandomLiteral(random, DType::kF32, {64, 4000})},
                   {Shape(DType::kF32, {64, 100}), Shape(DType::kS32, {64, 100})}});
  return calls;
}

TEST(Cancelled, AtAnyMoment) {
  for (const CallUnderTest& call : Calls()) {
    auto begin = std::chrono::steady_clock::now();
    auto whole = RunRoutine(call, 2);
    ASSERT_TRUE(whole) << call.routine << ": " << whole.error().ToString();
    auto took = std::chrono::steady_clock::now() - begin;
    constexpr int kMoments = 12;
    for (int moment = 0; moment < kMoments; ++moment) {
      std::atomic<bool> cancelled = moment == 0;
      std::thread other([&] {
        std::this_thread::sleep_for(took * moment / kMoments);
        cancelled = true;
      });
      {
        CancelFlag flag(&cancelled);
        auto part = RunRoutine(call, moment % 3 + 1);
        if (!part) EXPECT_EQ(part.error().code(), Code::kCancelled) << call.routine;
      }
      other.join();
    }
    EXPECT_FALSE(CancelFlag::IsSet());
    auto again = RunRoutine(call, 3);
    ASSERT_TRUE(again) << call.routine;
    for (size_t i = 0; i < whole->size(); ++i) {
      ExpectNear((*again)[i], (*whole)[i], 0, call.routine);
    }
  }
}

// What is left of a piece is left out.
TEST(Cancelled, EndsSoon) {
  Random random(2);
  int64_t n = 1500;
  CallUnderTest call = {"householder_qr",
                        {{"m", n}, {"n", n}},
                        {RandomLiteral(random, DType::kF32, {n, n})},
                        {Shape(DType::kF32, {n, n}), Shape(DType::kF32, {n})}};
  std::atomic<bool> cancelled = true;
  CancelFlag flag(&cancelled);
  auto begin = std::chrono::steady_clock::now();
  (void)RunRoutine(call, 2);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));  // of 3 or more
}

}  // namespace
}  // namespace weft::cpu
