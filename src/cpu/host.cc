// This machine: what sysfs and the code generator know.
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>

#include "base/cores.h"
#include "base/file.h"
#include "base/str.h"
#include "cpu/device.h"
#include "cpu/llvm/llvm.h"

namespace weft::cpu {
namespace {

std::string ReadWord(const std::string& path) {
  auto text = ReadFile(path, 1 << 12);
  if (!text) return "";
  return text->substr(0, text->find_first_of(" \n"));
}

// "48K", "32M"
int64_t ParseSize(const std::string& text) {
  if (text.empty()) return 0;
  int64_t unit = text.back() == 'K' ? 1 << 10 : text.back() == 'M' ? 1 << 20 : 1;
  std::optional<int64_t> n = ParseInt(unit == 1 ? text : text.substr(0, text.size() - 1));
  return n ? *n * unit : 0;
}

void FindCaches(program::TargetInfo& info) {
  for (int i = 0; i < 8; ++i) {
    std::string folder = StrCat("/sys/devices/system/cpu/cpu0/cache/index", i, "/");
    std::string level = ReadWord(folder + "level");
    if (level.empty()) return;
    if (ReadWord(folder + "type") == "Instruction") continue;
    int64_t bytes = ParseSize(ReadWord(folder + "size"));
    if (bytes <= 0) continue;
    if (level == "1") info.l1_bytes = bytes;
    if (level == "2") info.l2_bytes = bytes;
    if (level == "3") info.l3_bytes = bytes;
    std::optional<int64_t> line = ParseInt(ReadWord(folder + "coherency_line_size"));
    if (line && *line > 0) info.cache_line = *line;
  }
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
  FindCaches(info);
  int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
  if (pages > 0 && page > 0) info.memory_bytes = pages * page;
  // A rough guess, for choices that do not need more: two FMAs a cycle at 2.5 GHz.
  double lanes = static_cast<double>(info.vector_bits) / 32;
  info.f32_flops = static_cast<double>(info.cores) * 2.5e9 * lanes * 4;
  info.bytes_per_second = std::min(20e9 * static_cast<double>(info.cores), 200e9);
  return info;
}

}  // namespace weft::cpu
