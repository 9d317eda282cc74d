// What the CUDA device has of a program: its kernels, prepared routines and graphs of its loops.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "gpu/cuda_stream.h"
#include "gpu/gpu_timeline.h"
#include "gpu/loop_graph.h"
#include "gpu/render_program.h"
#include "gpu/routines/routine.h"
#include "runtime/binding.h"
#include "runtime/device.h"

namespace weft::gpu {

struct LoadedFunction {
  const CudaFunction* rendered = nullptr;
  void* handle = nullptr;
};

// Streams for lists of steps that go on beside others. One may be handed out again while its work
// is under way: what comes then comes behind that.
class SideStreams {
 public:
  Result<std::shared_ptr<CudaStream>> Take(const std::shared_ptr<CudaCore>& core) {
    std::shared_ptr<CudaStream> stream;
    {
      MutexLock lock(mutex_);
      if (!kept_.empty()) {
        stream = std::move(kept_.back());
        kept_.pop_back();
      }
    }
    if (stream == nullptr) return CudaStream::Create(runtime::StreamKind::kCompute, core);
    TRY(stream->ForgetError());  // another run's
    return stream;
  }
  void Keep(std::shared_ptr<CudaStream> stream) {
    MutexLock lock(mutex_);
    kept_.push_back(std::move(stream));
  }

 private:
  Mutex mutex_;
  std::vector<std::shared_ptr<CudaStream>> kept_ WEFT_GUARDED_BY(mutex_);
};

class CudaLoadedProgram : public runtime::LoadedProgram {
 public:
  CudaLoadedProgram(program::Program program, std::shared_ptr<CudaCore> core)
      : program_(std::move(program)), core_(std::move(core)), binding_(program_), graphs_(core_) {}
  ~CudaLoadedProgram() override;

  Status Compile(const runtime::LoadOptions& options, const Nvrtc& nvrtc,
                 const CudaMachine& machine);

  Status Run(const runtime::Call&) const override {
    return FailedPrecondition("program ", program_.name, ": ", core_->name,
                              " has memory that the host does not see: it has to be enqueued");
  }
  Status Enqueue(const runtime::Call& call, runtime::Stream& stream) const override;
  const program::Program& program() const override { return program_; }
  const runtime::LoadStats& stats() const override { return stats_; }
  int64_t temp_bytes() const override { return scratch_at() + scratch_.bytes; }
  runtime::Scratch scratch() const override { return scratch_; }
  const std::vector<std::string>& host_routines() const { return host_routines_; }
  int64_t fused_kernels() const { return std::ssize(absorbed_); }

 private:
  friend class StepEnqueuer;
  using Steps = std::vector<program::Step>;
  using Step = program::Step;
  Status FindFunctions();
  Status PlaceConstants();
  Status PrepareRoutines(const KernelCompiler& compiler);
  void NoteScratch(const Step& step, const PreparedRoutine& routine);
  void FuseEpilogues(const Steps& steps, const KernelCompiler& compiler);
  // Scratch memory of routines lies behind the temps.
  int64_t scratch_at() const {
    constexpr int64_t kAlign = runtime::kDeviceAlignment;
    return (binding_.temp_bytes() + kAlign - 1) / kAlign * kAlign;
  }

  const program::Program program_;
  const std::shared_ptr<CudaCore> core_;
  const runtime::ProgramBinding binding_;
  CudaProgram rendered_;  // points into the program
  void* module_ = nullptr;
  std::vector<LoadedFunction> kernels_;  // by kernel
  std::map<const Step*, LoadedFunction> loops_;
  std::map<const Step*, PreparedPtr> routines_;   // those not listed run on the host
  std::map<const Step*, const Step*> epilogues_;  // kernels that run as part of a routine
  std::set<const Step*> absorbed_;                // these kernels
  std::vector<std::string> host_routines_;
  runtime::Scratch scratch_;
  runtime::Allocation constants_;
  runtime::LoadStats stats_;
  mutable LoopGraphs graphs_;
  mutable SideStreams sides_;
  const runtime::StepTraces traces_{program_};
};

}  // namespace weft::gpu
