#include "gpu/nvtx.h"

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/str.h"
#include "gpu/cuda_device.h"

namespace weft::gpu {

namespace {

// The ABI between programs and tools, version 3. A tool asks for tables of functions and writes
// its own into those that it is interested in.
constexpr uint32_t kVersion = 3;
constexpr uint32_t kCallbackTable = 1, kVersionTable = 3;
constexpr int kCore = 1, kCore2 = 5;  // modules of functions
enum Core2 : size_t { kRangePush = 4, kRangePop = 5, kDomainCreate = 12, kCore2Size = 16 };
constexpr size_t kCoreSize = 16;

using Function = void (*)();

struct CallbackTable {
  size_t size;
  int (*functions)(int module, Function*** table, unsigned* count);
};
struct VersionTable {
  size_t size;
  uint32_t version, reserved;
  void (*set_tool_version)(uint32_t version);
};

struct EventAttributes {
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type, reserved;
  uint64_t payload;
  int32_t message_type;  // 1: of bytes
  const char* message;
};
static_assert(sizeof(EventAttributes) == 48);

// Extensions: one table of numbers, 0 where the tool has no function.
struct Segment {
  size_t id, count;
  intptr_t* functions;
};
struct ExtensionInfo {
  uint16_t version, size, module, compatible;
  size_t segment_count;
  Segment* segments;
  void *exports, *more;
};
constexpr uint16_t kMemoryModule = 1, kMemoryCompatible = 0x0102;
constexpr size_t kMarkInitialized = 16, kMemorySize = 63;
constexpr uint32_t kVirtualAddresses = 1;

struct AddressRange {
  size_t size;
  const void* address;
};
struct InitializedBatch {
  uint16_t compatible, size;
  uint32_t kind;
  size_t count, range_size;
  const void* ranges;
};

}  // namespace

struct NvtxTables {
  std::array<Function, kCoreSize> core{};
  std::array<Function, kCore2Size> core2{};
  // One more, null, as in NVIDIA's: a tool that reads beyond the end finds it.
  std::array<Function*, kCoreSize + 1> core_places{};
  std::array<Function*, kCore2Size + 1> core2_places{};
  std::array<intptr_t, kMemorySize> memory{};

  NvtxTables() {
    for (size_t i = 1; i < kCoreSize; ++i) core_places[i] = &core[i];
    for (size_t i = 1; i < kCore2Size; ++i) core2_places[i] = &core2[i];
  }
};

namespace {

NvtxTables* tables = nullptr;  // those that tools are given

int FunctionsOf(int module, Function*** table, unsigned* count) {
  if (tables == nullptr || (module != kCore && module != kCore2)) return 0;
  const bool core = module == kCore;
  if (table != nullptr) *table = core ? tables->core_places.data() : tables->core2_places.data();
  if (count != nullptr) *count = core ? kCoreSize : kCore2Size;
  return 1;
}

const void* ExportTable(uint32_t id) {
  static constexpr CallbackTable callbacks = {sizeof(CallbackTable), FunctionsOf};
  static constexpr VersionTable version = {sizeof(VersionTable), kVersion, 0, [](uint32_t) {}};
  if (id == kCallbackTable) return &callbacks;
  return id == kVersionTable ? &version : nullptr;
}

template <class F>
F As(Function function) {
  return reinterpret_cast<F>(function);
}

}  // namespace

// Never destroyed: a tool may call until the process ends.
const Nvtx* Nvtx::OfProcess(const std::string& library) {
  static const Nvtx* const tool = [&] -> const Nvtx* {
    if (library.empty()) return nullptr;
    auto* made = new Nvtx(library);
    if (!made->complaint().empty()) {
      LOG(warn) << made->complaint();
    }
    return made;
  }();
  return tool;
}

Nvtx::Nvtx(const std::string& library) : tables_(std::make_unique<NvtxTables>()) {
  if (library.empty()) return;
  const std::string_view names[] = {library};
  auto opened = DynamicLibrary::Open(names, {});
  if (!opened) {
    complaint_ = StrCat(kNvtxVariable, ": ", opened.error().message());
    return;
  }
  library_ = std::move(*opened);
  tables = tables_.get();
  ranges_ = AttachRanges();
  memory_ = AttachMemory();
  if (!ranges_ && !memory_) {
    complaint_ = StrCat(kNvtxVariable, ": ", library, " wants neither ranges nor memory");
  }
}

Nvtx::~Nvtx() {
  if (tables == tables_.get()) tables = nullptr;
}

bool Nvtx::AttachRanges() {
  using Initialize = int (*)(const void* (*)(uint32_t));
  auto initialize = reinterpret_cast<Initialize>(library_->Find("InitializeInjectionNvtx2"));
  if (initialize == nullptr || initialize(ExportTable) == 0) return false;
  const auto& functions = tables_->core2;
  if (functions[kRangePush] == nullptr || functions[kRangePop] == nullptr) return false;
  if (functions[kDomainCreate] != nullptr) {
    domain_ = As<void* (*)(const char*)>(functions[kDomainCreate])("weft");
  }
  return true;
}

bool Nvtx::AttachMemory() {
  using Initialize = int (*)(ExtensionInfo*);
  auto initialize =
      reinterpret_cast<Initialize>(library_->Find("InitializeInjectionNvtxExtension"));
  if (initialize == nullptr) return false;
  Segment segment = {1, kMemorySize, tables_->memory.data()};
  ExtensionInfo info = {
      kVersion, sizeof(ExtensionInfo), kMemoryModule, kMemoryCompatible, 1, &segment, nullptr,
      nullptr};
  constexpr intptr_t kDisabled = 1;  // what a tool may write where it wants nothing
  return initialize(&info) != 0 && tables_->memory[kMarkInitialized] > kDisabled;
}

void Nvtx::Push(const std::string& name) const {
  if (!ranges_) return;
  constexpr int32_t kBytes = 1;
  EventAttributes attributes{};
  attributes.version = kVersion;
  attributes.size = sizeof(EventAttributes);
  attributes.message_type = kBytes;
  attributes.message = name.c_str();
  using Push = int (*)(void*, const EventAttributes*);
  As<Push>(tables_->core2[kRangePush])(domain_, &attributes);
}

void Nvtx::Pop() const {
  if (ranges_) As<int (*)(void*)>(tables_->core2[kRangePop])(domain_);
}

void Nvtx::MarkInitialized(void* stream, std::span<const std::span<const std::byte>> ranges) const {
  if (!memory_ || ranges.empty()) return;
  std::vector<AddressRange> addresses;
  for (std::span<const std::byte> range : ranges) addresses.push_back({range.size(), range.data()});
  const InitializedBatch batch = {kMemoryCompatible, sizeof(InitializedBatch), kVirtualAddresses,
                                  addresses.size(),  sizeof(AddressRange),     addresses.data()};
  using Mark = void (*)(void* domain, void* stream, uint8_t per_thread, const InitializedBatch*);
  reinterpret_cast<Mark>(tables_->memory[kMarkInitialized])(domain_, stream, 0, &batch);
}

}  // namespace weft::gpu
