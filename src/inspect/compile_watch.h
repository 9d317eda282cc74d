// Follows the compilation of one module: lines for WEFT_DEBUG=3 and 4, files for WEFT_DUMP.
#pragma once

#include <atomic>
#include <optional>
#include <span>
#include <string>

#include "base/progress.h"
#include "compiler/lower/lower.h"
#include "compiler/pipeline.h"
#include "hlo/module.h"
#include "inspect/dump_folder.h"
#include "program/program.h"
#include "runtime/device.h"

namespace weft::inspect {

class CompileWatch {
 public:
  // `dump`: the folder that gets one of its own for this module; empty: no files. `options`: what
  // the command in REPRO says, as --options=...
  CompileWatch(const hlo::Module& input, const std::string& dump, const std::string& options);

  // Passes that changed something: a line at level 3 (tag "pass"), a numbered file.
  compiler::RunnerHooks Hooks();
  // Copies that the program makes: a line at level 2 (tag "copies"), copies.txt with the reasons.
  void Copies(std::span<const compiler::CopyNote> copies);
  // The Program: program.txt, and standard error at level 4 (tag "code").
  void Lowered(const program::Program& program);
  // Likewise for generated code; null when nobody asked for it.
  std::function<void(std::string_view name, std::string_view text)> ShowCode();

  // Once the flag is set, passes and code generation end with an error. Null: never.
  void CancelBy(const std::atomic<bool>* cancel) { cancel_ = cancel; }
  const std::atomic<bool>* cancel() const { return cancel_; }
  // How far code generation is, for the line that a terminal shows of a compilation that takes
  // long; null when nobody sees it.
  std::function<void(int64_t done, int64_t of)> ShowProgress();

  const std::optional<DumpFolder>& folder() const { return folder_; }

 private:
  void After(const compiler::PassRun& run, const hlo::Module& module);
  std::string name_;
  std::optional<DumpFolder> folder_;
  const std::atomic<bool>* cancel_ = nullptr;
  Progress progress_;
};

}  // namespace weft::inspect
