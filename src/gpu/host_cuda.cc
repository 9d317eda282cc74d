#include "gpu/host_cuda.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <regex>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/mutex.h"
#include "base/str.h"
#include "gpu/fake_driver.h"
#include "gpu/library_text.h"

namespace weft::gpu {
namespace {

// What NVRTC declares by itself, for the host.
constexpr std::string_view kHostPrelude = R"cuda(
#include <math.h>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>
#include <ucontext.h>
#define __device__
#define __global__
#define __host__
#define __shared__ static
#define __launch_bounds__(...)
#define alignas(n) __attribute__((aligned(n)))
#define __forceinline__ inline
struct Index3 { unsigned x = 0, y = 0, z = 0; };
static Index3 threadIdx, blockIdx, blockDim, gridDim;
static ucontext_t host_main;
struct HostFiber { ucontext_t context; std::unique_ptr<char[]> stack; bool done = false; };
static std::vector<HostFiber> host_fibers;
static unsigned host_current = 0;
static const std::function<void()>* host_body;
static void HostYield() {
  unsigned self = host_current;
  swapcontext(&host_fibers[self].context, &host_main);
  host_current = threadIdx.x = self;
}
// Fibers that meet: those that have ended are not waited for.
struct HostBarrier {
  unsigned live = 0, waiting = 0, round = 0;
  void Open() { if (waiting == live) waiting = 0, ++round; }
  void Wait() {
    unsigned mine = round;
    ++waiting;
    Open();
    while (round == mine) HostYield();
  }
  void Leave() { --live; Open(); }
};
static HostBarrier host_block, host_warps[32];
static unsigned long long host_lanes[1024];
static void __syncthreads() { host_block.Wait(); }
static void __syncwarp(unsigned = ~0u) { host_warps[threadIdx.x / 32].Wait(); }
static void HostEnter() {
  (*host_body)();
  host_fibers[host_current].done = true;
  host_warps[host_current / 32].Leave();
  host_block.Leave();
  swapcontext(&host_fibers[host_current].context, &host_main);
}
template <class T>
static T HostShuffle(T x, unsigned from) {
  std::memcpy(&host_lanes[threadIdx.x], &x, sizeof(x));
  __syncwarp();
  if (from < blockDim.x) std::memcpy(&x, &host_lanes[from], sizeof(x));
  __syncwarp();
  return x;
}
template <class T>
static T __shfl_sync(unsigned, T x, unsigned lane) {
  return HostShuffle(x, threadIdx.x / 32 * 32 + lane % 32);
}
template <class T>
static T __shfl_down_sync(unsigned, T x, unsigned down) {
  return HostShuffle(x, threadIdx.x % 32 + down < 32 ? threadIdx.x + down : threadIdx.x);
}
static unsigned __match_any_sync(unsigned, unsigned x) {
  unsigned first = threadIdx.x / 32 * 32, same = 0;
  host_lanes[threadIdx.x] = x;
  __syncwarp();
  for (unsigned lane = 0; lane < 32 && first + lane < blockDim.x; ++lane) {
    if (host_lanes[first + lane] == x) same |= 1u << lane;
  }
  __syncwarp();
  return same;
}
static void RunGrid(unsigned blocks, unsigned threads, const std::function<void()>& body) {
  constexpr size_t kStack = 64 << 10;
  host_body = &body;
  blockDim.x = threads;
  gridDim.x = blocks;
  if (host_fibers.size() < threads) host_fibers.resize(threads);
  for (unsigned b = 0; b < blocks; ++b) {
    blockIdx.x = b;
    host_block = {threads};
    for (unsigned w = 0; w * 32 < threads; ++w) {
      host_warps[w] = {threads - w * 32 < 32 ? threads - w * 32 : 32};
    }
    for (unsigned t = 0; t < threads; ++t) {
      HostFiber& fiber = host_fibers[t];
      if (!fiber.stack) fiber.stack.reset(new char[kStack]);
      getcontext(&fiber.context);
      fiber.context.uc_stack = {fiber.stack.get(), 0, kStack};
      fiber.context.uc_link = nullptr;
      makecontext(&fiber.context, HostEnter, 0);
      fiber.done = false;
    }
    for (bool any = true; any;) {
      any = false;
      for (unsigned t = 0; t < threads; ++t) {
        if (host_fibers[t].done) continue;
        host_current = t;
        threadIdx.x = t;
        swapcontext(&host_main, &host_fibers[t].context);
        any |= !host_fibers[t].done;
      }
    }
  }
}
template <class... P, size_t... I>
std::function<void()>* HostBind(void (*f)(P...), void** at, std::index_sequence<I...>) {
  std::tuple<std::decay_t<P>...> args(*static_cast<std::decay_t<P>*>(at[I])...);
  return new std::function<void()>([f, args] { std::apply(f, args); });
}
template <class... P>
std::function<void()>* HostBind(void (*f)(P...), void** at) {
  return HostBind(f, at, std::index_sequence_for<P...>());
}
extern "C" void HostRun(void* body, unsigned blocks, unsigned threads) {
  std::unique_ptr<std::function<void()>> own(static_cast<std::function<void()>*>(body));
  RunGrid(blocks, threads, *own);
}
template <class To, class From>
static To HostBits(From x) { To y; std::memcpy(&y, &x, sizeof(y)); return y; }
static float __uint_as_float(unsigned x) { return HostBits<float>(x); }
static unsigned __float_as_uint(float x) { return HostBits<unsigned>(x); }
static double __longlong_as_double(long long x) { return HostBits<double>(x); }
static long long __double_as_longlong(double x) { return HostBits<long long>(x); }
static int __popc(unsigned x) { return __builtin_popcount(x); }
static int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static int __clz(unsigned x) { return x == 0 ? 32 : __builtin_clz(x); }
static int __clzll(unsigned long long x) { return x == 0 ? 64 : __builtin_clzll(x); }
static int __float2int_rz(float x) { return int(x); }
static unsigned __float2uint_rz(float x) { return unsigned(x); }
static long long __float2ll_rz(float x) { return (long long)(x); }
static unsigned long long __float2ull_rz(float x) { return (unsigned long long)(x); }
static int __double2int_rz(double x) { return int(x); }
static unsigned __double2uint_rz(double x) { return unsigned(x); }
static long long __double2ll_rz(double x) { return (long long)(x); }
static unsigned long long __double2ull_rz(double x) { return (unsigned long long)(x); }
static float __fsqrt_rn(float x) { return std::sqrt(x); }
static double __dsqrt_rn(double x) { return std::sqrt(x); }
static float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }
static double __fma_rn(double x, double y, double z) { return std::fma(x, y, z); }
static double __dadd_rn(double x, double y) { return x + y; }
static float __fmul_rn(float x, float y) { return x * y; }
static double __dmul_rn(double x, double y) { return x * y; }
static unsigned __umulhi(unsigned a, unsigned b) { return (unsigned long long)(a) * b >> 32; }
template <class T, class X>
static T atomicAdd(T* at, X x) { T old = *at; *at += x; return old; }
template <class T, class X>
static T atomicMin(T* at, X x) { T old = *at; if (T(x) < old) *at = T(x); return old; }
template <class T, class X>
static T atomicMax(T* at, X x) { T old = *at; if (old < T(x)) *at = T(x); return old; }
template <class T, class X>
static T atomicAnd(T* at, X x) { T old = *at; *at &= T(x); return old; }
template <class T, class X>
static T atomicOr(T* at, X x) { T old = *at; *at |= T(x); return old; }
template <class T, class X>
static T atomicXor(T* at, X x) { T old = *at; *at ^= T(x); return old; }
static float rsqrtf(float x) { return float(1 / std::sqrt(double(x))); }
static double rsqrt(double x) { return 1 / std::sqrt(x); }
)cuda";

// The machine's conversions of halves.cuh, with its one NaN.
constexpr std::string_view kHostHalves = R"cuda(
static inline u16 host_bf16(f32 x) {
  u32 b = __float_as_uint(x);
  return x != x ? u16(0x7fff) : u16((b + 0x7fffu + (b >> 16 & 1)) >> 16);
}
static inline f32 host_of_f16(u16 x) {
  int exponent = x >> 10 & 31, mantissa = x & 1023;
  if (exponent == 31 && mantissa != 0) return __uint_as_float(0x7fffffffu);
  f32 size = exponent == 31   ? INFINITY
             : exponent == 0 ? std::ldexp(f32(mantissa), -24)
                             : std::ldexp(f32(mantissa | 1024), exponent - 25);
  return x >> 15 ? -size : size;
}
static inline u16 host_f16(f32 x) {
  u32 sign = __float_as_uint(x) >> 16 & 0x8000u;
  f32 size = std::fabs(x);
  if (x != x) return u16(0x7fffu);
  if (size >= 65520.0f) return u16(sign | 0x7c00u);
  int exponent = size == 0 ? -14 : std::ilogb(size) < -14 ? -14 : std::ilogb(size);
  u32 digits = u32(std::nearbyint(std::ldexp(size, 10 - exponent)));
  return u16(sign | (digits + (u32(exponent + 14) << 10)));
}
)cuda";

// matrix.cuh likewise: fragments of a warp's tiles are exchanged in memory.
constexpr std::string_view kHostMatrix = R"cuda(
static inline void CopyAsync16(void* to, const void* from) { std::memcpy(to, from, 16); }
static inline void CommitCopies() {}
static inline void WaitForCopiesBefore() {}
static u32 host_fragments[1024][6];
template <class Half>
static void MultiplyTile(Half, f32 (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  unsigned self = threadIdx.x, first = self / 32 * 32, g = self % 32 / 4, t = self % 4;
  for (int i = 0; i < 4; ++i) host_fragments[self][i] = a[i];
  for (int i = 0; i < 2; ++i) host_fragments[self][4 + i] = b[i];
  __syncwarp();
  auto number = [&](unsigned row, unsigned k, unsigned part) {
    u32 pair = host_fragments[first + row * 4 + k % 8 / 2][part];
    return Half::Decode(u16(k % 2 ? pair >> 16 : pair));
  };
  for (unsigned i = 0; i < 4; ++i) {
    for (unsigned k = 0; k < 16; ++k) {
      d[i] += number(g, k, i / 2 + k / 8 * 2) * number(2 * t + i % 2, k, 4 + k / 8);
    }
  }
  __syncwarp();
}
)cuda";

void ReplaceText(std::string& text, std::string_view from, std::string_view to) {
  if (size_t at = text.find(from); at != text.npos) text.replace(at, from.size(), to);
}

std::string HostText(std::string text) {
  if (size_t at = text.find(kHalvesText); at != text.npos) text.insert(at, kHostHalves);
  ReplaceText(text, R"(asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(x));)", "r = host_bf16(x);");
  ReplaceText(text, R"(asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x));)", "r = host_of_f16(x);");
  ReplaceText(text, R"(asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x));)", "r = host_f16(x);");
  ReplaceText(text, kMatrixText, kHostMatrix);
  ReplaceText(text,
              R"(asm("{ .reg .b32 t; not.b32 t, %1; add.s32 %0, t, 1; }" : "=r"(r) : "r"(a));)",
              "r = 0u - a;");
  ReplaceText(text, R"(asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));)",
              "r = a != a ? a : b != b ? b : a < b || std::signbit(a) ? (b < a ? b : a) : b;");
  ReplaceText(text, R"(asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));)",
              "r = a != a ? a : b != b ? b : a > b || !std::signbit(a) ? (b > a ? b : a) : b;");
  constexpr std::string_view kDynamic = "extern __shared__ __align__(128) u8 shared[];";
  while (text.contains(kDynamic)) ReplaceText(text, kDynamic, "static u8 shared[256 << 10];");
  std::string out = text;
  static const std::regex kEntry(
      R"(extern "C" __global__ void\s+(?:__launch_bounds__\([0-9, ]+\)\s*)?(\w+)\()");
  for (std::sregex_iterator it(text.begin(), text.end(), kEntry), end; it != end; ++it) {
    std::string name = (*it)[1];
    StrAppend(out, "extern \"C\" void* bind_", name, "(void** at) { return HostBind(", name,
              ", at); }\n");
  }
  return out;
}

struct HostFunction {
  void* (*bind)(void** parameters);
  void (*run)(void* body, unsigned blocks, unsigned threads);
};
struct HostLaunch {
  const HostFunction* function;
  void* body;
  unsigned blocks, threads;
};

// The one that built this, or the machine's own; empty: there is none.
const std::string& HostCompiler() {
  static const std::string compiler = [] {
    for (const char* name : {WEFT_CXX_COMPILER, "c++", "g++", "clang++"}) {
      if (std::system(StrCat("command -v ", name, " > /dev/null").c_str()) == 0) {
        return std::string(name);
      }
    }
    return std::string();
  }();
  return compiler;
}

// GCC's unique symbols are those of the first module that has them: shared memory of a template,
// static here, would be that of another kernel, of another size.
const std::string& HostFlags() {
  static const std::string flags = [] {
    std::string all = " -std=c++20 -O0 -w -ffp-contract=off -fPIC ";
    std::string unique = "-fno-gnu-unique ";
    std::string trial =
        StrCat(HostCompiler(), " ", unique, "-x c++ -fsyntax-only /dev/null 2> /dev/null");
    return std::system(trial.c_str()) == 0 ? all + unique : all;
  }();
  return flags;
}

std::string NewFolder() {
  std::string base = std::filesystem::temp_directory_path() / "weft_host_cuda_XXXXXX";
  return mkdtemp(base.data()) == nullptr ? "" : base;
}

// The prelude as a precompiled header, which takes longer to read than most kernels. Made once,
// gone with the process.
class PreludeFile {
 public:
  PreludeFile() : folder_(NewFolder()) {
    if (folder_.empty() || !WriteFile(file(), kHostPrelude)) return;
    (void)std::system(
        StrCat(HostCompiler(), HostFlags(), "-x c++-header -o ", file(), ".gch ", file()).c_str());
  }
  ~PreludeFile() {
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  }
  std::string file() const { return folder_ + "/prelude.h"; }

 private:
  const std::string folder_;
};

int LoadHostModule(void** module, const void* image) {
  static const PreludeFile prelude;
  std::string base = NewFolder();
  if (base.empty()) return 1;
  std::string text = HostText(static_cast<const char*>(image));
  if (!WriteFile(base + "/k.cc", text)) return 1;
  std::string command = StrCat(HostCompiler(), HostFlags(), "-include ", prelude.file(),
                               " -shared -Wl,-Bsymbolic -o ", base, "/k.so ", base, "/k.cc");
  int code = std::system(command.c_str());
  if (code == 0) *module = dlopen((base + "/k.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (*module == nullptr) return 1;
  return std::system(StrCat("rm -r ", base).c_str()) == 0 ? 0 : 1;
}

}  // namespace

bool HasHostCompiler() {
  return !HostCompiler().empty();
}

std::shared_ptr<const CudaDriver> MakeHostCudaDriver(int64_t bytes) {
  auto driver = std::const_pointer_cast<CudaDriver>(MakeFakeDriver(bytes));
  static const CudaDriver* base = nullptr;
  base = driver.get();
  driver->ModuleLoadData = LoadHostModule;
  driver->ModuleUnload = [](void* module) { return dlclose(module); };
  driver->ModuleGetFunction = [](void** function, void* module, const char* name) {
    auto bind = reinterpret_cast<decltype(HostFunction::bind)>(
        dlsym(module, StrCat("bind_", name).c_str()));
    auto run = reinterpret_cast<decltype(HostFunction::run)>(dlsym(module, "HostRun"));
    *function = new HostFunction{bind, run};  // as long as the process
    return bind == nullptr || run == nullptr ? 1 : 0;
  };
  driver->LaunchKernel = [](void* function, unsigned blocks, unsigned, unsigned, unsigned threads,
                            unsigned, unsigned, unsigned, void* stream, void** parameters, void**) {
    auto* host = static_cast<HostFunction*>(function);
    auto* launch = new HostLaunch{host, host->bind(parameters), blocks, threads};
    auto run = [](void* data) {
      std::unique_ptr<HostLaunch> own(static_cast<HostLaunch*>(data));
      static Mutex one;  // a block's state is static in its module, which streams share
      MutexLock lock(one);
      own->function->run(own->body, own->blocks, own->threads);
    };
    return base->LaunchHostFunc(stream, run, launch);
  };
  return driver;
}

runtime::LoadOptions HostCudaOptions() {
  // Programs show a text before they look for it.
  struct Texts : runtime::ObjectCache {
    std::string text;
    std::optional<std::string> Find(std::string_view) override { return text; }
    void Store(std::string_view, std::string_view) override {}
  };
  static Texts texts;
  runtime::LoadOptions options;
  options.cache = &texts;
  options.show = [](std::string_view, std::string_view text) { texts.text = text; };
  return options;
}

}  // namespace weft::gpu
