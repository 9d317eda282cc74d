// weft --machine: what code is made for, and what is known of its speed.
#include "cpu/routines/machine.h"

#include <unistd.h>

#include <cmath>
#include <limits>
#include <set>
#include <string_view>

#include "base/cores.h"
#include "base/file.h"
#include "base/str.h"
#include "base/thread_pool.h"
#include "client/cache.h"
#include "client/environment.h"
#include "client/memory_limit.h"
#include "commands.h"
#include "cpu/device.h"
#include "cpu/llvm/llvm.h"
#include "cpu/routines/narrow_kernels.h"
#include "cpu/routines/tiles.h"
#include "help.h"
#include "runtime/profile.h"
#include "units.h"

namespace weft::tools {
namespace {

// The value of the first line `name : value` of /proc/cpuinfo.
std::string FromCpuInfo(std::string_view name) {
  Result<std::string> text = ReadFile("/proc/cpuinfo", 1 << 24);
  if (!text) return "";
  size_t at = text->find(StrCat(name, "\t"));
  size_t colon = at == text->npos ? at : text->find(':', at);
  if (colon == text->npos) return "";
  size_t begin = std::min(text->find_first_not_of(' ', colon + 1), text->size());
  return text->substr(begin, text->find('\n', begin) - begin);
}

void AppendRow(std::string& out, std::string_view name, const std::string& value) {
  StrAppend(out, name, std::string(std::max<size_t>(16, name.size() + 1) - name.size(), ' '), value,
            "\n");
}

// Features that are there, without the long list of those that are not; in order, as LLVM has none.
std::string PresentFeatures(std::string_view features) {
  std::set<std::string_view> present;
  while (!features.empty()) {
    std::string_view item = features.substr(0, features.find(','));
    features.remove_prefix(std::min(item.size() + 1, features.size()));
    if (item.starts_with('+')) present.insert(item.substr(1));
  }
  return StrJoin(present, " ");
}

template <class T>
std::string TileOf() {
  const cpu::TileKernel<T>* tile = cpu::FindTileKernel<T>(std::numeric_limits<int64_t>::max());
  if (tile == nullptr) return "none";
  return StrCat(tile->rows, " x ", tile->cols, " in vectors of ",
                tile->lanes * static_cast<int>(sizeof(T)) * 8, " bits");
}

// The micro-kernel that takes elements of a narrow type as they are.
std::string NarrowOf(DType dtype) {
  const cpu::NarrowKernel* kernel = cpu::FindNarrowKernel(dtype, dtype);
  return kernel == nullptr ? "widened" : StrCat("by ", kernel->name);
}

std::string NarrowKernelList() {
  std::string here, elsewhere;
  for (const cpu::NarrowKernel& kernel : cpu::NarrowKernels()) {
    std::string& list = kernel.is_there() ? here : elsewhere;
    StrAppend(list, list.empty() ? "" : ", ", kernel.name);
  }
  return StrCat(here.empty() ? "none" : here,
                elsewhere.empty() ? "" : "; not on this processor: ", elsewhere);
}

std::string MatrixUnits(const program::TargetInfo& target) {
  std::string rate;
  if (target.bf16_matrix_flops > 0) {
    rate = StrCat(", ", std::lround(target.bf16_matrix_flops / 1e9), " GFLOP/s assumed (bf16)");
  }
  const cpu::ProcessorFeatures& features = cpu::HostFeatures();
  std::string types = features.amx_bf16 ? "bf16" : "";
  if (features.amx_int8) StrAppend(types, types.empty() ? "" : ", ", "int8");
  if (!types.empty()) return StrCat("AMX (", types, ")", rate);
  types = features.bf16 ? "bfmmla" : "";
  if (features.i8mm) StrAppend(types, types.empty() ? "" : ", ", "i8mm");
  return types.empty() ? "none used" : StrCat("NEON (", types, ")");
}

std::string Rate(double flops, double bytes) {
  return StrCat(std::lround(flops / 1e9), " GFLOP/s (f32), ", std::lround(bytes / 1e9), " GB/s");
}

std::string Measured() {
  Result<std::unique_ptr<runtime::Device>> device = cpu::CreateDevice();
  if (!device) return StrCat("not known: ", device.error().message());
  Result<runtime::Roofline> roofline = runtime::MeasureRoofline(**device);
  if (!roofline) return StrCat("not known: ", roofline.error().message());
  return StrCat(Rate(roofline->flops_per_second, roofline->bytes_per_second),
                " (multiply-adds; a large copy), on ", DefaultPool().limit(), " threads");
}

}  // namespace

std::string DescribeMachine() {
  const program::TargetInfo target = cpu::HostTarget();
  const client::Environment& environment = TheEnvironment();
  std::string out;
  std::string model = FromCpuInfo("model name");
  AppendRow(out, "processor", StrCat(model, model.empty() ? "" : ": ", "code for ", target.name));
  std::string features = PresentFeatures(target.features);
  AppendRow(out, "features", features.empty() ? "those of its kind" : features);
  AppendRow(out, "vectors",
            StrCat(target.vector_bits, " bits, ", target.vector_registers, " registers",
                   target.fast_bf16 ? ", arithmetic in bf16" : ""));
  AppendRow(out, "matrix products",
            StrCat("f32 tiles of ", TileOf<float>(), ", f64 tiles of ", TileOf<double>(), ", bf16 ",
                   NarrowOf(DType::kBF16), ", int8 ", NarrowOf(DType::kS8)));
  AppendRow(out, "micro-kernels", NarrowKernelList());
  AppendRow(out, "matrix units", MatrixUnits(target));
  AppendRow(out, "cores",
            StrCat(target.cores, " of ", sysconf(_SC_NPROCESSORS_ONLN), "; ", DefaultPool().limit(),
                   " threads in use"));
  AppendRow(out, "caches",
            StrCat("L1 ", ShowBytes(target.l1_bytes), ", L2 ", ShowBytes(target.l2_bytes), ", L3 ",
                   target.l3_bytes > 0 ? ShowBytes(target.l3_bytes) : "none", ", lines of ",
                   target.cache_line, " bytes"));
  const bool limited = environment.memory_limit > 0;
  AppendRow(out, "memory",
            StrCat(ShowBytes(target.memory_bytes), "; programs may take ",
                   ShowBytes(limited ? environment.memory_limit : client::AvailableMemory()),
                   limited ? " (WEFT_MEMORY_LIMIT)" : ""));
  AppendRow(out, "peaks assumed", Rate(target.f32_flops, target.bytes_per_second));
  AppendRow(out, "peaks measured", Measured());
  AppendRow(out, "subnormals", target.slow_subnormals ? "slow" : "as fast as other numbers");
  AppendRow(out, "LLVM", cpu::HasLlvm() ? cpu::LlvmVersion() : "none in this build");
  AppendRow(out, "cache",
            environment.cache.empty() ? "none" : client::LookIntoCache(environment.cache).folder);
  return out;
}

}  // namespace weft::tools
