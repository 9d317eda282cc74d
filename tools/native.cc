#include "native.h"

#include "base/doing.h"
#include "base/trace.h"
#include "compiler/lower/compile.h"
#include "cpu/device.h"
#include "inspect/fault.h"
#include "program/program.h"
#include "runtime/literals.h"
#include "runtime/stream_runner.h"

namespace weft::tools {

Result<NativeModule> CompileNative(const hlo::Module& module,
                                   const compiler::CompileOptions& options,
                                   const NativeHooks& native_hooks) {
  Doing doing({"compile", module.name()});
  NativeModule native;
  native.device = native_hooks.device;
  if (native.device == nullptr) native.device = std::shared_ptr(TRY(cpu::CreateDevice()));
  inspect::CompileWatch* watch = native_hooks.watch;
  compiler::RunnerHooks hooks;
  runtime::LoadOptions load;
  load.disabled_passes = options.cpu.disable;
  if (watch != nullptr) {
    hooks = watch->Hooks();
    load.show = watch->ShowCode();
    load.progress = watch->ShowProgress();
  }
  if (native_hooks.stage) {
    auto checked = std::move(hooks.before);
    hooks.before = [&, checked](const compiler::Pass& pass, const hlo::Module& now) -> Status {
      native_hooks.stage(StrCat("pass ", pass.name));
      return checked ? checked(pass, now) : Status();
    };
    auto watched = std::move(hooks.after);
    hooks.after = [&, watched](const compiler::PassRun& run, const hlo::Module& now) {
      native_hooks.stage("lowering");  // unless another pass comes
      if (watched) watched(run, now);
    };
  }
  compiler::Compiled compiled =
      TRY(compiler::Compile(module, options, native.device->target(), hooks));
  if (watch != nullptr) watch->Lowered(compiled);
  if (options.pipeline.verify) TRY(program::Verify(compiled.program));
  native.module = std::move(compiled.module);
  if (native_hooks.stage) native_hooks.stage("code generation");
  native.program = TRY(native.device->Load(std::move(compiled.program), load));
  return native;
}

Result<std::vector<Literal>> RunNative(const NativeModule& native,
                                       const std::vector<Literal>& arguments,
                                       const runtime::Call& call) {
  std::vector<Literal> leaves;
  for (const Literal& argument : arguments) inspect::AppendArrays(argument, leaves);
  trace::Span span(trace::Kind::kExecute, [&] {
    const std::string& name = native.module->name();
    return trace::What{.name = name, .program = name, .op = "native"};
  });
  if (native.device->host_visible()) {
    return runtime::LiteralRunner(*native.program).Run(leaves, call);
  }
  auto runner = TRY(runtime::StreamRunner::Create(*native.device, *native.program));
  return runner.Run(leaves, call);
}

Result<std::vector<std::vector<Literal>>> RunNativeOnDevices(
    const NativeModule& native, std::span<const std::vector<Literal>> arguments) {
  if (arguments.size() == 1) {
    std::vector<std::vector<Literal>> results;
    results.push_back(TRY(RunNative(native, arguments[0])));
    return results;
  }
  if (!native.device->host_visible()) {
    return Unimplemented("a program for ", arguments.size(), " devices runs on processors alone");
  }
  std::vector<std::vector<Literal>> leaves(arguments.size());
  for (size_t d = 0; d < arguments.size(); ++d) {
    for (const Literal& argument : arguments[d]) inspect::AppendArrays(argument, leaves[d]);
  }
  return runtime::LiteralRunner(*native.program).RunOnDevices(leaves, {});
}

}  // namespace weft::tools
