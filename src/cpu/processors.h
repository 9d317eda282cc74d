// What is peculiar to some processors, by LLVM's names of them.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "cpu/render/ir_text.h"
#include "program/target.h"

namespace weft::cpu {

inline bool IsOneOf(std::string_view cpu, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), cpu) != names.end();
}

// Lanes are loaded faster one by one than by the instruction for it: what keeps programs from
// seeing lanes of others (Gather Data Sampling, 2023) made that several times as slow.
inline bool GathersSlowly(std::string_view cpu) {
  return IsOneOf(cpu, {"skylake", "skylake-avx512", "cascadelake", "cooperlake", "cannonlake",
                       "icelake-client", "icelake-server", "rocketlake", "tigerlake"});
}

// No decoded instructions are kept of 32 bytes that a jump crosses or ends, since a correction of
// 2019: they are decoded in every round of a loop.
inline bool DecodesJumpsAgain(std::string_view cpu) {
  return IsOneOf(cpu, {"skylake", "skylake-avx512", "cascadelake"});
}

// What is larger than the caches is written 5 to 20 % sooner in vectors of 32 bytes than of 64.
inline bool WritesNarrowSooner(std::string_view cpu) {
  return IsOneOf(cpu, {"skylake-avx512", "cascadelake", "cooperlake"});
}

// A few vectors of 64 bytes, and the core runs up to 15 % more slowly for most of a millisecond.
inline bool IsSlowAfterWide(std::string_view cpu) {
  return IsOneOf(cpu, {"skylake-avx512", "cascadelake", "cooperlake"});
}

inline RenderTarget RenderTargetOf(const program::TargetInfo& target) {
  RenderTarget render;
  if (target.arch == "aarch64") {
    // Exact; code for CPUs without the instruction does the same with integers.
    render.bf16_conversion = true;
    render.arm_division = true;
    render.quick_adds = true;
    render.casts_lanes = true;
    render.scalar_gathers = true;
  }
  render.slow_gathers = GathersSlowly(target.name);
  render.narrow_moves = WritesNarrowSooner(target.name);
  render.slow_after_wide = IsSlowAfterWide(target.name);
  return render;
}

}  // namespace weft::cpu
