// This machine: what sysfs and the code generator know.
#include <unistd.h>

#include <algorithm>

#include "base/cores.h"
#include "cpu/device.h"
#include "cpu/llvm/llvm.h"
#include "cpu/routines/machine.h"

namespace weft::cpu {
namespace {

// What sysfs does not tell stays as TargetInfo has it.
void SetCaches(program::TargetInfo& info) {
  const CacheSizes& sizes = HostCaches();
  if (sizes.l1 > 0) info.l1_bytes = sizes.l1;
  if (sizes.l2 > 0) info.l2_bytes = sizes.l2;
  if (sizes.l3 > 0) info.l3_bytes = sizes.l3;
  if (sizes.line > 0) info.cache_line = sizes.line;
}

}  // namespace

program::TargetInfo HostTarget() {
  program::TargetInfo info;
  CodeTarget target = HostCodeTarget();
  info.name = target.cpu;
  info.features = target.features;
  info.cores = AvailableCores();
#if defined(__aarch64__)
  info.arch = "aarch64";
#elif defined(__x86_64__)
  info.arch = "x86_64";
  info.vector_registers = 16;
  info.slow_subnormals = true;
  if (__builtin_cpu_supports("avx2")) info.vector_bits = 256;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) {
    info.vector_bits = 512;
    info.vector_registers = 32;
  }
#endif
  SetCaches(info);
  int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
  if (pages > 0 && page > 0) info.memory_bytes = pages * page;
  // A rough guess, for choices that do not need more: two FMAs a cycle at 2.5 GHz.
  double lanes = static_cast<double>(info.vector_bits) / 32;
  info.f32_flops = static_cast<double>(info.cores) * 2.5e9 * lanes * 4;
  info.matrix_tiles = HostFeatures().amx_bf16;
  if (info.matrix_tiles) {
    info.bf16_matrix_flops = static_cast<double>(info.cores) * info.kTileFlopsOfCore;
  }
  info.bytes_per_second = std::min(20e9 * static_cast<double>(info.cores), 200e9);
  return info;
}

}  // namespace weft::cpu
