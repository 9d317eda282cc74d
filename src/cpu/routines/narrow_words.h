// Rows of narrow elements interleaved to words: the bytes that an instruction takes of one vector,
// 4 for a lane of x86, 8 for a row or a column of arm64's matrix instructions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/routines/machine.h"

namespace weft::cpu {

inline constexpr int kMostOfWord = SquareInstructions::kRowBytes;  // elements

// The last two are words of 8 bytes: four of two bytes, or eight bytes.
enum class Words : uint8_t { kPairs, kQuads, kSignedPairs, kUnsignedPairs, kFours, kEights };

constexpr int64_t WordBytes(Words form) {
  return form == Words::kFours || form == Words::kEights ? 8 : 4;
}

// The words of one row of panels: `count` vectors, `width` a panel, panels so many bytes apart.
struct WordRun {
  Words form;
  int64_t count, width, panel;
};

// The words of `count` vectors that lie beside each other: rows[q] has element q of each of them,
// for kMostOfWord rows. Zeroes for what the last panel has beyond.
void InterleaveRows(const WordRun& run, const std::byte* const* rows, std::byte* out);

}  // namespace weft::cpu
