// The sections of a program in a report, one function and one file each. All of them write keys of
// one JSON object; names, source lines and shapes are numbers of `words`.
#pragma once

#include <optional>
#include <vector>

#include "base/trace.h"
#include "inspect/json.h"
#include "inspect/report_record.h"

namespace weft::inspect {

void WritePasses(const ProgramRecord& record, Json& json);
void WriteFusions(const ProgramRecord& record, TextPool& words, Json& json);
void WriteSteps(const ProgramRecord& record, const trace::Capture* capture, TextPool& words,
                Json& json);
void WriteKernels(const ProgramRecord& record, TextPool& words, Json& json);
void WriteMemory(const ProgramRecord& record, TextPool& words, Json& json);
void WritePhases(const ProgramRecord& record, const trace::Capture* capture, Json& json);

// How long steps took: one by one where that was measured, else as recorded. By step.
std::vector<std::optional<StepTime>> StepTimesOf(const ProgramRecord& record,
                                                 const trace::Capture* capture);
// Executions of the program and the time of all of them.
struct RunTimes {
  int64_t count = 0;
  double seconds = 0;
};
RunTimes RunTimesOf(const ProgramRecord& record, const trace::Capture* capture);

void WriteLines(const LineRuns& runs, Json& json);

}  // namespace weft::inspect
