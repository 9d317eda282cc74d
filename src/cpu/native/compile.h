// Modules of text to object files: several threads, the cache.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "cpu/llvm/llvm.h"
#include "cpu/render/program.h"
#include "runtime/device.h"

namespace weft::cpu {

// Compilers for one target, kept for the next module. May be used by several threads.
class CompilerPool {
 public:
  explicit CompilerPool(CodeTarget target) : target_(std::move(target)) {}
  const CodeTarget& target() const { return target_; }
  Result<std::unique_ptr<Compiler>> Take() WEFT_EXCLUDES(mutex_);
  void GiveBack(std::unique_ptr<Compiler> compiler) WEFT_EXCLUDES(mutex_);

 private:
  const CodeTarget target_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Compiler>> idle_ WEFT_GUARDED_BY(mutex_);
};

// The pipeline of LLVM passes that the module is compiled with, without those of ours that are
// disabled. An error where there is none of that name.
Result<std::string> PassesOf(const RenderedModule& module,
                             std::span<const std::string> disabled = {});

// One object file for each module; counts what was made and found in `stats`. `program`: its name,
// for timelines.
Result<std::vector<std::string>> CompileModules(CompilerPool& pool, const std::string& program,
                                                const std::vector<RenderedModule>& modules,
                                                const runtime::LoadOptions& options,
                                                runtime::LoadStats& stats);

}  // namespace weft::cpu
