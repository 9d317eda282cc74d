// Processor quirks (errata, slow gathers, AVX-512 frequency), by LLVM's names of the processors.
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

// Scalar loads are faster than the gather instruction: the microcode that mitigates Gather Data
// Sampling (Downfall, 2023) made it several times as slow.
inline bool HasSlowGathers(std::string_view cpu) {
  return IsOneOf(cpu, {"skylake", "skylake-avx512", "cascadelake", "cooperlake", "cannonlake",
                       "icelake-client", "icelake-server", "rocketlake", "tigerlake"});
}

// The jump conditional code erratum: since the microcode of 2019 no decoded instructions are kept
// of 32 bytes that a jump crosses or ends, so that they are decoded in every iteration of a loop.
inline bool HasJccErratum(std::string_view cpu) {
  return IsOneOf(cpu, {"skylake", "skylake-avx512", "cascadelake"});
}

// What is larger than the caches is written 5 to 20 % sooner in vectors of 32 bytes than of 64.
inline bool Prefers256BitStores(std::string_view cpu) {
  return IsOneOf(cpu, {"skylake-avx512", "cascadelake", "cooperlake"});
}

// AVX-512 frequency licences: after a few vectors of 64 bytes the core runs up to 15 % more slowly
// for most of a millisecond.
inline bool LowersFrequencyForAvx512(std::string_view cpu) {
  return IsOneOf(cpu, {"skylake-avx512", "cascadelake", "cooperlake"});
}

inline RenderTarget RenderTargetOf(const program::TargetInfo& target) {
  RenderTarget render{.latency = target.latency};
  if (target.arch == "aarch64") {
    // Exact; code for CPUs without the instruction does the same with integers.
    render.bf16_conversion = true;
    render.arm_division = true;
    render.add_faster_than_fma = true;
    render.casts_lanes = true;
    render.scalar_gathers = true;
  }
  render.slow_gathers = HasSlowGathers(target.name);
  render.prefer_256bit_stores = Prefers256BitStores(target.name);
  render.avx512_lowers_frequency = LowersFrequencyForAvx512(target.name);
  return render;
}

}  // namespace weft::cpu
