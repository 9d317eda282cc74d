#include "cpu/routines/machine.h"

#include <optional>
#include <string>

#include "base/file.h"
#include "base/str.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace weft::cpu {
namespace {

#if defined(__x86_64__)
// State components of XCR0 that the system saves: AVX-512's three, and those of tiles.
constexpr uint64_t kAvx512State = 0xE6, kTileState = 3 << 17;

uint64_t EnabledState() {
  uint32_t low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t{high} << 32) | low;
}

// The tiles' data is large, and Linux saves it for processes that ask (since 5.16).
bool AskForTiles() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

ProcessorFeatures FindFeatures() {
  ProcessorFeatures f;
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & bit_OSXSAVE) == 0) return f;
  uint64_t state = EnabledState();
  f.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  f.avx512 = f.avx2 && (state & kAvx512State) == kAvx512State &&
             __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  unsigned a1 = 0, b1 = 0, c1 = 0, d1 = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return f;
  __get_cpuid_count(7, 1, &a1, &b1, &c1, &d1);
  constexpr unsigned kVnni = 1U << 11, kBf16 = 1U << 5;  // of ecx; of eax
  constexpr unsigned kAmxBf16 = 1U << 22, kAmxTile = 1U << 24, kAmxInt8 = 1U << 25;  // of edx
  f.avx512_vnni = f.avx512 && (c & kVnni) != 0;
  f.avx512_bf16 = f.avx512 && (a1 & kBf16) != 0;
  bool tiles = f.avx512 && (d & kAmxTile) != 0 && (state & kTileState) == kTileState;
  if (tiles && (d & (kAmxBf16 | kAmxInt8)) != 0 && AskForTiles()) {
    f.amx_bf16 = (d & kAmxBf16) != 0;
    f.amx_int8 = (d & kAmxInt8) != 0;
  }
  return f;
}
#elif defined(__aarch64__) && defined(__linux__)
ProcessorFeatures FindFeatures() {
  constexpr unsigned long kI8mm = 1UL << 13, kBf16 = 1UL << 14;  // HWCAP2_I8MM, HWCAP2_BF16
  unsigned long found = getauxval(AT_HWCAP2);
  ProcessorFeatures f;
  f.bf16 = (found & kBf16) != 0;
  f.i8mm = (found & kI8mm) != 0;
  return f;
}
#else
ProcessorFeatures FindFeatures() {
  return {};
}
#endif

std::string FirstWord(const std::string& path) {
  auto text = ReadFile(path, 1 << 12);
  if (!text) return "";
  return text->substr(0, text->find_first_of(" \n"));
}

// "48K", "32M"
int64_t BytesIn(const std::string& text) {
  if (text.empty()) return 0;
  int64_t unit = text.back() == 'K' ? 1 << 10 : text.back() == 'M' ? 1 << 20 : 1;
  std::optional<int64_t> n = ParseInt(unit == 1 ? text : text.substr(0, text.size() - 1));
  return n ? *n * unit : 0;
}

CacheSizes FindCaches() {
  CacheSizes sizes;
  for (int i = 0; i < 8; ++i) {
    std::string folder = StrCat("/sys/devices/system/cpu/cpu0/cache/index", i, "/");
    std::string level = FirstWord(folder + "level");
    if (level.empty()) break;
    if (FirstWord(folder + "type") == "Instruction") continue;
    int64_t bytes = BytesIn(FirstWord(folder + "size"));
    if (bytes <= 0) continue;
    if (level == "1") sizes.l1 = bytes;
    if (level == "2") sizes.l2 = bytes;
    if (level == "3") sizes.l3 = bytes;
    std::optional<int64_t> line = ParseInt(FirstWord(folder + "coherency_line_size"));
    if (line && *line > 0) sizes.line = *line;
  }
  return sizes;
}

}  // namespace

const ProcessorFeatures& HostFeatures() {
  static const ProcessorFeatures features = FindFeatures();
  return features;
}

const CacheSizes& HostCaches() {
  static const CacheSizes sizes = FindCaches();
  return sizes;
}

}  // namespace weft::cpu
