// How far analyses look before they say "unknown": bounds of compile time, met by few programs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::compiler {

inline constexpr int kMaxChain = 64;  // operations behind each other, one operand followed
inline constexpr int kMaxTree = 8;    // the same where all operands are followed
// Candidates of one hash, or for one question: attributes that a hash leaves out could make it very
// many.
inline constexpr int kMaxBucket = 32;
inline constexpr int64_t kMaxLookedAt = 1 << 16;        // elements of a constant
inline constexpr int64_t kMaxInstructions = 4'000'000;  // of a module, or of a search through one

}  // namespace weft::compiler
