#include "compiler/lower/compile.h"

#include "compiler/lower/lower.h"
#include "hlo/clone.h"

namespace weft::compiler {

Result<Compiled> Compile(const hlo::Module& module, const CompileOptions& options,
                         const program::TargetInfo& target, const RunnerHooks& hooks) {
  Compiled compiled;
  compiled.module = hlo::CloneModule(module);
  // The order of the list is decided anew.
  compiled.module->config().is_scheduled = false;
  std::vector<const Pass*> passes = TRY(NativePipeline());
  compiled.passes = TRY(RunPasses(*compiled.module, passes, options, hooks));
  compiled.program = TRY(Lower(*compiled.module, options, target, &compiled.copies));
  return compiled;
}

}  // namespace weft::compiler
