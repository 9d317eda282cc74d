// How far analyses look before they say "unknown": bounds of compile time, met by few programs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "program/work_bounds.h"

namespace weft::compiler {

// Operations behind each other, one operand followed.
inline constexpr int kMaxChain = program::WorkBounds::kPath;
// The same where all operands are followed.
inline constexpr int kMaxTree = program::WorkBounds::kTree;
// Candidates of one hash, or for one question: attributes that a hash leaves out could make it very
// many.
inline constexpr int kMaxBucket = program::WorkBounds::kCandidates;
inline constexpr int64_t kMaxLookedAt = program::WorkBounds::kLiteral;  // elements of a constant
// Of a module, or of a search through one.
inline constexpr int64_t kMaxInstructions = program::WorkBounds::kModule;

}  // namespace weft::compiler
