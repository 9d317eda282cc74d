// weft random: native code of random modules against the evaluator. Modules are made, compiled and
// run in child processes, so that a crash is one more finding.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>

#include "base/file.h"
#include "base/float_mode.h"
#include "base/progress.h"
#include "base/str.h"
#include "base/thread_pool.h"
#include "commands.h"
#include "device.h"
#include "hlo/evaluate.h"
#include "hlo/random_module.h"
#include "hlo/text.h"
#include "native.h"
#include "run_input.h"
#include "runtime/compare.h"
#include "runtime/literals.h"

namespace weft::tools {
namespace {

constexpr int kFreshProcess = 3;  // exit status of a child: another one goes on

struct RandomRequest {
  uint64_t seed = 0, count = 100;
  int jobs = 1;
  std::string out;  // a folder; empty: modules are not written
  bool print = false;
  std::string device = "cpu";
  compiler::CompileOptions options;
};

std::vector<Literal> ArraysOf(const Literal& value) {
  if (!value.shape().IsTuple()) return {value};
  std::vector<Literal> leaves;
  for (const Literal& element : value.tuple()) {
    for (Literal& leaf : ArraysOf(element)) leaves.push_back(std::move(leaf));
  }
  return leaves;
}

// What a result may be off, as the one comparison of results takes it.
runtime::Tolerance AllowedOf(DType t, const hlo::ResultTolerance& tolerance) {
  constexpr double kTiny = 1e-37;  // ten times the least normal f32
  if (tolerance.ulps == 0) return {.absolute = tolerance.error};
  // An ULP of f8e8m0fnu is the number itself, a power of two; f8's three bits are what it may be
  // off.
  double ulps = t == DType::kF8E8M0FNU ? tolerance.ulps / 8 : tolerance.ulps;
  return {
      .ulps = ulps, .absolute = std::isinf(tolerance.error) ? tolerance.error : 0, .tiny = kTiny};
}

std::span<const std::byte> DenseBytes(const Literal& value) {
  return {value.data(), static_cast<size_t>(value.byte_size())};
}

std::string Differ(const Literal& want, const Literal& got, const hlo::ResultTolerance& tolerance) {
  if (want.shape().dims() != got.shape().dims() || want.dtype() != got.dtype()) {
    return StrCat("shape ", want.shape(), " became ", got.shape());
  }
  DType t = want.dtype();
  bool floats = IsFloat(t) || IsComplex(t);
  if (floats && std::isinf(tolerance.error) && tolerance.ulps == 0) return "";  // anything will do
  runtime::Difference difference =
      runtime::Compare(t, DenseBytes(want), DenseBytes(got), AllowedOf(t, tolerance));
  if (!difference.any()) return "";
  return StrCat(want.shape().ToStringWithoutLayout(), ": ", difference.ToString(want.size()),
                " (tolerance ", tolerance.error, ", ulps ", tolerance.ulps, ")");
}

using ByDevice = std::vector<std::vector<Literal>>;

Result<ByDevice> RunOwned(const NativeModule& native, ByDevice arguments) {
  if (!native.device->host_visible()) return RunNativeOnDevices(native, arguments);
  for (std::vector<Literal>& own : arguments) {
    for (Literal& argument : own) argument.mutable_data();  // donation may write over the bytes
  }
  runtime::LiteralRunner runner(*native.program);
  if (arguments.size() > 1) return runner.RunOnDevices(arguments, {});
  ByDevice results;
  results.push_back(TRY(runner.Run(arguments[0], {})));
  return results;
}

// The evaluator's results, as leaves.
Result<ByDevice> EvaluateRandom(const hlo::Module& module, const ByDevice& arguments,
                                bool flush_subnormals) {
  hlo::EvalOptions limits;
  limits.flush_subnormals = flush_subnormals;
  limits.max_loop_steps = 100'000;
  ByDevice results;
  if (arguments.size() == 1) {
    results.push_back(ArraysOf(TRY(hlo::Evaluate(module, arguments[0], limits))));
    return results;
  }
  limits.num_replicas = module.config().replica_count;
  limits.num_partitions = module.config().num_partitions;
  for (const Literal& value : TRY(hlo::EvaluateOnDevices(module, arguments, limits))) {
    results.push_back(ArraysOf(value));
  }
  return results;
}

bool SameBits(const Literal& a, const Literal& b) {
  return a.byte_size() == b.byte_size() &&
         (a.byte_size() == 0 ||
          std::memcmp(a.data(), b.data(), static_cast<size_t>(a.byte_size())) == 0);
}

std::string CompareResults(const hlo::RandomModule& made, const std::vector<Literal>& want,
                           const std::vector<Literal>& got, const std::vector<Literal>& again) {
  if (want.size() != got.size()) return "another number of results";
  for (size_t k = 0; k < want.size(); ++k) {
    Literal wanted = want[k], found = got[k];
    std::string what = CompareSizes(wanted, found);
    if (what.empty()) what = Differ(wanted, found, made.results[k]);
    if (!what.empty()) return StrCat("result ", k, ": ", what);
    if (!SameBits(got[k], again[k])) {
      return StrCat("result ", k, ": other bits when run again: ", Differ(got[k], again[k], {}));
    }
  }
  return "";
}

// What is wrong, or empty.
Result<std::string> CheckModule(const hlo::RandomModule& made, uint64_t seed,
                                const RandomRequest& request,
                                const std::shared_ptr<runtime::Device>& device) {
  const hlo::ModuleConfig& config = made.module->config();
  auto devices = static_cast<uint64_t>(config.replica_count * config.num_partitions);
  if (devices > 1 && !device->host_visible()) return std::string();
  Result<NativeModule> native = CompileNative(*made.module, request.options, {.device = device});
  if (!native) return StrCat("does not compile: ", native.error().message());
  const bool flush = request.options.cpu.flush_subnormals;
  for (uint64_t round = 0; round < 2; ++round) {
    ByDevice arguments;
    for (uint64_t d = 0; d < devices; ++d) {
      arguments.push_back(TRY(hlo::MakeArguments(made, seed, round + 2 * d)));
    }
    ByDevice want = TRY(EvaluateRandom(*made.module, arguments, flush));
    DefaultPool().SetLimit(1);
    ByDevice got = TRY(RunOwned(*native, arguments));
    DefaultPool().SetLimit(DefaultPool().threads());
    ByDevice again = TRY(RunOwned(*native, arguments));
    FloatMode mode(flush);
    for (size_t d = 0; d < devices; ++d) {
      std::string what = CompareResults(made, want[d], got[d], again[d]);
      if (what.empty()) continue;
      return StrCat("round ", round, devices > 1 ? StrCat(" device ", d) : "", " ", what);
    }
  }
  return std::string();
}

void WriteAll(int to, std::string_view text) {
  while (!text.empty()) {
    ssize_t n = write(to, text.data(), text.size());
    if (n <= 0) return;
    text.remove_prefix(static_cast<size_t>(n));
  }
}

// Seeds first, first + stride ...: one line each, "start SEED" before and "done SEED WHAT" after.
[[noreturn]] void RunChild(const RandomRequest& request, uint64_t first, int to) {
  Result<std::shared_ptr<runtime::Device>> device = OpenDevice(request.device);
  if (!device) {
    std::fprintf(stderr, "weft random: %s\n", device.error().ToString().c_str());
    _exit(1);
  }
  for (uint64_t seed = first; seed < request.seed + request.count;
       seed += static_cast<uint64_t>(request.jobs)) {
    WriteAll(to, StrCat("start ", seed, "\n"));
    Result<hlo::RandomModule> made = hlo::MakeRandomModule(seed);
    std::string what;
    if (!made) {
      what = StrCat("no module: ", made.error().message());
    } else {
      Result<std::string> checked = CheckModule(*made, seed, request, *device);
      what = checked ? *checked : StrCat("does not run: ", checked.error().message());
    }
    std::replace(what.begin(), what.end(), '\n', ' ');
    WriteAll(to, StrCat("done ", seed, " ", what, "\n"));
    // A kernel that faults takes the GPU's context along: the next module begins in another
    // process.
    if (what.starts_with("does not run") && !(*device)->host_visible()) _exit(kFreshProcess);
  }
  _exit(0);
}

void ReportModule(const RandomRequest& request, uint64_t seed, std::string_view what) {
  std::printf("seed %llu: %.*s\n", static_cast<unsigned long long>(seed),
              static_cast<int>(what.size()), what.data());
  std::fflush(stdout);
  if (request.out.empty()) return;
  Result<hlo::RandomModule> made = hlo::MakeRandomModule(seed);
  if (!made) return;
  Status written =
      WriteFile(StrCat(request.out, "/random_", seed, ".hlo"), hlo::PrintModule(*made->module));
  if (!written) std::printf("  %s\n", written.error().ToString().c_str());
}

// One child after another from `first` on, each beginning behind the module that ended the last.
uint64_t RunLane(const RandomRequest& request, uint64_t first, Progress* progress = nullptr) {
  uint64_t failures = 0, next = first;
  while (next < request.seed + request.count) {
    int pipes[2];
    if (pipe(pipes) != 0) return failures + 1;
    pid_t child = fork();
    if (child == 0) {
      close(pipes[0]);
      RunChild(request, next, pipes[1]);
    }
    close(pipes[1]);
    std::FILE* from = fdopen(pipes[0], "r");
    char* line = nullptr;
    size_t room = 0;
    bool open = false;
    while (getline(&line, &room, from) > 0) {
      std::string_view text(line);
      unsigned long long seed = 0;
      int at = 0;
      if (std::sscanf(line, "start %llu", &seed) == 1) {
        next = seed;
        open = true;
      } else if (std::sscanf(line, "done %llu%n", &seed, &at) == 1) {
        open = false;
        next = seed + static_cast<uint64_t>(request.jobs);
        if (progress != nullptr) {
          progress->Say(static_cast<int64_t>(std::min(next - request.seed, request.count)),
                        static_cast<int64_t>(request.count), "modules");
        }
        std::string_view what = text.substr(static_cast<size_t>(at));
        while (!what.empty() && (what.back() == '\n' || what.back() == ' ')) what.remove_suffix(1);
        while (!what.empty() && what.front() == ' ') what.remove_prefix(1);
        if (!what.empty()) ReportModule(request, seed, what), ++failures;
      }
    }
    std::free(line);
    std::fclose(from);
    int status = 0;
    waitpid(child, &status, 0);
    if (open) {
      ReportModule(request, next,
                   StrCat("ended by signal ", WIFSIGNALED(status) ? WTERMSIG(status) : 0));
      ++failures;
      next += static_cast<uint64_t>(request.jobs);
    } else if (WIFEXITED(status) && WEXITSTATUS(status) == kFreshProcess) {
      continue;
    } else if (status != 0) {
      return failures + 1;
    } else {
      break;
    }
  }
  return failures;
}

Result<int> RunRandom(Args args) {
  RandomRequest request;
  request.seed = static_cast<uint64_t>(args.Int("--seed", 0, 0));
  request.count = static_cast<uint64_t>(args.Int("--count", 100, 1));
  request.jobs = static_cast<int>(args.Int("--jobs", 1, 1, 256));
  request.out = args.Value("--out").value_or("");
  request.print = args.Flag("--print");
  request.device = TRY(TakeDeviceName(args));
  request.options.gpu.tf32 = false;  // results are compared with the evaluator's
  TRY(TakeOptions(args, request.options));
  TRY(args.Finish(0, 0));
  if (request.print) {
    hlo::RandomModule made = TRY(hlo::MakeRandomModule(request.seed));
    std::string text = hlo::PrintModule(*made.module, hlo::PrintOptions::Full());
    std::fwrite(text.data(), 1, text.size(), stdout);
    return kOk;
  }
  std::vector<pid_t> lanes;
  for (int lane = 1; lane < request.jobs; ++lane) {
    pid_t child = fork();
    if (child == 0) {
      _exit(RunLane(request, request.seed + static_cast<uint64_t>(lane)) == 0 ? 0 : 1);
    }
    lanes.push_back(child);
  }
  bool failed = false;
  {
    Progress progress("random", {.lines = true});  // the other lanes are as far
    failed = RunLane(request, request.seed, &progress) != 0;
  }
  for (pid_t lane : lanes) {
    int status = 0;
    waitpid(lane, &status, 0);
    failed |= status != 0;
  }
  std::printf("%llu modules: %s\n", static_cast<unsigned long long>(request.count),
              failed ? "failures" : "all agree");
  return failed ? kFailed : kOk;
}

}  // namespace

constexpr Command kRandomCommand = {"random", "compares native code of random modules",
                                    R"(usage: weft random [FLAG]...

Makes random modules, compiles each for this machine, runs it on random arguments and on edge values,
and compares with the evaluator: exactly where all ops are exact, else within what their rounding
allows. Runs again and on another number of threads must give the same bits.

  --count N           how many modules (default 100)
  --seed S            of the first module; the others follow (default 0)
  --jobs N            processes at once (default 1)
  --out DIR           write modules that fail to DIR/random_SEED.hlo
  --device D          cpu, gpu or pretend (a GPU's programs, interpreted); on the last two modules for
                      several devices are left out
  --print             print the module of the seed instead
  --options=k=v,...   compile options

examples:
  weft random --count 1000
  weft random --seed 17 --print > module.hlo
)",
                                    RunRandom};

}  // namespace weft::tools
