// How long operations take on CPUs, whatever their TargetInfo says.
#pragma once

#include <cstdint>

namespace weft::program {

// Cycles from the operands to the result, about, on cores since Skylake and Neoverse N1.
struct OpLatency {
  static constexpr int64_t kArithmetic = 4;  // +, -, * of floats, contracted or not
  static constexpr int64_t kDivision = 12;   // of floats, and square roots
  static constexpr int64_t kOther = 2;
};

}  // namespace weft::program
