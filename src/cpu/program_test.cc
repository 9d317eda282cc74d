// Whole programs: files, control flow, errors, the cache, several threads.
#include "cpu/render/program.h"

#include <atomic>
#include <chrono>
#include <map>
#include <thread>

#include "base/str.h"
#include "cpu/device.h"
#include "cpu/llvm/llvm.h"
#include "cpu/native/sequence.h"
#include "cpu/native/testing.h"
#include "cpu/plan.h"

namespace weft::cpu {
namespace {

using program::Program;

std::vector<Literal> ArgumentsOf(const Program& program, uint64_t seed) {
  std::vector<Literal> arguments;
  for (const program::Buffer& b : program.buffers) {
    if (b.kind != program::BufferKind::kParameter) continue;
    arguments.resize(std::max(arguments.size(), static_cast<size_t>(b.index) + 1));
    arguments[b.index] = RandomLiteral(b.shape, seed + static_cast<uint64_t>(b.index));
  }
  return arguments;
}

class ProgramFile : public testing::TestWithParam<const char*> {};
TEST_P(ProgramFile, LikeInterpreter) {
  Program program = ReadProgram(StrCat("test/program/", GetParam(), ".program"));
  // Reads lanes of a fresh array that a mask kept from being written.
  size_t skipped = GetParam() == std::string("ops") ? 1 : -1;
  for (uint64_t seed = 1; seed < 4; ++seed) {
    ExpectLikeInterpreter(program, ArgumentsOf(program, seed), 4, GetParam(), skipped);
  }
}
INSTANTIATE_TEST_SUITE_P(Files, ProgramFile,
                         testing::Values("async_copy", "async_list", "cast_nowrap", "complex",
                                         "conditional", "elementwise", "epilogue", "gemm", "mul_rounded", "atomic", "region_arrays",
                                         "combine", "ops", "softmax", "threads", "tiles",
                                         "vector_sum", "while_counter", "while_limit"),
                         [](const auto& info) { return std::string(info.param); });

// Until x[0] reaches n: a loop that is one native region.
std::string CountTo(int64_t limit) {
  return StrCat(R"(
program count
buffer n: s64[] parameter 0
buffer total: s64[] result 0
buffer i: s64[] temp
buffer acc: s64[] temp
buffer go: pred[] temp
kernel less(read i: s64[1], read n: s64[1], write go: pred[1]) {
  %0 = load s64 i[0]
  %1 = load s64 n[0]
  %2 = lt s64 %0, %1
  store pred go[0], %2
}
kernel step(update i: s64[1], update acc: s64[1]) {
  %0 = load s64 i[0]
  %1 = load s64 acc[0]
  %2 = xor s64 %1, %0
  %3 = mul s64 %2, 3
  store s64 acc[0], %3
  %4 = add s64 %0, )",
                limit, R"(
  store s64 i[0], %4
}
steps {
  fill(write i) hex "0000000000000000"
  fill(write acc) hex "0100000000000000"
  loop: while(read go) { launch less(read i, read n, write go) } do { launch step(update i, update acc) }
  copy(read acc, write total)
})");
}

Literal S64(int64_t value) {
  return Literal::Scalar<int64_t>(DType::kS64, value);
}

TEST(Program, FlushSubnormals) {
  Program program = ReadProgram("test/program/flush.program");
  Literal x(Shape(DType::kF32, {4}));
  for (int64_t i = 0; i < 4; ++i) x.SetDouble(i, 0x1p-127 * static_cast<double>(i + 1));
  for (bool flush : {true, false}) {
    program.flush_subnormals = flush;
    auto loaded = LoadForTest(program);
    ASSERT_TRUE(loaded) << loaded.error().ToString();
    auto y = RunLoaded(**loaded, {x});
    ASSERT_TRUE(y) << y.error().ToString();
    EXPECT_EQ((*y)[0].GetDouble(1), flush ? 0 : x.GetDouble(1) / 2);
    EXPECT_EQ((*y)[0].GetDouble(3), x.GetDouble(3) / 2);
  }
}

TEST(Program, WhileIsNative) {
  Program program = FromText(CountTo(1));
  ExpectLikeInterpreter(program, {S64(1000)}, 0, "count");
  auto loaded = LoadForTest(program);
  ASSERT_TRUE(loaded);
  auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(RunLoaded(**loaded, {S64(10'000'000)}));
  double ns =
      std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
  RecordProperty("ns_per_iteration", StrCat(ns / 1e7));
  EXPECT_LT(ns / 1e7, 20) << "iterations leave registers";
}

// Arguments may be the user's own memory, aligned to 16 bytes and no more.
TEST(Program, ArgumentsOfLittleAlignment) {
  auto loaded = LoadForTest(FromText(R"(
program sums
buffer x: f64[16] parameter 0
buffer i: s64[1] temp
buffer go: pred[1] temp
buffer y: f64[16] result 0
kernel less(read i: s64[1], write go: pred[1]) {
  %0 = load s64 i[0]
  %1 = lt s64 %0, 3
  store pred go[0], %1
}
kernel step(read x: f64[16], update i: s64[1], update y: f64[16]) {
  %0 = load s64 i[0]
  %1 = add s64 %0, 1
  store s64 i[0], %1
  %2 = load f64x8 x[0]
  %3 = load f64x8 y[0]
  %4 = add f64x8 %2, %3
  store f64x8 y[0], %4
}
steps {
  fill(write i) hex "0000000000000000"
  fill(write y) hex "00"
  loop: while(read go) { launch less(read i, write go) } do { launch step(read x, update i, update y) }
})"));
  ASSERT_TRUE(loaded) << loaded.error().ToString();
  alignas(64) double memory[40] = {};
  for (int offset : {2, 4, 6}) {
    double *x = memory + offset, *y = x + 16;
    for (int i = 0; i < 16; ++i) x[i] = i;
    std::byte* parameters[] = {reinterpret_cast<std::byte*>(x)};
    std::byte* results[] = {reinterpret_cast<std::byte*>(y)};
    runtime::Call call;
    call.parameters = parameters;
    call.results = results;
    ASSERT_TRUE((*loaded)->Run(call));
    EXPECT_EQ(y[7], 21);
  }
}

TEST(Program, CancelEndsLoops) {
  auto loaded = LoadForTest(FromText(CountTo(0)));  // for ever
  ASSERT_TRUE(loaded) << loaded.error().ToString();
  std::atomic<bool> cancel = false;
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    cancel = true;
  });
  runtime::Call call;
  call.cancel = &cancel;
  auto result = RunLoaded(**loaded, {S64(5)}, call);
  later.join();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), Code::kCancelled);
}

// No loop of it has many rounds, and all together have more than anybody waits for.
TEST(Program, CancelEndsLoopsInLoops) {
  auto loaded = LoadForTest(FromText(R"(
program nest
buffer n: s64[] parameter 0
buffer total: s64[] result 0
buffer i: s64[] temp
buffer j: s64[] temp
buffer acc: s64[] temp
buffer go: pred[] temp
buffer on: pred[] temp
kernel less(read i: s64[1], write go: pred[1]) {
  %0 = load s64 i[0]
  %1 = lt s64 %0, 60000
  store pred go[0], %1
}
kernel next(update i: s64[1], write j: s64[1]) {
  %0 = load s64 i[0]
  %1 = add s64 %0, 1
  store s64 i[0], %1
  store s64 j[0], 0
}
kernel step(update i: s64[1], update acc: s64[1]) {
  %0 = load s64 i[0]
  %1 = load s64 acc[0]
  %2 = xor s64 %1, %0
  %3 = mul s64 %2, 3
  store s64 acc[0], %3
  %4 = add s64 %0, 1
  store s64 i[0], %4
}
steps {
  fill(write i) hex "0000000000000000"
  copy(read n, write acc)
  outer: while(read go) trips 60000 { launch less(read i, write go) } do {
    launch next(update i, write j)
    inner: while(read on) trips 60000 { launch less(read j, write on) } do { launch step(update j, update acc) }
  }
  copy(read acc, write total)
})"));
  ASSERT_TRUE(loaded) << loaded.error().ToString();
  std::atomic<bool> cancel = false;
  std::chrono::steady_clock::time_point asked;
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    asked = std::chrono::steady_clock::now();
    cancel = true;
  });
  runtime::Call call;
  call.cancel = &cancel;
  auto result = RunLoaded(**loaded, {S64(5)}, call);
  later.join();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), Code::kCancelled);
  EXPECT_LT(std::chrono::steady_clock::now() - asked, std::chrono::milliseconds(500));
}

const char kUnknownRoutine[] = R"(
program custom
buffer x: s32[4] parameter 0
buffer y: s32[4] result 0
steps {
  mine: call "mine"(read x, write y) {scale = 3} effects source "model.py:7"
})";

TEST(Program, RoutinesOfTheCaller) {
  Program program = FromText(kUnknownRoutine);
  auto loaded = LoadForTest(program);
  ASSERT_TRUE(loaded) << loaded.error().ToString();
  Literal x = RandomLiteral(Shape(DType::kS32, {4}), 1);
  auto without = RunLoaded(**loaded, {x});
  ASSERT_FALSE(without);
  EXPECT_NE(without.error().ToString().find("model.py:7"), std::string::npos);
  std::function<Status(const program::Step&, std::span<const std::span<std::byte>>)> hook =
      [](const program::Step& step, std::span<const std::span<std::byte>> memory) -> Status {
    if (memory.size() != 2 || step.name != "mine") return InvalidArgument("wrong step");
    std::copy(memory[0].begin(), memory[0].end(), memory[1].begin());
    return {};
  };
  runtime::Call call;
  call.call = &hook;
  auto with = RunLoaded(**loaded, {x}, call);
  ASSERT_TRUE(with) << with.error().ToString();
  EXPECT_TRUE((*with)[0] == x);
  hook = [](const program::Step&, std::span<const std::span<std::byte>>) -> Status {
    return MakeError(Code::kUnavailable, "not today");
  };
  auto failed = RunLoaded(**loaded, {x}, call);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code(), Code::kUnavailable);
}

constexpr char kBeside[] = R"(program beside
buffer x: s32[4] parameter 0
buffer y: s32[4] result 0
buffer z: s32[4] result 1
steps {
  async e list: steps {
    theirs: call "mine"(read x, write y)
  }
  ours: call "mine"(read x, write z)
  wait e
})";

// Each half waits until the other one has come.
TEST(Program, ListsRunBesideWhatFollows) {
  auto loaded = LoadForTest(FromText(kBeside));
  ASSERT_TRUE(loaded) << loaded.error().ToString();
  Literal x = RandomLiteral(Shape(DType::kS32, {4}), 1);
  std::atomic<int> come = 0;
  std::function<Status(const program::Step&, std::span<const std::span<std::byte>>)> hook =
      [&](const program::Step&, std::span<const std::span<std::byte>> memory) -> Status {
    ++come;
    while (come.load() < 2) std::this_thread::yield();
    std::copy(memory[0].begin(), memory[0].end(), memory[1].begin());
    return {};
  };
  runtime::Call call;
  call.call = &hook;
  for (int i = 0; i < 50; ++i) {
    come = 0;
    auto results = RunLoaded(**loaded, {x}, call);
    ASSERT_TRUE(results) << results.error().ToString();
    EXPECT_TRUE((*results)[0] == x && (*results)[1] == x);
  }
}

// An error on either side ends the run, with the step's name; nothing goes on behind it.
TEST(Program, ListsThatFail) {
  auto loaded = LoadForTest(FromText(kBeside));
  ASSERT_TRUE(loaded) << loaded.error().ToString();
  Literal x = RandomLiteral(Shape(DType::kS32, {4}), 1);
  std::atomic<int> under_way = 0;
  for (std::string name : {"theirs", "ours"}) {
    std::function<Status(const program::Step&, std::span<const std::span<std::byte>>)> hook =
        [&](const program::Step& step, std::span<const std::span<std::byte>>) -> Status {
      if (step.name == name) return MakeError(Code::kUnavailable, "not today");
      ++under_way;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      --under_way;
      return {};
    };
    runtime::Call call;
    call.call = &hook;
    auto results = RunLoaded(**loaded, {x}, call);
    ASSERT_FALSE(results);
    EXPECT_EQ(results.error().code(), Code::kUnavailable);
    EXPECT_NE(results.error().ToString().find(name), std::string::npos);
    EXPECT_EQ(under_way.load(), 0);
  }
}

TEST(Program, WrongArguments) {
  auto loaded = LoadForTest(FromText(CountTo(1)));
  ASSERT_TRUE(loaded);
  runtime::Call call;
  EXPECT_FALSE((*loaded)->Run(call));
  std::byte* nothing = nullptr;
  call.parameters = {&nothing, 1};
  call.results = {&nothing, 1};
  EXPECT_FALSE((*loaded)->Run(call));
}

class MapCache : public runtime::ObjectCache {
 public:
  std::optional<std::string> Find(std::string_view key) override {
    auto found = objects_.find(std::string(key));
    return found == objects_.end() ? std::nullopt : std::optional(found->second);
  }
  void Store(std::string_view key, std::string_view object) override {
    objects_[std::string(key)] = object;
  }

  std::map<std::string, std::string>& objects() { return objects_; }

 private:
  std::map<std::string, std::string> objects_;
};

TEST(Program, CacheIsUsed) {
  Program program = ReadProgram("test/program/tiles.program");
  MapCache cache;
  runtime::LoadOptions options;
  options.cache = &cache;
  auto first = TestDevice().Load(program, options);
  ASSERT_TRUE(first);
  EXPECT_GT((*first)->stats().compiled, 0);
  auto second = TestDevice().Load(program, options);
  ASSERT_TRUE(second);
  EXPECT_EQ((*second)->stats().compiled, 0);
  EXPECT_EQ((*second)->stats().from_cache, (*first)->stats().compiled);
  std::vector<Literal> arguments = ArgumentsOf(program, 5);
  EXPECT_TRUE((*RunLoaded(**first, arguments))[0] == (*RunLoaded(**second, arguments))[0]);
}

TEST(Program, UnusableObjectsAreReplaced) {
  Program program = ReadProgram("test/program/while_counter.program");
  MapCache cache;
  runtime::LoadOptions options;
  options.cache = &cache;
  ASSERT_TRUE(TestDevice().Load(program, options));
  const std::map<std::string, std::string> good = cache.objects();
  ASSERT_FALSE(good.empty());
  // Another object links, but has other functions.
  MapCache other;
  runtime::LoadOptions other_options;
  other_options.cache = &other;
  ASSERT_TRUE(TestDevice().Load(ReadProgram("test/program/tiles.program"), other_options));
  const std::string others = other.objects().begin()->second;
  for (size_t kept : {size_t{0}, size_t{7}, size_t{100}, size_t{300}, others.size()}) {
    for (auto& [key, object] : cache.objects()) {
      object = kept == others.size() ? others : good.at(key).substr(0, kept);
    }
    auto loaded = TestDevice().Load(program, options);
    ASSERT_TRUE(loaded) << kept << ": " << loaded.error().ToString();
    EXPECT_GT((*loaded)->stats().compiled, 0);
    EXPECT_EQ((*loaded)->stats().from_cache, 0);
    EXPECT_EQ(cache.objects(), good) << kept;
    auto again = TestDevice().Load(program, options);
    ASSERT_TRUE(again);
    EXPECT_EQ((*again)->stats().compiled, 0);
  }
}

TEST(Program, ShowsWhatItMakes) {
  std::map<std::string, std::string> shown;
  runtime::LoadOptions options;
  options.show = [&](std::string_view name, std::string_view text) {
    shown[std::string(name)] = text;
  };
  ASSERT_TRUE(TestDevice().Load(ReadProgram("test/program/while_counter.program"), options));
  EXPECT_TRUE(shown.contains("main.ll"));
  EXPECT_NE(shown["main.ll"].find("@weft_run"), std::string::npos);
  EXPECT_NE(shown["main.s"].find("weft_run"), std::string::npos);
}

// What a chunk goes through is there, unless it may be cut short or its end may wrap around.
TEST(Program, ChunksAlwaysRun) {
  auto tests = [](std::string_view end) {
    Program program = FromText(
        StrCat("program p\nbuffer a: f32[64] parameter 0\nbuffer r: f32[64] result 0\n"
               "kernel k(read x: f32[64], write y: f32[64]) {\n  parallel %p = 0..4 {\n"
               "    %b = mul s64 %p, 16\n",
               end,
               "    serial %i = %b..%e {\n      %v = load f32 x[%i]\n      store f32 y[%i], %v\n"
               "    }\n  }\n}\nsteps {\n  launch k(read a, write r)\n}\n"));
    Plan plan = *MakePlan(program, {});
    std::string text = RenderProgram(program, plan, {}, 1, false)[0].text;
    Literal numbers(Shape(DType::kF32, {64}));
    for (int64_t i = 0; i < 64; ++i) numbers.SetDouble(i, static_cast<double>(i));
    ExpectLikeInterpreter(program, {numbers}, 0, "chunks");
    size_t found = 0, at = 0;
    for (; (at = text.find("icmp slt", at)) != std::string::npos; ++at) ++found;
    return found;  // of the range, the next of it and the next of the loop, and perhaps one more
  };
  EXPECT_EQ(tests("    %e = add s64 %b, 16\n"), 3u);
  EXPECT_EQ(tests("    %m = add s64 %b, 16\n    %e = min s64 %m, 64\n"), 4u);
  EXPECT_EQ(tests("    %c = add s64 %b, 9223372036854775792\n"
                  "    %e = add s64 %c, -9223372036854775776\n"),
            4u);
}

// Kernels that take a while are compiled beside each other, if there are threads for it.
// Kernels join one parallel region up to the first that needs what another one of them writes, or
// writes what another one reads.
TEST(Program, IndependentKernelsTogether) {
  std::string text =
      "program p\nbuffer a: f32[64] parameter 0\nbuffer b: f32[64] parameter 1\n"
      "buffer r: f32[64] result 0\nbuffer s: f32[64] result 1\nbuffer t: f32[64] temp\n"
      "buffer u: f32[64] temp\n"
      "kernel k(read x: f32[64], write y: f32[64]) {\n  parallel %p = 0..4 {\n"
      "    %b = mul s64 %p, 16\n    %e = add s64 %b, 16\n    serial %i = %b..%e {\n"
      "      %v = load f32 x[%i]\n      %w = mul f32 %v, 3\n      store f32 y[%i], %w\n"
      "    }\n  }\n}\nsteps {\n"
      "  launch k(read a, write t)\n  launch k(read b, write u)\n  launch k(read a, write r)\n"
      "  launch k(read t, write s)\n"  // what the first one wrote
      "  launch k(read u, write t)\n"  // what the last one read
      "  launch k(read t, write s)\n"  // both of it
      "  launch k(read b, write r)\n}\n";
  Program program = FromText(text);
  Plan plan = *MakePlan(program, {});
  std::vector<SequenceStep> steps;
  for (const program::Step& step : program.steps) {
    steps.push_back(
        {SequenceStep::Kind::kKernel, nullptr, 4, ArgumentsOf(program, plan, step), {}, &step});
  }
  JoinIndependentKernels(steps);
  std::vector<int64_t> together;
  for (const SequenceStep& step : steps) together.push_back(step.together);
  EXPECT_EQ(together, (std::vector<int64_t>{3, 1, 1, 1, 1, 2, 1}));
  for (SequenceStep& step : steps) step.n = step.together = 1;
  JoinIndependentKernels(steps);  // nothing that threads would share
  for (const SequenceStep& step : steps) EXPECT_EQ(step.together, 1);
  Literal a = RandomLiteral(Shape(DType::kF32, {64}), 1);
  ExpectLikeInterpreter(program, {a, RandomLiteral(Shape(DType::kF32, {64}), 2)}, 0, "together");
}

TEST(Program, ModulesForThreads) {
  auto modules = [](int operations, int parts) {
    std::string text = "program p\nbuffer a: f32[64] parameter 0\n";
    for (int k : {0, 1}) StrAppend(text, "buffer r", k, ": f32[64] result ", k, "\n");
    for (int k : {0, 1}) {
      StrAppend(text, "kernel k", k, "(read x: f32[64], write y: f32[64]) {\n",
                "  serial %i = 0..64 {\n    %v0 = load f32 x[%i]\n");
      for (int n = 0; n < operations; ++n) {
        StrAppend(text, "    %v", n + 1, " = add f32 %v", n, ", ", k + 1, "\n");
      }
      StrAppend(text, "    store f32 y[%i], %v", operations, "\n  }\n}\n");
    }
    StrAppend(text, "steps {\n  launch k0(read a, write r0)\n  launch k1(read a, write r1)\n}\n");
    Program program = FromText(text);
    Plan plan = *MakePlan(program, {});
    return RenderProgram(program, plan, {}, parts, false).size();
  };
  EXPECT_EQ(modules(60, 2), 2u);
  EXPECT_EQ(modules(60, 1), 1u);
  EXPECT_EQ(modules(10, 2), 1u);
}

// Ranges are of use where integers are divided or widened.
TEST(Program, DividedIntegers) {
  auto integers = [](std::string_view computed) {
    Program program = FromText(StrCat(
        "program p\nbuffer a: s32[64] parameter 0\nbuffer r: s32[64] result 0\n"
        "kernel k(read x: s32[64], write y: s32[64]) {\n  serial %i = 0..64 {\n    %v = load s32 "
        "x[%i]\n",
        computed, "    store s32 y[%i], %w\n  }\n}\nsteps {\n  launch k(read a, write r)\n}\n"));
    Plan plan = *MakePlan(program, {});
    return RenderProgram(program, plan, {}, 1, false)[0].integers;
  };
  EXPECT_FALSE(integers("    %w = add s32 %v, 3\n"));
  EXPECT_TRUE(integers("    %w = div s32 %v, 3\n"));
  EXPECT_TRUE(integers("    %z = cast s64 from s32 %v\n    %w = cast s32 from s64 %z\n"));
}

// What LLVM does to a module is printed with it.
TEST(Program, TextSaysWhichPassesRun) {
  auto text = LlvmText(FromText(CountTo(1)), HostTarget());
  ASSERT_TRUE(text) << text.error().ToString();
  EXPECT_NE(text->find("; passes: always-inline"), std::string::npos);
}

TEST(Program, TwoThreadsAtOnce) {
  Program program = FromText(CountTo(1));
  auto loaded = LoadForTest(program);
  ASSERT_TRUE(loaded);
  auto expected = RunLoaded(**loaded, {S64(1000)});
  ASSERT_TRUE(expected);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        auto result = RunLoaded(**loaded, {S64(1000)});
        wrong += !result || !((*result)[0] == (*expected)[0]);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Program, StepByStep) {
  for (const char* name : {"conditional", "softmax", "while_counter", "gemm", "async_copy"}) {
    Program program = ReadProgram(StrCat("test/program/", name, ".program"));
    auto loaded = LoadForTest(program);
    ASSERT_TRUE(loaded) << loaded.error().ToString();
    std::vector<Literal> arguments = ArgumentsOf(program, 7);
    auto expected = RunLoaded(**loaded, arguments);
    ASSERT_TRUE(expected);
    size_t steps = 0;
    std::function<Status(const program::Step&, double, std::span<const std::span<std::byte>>)>
        after = [&](const program::Step& step, double, std::span<const std::span<std::byte>> m) {
          ++steps;
          EXPECT_EQ(step.uses.size(), m.size());
          return Status();
        };
    runtime::Call call;
    call.after_step = &after;
    auto result = RunLoaded(**loaded, arguments, call);
    ASSERT_TRUE(result) << result.error().ToString();
    EXPECT_GT(steps, 0u);
    for (size_t i = 0; i < result->size(); ++i) {
      ExpectSame((*result)[i], (*expected)[i], 2, name);
    }
  }
}

// A loop whose body calls a routine is no region, and one inside it is.
TEST(Program, NestedLoops) {
  Program program = FromText(R"(
program nested
buffer x: f32[2,2] parameter 0 donate
buffer y: f32[2,2] result 0 in x at 0
buffer t: f32[2,2] temp
buffer i: s32[] temp
buffer j: s32[] temp
buffer go: pred[] temp
buffer more: pred[] temp
kernel less(read i: s32[1], write go: pred[1]) {
  %0 = load s32 i[0]
  %1 = lt s32 %0, 3
  store pred go[0], %1
}
kernel next(update i: s32[1]) {
  %0 = load s32 i[0]
  %1 = add s32 %0, 1
  store s32 i[0], %1
}
kernel half(update t: f32[4]) {
  serial %k = 0..4 {
    %0 = load f32 t[%k]
    %1 = mul f32 %0, 0.5
    store f32 t[%k], %1
  }
}
steps {
  fill(write i) hex "00000000"
  while(read go) { launch less(read i, write go) } do {
    call "gemm"(read y, read y, write t) {m = 2, n = 2, k = 2}
    fill(write j) hex "00000000"
    while(read more) { launch less(read j, write more) } do {
      launch half(update t)
      launch next(update j)
    }
    copy(read t, write y)
    launch next(update i)
  }
})");
  Literal x(Shape(DType::kF32, {2, 2}));
  for (int64_t k = 0; k < 4; ++k) x.SetDouble(k, static_cast<double>(k) + 1);
  ExpectLikeInterpreter(program, {x}, 0, "nested");
}

}  // namespace
}  // namespace weft::cpu
