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
  RunTimes RunsOf(const std::string& program) const;

  std::unordered_map<const trace::What*, RunTimes> steps;  // never iterated
  std::map<std::string, RunTimes> runs;                    // executions by program
  std::vector<trace::Event> compiles, phases;
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
void WriteLines(const LineRuns& runs, Json& json);

}  // namespace weft::inspect
