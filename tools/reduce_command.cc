// weft reduce: a small module that fails as a large one does.
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "base/cores.h"
#include "base/file.h"
#include "base/progress.h"
#include "child.h"
#include "commands.h"
#include "device.h"
#include "hlo/text.h"
#include "input.h"
#include "reduce_steps.h"
#include "reduce_test.h"

namespace weft::tools {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kSecondsBetweenFiles = 2;

struct ReduceRequest {
  TestRequest test;
  std::string file, out;  // out: empty: standard output, at the end
  double seconds = 300;
};

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// One reduction: what was tried, and what is told and written on the way.
class Reduction {
 public:
  Reduction(const ReduceRequest& request, const ModuleTest& test, int64_t instructions)
      : request_(request), test_(test), at_start_(instructions), now_(instructions) {}

  int FirstFailing(size_t n, const std::function<ModulePtr(size_t)>& make) {
    // Few at a time, so that the time is looked at and progress is shown.
    const size_t batch = static_cast<size_t>(std::max(request_.test.at_once, 1)) * 4;
    for (size_t at = 0; at < n; at += batch) {
      if (Interrupted() || SecondsSince(start_) > request_.seconds) return -1;
      progress_.Say(now_, at_start_, StrCat("instructions, ", tries_, " tries"));
      const size_t count = std::min(batch, n - at);
      int found = test_.FirstFailing(count, [&](size_t i) { return make(at + i); });
      tries_ += found < 0 ? static_cast<int64_t>(count) : found + 1;
      if (found >= 0) return static_cast<int>(at) + found;
    }
    return -1;
  }

  void Smaller(const hlo::Module& module) {
    now_ = module.instruction_count();
    if (request_.out.empty() || SecondsSince(written_) < kSecondsBetweenFiles) return;
    (void)ReplaceFile(request_.out, hlo::PrintModule(module));
    written_ = Clock::now();
  }

  Status Finish(const hlo::Module& module, const Verdict& verdict) {
    progress_.Clear();
    std::string text = hlo::PrintModule(module);
    if (request_.out.empty()) {
      std::fwrite(text.data(), 1, text.size(), stdout);
    } else {
      TRY(ReplaceFile(request_.out, text));
    }
    const char* why = Interrupted()                             ? ", interrupted"
                      : SecondsSince(start_) > request_.seconds ? ", out of time"
                                                                : "";
    std::fprintf(stderr, "weft reduce: %s: %lld -> %lld instructions, %lld tries, %.1f s%s\n",
                 verdict.ToString().c_str(), static_cast<long long>(at_start_),
                 static_cast<long long>(module.instruction_count()), static_cast<long long>(tries_),
                 SecondsSince(start_), why);
    return {};
  }

 private:
  const ReduceRequest& request_;
  const ModuleTest& test_;
  const int64_t at_start_;
  int64_t now_, tries_ = 0;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point written_ = start_;
  Progress progress_{"reduce", {.lines = true}};
};

Result<int> ReduceFile(const ReduceRequest& request) {
  ModulePtr module = TRY(LoadModule(request.file));
  InterruptScope interrupts;
  ModuleTest test(request.test);
  Verdict verdict = test.LookFor(*module);
  if (verdict.outcome == Outcome::kFine) {
    if (Interrupted()) return MakeError(Code::kCancelled, "interrupted");
    return FailedPrecondition(request.test.command.empty()
                                  ? "native code gives what the evaluator gives: nothing to reduce"
                                  : "the command fails for the whole module: nothing to reduce");
  }
  Reduction reduction(request, test, module->instruction_count());
  module = ReduceModule(
      std::move(module),
      [&](size_t n, const std::function<ModulePtr(size_t)>& make) {
        return reduction.FirstFailing(n, make);
      },
      [&](const hlo::Module& smaller) { reduction.Smaller(smaller); });
  TRY(reduction.Finish(*module, verdict));
  return kOk;
}

Result<int> RunReduce(Args args) {
  ReduceRequest request;
  request.test.command = args.Value("--command").value_or("");
  request.test.device = TRY(TakeDeviceName(args));
  request.test.inputs = args.Values("--input");
  request.test.seed = static_cast<uint64_t>(args.Int("--seed", 0, 0));
  request.test.seconds = args.Number("--try-seconds", 60);
  request.test.at_once = static_cast<int>(args.Int("--jobs", AvailableCores(), 1, 256));
  request.seconds = args.Number("--seconds", 300);
  request.out = args.Value("--out").value_or("");
  TRY(TakeOptions(args, request.test.options));
  request.file = TRY(args.Finish(1, 1))[0];
  Result<int> status = ReduceFile(request);
  if (status) return status;
  Report(status.error(), request.file);
  return kFailed;
}

}  // namespace

constexpr Command kReduceCommand = {
    "reduce", "makes a module that fails smaller",
    R"(usage: weft reduce [--out SMALL.hlo] [--command=CMD] [--seconds S] [--jobs N] [--options=k=v,...] FILE

Makes a smaller module that fails in the same way: native code gives other results than the
evaluator, cannot be compiled, crashes or does not end, in the same stage (the same pass, lowering,
code generation, running). Drops metadata, results, computations and instructions, puts parameters
in the place of what is computed, and makes dimensions smaller. Trials run in processes of their
own, several at once. What was found so far is written when the time is over or this is interrupted
(^C).

  --out SMALL.hlo   where to write it, every few seconds too (default: standard output, at the end)
  --command=CMD     what failing means instead: `CMD MODULE.hlo` exits with 0
  --device D        cpu (default), gpu or pretend (a GPU's programs, interpreted)
  --seconds S       stop looking after so long (default 300)
  --try-seconds S   a trial that takes longer does not end (default 60)
  --jobs N          trials side by side (default: as many as cores)
  --input A.npy     value of the next parameter, where it still has that shape
  --seed N          seed of random arguments (default 0)
  --options=k=v,... compile options

examples:
  weft reduce --out small.hlo model.hlo
  weft reduce --command='grep -q cosine' model.hlo > small.hlo
)",
    RunReduce};

}  // namespace weft::tools
