#include "inspect/report.h"

#include <unistd.h>

#include <algorithm>

#include "base/log.h"
#include "base/str.h"
#include "inspect/memory_timeline.h"
#include "inspect/report_sections.h"

namespace weft::inspect {
namespace {

constexpr size_t kMostPrograms = 2000;
// Between two times that the page is written: at least so long, and so many times what it took.
constexpr std::chrono::seconds kBetween(30);
constexpr int kTimesWriting = 30;
constexpr size_t kMostCode = 16 << 20;  // bytes of a program's code that a page takes

void WriteTexts(const TextPool& pool, std::string_view key, Json& json) {
  json.Key(key);
  json.Open('[');
  for (const std::string* text : pool.texts()) json.Text(*text);
  json.Close(']');
}

void WriteMachine(const ReportMachine& machine, Json& json) {
  json.Key("machine");
  json.Open('{');
  json.Key("name", machine.target.name);
  json.Key("arch", machine.target.arch);
  json.Key("cores", machine.target.cores);
  json.Key("threads", machine.threads);
  json.Key("vector_bits", machine.target.vector_bits);
  json.Key("l2_bytes", machine.target.l2_bytes);
  json.Key("flops", machine.target.f32_flops);
  json.Key("bytes", machine.target.bytes_per_second);
  json.Key("measured_flops", machine.measured.flops_per_second);
  json.Key("measured_bytes", machine.measured.bytes_per_second);
  json.Close('}');
}

// A row of the list of programs.
void WriteSummary(const ProgramRecord& record, const CaptureFacts* facts, Json& json) {
  json.Open('{');
  json.Key("name", record.name);
  json.Key("compile_ms", static_cast<double>(record.end - record.begin) * 1e-6);
  const RunTimes runs = facts != nullptr ? facts->RunsOf(record) : RunTimes();
  json.Key("runs", runs.count);
  json.Key("seconds", runs.seconds);
  json.Key("native", int64_t{record.program.has_value()});
  if (record.program) {
    const MemoryTimeline memory = TimelineOf(*record.program);
    json.Key("steps", memory.steps);
    json.Key("peak", memory.peak);
  }
  json.Close('}');
}

}  // namespace

std::string ReportIndexJson(const ReportInput& input, const CaptureFacts* facts) {
  Json json;
  json.Open('{');
  json.Key("title", input.title);
  json.Key("version", input.version);
  if (input.machine) WriteMachine(*input.machine, json);
  json.Key("timeline", int64_t{input.capture.has_value()});
  json.Key("left_out", input.left_out);
  json.Key("programs");
  json.Open('[');
  for (const auto& program : input.programs) WriteSummary(*program, facts, json);
  json.Close(']');
  json.Close('}');
  return json.Take();
}

std::string ReportProgramJson(const ProgramRecord& record, const CaptureFacts* facts,
                              SourceTexts* sources) {
  Json json;
  TextPool words;
  json.Open('{');
  json.Key("name", record.name);
  json.Key("origin", record.origin);
  json.Key("run_seconds", record.run_seconds);
  json.Key("why_not_run", record.why_not_run);
  WritePasses(record, json);
  WriteFusions(record, words, json);
  WriteSteps(record, facts, words, json);
  WriteKernels(record, words, json);
  WriteMemory(record, words, json);
  WritePhases(record, facts, json);
  WriteSources(record, sources, json);
  json.Key("code_files");
  json.Open('[');
  for (const auto& [name, text] : record.code) {
    json.Open('[');
    json.Text(name);
    json.Int(std::ssize(text));
    json.Close(']');
  }
  json.Close(']');
  WriteTexts(record.texts, "lines", json);
  WriteTexts(words, "words", json);
  json.Close('}');
  return json.Take();
}

std::string ReportCodeJson(const ProgramRecord& record) {
  Json json;
  size_t room = kMostCode;
  json.Open('{');
  for (const auto& [name, text] : record.code) {
    if (text.size() > room) continue;
    room -= text.size();
    json.Key(name, text);
  }
  json.Close('}');
  return json.Take();
}

ReportFile::ReportFile(std::string path, std::string title, std::string version)
    : path_(std::move(path)),
      process_(getpid()),
      due_(std::chrono::steady_clock::now() + kBetween) {
  input_.title = std::move(title);
  input_.version = std::move(version);
}

void ReportFile::SetMachine(ReportMachine machine) {
  MutexLock lock(mutex_);
  if (!input_.machine) input_.machine = std::move(machine);
}

void ReportFile::QuoteSources() {
  MutexLock lock(mutex_);
  input_.quotes_sources = true;
}

void ReportFile::Add(std::shared_ptr<const ProgramRecord> record) {
  MutexLock lock(mutex_);
  if (input_.programs.size() < kMostPrograms) {
    input_.programs.push_back(std::move(record));
  } else {
    ++input_.left_out;
  }
  if (std::chrono::steady_clock::now() < due_) return;
  if (Status written = WriteLocked(); !written) {
    LOG(warn) << "report: " << written.error();
  }
}

Status ReportFile::Write() {
  MutexLock lock(mutex_);
  return WriteLocked();
}

Status ReportFile::WriteLocked() {
  if (getpid() != process_) return {};
  const auto begin = std::chrono::steady_clock::now();
  input_.capture = session_.Take();
  Status written = WriteReport(input_, path_);
  input_.capture.reset();
  const auto end = std::chrono::steady_clock::now();
  due_ =
      end + std::max<std::chrono::steady_clock::duration>(kBetween, kTimesWriting * (end - begin));
  return written;
}

}  // namespace weft::inspect
