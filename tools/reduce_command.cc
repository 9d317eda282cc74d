// weft reduce: a small module that fails as a large one does.
#include <chrono>
#include <cstdio>

#include "commands.h"
#include "hlo/text.h"
#include "input.h"
#include "reduce_steps.h"
#include "reduce_test.h"

namespace weft::tools {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Result<int> ReduceFile(const std::string& file, const TestRequest& request, double seconds) {
  std::unique_ptr<hlo::Module> module = TRY(LoadModule(file));
  Outcome wanted = RunTest(*module, request);
  if (wanted == Outcome::kFine) {
    return FailedPrecondition(request.command.empty()
                                  ? "native code gives what the evaluator gives: nothing to reduce"
                                  : "the command fails for the whole module: nothing to reduce");
  }
  int64_t tests = 1, before = module->instruction_count();
  Clock::time_point start = Clock::now();
  auto still_fails = [&](const hlo::Module& candidate) {
    if (SecondsSince(start) > seconds) return false;
    ++tests;
    return RunTest(candidate, request) == wanted;
  };
  std::unique_ptr<hlo::Module> small = ReduceModule(std::move(module), still_fails);
  std::string text = hlo::PrintModule(*small);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fprintf(stderr, "weft reduce: %s: %lld -> %lld instructions, %lld tests, %.1f s\n",
               std::string(Name(wanted)).c_str(), static_cast<long long>(before),
               static_cast<long long>(small->instruction_count()), static_cast<long long>(tests),
               SecondsSince(start));
  return kOk;
}

Result<int> RunReduce(Args args) {
  TestRequest request;
  request.command = args.Value("--command").value_or("");
  request.seed = static_cast<uint64_t>(args.Int("--seed", 0, 0));
  double seconds = args.Number("--seconds", 300);
  TRY(compiler::ParseOptions(args.Value("--options").value_or(""), request.options));
  std::string file = TRY(args.Finish(1, 1))[0];
  Result<int> status = ReduceFile(file, request, seconds);
  if (status) return status;
  Report(status.error(), file);
  return kFailed;
}

}  // namespace

constexpr Command kReduceCommand = {
    "reduce", "makes a module that fails smaller",
    R"(usage: weft reduce [--command=CMD] [--seed N] [--seconds S] [--options=k=v,...] FILE

Prints a smaller module that fails in the same way: native code gives other results than the
evaluator, cannot be compiled, or crashes. Drops results and instructions, puts parameters in the
place of what is computed, and makes dimensions smaller. Each trial runs in a process of its own.

  --command=CMD     what failing means instead: `CMD MODULE.hlo` exits with 0
  --seed N          seed of random arguments (default 0)
  --seconds S       stop looking after so long (default 300)
  --options=k=v,... compile options

examples:
  weft reduce model.hlo > small.hlo
  weft reduce --command='grep -q cosine' model.hlo
)",
    RunReduce};

}  // namespace weft::tools
