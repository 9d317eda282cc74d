#include "runtime/profile.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "base/storage.h"
#include "runtime/step_cost.h"
#include "runtime/step_trace.h"

namespace weft::runtime {
namespace {

using program::Program;
using program::Step;

constexpr int64_t kChains = 16;        // of dependent multiply-adds: more than their latency needs
constexpr int64_t kRounds = 500'000;   // of each chain
constexpr int64_t kCopied = 32 << 20;  // bytes: more than caches hold
constexpr int64_t kPieces = 64;        // that threads take
constexpr int kRepeats = 6;

// kChains independent sums in each of `tasks` iterations of the grid.
std::string PeakProgram(int64_t tasks, int64_t lanes) {
  std::string type = StrCat("f32x", lanes), carry, body, yield, last, sum;
  for (int64_t i = 0; i < kChains; ++i) {
    StrAppend(carry, i ? ", " : "", "%c", i, ": ", type, " = 1");
    StrAppend(body, "      %n", i, " = fma ", type, " %m, %m, %c", i, "\n");
    StrAppend(yield, i ? ", " : "", "%n", i);
    StrAppend(last, i ? ", " : "", "%l", i);
    if (i > 0) {
      StrAppend(sum, "    %s", i, " = add ", type, " ", i == 1 ? "%l0" : StrCat("%s", i - 1),
                ", %l", i, "\n");
    }
  }
  return StrCat("program peak\nbuffer x: f32[1] parameter 0\nbuffer y: f32[", tasks * lanes,
                "] result 0\nkernel peak(read x: f32[1], write y: f32[", tasks * lanes,
                "]) {\n  parallel %t = 0..", tasks, " {\n    %v = load f32 x[0]\n    %m = splat ",
                type, " %v\n    serial %i = 0..", kRounds, " carry ", carry, " {\n", body,
                "    } yield ", yield, " -> ", last, "\n", sum, "    %at = mul s64 %t, ", lanes,
                "\n    store ", type, " y[%at], %s", kChains - 1,
                "\n  }\n}\nsteps { peak(read x, write y) }\n");
}

std::string CopyProgram(int64_t lanes) {
  int64_t elements = kCopied / 4, piece = elements / kPieces;
  std::string type = StrCat("f32x", lanes);
  return StrCat("program copied\nbuffer x: f32[", elements, "] parameter 0\nbuffer y: f32[",
                elements, "] result 0\nkernel copied(read x: f32[", elements, "], write y: f32[",
                elements, "]) {\n  parallel %t = 0..", kPieces, " {\n    %base = mul s64 %t, ",
                piece, "\n    serial %i = 0..", piece, " step ", lanes,
                " {\n      %at = add s64 %base, %i\n      %v = load ", type,
                " x[%at]\n      store ", type,
                " y[%at], %v\n    }\n  }\n}\nsteps { copied(read x, write y) }\n");
}

// The best of some runs, in seconds.
Result<double> Time(Device& device, std::string text, int64_t in, int64_t out, ThreadPool* pool) {
  size_t steps = text.rfind("steps { ");
  text.insert(steps + 8, "launch ");
  Program program = TRY(program::Parse(text));
  std::unique_ptr<LoadedProgram> loaded = TRY(device.Load(std::move(program), {}));
  std::shared_ptr<std::byte[]> x = AllocateStorage(static_cast<size_t>(in), true);
  std::shared_ptr<std::byte[]> y = AllocateStorage(static_cast<size_t>(out), true);
  if (!x || !y) return ResourceExhausted("roofline: no memory for ", in + out, " bytes");
  std::byte *from = x.get(), *to = y.get();
  Call call;
  call.parameters = {&from, 1};
  call.results = {&to, 1};
  call.pool = pool;
  double best = 1e9;
  for (int i = 0; i < kRepeats; ++i) {
    auto start = std::chrono::steady_clock::now();
    TRY(loaded->Run(call));
    best = std::min(
        best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return std::max(best, 1e-9);
}

// "61 %": of the time that the slower of arithmetic and memory takes at best. More than that has
// its data in the caches.
std::string PercentOf(const StepCost& cost, double seconds, const Roofline& roofline) {
  if (roofline.flops_per_second <= 0 || roofline.bytes_per_second <= 0) return "     -";
  double least =
      std::max(cost.flops / roofline.flops_per_second, cost.bytes / roofline.bytes_per_second);
  char text[32];
  std::snprintf(text, sizeof(text), "%4.0f %%", 100 * least / seconds);
  return text;
}

std::string RowText(const Program& program, const Step& step, double seconds,
                    const std::string& more, const std::optional<StepCost>& cost,
                    const Roofline& roofline) {
  seconds = std::max(seconds, 1e-9);
  std::string label = LabelOf(program, step);
  char text[160];
  std::snprintf(text, sizeof(text), "%-24s %-6s %10.1f us%s", label.c_str(),
                std::string(KindName(step)).c_str(), seconds * 1e6, more.c_str());
  std::string line = text;
  if (cost) {
    std::snprintf(text, sizeof(text), " %8.2f GFLOP/s %8.2f GB/s %s", cost->flops / seconds / 1e9,
                  cost->bytes / seconds / 1e9, PercentOf(*cost, seconds, roofline).c_str());
    line += text;
  } else {
    line += "        - GFLOP/s        - GB/s      -";
  }
  if (!step.source.empty()) StrAppend(line, "  ", step.source);
  return line;
}

double MedianOf(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

Result<Roofline> MeasureRoofline(Device& device, ThreadPool* pool) {
  if (pool == nullptr) pool = &DefaultPool();
  int64_t lanes = std::clamp<int64_t>(device.target().vector_bits / 32, 1, program::kMaxLanes);
  int64_t tasks = pool->limit();
  Roofline roofline;
  double flops = 2.0 * static_cast<double>(kChains * kRounds * lanes * tasks);
  roofline.flops_per_second =
      flops / TRY(Time(device, PeakProgram(tasks, lanes), 4, tasks * lanes * 4, pool));
  roofline.bytes_per_second =
      2.0 * kCopied / TRY(Time(device, CopyProgram(lanes), kCopied, kCopied, pool));
  return roofline;
}

std::string StepLine(const Program& program, const Step& step, double seconds,
                     const Roofline& roofline) {
  return RowText(program, step, seconds, "", CostOf(program, step), roofline);
}

void StepTimes::Add(const Step& step, double seconds) {
  auto [found, added] = times_.try_emplace(&step);
  if (added) order_.push_back(&step);
  found->second.this_run += seconds;
  ++found->second.count;
}

void StepTimes::EndRun() {
  for (const Step* step : order_) {
    Times& times = times_.at(step);
    times.runs.push_back(times.this_run);
    times.most = std::max(times.most, times.count);
    times.this_run = 0;
    times.count = 0;
  }
}

std::vector<StepTimes::Row> StepTimes::Rows() const {
  std::vector<Row> rows;
  for (const Step* step : order_) {
    const Times& times = times_.at(step);
    rows.push_back({step, MedianOf(times.runs), times.most});
  }
  return rows;
}

std::string StepTimes::Table(const Roofline& roofline) const {
  std::string out;
  double sum = 0, flops = 0, bytes = 0;
  const std::vector<Row> rows = Rows();
  for (const Row& row : rows) sum += row.seconds;
  for (const Row& row : rows) {
    std::optional<StepCost> cost = CostOf(program_, *row.step);
    if (cost) {
      cost->flops *= static_cast<double>(row.count);
      cost->bytes *= static_cast<double>(row.count);
      flops += cost->flops;
      bytes += cost->bytes;
    }
    char more[32];
    std::snprintf(more, sizeof(more), " x%-5lld %3.0f %%", static_cast<long long>(row.count),
                  sum > 0 ? 100 * row.seconds / sum : 0);
    StrAppend(out, RowText(program_, *row.step, row.seconds, more, cost, roofline), "\n");
  }
  char total[160];
  std::snprintf(total, sizeof(total),
                "steps one by one: %.1f us, %.3f MFLOP, %.3f MB; this machine: %.1f GFLOP/s (f32), "
                "%.1f GB/s\n",
                sum * 1e6, flops / 1e6, bytes / 1e6, roofline.flops_per_second / 1e9,
                roofline.bytes_per_second / 1e9);
  return out + total;
}

}  // namespace weft::runtime
