// weft opt: runs passes.
#include <cstdio>

#include "commands.h"
#include "compiler/pipeline.h"
#include "hlo/clone.h"
#include "hlo/text.h"
#include "input.h"
#include "same_results.h"
#include "target.h"

namespace weft::tools {
namespace {

void PrintTo(std::FILE* to, const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), to);
}

std::string ListPasses() {
  std::string out;
  for (const compiler::Pass& pass : compiler::Passes()) StrAppend(out, pass.name, "\n");
  return out;
}

Result<int> RunOpt(Args args) {
  if (args.Flag("--list")) {
    TRY(args.Finish(0, 0));
    PrintTo(stdout, ListPasses());
    return kOk;
  }
  std::optional<std::string> passes = args.Value("--passes");
  compiler::CompileOptions options;
  TRY(TakeOptions(args, options));
  bool print_changed = args.Flag("--print-changed"), brief = args.Flag("--short");
  bool same_results = args.Flag("--same-results");
  double tolerance = args.Number("--tolerance", 1e-5);
  std::optional<std::string> target_name = args.Value("--target");
  std::vector<std::string> files = TRY(args.Finish(1, 1));
  std::vector<const compiler::Pass*> list =
      TRY(passes ? compiler::FindPasses(*passes) : compiler::DefaultPipeline());

  program::TargetInfo target;
  if (target_name) target = TRY(FindTarget(*target_name));
  hlo::PrintOptions print = brief ? hlo::PrintOptions::Short() : hlo::PrintOptions::Full();
  compiler::RunnerHooks hooks;
  if (print_changed) {
    hooks.after = [&](const compiler::PassRun& run, const hlo::Module& module) {
      if (!run.changed) {
        PrintTo(stdout, StrCat("// ", run.pass, ": no change\n"));
      } else {
        PrintTo(stdout, StrCat("// after ", run.pass, "\n", hlo::PrintModule(module, print), "\n"));
      }
    };
  }
  Status status = [&]() -> Status {
    std::unique_ptr<hlo::Module> module = TRY(LoadModule(files[0]));
    std::unique_ptr<hlo::Module> before = same_results ? hlo::CloneModule(*module) : nullptr;
    TRY(compiler::RunPasses(*module, list, options, hooks, target));
    if (before != nullptr) {
      std::string what = FindDifference(*before, *module, tolerance);
      if (!what.empty()) return MakeError(Code::kInternal, "the passes change results: ", what);
    }
    if (!print_changed) PrintTo(stdout, hlo::PrintModule(*module, print));
    return {};
  }();
  if (status) return kOk;
  Report(status.error(), files[0]);
  return kFailed;
}

}  // namespace

constexpr Command kOptCommand = {
    "opt", "runs passes on a module and prints it",
    R"(usage: weft opt [--passes=a,b] [--print-changed] [--short] [--options=k=v,...]
                [--same-results] [--target=cpu|h200] FILE

Runs the passes in the order given (without --passes: the whole pipeline), checks the module after
each one, and prints the result.

  --passes=a,b      names of passes
  --print-changed   print the module after each pass that changed it, instead of at the end
  --short           print for people
  --options=k=v,... compile options, such as pipeline.disable=simplify
  --same-results    evaluate before and after on the same arguments, and fail when results differ
                    by more than --tolerance T * max(1, |x|) (default 1e-5; 0: any bit)
  --target=T        the machine whose costs the passes count with
  --list            print the names of all passes

examples:
  weft opt --passes=simplify,eliminate-dead-code model.hlo
  weft opt --print-changed model.hlo
)",
    RunOpt};

}  // namespace weft::tools
