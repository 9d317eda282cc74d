#include "cpu/llvm/llvm.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif

#include <array>
#include <chrono>
#include <mutex>
#include <utility>
#include <vector>

#include "cpu/llvm/codegen.h"
#include "cpu/processors.h"

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
    // is as often the one as the other, and every wrong guess costs twenty moves. The other two
    // passes find nothing in our code: masks are not computed in registers of numbers, and
    // addresses are shared already.
    std::vector<const char*> options = {"weft", "-x86-cmov-converter=false",
                                        "-disable-x86-domain-reassignment", "-disable-x86-lea-opt"};
    // Loops are kept decoded by 32 bytes, which they share with nothing before them.
    if (HasJccErratum(HostCodeTarget().cpu)) {
      options.push_back("-x86-branches-within-32B-boundaries");
      options.push_back("-x86-experimental-pref-innermost-loop-alignment=5");
    }
    LLVMParseCommandLineOptions(static_cast<int>(options.size()), options.data(), "");
#endif
  });
}

std::string TakeMessage(char* message) {
  std::string text = message ? message : "unknown error";
  LLVMDisposeMessage(message);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
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
                                          LLVMRelocPIC, LLVMCodeModelSmall));
  }
  LLVMDisposeMessage(triple);
  if (failed) return MakeError(Code::kInternal, "LLVM: no target: ", TakeMessage(message));
  if (!machine) return MakeError(Code::kInternal, "LLVM: no target machine for ", target.cpu);
  return machine;
}

// What passes over IR take a machine of slow gathers for. Gathers of kernels stay: their places are
// in vectors already. What the vectorizer of loops would gather has places that are easily had one
// by one.
CodeTarget TargetOfPasses(CodeTarget target) {
  target.features += target.features.empty() ? "+prefer-no-gather" : ",+prefer-no-gather";
  return target;
}

class LlvmCompiler : public Compiler {
 public:
  LlvmCompiler(MachinePtr machine, MachinePtr machine_of_passes)
      : machine_(std::move(machine)),
        machine_of_passes_(std::move(machine_of_passes)),
        passes_(machine_of_passes_ ? machine_of_passes_.get() : machine_.get()) {
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
    if (!passes.empty()) TRY(passes_.Run(module.get(), passes));
    if (stats) stats->optimise_ms += MillisecondsSince(start);
    if (assembly) {
      ModulePtr copy(LLVMCloneModule(module.get()));
      CodeGenerator text(machine_.get(), effort, HasSpreadLoads(copy.get()), LLVMAssemblyFile);
      *assembly = TRY(Emit(copy.get(), text));
    }
    start = std::chrono::steady_clock::now();
    std::string object =
        TRY(Emit(module.get(), GeneratorFor(effort, HasSpreadLoads(module.get()))));
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

  CodeGenerator& GeneratorFor(CodeEffort effort, bool spread_loads) {
    std::unique_ptr<CodeGenerator>& generator =
        generators_[static_cast<size_t>(effort)][spread_loads];
    if (!generator) {
      generator =
          std::make_unique<CodeGenerator>(machine_.get(), effort, spread_loads, LLVMObjectFile);
    }
    return *generator;
  }
  Result<std::string> Emit(LLVMModuleRef module, CodeGenerator& generator) {
    std::string bytes = generator.Run(module);
    if (bytes.empty()) return MakeError(Code::kInternal, "LLVM: no code generator");
    return bytes;
  }

  MachinePtr machine_, machine_of_passes_;  // the second: none where it is the same
  IrPasses passes_;
  std::array<std::array<std::unique_ptr<CodeGenerator>, 2>, 2> generators_;  // by both
  std::string layout_, triple_;
};

#if defined(__aarch64__)
// LLVM lists what a CPU of that name has; the kernel says what of it may be used.
std::string HostFeatureList() {
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
std::string HostFeatureList() {
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
  CodeTarget target{name, HostFeatureList()};
  LLVMDisposeMessage(name);
  return target;
}

Result<std::unique_ptr<Compiler>> Compiler::Create(const CodeTarget& target) {
  MachinePtr machine = TRY(MakeMachine(target)), machine_of_passes;
  if (HasSlowGathers(target.cpu)) machine_of_passes = TRY(MakeMachine(TargetOfPasses(target)));
  return std::make_unique<LlvmCompiler>(std::move(machine), std::move(machine_of_passes));
}

}  // namespace weft::cpu
