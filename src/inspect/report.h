// The report: one HTML page with what the compiler did with programs and how they ran. The page
// (report/page.*) is embedded; the facts are JSON in script elements beside it. docs/report.md.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "base/trace.h"
#include "inspect/report_record.h"
#include "program/target.h"
#include "runtime/profile.h"

namespace weft::inspect {

// The machine that programs ran on, and what it does at best.
struct ReportMachine {
  program::TargetInfo target;
  runtime::Roofline measured;  // 0: not measured
  int64_t threads = 0;
};

// What a page is made of.
struct ReportInput {
  std::string title;    // "weft run --bench 20 model.hlo"
  std::string version;  // of Weft
  std::optional<ReportMachine> machine;
  std::vector<std::shared_ptr<const ProgramRecord>> programs;
  // Lines of Python files that steps name are quoted. Not for modules of others: those may name any
  // file.
  bool quotes_sources = false;
  int64_t left_out = 0;  // programs beyond what a page takes
  std::optional<trace::Capture> capture;
};

struct CaptureFacts;  // report_sections.h
class SourceTexts;

// The parts, each a JSON text. `facts`: of what was recorded,
// `sources`: that it may quote; both may be null. `program`: what is known
// of one but its code; `code`: its files.
std::string ReportIndexJson(const ReportInput& input, const CaptureFacts* facts);
std::string ReportProgramJson(const ProgramRecord& record, const CaptureFacts* facts,
                              SourceTexts* sources = nullptr);
std::string ReportCodeJson(const ProgramRecord& record);
std::string ReportTimelineJson(const trace::Capture& capture);

std::string ReportPage(const ReportInput& input);
// In the place of the file that is there, whole or not at all.
Status WriteReport(const ReportInput& input, const std::string& path);

// One program from a folder that WEFT_DUMP filled, or all of those in the folder above.
Result<std::vector<std::shared_ptr<const ProgramRecord>>> ReadDump(const std::string& path);

// Records while it lives: what compiles (CompileWatch) and, through base/trace.h, what runs.
// Writes the page when asked to, and where programs come in for long now and then: a process that
// is killed leaves one. May be used by several threads.
class ReportFile {
 public:
  ReportFile(std::string path, std::string title, std::string version);
  void SetMachine(ReportMachine machine) WEFT_EXCLUDES(mutex_);
  void QuoteSources() WEFT_EXCLUDES(mutex_);
  void Add(std::shared_ptr<const ProgramRecord> record) WEFT_EXCLUDES(mutex_);
  // By the process that began it: a forked one leaves the file alone.
  Status Write() WEFT_EXCLUDES(mutex_);

 private:
  Status WriteLocked() WEFT_REQUIRES(mutex_);
  const std::string path_;
  const int64_t process_;
  Mutex mutex_;
  ReportInput input_ WEFT_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point due_ WEFT_GUARDED_BY(mutex_);
  trace::Session session_;
};

}  // namespace weft::inspect
