// Cost model: what computing one element takes: for fusion and for cutting work into pieces.
#pragma once

#include "hlo/instruction.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::compiler {

// Elements of a reduction that is computed wherever its result is needed.
inline constexpr int64_t kShortReduce = program::CodeBounds::kWrittenOut;

// From so many on, elements that lie together in memory are reduced as vectors.
inline constexpr int64_t kVectorReduce = program::TargetFacts::kUsualLanes;

// Elements of a row; shorter ones are lanes, not rows.
inline constexpr int64_t kLeastRowElements = program::TargetFacts::kNarrowLanes;

// Terms of one element that are written out, not a loop.
inline constexpr int64_t kUnrolledTerms = program::CodeBounds::kTerms;

// Costs nothing worth counting: where an element comes from, not how it is computed.
bool IsFree(const hlo::Instruction& instruction);

// A gather of single elements, each at the place that the index with the same number says.
bool TakesElements(const hlo::Instruction& gather);

// In units of about a quarter nanosecond.
inline constexpr double kWorkPerSecond = program::TargetFacts::kWorkPerSecond;
inline constexpr double kCheapElement = 6;   // rather computed several times than kept
inline constexpr double kWorkOfValue = 0.2;  // of a number that is there already
double ElementCost(const hlo::Instruction& instruction);

}  // namespace weft::compiler
