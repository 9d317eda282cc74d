// Follows the compilation of one module: lines for WEFT_DEBUG=3 and 4, files for WEFT_DUMP, a
// record for reports.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "compiler/lower/compile.h"
#include "compiler/pipeline.h"
#include "hlo/module.h"
#include "inspect/dump_folder.h"
#include "inspect/report.h"
#include "runtime/device.h"

namespace weft::inspect {

class CompileWatch {
 public:
  // `dump`: the folder that gets one of its own for this module; empty: no files. `options`: what
  // the command in REPRO says, as --options=... `report`: gets a record of the module when the
  // watch ends; null: none is kept.
  CompileWatch(const hlo::Module& input, const std::string& dump, const std::string& options,
               ReportFile* report = nullptr);
  ~CompileWatch();
  CompileWatch(const CompileWatch&) = delete;

  // Passes that changed something: a line at level 3 (tag "pass"), a numbered file.
  compiler::RunnerHooks Hooks();
  // The Program: program.txt, and standard error at level 4 (tag "code"); copies that it makes: a
  // line at level 2 (tag "copies"), copies.txt with the reasons.
  void Lowered(const compiler::Compiled& compiled);
  // Likewise for generated code; null when nobody asked for it.
  std::function<void(std::string_view name, std::string_view text)> ShowCode();

  // The code is there: what comes is no more of the compilation. By itself where the watch ends.
  void Finished();

  // Once the flag is set, passes and code generation end with an error. Null: never.
  void CancelBy(const std::atomic<bool>* cancel) { cancel_ = cancel; }
  const std::atomic<bool>* cancel() const { return cancel_; }
  // How far code generation is, for the line that a terminal shows of a compilation that takes
  // long; null when nobody sees it.
  std::function<void(int64_t done, int64_t of)> ShowProgress();

  const std::optional<DumpFolder>& folder() const { return folder_; }
  ProgramRecord* record() { return record_.get(); }  // null: nobody wants one

 private:
  void After(const compiler::PassRun& run, const hlo::Module& module);
  void Copies(std::span<const compiler::CopyNote> copies);
  std::string name_;
  std::optional<DumpFolder> folder_;
  ReportFile* const report_;
  std::shared_ptr<ProgramRecord> record_;
  std::vector<compiler::PassRun> passes_;  // for the folder
  const std::atomic<bool>* cancel_ = nullptr;
  Progress progress_;
};

}  // namespace weft::inspect
