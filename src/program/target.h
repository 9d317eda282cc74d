// What the compiler knows about the machine it compiles for. Plain data, so that programs for any
// target can be made and tested on any machine; a device at hand fills one in from what it finds.
#pragma once

#include <cstdint>
#include <string>

namespace weft::program {

enum class TargetKind : uint8_t { kCpu, kGpu };

struct TargetInfo {
  TargetKind kind = TargetKind::kCpu;
  std::string name;      // "neoverse-v1", "sm_90a": what the code generator is told
  std::string features;  // "+bf16,+i8mm,-sve": likewise
  int64_t cores = 1;     // CPU cores, or SMs
  int64_t vector_bits = 128;
  int64_t vector_registers = 32;
  int64_t l1_bytes = 32 << 10;  // per core
  int64_t l2_bytes = 1 << 20;   // per core on CPUs, in all on GPUs
  int64_t l3_bytes = 0;         // in all
  int64_t cache_line = 64;
  int64_t memory_bytes = int64_t{1} << 32;
  double bytes_per_second = 20e9;  // of memory, all cores
  double f32_flops = 50e9;         // all cores, without matrix units
  double bf16_matrix_flops = 0;    // 0: no matrix units
  double launch_seconds = 1e-6;    // what one more step costs
  bool fast_bf16 = false;          // arithmetic, not only conversions
  bool slow_subnormals = false;    // results below the normal numbers take a hundred times as long

  // GPUs.
  int64_t warp = 1;              // threads in lockstep
  int64_t max_threads = 1;       // of a block
  int64_t threads_per_core = 1;  // resident on an SM
  int64_t shared_bytes = 0;      // of a block, at most
  int64_t shared_bytes_per_core = 0;
  int64_t registers_per_core = 0;

  bool operator==(const TargetInfo&) const = default;

  static TargetInfo GenericCpu() { return {}; }
  static TargetInfo H200();
};

inline TargetInfo TargetInfo::H200() {
  TargetInfo t;
  t.kind = TargetKind::kGpu;
  t.name = "sm_90a";
  t.cores = 132;
  t.vector_bits = 128;
  t.vector_registers = 255;
  t.l1_bytes = 256 << 10;
  t.l2_bytes = int64_t{60} << 20;
  t.cache_line = 128;
  t.memory_bytes = int64_t{139} << 30;
  t.bytes_per_second = 4.3e12;
  t.f32_flops = 60e12;
  t.bf16_matrix_flops = 790e12;
  t.launch_seconds = 2e-6;
  t.fast_bf16 = true;
  t.warp = 32;
  t.max_threads = 1024;
  t.threads_per_core = 2048;
  t.shared_bytes = 227 << 10;
  t.shared_bytes_per_core = 228 << 10;
  t.registers_per_core = 65536;
  return t;
}

}  // namespace weft::program
