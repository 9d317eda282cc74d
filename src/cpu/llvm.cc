#include "cpu/llvm.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif

#include <math.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "cpu/llvm_codegen.h"

namespace weft::cpu {
namespace {

void InitialiseOnce() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNativeTarget();
    LLVMInitializeNativeAsmPrinter();
    LLVMInitializeNativeAsmParser();
#if defined(__x86_64__)
    // Jumps in the place of conditional moves are guesses: the least of two numbers of a recurrence
    // is as often the one as the other, and every wrong guess costs twenty moves.
    const char* options[] = {"weft", "-x86-cmov-converter=false"};
    LLVMParseCommandLineOptions(static_cast<int>(std::size(options)), options, "");
#endif
  });
}

std::string TakeMessage(char* message) {
  std::string text = message ? message : "unknown error";
  LLVMDisposeMessage(message);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

Status ToStatus(LLVMErrorRef error, std::string_view what) {
  if (!error) return {};
  char* message = LLVMGetErrorMessage(error);
  std::string text = message;
  LLVMDisposeErrorMessage(message);
  return MakeError(Code::kInternal, "LLVM: ", what, ": ", text);
}

double MillisecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

struct ModuleDeleter {
  void operator()(LLVMModuleRef module) const { LLVMDisposeModule(module); }
};
using ModulePtr = std::unique_ptr<LLVMOpaqueModule, ModuleDeleter>;
struct ContextDeleter {
  void operator()(LLVMContextRef context) const { LLVMContextDispose(context); }
};
using ContextPtr = std::unique_ptr<LLVMOpaqueContext, ContextDeleter>;
struct MachineDeleter {
  void operator()(LLVMTargetMachineRef machine) const { LLVMDisposeTargetMachine(machine); }
};
using MachinePtr = std::unique_ptr<LLVMOpaqueTargetMachine, MachineDeleter>;
struct OptionsDeleter {
  void operator()(LLVMPassBuilderOptionsRef options) const {
    LLVMDisposePassBuilderOptions(options);
  }
};
using OptionsPtr = std::unique_ptr<LLVMOpaquePassBuilderOptions, OptionsDeleter>;

Result<MachinePtr> MakeMachine(const CodeTarget& target) {
  InitialiseOnce();
  char* triple = LLVMGetDefaultTargetTriple();
  LLVMTargetRef found = nullptr;
  char* message = nullptr;
  bool failed = LLVMGetTargetFromTriple(triple, &found, &message);
  MachinePtr machine;
  if (!failed) {
    machine.reset(LLVMCreateTargetMachine(found, triple, target.cpu.c_str(),
                                          target.features.c_str(), LLVMCodeGenLevelDefault,
                                          LLVMRelocPIC, LLVMCodeModelJITDefault));
  }
  LLVMDisposeMessage(triple);
  if (failed) return MakeError(Code::kInternal, "LLVM: no target: ", TakeMessage(message));
  if (!machine) return MakeError(Code::kInternal, "LLVM: no target machine for ", target.cpu);
  return machine;
}

class LlvmCompiler : public Compiler {
 public:
  explicit LlvmCompiler(MachinePtr machine) : machine_(std::move(machine)) {
    LLVMTargetDataRef data = LLVMCreateTargetDataLayout(machine_.get());
    char* layout = LLVMCopyStringRepOfTargetData(data);
    layout_ = layout;
    LLVMDisposeMessage(layout);
    LLVMDisposeTargetData(data);
    char* triple = LLVMGetTargetMachineTriple(machine_.get());
    triple_ = triple;
    LLVMDisposeMessage(triple);
  }

  Result<std::string> Compile(const std::string& text, const std::string& passes, CodeEffort effort,
                              std::string* assembly, CompileStats* stats) override {
    ContextPtr context(LLVMContextCreate());
    // Remarks, such as of a loop that was not vectorised, are of no interest.
    LLVMContextSetDiagnosticHandler(context.get(), [](LLVMDiagnosticInfoRef, void*) {}, nullptr);
    auto start = std::chrono::steady_clock::now();
    ModulePtr module = TRY(Parse(context.get(), text));
    if (stats) stats->parse_ms += MillisecondsSince(start);
    start = std::chrono::steady_clock::now();
    if (!passes.empty()) {
      OptionsPtr options(LLVMCreatePassBuilderOptions());
      LLVMErrorRef error =
          LLVMRunPasses(module.get(), passes.c_str(), machine_.get(), options.get());
      TRY(ToStatus(error, "passes"));
    }
    if (stats) stats->optimise_ms += MillisecondsSince(start);
    if (assembly) {
      ModulePtr copy(LLVMCloneModule(module.get()));
      *assembly = TRY(Emit(copy.get(), effort, LLVMAssemblyFile));
    }
    start = std::chrono::steady_clock::now();
    std::string object = TRY(Emit(module.get(), effort, LLVMObjectFile));
    if (stats) stats->generate_ms += MillisecondsSince(start);
    return object;
  }

 private:
  Result<ModulePtr> Parse(LLVMContextRef context, const std::string& text) {
    // Not copied: the text ends with a zero byte.
    LLVMMemoryBufferRef buffer =
        LLVMCreateMemoryBufferWithMemoryRange(text.c_str(), text.size(), "module", true);
    LLVMModuleRef module = nullptr;
    char* message = nullptr;
    if (LLVMParseIRInContext(context, buffer, &module, &message)) {
      return MakeError(Code::kInternal, "LLVM: ", TakeMessage(message));
    }
    ModulePtr owned(module);
    if (LLVMVerifyModule(module, LLVMReturnStatusAction, &message)) {
      return MakeError(Code::kInternal, "LLVM: ", TakeMessage(message));
    }
    LLVMDisposeMessage(message);
    LLVMSetTarget(module, triple_.c_str());
    LLVMSetDataLayout(module, layout_.c_str());
    return owned;
  }

  Result<std::string> Emit(LLVMModuleRef module, CodeEffort effort, LLVMCodeGenFileType kind) {
    std::string bytes = GenerateCode(machine_.get(), module, effort, kind);
    if (bytes.empty()) return MakeError(Code::kInternal, "LLVM: no code generator");
    return bytes;
  }

  MachinePtr machine_;
  std::string layout_, triple_;
};

struct RuntimeSymbol {
  const char* name;
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

class LlvmImage : public CodeImage {
 public:
  explicit LlvmImage(LLVMOrcLLJITRef jit) : jit_(jit) {}
  ~LlvmImage() override {
    if (LLVMErrorRef error = LLVMOrcDisposeLLJIT(jit_)) LLVMConsumeError(error);
  }
  Status Add(std::span<const std::string> objects) {
    LLVMOrcJITDylibRef dylib = LLVMOrcLLJITGetMainJITDylib(jit_);
    TRY(DefineRuntime(dylib));
    for (const std::string& object : objects) {
      LLVMMemoryBufferRef buffer =
          LLVMCreateMemoryBufferWithMemoryRangeCopy(object.data(), object.size(), "object");
      TRY(ToStatus(LLVMOrcLLJITAddObjectFile(jit_, dylib, buffer), "link"));
    }
    return {};
  }
  Result<void*> Find(const std::string& name) override {
    LLVMOrcExecutorAddress address = 0;
    TRY(ToStatus(LLVMOrcLLJITLookup(jit_, &address, name.c_str()), "link"));
    return reinterpret_cast<void*>(address);
  }

 private:
  // What generated code may call. The process as a whole is searched too, but in a plugin that
  // need not find the libraries of the plugin.
  Status DefineRuntime(LLVMOrcJITDylibRef dylib) {
    std::vector<LLVMOrcCSymbolMapPair> pairs;
    for (const RuntimeSymbol& symbol : kRuntime) {
      LLVMJITSymbolFlags flags = {LLVMJITSymbolGenericFlagsExported, 0};
      pairs.push_back({LLVMOrcLLJITMangleAndIntern(jit_, symbol.name),
                       {reinterpret_cast<LLVMOrcJITTargetAddress>(symbol.address), flags}});
    }
    LLVMOrcMaterializationUnitRef unit = LLVMOrcAbsoluteSymbols(pairs.data(), pairs.size());
    return ToStatus(LLVMOrcJITDylibDefine(dylib, unit), "link");
  }

  LLVMOrcLLJITRef jit_;
};

#if defined(__aarch64__)
// LLVM lists what a CPU of that name has; the kernel says what of it may be used.
std::string HostFeatures() {
  constexpr unsigned long kSve = 1ul << 22;  // HWCAP_SVE
  constexpr unsigned long kSve2 = 1ul << 1;  // HWCAP2_SVE2
  // Cores that reorder instructions themselves gain nothing from having it done once more.
  std::string features = "-use-postra-scheduler,";
  if (!(getauxval(AT_HWCAP) & kSve)) features += "-sve,";
  if (!(getauxval(AT_HWCAP2) & kSve2)) features += "-sve2,";
  features.pop_back();
  return features;
}
#else
std::string HostFeatures() {
  char* text = LLVMGetHostCPUFeatures();
  std::string features = text;
  LLVMDisposeMessage(text);
  return features;
}
#endif

}  // namespace

bool HasLlvm() {
  return true;
}

std::string LlvmVersion() {
  unsigned major, minor, patch;
  LLVMGetVersion(&major, &minor, &patch);
  return StrCat(major, ".", minor, ".", patch);
}

CodeTarget HostCodeTarget() {
  char* name = LLVMGetHostCPUName();
  CodeTarget target{name, HostFeatures()};
  LLVMDisposeMessage(name);
  return target;
}

Result<std::unique_ptr<Compiler>> Compiler::Create(const CodeTarget& target) {
  return std::make_unique<LlvmCompiler>(TRY(MakeMachine(target)));
}

Result<std::unique_ptr<CodeImage>> CodeImage::Link(std::span<const std::string> objects) {
  InitialiseOnce();
  LLVMOrcLLJITBuilderRef builder = LLVMOrcCreateLLJITBuilder();
  MachinePtr machine = TRY(MakeMachine({"generic", ""}));
  // Takes the machine.
  LLVMOrcLLJITBuilderSetJITTargetMachineBuilder(
      builder, LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine(machine.release()));
  LLVMOrcLLJITRef jit = nullptr;
  TRY(ToStatus(LLVMOrcCreateLLJIT(&jit, builder), "link"));
  auto image = std::make_unique<LlvmImage>(jit);
  TRY(image->Add(objects));
  return image;
}

}  // namespace weft::cpu
