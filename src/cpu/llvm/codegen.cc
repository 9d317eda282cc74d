#include "cpu/llvm/codegen.h"

#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/CodeGen/MachineModuleInfo.h>
#include <llvm/CodeGen/Passes.h>
#include <llvm/CodeGen/TargetPassConfig.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetLoweringObjectFile.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/Scalar.h>

#include <map>
#include <vector>

#include "cpu/llvm/passes.h"

namespace weft::cpu {
namespace {

// A pass costs a few microseconds a function even where it finds nothing to do. These never do:
// what they work on (debug values, garbage collection, profiling hooks, exceptions, several stack
// slots of one function that are alive at different times) is not in our code, or they are switched
// off anyway and would only look whether they are. The schedulers would find something: but lanes
// of one operation after the other are the order that keeps values in registers and a core busy,
// and they take a tenth of the time to spill what long code holds.
void DisableIdle(llvm::TargetPassConfig& config) {
  for (const void* pass :
       {&llvm::FEntryInserterID, &llvm::FixupStatepointCallerSavedID, &llvm::FuncletLayoutID,
        &llvm::GCMachineCodeAnalysisID, &llvm::InitUndefID, &llvm::LiveDebugValuesID,
        &llvm::LocalStackSlotAllocationID, &llvm::MachineSanitizerBinaryMetadataID,
        &llvm::MachineSchedulerID, &llvm::PatchableFunctionID, &llvm::PostMachineSchedulerID,
        &llvm::RemoveRedundantDebugValuesID, &llvm::StackColoringID,
        &llvm::StackFrameLayoutAnalysisPassID, &llvm::StackMapLivenessID,
        &llvm::UnreachableMachineBlockElimID, &llvm::XRayInstrumentationID}) {
    config.disablePass(pass);
  }
}

// What has something to do in code with branches alone: kernels are a few loops, one in the other,
// around long straight code that is in order already.
void DisableForKernels(llvm::TargetPassConfig& config) {
  for (const void* pass :
       {&llvm::BranchFolderPassID, &llvm::DetectDeadLanesID, &llvm::EarlyIfConverterID,
        &llvm::EarlyTailDuplicateID, &llvm::MachineCombinerID, &llvm::MachineCopyPropagationID,
        &llvm::MachineLateInstrsCleanupID, &llvm::MachineLICMID, &llvm::MachineSinkingID,
        &llvm::OptimizePHIsID, &llvm::PeepholeOptimizerID, &llvm::PostRAMachineSinkingID,
        &llvm::RenameIndependentSubregsID, &llvm::ShrinkWrapID, &llvm::StackSlotColoringID,
        &llvm::TailDuplicateID}) {
    config.disablePass(pass);
  }
}

// From IR to machine instructions.
void AddSelection(llvm::TargetPassConfig& config, llvm::legacy::PassManager& passes,
                  CodeEffort effort, bool spread_loads) {
  if (spread_loads) {  // as loads that take lanes apart, where the machine has them
    passes.add(llvm::createInterleavedLoadCombinePass());
    passes.add(llvm::createInterleavedAccessPass());
  }
  passes.add(llvm::createPreISelIntrinsicLoweringPass());
  if (effort == CodeEffort::kLoops) passes.add(llvm::createLoopStrengthReducePass());
  passes.add(llvm::createExpandReductionsPass());
  passes.add(llvm::createScalarizeMaskedMemIntrinLegacyPass());
  config.addCodeGenPrepare();
  config.addInstSelector();
  passes.add(llvm::Pass::createPass(&llvm::FinalizeISelID));
}

}  // namespace

bool HasSpreadLoads(LLVMModuleRef module) {
  for (const llvm::Function& function : *llvm::unwrap(module)) {
    for (const llvm::Instruction& i : llvm::instructions(function)) {
      const auto* shuffle = llvm::dyn_cast<llvm::ShuffleVectorInst>(&i);
      if (shuffle == nullptr || !llvm::isa<llvm::LoadInst>(shuffle->getOperand(0))) continue;
      llvm::ArrayRef<int> mask = shuffle->getShuffleMask();
      for (size_t k = 1; k < mask.size(); ++k) {
        if (mask[k] >= 0 && mask[k - 1] >= 0 && mask[k] > mask[k - 1] + 1) return true;
      }
    }
  }
  return false;
}

struct CodeGenerator::State {
  State(llvm::LLVMTargetMachine& target, CodeEffort effort, bool spread_loads,
        LLVMCodeGenFileType kind)
      : target(target), out(bytes) {
    info = new llvm::MachineModuleInfoWrapperPass(&target);  // owned by `passes`
    llvm::MCContext& context = info->getMMI().getContext();
    llvm::TargetPassConfig* config = target.createPassConfig(passes);  // likewise
    config->setDisableVerify(true);
    DisableIdle(*config);
    if (effort == CodeEffort::kKernels) DisableForKernels(*config);
    passes.add(llvm::createTargetTransformInfoWrapperPass(target.getTargetIRAnalysis()));
    passes.add(config);
    passes.add(info);
    AddSelection(*config, passes, effort, spread_loads);
    config->addMachinePasses();
    config->setInitialized();
    auto form = kind == LLVMAssemblyFile ? llvm::CodeGenFileType::AssemblyFile
                                         : llvm::CodeGenFileType::ObjectFile;
    works = !target.addAsmPrinter(passes, out, nullptr, form, context);
    passes.add(llvm::createFreeMachineFunctionPass());
  }

  llvm::LLVMTargetMachine& target;
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out;
  llvm::legacy::PassManager passes;
  llvm::MachineModuleInfoWrapperPass* info;
  bool works = false;
};

CodeGenerator::CodeGenerator(LLVMTargetMachineRef machine, CodeEffort effort, bool spread_loads,
                             LLVMCodeGenFileType kind)
    : state_(std::make_unique<State>(
          static_cast<llvm::LLVMTargetMachine&>(*reinterpret_cast<llvm::TargetMachine*>(machine)),
          effort, spread_loads, kind)) {}
CodeGenerator::~CodeGenerator() = default;

std::string CodeGenerator::Run(LLVMModuleRef module) {
  State& s = *state_;
  if (!s.works) return "";
  // The names and sections of the module before are gone with it.
  s.target.getObjFileLowering()->Initialize(s.info->getMMI().getContext(), s.target);
  s.bytes.clear();
  s.passes.run(*llvm::unwrap(module));
  return std::string(s.bytes.begin(), s.bytes.end());
}

struct IrPasses::State {
  explicit State(llvm::TargetMachine* machine) : builder(machine) {
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(components);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, components, modules);
    builder.registerPipelineParsingCallback(
        [machine](llvm::StringRef name, llvm::FunctionPassManager& passes,
                  llvm::ArrayRef<llvm::PassBuilder::PipelineElement>) {
          return AddGuardPass(name, passes) || AddInductionPass(name, passes) ||
                 AddLoopPass(name, passes) || AddMinMaxPass(name, machine, passes) ||
                 AddVectorPass(name, passes);
        });
  }
  // What is known of a module that is gone.
  void Forget() {
    modules.clear();
    components.clear();
    functions.clear();
    loops.clear();
  }

  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder;
  std::map<std::string, llvm::ModulePassManager> pipelines;
};

IrPasses::IrPasses(LLVMTargetMachineRef machine)
    : state_(std::make_unique<State>(reinterpret_cast<llvm::TargetMachine*>(machine))) {}
IrPasses::~IrPasses() = default;

Status IrPasses::Run(LLVMModuleRef module, const std::string& passes) {
  auto [found, is_new] = state_->pipelines.try_emplace(passes);
  if (is_new) {
    if (llvm::Error error = state_->builder.parsePassPipeline(found->second, passes)) {
      state_->pipelines.erase(found);
      return MakeError(Code::kInternal, "LLVM: passes: ", llvm::toString(std::move(error)));
    }
  }
  found->second.run(*llvm::unwrap(module), state_->modules);
  state_->Forget();
  return {};
}

}  // namespace weft::cpu
