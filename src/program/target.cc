// Presets: machines by name.
#include "program/target.h"

namespace weft::program {

TargetInfo TargetInfo::CpuAvx512() {
  TargetInfo t;
  t.arch = "x86_64";
  t.name = "sapphirerapids";
  t.cores = 16;
  t.vector_bits = 512;
  t.l1_bytes = 48 << 10;
  t.l2_bytes = 2 << 20;
  t.l3_bytes = int64_t{100} << 20;
  t.memory_bytes = int64_t{128} << 30;
  t.bytes_per_second = 200e9;
  t.f32_flops = 2.5e12;
  t.slow_subnormals = true;
  return t;
}

TargetInfo TargetInfo::CpuNeon() {
  TargetInfo t;
  t.arch = "aarch64";
  t.name = "neoverse-v1";
  t.cores = 2;
  t.l1_bytes = 64 << 10;
  t.l3_bytes = int64_t{32} << 20;
  t.memory_bytes = int64_t{16} << 30;
  t.bytes_per_second = 40e9;
  t.f32_flops = 80e9;
  return t;
}

TargetInfo TargetInfo::H200() {
  TargetInfo t;
  t.kind = TargetKind::kGpu;
  t.arch = "nvptx64";
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
  t.tf32 = true;
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

std::span<const NamedTarget> NamedTargets() {
  static constexpr NamedTarget kTargets[] = {{"generic", TargetInfo::GenericCpu},
                                             {"cpu-avx512", TargetInfo::CpuAvx512},
                                             {"cpu-neon", TargetInfo::CpuNeon},
                                             {"h200", TargetInfo::H200}};
  return kTargets;
}

}  // namespace weft::program
