#include "compiler/lower/compile.h"

#include <algorithm>

#include "compiler/in_place.h"
#include "compiler/lower/lower.h"
#include "compiler/passes.h"
#include "hlo/clone.h"

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

}  // namespace

Result<Compiled> Compile(const hlo::Module& module, const CompileOptions& options,
                         const program::TargetInfo& target, const RunnerHooks& hooks) {
  Compiled compiled;
  compiled.module = hlo::CloneModule(module);
  // The order of the list is decided anew.
  compiled.module->config().is_scheduled = false;
  std::vector<const Pass*> passes = TRY(NativePipeline());
  compiled.passes = TRY(RunPasses(*compiled.module, passes, options, hooks));
  compiled.program = TRY(Lower(*compiled.module, options, target, &compiled.copies));
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
