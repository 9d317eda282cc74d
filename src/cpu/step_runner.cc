// Steps run one by one from C++, each kernel as a call, with a report after each.
#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/inline_vec.h"
#include "base/storage.h"
#include "cpu/native_call.h"
#include "cpu/native_run.h"
#include "cpu/render_kernel.h"

namespace weft::cpu {

class StepRunner {
 public:
  StepRunner(const NativeProgram& program, const runtime::Call& call)
      : program_(program), call_(call) {
    context_.program = &program;
    context_.run = &call;
    context_.pool = call.pool ? call.pool : &DefaultPool();
  }

  Status Run() {
    table_ = program_.table_;
    for (const NativeProgram::Binding& b : program_.bindings_) {
      table_[b.slot] = (b.result ? call_.results : call_.parameters)[b.index];
    }
    arena_ = AllocateStorage(static_cast<size_t>(program_.plan_.arena_bytes), false);
    if (!arena_ && program_.plan_.arena_bytes > 0) return ResourceExhausted("no memory for temps");
    table_[0] = arena_.get();
    return RunSteps(program_.program_.steps, true);
  }

 private:
  std::byte* Address(const program::Use& use) const {
    program::Slice slice = Resolve(program_.program_, use.slice);
    const Place& place = program_.plan_.places[slice.buffer];
    return table_[place.slot] + place.offset + slice.offset;
  }

  Status RunSteps(const std::vector<program::Step>& steps, bool report) {
    for (const program::Step& step : steps) {
      bool region = program_.plan_.region_numbers.contains(&step);
      auto start = std::chrono::steady_clock::now();
      report_inner_ = report && !region;
      TRY(std::visit([&](const auto& op) { return RunOp(step, op); }, step.op));
      report_inner_ = report;
      if (!report) continue;
      double seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      std::vector<std::span<std::byte>> memory;
      for (const program::Use& use : step.uses) {
        memory.emplace_back(Address(use), static_cast<size_t>(use.slice.size));
      }
      TRY((*call_.after_step)(step, seconds, memory));
    }
    return {};
  }

  Status RunOp(const program::Step& step, const program::KernelStep& op) {
    TaskFunction task = TRY(program_.TaskOf(op.kernel));
    int64_t grid = GridSize(program_.program_.kernels[op.kernel]);
    std::vector<std::byte*> addresses = Addresses(step);
    if (grid > 0) CallNative(task, addresses.data(), 0, grid);
    return {};
  }
  std::vector<std::byte*> Addresses(const program::Step& step) const {
    std::vector<std::byte*> addresses;
    for (const program::Use& use : step.uses) addresses.push_back(Address(use));
    return addresses;
  }
  Status RunOp(const program::Step& step, const program::CopyStep&) {
    size_t bytes = static_cast<size_t>(step.uses[0].slice.size);
    if (bytes > 0) std::memcpy(Address(step.uses[1]), Address(step.uses[0]), bytes);
    return {};
  }
  Status RunOp(const program::Step& step, const program::FillStep& op) {
    FillMemory(Address(step.uses[0]), step.uses[0].slice.size, op.pattern);
    return {};
  }
  Status RunOp(const program::Step&, const program::WaitStep&) { return {}; }
  Status RunOp(const program::Step& step, const program::WhileStep& op) {
    bool report = report_inner_;
    while (true) {
      TRY(RunSteps(op.condition, report));
      if (*Address(step.uses[0]) == std::byte{0}) return {};
      TRY(RunSteps(op.body, report));
      if (call_.cancel && call_.cancel->load(std::memory_order_relaxed)) {
        return MakeError(Code::kCancelled, "program ", program_.program_.name, ": cancelled");
      }
    }
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
    return RunSteps(op.branches[branch], report_inner_);
  }
  template <class Op>
  Status RunOp(const program::Step& step, const Op&) {
    std::vector<std::byte*> addresses = Addresses(step);
    // Steps inside a region never get here: a region has none of these.
    return program_.RunCall(context_, program_.plan_.call_numbers.at(&step), addresses.data());
  }

  const NativeProgram& program_;
  const runtime::Call& call_;
  NativeProgram::Context context_;
  std::vector<std::byte*> table_;
  std::shared_ptr<std::byte[]> arena_;
  bool report_inner_ = true;
};

Result<TaskFunction> NativeProgram::TaskOf(int32_t kernel) const {
  MutexLock lock(mutex_);
  if (!step_image_) {
    std::vector<RenderedModule> modules = RenderProgram(program_, plan_, target_, 1, true);
    runtime::LoadStats unused;
    step_image_ = TRY(CodeImage::Link(TRY(CompileModules(*compilers_, modules, {}, unused))));
  }
  return reinterpret_cast<TaskFunction>(TRY(step_image_->Find(TaskName(plan_.same_as[kernel]))));
}

Status RunStepByStep(const NativeProgram& program, const runtime::Call& call) {
  return StepRunner(program, call).Run();
}

}  // namespace weft::cpu
