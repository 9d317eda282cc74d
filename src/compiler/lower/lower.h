// Module -> Program: buffers, steps and kernels for one target.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "compiler/fusion_note.h"
#include "compiler/options.h"
#include "hlo/module.h"
#include "program/program.h"
#include "program/target.h"

namespace weft::compiler {

// A copy that the program makes, and why it cannot do without.
struct CopyNote {
  std::string name, source, reason;
  int64_t bytes = 0;
  bool in_loop = false;
};
// "copy of 4096 bytes in a loop, at while.3 (model.py:12): ..."
std::string ToString(const CopyNote& copy);

// A row of the target's table (table.h), and what it says about an instruction.
struct RowVerdict {
  std::string_view row, reason;
  std::string figures = {};  // of the cost model, where it decides
};
// How an instruction was lowered: the row that took it, and those before that refused.
struct LoweringChoice {
  std::string name, source;
  RowVerdict taken;
  std::vector<RowVerdict> refused;
  std::vector<std::string> steps;  // that came of it, but for those inside of other steps
};
// "fusion.3 (model.py:12): loop: ..." and a line for each row that refused.
std::string ToString(const LoweringChoice& choice);

// What lowering tells besides the program.
struct LowerNotes {
  std::vector<CopyNote> copies;
  std::vector<FusionNote> not_fused;
  std::vector<LoweringChoice>* choices = nullptr;  // where somebody asks
};

// A module as the pipeline leaves it. The program's parameters and results are the leaves of the
// entry's, in order; tokens have none. An op that has no lowering is UNIMPLEMENTED and names it.
Result<program::Program> Lower(const hlo::Module& module, const program::TargetInfo& target,
                               LowerNotes* notes = nullptr, const LowerOptions& options = {});

}  // namespace weft::compiler
