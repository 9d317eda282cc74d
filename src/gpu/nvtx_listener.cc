// A tool as NVTX knows them, for tests: notes what it hears. Offsets are those of NVIDIA's headers,
// written down once more: a slip in nvtx.cc does not agree with itself here.
#include <cstdint>
#include <cstdio>
#include <string>

namespace {

std::string& Heard() {
  static std::string text;
  return text;
}

// Offsets in nvtxEventAttributes_t, and in what says which memory is initialised.
constexpr int kMessage = 40, kCount = 8, kRanges = 24;

template <class T>
T At(const void* object, int offset) {
  return *reinterpret_cast<const T*>(static_cast<const char*>(object) + offset);
}

void* CreateDomain(const char* name) {
  Heard() += std::string("domain ") + name + "\n";
  return &Heard();
}
int Push(void* domain, const void* attributes) {
  Heard() += (domain == &Heard() ? "push " : "push elsewhere ") +
             std::string(At<const char*>(attributes, kMessage)) + "\n";
  return 0;
}
int Pop(void*) {
  Heard() += "pop\n";
  return 0;
}
void MarkInitialized(void*, void* stream, uint8_t, const void* batch) {
  const auto* ranges = At<const size_t*>(batch, kRanges);  // pairs of a size and an address
  for (size_t i = 0; i < At<size_t>(batch, kCount); ++i) {
    char line[64];
    std::snprintf(line, sizeof(line), "written %zu at %zx on %zx\n", ranges[2 * i],
                  ranges[2 * i + 1], reinterpret_cast<size_t>(stream));
    Heard() += line;
  }
}

}  // namespace

extern "C" {

using Function = void (*)();
using GetFunctions = int (*)(int module, Function*** table, unsigned* count);

int InitializeInjectionNvtx2(const void* (*table_of)(uint32_t)) {
  const void* callbacks = table_of(1);
  Function** functions = nullptr;
  unsigned count = 0;
  if (At<GetFunctions>(callbacks, 8)(5, &functions, &count) == 0 || count != 16) return 0;
  *functions[4] = reinterpret_cast<Function>(Push);
  *functions[5] = reinterpret_cast<Function>(Pop);
  *functions[12] = reinterpret_cast<Function>(CreateDomain);
  return 1;
}

// nvtxExtModuleInfo_t: at 6 which of the versions, at 16 the segments; a segment's slots at 16.
int InitializeInjectionNvtxExtension(const void* info) {
  if (At<uint16_t>(info, 4) != 1 || At<uint16_t>(info, 6) != 0x0102) return 0;
  auto* slots = At<intptr_t*>(At<const void*>(info, 16), 16);
  slots[16] = reinterpret_cast<intptr_t>(MarkInitialized);
  return 1;
}

const char* HeardSoFar() {
  return Heard().c_str();
}

}  // extern "C"
