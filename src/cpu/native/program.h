// A Program as native code.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/kept_threads.h"
#include "cpu/native/compile.h"
#include "cpu/native/sequence.h"
#include "cpu/native/step_traces.h"
#include "cpu/plan.h"
#include "cpu/routines/routine.h"
#include "runtime/device.h"

namespace weft::cpu {

class NativeProgram : public runtime::LoadedProgram {
 public:
  static Result<std::unique_ptr<NativeProgram>> Load(program::Program program,
                                                     const runtime::LoadOptions& options,
                                                     std::shared_ptr<CompilerPool> compilers,
                                                     const RenderTarget& target);
  ~NativeProgram() override;

  Status Run(const runtime::Call& call) const override;
  const program::Program& program() const override { return program_; }
  const runtime::LoadStats& stats() const override { return stats_; }
  int64_t temp_bytes() const override { return plan_.arena_bytes + scratch_.bytes; }
  runtime::Scratch scratch() const override { return scratch_; }

 private:
  struct Context;  // NativeContext and what its functions need
  friend class StepRunner;

  // Parameters and results: which address goes where in the table.
  struct Binding {
    int32_t slot;
    int64_t index, bytes;
    bool result;
  };
  // A result inside a donated parameter.
  struct Donated {
    int64_t result, parameter, offset;
  };

  NativeProgram(program::Program program, std::shared_ptr<CompilerPool> compilers,
                const RenderTarget& target)
      : program_(std::move(program)), compilers_(std::move(compilers)), target_(target) {}
  Status Compile(const runtime::LoadOptions& options);
  Status PlaceConstants();
  void BindArguments();
  Status PrepareRoutines();
  Status Link(const std::vector<std::string>& objects);
  Status PrepareSequences();
  // For running step by step.
  Result<void*> StepFunction(const std::string& name) const WEFT_EXCLUDES(mutex_);
  Result<TaskFunction> TaskOf(int32_t kernel) const;
  Result<RunFunction> RegionOf(int32_t region) const;

  Status CheckCall(const runtime::Call& call) const;
  Status RunCall(Context& context, int64_t number, std::byte* const* addresses,
                 std::byte* const* table) const;
  Status RunSequence(Context& context, int64_t number, std::byte* const* table) const;
  void RunTogether(Context& context, std::span<const SequenceStep> kernels,
                   std::byte* const* table) const;
  // Asynchronous lists: where one begins, what it does, where it has ended.
  Status StartList(Context& context, const program::Step& step, std::byte* const* table) const;
  Status RunList(const Context& outer, int32_t number, std::byte* const* table) const;
  Status WaitFor(Context& context, const program::Step& step) const;
  Status RunSteps(Context& context, std::byte* const* table) const;
  static int32_t SequenceFromCode(NativeContext* context, int64_t number, std::byte* const* table);
  static void RegionFromCode(NativeContext* context, int64_t number, int64_t is_end);
  const StepTraces& Traces() const;

  // Of the arena and the room behind it.
  int64_t memory_bytes() const {
    return room_bytes_ > 0 ? room_offset_ + room_bytes_ : plan_.arena_bytes;
  }
  std::shared_ptr<std::byte[]> TakeArena() const;
  void KeepArena(std::shared_ptr<std::byte[]> arena) const;

  const program::Program program_;  // the plan points into it
  std::shared_ptr<CompilerPool> compilers_;
  RenderTarget target_;
  Plan plan_;
  runtime::LoadStats stats_;
  std::unique_ptr<CodeImage> image_;
  RunFunction run_ = nullptr;       // null: the steps are one sequence, or none
  std::vector<RunFunction> lists_;  // by number, likewise
  int64_t list_threads_ = 0;        // that do them
  std::vector<std::vector<SequenceStep>> sequences_;
  std::vector<DoingItem> region_items_;
  size_t most_arguments_ = 0;                               // of a step in them
  std::vector<std::unique_ptr<PreparedRoutine>> routines_;  // by call number; null: not the CPU's
  runtime::Scratch scratch_;                                // of routines
  int64_t room_offset_ = 0, room_bytes_ = 0;                // for that, behind the arena
  std::vector<std::byte*> table_;  // addresses of constants; the rest is filled in by each run
  std::vector<Literal> constants_;
  std::vector<Binding> bindings_;
  std::vector<Donated> donated_;
  size_t parameters_ = 0, results_ = 0;

  mutable KeptThreads kept_;  // for asynchronous lists
  mutable std::once_flag traced_;
  mutable StepTraces traces_;  // made when first recorded
  mutable Mutex mutex_;
  mutable std::vector<std::shared_ptr<std::byte[]>> arenas_ WEFT_GUARDED_BY(mutex_);
  mutable std::unique_ptr<CodeImage> step_image_ WEFT_GUARDED_BY(mutex_);
};

// Runs the steps one by one from C++, for tools.
Status RunStepByStep(const NativeProgram& program, const runtime::Call& call);

}  // namespace weft::cpu
