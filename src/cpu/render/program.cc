#include "cpu/render/program.h"

#include <algorithm>

#include "base/check.h"
#include "cpu/render/kernel.h"
#include "cpu/render/steps.h"
#include "program/cost.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::cpu {
namespace {

using program::Kernel;
using program::Program;

// Kernels of fewer instructions than this are not worth another module beside those of others,
// which another thread compiles, and beside the control flow.
constexpr size_t kCodePerModule = program::CodeBounds::kLongBody;
// Instructions that are compiled with the main function.
constexpr size_t kCodeBesideMain = 4 * program::CodeBounds::kLongBody;
constexpr size_t kCallCode = 5;  // what a kernel costs beside its instructions

// Loops that are lanes of vectors, which LLVM has to make.
bool HasVectorLoop(const Kernel& kernel) {
  return std::any_of(kernel.code.begin(), kernel.code.end(), [](const program::Instr& i) {
    return i.op == program::Op::kLoop && i.loop == program::LoopKind::kVector;
  });
}

// Whether it divides integers or widens them: what is never negative is had with less.
bool UsesRanges(const Kernel& kernel) {
  return std::any_of(kernel.code.begin(), kernel.code.end(), [&](const program::Instr& i) {
    if (!IsInteger(i.type.dtype)) return false;
    if (i.op == program::Op::kDiv || i.op == program::Op::kRem) return true;
    if (i.op != program::Op::kCast) return false;
    DType from = kernel.type(i.args[0]).dtype;
    return IsInteger(from) && BitWidth(from) < BitWidth(i.type.dtype);
  });
}

// Elements one after the other, with choices on the way: branches are worth the time they take
// LLVM.
bool HasScalarLoop(const Kernel& kernel) {
  bool loop = false, choice = false;
  for (const program::Instr& i : kernel.code) {
    if (i.op == program::Op::kStore && i.type.lanes > 1) return false;
    loop |= i.op == program::Op::kLoop;
    choice |= loop && i.op == program::Op::kIf;
  }
  return choice;
}

// No more than so many operations on vectors are computed for each store of one.
bool ComputesAtMost(int most, const Kernel& kernel) {
  int computed = 0, stores = 0;
  for (const program::Instr& instr : kernel.code) {
    if (instr.type.lanes == 1) continue;
    program::OpClass cls = Info(instr.op).cls;
    stores += instr.op == program::Op::kStore;
    computed += cls == program::OpClass::kArith || cls == program::OpClass::kFloat ||
                cls == program::OpClass::kConvert;
  }
  return stores > 0 && computed <= most * stores;
}

// Whether the kernel waits for what it writes, which is more than a cache holds.
bool WritesMuch(const Kernel& kernel) {
  constexpr int64_t kLarge = program::TargetFacts::kThirdLevelBytes / 4;  // bytes
  int64_t written = 0;
  for (const program::Memory& memory : kernel.memories) {
    if (memory.access == program::Access::kWrite) written += memory.count * ByteWidth(memory.dtype);
  }
  return written >= kLarge;
}

bool HasWideVectors(const Kernel& kernel) {
  return std::any_of(kernel.values.begin(), kernel.values.end(), [](const program::Value& value) {
    return value.type.lanes * ByteWidth(value.type.dtype) >= 64;
  });
}

// The function by which routines call a kernel.
void RenderCalled(const Kernel& kernel, int32_t number, std::string& out) {
  StrAppend(out, "define void @", CalledName(number), "(ptr %parameters) #0 {\n  tail call void @",
            TaskName(number), "(ptr %parameters, i64 0, i64 ", GridSize(kernel),
            ")\n  ret void\n}\n");
}

RenderedModule RenderKernels(const Program& program, const Plan& plan, const RenderTarget& target,
                             const std::vector<int32_t>& kernels, bool loops, size_t number) {
  RenderedModule module;
  module.name = StrCat("kernels", number);
  module.loops = loops;
  module.kernels = static_cast<int64_t>(kernels.size());
  module.integers = std::any_of(kernels.begin(), kernels.end(),
                                [&](int32_t k) { return UsesRanges(program.kernels[k]); });
  IrMetadata metadata;
  RenderLaunched(program, plan, target, kernels, metadata, module.text);
  StrAppend(module.text, kModuleTail, metadata.text());
  return module;
}

// Kernels that need functions of their own, with or without loops for LLVM to work on.
std::vector<int32_t> FunctionsOf(const Program& program, const Plan& plan, bool loops,
                                 bool only_kernels) {
  std::vector<int32_t> wanted;
  for (size_t i = 0; i < program.kernels.size(); ++i) {
    bool used = plan.launched[i] || plan.called[i] || (only_kernels && plan.inlined[i]);
    const Kernel& kernel = program.kernels[i];
    if (used && (HasVectorLoop(kernel) || HasScalarLoop(kernel)) == loops) {
      wanted.push_back(static_cast<int32_t>(i));
    }
  }
  return wanted;
}

size_t CodeOf(const Program& program, const std::vector<int32_t>& kernels) {
  size_t code = 0;
  for (int32_t k : kernels) code += program.kernels[k].code.size() + kCallCode;
  return code;
}

bool HasControlFlow(const std::vector<program::Step>& steps) {
  return std::any_of(steps.begin(), steps.end(), [](const program::Step& step) {
    if (!IsAsyncList(step)) return HasLists(step);
    return HasControlFlow(std::get<program::ListStep>(step.op).steps);
  });
}

}  // namespace

std::string TaskName(int32_t kernel) {
  return StrCat("weft_task_", kernel);
}
std::string CalledName(int32_t kernel) {
  return StrCat("weft_call_", kernel);
}

std::string RegionName(int32_t region) {
  return StrCat("weft_region_", region);
}

std::string ListName(int32_t list) {
  return StrCat("weft_list_", list);
}

bool HasControlFlow(const Program& program) {
  return HasControlFlow(program.steps);
}

bool KeepsAvx512Frequency(const Program& program, const Plan& plan, const RenderTarget& target) {
  if (!target.avx512_lowers_frequency || plan.regions.empty()) return false;
  for (size_t k = 0; k < program.kernels.size(); ++k) {
    const Kernel& kernel = program.kernels[k];
    if (plan.inlined[k] && HasWideVectors(kernel) && !ComputesAtMost(0, kernel)) return false;
  }
  return true;
}

void RenderLaunched(const Program& program, const Plan& plan, const RenderTarget& target,
                    const std::vector<int32_t>& kernels, IrMetadata& metadata, std::string& out) {
  constexpr int kFew = 2;  // operations of a kernel
  bool keeps_frequency = KeepsAvx512Frequency(program, plan, target);
  for (int32_t k : kernels) {
    const Kernel& kernel = program.kernels[k];
    AppendComment(out, kernel.name);
    std::string name = TaskName(k);
    bool narrow = (keeps_frequency || (target.prefer_256bit_stores && WritesMuch(kernel))) &&
                  ComputesAtMost(kFew, kernel);
    KernelText how{.name = name,
                   .attributes = plan.called[k] ? "#1"
                                 : narrow       ? "#4"
                                                : "#0",
                   .task = true};
    // Calls in lanes would keep LLVM from making vectors of them.
    how.outline = !HasVectorLoop(kernel);
    how.indices = !HasVectorLoop(kernel);
    RenderKernel(kernel, how, target, metadata, out);
    if (plan.called[k]) RenderCalled(kernel, k, out);
  }
}

std::vector<RenderedModule> RenderProgram(const Program& program, const Plan& plan,
                                          const RenderTarget& target, int parts,
                                          bool only_kernels) {
  std::vector<RenderedModule> modules;
  std::vector<int32_t> with_main;
  for (bool loops : {false, true}) {
    std::vector<int32_t> wanted = FunctionsOf(program, plan, loops, only_kernels);
    size_t code = CodeOf(program, wanted);
    // A module costs about as much as a small kernel.
    bool join = !only_kernels && HasControlFlow(program) && loops == !plan.regions.empty();
    if (join && code <= kCodeBesideMain) {
      with_main = std::move(wanted);
      continue;
    }
    size_t threads = static_cast<size_t>(std::max(parts, 1));
    size_t share = std::max(kCodePerModule, (code + threads - 1) / threads);
    for (size_t i = 0; i < wanted.size();) {
      std::vector<int32_t> group;
      for (size_t n = 0; i < wanted.size() && n < share; ++i) {
        group.push_back(wanted[i]);
        n += program.kernels[wanted[i]].code.size() + kCallCode;
      }
      modules.push_back(RenderKernels(program, plan, target, group, loops, modules.size()));
    }
  }
  if (only_kernels ? !plan.regions.empty() : HasControlFlow(program)) {
    modules.push_back(RenderMain(program, plan, target, with_main, only_kernels));
  }
  return modules;
}

}  // namespace weft::cpu
