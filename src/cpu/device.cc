#include "cpu/device.h"

#include <utility>

#include "base/str.h"
#include "cpu/native/compile.h"
#include "cpu/native/program.h"
#include "cpu/processors.h"
#include "runtime/host_device.h"

namespace weft::cpu {
namespace {

class CpuDevice : public runtime::HostDevice {
 public:
  explicit CpuDevice(program::TargetInfo target)
      : target_(std::move(target)),
        compilers_(std::make_shared<CompilerPool>(CodeTarget{target_.name, target_.features})),
        render_(RenderTargetOf(target_)) {}

  const program::TargetInfo& target() const override { return target_; }

  Result<std::unique_ptr<runtime::LoadedProgram>> Load(
      program::Program program, const runtime::LoadOptions& options) override {
    return NativeProgram::Load(std::move(program), options, compilers_, render_);
  }

 private:
  program::TargetInfo target_;
  std::shared_ptr<CompilerPool> compilers_;
  RenderTarget render_;
};

}  // namespace

Result<std::string> LlvmText(const program::Program& program, const program::TargetInfo& target) {
  RenderTarget render = RenderTargetOf(target);
  Plan plan = TRY(MakePlan(program, render));
  std::string text;
  for (const RenderedModule& module : RenderProgram(program, plan, render, 1, false)) {
    StrAppend(text, "; ", module.name, ".ll\n; passes: ", TRY(PassesOf(module)), "\n", module.text);
  }
  return text;
}

Result<std::string> AssemblyText(const program::Program& program, const program::TargetInfo& target,
                                 std::span<const std::string> disabled) {
  RenderTarget render = RenderTargetOf(target);
  Plan plan = TRY(MakePlan(program, render));
  std::unique_ptr<Compiler> compiler = TRY(Compiler::Create({target.name, target.features}));
  std::string text, assembly;
  for (const RenderedModule& module : RenderProgram(program, plan, render, 1, false)) {
    std::string passes = TRY(PassesOf(module, disabled));
    CodeEffort effort = module.loops ? CodeEffort::kLoops : CodeEffort::kKernels;
    TRY(compiler->Compile(module.text, passes, effort, &assembly, nullptr));
    StrAppend(text, "// ", module.name, ".s\n", assembly);
  }
  return text;
}

bool IsAvailable() {
  return HasLlvm();
}

Result<std::unique_ptr<runtime::Device>> CreateDevice() {
  if (!HasLlvm()) return Unimplemented("cpu: this build has no LLVM");
  return std::make_unique<CpuDevice>(HostTarget());
}

}  // namespace weft::cpu
