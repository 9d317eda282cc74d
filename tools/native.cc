#include "native.h"

#include "compiler/lower/compile.h"
#include "cpu/device.h"
#include "program/program.h"
#include "runtime/literals.h"

namespace weft::tools {
namespace {

void AppendArrays(const Literal& value, std::vector<Literal>& leaves) {
  if (value.shape().IsTuple()) {
    for (const Literal& element : value.tuple()) AppendArrays(element, leaves);
  } else if (value.shape().IsArray()) {
    leaves.push_back(value);
  }
}

}  // namespace

Result<NativeModule> CompileNative(const hlo::Module& module,
                                   const compiler::CompileOptions& options,
                                   const runtime::LoadOptions& load) {
  NativeModule native;
  std::unique_ptr<runtime::Device> device = TRY(cpu::CreateDevice());
  compiler::Compiled compiled = TRY(compiler::Compile(module, options, device->target()));
  if (options.pipeline.verify) TRY(program::Verify(compiled.program));
  native.module = std::move(compiled.module);
  native.program = TRY(device->Load(std::move(compiled.program), load));
  return native;
}

Result<std::vector<Literal>> RunNative(const NativeModule& native,
                                       const std::vector<Literal>& arguments) {
  std::vector<Literal> leaves;
  for (const Literal& argument : arguments) AppendArrays(argument, leaves);
  return runtime::LiteralRunner(*native.program).Run(leaves, {});
}

}  // namespace weft::tools
