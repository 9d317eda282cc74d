// Speed of parsing and printing HLO text, and how much memory a module takes beside its text.
//   text_speed FILE...
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include "base/file.h"
#include "hlo/text.h"

namespace {

using Clock = std::chrono::steady_clock;

double HeapBytes() {
  struct mallinfo2 info = mallinfo2();
  return static_cast<double>(info.uordblks) + static_cast<double>(info.hblkhd);
}

// The best of several runs, in seconds: at least 3, for at least 0.3 s.
template <class Fn>
double BestTime(const Fn& fn) {
  double best = 1e9, total = 0;
  for (int i = 0; i < 3 || (total < 0.3 && i < 1000); ++i) {
    auto start = Clock::now();
    fn();
    double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::min(best, seconds);
    total += seconds;
  }
  return best;
}

int Measure(const char* path) {
  auto text = weft::ReadFile(path);
  if (!text) {
    std::fprintf(stderr, "%s\n", text.error().ToString(path).c_str());
    return 1;
  }
  double before = HeapBytes();
  auto module = weft::hlo::ParseModule(*text);
  if (!module) {
    std::fprintf(stderr, "%s\n", module.error().ToString(path).c_str());
    return 1;
  }
  double heap = HeapBytes() - before;
  double parse = BestTime([&] { (void)weft::hlo::ParseModule(*text); });
  std::string printed;
  double print = BestTime([&] { printed = weft::hlo::PrintModule(**module); });
  double megabytes = static_cast<double>(text->size()) / 1e6;
  std::printf("%8.2f MB  parse %7.1f MB/s  print %7.1f MB/s  heap %5.1f x text  %s\n", megabytes,
              megabytes / parse, static_cast<double>(printed.size()) / 1e6 / print,
              heap / static_cast<double>(text->size()), path);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  int status = 0;
  for (int i = 1; i < argc; ++i) status |= Measure(argv[i]);
  return status;
}
