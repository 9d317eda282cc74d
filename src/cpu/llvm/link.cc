// An object linker in memory (JIT linking): sections copied, symbols resolved, relocations applied.
#include <llvm/ExecutionEngine/JITSymbol.h>
#include <llvm/ExecutionEngine/RuntimeDyld.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/Support/DynamicLibrary.h>
#include <llvm/Support/MemoryBuffer.h>
#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "cpu/llvm/llvm.h"

namespace weft::cpu {
namespace {

struct RuntimeSymbol {
  std::string_view name;
  void* address;
};
template <class T>
void* Address(T* function) {
  return reinterpret_cast<void*>(function);
}
using Unary32 = float(float);
using Unary64 = double(double);
using Binary32 = float(float, float);
using Binary64 = double(double, double);
// What generated code may call. The process as a whole is searched too, but in a plugin that need
// not find the libraries of the plugin.
const RuntimeSymbol kRuntime[] = {
    {"memcpy", Address(std::memcpy)},
    {"memmove", Address(std::memmove)},
    {"memset", Address(std::memset)},
    {"aligned_alloc", Address(std::aligned_alloc)},
    {"free", Address(std::free)},
    {"exp2f", Address<Unary32>(std::exp2)},
    {"exp2", Address<Unary64>(std::exp2)},
    {"log2f", Address<Unary32>(std::log2)},
    {"log2", Address<Unary64>(std::log2)},
    {"sinf", Address<Unary32>(std::sin)},
    {"sin", Address<Unary64>(std::sin)},
    {"cosf", Address<Unary32>(std::cos)},
    {"cos", Address<Unary64>(std::cos)},
    {"sincosf", Address(::sincosf)},
    {"sincos", Address(::sincos)},
    {"fmodf", Address<Binary32>(std::fmod)},
    {"fmod", Address<Binary64>(std::fmod)},
    {"fmaf", Address<float(float, float, float)>(std::fma)},
    {"fma", Address<double(double, double, double)>(std::fma)},
    {"floorf", Address<Unary32>(std::floor)},
    {"floor", Address<Unary64>(std::floor)},
    {"ceilf", Address<Unary32>(std::ceil)},
    {"ceil", Address<Unary64>(std::ceil)},
    {"truncf", Address<Unary32>(std::trunc)},
    {"trunc", Address<Unary64>(std::trunc)},
    {"roundevenf", Address(::roundevenf)},
    {"roundeven", Address(::roundeven)},
};

uintptr_t RoundUp(uintptr_t n, uintptr_t unit) {
  return (n + unit - 1) / unit * unit;
}

// One mapping for each object file: code, then what it reads, then what it writes, each in pages of
// its own, so that code reaches its data. Written first; code becomes executable at the end.
class CodeMemory : public llvm::RuntimeDyld::MemoryManager {
 public:
  CodeMemory() = default;
  CodeMemory(const CodeMemory&) = delete;
  CodeMemory& operator=(const CodeMemory&) = delete;
  ~CodeMemory() override {
    for (const Mapping& m : mappings_) munmap(m.begin, m.size);
  }

  bool needsToReserveAllocationSpace() override { return true; }
  void reserveAllocationSpace(uintptr_t code, llvm::Align code_align, uintptr_t read,
                              llvm::Align read_align, uintptr_t write,
                              llvm::Align write_align) override {
    uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    Mapping m;
    // Every section may need to be moved up to where it is aligned.
    uintptr_t sizes[] = {RoundUp(code + code_align.value(), page),
                         RoundUp(read + read_align.value(), page),
                         RoundUp(write + write_align.value(), page)};
    m.size = sizes[0] + sizes[1] + sizes[2];
    void* memory =
        mmap(nullptr, m.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    parts_[0] = parts_[1] = parts_[2] = {};
    if (memory == MAP_FAILED) return;
    m.begin = static_cast<uint8_t*>(memory);
    uint8_t* at = m.begin;
    for (int k = 0; k < 3; ++k) {
      parts_[k] = {at, at + sizes[k]};
      at += sizes[k];
    }
    m.code = sizes[0];
    m.read = sizes[1];
    mappings_.push_back(m);
  }

  uint8_t* allocateCodeSection(uintptr_t size, unsigned align, unsigned, llvm::StringRef) override {
    return Allocate(parts_[0], size, align);
  }
  uint8_t* allocateDataSection(uintptr_t size, unsigned align, unsigned, llvm::StringRef,
                               bool read_only) override {
    return Allocate(parts_[read_only ? 1 : 2], size, align);
  }
  void registerEHFrames(uint8_t*, uint64_t, size_t) override {}
  void deregisterEHFrames() override {}

  bool finalizeMemory(std::string* message) override {
    for (const Mapping& m : mappings_) {
      uint8_t* data = m.begin + m.code;
      __builtin___clear_cache(reinterpret_cast<char*>(m.begin), reinterpret_cast<char*>(data));
      if (mprotect(m.begin, m.code, PROT_READ | PROT_EXEC) != 0 ||
          mprotect(data, m.read, PROT_READ) != 0) {
        if (message) *message = "pages cannot be made executable";
        return true;
      }
    }
    return false;
  }

 private:
  struct Mapping {
    uint8_t* begin = nullptr;
    uintptr_t size = 0, code = 0, read = 0;
  };
  struct Part {
    uint8_t *next = nullptr, *end = nullptr;
  };
  static uint8_t* Allocate(Part& part, uintptr_t size, unsigned align) {
    uint8_t* at = reinterpret_cast<uint8_t*>(
        RoundUp(reinterpret_cast<uintptr_t>(part.next), align == 0 ? 1 : align));
    if (part.next == nullptr || at > part.end || size > static_cast<uintptr_t>(part.end - at)) {
      return nullptr;
    }
    part.next = at + size;
    return at;
  }

  std::vector<Mapping> mappings_;
  Part parts_[3];
};

class ProcessSymbols : public llvm::LegacyJITSymbolResolver {
 public:
  llvm::JITSymbol findSymbolInLogicalDylib(const std::string&) override { return nullptr; }
  llvm::JITSymbol findSymbol(const std::string& name) override {
    for (const RuntimeSymbol& symbol : kRuntime) {
      if (symbol.name == name) return Found(symbol.address);
    }
    void* found = llvm::sys::DynamicLibrary::SearchForAddressOfSymbol(name);
    return found ? Found(found) : llvm::JITSymbol(nullptr);
  }

 private:
  static llvm::JITSymbol Found(void* address) {
    return {reinterpret_cast<llvm::JITTargetAddress>(address), llvm::JITSymbolFlags::Exported};
  }
};

class LinkedImage : public CodeImage {
 public:
  LinkedImage() : linker_(memory_, symbols_) {}

  Status Add(std::span<const std::string> objects) {
    if (objects.empty()) return {};
    // The process itself is among the libraries that are searched.
    llvm::sys::DynamicLibrary::LoadLibraryPermanently(nullptr);
    for (const std::string& bytes : objects) {
      auto object = llvm::object::ObjectFile::createObjectFile(
          llvm::MemoryBufferRef(llvm::StringRef(bytes.data(), bytes.size()), "object"));
      if (!object) {
        return MakeError(Code::kInternal, "LLVM: link: ", llvm::toString(object.takeError()));
      }
      linker_.loadObject(**object);
      if (linker_.hasError()) break;
    }
    if (!linker_.hasError()) linker_.resolveRelocations();
    if (linker_.hasError()) {
      return MakeError(Code::kInternal, "LLVM: link: ", linker_.getErrorString().str());
    }
    std::string message;
    if (memory_.finalizeMemory(&message)) {
      return MakeError(Code::kResourceExhausted, "LLVM: link: ", message);
    }
    return {};
  }

  Result<void*> Find(const std::string& name) override {
    uint64_t address = linker_.getSymbol(name).getAddress();
    if (address == 0) return MakeError(Code::kInternal, "LLVM: link: there is no ", name);
    return reinterpret_cast<void*>(address);
  }

 private:
  CodeMemory memory_;
  ProcessSymbols symbols_;
  llvm::RuntimeDyld linker_;
};

}  // namespace

Result<std::unique_ptr<CodeImage>> CodeImage::Link(std::span<const std::string> objects) {
  auto image = std::make_unique<LinkedImage>();
  TRY(image->Add(objects));
  return image;
}

}  // namespace weft::cpu
