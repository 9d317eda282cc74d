// The compiler driver: the pass pipeline, then lowering.
#include "compiler/lower/compile.h"

#include <algorithm>
#include <unordered_map>

#include "base/metrics.h"
#include "base/trace.h"
#include "compiler/analysis/collectives.h"
#include "compiler/analysis/in_place.h"
#include "compiler/lower/lower.h"
#include "compiler/lower/packing.h"
#include "compiler/passes.h"
#include "hlo/call_graph.h"
#include "hlo/clone.h"
#include "program/builder.h"
#include "program/regions.h"

namespace weft::compiler {
namespace {

// Says of the last parameters or results which sizes they are. Those are numbered by arrays alone.
void BindSizes(program::Program& program, program::BufferKind kind,
               const std::vector<bool>& is_array, std::span<const SizedDimension> sizes) {
  auto arrays = [&](int64_t leaves) {
    return std::count(is_array.begin(), is_array.begin() + leaves, true);
  };
  int64_t first = arrays(std::ssize(is_array)) - std::ssize(sizes);
  for (program::Buffer& buffer : program.buffers) {
    if (buffer.kind != kind || buffer.index < first) continue;
    const SizedDimension& size = sizes[static_cast<size_t>(buffer.index - first)];
    buffer.size_of = arrays(size.leaf);
    buffer.size_dim = size.dim;
  }
}

// Native code has every computation as often as it is called: a few lines may stand for more than
// any machine holds.
Status CheckExpandedSize(const hlo::Module& module, const CompileOptions& options) {
  const int64_t limit = 4 * (module.instruction_count() + options.optimize.inline_max_instructions);
  std::unordered_map<const hlo::Computation*, int64_t> sizes;
  hlo::CallGraph graph(module);
  if (graph.HasCycle()) return {};
  for (const hlo::Computation* computation : graph.PostOrder()) {
    int64_t size = computation->size();
    for (const hlo::Instruction* i : *computation) {
      if (hlo::ContextOfCalls(*i) != hlo::CallContext::kControlFlow) continue;
      const hlo::Computation* last = nullptr;
      for (const hlo::Computation* callee : i->called_computations()) {
        if (callee != last) size = std::min(size + sizes[callee], limit + 1);
        last = callee;  // branches that are one computation
      }
    }
    sizes[computation] = size;
  }
  if (sizes[module.entry()] <= limit) return {};
  return ResourceExhausted("calls, loops and branches come to more than ", limit,
                           " instructions, each computation counted as often as it is called");
}

// A link is worth moving collectives to other iterations of their loops; copies within memory are
// not.
constexpr std::string_view kAcrossIterations =
    "inline-calls,separate-computations,reassociate-all-reduces,eliminate-dead-code,"
    "unroll-collective-loops,simplify-while,sink-all-reduces,pipeline-collectives,simplify,"
    "eliminate-dead-code,decompose-collectives";

bool MovesAcrossIterations(const hlo::Module& module, const CompileOptions& options,
                           const program::TargetInfo& target) {
  return options.collectives.async && options.collectives.link > 0 && target.RunsOnHost() &&
         DeviceCount(module) > 1;
}

}  // namespace

Result<program::Program> LowerWith(const hlo::Module& module, const CompileOptions& options,
                                   const program::TargetInfo& target, LowerNotes* notes) {
  program::TargetInfo own = target;
  own.slow_subnormals &= !options.cpu.flush_subnormals;
  own.tf32 &= options.gpu.tf32;
  program::Program program = TRY(Lower(module, own, notes, options.lower));
  PackNarrowElements(program);
  program.flush_subnormals = options.cpu.flush_subnormals;
  program::ChooseRegions(program, target);
  return program;
}

Result<Compiled> Compile(const hlo::Module& module, const CompileOptions& options,
                         const program::TargetInfo& target, const RunnerHooks& hooks,
                         bool explain) {
  TRY(CheckExpandedSize(module, options));
  Compiled compiled;
  compiled.module = hlo::CloneModule(module);
  // The order of the list is decided anew.
  compiled.module->config().is_scheduled = false;
  std::vector<const Pass*> passes = TRY(NativePipeline());
  if (MovesAcrossIterations(*compiled.module, options, target)) {
    const std::vector<const Pass*> first = TRY(FindPasses(kAcrossIterations));
    passes.insert(passes.begin(), first.begin(), first.end());
  }
  {
    metrics::Timer timer(metrics::kPassSeconds);
    trace::Span span(trace::Kind::kPhase,
                     [&] { return trace::What{.name = "passes", .program = module.name()}; });
    RunnerHooks noting = hooks;
    noting.not_fused = &compiled.not_fused;
    compiled.passes = TRY(RunPasses(*compiled.module, passes, options, noting, target));
  }
  {
    metrics::Timer timer(metrics::kLowerSeconds);
    trace::Span span(trace::Kind::kPhase,
                     [&] { return trace::What{.name = "lower", .program = module.name()}; });
    LowerNotes notes;
    if (explain) notes.choices = &compiled.choices;
    compiled.program = TRY(LowerWith(*compiled.module, options, target, &notes));
    compiled.copies = std::move(notes.copies);
    for (FusionNote& note : notes.not_fused) compiled.not_fused.push_back(std::move(note));
  }
  const hlo::Computation& entry = *compiled.module->entry();
  std::vector<bool> parameters, results;
  for (const hlo::Instruction* p : entry.parameters()) {
    ForEachLeaf(p->shape(), [&](const Shape& s) { parameters.push_back(s.IsArray()); });
  }
  ForEachLeaf(entry.root()->shape(), [&](const Shape& s) { results.push_back(s.IsArray()); });
  BindSizes(compiled.program, program::BufferKind::kParameter, parameters,
            SizedDimensions(*compiled.module, kParameterSizes));
  BindSizes(compiled.program, program::BufferKind::kResult, results,
            SizedDimensions(*compiled.module, kResultSizes));
  return compiled;
}

}  // namespace weft::compiler
