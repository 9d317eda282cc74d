// What a report knows of one program: plain data, filled in while it is compiled (compile_watch.h)
// or read from a folder of WEFT_DUMP (report_dump.cc).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/lower/compile.h"
#include "hlo/module.h"
#include "program/program.h"

namespace weft::inspect {

// Every text once, by number. Lines of modules are hardly ever new.
class TextPool {
 public:
  int64_t Id(std::string_view text);
  const std::vector<const std::string*>& texts() const { return texts_; }

 private:
  std::unordered_map<std::string, int64_t> ids_;  // never iterated
  std::vector<const std::string*> texts_;
};

// Numbers of lines as runs: first, count, first, count, ... Lines that were new together stay
// neighbours.
using LineRuns = std::vector<int64_t>;
LineRuns RunsOf(TextPool& pool, std::string_view text);

struct ComputationText {
  int64_t name = 0;
  LineRuns lines;
};
// A pass that ran; the first one stands for the module as it came.
struct PassRecord {
  std::string name;
  bool changed = true;
  double milliseconds = 0;
  int64_t before = 0, after = 0;              // instructions
  std::vector<ComputationText> changes = {};  // computations that are new or differ
  std::vector<int64_t> gone = {};             // names of those that are there no more
};

struct FusionRecord {
  std::string name, kind, source, shape;
  std::string ops;  // "tanh, reduce": what it computes
  int64_t members = 0;
};

// Of a step that ran: seconds in a whole run of the program, and how often it came in it.
struct StepTime {
  double seconds = 0;
  double count = 1;
};

struct ProgramRecord {
  std::string name;
  // "f32[8], f32[4] -> f32[8]": tells executions of programs of one name apart.
  std::string signature;
  std::string origin;  // the file or folder that it was read from
  TextPool texts;
  std::vector<PassRecord> passes;
  std::vector<FusionRecord> fusions;
  std::vector<compiler::FusionNote> not_fused;
  std::vector<compiler::CopyNote> copies;
  std::optional<program::Program> program;                // without the bytes of large constants
  std::vector<std::pair<std::string, std::string>> code;  // by the name of the file
  int64_t begin = 0, end = 0;  // of the compilation, nanoseconds of the steady clock
  std::vector<std::optional<StepTime>> times;  // by step (program::ForEachStep), one by one
  double run_seconds = 0;                      // the median of whole runs; 0: none was timed
  std::string why_not_run;

  // The module before the first pass, and after one that changed it.
  void AddInput(const hlo::Module& module);
  void AddPass(const compiler::PassRun& run, const hlo::Module& module);
  // What the passes left, and what became of it.
  void AddLowered(const compiler::Compiled& compiled);
  void SetProgram(program::Program lowered);
  void AddFusions(const hlo::Module& module);

 private:
  void AddTexts(const hlo::Module& module, PassRecord& pass);
  std::unordered_map<int64_t, LineRuns> now_;  // computations by name, as they are; never iterated
  std::vector<int64_t> order_;                 // of those
};

// "model.py:12" of "model.py:12 (jit(step)/mean)".
std::string_view LineOf(std::string_view source);

}  // namespace weft::inspect
