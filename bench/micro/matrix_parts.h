// Where the time of a matrix product goes. For matrix_speed.cc.
#pragma once

#include <cstring>
#include <memory>

#include "base/storage.h"
#include "bench/micro/amx_variants.h"
#include "bench/micro/matrix_peaks.h"
#include "cpu/routines/blocking.h"
#include "cpu/routines/narrow_product.h"

namespace weft::cpu {
namespace {

const char* PeakOfInt8() {
  if (HostFeatures().i8mm) return "i8mm unit";
  return HostFeatures().amx_int8 ? "amx int8 unit" : "vnni int8";
}
const char* PeakOfBf16() {
  if (HostFeatures().bf16) return "bfmmla unit";
  return HostFeatures().amx_bf16 ? "amx bf16 unit" : "fma f32";
}

// Bytes that are neither zero nor pages of zeroes: bf16 and f32 of about 1e-2.
std::shared_ptr<std::byte[]> FilledStorage(int64_t bytes) {
  auto storage = AllocateStorage(static_cast<size_t>(bytes), /*zero=*/false);
  std::memset(storage.get(), 0x3c, static_cast<size_t>(bytes));
  return storage;
}

// One panel of b with panels of a of `rows` vectors in all: what a task does for one panel of b.
// Sums are in one tile, in tiles of their own, or in rows that lie 8 KiB apart.
enum class SumsIn : uint8_t { kOneTile, kTiles, kRowsApart };

struct Stream {
  const NarrowKernel& kernel;
  decltype(NarrowKernel::run) run;
  int64_t depth, rows;
  SumsIn sums;

  static constexpr int64_t kApart = 8192;
  int64_t a_panel() const { return NarrowPanelBytes(kernel, true, depth); }
  int64_t b_bytes() const { return (NarrowPanelBytes(kernel, false, depth) + 63) / 64 * 64; }
  int64_t count() const { return rows / kernel.rows; }
  int64_t tile() const { return int64_t{kernel.rows} * kernel.cols * 4; }
  int64_t bytes() const {
    int64_t c_bytes = sums == SumsIn::kRowsApart ? kApart * rows : tile() * count();
    return a_panel() * count() + b_bytes() + c_bytes + (64 << 10);
  }
  double operations() const {
    return 2.0 * static_cast<double>(rows) * kernel.cols * static_cast<double>(depth);
  }
  void Work(std::byte* memory) const {
    std::byte *a = memory, *b = a + a_panel() * count(), *c = b + b_bytes();
    if (kernel.enter != nullptr) kernel.enter();
    for (int64_t x = 0; x < count(); ++x) {
      bool apart = sums == SumsIn::kRowsApart;
      int64_t at = sums == SumsIn::kOneTile ? 0 : apart ? x * kernel.rows * kApart : x * tile();
      run(depth, a + x * a_panel(), b, c + at, apart ? kApart / 4 : kernel.cols, true);
    }
    if (kernel.leave != nullptr) kernel.leave();
  }
};

// What is measured in turn, many times and for a while: a processor that others use too is fast at
// some moments and slow at others, for all alike. The best and the median of each.
struct Tried {
  std::string name;
  std::function<double()> rate;  // of one short try
  std::vector<double> rates = {};

  double Best() const { return *std::max_element(rates.begin(), rates.end()); }
  double Median() {
    std::sort(rates.begin(), rates.end());
    return rates[rates.size() / 2];
  }
};
void TryInTurn(std::vector<Tried>& all, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    for (Tried& one : all) one.rate();
    for (Tried& one : all) one.rates.push_back(one.rate());
  }
}

// Operations a second on so many threads for about a millisecond, each with memory of its own.
double ShortRate(ThreadPool& pool, double operations, const std::function<void(int64_t)>& work) {
  constexpr double kSeconds = 1e-3;
  std::atomic<int64_t> done = 0;
  int threads = pool.threads();
  auto start = Clock::now();
  pool.ParallelFor(threads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      int64_t count = 0;
      for (auto mine = Clock::now(); Since(mine) < kSeconds; ++count) work(t);
      done += count;
    }
  });
  return static_cast<double>(done) * operations / Since(start);
}

void MeasureStreams(const Peaks&, int threads) {
  const NarrowKernel* found = FindNarrowKernel(DType::kBF16, DType::kBF16);
  if (found == nullptr) found = FindNarrowKernel(DType::kS8, DType::kS8);
  if (found == nullptr) {
    std::printf("stream skipped: this processor has no kernel for narrow elements\n");
    return;
  }
  const NarrowKernel& kernel = *found;
  for (int count : {1, threads}) {
    ThreadPool pool(count);
    std::vector<Stream> streams;
    std::vector<std::string> names;
    auto add = [&](std::string name, decltype(NarrowKernel::run) run, int64_t bytes, SumsIn sums) {
      streams.push_back({kernel, run, bytes / kernel.element_bytes(), 256, sums});
      names.push_back(StrCat(name, ", ", bytes, " bytes deep, sums in ",
                             sums == SumsIn::kOneTile ? "one tile"
                             : sums == SumsIn::kTiles ? "tiles"
                                                      : "rows apart"));
    };
    for (int64_t bytes : {256, 512, 1024}) {
      for (SumsIn sums : {SumsIn::kOneTile, SumsIn::kTiles, SumsIn::kRowsApart}) {
        add("as products", kernel.run, bytes, sums);
      }
      for (const AmxVariant& variant : kAmxVariants) {
        if (HostFeatures().amx_bf16) add(variant.name, variant.run, bytes, SumsIn::kTiles);
      }
    }
    int64_t most = 0;
    for (const Stream& stream : streams) most = std::max(most, stream.bytes());
    std::vector<std::shared_ptr<std::byte[]>> memory;
    for (int t = 0; t < count; ++t) memory.push_back(FilledStorage(most));
    std::vector<Tried> tried;
#if defined(__x86_64__)
    if (HostFeatures().amx_bf16) {
      tried.push_back({"the unit itself", [&] {
                         double tiles = static_cast<double>(kRounds / 16 * 4) * 16384;
                         return ShortRate(pool, tiles, [&](int64_t) {
                           kernel.enter();
                           ChainsAmxBf16();
                           kernel.leave();
                         });
                       }});
    }
#endif
    for (size_t i = 0; i < streams.size(); ++i) {
      tried.push_back({names[i], [&, i] {
                         return ShortRate(pool, streams[i].operations(), [&](int64_t t) {
                           streams[i].Work(memory[static_cast<size_t>(t)].get());
                         });
                       }});
    }
    TryInTurn(tried, 60);
    for (Tried& one : tried) {
      std::printf("stream %s %2d threads %-52s best %9.1f G/s median %9.1f G/s\n",
                  std::string(kernel.name).c_str(), count, one.name.c_str(), one.Best() / 1e9,
                  one.Median() / 1e9);
    }
    std::fflush(stdout);
  }
}

struct PartsCase {
  DType in;
  int64_t n;
};
struct PartsTrial {
  const char* name;
  int64_t depth_bytes, side;  // 0: as ever
  bool in_place;
};

// Products of n x n matrices by the driver, measured from within, several ways to cut in turn.
template <class T>
void TimeParts(const PartsCase& s, int threads, double peak, std::span<const PartsTrial> trials) {
  struct Best {
    double seconds = 1e9;
    int64_t parts[4] = {};
    std::vector<double> all;
  };
  int64_t width = ByteWidth(s.in), size = s.n * s.n;
  auto a = FilledStorage(size * width), b = FilledStorage(size * width);
  auto c = FilledStorage(size * int64_t{sizeof(T)});
  int64_t room_bytes = 16 * size + (64 << 20);
  auto room = FilledStorage(room_bytes);
  ScratchRoom scratch({room.get(), static_cast<size_t>(room_bytes)});
  ThreadPool pool(threads);
  ResultMatrix result = {std::is_same_v<T, float> ? DType::kF32 : DType::kU32, c.get(), s.n};
  const NarrowKernel* kernel = FindNarrowKernel(s.in, s.in);
  std::vector<Best> best(trials.size());
  auto began = Clock::now();
  for (int round = 0; round < 40 && (round < 4 || Since(began) < 1.0); ++round) {
    for (size_t i = 0; i < trials.size(); ++i) {
      ProductTrial trial;
      trial.depth = trials[i].depth_bytes / width;
      trial.task_rows = trial.task_cols = trials[i].side;
      trial.in_place = trials[i].in_place;
      Means means = {&pool, &scratch, &trial};
      auto start = Clock::now();
      Status status;
      if (kernel != nullptr) {
        NarrowProduct<T> product(*kernel, {s.in, a.get(), s.n, 1}, {s.in, b.get(), 1, s.n});
        status = MultiplyPacked<T>(means, {s.n, s.n, s.n}, product, result, T(1), T(0));
      } else {
        StridedPanels<T> left(s.in, a.get(), s.n, 1), right(s.in, b.get(), 1, s.n);
        status = Multiply<T>(means, {s.n, s.n, s.n}, left, right, result, T(1), T(0));
      }
      if (!status) return;
      double time = Since(start);
      best[i].all.push_back(time);
      if (time >= best[i].seconds) continue;
      best[i].seconds = time;
      int64_t parts[] = {trial.pack_wall, trial.pack_busy, trial.task_wall, trial.task_busy};
      std::copy(parts, parts + 4, best[i].parts);
    }
  }
  double operations = 2.0 * static_cast<double>(size) * static_cast<double>(s.n);
  for (size_t i = 0; i < trials.size(); ++i) {
    Best& one = best[i];
    std::sort(one.all.begin(), one.all.end());
    double median = one.all[one.all.size() / 2];
    auto ms = [&](int part) { return 1e-6 * static_cast<double>(one.parts[part]); };
    auto wait = [&](int part) { return 100 - 100 * ms(part + 1) / (ms(part) * threads + 1e-9); };
    std::printf(
        "parts %-4s %4ld^3 %2d threads %-26s best %8.3f ms %5.1f %%, median %5.1f %% of peak; "
        "packing %6.3f ms (wait %2.0f %%), tasks %7.3f ms (wait %2.0f %%)\n",
        std::string(Name(s.in)).c_str(), s.n, threads, trials[i].name, one.seconds * 1e3,
        100 * operations / one.seconds / peak, 100 * operations / median / peak, ms(0), wait(0),
        ms(2), wait(2));
  }
  std::fflush(stdout);
}

void MeasureParts(const Peaks& peaks, int threads) {
  constexpr PartsTrial kTrials[] = {{"as ever", 0, 0, false},
                                    {"sums in the result", 0, 0, true},
                                    {"depth 1024 bytes", 1024, 0, false},
                                    {"the same, in the result", 1024, 352, true},
                                    {"tasks of 128", 0, 128, false},
                                    {"tasks of 512", 0, 512, false}};
  std::vector<int> counts = {1};
  if (threads > 2) counts.push_back(2);
  if (threads > 1) counts.push_back(threads);
  for (DType in : {DType::kF32, DType::kBF16, DType::kS8}) {
    const char* name = in == DType::kF32  ? "fma f32"
                       : in == DType::kS8 ? PeakOfInt8()
                                          : PeakOfBf16();
    const Peak* peak = peaks.Find(name);
    for (int64_t n : {1024, 2048, 4096}) {
      for (int count : counts) {
        if (n == 4096 && (count < threads || in == DType::kF32)) continue;
        if (n == 1024 && count == 2) continue;
        double most = peak == nullptr ? 1 : count == threads ? peak->all : peak->one * count;
        if (in == DType::kS8) {
          TimeParts<uint32_t>({in, n}, count, most, kTrials);
        } else {
          TimeParts<float>({in, n}, count, most, kTrials);
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft::cpu
