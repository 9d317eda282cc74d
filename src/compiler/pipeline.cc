#include "compiler/pipeline.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "base/doing.h"
#include "base/file.h"
#include "base/nearest.h"
#include "base/trace.h"
#include "hlo/text.h"
#include "hlo/verify.h"

namespace weft::compiler {
namespace {

constexpr Pass kPasses[] = {
    {"bound-dynamic-shapes", BoundDynamicShapes},
    {"cancel-exponentials", CancelExponentials},
    {"canonicalize-convolutions", CanonicalizeConvolutions},
    {"canonicalize-dots", CanonicalizeDots},
    {"combine-collectives", CombineCollectives},
    {"decompose-collectives", DecomposeCollectives},
    {"distribute-loops", DistributeLoops},
    {"double-buffer-loops", DoubleBufferLoops},
    {"eliminate-common-subexpressions", EliminateCommonSubexpressions},
    {"eliminate-dead-code", EliminateDeadCode},
    {"expand-empty-ops", ExpandEmptyOps},
    {"expand-linalg", ExpandLinalg},
    {"expand-ops", ExpandOps},
    {"expand-windows", ExpandWindows},
    {"fold-constants", FoldConstants},
    {"fuse", Fuse},
    {"hoist-transposes", HoistTransposes},
    {"inline-calls", InlineCalls},
    {"make-calls-async", MakeCallsAsync},
    {"make-collectives-async", MakeCollectivesAsync},
    {"make-collectives-sync", MakeCollectivesSync},
    {"merge-transposed-dimensions", MergeTransposedDimensions},
    {"nest-flat-loops", NestFlatLoops},
    {"normalize-layouts", NormalizeLayouts},
    {"overlap-calls", OverlapCalls},
    {"overlap-collectives", OverlapCollectives},
    {"partition", Partition},
    {"permute-rows", PermuteRows},
    {"pipeline-collectives", PipelineCollectives},
    {"propagate-shardings", PropagateShardings},
    {"quarter-batch", QuarterBatch},
    {"reassociate-all-reduces", ReassociateAllReduces},
    {"recognize-attention", RecognizeAttention},
    {"recognize-composites", RecognizeComposites},
    {"recognize-functions", RecognizeFunctions},
    {"recognize-point-updates", RecognizePointUpdates},
    {"recognize-progressions", RecognizeProgressions},
    {"recognize-scaled-dots", RecognizeScaledDots},
    {"recognize-scans", RecognizeScans},
    {"recognize-slices", RecognizeSlices},
    {"recognize-topk", RecognizeTopK},
    {"round-compared-products", RoundComparedProducts},
    {"scatter-all-reduces", ScatterAllReduces},
    {"schedule", Schedule},
    {"select-by-masks", SelectByMasks},
    {"separate-computations", SeparateComputations},
    {"simplify", Simplify},
    {"simplify-conditionals", SimplifyConditionals},
    {"simplify-ranges", SimplifyRanges},
    {"simplify-while", SimplifyWhile},
    {"sink-all-reduces", SinkAllReduces},
    {"sink-collectives", SinkCollectives},
    {"split-batch", SplitBatch},
    {"split-loop-state", SplitLoopState},
    {"split-reductions", SplitReductions},
    {"transpose-columns", TransposeColumns},
    {"unroll-collective-loops", UnrollCollectiveLoops},
    {"window-dots", WindowDots},
};

// The order in which they run.
constexpr std::string_view kPipeline[] = {
    "recognize-composites",  // before their formulas are inlined
    "make-calls-async",      // before inline-calls, which would leave none
    "inline-calls",          // before the rest, which does not look into callees
    "simplify",              // before the next two: fewer and more canonical ops
    "select-by-masks",       // after it: a mask times a constant is folded, conversions are merged
    "cancel-exponentials",   // before constants are folded, which would fold what overflows
    "fold-constants",
    "eliminate-common-subexpressions",
    "simplify",             // merged operands and new constants make more identities hold
    "eliminate-dead-code",  // last: the others leave unused ops behind
};

// Before and after those, for native code.
constexpr std::string_view kNativeBefore[] = {
    "recognize-composites",
    "make-calls-async",  // before inline-calls, which would leave none
    "inline-calls",
    "normalize-layouts",    // before expand-ops, whose ops have no layouts
    "scatter-all-reduces",  // before expand-ops, which knows what is scattered
    "hoist-transposes",     // before expand-ops, which cuts leading dimensions only
    "expand-ops",
    "bound-dynamic-shapes",  // the others know static shapes alone
    "expand-linalg",
    "recognize-functions",
    "recognize-scans",
    "expand-windows",  // behind recognize-scans, which looks for windows
    "canonicalize-convolutions",
    "simplify",
    "recognize-slices",
    "recognize-topk",
    "simplify-conditionals",
    "split-loop-state",       // behind simplify, which makes slices of what is read
    "nest-flat-loops",        // before simplify-while, which takes constants out of the state
    "simplify-conditionals",  // those whose predicate a nest decides
    "transpose-columns",      // before simplify-while, which moves transposes out of outer loops
    "simplify-while",
    "recognize-point-updates",  // behind simplify-while; simplify takes their slices further
};
constexpr std::string_view kNativeAfter[] = {
    "simplify-conditionals",        // whose branches have become cheap
    "recognize-attention",          // behind simplify; dots as they were written
    "canonicalize-dots",            // behind simplify, which takes transposes into dots
    "recognize-scaled-dots",        // behind canonicalize-dots, which writes scaled-dot out
    "permute-rows",                 // behind canonicalize-dots, which makes transposes of rows
    "merge-transposed-dimensions",  // behind canonicalize-dots, which makes some
    "expand-empty-ops",
    "eliminate-common-subexpressions",
    "combine-collectives",  // behind the merging of their operands, before unused ones go
    "eliminate-dead-code",
    "separate-computations",  // lowering gives every executed computation buffers of its own
    "simplify-ranges",        // behind separate-computations: one caller, one range
    "distribute-loops",       // behind simplify-ranges: the counter itself is the index
    "eliminate-dead-code",
    "recognize-progressions",  // behind all that knows constants, before fuse, which takes iotas in
    "round-compared-products",  // before fuse, which computes products again for each user
    "split-reductions",         // before fuse, which takes what is reduced in
    "fuse",
    "eliminate-dead-code",
    "schedule",             // of what really runs
    "overlap-calls",        // behind schedule, which has them where memory is least
    "overlap-collectives",  // last: what it makes asynchronous stays where it is
};

bool IsDisabled(const Pass& pass, const CompileOptions& options) {
  const auto& list = options.pipeline.disable;
  return std::find(list.begin(), list.end(), pass.name) != list.end();
}

Status DumpModule(const hlo::Module& module, const Pass& pass, size_t number,
                  const DumpOptions& dump) {
  if (dump.dir.empty() || !pass.name.contains(dump.filter)) return {};
  char prefix[16];
  std::snprintf(prefix, sizeof(prefix), "%04zu", number);
  return WriteFile(StrCat(dump.dir, "/", prefix, ".", pass.name, ".hlo"), hlo::PrintModule(module));
}

// A pass that leaves an invalid module is our own fault, not that of who wrote the module.
std::unexpected<Error> BrokenBy(const Pass& pass, const Error& why) {
  Error error(Code::kInternal,
              StrCat("pass ", pass.name, " left an invalid module: ", why.ToString()));
  error.Hint(StrCat("pipeline.disable=", pass.name, " leaves the pass out"));
  return std::unexpected(std::move(error));
}

}  // namespace

std::span<const Pass> Passes() {
  return kPasses;
}

Result<std::vector<const Pass*>> FindPasses(std::string_view names) {
  std::vector<const Pass*> found;
  for (size_t at = 0; at < names.size();) {
    size_t end = std::min(names.find(',', at), names.size());
    std::string_view name = names.substr(at, end - at);
    at = end + 1;
    auto it = std::find_if(std::begin(kPasses), std::end(kPasses),
                           [&](const Pass& p) { return p.name == name; });
    if (it == std::end(kPasses)) {
      std::vector<std::string_view> known;
      for (const Pass& p : kPasses) known.push_back(p.name);
      auto error = InvalidArgument("unknown pass: ", name, DidYouMean(name, known));
      error.error().Hint("known passes: " + StrJoin(known, ", "));
      return error;
    }
    found.push_back(it);
  }
  return found;
}

Result<std::vector<const Pass*>> DefaultPipeline() {
  std::vector<const Pass*> all;
  for (std::string_view name : kPipeline) all.push_back(TRY(FindPasses(name))[0]);
  return all;
}

Result<std::vector<const Pass*>> NativePipeline() {
  std::vector<const Pass*> all;
  for (std::string_view name : kNativeBefore) all.push_back(TRY(FindPasses(name))[0]);
  for (std::string_view name : kPipeline) all.push_back(TRY(FindPasses(name))[0]);
  for (std::string_view name : kNativeAfter) all.push_back(TRY(FindPasses(name))[0]);
  return all;
}

Result<std::vector<PassRun>> RunPasses(hlo::Module& module, std::span<const Pass* const> passes,
                                       const CompileOptions& options, const RunnerHooks& hooks,
                                       const program::TargetInfo& target) {
  using Clock = std::chrono::steady_clock;
  std::vector<PassRun> runs;
  PassContext context{options, target, hooks.not_fused};
  for (const std::string& name : options.pipeline.disable) TRY(FindPasses(name));
  for (const Pass* pass : passes) {
    if (IsDisabled(*pass, options)) continue;
    PassRun run{.pass = pass->name, .instructions_before = module.instruction_count()};
    Doing doing({"pass", pass->name});
    if (hooks.before) TRY(hooks.before(*pass, module));
    trace::Span span(trace::Kind::kPass, [&] {
      return trace::What{.name = std::string(pass->name), .program = module.name()};
    });
    auto start = Clock::now();
    Result<bool> changed = pass->run(module, context);
    if (!changed) {
      changed.error().Note(StrCat("in pass ", pass->name));
      return std::unexpected(changed.error());
    }
    run.changed = *changed;
    run.milliseconds = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    run.instructions_after = module.instruction_count();
    runs.push_back(run);
    if (run.changed) {
      TRY(DumpModule(module, *pass, runs.size(), options.dump));
      Status valid = options.pipeline.verify ? hlo::Verify(module) : Status();
      if (!valid) return BrokenBy(*pass, valid.error());
    }
    if (hooks.after) hooks.after(run, module);
  }
  return runs;
}

}  // namespace weft::compiler
