#include "inspect/compile_watch.h"

#include <chrono>
#include <cstdio>

#include "base/log.h"
#include "base/str.h"
#include "hlo/text.h"
#include "inspect/crash_report.h"
#include "inspect/report_notes.h"

namespace weft::inspect {
namespace {

constexpr int kPassLevel = 3, kCodeLevel = 4;
constexpr double kLongCompile = 2;  // seconds, from which on a terminal shows how far it is

void ShowText(std::string_view title, std::string_view text) {
  std::string out = StrCat("weft: code ", title, ":\n", text);
  if (!out.ends_with('\n')) out.push_back('\n');
  std::fwrite(out.data(), 1, out.size(), stderr);
}

int64_t SteadyNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string Milliseconds(double ms) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f ms", ms);
  return text;
}

}  // namespace

CompileWatch::CompileWatch(const hlo::Module& input, const std::string& dump,
                           const std::string& options, ReportFile* report)
    : name_(input.name()),
      report_(report),
      progress_(StrCat("compile ", name_), {.after = kLongCompile, .ticks = true}) {
  if (report_ != nullptr) {
    record_ = std::make_shared<ProgramRecord>();
    record_->begin = SteadyNanoseconds();
    record_->AddInput(input);
  }
  if (dump.empty()) return;
  Result<DumpFolder> folder = DumpFolder::Make(dump, name_);
  if (!folder) {
    LOG(warn) << "WEFT_DUMP: " << folder.error();
    return;
  }
  folder_ = std::move(*folder);
  folder_->WriteNumbered("input", hlo::PrintModule(input));
  std::string flag = options.empty() ? "" : StrCat(" --options=", options);
  folder_->WriteRepro(StrCat("weft run --check", flag, " 0000.input.hlo"));
}

CompileWatch::~CompileWatch() {
  Finished();
  if (record_ != nullptr) report_->Add(std::move(record_));
}

void CompileWatch::Finished() {
  if (record_ != nullptr && record_->end == 0) record_->end = SteadyNanoseconds();
}

void CompileWatch::After(const compiler::PassRun& run, const hlo::Module& module) {
  if (record_) record_->AddPass(run, module);
  if (folder_) passes_.push_back(run);
  if (!run.changed) return;
  NOTE("pass", kPassLevel) << "pass " << run.pass << " " << name_ << ": " << run.instructions_before
                           << " -> " << run.instructions_after << " instructions, "
                           << Milliseconds(run.milliseconds);
  if (folder_) folder_->WriteNumbered(run.pass, hlo::PrintModule(module));
}

compiler::RunnerHooks CompileWatch::Hooks() {
  compiler::RunnerHooks hooks;
  hooks.before = [this](const compiler::Pass& pass, const hlo::Module&) -> Status {
    if (cancel_ != nullptr && *cancel_) {
      return MakeError(Code::kCancelled, "compile ", name_, ": cancelled before pass ", pass.name);
    }
    if (progress_.shows()) progress_.Say(StrCat("pass ", pass.name));
    return ProvokeCrash(pass.name);
  };
  hooks.after = [this](const compiler::PassRun& run, const hlo::Module& module) {
    After(run, module);
  };
  return hooks;
}

void CompileWatch::Copies(std::span<const compiler::CopyNote> copies) {
  if (copies.empty()) return;
  int64_t bytes = 0, in_loops = 0;
  std::string text;
  for (const compiler::CopyNote& copy : copies) {
    bytes += copy.bytes;
    in_loops += copy.in_loop;
    StrAppend(text, ToString(copy), "\n");
  }
  NOTE("copies", 2) << "copies " << name_ << ": " << copies.size() << " of " << bytes << " bytes, "
                    << in_loops << " in loops";
  if (folder_) folder_->Write("copies.txt", text);
}

void CompileWatch::Lowered(const compiler::Compiled& compiled) {
  Copies(compiled.copies);
  if (record_) record_->AddLowered(compiled);
  if (folder_) {
    folder_->Write("notes.tsv", PrintNotes(passes_, compiled.copies, compiled.not_fused));
  }
  bool shown = detail::LogIsOn("code", kCodeLevel);
  if (!folder_ && !shown) return;
  std::string text = program::Print(compiled.program);
  if (folder_) folder_->Write("program.txt", text);
  if (shown) ShowText(StrCat(name_, " program.txt"), text);
}

std::function<void(int64_t, int64_t)> CompileWatch::ShowProgress() {
  if (!progress_.shows()) return nullptr;
  progress_.Say("code generation");
  return [this](int64_t done, int64_t of) { progress_.Say(done, of, "modules of code"); };
}

std::function<void(std::string_view, std::string_view)> CompileWatch::ShowCode() {
  bool shown = detail::LogIsOn("code", kCodeLevel);
  if (!folder_ && !shown && record_ == nullptr) return nullptr;
  return [this, shown](std::string_view name, std::string_view text) {
    if (record_) record_->code.emplace_back(name, text);
    if (folder_) folder_->Write(name, text);
    if (shown) ShowText(StrCat(name_, " ", name), text);
  };
}

}  // namespace weft::inspect
