// weft run: native code.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "base/digest.h"
#include "base/log.h"
#include "base/npy.h"
#include "bench.h"
#include "client/build.h"
#include "commands.h"
#include "compiler/options.h"
#include "device.h"
#include "hlo/evaluate.h"
#include "hlo/random_arguments.h"
#include "input.h"
#include "inspect/compile_watch.h"
#include "inspect/fault.h"
#include "inspect/trace_json.h"
#include "joined_run.h"
#include "native.h"
#include "program/interpret.h"
#include "run_input.h"
#include "runtime/profile.h"

namespace weft::tools {
namespace {

struct NativeRequest {
  std::string file;
  std::vector<std::string> inputs;
  compiler::CompileOptions options;
  uint64_t seed = 0;
  int64_t max_elements = 1'000'000, bench = 0;
  int64_t devices = 0;  // 0: as many as the module says
  std::string device = "cpu";
  int64_t repeat = 0;
  bool check = false;
  inspect::ReportFile* report = nullptr;  // null: none is wanted
  double tolerance = 1e-5;
};

double Since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

using AfterStep =
    std::function<Status(const program::Step&, double, std::span<const std::span<std::byte>>)>;

// Whole runs first, then step by step: the table says where the time goes.
Status Bench(const NativeModule& native, const std::vector<Literal>& arguments, double compile_ms,
             int64_t runs, inspect::ProgramRecord* record) {
  BenchTimes times = TRY(TimeRuns(native, arguments, runs));
  auto at = [&](size_t tenths) {
    return times.milliseconds[(times.milliseconds.size() - 1) * tenths / 10];
  };
  std::printf(
      "compiled in %.2f ms (%lld kernels), run: median %.4f ms, best %.4f ms of %lld, 80 %% within "
      "%.4f to %.4f ms\n",
      compile_ms, static_cast<long long>(native.program->stats().kernels), times.median(), at(0),
      static_cast<long long>(runs), at(1), at(9));
  if (record != nullptr) AddTimes(times, native.program->program(), *record);
  std::string table = times.steps.Table(TRY(runtime::MeasureRoofline(*native.device)));
  std::fwrite(table.data(), 1, table.size(), stdout);
  return {};
}

Status BenchEnqueued(const NativeModule& native, const std::vector<Literal>& arguments,
                     double compile_ms, int64_t runs) {
  EnqueuedTimes times = TRY(TimeEnqueued(native, arguments, runs));
  std::printf(
      "compiled in %.2f ms (%lld kernels), run: %.4f ms each without waiting, median %.4f ms and "
      "best %.4f ms of %lld waited for\n",
      compile_ms, static_cast<long long>(native.program->stats().kernels), times.steady,
      times.median(), times.milliseconds[0], static_cast<long long>(runs));
  return {};
}

// Runs again and again: the same bits each time. The digest is for comparing processes.
Status Repeat(const NativeModule& native, const std::vector<Literal>& arguments,
              const std::vector<Literal>& first, int64_t runs) {
  auto digest = [](const std::vector<Literal>& results) {
    Digest bits;
    for (const Literal& result : results) {
      bits.Update(result.data(), static_cast<size_t>(result.byte_size()));
    }
    std::array<unsigned char, 32> sum = bits.Finish();
    return ToHex(std::string_view(reinterpret_cast<const char*>(sum.data()), sum.size()));
  };
  std::string want = digest(first);
  for (int64_t i = 1; i < runs; ++i) {
    if (digest(TRY(RunNative(native, arguments))) == want) continue;
    return MakeError(Code::kInternal, "run ", i, " gives other bits than run 0");
  }
  std::printf("%lld runs, same bits: %s\n", static_cast<long long>(runs), want.c_str());
  return {};
}

// One run, with a line for each step at WEFT_DEBUG=2.
Result<std::vector<Literal>> RunOnce(const NativeModule& native,
                                     const std::vector<Literal>& arguments) {
  if (!native.device->host_visible() || !detail::LogIsOn("step", 2))
    return RunNative(native, arguments);
  runtime::Roofline roofline = TRY(runtime::MeasureRoofline(*native.device));
  AfterStep after = [&](const program::Step& step, double seconds,
                        std::span<const std::span<std::byte>>) {
    NOTE("step", 2) << "step " << native.module->name() << " "
                    << runtime::StepLine(native.program->program(), step, seconds, roofline);
    return Status();
  };
  runtime::Call call;
  call.after_step = &after;
  return RunNative(native, arguments, call);
}

inspect::FaultRequest FaultRequestOf(const hlo::Module& module, const NativeRequest& request,
                                     const NativeModule& native, std::span<const Literal> arrays) {
  hlo::EvalOptions eval;
  eval.seed = request.seed;
  eval.flush_subnormals = request.options.cpu.flush_subnormals;
  return {.module = module,
          .options = request.options,
          .device = *native.device,
          .arguments = arrays,
          .eval = eval};
}

// Whether the device is wrong or its Program: what the interpreter makes of that.
std::string WhoIsWrong(const NativeModule& native, std::span<const Literal> arrays,
                       const std::vector<Literal>& want, double tolerance) {
  program::InterpretOptions options;
  options.check_races = true;
  auto got = program::Interpret(native.program->program(), arrays, options);
  if (!got) return StrCat("the Program, interpreted: ", got.error().message());
  for (size_t i = 0; i < want.size() && i < got->size(); ++i) {
    if (CompareLeaves(want[i], (*got)[i], ToleranceOf(want[i], tolerance)).empty()) continue;
    return "the Program, interpreted, differs too: a pass or the lowering is wrong";
  }
  return "the Program, interpreted, agrees with the evaluator: the device is wrong";
}

// An error that says what is wrong, beyond that something is; and a folder to see it again.
std::unexpected<Error> Explain(const inspect::FaultRequest& request, std::string what) {
  Result<inspect::Fault> fault = inspect::FindFault(request);
  if (fault && fault->kind != inspect::FaultKind::kNone) {
    StrAppend(what, "\n", fault->ToString());
  } else if (fault) {
    what += "\nevery step does what the Program says, and results differ by no more than rounding";
  }
  Error error(Code::kInternal, what);
  if (TheEnvironment().check) {
    const std::string& dump = TheEnvironment().dump;
    std::string folder =
        inspect::WriteFaultFolder(dump.empty() ? "weft-faults" : dump, request, what);
    error.Hint(StrCat("to see it again: ", folder, "/REPRO"));
  }
  return std::unexpected(std::move(error));
}

Status Check(const Input& input, const NativeRequest& request, const NativeModule& native,
             const std::vector<Literal>& arguments, const std::vector<Literal>& results) {
  std::vector<Literal> arrays, want;
  for (const Literal& argument : arguments) inspect::AppendArrays(argument, arrays);
  RunOptions eval;
  eval.seed = request.seed;
  eval.flush_subnormals = request.options.cpu.flush_subnormals;
  eval.inputs = arrays;
  RunResult wanted = TRY(RunInput(input, eval));
  for (Literal& leaf : wanted.devices[0]) {
    if (leaf.shape().IsArray()) want.push_back(std::move(leaf));
  }
  inspect::FaultRequest fault = FaultRequestOf(*std::get<0>(input), request, native, arrays);
  if (want.size() != results.size()) {
    return MakeError(Code::kInternal, "native code gives ", results.size(),
                     " results, the evaluator ", want.size());
  }
  for (size_t i = 0; request.check && i < want.size(); ++i) {
    std::string what = CompareLeaves(want[i], results[i], ToleranceOf(want[i], request.tolerance));
    if (!what.empty() && !native.device->host_visible()) {
      return MakeError(Code::kInternal, "result ", i, " differs from the evaluator's: ", what, "\n",
                       WhoIsWrong(native, arrays, want, request.tolerance));
    }
    if (!what.empty()) {
      return Explain(fault, StrCat("result ", i, " differs from the evaluator's: ", what));
    }
  }
  if (TheEnvironment().check && native.device->host_visible()) {
    Result<inspect::Fault> found = inspect::FindFault(fault);
    if (!found) return std::unexpected(found.error());
    if (found->kind != inspect::FaultKind::kNone)
      return Explain(fault, "WEFT_CHECK: a step or a result is wrong");
    std::printf("every step as the interpreter, ");
  }
  std::printf("same as the evaluator\n");
  return {};
}

Result<RunOptions> RunOptionsOf(const Input& input, const NativeRequest& request) {
  RunOptions run;
  run.seed = request.seed;
  run.flush_subnormals = request.options.cpu.flush_subnormals;
  std::vector<Shape> leaves = ParameterLeaves(input);
  for (size_t i = 0; i < request.inputs.size() && i < leaves.size(); ++i) {
    run.inputs.push_back(TRY(ReadNpyAs(request.inputs[i], leaves[i])));
  }
  return run;
}

// A module with shardings: each device its part. What is checked is the whole.
Status RunSplit(const Input& input, const NativeRequest& request) {
  const hlo::Module& module = *std::get<0>(input);
  if (request.device != "cpu" || request.repeat > 0 || request.bench > 0) {
    return InvalidArgument("--device, --repeat and --bench take modules without shardings");
  }
  RunOptions run = TRY(RunOptionsOf(input, request));
  std::unique_ptr<hlo::Module> parts = TRY(Split(module));
  RunResult shown = TRY(RunPartsNatively(module, *parts, run, request.options));
  if (!request.check) {
    std::string text = FormatResults(shown, request.max_elements);
    std::fwrite(text.data(), 1, text.size(), stdout);
    return {};
  }
  std::erase_if(shown.devices[0], [](const Literal& leaf) { return !leaf.shape().IsArray(); });
  run.devices = 1;
  Result<RunResult> want = RunInput(input, run);
  // One device has no part in a manual computation: the evaluator runs the parts then, too.
  if (!want) want = TRY(EvaluateParts(module, *parts, run));
  return CheckDevices(TRY(std::move(want)), shown.devices, request.tolerance);
}

// A module for several devices: all of them at once.
Status RunOnDevices(const Input& input, const NativeRequest& request) {
  const hlo::Module& module = *std::get<0>(input);
  if (request.devices == 0 && IsToSplit(module)) return RunSplit(input, request);
  RunOptions run = TRY(RunOptionsOf(input, request));
  std::vector<std::vector<Literal>> arguments = TRY(ArgumentsOf(input, run));
  if (request.device != "cpu" || request.repeat > 0) {
    return InvalidArgument("--device and --repeat take modules for one device, this one has ",
                           arguments.size());
  }
  NativeModule native = TRY(CompileNative(module, request.options));
  RunResult shown;
  shown.devices = TRY(RunNativeOnDevices(native, arguments));
  shown.is_tuple = module.entry()->root()->shape().IsTuple();
  if (request.check) {
    return CheckDevices(TRY(RunInput(input, run)), shown.devices, request.tolerance);
  }
  std::vector<double> times;
  for (int64_t i = 0; i < request.bench; ++i) {
    auto start = std::chrono::steady_clock::now();
    TRY(RunNativeOnDevices(native, arguments));
    times.push_back(Since(start));
  }
  std::sort(times.begin(), times.end());
  if (!times.empty()) {
    std::printf("%zu devices, run: median %.4f ms, best %.4f ms of %zu\n", arguments.size(),
                times[times.size() / 2], times[0], times.size());
    return {};
  }
  std::string text = FormatResults(shown, request.max_elements);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return {};
}

Status RunLoaded(const Input& input, const NativeRequest& request) {
  const auto* module = std::get_if<0>(&input);
  if (module == nullptr) return InvalidArgument("weft run takes a module, not a Program");
  if (request.devices > 0) {
    hlo::ModuleConfig& config = (*module)->config();
    if (request.devices % std::max<int64_t>(config.num_partitions, 1) != 0) {
      config.num_partitions = 1;
    }
    config.replica_count = request.devices / std::max<int64_t>(config.num_partitions, 1);
  }
  if (TRY(DeviceCount(input, {})) > 1) return RunOnDevices(input, request);
  std::vector<Literal> arguments = TRY(hlo::RandomArguments(*(*module)->entry(), request.seed));
  std::vector<Shape> leaves = ParameterLeaves(input);
  for (size_t i = 0; i < request.inputs.size() && i < arguments.size(); ++i) {
    arguments[i] = TRY(ReadNpyAs(request.inputs[i], leaves[i]));
  }
  std::shared_ptr<runtime::Device> device = TRY(OpenDevice(request.device));
  auto start = std::chrono::steady_clock::now();
  inspect::CompileWatch watch(**module, TheEnvironment().dump,
                              compiler::PrintOptions(request.options), request.report);
  NativeModule native =
      TRY(CompileNative(**module, request.options, {.watch = &watch, .device = device}));
  double compile = Since(start);
  watch.Finished();
  const runtime::LoadStats& stats = native.program->stats();
  NOTE("compile", 1) << "compile " << (*module)->name() << ": " << stats.compiled << " compiled, "
                     << stats.from_cache << " from cache, " << std::lround(compile) << " ms";
  std::vector<Literal> results = TRY(RunOnce(native, arguments));
  if (request.repeat > 0) {
    TRY(Repeat(native, arguments, results, request.repeat));
  } else if (request.bench > 0 && !device->host_visible()) {
    TRY(BenchEnqueued(native, arguments, compile, request.bench));
  } else if (request.bench > 0) {
    TRY(Bench(native, arguments, compile, request.bench, watch.record()));
  } else if (!request.check) {
    RunResult shown;
    shown.devices.push_back(results);
    shown.is_tuple = (*module)->entry()->root()->shape().IsTuple();
    std::string text = FormatResults(shown, request.max_elements);
    std::fwrite(text.data(), 1, text.size(), stdout);
  }
  if (!request.check && !TheEnvironment().check) return {};
  return Check(input, request, native, arguments, results);
}

Status RunOne(const NativeRequest& request) {
  std::string content = TRY(ReadInput(request.file));
  Input input = TRY(ParseInput(content));
  TRY(VerifyInput(input, content));
  Status status = RunLoaded(input, request);
  if (!status) return std::unexpected(LocateNote(std::move(status.error()), content));
  return status;
}

// The machine is measured before anything is recorded.
Status BeginReport(const std::optional<std::string>& page, NativeRequest& request,
                   std::optional<inspect::ReportFile>& report) {
  if (!page) return {};
  inspect::ReportMachine machine = TRY(DescribeForReport());
  const std::string bench = request.bench > 0 ? StrCat("--bench ", request.bench, " ") : "";
  report.emplace(*page, StrCat("weft run ", bench, request.file), std::string(client::Version()));
  report->SetMachine(std::move(machine));
  request.report = &*report;
  return {};
}

Result<int> RunRun(Args args) {
  NativeRequest request;
  request.inputs = args.Values("--input");
  request.seed = static_cast<uint64_t>(args.Int("--seed", 0, 0));
  request.max_elements = args.Int("--max-elements", 1'000'000, -1);
  request.check = args.Flag("--check");
  request.bench = args.Int("--bench", 0, 0);
  request.devices = args.Int("--devices", 0, 1, 1024);
  request.repeat = args.Int("--repeat", 0, 0);
  request.device = TRY(TakeDeviceName(args));
  request.tolerance = args.Number("--tolerance", request.tolerance);
  TRY(TakeOptions(args, request.options));
  std::optional<std::string> trace_path = args.Value("--trace"), page = args.Value("--html");
  if (!page && !TheEnvironment().report.empty()) page = TheEnvironment().report;
  if (page && request.device != "cpu") return InvalidArgument("--html is for --device=cpu");
  request.file = TRY(args.Finish(1, 1))[0];
  std::optional<inspect::TraceFile> trace;
  if (trace_path) trace.emplace(*trace_path);
  std::optional<inspect::ReportFile> report;
  Status status = BeginReport(page, request, report);
  if (status) status = RunOne(request);
  if (Status written = report && status ? report->Write() : Status(); status && !written) {
    status = written;
  }
  if (Status written = trace ? trace->Write() : Status(); status && !written) status = written;
  if (status) return kOk;
  Report(status.error(), request.file);
  return kFailed;
}

}  // namespace

constexpr Command kRunCommand = {"run", "compiles a module for this machine and runs it",
                                 R"(usage: weft run [FLAG]... FILE

Compiles the module to native code, runs it and prints the results as `weft eval` does. A module
with shardings is split: each device runs its part, arguments and results are whole.

  --input A.npy       value of the next parameter; parameters without one get random values
  --seed N            seed of random values (default 0)
  --devices N         run on N devices (default: replica_count x num_partitions of the module)
  --device D          cpu (default), gpu (a CUDA GPU), pretend (the H200's Program, interpreted)
  --repeat N          run N times: the same bits each time, with their digest to compare processes by
  --check             compare with the evaluator instead of printing
  --tolerance T       floats may differ by T * max(1, |x|) (default 1e-5; narrow formats by more)
  --bench N           time N runs instead of printing, and show where the time goes by step; on GPUs
                      runs in a row and runs waited for, without steps
  --html FILE         write a page with all that is known of the module and its run (docs/report.md)
  --trace FILE        write a timeline of passes, code generation and steps for Perfetto
  --options=k=v,...   compile options
  --max-elements N    print larger arrays as {...} (default 1000000; -1: print all)

examples:
  weft run examples/train_mlp.hlo
  weft run --check model.hlo
  weft run --device=gpu --bench 100 model.hlo
)",
                                 RunRun};

}  // namespace weft::tools
