// The rules of simplify over several ops, by family. Each looks at one instruction and what it
// reads and returns an instruction of the same value and shape, there before or newly added with
// `b`; null: no rule applies, and nothing was added.
#pragma once

#include "base/error.h"
#include "compiler/analysis/queries.h"
#include "compiler/passes/rewrite.h"
#include "hlo/builder.h"
#include "hlo/module.h"

namespace weft::compiler {

Result<hlo::Instruction*> SimplifyArithmetic(hlo::Instruction& i, hlo::Builder& b);
Result<hlo::Instruction*> SimplifyConvert(hlo::Instruction& i, hlo::Builder& b);
Result<hlo::Instruction*> SimplifyPredicates(hlo::Instruction& i, hlo::Builder& b);
Result<hlo::Instruction*> SimplifyChoices(hlo::Instruction& i, hlo::Builder& b);
Result<hlo::Instruction*> SimplifyMovement(hlo::Instruction& i, hlo::Builder& b);
Result<hlo::Instruction*> SimplifyMotion(hlo::Instruction& i, hlo::Builder& b);
Result<hlo::Instruction*> SimplifySlices(hlo::Instruction& i, hlo::Builder& b);
Result<hlo::Instruction*> SimplifyConcatenation(hlo::Instruction& i, hlo::Builder& b);
Result<hlo::Instruction*> SimplifyIndexing(hlo::Instruction& i, hlo::Builder& b);
Result<hlo::Instruction*> SimplifyUpdates(hlo::Instruction& i, hlo::Builder& b);
Result<hlo::Instruction*> SimplifyReductions(hlo::Instruction& i, hlo::Builder& b);
Result<hlo::Instruction*> SimplifyDots(hlo::Instruction& i, hlo::Builder& b);

}  // namespace weft::compiler
