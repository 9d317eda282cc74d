// Module -> Program: buffers, steps and kernels for one target.
#pragma once

#include <cstdint>
#include <string>
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

// A module as the pipeline leaves it. The program's parameters and results are the leaves of the
// entry's, in order; tokens have none. An op that has no lowering is UNIMPLEMENTED and names it.
Result<program::Program> Lower(const hlo::Module& module, const program::TargetInfo& target,
                               std::vector<CopyNote>* copies = nullptr,
                               std::vector<FusionNote>* not_fused = nullptr);

}  // namespace weft::compiler
