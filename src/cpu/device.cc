#include "cpu/device.h"

#include <utility>

#include "cpu/native_program.h"
#include "cpu/processors.h"

namespace weft::cpu {
namespace {

class CpuDevice : public runtime::Device {
 public:
  explicit CpuDevice(program::TargetInfo target)
      : target_(std::move(target)),
        compilers_(std::make_shared<CompilerPool>(CodeTarget{target_.name, target_.features})) {
#if defined(__aarch64__)
    // Exact; code for CPUs without the instruction does the same with integers.
    render_.bf16_conversion = true;
    render_.arm_division = true;
    render_.quick_adds = true;
    render_.casts_lanes = true;
    render_.scalar_gathers = true;
#endif
    render_.slow_gathers = GathersSlowly(target_.name);
    render_.narrow_moves = WritesNarrowSooner(target_.name);
    render_.slow_after_wide = IsSlowAfterWide(target_.name);
  }

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

bool IsAvailable() {
  return HasLlvm();
}

Result<std::unique_ptr<runtime::Device>> CreateDevice() {
  if (!HasLlvm()) return Unimplemented("cpu: this build has no LLVM");
  return std::make_unique<CpuDevice>(HostTarget());
}

}  // namespace weft::cpu
