#include "cpu/llvm_codegen.h"

#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/CodeGen/MachineModuleInfo.h>
#include <llvm/CodeGen/Passes.h>
#include <llvm/CodeGen/TargetPassConfig.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetLoweringObjectFile.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/Scalar.h>

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

// Lanes some elements apart are taken out of what is loaded.
bool HasSpreadLoads(const llvm::Module& module) {
  for (const llvm::Function& function : module) {
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

std::string GenerateCode(LLVMTargetMachineRef machine, LLVMModuleRef module, CodeEffort effort,
                         LLVMCodeGenFileType kind) {
  auto& target =
      static_cast<llvm::LLVMTargetMachine&>(*reinterpret_cast<llvm::TargetMachine*>(machine));
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out(bytes);
  llvm::legacy::PassManager passes;
  auto* info = new llvm::MachineModuleInfoWrapperPass(&target);  // owned by `passes`
  llvm::MCContext& context = info->getMMI().getContext();
  llvm::TargetPassConfig* config = target.createPassConfig(passes);  // likewise
  config->setDisableVerify(true);
  DisableIdle(*config);
  if (effort == CodeEffort::kKernels) DisableForKernels(*config);
  passes.add(llvm::createTargetTransformInfoWrapperPass(target.getTargetIRAnalysis()));
  passes.add(config);
  passes.add(info);
  AddSelection(*config, passes, effort, HasSpreadLoads(*llvm::unwrap(module)));
  config->addMachinePasses();
  config->setInitialized();
  target.getObjFileLowering()->Initialize(context, target);
  auto form = kind == LLVMAssemblyFile ? llvm::CodeGenFileType::AssemblyFile
                                       : llvm::CodeGenFileType::ObjectFile;
  if (target.addAsmPrinter(passes, out, nullptr, form, context)) return "";
  passes.add(llvm::createFreeMachineFunctionPass());
  passes.run(*llvm::unwrap(module));
  return std::string(bytes.begin(), bytes.end());
}

}  // namespace weft::cpu
