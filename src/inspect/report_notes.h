// notes.tsv of a dump folder: what a report says of a compilation beside modules and code. A line
// for each pass that ran, copy, and array that goes through memory; fields apart by tabs.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "compiler/lower/compile.h"
#include "inspect/report_record.h"

namespace weft::inspect {

std::string PrintNotes(std::span<const compiler::PassRun> passes,
                       std::span<const compiler::CopyNote> copies,
                       std::span<const compiler::FusionNote> not_fused);
// Lines that are none are left out. Passes come without texts.
void ReadNotes(std::string_view text, ProgramRecord& record);

}  // namespace weft::inspect
