#include "bench.h"

#include <algorithm>
#include <chrono>
#include <unordered_map>

#include "base/thread_pool.h"
#include "cpu/device.h"
#include "inspect/fault.h"
#include "runtime/stream_runner.h"

namespace weft::tools {
namespace {

constexpr int64_t kSteppedRuns = 20;  // for the table of steps
constexpr int64_t kWarmRuns = 3;      // until memory is taken and code is on the device

double MillisecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace

Result<BenchTimes> TimeRuns(const NativeModule& native, const std::vector<Literal>& arguments,
                            int64_t runs) {
  BenchTimes times{{}, runtime::StepTimes(native.program->program())};
  for (int64_t i = 0; i < runs; ++i) {
    auto start = std::chrono::steady_clock::now();
    TRY(RunNative(native, arguments));
    times.milliseconds.push_back(MillisecondsSince(start));
  }
  std::sort(times.milliseconds.begin(), times.milliseconds.end());
  std::function<Status(const program::Step&, double, std::span<const std::span<std::byte>>)> after =
      [&](const program::Step& step, double seconds, std::span<const std::span<std::byte>>) {
        times.steps.Add(step, seconds);
        return Status();
      };
  runtime::Call call;
  call.after_step = &after;
  for (int64_t i = 0; i < std::min(runs, kSteppedRuns); ++i) {
    TRY(RunNative(native, arguments, call));
    times.steps.EndRun();
  }
  return times;
}

Result<EnqueuedTimes> TimeEnqueued(const NativeModule& native,
                                   const std::vector<Literal>& arguments, int64_t runs) {
  std::vector<Literal> leaves;
  for (const Literal& argument : arguments) inspect::AppendArrays(argument, leaves);
  auto runner = TRY(runtime::StreamRunner::Create(*native.device, *native.program));
  TRY(runner.Upload(leaves));
  auto finish = [&]() -> Status { return TRY(runner.stream().Record())->Wait(); };
  EnqueuedTimes times;
  for (int64_t i = 0; i < kWarmRuns; ++i) TRY(runner.Enqueue({}));
  TRY(finish());
  for (int64_t i = 0; i < runs; ++i) {
    auto start = std::chrono::steady_clock::now();
    TRY(runner.Enqueue({}));
    TRY(finish());
    times.milliseconds.push_back(MillisecondsSince(start));
  }
  std::sort(times.milliseconds.begin(), times.milliseconds.end());
  auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < runs; ++i) TRY(runner.Enqueue({}));
  TRY(finish());
  times.steady = MillisecondsSince(start) / static_cast<double>(runs);
  return times;
}

Result<inspect::ReportMachine> DescribeForReport() {
  std::unique_ptr<runtime::Device> device = TRY(cpu::CreateDevice());
  inspect::ReportMachine machine;
  machine.target = device->target();
  machine.measured = TRY(runtime::MeasureRoofline(*device));
  machine.threads = DefaultPool().limit();
  return machine;
}

void AddTimes(const BenchTimes& times, const program::Program& program,
              inspect::ProgramRecord& record) {
  record.run_seconds = times.median() / 1e3;
  std::unordered_map<const program::Step*, size_t> numbers;
  program::ForEachStep(program.steps,
                       [&](const program::Step& step) { numbers.emplace(&step, numbers.size()); });
  record.times.assign(numbers.size(), std::nullopt);
  for (const runtime::StepTimes::Row& row : times.steps.Rows()) {
    record.times[numbers.at(row.step)] = {row.seconds, static_cast<double>(row.count)};
  }
}

}  // namespace weft::tools
