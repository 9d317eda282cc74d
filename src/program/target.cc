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
  t.matrix_tiles = true;
  t.bf16_matrix_flops = 16 * kTileFlopsOfCore;
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

// The others differ from the H200 in their figures, which are those that NVIDIA states; memory is
// taken to give nine tenths of its bandwidth, as the H200's does.
TargetInfo TargetInfo::A100() {
  TargetInfo t = H200();
  t.name = "sm_80";
  t.cores = 108;
  t.l1_bytes = 192 << 10;
  t.l2_bytes = int64_t{40} << 20;
  t.memory_bytes = int64_t{79} << 30;
  t.bytes_per_second = 1.8e12;
  t.f32_flops = 19.5e12;
  t.bf16_matrix_flops = 312e12;
  t.shared_bytes = 163 << 10;
  t.shared_bytes_per_core = 164 << 10;
  return t;
}

TargetInfo TargetInfo::B200() {
  TargetInfo t = H200();
  t.name = "sm_100a";
  t.cores = 148;
  t.l2_bytes = int64_t{126} << 20;
  t.memory_bytes = int64_t{178} << 30;
  t.bytes_per_second = 7.2e12;
  t.f32_flops = 75e12;
  t.bf16_matrix_flops = 2250e12;
  return t;
}

TargetInfo TargetInfo::Rtx5090() {
  TargetInfo t = H200();
  t.name = "sm_120a";
  t.cores = 170;
  t.l1_bytes = 128 << 10;
  t.l2_bytes = int64_t{96} << 20;
  t.memory_bytes = int64_t{31} << 30;
  t.bytes_per_second = 1.6e12;
  t.f32_flops = 105e12;
  t.bf16_matrix_flops = 210e12;
  t.threads_per_core = 1536;
  t.shared_bytes = 99 << 10;
  t.shared_bytes_per_core = 100 << 10;
  return t;
}

std::span<const NamedTarget> NamedTargets() {
  static constexpr NamedTarget kTargets[] = {
      {"generic", TargetInfo::GenericCpu}, {"cpu-avx512", TargetInfo::CpuAvx512},
      {"cpu-neon", TargetInfo::CpuNeon},   {"a100", TargetInfo::A100},
      {"h200", TargetInfo::H200},          {"b200", TargetInfo::B200},
      {"rtx5090", TargetInfo::Rtx5090}};
  return kTargets;
}

}  // namespace weft::program
