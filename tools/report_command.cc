// weft report: one page with what the compiler does with a module and how it runs.
#include <sys/stat.h>

#include <cstdio>
#include <memory>

#include "bench.h"
#include "client/build.h"
#include "commands.h"
#include "hlo/random_arguments.h"
#include "input.h"
#include "inspect/compile_watch.h"
#include "inspect/report.h"
#include "native.h"
#include "run_input.h"

namespace weft::tools {
namespace {

struct ReportRequest {
  std::string path, out;
  compiler::CompileOptions options;
  uint64_t seed = 0;
  int64_t runs = 10;
};

bool IsFolder(const std::string& path) {
  struct stat about = {};
  return stat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode);
}

// Timed with random arguments; why not, where that cannot be.
std::string RunForReport(const NativeModule& native, const hlo::Module& module,
                         const ReportRequest& request, inspect::ProgramRecord& record) {
  if (request.runs == 0) return "not run: --runs 0";
  if (native.program->program().devices > 1) {
    return "not run: it is for several devices; WEFT_REPORT records such a program as JAX runs it";
  }
  auto run = [&]() -> Status {
    std::vector<Literal> arguments = TRY(hlo::RandomArguments(*module.entry(), request.seed));
    TRY(RunNative(native, arguments));  // warm
    BenchTimes times = TRY(TimeRuns(native, arguments, request.runs));
    AddTimes(times, native.program->program(), record);
    return {};
  };
  Status ran = run();
  return ran ? "" : StrCat("not run: ", ran.error().message());
}

Status ReportOnModule(const ReportRequest& request) {
  std::unique_ptr<hlo::Module> module = TRY(LoadModule(request.path));
  inspect::ReportMachine machine = TRY(DescribeForReport());
  inspect::ReportFile report(request.out, StrCat("weft report ", request.path),
                             std::string(client::Version()));
  report.SetMachine(std::move(machine));
  {
    inspect::CompileWatch watch(*module, TheEnvironment().dump,
                                compiler::PrintOptions(request.options), &report);
    watch.record()->origin = request.path;
    Result<NativeModule> native = CompileNative(*module, request.options, {.watch = &watch});
    watch.Finished();
    watch.record()->why_not_run = native ? RunForReport(*native, *module, request, *watch.record())
                                         : StrCat("not compiled: ", native.error().message());
  }
  return report.Write();
}

Status ReportOnDump(const ReportRequest& request) {
  inspect::ReportInput input;
  input.title = StrCat("weft report ", request.path);
  input.version = client::Version();
  input.programs = TRY(inspect::ReadDump(request.path));
  return inspect::WriteReport(input, request.out);
}

Result<int> RunReport(Args args) {
  ReportRequest request;
  request.out = args.Value("-o").value_or("report.html");
  request.seed = static_cast<uint64_t>(args.Int("--seed", 0, 0));
  request.runs = args.Int("--runs", request.runs, 0, 100'000);
  TRY(TakeOptions(args, request.options));
  request.path = TRY(args.Finish(1, 1))[0];
  Status status = IsFolder(request.path) ? ReportOnDump(request) : ReportOnModule(request);
  if (status) {
    std::printf("%s\n", request.out.c_str());
    return kOk;
  }
  Report(status.error(), request.path);
  return kFailed;
}

}  // namespace

constexpr Command kReportCommand = {
    "report", "one page on a module: passes, kernels, memory, where the time goes",
    R"(usage: weft report [FLAG]... FILE|DUMP_DIR

Writes one HTML file that a browser opens without a network: what each pass changed, what was fused
and what not and why, buffers over time, kernels against what the machine can do, the timeline,
copies with their reasons, compile time, generated code. A module is compiled, and run with random
arguments; of a folder that WEFT_DUMP filled the page has what lies there. WEFT_REPORT=FILE makes
the page of a whole JAX run.

  -o FILE             the page (default report.html)
  --runs N            timed runs (default 10; 0: compile only)
  --seed N            seed of random arguments (default 0)
  --options=k=v,...   compile options

examples:
  weft report -o page.html model.hlo
  WEFT_DUMP=dump python train.py; weft report -o page.html dump
)",
    RunReport};

}  // namespace weft::tools
