// The sections of a program in a report, one function and one file each. All of them write keys of
// one JSON object; names, source lines and shapes are numbers of `words`.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/trace.h"
#include "inspect/json.h"
#include "inspect/report_record.h"

namespace weft::inspect {

struct RunTimes {
  int64_t count = 0;
  double seconds = 0;
};
// What the sections ask of a capture, gathered in one go.
struct CaptureFacts {
  explicit CaptureFacts(const trace::Capture& capture);
  // Those of its name and signature; where none has that, all of its name.
  RunTimes RunsOf(const ProgramRecord& record) const;

  std::unordered_map<const trace::What*, RunTimes> steps;        // never iterated
  std::map<std::pair<std::string, std::string>, RunTimes> runs;  // by program and signature
  std::vector<trace::Event> compiles, phases;
};

// Lines of Python files, by "path:line"; each file is read once.
class SourceTexts {
 public:
  std::string Line(std::string_view place);  // empty: there is none

 private:
  std::map<std::string, std::vector<std::string>> files_;
};

void WritePasses(const ProgramRecord& record, Json& json);
void WriteFusions(const ProgramRecord& record, TextPool& words, Json& json);
void WriteSteps(const ProgramRecord& record, const CaptureFacts* facts, TextPool& words,
                Json& json);
void WriteKernels(const ProgramRecord& record, TextPool& words, Json& json);
void WriteMemory(const ProgramRecord& record, TextPool& words, Json& json);
void WritePhases(const ProgramRecord& record, const CaptureFacts* facts, Json& json);

// How long steps took: one by one where that was measured, else as recorded. By step.
std::vector<std::optional<StepTime>> StepTimesOf(const ProgramRecord& record,
                                                 const CaptureFacts* facts);
void WriteSources(const ProgramRecord& record, SourceTexts* sources, Json& json);

void WriteLines(const LineRuns& runs, Json& json);

}  // namespace weft::inspect
