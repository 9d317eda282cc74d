#include "gpu/cuda_program.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/log.h"
#include "base/str.h"
#include "gpu/loaded_program.h"
#include "gpu/nvtx.h"
#include "gpu/step_enqueuer.h"
#include "gpu/strided_operands.h"
#include "program/library.h"

namespace weft::gpu {
namespace {

using program::Program;
using program::Step;
using runtime::Allocation;
using runtime::Call;
using runtime::CopyKind;

using Steps = std::vector<Step>;

}  // namespace

CudaLoadedProgram::~CudaLoadedProgram() {
  graphs_.Clear();
  if ((module_ == nullptr && routines_.empty()) || !core_->MakeCurrent()) return;
  core_->cuda->CtxSynchronize();  // kernels of it may be under way
  routines_.clear();
  if (module_ != nullptr) core_->cuda->ModuleUnload(module_);
}

Status CudaLoadedProgram::Compile(const runtime::LoadOptions& options, const Nvrtc& nvrtc,
                                  const CudaMachine& machine) {
  auto start = std::chrono::steady_clock::now();
  rendered_ = RenderProgram(program_);
  if (options.show) options.show("main.cu", rendered_.text);
  TRY(core_->MakeCurrent());
  if (!rendered_.functions.empty()) {
    std::string key =
        Digest::Hex(StrCat("cuda\n", machine.name, "\n", nvrtc.version(), "\n", rendered_.text));
    std::optional<std::string> image;
    if (options.cache != nullptr) image = options.cache->Find(key);
    (image ? stats_.from_cache : stats_.compiled) += 1;
    if (!image) {
      image = TRY(nvrtc.Compile(rendered_.text, program_.name + ".cu", machine.name));
      if (options.cache != nullptr) options.cache->Store(key, *image);
    }
    stats_.code_bytes = std::ssize(*image);
    TRY(core_->cuda->Check(core_->cuda->ModuleLoadData(&module_, image->c_str()),
                           StrCat("load ", program_.name)));
  }
  TRY(FindFunctions());
  TRY(PlaceConstants());
  TRY(PrepareRoutines({nvrtc, machine, options, stats_}));
  stats_.kernels = std::ssize(rendered_.functions);
  stats_.milliseconds =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return {};
}

Status CudaLoadedProgram::FindFunctions() {
  const CudaDriver& cuda = *core_->cuda;
  kernels_.resize(program_.kernels.size());
  for (const CudaFunction& rendered : rendered_.functions) {
    LoadedFunction function = {&rendered, nullptr};
    TRY(cuda.Check(cuda.ModuleGetFunction(&function.handle, module_, rendered.name.c_str()),
                   rendered.name));
    auto attribute = [&](int which) {
      int value = 0;
      cuda.FuncGetAttribute(&value, which, function.handle);
      return value;
    };
    KernelUse use = {attribute(kFunctionRegisters), attribute(kFunctionMaxThreads),
                     attribute(kFunctionSharedBytes)};
    TRY(CheckLaunch(rendered.name, rendered.launch, use, core_->limits));
    if (rendered.launch.shared_bytes > 0) {
      int bytes = static_cast<int>(rendered.launch.shared_bytes);
      constexpr int kAllShared = 100;  // percent of what L1 and shared memory have together
      TRY(cuda.Check(cuda.FuncSetAttribute(function.handle, kFunctionMaxDynamicShared, bytes),
                     StrCat(rendered.name, ": ", bytes, " bytes of shared memory")));
      cuda.FuncSetAttribute(function.handle, kFunctionSharedCarveout, kAllShared);
    }
    if (rendered.loop != nullptr) {
      loops_[rendered.loop] = function;
    } else {
      kernels_[static_cast<size_t>(rendered.kernel)] = function;
    }
  }
  return {};
}

void CudaLoadedProgram::NoteScratch(const Step& step, const PreparedRoutine& routine) {
  if (routine.scratch_bytes() > scratch_.bytes) scratch_ = {routine.scratch_bytes(), &step};
}

// Products and convolutions with the kernel that is the next step, where one launch does both.
void CudaLoadedProgram::FuseEpilogues(const Steps& steps, const KernelCompiler& compiler) {
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    ForEachList(step, [&](const Steps& list) { FuseEpilogues(list, compiler); });
    if (!std::holds_alternative<program::LibraryStep>(step.op) || i + 1 == steps.size()) continue;
    const Step& next = steps[i + 1];
    auto fused = PrepareWithEpilogue({program_, step, *core_, *core_->libraries, compiler}, next);
    if (fused == nullptr) continue;
    NoteScratch(step, *fused);
    routines_[&step] = std::move(fused);
    epilogues_[&step] = &next;
    absorbed_.insert(&next);
  }
}

Status CudaLoadedProgram::PrepareRoutines(const KernelCompiler& compiler) {
  FuseEpilogues(program_.steps, compiler);
  Status status;
  ForEachStep(program_.steps, [&](const Step& step) {
    auto* call = std::get_if<program::LibraryStep>(&step.op);
    if (call == nullptr || !status || routines_.contains(&step)) return;
    auto prepared = PrepareRoutine({program_, step, *core_, *core_->libraries, compiler});
    if (!prepared) {
      Error error = prepared.error();
      if (!step.name.empty()) error.Prefix(StrCat(step.name, ": "));
      if (!step.source.empty()) error.Source(step.source);
      status = std::unexpected(std::move(error));
    } else if (*prepared == nullptr) {
      host_routines_.push_back(call->routine);
    } else {
      NoteScratch(step, **prepared);
      routines_[&step] = std::move(*prepared);
    }
  });
  return status;
}

Status CudaLoadedProgram::PlaceConstants() {
  int64_t bytes = binding_.constant_bytes();
  if (bytes == 0) return {};
  auto stream = TRY(CudaStream::Create(runtime::StreamKind::kToDevice, core_));
  constants_ = TRY(core_->Allocate(*stream, bytes, runtime::MemorySpace::kDevice,
                                   StrCat("constants of ", program_.name)));
  TRY(stream->Copy(CopyKind::kToDevice, constants_.address(), binding_.constants().data(), bytes));
  return stream->Synchronize();
}

Status CudaLoadedProgram::Enqueue(const Call& call, runtime::Stream& any_stream) const {
  TRY(runtime::CheckCall(program_, call));
  if (call.before_step != nullptr || call.after_step != nullptr) {
    return Unimplemented("program ", program_.name, ": steps are not reported on GPUs yet");
  }
  auto* stream = dynamic_cast<CudaStream*>(&any_stream);
  if (stream == nullptr || stream->core() != core_) {
    return InvalidArgument("program ", program_.name, ": a stream of another device than ",
                           core_->name);
  }
  TRY(core_->MakeCurrent());
  Allocation temps;
  if (temp_bytes() > 0) {
    temps = TRY(core_->Allocate(*stream, temp_bytes(), runtime::MemorySpace::kDevice,
                                StrCat("temps of ", program_.name)));
  }
  RunTimeline timeline(*stream, traces_, call);
  NvtxRange range(core_->nvtx, [&] { return program_.name; });
  Status status =
      EnqueueSteps(*this, call, *stream, binding_.Bind(call, temps.address(), constants_.address()),
                   temps.address() == nullptr ? nullptr : temps.address() + scratch_at(),
                   stream->is_traced() ? &timeline : nullptr);
  if (!status) stream->Report(status.error());
  return {};
}

namespace {

// Steps that the executor has no way to run.
Status CheckSteps(const Program& program) {
  Status status;
  ForEachStep(program.steps, [&](const Step& step) {
    bool known = !std::holds_alternative<program::CollectiveStep>(step.op) &&
                 !std::holds_alternative<program::SendStep>(step.op) &&
                 !std::holds_alternative<program::RecvStep>(step.op);
    if (status && !known) {
      status = Unimplemented("program ", program.name, ": ", KindName(step), " ", step.name,
                             ": not on GPUs yet");
    }
  });
  return status;
}

}  // namespace

Result<std::unique_ptr<runtime::LoadedProgram>> LoadCudaProgram(Program program,
                                                                const runtime::LoadOptions& options,
                                                                std::shared_ptr<CudaCore> core,
                                                                const Nvrtc& nvrtc,
                                                                const CudaMachine& machine) {
  TRY(program::Verify(program));
  TRY(runtime::CheckSpaces(program));
  TRY(CheckSteps(program));
  program = ReadThroughTransposes(std::move(program), core->target);
  auto loaded = std::make_unique<CudaLoadedProgram>(std::move(program), std::move(core));
  TRY(loaded->Compile(options, nvrtc, machine));
  return loaded;
}

std::span<const std::string> HostRoutinesOf(const runtime::LoadedProgram& program) {
  auto* loaded = dynamic_cast<const CudaLoadedProgram*>(&program);
  if (loaded == nullptr) return {};
  return loaded->host_routines();
}

int64_t FusedKernelsOf(const runtime::LoadedProgram& program) {
  auto* loaded = dynamic_cast<const CudaLoadedProgram*>(&program);
  return loaded == nullptr ? 0 : loaded->fused_kernels();
}

Status CheckLaunch(std::string_view kernel, const Launch& launch, const KernelUse& use,
                   const CudaLimits& limits) {
  auto exhausted = [&](std::string_view what, int64_t asked, int64_t available,
                       std::string_view advice) -> Status {
    Error error(Code::kResourceExhausted,
                StrCat(kernel, ": ", what, ": asked for ", asked, ", the device has ", available));
    return std::unexpected(error.Hint(std::string(advice)));
  };
  if (launch.blocks > limits.blocks) {
    return exhausted("too many blocks", launch.blocks, limits.blocks, "give each block more work");
  }
  if (launch.threads > limits.threads) {
    return exhausted("too many threads in a block", launch.threads, limits.threads,
                     "make the thread loops smaller");
  }
  // Warps get registers as a whole.
  int64_t warps = (launch.threads + 31) / 32, registers = warps * 32 * use.registers;
  if (registers > limits.registers || launch.threads > use.most_threads) {
    return exhausted("too many registers in a block", registers, limits.registers,
                     StrCat(use.registers, " registers a thread leave room for ", use.most_threads,
                            " threads: make the tiles or the blocks smaller"));
  }
  int64_t shared = launch.shared_bytes + use.static_shared;
  if (shared > limits.shared_bytes) {
    return exhausted("too much shared memory in a block", shared, limits.shared_bytes,
                     "make the tiles smaller");
  }
  return {};
}

}  // namespace weft::gpu
