#include "gpu/step_enqueuer.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/float_mode.h"
#include "base/metrics.h"
#include "base/str.h"
#include "gpu/graph_branches.h"
#include "gpu/nvtx.h"
#include "program/library.h"

namespace weft::gpu {

using program::Program;
using program::Step;
using runtime::Allocation;
using runtime::Call;
using runtime::CopyKind;

using Steps = std::vector<Step>;

namespace {

// Launches in one graph, and in a loop that is worth one.
constexpr int64_t kGraphLaunches = 192, kWorthAGraph = 24;

// For profilers: "fusion.3 (model.py:12)".
std::string LabelOf(const Step& step) {
  std::string label = step.name.empty() ? std::string(program::KindName(step)) : step.name;
  if (!step.source.empty()) StrAppend(label, " (", step.source, ")");
  return label;
}

}  // namespace

class StepEnqueuer {
 public:
  StepEnqueuer(const CudaLoadedProgram& loaded, const Call& call, CudaStream& stream,
               std::vector<std::byte*> addresses, std::byte* scratch, RunTimeline* timeline,
               GraphBranches* branches = nullptr)
      : loaded_(loaded),
        program_(loaded.program_),
        call_(call),
        stream_(&stream),
        cuda_(*loaded.core_->cuda),
        addresses_(std::move(addresses)),
        scratch_(scratch),
        timeline_(timeline),
        branches_(branches) {}

  Status RunList(const Steps& steps) {
    for (const Step& step : steps) {
      if (call_.cancel != nullptr && *call_.cancel) {
        return MakeError(Code::kCancelled, "program ", program_.name, " was cancelled");
      }
      NvtxRange range(loaded_.core_->nvtx, [&] { return LabelOf(step); });
      if (branches_ != nullptr) stream_ = TRY(BranchFor(step));
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

  // What a run that failed did not wait for: the memory is in use until then.
  Status Join() {
    Status status;
    for (const Beside& list : beside_) {
      Status waited = stream_->WaitFor(list.end);
      if (status) status = std::move(waited);
      loaded_.sides_.Keep(list.stream);
    }
    beside_.clear();
    return status;
  }

 private:
  struct Beside {  // a list under way
    std::string event;
    std::shared_ptr<CudaStream> stream;
    runtime::EventPtr end;
  };
  // Its steps are enqueued one by one, and are in timelines themselves.
  bool HasParts(const Step& step) const {
    return HasLists(step) && !loaded_.loops_.contains(&step);
  }
  // The kernel that runs as part of the step; null: there is none.
  const Step* EpilogueOf(const Step& step) const {
    auto next = loaded_.epilogues_.find(&step);
    return next == loaded_.epilogues_.end() ? nullptr : next->second;
  }
  Result<CudaStream*> BranchFor(const Step& step) {
    std::vector<program::Use> uses = step.uses;
    if (const Step* next = EpilogueOf(step)) {
      uses.insert(uses.end(), next->uses.begin(), next->uses.end());
    }
    auto* launch = std::get_if<program::KernelStep>(&step.op);
    bool beside =
        launch != nullptr &&
        loaded_.kernels_[static_cast<size_t>(launch->kernel)].rendered->launch.blocks == 1;
    if (auto native = loaded_.loops_.find(&step); native != loaded_.loops_.end()) {
      for (program::BufferId id : native->second.rendered->buffers) {
        uses.push_back({program::Access::kReadWrite, {id, 0, *ByteSize(program_.buffers[id])}});
      }
    }
    return branches_->StreamFor(uses, beside);
  }
  std::byte* At(const program::Use& use) const {
    return addresses_[use.slice.buffer] + use.slice.offset;
  }

  Status Launch(const Step& step, const LoadedFunction& function,
                std::vector<std::byte*> arguments) {
    const gpu::Launch& launch = function.rendered->launch;
    if (launch.blocks == 0) return {};
    std::vector<void*> parameters;
    for (std::byte*& argument : arguments) parameters.push_back(&argument);
    stream_->NoteWork(step.name.empty() ? function.rendered->name : step.name);
    int code = cuda_.LaunchKernel(function.handle, static_cast<unsigned>(launch.blocks), 1, 1,
                                  static_cast<unsigned>(launch.threads), 1, 1,
                                  static_cast<unsigned>(launch.shared_bytes), stream_->handle(),
                                  parameters.data(), nullptr);
    return cuda_.Check(code, StrCat("launch ", function.rendered->name));
  }

  // What the device has written so far.
  Status Fetch(std::byte* to, const std::byte* from, int64_t bytes) {
    TRY(stream_->Copy(CopyKind::kToHost, to, from, bytes));
    return WaitHere();
  }
  Status WaitHere() {
    metrics::Add(metrics::kDeviceSyncs);
    return cuda_.Check(cuda_.StreamSynchronize(stream_->handle()), "wait");
  }

  Status RunOp(const Step& step, const program::KernelStep& op) {
    if (loaded_.absorbed_.contains(&step)) return {};
    std::vector<std::byte*> arguments;
    for (const program::Use& use : step.uses) arguments.push_back(At(use));
    return Launch(step, loaded_.kernels_[static_cast<size_t>(op.kernel)], std::move(arguments));
  }
  Status RunOp(const Step& step, const program::CopyStep&) {
    return stream_->Copy(CopyKind::kOnDevice, At(step.uses[1]), At(step.uses[0]),
                         step.uses[0].slice.size);
  }
  Status RunOp(const Step& step, const program::FillStep& op) {
    return stream_->Fill(At(step.uses[0]), step.uses[0].slice.size, op.pattern);
  }
  Status RunOp(const Step& step, const program::LibraryStep& op) {
    auto prepared = loaded_.routines_.find(&step);
    if (prepared == loaded_.routines_.end()) return RunOnHost(step, op);
    std::vector<std::byte*> memory;
    for (const program::Use& use : step.uses) memory.push_back(At(use));
    if (const Step* next = EpilogueOf(step)) {
      for (const program::Use& use : next->uses) memory.push_back(At(use));
    }
    stream_->NoteWork(step.name.empty() ? op.routine : step.name);
    MarkWrites(step);
    TRY(prepared->second->Enqueue({*stream_, memory, scratch_, call_.device}));
    return LaunchEpilogue(step, memory);
  }
  // Tools that follow each store of a kernel do not see all that libraries' kernels write. While a
  // graph is captured nothing is written; its launch says it.
  void MarkWrites(const Step& step) const {
    const Nvtx* tool = loaded_.core_->nvtx;
    if (tool == nullptr || !tool->has_memory() || branches_ != nullptr) return;
    std::vector<std::span<const std::byte>> written;
    for (const Step* one : {&step, EpilogueOf(step)}) {
      if (one == nullptr) continue;
      for (const program::Use& use : one->uses) {
        if (!Writes(use.access)) continue;
        written.emplace_back(At(use), static_cast<size_t>(use.slice.size));
      }
    }
    tool->MarkInitialized(stream_->handle(), written);
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
          *stream_, use.slice.size, runtime::MemorySpace::kPinned, "copy for the host")));
      memory.emplace_back(copies.back().address(), static_cast<size_t>(use.slice.size));
      if (!Reads(use.access)) continue;
      TRY(stream_->Copy(CopyKind::kToHost, copies.back().address(), At(use), use.slice.size));
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
      TRY(stream_->Copy(CopyKind::kToDevice, At(step.uses[i]), copies[i].address(),
                        step.uses[i].slice.size));
    }
    return {};
  }
  // What is not beside is in stream order.
  Status RunOp(const Step&, const program::WaitStep& op) {
    auto found = std::ranges::find(beside_, op.event, &Beside::event);
    if (found == beside_.end()) return {};
    const Beside list = std::move(*found);
    beside_.erase(found);
    loaded_.sides_.Keep(list.stream);
    return stream_->WaitFor(list.end);
  }
  // Scratch memory that routines of the list need; nothing where one of them uses memory of a
  // library's, or the host.
  std::optional<int64_t> ScratchBeside(const Steps& steps) const {
    std::optional<int64_t> bytes = 0;
    ForEachStep(steps, [&](const Step& step) {
      if (!bytes || !std::holds_alternative<program::LibraryStep>(step.op)) return;
      auto prepared = loaded_.routines_.find(&step);
      if (prepared == loaded_.routines_.end() || !prepared->second->capturable()) {
        bytes.reset();
      } else {
        bytes = std::max(*bytes, prepared->second->scratch_bytes());
      }
    });
    return bytes;
  }
  // An asynchronous one on a stream of its own, behind what this one has been given so far, with
  // scratch memory of its own.
  Status RunOp(const Step& step, const program::ListStep& op) {
    if (step.event.empty() || branches_ != nullptr) return RunList(op.steps);
    const std::optional<int64_t> bytes = ScratchBeside(op.steps);
    if (!bytes) return RunList(op.steps);
    Beside list{step.event, TRY(loaded_.sides_.Take(loaded_.core_)), nullptr};
    TRY(list.stream->WaitFor(TRY(stream_->Record())));
    Allocation scratch;  // freed behind what is enqueued here
    if (*bytes > 0) {
      scratch = TRY(loaded_.core_->Allocate(*list.stream, *bytes, runtime::MemorySpace::kDevice,
                                            StrCat("scratch of ", step.event)));
    }
    StepEnqueuer enqueuer(loaded_, call_, *list.stream, addresses_, scratch.address(), nullptr);
    Status status = enqueuer.RunList(op.steps);
    TRY(enqueuer.Join());
    list.end = TRY(list.stream->Record());
    beside_.push_back(std::move(list));
    return status;
  }
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
      work.enqueue_rounds = [&](CudaStream& recorder, CudaStream& side) -> Status {
        GraphBranches branches(program_, recorder, side);
        StepEnqueuer round(loaded_, call_, recorder, addresses_, scratch_, nullptr, &branches);
        for (int64_t i = 0; i < work.rounds; ++i) TRY(round.RunList(op.body));
        return branches.Join();
      };
      stream_->NoteWork(step.name);
      ForEachStep(op.body, [&](const Step& inner) {
        if (std::holds_alternative<program::LibraryStep>(inner.op)) MarkWrites(inner);
      });
      int64_t times = trips / work.rounds;
      if (TRY(loaded_.graphs_.Launch(work, times, *stream_, call_.cancel))) {
        done = times * work.rounds;
        if (timeline_ != nullptr) timeline_->End(step);
      }
    }
    for (; done < trips; ++done) TRY(RunList(op.body));
    return {};
  }
  // Those of a list of steps, about; 0: it has to wait for the host on the way, or puts work beside
  // others, which a graph has no streams for.
  int64_t LaunchesOf(const Steps& steps) const {
    constexpr int64_t kOfRoutine = 2;
    int64_t count = 0;
    for (const Step& step : steps) {
      if (std::holds_alternative<program::WaitStep>(step.op)) continue;
      if (auto* list = std::get_if<program::ListStep>(&step.op)) {
        const bool beside = !step.event.empty() && ScratchBeside(list->steps);
        const int64_t inside = beside ? 0 : LaunchesOf(list->steps);
        if (inside == 0 && !list->steps.empty()) return 0;
        count += inside;
        continue;
      }
      if (loaded_.absorbed_.contains(&step)) continue;
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
  CudaStream* stream_;  // of the step at hand
  const CudaDriver& cuda_;
  const std::vector<std::byte*> addresses_;
  std::byte* const scratch_;
  RunTimeline* const timeline_;
  GraphBranches* const branches_;  // while a graph is captured
  std::vector<Beside> beside_;
};

Status EnqueueSteps(const CudaLoadedProgram& loaded, const Call& call, CudaStream& stream,
                    std::vector<std::byte*> addresses, std::byte* scratch, RunTimeline* timeline) {
  StepEnqueuer enqueuer(loaded, call, stream, std::move(addresses), scratch, timeline);
  Status status = enqueuer.RunList(loaded.program().steps);
  Status joined = enqueuer.Join();
  return status ? joined : status;
}

}  // namespace weft::gpu
