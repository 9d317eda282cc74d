// Long runs through the C interface alone: memory must stay flat, nothing may race (preset tsan),
// and every client must go, whatever is in flight.
//   pjrt_stress [--cycles N] [--clients N] [--rounds N] [--endless N]
// cycles: compile, execute, destroy; clients: create, use, destroy; rounds: of all threads at once;
// endless: iterations of loops that are under way when their client goes. Kernels of a GPU cannot
// be cancelled: there so many as take a moment.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/str.h"
#include "pjrt/api.h"
#include "pjrt/ffi/ffi.h"
#include "pjrt/stress_client.h"

namespace weft::pjrt {
namespace {

// x + b, `steps` times; in a loop when there is more than one, and then on the executor. x may be
// donated.
std::string StepProgram(int64_t steps, bool donate, int64_t salt = 0) {
  std::string text = StrCat(
      "module @step_", salt, " {\n  func.func public @main(%x: tensor<64xf32>",
      donate ? " {jax.buffer_donor = true}" : "", ", %b: tensor<64xf32>) -> tensor<64xf32> {\n");
  if (steps == 1) {
    StrAppend(text, "    %r = stablehlo.add %x, %b : tensor<64xf32>\n",
              "    return %r : tensor<64xf32>\n  }\n}\n");
    return text;
  }
  StrAppend(text, "    %zero = stablehlo.constant dense<0> : tensor<i32>\n",
            "    %one = stablehlo.constant dense<1> : tensor<i32>\n",
            "    %n = stablehlo.constant dense<", steps, "> : tensor<i32>\n",
            R"(    %w:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<64xf32>
     cond {
      %less = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %less : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<i32>
      %z = stablehlo.add %y, %b : tensor<64xf32>
      stablehlo.return %j, %z : tensor<i32>, tensor<64xf32>
    }
    return %w#1 : tensor<64xf32>
  }
}
)");
  return text;
}

// x + b by way of the host.
constexpr char kCallbackProgram[] = R"(module @callback {
  func.func public @main(%x: tensor<64xf32>, %b: tensor<64xf32>) -> tensor<64xf32> {
    %r = stablehlo.custom_call @weft_python_callback(%x, %b) {api_version = 4 : i32, backend_config = {id = 1 : ui64}} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    return %r : tensor<64xf32>
  }
})";
constexpr int64_t kEndless = 2'000'000'000;
int64_t& Endless() {
  static int64_t iterations = kEndless;
  return iterations;
}

// What a host callback calls: programs may run programs.
struct Nested {
  std::atomic<PJRT_Client*> client = nullptr;
  std::atomic<PJRT_LoadedExecutable*> step = nullptr;
};
Nested& TheNested() {
  static Nested nested;
  return nested;
}
int32_t HostAdd(uint64_t, int32_t, const CallbackArray* arguments, int32_t,
                const CallbackArray* results, char*, int64_t) {
  const auto* x = static_cast<const float*>(arguments[0].data);
  const auto* b = static_cast<const float*>(arguments[1].data);
  auto* out = static_cast<float*>(results[0].data);
  std::vector<float> sum(64);
  if (PJRT_Client* client = TheNested().client; client != nullptr) {
    PJRT_Buffer* left = PutFloats(client, std::vector<float>(x, x + 64));
    PJRT_Buffer* right = PutFloats(client, std::vector<float>(b, b + 64));
    PJRT_Buffer* result = TryExecute(TheNested().step, {left, right});
    CHECK(result != nullptr && GetFloats(result, sum) == 0);
    for (PJRT_Buffer* buffer : {left, right, result}) DestroyBuffer(buffer);
  } else {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (int i = 0; i < 64; ++i) sum[i] = x[i] + b[i];
  }
  std::memcpy(out, sum.data(), sizeof(float) * 64);
  return 0;
}

double ResidentMb() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  long total = 0, resident = 0;
  if (file == nullptr || std::fscanf(file, "%ld %ld", &total, &resident) != 2) resident = 0;
  if (file != nullptr) std::fclose(file);
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

// Runs fn(i) for all i; memory must not grow after the first fifth by more than this.
template <class Fn>
bool StaysFlat(const char* what, int64_t count, Fn&& fn) {
  constexpr double kAllowedMb = 4;
  double before = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (i == count / 5) before = ResidentMb();
    fn(i);
  }
  const double after = ResidentMb();
  std::printf("%s: %lld, resident %.1f MB after a fifth, %.1f MB at the end\n", what,
              static_cast<long long>(count), before, after);
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  return true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
  return true;
#endif
#endif
  if (after - before <= kAllowedMb) return true;
  std::printf("%s: memory grew by more than %.0f MB\n", what, kAllowedMb);
  return false;
}

void CompileCycle(PJRT_Client* client, int64_t i) {
  PJRT_LoadedExecutable* executable = nullptr;
  if (i % 8 == 7) {  // what does not compile leaves nothing behind
    std::string wrong = StepProgram(3, false, i);
    wrong.resize(wrong.size() * static_cast<size_t>(i % 97) / 97);
    CHECK(TryCompile(client, wrong, &executable) != 0);
  }
  const int64_t steps = i % 3 + 1;
  executable = CompileMlir(client, StepProgram(steps, i % 2 == 0, i));
  PJRT_Buffer* x = PutFloats(client, std::vector<float>(64, 1));
  PJRT_Buffer* b = PutFloats(client, std::vector<float>(64, 2));
  PJRT_Event* done = nullptr;
  PJRT_Buffer* result = TryExecute(executable, {x, b}, &done);
  CHECK(result != nullptr);
  std::vector<float> out(64);
  CHECK(GetFloats(result, out) == 0 && out[63] == static_cast<float>(1 + 2 * steps));
  CHECK(AwaitAndDestroy(done) == 0);
  CHECK((TryExecute(executable, {b}) == nullptr));  // too few arguments
  for (PJRT_Buffer* buffer : {x, b, result}) DestroyBuffer(buffer);
  DestroyExecutable(executable);
}

// In flight when the client goes: nothing, a chain of programs, an endless loop, a callback.
void ClientCycle(int64_t i) {
  PJRT_Client* client = Open(1 + i % 3, 1 + i % 2);
  std::vector<PJRT_LoadedExecutable*> programs = {CompileMlir(client, StepProgram(100, true))};
  PJRT_Buffer* b = PutFloats(client, std::vector<float>(64, 1));
  std::vector<PJRT_Buffer*> chain = {PutFloats(client, std::vector<float>(64, 0))};
  if (i % 4 == 2) {
    programs.push_back(CompileMlir(client, StepProgram(Endless(), false)));
    chain.push_back(TryExecute(programs[1], {chain.back(), b}));
  } else if (i % 4 == 3) {
    programs.push_back(CompileMlir(client, kCallbackProgram));
    chain.push_back(TryExecute(programs[1], {chain.back(), b}));
  }
  for (int k = 0; k < 20; ++k) chain.push_back(TryExecute(programs[0], {chain.back(), b}));
  for (PJRT_Buffer* buffer : chain) CHECK(buffer != nullptr);
  if (i % 4 == 0) {
    std::vector<float> out(64);
    CHECK(GetFloats(chain.back(), out) == 0 && out[0] == 2000);
  }
  for (PJRT_Buffer* buffer : chain) DestroyBuffer(buffer);
  DestroyBuffer(b);
  for (PJRT_LoadedExecutable* program : programs) DestroyExecutable(program);
  Close(client);
}

// A chain that is all pending when the client goes: it is answered, on whatever stack there is.
void LongChain(int64_t length) {
  PJRT_Client* client = Open(1, 2);
  PJRT_LoadedExecutable* endless = CompileMlir(client, StepProgram(Endless(), false));
  PJRT_LoadedExecutable* step = CompileMlir(client, StepProgram(2, true));
  PJRT_Buffer* b = PutFloats(client, std::vector<float>(64, 1));
  PJRT_Buffer* x = TryExecute(endless, {b, b});
  for (int64_t i = 0; i < length; ++i) {
    PJRT_Buffer* next = i % 8 == 0 ? CopyBuffer(x, DeviceOf(client)) : TryExecute(step, {x, b});
    CHECK(next != nullptr);
    DestroyBuffer(x);
    x = next;
  }
  PJRT_Event* ready = nullptr;
  auto args = NewArgs<PJRT_Buffer_ReadyEvent_Args>();
  args.buffer = x;
  PJRT_OK(Buffer_ReadyEvent, args);
  ready = args.event;
  for (PJRT_Buffer* buffer : {x, b}) DestroyBuffer(buffer);
  for (PJRT_LoadedExecutable* program : {endless, step}) DestroyExecutable(program);
  Close(client);
  const int code = AwaitAndDestroy(ready);
  CHECK(code == static_cast<int>(Code::kCancelled) || (code == 0 && Endless() < kEndless));
}

// One thread's share of a round: everything that may go on at once, on buffers that all share.
void ThreadRound(PJRT_Client* client, PJRT_LoadedExecutable* const (&programs)[4],
                 PJRT_Buffer* shared, PJRT_Buffer* victim, int seed) {
  PJRT_Buffer* x = PutFloats(client, std::vector<float>(64, 0));
  std::vector<PJRT_Buffer*> copies;
  float expected = 0;
  for (int i = 0; i < 12; ++i) {
    const int kind = (i + seed) % 4;
    PJRT_Buffer* next = TryExecute(programs[kind], {x, shared});
    CHECK(next != nullptr);
    DestroyBuffer(x);
    x = next;
    expected += kind == 1 ? 50 : 1;
    if (i % 3 == 0) copies.push_back(CopyBuffer(x, DeviceOf(client)));
    if (i == 5) DeleteBuffer(victim);  // all threads do, and use it
    if (PJRT_Buffer* late = TryExecute(programs[3], {x, victim}); late != nullptr) {
      copies.push_back(late);
    }
    if (i == 8) {
      std::vector<float> read(64);
      CHECK(GetFloats(x, read) == 0 && read[7] == expected);
    }
  }
  PJRT_LoadedExecutable* fresh = CompileMlir(client, StepProgram(2, seed % 2 == 0, seed));
  PJRT_Buffer* last = TryExecute(fresh, {x, shared});
  DestroyExecutable(fresh);
  std::vector<float> out(64);
  CHECK(last != nullptr && GetFloats(last, out) == 0 && out[63] == expected + 2) << out[63];
  for (PJRT_Buffer* copy : copies) {
    if (copy != nullptr) DestroyBuffer(copy);
  }
  for (PJRT_Buffer* buffer : {x, last}) DestroyBuffer(buffer);
}

void ThreadsAtOnce(int64_t rounds) {
  PJRT_Client* client = Open(1, 3);
  PJRT_LoadedExecutable* const programs[4] = {
      CompileMlir(client, StepProgram(1, true)), CompileMlir(client, StepProgram(50, true)),
      CompileMlir(client, kCallbackProgram), CompileMlir(client, StepProgram(1, false))};
  TheNested().step = CompileMlir(client, StepProgram(1, false, 1));
  TheNested().client = client;
  PJRT_Buffer* shared = PutFloats(client, std::vector<float>(64, 1));
  for (int64_t round = 0; round < rounds; ++round) {
    PJRT_Buffer* victim = PutFloats(client, std::vector<float>(64, 1));
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] { ThreadRound(client, programs, shared, victim, t); });
    }
    for (std::thread& thread : threads) thread.join();
    DestroyBuffer(victim);
  }
  TheNested().client = nullptr;
  DestroyBuffer(shared);
  DestroyExecutable(TheNested().step);
  for (PJRT_LoadedExecutable* program : programs) DestroyExecutable(program);
  // Clients come and go on several threads.
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([=] {
      for (int64_t i = 0; i < rounds; ++i) ClientCycle(i + t);
    });
  }
  for (std::thread& thread : threads) thread.join();
  Close(client);
  std::printf("threads: %lld rounds of 4\n", static_cast<long long>(rounds));
}

int Main(int argc, char** argv) {
  int64_t cycles = 300, clients = 40, rounds = 10;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const int64_t value = ParseInt(argv[i + 1]).value_or(0);
    (name == "--cycles"    ? cycles
     : name == "--clients" ? clients
     : name == "--endless" ? Endless()
                           : rounds) = value;
  }
  setenv("WEFT_CACHE", "0", 1);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  SetCallbackTrampoline(HostAdd);
  PJRT_Client* client = Open(1, 2);
  bool flat = StaysFlat("compile cycles", cycles, [&](int64_t i) { CompileCycle(client, i); });
  Close(client);
  flat &= StaysFlat("client cycles", clients, ClientCycle);
  if (rounds > 0) ThreadsAtOnce(rounds);
  LongChain(rounds * 2000);
  std::printf("long chain: %lld programs pending at the end of their client\n",
              static_cast<long long>(rounds * 2000));
  return flat ? 0 : 1;
}

}  // namespace
}  // namespace weft::pjrt

int main(int argc, char** argv) {
  return weft::pjrt::Main(argc, argv);
}
