// Modules compiled for a device and run there: this machine's processor, or another (device.h).
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/literal.h"
#include "compiler/options.h"
#include "hlo/module.h"
#include "inspect/compile_watch.h"
#include "runtime/device.h"

namespace weft::tools {

// A module with its code.
struct NativeModule {
  std::shared_ptr<runtime::Device> device;
  std::unique_ptr<hlo::Module> module;  // as the passes left it
  std::unique_ptr<runtime::LoadedProgram> program;
};
struct NativeHooks {
  inspect::CompileWatch* watch = nullptr;
  // Told what comes next: "pass fuse", "lowering", "code generation".
  std::function<void(std::string_view)> stage = nullptr;
  std::shared_ptr<runtime::Device> device = nullptr;  // null: the processor
};
Result<NativeModule> CompileNative(const hlo::Module& module,
                                   const compiler::CompileOptions& options,
                                   const NativeHooks& hooks = {});

// Arguments as the module takes them; results as leaves. `call`: hooks. On devices whose memory the
// host does not see: by a stream of its own.
Result<std::vector<Literal>> RunNative(const NativeModule& native,
                                       const std::vector<Literal>& arguments,
                                       const runtime::Call& call = {});
// The same on all devices of the program; other devices than the processor take programs for one.
Result<std::vector<std::vector<Literal>>> RunNativeOnDevices(
    const NativeModule& native, std::span<const std::vector<Literal>> arguments);

}  // namespace weft::tools
