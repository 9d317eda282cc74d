#include "gpu/cuda_program.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/float_mode.h"
#include "base/metrics.h"
#include "base/str.h"
#include "gpu/gpu_timeline.h"
#include "gpu/loop_graph.h"
#include "gpu/render_program.h"
#include "gpu/routines/routine.h"
#include "program/library.h"
#include "runtime/binding.h"

namespace weft::gpu {
namespace {

using program::Program;
using program::Step;
using runtime::Allocation;
using runtime::Call;
using runtime::CopyKind;

using Steps = std::vector<Step>;

// Launches in one graph, and in a loop that is worth one.
constexpr int64_t kGraphLaunches = 192, kWorthAGraph = 24;

struct Function {
  const CudaFunction* rendered = nullptr;
  void* handle = nullptr;
};

class CudaLoadedProgram : public runtime::LoadedProgram {
 public:
  CudaLoadedProgram(Program program, std::shared_ptr<CudaCore> core)
      : program_(std::move(program)), core_(std::move(core)), binding_(program_), graphs_(core_) {}
  ~CudaLoadedProgram() override;

  Status Compile(const runtime::LoadOptions& options, const Nvrtc& nvrtc,
                 const CudaMachine& machine);

  Status Run(const Call&) const override {
    return FailedPrecondition("program ", program_.name, ": ", core_->name,
                              " has memory that the host does not see: it has to be enqueued");
  }
  Status Enqueue(const Call& call, runtime::Stream& stream) const override;
  const Program& program() const override { return program_; }
  const runtime::LoadStats& stats() const override { return stats_; }
  int64_t temp_bytes() const override { return scratch_at() + scratch_.bytes; }
  runtime::Scratch scratch() const override { return scratch_; }
  const std::vector<std::string>& host_routines() const { return host_routines_; }

 private:
  friend class StepEnqueuer;
  Status FindFunctions();
  Status PlaceConstants();
  Status PrepareRoutines(const KernelCompiler& compiler);
  // Scratch memory of routines lies behind the temps.
  int64_t scratch_at() const {
    constexpr int64_t kAlign = runtime::kDeviceAlignment;
    return (binding_.temp_bytes() + kAlign - 1) / kAlign * kAlign;
  }

  const Program program_;
  const std::shared_ptr<CudaCore> core_;
  const runtime::ProgramBinding binding_;
  CudaProgram rendered_;  // points into the program
  void* module_ = nullptr;
  std::vector<Function> kernels_;  // by kernel
  std::map<const Step*, Function> loops_;
  std::map<const Step*, PreparedPtr> routines_;  // those not listed run on the host
  std::vector<std::string> host_routines_;
  runtime::Scratch scratch_;
  Allocation constants_;
  runtime::LoadStats stats_;
  mutable LoopGraphs graphs_;
  const runtime::StepTraces traces_{program_};
};

// Enqueues the steps of one run. Where the host has to know something, it waits for the stream.
class StepEnqueuer {
 public:
  // `timeline` may be null.
  StepEnqueuer(const CudaLoadedProgram& loaded, const Call& call, CudaStream& stream,
               std::vector<std::byte*> addresses, std::byte* scratch, RunTimeline* timeline)
      : loaded_(loaded),
        program_(loaded.program_),
        call_(call),
        stream_(stream),
        cuda_(*loaded.core_->cuda),
        addresses_(std::move(addresses)),
        scratch_(scratch),
        timeline_(timeline) {}

  Status RunList(const Steps& steps) {
    for (const Step& step : steps) {
      if (call_.cancel != nullptr && *call_.cancel) {
        return MakeError(Code::kCancelled, "program ", program_.name, " was cancelled");
      }
      Status status = std::visit([&](const auto& op) { return RunOp(step, op); }, step.op);
      if (status) {
        if (timeline_ != nullptr && !HasParts(step)) timeline_->End(step);
        continue;
      }
      Error error = status.error();
      if (!step.name.empty()) error.Prefix(StrCat(step.name, ": "));
      if (!step.source.empty()) error.Source(step.source);
      return std::unexpected(std::move(error));
    }
    return {};
  }

 private:
  // Its steps are enqueued one by one, and are in timelines themselves.
  bool HasParts(const Step& step) const {
    return std::holds_alternative<program::ConditionalStep>(step.op) ||
           (std::holds_alternative<program::WhileStep>(step.op) && !loaded_.loops_.contains(&step));
  }
  std::byte* At(const program::Use& use) const {
    return addresses_[use.slice.buffer] + use.slice.offset;
  }

  Status Launch(const Step& step, const Function& function, std::vector<std::byte*> arguments) {
    const gpu::Launch& launch = function.rendered->launch;
    if (launch.blocks == 0) return {};
    std::vector<void*> parameters;
    for (std::byte*& argument : arguments) parameters.push_back(&argument);
    stream_.NoteWork(step.name.empty() ? function.rendered->name : step.name);
    int code = cuda_.LaunchKernel(function.handle, static_cast<unsigned>(launch.blocks), 1, 1,
                                  static_cast<unsigned>(launch.threads), 1, 1,
                                  static_cast<unsigned>(launch.shared_bytes), stream_.handle(),
                                  parameters.data(), nullptr);
    return cuda_.Check(code, StrCat("launch ", function.rendered->name));
  }

  // What the device has written so far.
  Status Fetch(std::byte* to, const std::byte* from, int64_t bytes) {
    TRY(stream_.Copy(CopyKind::kToHost, to, from, bytes));
    return WaitHere();
  }
  Status WaitHere() {
    metrics::Add(metrics::kDeviceSyncs);
    return cuda_.Check(cuda_.StreamSynchronize(stream_.handle()), "wait");
  }

  Status RunOp(const Step& step, const program::KernelStep& op) {
    std::vector<std::byte*> arguments;
    for (const program::Use& use : step.uses) arguments.push_back(At(use));
    return Launch(step, loaded_.kernels_[static_cast<size_t>(op.kernel)], std::move(arguments));
  }
  Status RunOp(const Step& step, const program::CopyStep&) {
    return stream_.Copy(CopyKind::kOnDevice, At(step.uses[1]), At(step.uses[0]),
                        step.uses[0].slice.size);
  }
  Status RunOp(const Step& step, const program::FillStep& op) {
    return stream_.Fill(At(step.uses[0]), step.uses[0].slice.size, op.pattern);
  }
  Status RunOp(const Step& step, const program::LibraryStep& op) {
    auto prepared = loaded_.routines_.find(&step);
    if (prepared == loaded_.routines_.end()) return RunOnHost(step, op);
    std::vector<std::byte*> memory;
    for (const program::Use& use : step.uses) memory.push_back(At(use));
    stream_.NoteWork(step.name.empty() ? op.routine : step.name);
    TRY(prepared->second->Enqueue({stream_, memory, scratch_, call_.device}));
    return LaunchEpilogue(step, memory);
  }
  Status LaunchEpilogue(const Step& step, std::span<std::byte* const> memory) {
    const auto& op = std::get<program::LibraryStep>(step.op);
    if (program::StringAttr(op, "epilogue", "").empty()) return {};
    program::EpilogueForm form = program::EpilogueFormOf(program_, step);
    std::vector<std::byte*> arguments;
    for (size_t i = 0; i + 2 < memory.size(); ++i) {
      arguments.push_back(i == form.result ? memory[2] : memory[i + (i < form.result ? 3 : 2)]);
    }
    auto number = static_cast<size_t>(form.kernel - program_.kernels.data());
    return Launch(step, loaded_.kernels_[number], std::move(arguments));
  }
  // By the interpreter, on copies.
  Status RunOnHost(const Step& step, const program::LibraryStep& op) {
    const program::Routine* routine = program::FindRoutine(op.routine);
    if (routine == nullptr && call_.call == nullptr) {
      return Unimplemented("routine \"", op.routine, "\" is not known");
    }
    std::vector<Allocation> copies;  // freed behind what is copied back
    std::vector<std::span<std::byte>> memory;
    for (const program::Use& use : step.uses) {
      copies.push_back(TRY(loaded_.core_->Allocate(
          stream_, use.slice.size, runtime::MemorySpace::kPinned, "copy for the host")));
      memory.emplace_back(copies.back().address(), static_cast<size_t>(use.slice.size));
      if (!Reads(use.access)) continue;
      TRY(stream_.Copy(CopyKind::kToHost, copies.back().address(), At(use), use.slice.size));
    }
    TRY(WaitHere());
    {
      FloatMode mode(program_.flush_subnormals);
      TRY(routine != nullptr ? routine->interpret(program_, step, call_.device, memory)
                             : (*call_.call)(step, memory));
    }
    // A callback may have used the copies on the GPU: they are pinned.
    if (routine == nullptr) {
      TRY(cuda_.Check(cuda_.StreamSynchronize(kDefaultStream), "work of a callback"));
    }
    for (size_t i = 0; i < copies.size(); ++i) {
      if (!Writes(step.uses[i].access)) continue;
      TRY(stream_.Copy(CopyKind::kToDevice, At(step.uses[i]), copies[i].address(),
                       step.uses[i].slice.size));
    }
    return {};
  }
  Status RunOp(const Step&, const program::WaitStep&) { return {}; }  // in stream order
  Status RunOp(const Step& step, const program::WhileStep& op) {
    if (auto native = loaded_.loops_.find(&step); native != loaded_.loops_.end()) {
      std::vector<std::byte*> arguments;
      for (program::BufferId id : native->second.rendered->buffers) {
        arguments.push_back(addresses_[id]);
      }
      return Launch(step, native->second, std::move(arguments));
    }
    if (op.trip_count) return RunCounted(step, op);
    while (true) {
      TRY(RunList(op.condition));
      std::byte go{};
      TRY(Fetch(&go, At(step.uses[0]), 1));
      if (go == std::byte{0}) return {};
      TRY(RunList(op.body));
    }
  }
  // Without its condition, which decides nothing; rounds in graphs where they can be.
  Status RunCounted(const Step& step, const program::WhileStep& op) {
    const int64_t trips = *op.trip_count, launches = LaunchesOf(op.body);
    int64_t done = 0;
    if (launches > 0 && trips > 1 && trips * launches >= kWorthAGraph) {
      LoopGraphs::Work work;
      work.loop = &step;
      work.rounds = std::clamp<int64_t>(kGraphLaunches / launches, 1, trips);
      work.addresses = AddressesOf(op.body);
      work.enqueue_round = [&](CudaStream& recorder) {
        StepEnqueuer round(loaded_, call_, recorder, addresses_, scratch_, nullptr);
        return round.RunList(op.body);
      };
      stream_.NoteWork(step.name);
      int64_t times = trips / work.rounds;
      if (TRY(loaded_.graphs_.Launch(work, times, stream_, call_.cancel))) {
        done = times * work.rounds;
        if (timeline_ != nullptr) timeline_->End(step);
      }
    }
    for (; done < trips; ++done) TRY(RunList(op.body));
    return {};
  }
  // Those of a list of steps, about; 0: it has to wait for the host on the way.
  int64_t LaunchesOf(const Steps& steps) const {
    constexpr int64_t kOfRoutine = 2;
    int64_t count = 0;
    for (const Step& step : steps) {
      if (std::holds_alternative<program::WaitStep>(step.op)) continue;
      if (std::holds_alternative<program::LibraryStep>(step.op)) {
        auto prepared = loaded_.routines_.find(&step);
        if (prepared == loaded_.routines_.end() || !prepared->second->capturable()) return 0;
        count += kOfRoutine;
        continue;
      }
      bool launched = std::holds_alternative<program::KernelStep>(step.op) ||
                      std::holds_alternative<program::CopyStep>(step.op) ||
                      std::holds_alternative<program::FillStep>(step.op) ||
                      loaded_.loops_.contains(&step);
      if (!launched) return 0;
      ++count;
    }
    return count;
  }
  // All that a graph of the steps has written into it.
  std::vector<const std::byte*> AddressesOf(const Steps& steps) const {
    std::vector<const std::byte*> all = {scratch_};
    all.push_back(reinterpret_cast<const std::byte*>(static_cast<intptr_t>(call_.device)));
    ForEachStep(steps, [&](const Step& step) {
      for (const program::Use& use : step.uses) all.push_back(At(use));
      auto native = loaded_.loops_.find(&step);
      if (native == loaded_.loops_.end()) return;
      for (program::BufferId id : native->second.rendered->buffers) all.push_back(addresses_[id]);
    });
    return all;
  }
  Status RunOp(const Step& step, const program::ConditionalStep& op) {
    int32_t index = 0;
    int64_t bytes = step.uses[0].slice.size, last = std::ssize(op.branches) - 1;
    TRY(Fetch(reinterpret_cast<std::byte*>(&index), At(step.uses[0]), bytes));
    int64_t branch = bytes == 1 ? (index != 0 ? 0 : 1) : index < 0 || index > last ? last : index;
    return branch > last ? Status() : RunList(op.branches[static_cast<size_t>(branch)]);
  }
  template <class Op>
  Status RunOp(const Step& step, const Op&) {
    return Unimplemented(KindName(step), ": not on GPUs yet");
  }

  const CudaLoadedProgram& loaded_;
  const Program& program_;
  const Call& call_;
  CudaStream& stream_;
  const CudaDriver& cuda_;
  const std::vector<std::byte*> addresses_;
  std::byte* const scratch_;
  RunTimeline* const timeline_;
};

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
    Function function = {&rendered, nullptr};
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

Status CudaLoadedProgram::PrepareRoutines(const KernelCompiler& compiler) {
  Status status;
  ForEachStep(program_.steps, [&](const Step& step) {
    auto* call = std::get_if<program::LibraryStep>(&step.op);
    if (call == nullptr || !status) return;
    auto prepared = PrepareRoutine({program_, step, *core_, *core_->libraries, compiler});
    if (!prepared) {
      Error error = prepared.error();
      if (!step.name.empty()) error.Prefix(StrCat(step.name, ": "));
      if (!step.source.empty()) error.Source(step.source);
      status = std::unexpected(std::move(error));
    } else if (*prepared == nullptr) {
      host_routines_.push_back(call->routine);
    } else {
      if ((*prepared)->scratch_bytes() > scratch_.bytes) {
        scratch_ = {(*prepared)->scratch_bytes(), &step};
      }
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
  StepEnqueuer enqueuer(*this, call, *stream,
                        binding_.Bind(call, temps.address(), constants_.address()),
                        temps.address() == nullptr ? nullptr : temps.address() + scratch_at(),
                        stream->is_traced() ? &timeline : nullptr);
  Status status = enqueuer.RunList(program_.steps);
  if (!status) stream->Report(status.error());
  return {};
}

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
  auto loaded = std::make_unique<CudaLoadedProgram>(std::move(program), std::move(core));
  TRY(loaded->Compile(options, nvrtc, machine));
  return loaded;
}

std::span<const std::string> HostRoutinesOf(const runtime::LoadedProgram& program) {
  auto* loaded = dynamic_cast<const CudaLoadedProgram*>(&program);
  if (loaded == nullptr) return {};
  return loaded->host_routines();
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
