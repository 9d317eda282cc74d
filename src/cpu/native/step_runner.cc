// Steps run one by one from C++, each kernel as a call, with a report after each.
#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/inline_vec.h"
#include "base/storage.h"
#include "cpu/native/call.h"
#include "cpu/native/run.h"
#include "cpu/render/kernel.h"
#include "program/cost.h"

namespace weft::cpu {

class StepRunner {
 public:
  StepRunner(const NativeProgram& program, const runtime::Call& call)
      : program_(program), call_(call) {
    context_.program = &program;
    context_.run = &call;
    context_.pool = call.pool ? call.pool : &DefaultPool();
    context_.in_place = true;  // what a step has made is there when it is reported
  }

  Status Run() {
    table_ = program_.table_;
    tasks_.resize(program_.program_.kernels.size(), nullptr);
    for (const NativeProgram::Binding& b : program_.bindings_) {
      table_[b.slot] = (b.result ? call_.results : call_.parameters)[b.index];
    }
    arena_ = AllocateStorage(static_cast<size_t>(program_.plan_.arena_bytes), false);
    if (!arena_ && program_.plan_.arena_bytes > 0) return ResourceExhausted("no memory for temps");
    table_[0] = arena_.get();
    context_.sequence = nullptr;  // regions have no sequences
    context_.cancel =
        call_.cancel ? reinterpret_cast<const std::byte*>(call_.cancel) : &never_cancelled_;
    return RunSteps(program_.program_.steps);
  }

 private:
  std::byte* Address(const program::Use& use) const {
    program::Slice slice = Resolve(program_.program_, use.slice);
    const Place& place = program_.plan_.places[slice.buffer];
    return table_[place.slot] + place.offset + slice.offset;
  }

  Status RunSteps(const std::vector<program::Step>& steps) {
    for (const program::Step& step : steps) {
      std::vector<std::span<std::byte>> memory;
      for (const program::Use& use : step.uses) {
        memory.emplace_back(Address(use), static_cast<size_t>(use.slice.size));
      }
      bool reported = IsReported(step);
      if (reported && call_.before_step && *call_.before_step) {
        TRY((*call_.before_step)(step, memory));
      }
      TRY(Prepare(step));
      auto start = std::chrono::steady_clock::now();
      DoingItem item = ItemOf(step);
      Doing doing({"run", program_.program_.name});
      doing.At(&item);
      context_.doing = &doing;
      TRY(std::visit([&](const auto& op) { return RunOp(step, op); }, step.op));
      double seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      if (reported && call_.after_step && *call_.after_step) {
        TRY((*call_.after_step)(step, seconds, memory));
      }
    }
    return {};
  }

  // The code of the first step is made before its time is taken.
  Status Prepare(const program::Step& step) {
    if (auto* launch = std::get_if<program::KernelStep>(&step.op)) {
      TaskFunction& task = tasks_[static_cast<size_t>(launch->kernel)];
      if (task == nullptr) task = TRY(program_.TaskOf(launch->kernel));
    } else if (IsRegion(step)) {
      TRY(program_.RegionOf(program_.plan_.region_numbers.at(&step)));
    }
    return {};
  }
  // Steps that hold others are not reported beside those.
  bool IsReported(const program::Step& step) const { return IsRegion(step) || !HasLists(step); }
  bool IsRegion(const program::Step& step) const {
    return !call_.inside_regions && program_.plan_.region_numbers.contains(&step);
  }

  Status RunOp(const program::Step& step, const program::KernelStep& op) {
    TaskFunction task = tasks_[static_cast<size_t>(op.kernel)];
    int64_t grid = GridSize(program_.program_.kernels[op.kernel]);
    std::vector<std::byte*> addresses = Addresses(step);
    if (grid == 1) CallNative(task, addresses.data(), 0, 1);
    if (grid <= 1) return {};
    context_.pool->ParallelFor(grid, 1, [&](int64_t begin, int64_t end) {
      CallNative(task, addresses.data(), begin, end);
    });
    return {};
  }
  std::vector<std::byte*> Addresses(const program::Step& step) const {
    std::vector<std::byte*> addresses;
    for (const program::Use& use : step.uses) addresses.push_back(Address(use));
    return addresses;
  }
  Status RunOp(const program::Step& step, const program::CopyStep&) {
    CopyMemory(*context_.pool, Address(step.uses[1]), Address(step.uses[0]),
               step.uses[0].slice.size);
    return {};
  }
  Status RunOp(const program::Step& step, const program::FillStep& op) {
    FillMemory(Address(step.uses[0]), step.uses[0].slice.size, op.pattern);
    return {};
  }
  Status RunOp(const program::Step&, const program::WaitStep&) { return {}; }
  Status RunOp(const program::Step& step, const program::WhileStep& op) {
    if (IsRegion(step)) {
      RunFunction region = TRY(program_.RegionOf(program_.plan_.region_numbers.at(&step)));
      return CallNative(region, &context_, table_.data()) == 0 ? Status() : Cancelled();
    }
    while (true) {
      TRY(RunSteps(op.condition));
      if (*Address(step.uses[0]) == std::byte{0}) return {};
      TRY(RunSteps(op.body));
      if (call_.cancel && call_.cancel->load(std::memory_order_relaxed)) return Cancelled();
    }
  }
  Status Cancelled() const {
    return MakeError(Code::kCancelled, "program ", program_.program_.name, ": cancelled");
  }
  Status RunOp(const program::Step& step, const program::ConditionalStep& op) {
    const std::byte* at = Address(step.uses[0]);
    size_t branch = *at != std::byte{0} ? 0 : 1, last = op.branches.size() - 1;
    if (step.uses[0].slice.size == 1) {
      if (branch > last) return {};
    } else {
      int32_t index;
      std::memcpy(&index, at, sizeof(index));
      branch = index < 0 ? last : std::min(static_cast<size_t>(index), last);
    }
    return RunSteps(op.branches[branch]);
  }
  Status RunOp(const program::Step&, const program::ListStep& op) { return RunSteps(op.steps); }
  template <class Op>
  Status RunOp(const program::Step& step, const Op&) {
    std::vector<std::byte*> addresses = Addresses(step);
    // Steps inside a region never get here: a region has none of these.
    return program_.RunCall(context_, program_.plan_.call_numbers.at(&step), addresses.data(),
                            table_.data());
  }

  const NativeProgram& program_;
  const runtime::Call& call_;
  NativeProgram::Context context_;
  std::vector<std::byte*> table_;
  std::vector<TaskFunction> tasks_;  // by kernel, as they are needed
  std::shared_ptr<std::byte[]> arena_;
  const std::byte never_cancelled_{0};
};

Result<void*> NativeProgram::StepFunction(const std::string& name) const {
  MutexLock lock(mutex_);
  if (!step_image_) {
    std::vector<RenderedModule> modules = RenderProgram(program_, plan_, target_, 1, true);
    runtime::LoadStats unused;
    step_image_ =
        TRY(CodeImage::Link(TRY(CompileModules(*compilers_, program_.name, modules, {}, unused))));
  }
  return step_image_->Find(name);
}

Result<TaskFunction> NativeProgram::TaskOf(int32_t kernel) const {
  return reinterpret_cast<TaskFunction>(TRY(StepFunction(TaskName(plan_.same_as[kernel]))));
}

Result<RunFunction> NativeProgram::RegionOf(int32_t region) const {
  return reinterpret_cast<RunFunction>(TRY(StepFunction(RegionName(region))));
}

Status RunStepByStep(const NativeProgram& program, const runtime::Call& call) {
  return StepRunner(program, call).Run();
}

}  // namespace weft::cpu
