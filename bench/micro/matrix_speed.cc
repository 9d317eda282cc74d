// Peaks of the processor and of every micro-kernel, then whole products as a part of them:
// matrix_speed [--peaks | --streams | --parts | --quick] [threads]. One thread and all of them; the
// best of several runs. --streams: micro-kernels as tasks run them, a from L2, b from L1, by depth
// and by variant, in turn. --parts: where the time of a product goes, for several ways to cut it,
// in turn. --quick: few products.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bench/micro/matrix_parts.h"
#include "bench/micro/matrix_peaks.h"
#include "cpu/routines/routine.h"
#include "program/builder.h"

namespace weft::cpu {
namespace {

struct SpeedCase {
  DType in, out;
  int64_t m, n, k;
  bool trans_b;
  const char* peak;  // which it is a part of
};

// Seconds of a gemm with such operands.
double TimeGemm(const SpeedCase& s, int threads) {
  program::Program p;
  p.name = "speed";
  std::vector<Literal> data = {Literal(Shape(s.in, {s.m, s.k})), Literal(Shape(s.in, {s.k, s.n})),
                               Literal(Shape(s.out, {s.m, s.n}))};
  std::vector<program::Use> uses;
  for (int64_t i = 0; i < 3; ++i) {
    auto kind = i < 2 ? program::BufferKind::kParameter : program::BufferKind::kResult;
    auto id =
        program::AddBuffer(p, StrCat("b", i), data[static_cast<size_t>(i)].shape(), kind, i % 2);
    uses.push_back(i < 2 ? program::In(p, id) : program::Out(p, id));
  }
  program::LibraryStep call = {
      "gemm", {{"m", s.m}, {"n", s.n}, {"k", s.k}, {"trans_b", s.trans_b}}, false};
  p.steps.push_back(program::MakeStep(call, std::move(uses)));
  auto prepared = FindRoutine("gemm")->prepare({p, p.steps[0], {}});
  if (!prepared) return 1e9;
  std::vector<std::byte*> memory;
  for (Literal& literal : data) {
    std::memset(literal.mutable_data(), 1, static_cast<size_t>(literal.byte_size()));
    memory.push_back(literal.mutable_data());
  }
  std::vector<std::byte> room(static_cast<size_t>((*prepared)->ScratchBytes(threads)) + 4096);
  auto address = reinterpret_cast<uintptr_t>(room.data());
  size_t skip = (4096 - address % 4096) % 4096;
  ScratchRoom scratch({room.data() + skip, (room.size() - skip) / 4096 * 4096});
  ThreadPool pool(threads);
  double best = 1e9, spent = 0;
  for (int i = 0; i < 400 && (spent < 0.3 || i < 3); ++i) {
    auto start = Clock::now();
    double begin = ThreadSeconds();
    if (!(*prepared)->Run({pool, memory, &scratch})) return 1e9;
    double time = threads == 1 ? ThreadSeconds() - begin : Since(start);
    best = std::min(best, time);
    spent += time;
  }
  return best;
}

void MeasureProducts(const Peaks& peaks, int threads, bool quick) {
  std::vector<SpeedCase> cases;
  struct Kind {
    DType in, out;
    const char* peak;
  };
  for (auto [in, out, peak] :
       {Kind{DType::kF32, DType::kF32, "fma f32"}, Kind{DType::kF64, DType::kF64, "tile f64"},
        Kind{DType::kBF16, DType::kF32, PeakOfBf16()},
        Kind{DType::kBF16, DType::kBF16, PeakOfBf16()},
        Kind{DType::kS8, DType::kS32, PeakOfInt8()}}) {
    for (int64_t n : {128, 256, 512, 1024, 2048, 4096}) {
      if (quick && n < 1024) continue;
      if (n == 4096 && in != DType::kBF16 && in != DType::kS8) continue;
      cases.push_back({in, out, n, n, n, false, peak});
    }
    if (quick && in == DType::kF64) continue;
    cases.push_back({in, out, 16, 4096, 4096, false, peak});
    cases.push_back({in, out, 16, 4096, 4096, true, peak});
    cases.push_back({in, out, 64, 4096, 4096, false, peak});
    cases.push_back({in, out, 512, 4096, 4096, false, peak});
    cases.push_back({in, out, 4096, 4096, 16, false, peak});
  }
  for (const SpeedCase& s : cases) {
    std::vector<int> counts = {1};
    if (threads > 2) counts.push_back(2);
    if (threads > 1) counts.push_back(threads);
    for (int count : counts) {
      double seconds = TimeGemm(s, count);
      double rate = 2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) *
                    static_cast<double>(s.k) / seconds;
      const Peak* peak = peaks.Find(s.peak);
      double most = peak == nullptr ? 0 : count == threads ? peak->all : peak->one * count;
      std::printf(
          "gemm %-5s -> %-5s %5ld x %5ld x %5ld%s %2d threads %9.3f ms %9.1f G/s %5.1f %% of %s\n",
          std::string(Name(s.in)).c_str(), std::string(Name(s.out)).c_str(), s.m, s.n, s.k,
          s.trans_b ? " t" : "  ", count, seconds * 1e3, rate / 1e9,
          most > 0 ? 100 * rate / most : 0.0, s.peak);
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace weft::cpu

int main(int argc, char** argv) {
  std::string what;
  int threads = weft::AvailableCores();
  for (int i = 1; i < argc; ++i) {
    if (argv[i][0] == '-') {
      what = argv[i];
    } else {
      threads = std::max(1, std::atoi(argv[i]));
    }
  }
  weft::cpu::Peaks peaks(threads);
  weft::cpu::MeasureRegisters(peaks);
  if (what == "--streams") {
    weft::cpu::MeasureStreams(peaks, threads);
    return 0;
  }
  if (what == "--parts") {
    weft::cpu::MeasureParts(peaks, threads);
    return 0;
  }
  if (what != "--quick") weft::cpu::MeasureKernels(peaks);
  if (what != "--peaks") weft::cpu::MeasureProducts(peaks, threads, what == "--quick");
}
