// Peaks of the processor and of micro-kernels whose operands stay in L1. For matrix_speed.cc.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "cpu/routines/machine.h"
#include "cpu/routines/narrow_kernels.h"
#include "cpu/routines/tiles.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace weft::cpu {
namespace {

using Clock = std::chrono::steady_clock;

double Since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Of this thread's processor: others may use the machine too.
double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Operations a second when every thread calls `work`, which does so many, for some milliseconds.
double RateOf(int threads, double operations, const std::function<void()>& work) {
  constexpr double kSeconds = 0.02;
  double best = 0;
  for (int repeat = 0; repeat < 5; ++repeat) {
    std::vector<std::thread> all;
    std::vector<double> rates(static_cast<size_t>(threads));
    std::atomic<int> ready = 0;
    for (int t = 0; t < threads; ++t) {
      all.emplace_back([&, t] {
        work();
        for (++ready; ready < threads;) {
        }
        double start = ThreadSeconds(), spent = 0;
        int64_t count = 0;
        for (; spent < kSeconds; spent = ThreadSeconds() - start) {
          for (int i = 0; i < 16; ++i, ++count) work();
        }
        rates[static_cast<size_t>(t)] = static_cast<double>(count) * operations / spent;
      });
    }
    double sum = 0;
    for (std::thread& thread : all) thread.join();
    for (double rate : rates) sum += rate;
    best = std::max(best, sum);
  }
  return best;
}

constexpr int64_t kRounds = 4096;
constexpr int kChains = 12;  // more than latency times units

// Multiply-adds that stay in registers.
#if defined(__x86_64__)
#define WEFT_CHAINS(NAME, TARGET, VECTOR, ZERO, STEP)                                            \
  __attribute__((target(TARGET))) void NAME() {                                                  \
    VECTOR s[kChains], x = ZERO, y = ZERO;                                                       \
    for (int i = 0; i < kChains; ++i) s[i] = ZERO;                                               \
    for (int64_t r = 0; r < kRounds; ++r) {                                                      \
      _Pragma("GCC unroll 12") for (int i = 0; i < kChains; ++i) STEP;                           \
      __asm__ volatile(""                                                                        \
                       : "+v"(s[0]), "+v"(s[1]), "+v"(s[2]), "+v"(s[3]), "+v"(s[4]), "+v"(s[5]), \
                         "+v"(s[6]), "+v"(s[7]), "+v"(s[8]), "+v"(s[9]), "+v"(s[10]),            \
                         "+v"(s[11]));                                                           \
    }                                                                                            \
  }
WEFT_CHAINS(FmaAvx2, "avx2,fma", __m256, _mm256_setzero_ps(), s[i] = _mm256_fmadd_ps(x, y, s[i]))
WEFT_CHAINS(FmaAvx512, "avx512f", __m512, _mm512_setzero_ps(), s[i] = _mm512_fmadd_ps(x, y, s[i]))
WEFT_CHAINS(DotVnni, "avx512f,avx512vnni", __m512i, _mm512_setzero_si512(),
            s[i] = _mm512_dpbusd_epi32(s[i], x, y))

#define WEFT_AMX_CHAINS(NAME, DOT)                                    \
  __attribute__((target("amx-tile,amx-bf16,amx-int8"))) void NAME() { \
    for (int64_t r = 0; r < kRounds / 16; ++r) {                      \
      DOT(0, 4, 6);                                                   \
      DOT(1, 4, 7);                                                   \
      DOT(2, 5, 6);                                                   \
      DOT(3, 5, 7);                                                   \
    }                                                                 \
  }
WEFT_AMX_CHAINS(ChainsAmxBf16, _tile_dpbf16ps)
WEFT_AMX_CHAINS(ChainsAmxInt8, _tile_dpbssd)
#elif defined(__aarch64__)
constexpr int kNeonChains = 24;  // four a cycle, each 4 to 5 cycles
#define WEFT_CHAINS(NAME, TARGET, VECTOR, STEP)                                                    \
  __attribute__((target(TARGET))) void NAME() {                                                    \
    VECTOR s[kNeonChains] = {};                                                                    \
    float32x4_t x = {}, y = {};                                                                    \
    __asm__ volatile("" : "+w"(x), "+w"(y));                                                       \
    for (int64_t r = 0; r < kRounds; ++r) {                                                        \
      _Pragma("GCC unroll 24") for (int i = 0; i < kNeonChains; ++i) STEP;                         \
      __asm__ volatile(""                                                                          \
                       : "+w"(s[0]), "+w"(s[1]), "+w"(s[2]), "+w"(s[3]), "+w"(s[4]), "+w"(s[5]),   \
                         "+w"(s[6]), "+w"(s[7]), "+w"(s[8]), "+w"(s[9]), "+w"(s[10]), "+w"(s[11]), \
                         "+w"(s[12]));                                                             \
      __asm__ volatile(""                                                                          \
                       : "+w"(s[13]), "+w"(s[14]), "+w"(s[15]), "+w"(s[16]), "+w"(s[17]),          \
                         "+w"(s[18]), "+w"(s[19]), "+w"(s[20]), "+w"(s[21]), "+w"(s[22]),          \
                         "+w"(s[23]));                                                             \
    }                                                                                              \
  }
WEFT_CHAINS(FmaNeon, "arch=armv8-a", float32x4_t, s[i] = vfmaq_f32(s[i], x, y))
WEFT_CHAINS(ChainsBfmmla, "arch=armv8.2-a+bf16", float32x4_t,
            s[i] = vbfmmlaq_f32(s[i], vreinterpretq_bf16_f32(x), vreinterpretq_bf16_f32(y)))
WEFT_CHAINS(ChainsSmmla, "arch=armv8.2-a+i8mm", int32x4_t,
            s[i] = vmmlaq_s32(s[i], vreinterpretq_s8_f32(x), vreinterpretq_s8_f32(y)))
#endif

struct Peak {
  std::string name;
  double one, all;
};

class Peaks {
 public:
  explicit Peaks(int threads) : threads_(threads) {}
  void Measure(const std::string& name, double operations, const std::function<void()>& work) {
    Peak peak = {name, RateOf(1, operations, work), RateOf(threads_, operations, work)};
    std::printf("peak %-28s 1 thread %9.1f G/s, %d threads %9.1f G/s\n", name.c_str(),
                peak.one / 1e9, threads_, peak.all / 1e9);
    found_[name] = peak;
  }
  const Peak* Find(const std::string& name) const {
    auto it = found_.find(name);
    return it == found_.end() ? nullptr : &it->second;
  }

 private:
  int threads_;
  std::map<std::string, Peak> found_;
};

void MeasureRegisters(Peaks& peaks) {
#if defined(__x86_64__)
  const ProcessorFeatures& f = HostFeatures();
  double vectors = static_cast<double>(kRounds * kChains);
  if (f.avx2 && !f.avx512) peaks.Measure("fma f32", vectors * 16, FmaAvx2);
  if (f.avx512) peaks.Measure("fma f32", vectors * 32, FmaAvx512);
  if (f.avx512_vnni) peaks.Measure("vnni int8", vectors * 128, DotVnni);
  double tiles = static_cast<double>(kRounds / 16 * 4);
  auto configured = [](void (*work)()) {
    return [work] {
      const NarrowKernel& amx = NarrowKernels()[0];
      amx.enter();
      work();
      amx.leave();
    };
  };
  if (f.amx_bf16) peaks.Measure("amx bf16 unit", tiles * 16384, configured(ChainsAmxBf16));
  if (f.amx_int8) peaks.Measure("amx int8 unit", tiles * 32768, configured(ChainsAmxInt8));
#elif defined(__aarch64__)
  double vectors = static_cast<double>(kRounds * kNeonChains);
  peaks.Measure("fma f32", vectors * 8, FmaNeon);
  if (HostFeatures().bf16) peaks.Measure("bfmmla unit", vectors * 32, ChainsBfmmla);
  if (HostFeatures().i8mm) peaks.Measure("i8mm unit", vectors * 64, ChainsSmmla);
#else
  (void)peaks;
#endif
}

// Micro-kernels over panels that stay in L1.
void MeasureKernels(Peaks& peaks) {
  for (const NarrowKernel& kernel : NarrowKernels()) {
    if (!kernel.is_there()) {
      std::printf("peak %-28s skipped: this processor does not have it\n",
                  std::string(kernel.name).c_str());
      continue;
    }
    int64_t k = 12 * 1024 / kernel.cols / kernel.element_bytes() / kernel.step * kernel.step;
    double operations = 2.0 * kernel.rows * kernel.cols * static_cast<double>(k) * 16;
    peaks.Measure(std::string(kernel.name), operations, [&] {
      alignas(64) static thread_local std::byte a[16 << 10], b[16 << 10], c[4096];
      if (kernel.enter != nullptr) kernel.enter();
      for (int i = 0; i < 16; ++i) kernel.run(k, a, b, c, kernel.cols, false);
      if (kernel.leave != nullptr) kernel.leave();
    });
  }
  auto tile = [&]<class T>(const char* name) {
    const TileKernel<T>& kernel = TileKernelFor<T>(1 << 12);
    int64_t k = 16 * 1024 / kernel.cols / int64_t{sizeof(T)};
    double operations = 2.0 * kernel.rows * kernel.cols * static_cast<double>(k) * 16;
    peaks.Measure(name, operations, [&] {
      alignas(64) static thread_local T a[2048], b[16384 / sizeof(T)], c[1024];
      for (int i = 0; i < 16; ++i) kernel.packed(k, a, b, c, kernel.cols, T(1), T(0));
    });
  };
  tile.operator()<float>("tile f32");
  tile.operator()<double>("tile f64");
  tile.operator()<uint32_t>("tile int32");
}

}  // namespace
}  // namespace weft::cpu
