// Where the time of a matrix product goes. For matrix_speed.cc.
#pragma once

#include <memory>

#include "base/storage.h"
#include "bench/micro/matrix_peaks.h"
#include "cpu/routines/blocking.h"
#include "cpu/routines/narrow_product.h"

namespace weft::cpu {
namespace {

const char* PeakOfInt8() {
  return HostFeatures().amx_int8 ? "amx int8 unit" : "vnni int8";
}
const char* PeakOfBf16() {
  return HostFeatures().amx_bf16 ? "amx bf16 unit" : "fma f32";
}

// Memory of a thread, so that each has its own in its caches.
struct StreamMemory {
  explicit StreamMemory(int64_t bytes)
      : storage(AllocateStorage(static_cast<size_t>(bytes), /*zero=*/true)) {}
  std::shared_ptr<std::byte[]> storage;
};

// One panel of b with panels of a of `rows` vectors in all, sums in tiles of their own or in rows
// that lie 8 KiB apart: what a task does for one panel of b.
enum class SumsIn : uint8_t { kOneTile, kTiles, kRowsApart };

double StreamRate(int threads, const NarrowKernel& kernel, int64_t depth, int64_t rows,
                  SumsIn sums) {
  int64_t a_panel = NarrowPanelBytes(kernel, true, depth), count = rows / kernel.rows;
  int64_t tile = int64_t{kernel.rows} * kernel.cols * 4, apart = 8192;
  int64_t c_bytes = sums == SumsIn::kRowsApart ? apart * rows : tile * count;
  int64_t b_bytes = NarrowPanelBytes(kernel, false, depth);
  double operations = 2.0 * static_cast<double>(rows) * kernel.cols * static_cast<double>(depth);
  return RateOf(threads, operations, [&, a_panel, count] {
    static thread_local std::unique_ptr<StreamMemory> memory;
    static thread_local int64_t had = 0;
    int64_t bytes = a_panel * count + b_bytes + c_bytes + (64 << 10);
    if (memory == nullptr || had < bytes) {
      memory = std::make_unique<StreamMemory>(bytes);
      had = bytes;
    }
    std::byte *a = memory->storage.get(), *b = a + a_panel * count,
              *c = b + (b_bytes + 63) / 64 * 64;
    if (kernel.enter != nullptr) kernel.enter();
    for (int64_t x = 0; x < count; ++x) {
      std::byte* to = sums == SumsIn::kOneTile ? c
                      : sums == SumsIn::kTiles ? c + x * tile
                                               : c + x * kernel.rows * apart;
      kernel.run(depth, a + x * a_panel, b, to,
                 sums == SumsIn::kRowsApart ? apart / 4 : kernel.cols, true);
    }
    if (kernel.leave != nullptr) kernel.leave();
  });
}

void MeasureStreams(const Peaks& peaks, int threads) {
  struct Choice {
    const char* name;
    const NarrowKernel* kernel;
    const char* peak;
  };
  std::vector<Choice> choices;
  for (const detail::AmxVariant& variant : detail::AmxVariants()) {
    if (!HostFeatures().amx_bf16) continue;
    choices.push_back({variant.name.data(), &variant.kernels[0], PeakOfBf16()});
  }
  for (const detail::AmxVariant& variant : detail::AmxVariants()) {
    if (!HostFeatures().amx_int8) continue;
    choices.push_back({variant.name.data(), &variant.kernels[1], PeakOfInt8()});
  }
  const NarrowKernel* any = FindNarrowKernel(DType::kS8, DType::kS8);
  if (choices.empty() && any != nullptr) {
    choices.push_back({any->name.data(), any, PeakOfInt8()});
  }
  for (const Choice& choice : choices) {
    const NarrowKernel& kernel = *choice.kernel;
    const Peak* peak = peaks.Find(choice.peak);
    for (int64_t bytes : {256, 512, 640, 1024, 2048}) {  // of a vector in a panel
      int64_t depth = bytes / kernel.element_bytes();
      for (SumsIn sums : {SumsIn::kOneTile, SumsIn::kTiles, SumsIn::kRowsApart}) {
        double one = StreamRate(1, kernel, depth, 512, sums);
        double all = sums == SumsIn::kTiles ? StreamRate(threads, kernel, depth, 512, sums) : 0;
        std::printf("stream %-12s depth %4ld sums in %-10s %5.1f %% of %s, %d threads %5.1f %%\n",
                    choice.name, depth,
                    sums == SumsIn::kOneTile ? "one tile"
                    : sums == SumsIn::kTiles ? "tiles"
                                             : "rows apart",
                    peak != nullptr ? 100 * one / peak->one : 0.0, choice.peak, threads,
                    peak != nullptr ? 100 * all / peak->all : 0.0);
        std::fflush(stdout);
      }
    }
  }
}

struct PartsCase {
  DType in;
  int64_t n;
  int64_t depth, side;  // 0: as ever
};

// A product of n x n matrices by the driver, measured from within.
template <class T>
void TimeParts(const PartsCase& s, int threads, double peak) {
  int64_t width = ByteWidth(s.in), size = s.n * s.n;
  auto a = AllocateStorage(static_cast<size_t>(size * width), true);
  auto b = AllocateStorage(static_cast<size_t>(size * width), true);
  auto c = AllocateStorage(static_cast<size_t>(size) * sizeof(T), true);
  ThreadPool pool(threads);
  DType out = std::is_same_v<T, float> ? DType::kF32 : DType::kU32;
  ResultMatrix result = {out, c.get(), s.n};
  const NarrowKernel* kernel = FindNarrowKernel(s.in, s.in);
  auto room = AllocateStorage(static_cast<size_t>(4 * size * 4 + (64 << 20)), true);
  ScratchRoom scratch({room.get(), static_cast<size_t>(4 * size * 4 + (64 << 20))});
  double best = 1e9, spent = 0;
  int64_t parts[4] = {};
  for (int i = 0; i < 100 && (spent < 0.25 || i < 3); ++i) {
    ProductTrial trial;
    trial.depth = s.depth;
    trial.task_rows = trial.task_cols = s.side;
    Means means = {&pool, &scratch, &trial};
    auto start = Clock::now();
    if (kernel != nullptr) {
      NarrowProduct<T> product(*kernel, {s.in, a.get(), s.n, 1}, {s.in, b.get(), 1, s.n});
      if (!MultiplyPacked<T>(means, {s.n, s.n, s.n}, product, result, T(1), T(0))) return;
    } else {
      StridedPanels<T> left(s.in, a.get(), s.n, 1), right(s.in, b.get(), 1, s.n);
      if (!Multiply<T>(means, {s.n, s.n, s.n}, left, right, result, T(1), T(0))) return;
    }
    double time = Since(start);
    spent += time;
    if (time >= best) continue;
    best = time;
    parts[0] = trial.pack_wall;
    parts[1] = trial.pack_busy;
    parts[2] = trial.task_wall;
    parts[3] = trial.task_busy;
  }
  auto ms = [&](int64_t ns) { return 1e-6 * static_cast<double>(ns); };
  double n = static_cast<double>(s.n), rate = 2 * n * n * n / best;
  double in_tasks = 2 * n * n * n / (1e-9 * static_cast<double>(parts[3]) / threads);
  std::printf(
      "parts %-4s %4ld^3 %2d threads depth %4ld tasks of %4ld: %8.3f ms %5.1f %% of peak; packing "
      "%7.3f "
      "ms (threads wait %4.1f %%), tasks %7.3f ms (wait %4.1f %%), %5.1f %% of peak while they "
      "run\n",
      std::string(Name(s.in)).c_str(), s.n, threads, s.depth, s.side, best * 1e3, 100 * rate / peak,
      ms(parts[0]), 100 - 100.0 * ms(parts[1]) / (ms(parts[0]) * threads + 1e-9), ms(parts[2]),
      100 - 100.0 * ms(parts[3]) / (ms(parts[2]) * threads + 1e-9), 100 * in_tasks / peak);
  std::fflush(stdout);
}

void MeasureParts(const Peaks& peaks, int threads) {
  std::vector<PartsCase> cases;
  for (DType in : {DType::kF32, DType::kBF16, DType::kS8}) {
    for (int64_t n : {1024, 2048, 4096}) {
      if (n == 4096 && in == DType::kF32) continue;
      cases.push_back({in, n, 0, 0});
      if (n == 1024) continue;
      int64_t unit = in == DType::kS8 ? 2 : in == DType::kBF16 ? 1 : 0;
      if (unit == 0) {
        for (int64_t depth : {96, 160, 256}) cases.push_back({in, n, depth, 0});
      } else {
        for (int64_t depth : {128, 512}) cases.push_back({in, n, depth * unit, 0});
      }
      for (int64_t side : {256, 512}) cases.push_back({in, n, 0, side});
    }
  }
  std::vector<int> counts = {1};
  if (threads > 2) counts.push_back(2);
  if (threads > 1) counts.push_back(threads);
  for (const PartsCase& s : cases) {
    const char* name = s.in == DType::kF32  ? "fma f32"
                       : s.in == DType::kS8 ? PeakOfInt8()
                                            : PeakOfBf16();
    const Peak* peak = peaks.Find(name);
    for (int count : counts) {
      if (s.n == 4096 && count < threads) continue;
      double most = peak == nullptr ? 1 : count == threads ? peak->all : peak->one * count;
      if (s.in == DType::kS8) {
        TimeParts<uint32_t>(s, count, most);
      } else {
        TimeParts<float>(s, count, most);
      }
    }
  }
}

}  // namespace
}  // namespace weft::cpu
