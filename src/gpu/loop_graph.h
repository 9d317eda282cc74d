// Rounds of a loop as graphs of CUDA: many launches for one call of the host's.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "gpu/cuda_stream.h"
#include "program/program.h"

namespace weft::gpu {

// The graphs of one program, kept for its next runs. From any thread.
class LoopGraphs {
 public:
  explicit LoopGraphs(std::shared_ptr<CudaCore> core) : core_(std::move(core)) {}
  ~LoopGraphs() { Clear(); }
  LoopGraphs(const LoopGraphs&) = delete;

  // What is launched; a graph has addresses written into it.
  struct Work {
    const program::Step* loop;
    std::vector<const std::byte*> addresses;
    int64_t rounds;  // in a graph
    // On streams of their own: the one that is captured, and one beside it.
    std::function<Status(CudaStream& recorder, CudaStream& side)> enqueue_rounds;
  };
  // Launches the graph so many times. False: there is none, and nothing was enqueued.
  Result<bool> Launch(const Work& work, int64_t times, CudaStream& stream,
                      const std::atomic<bool>* cancel) WEFT_EXCLUDES(mutex_);
  void Clear() WEFT_EXCLUDES(mutex_);  // waits for what is under way

 private:
  struct Graph {
    const program::Step* loop;
    std::vector<const std::byte*> addresses;
    int64_t rounds;
    void* executable;
    runtime::EventPtr last;  // behind its last launch
  };
  Graph* Find(const Work& work) WEFT_REQUIRES(mutex_);
  bool MakeRoom(const program::Step* loop) WEFT_REQUIRES(mutex_);
  Result<void*> Capture(const Work& work) WEFT_REQUIRES(mutex_);
  Status LaunchPaced(void* executable, int64_t times, CudaStream& stream,
                     const std::atomic<bool>* cancel) const;

  const std::shared_ptr<CudaCore> core_;
  Mutex mutex_;
  // Nobody else enqueues there.
  std::shared_ptr<CudaStream> recorder_ WEFT_GUARDED_BY(mutex_), side_ WEFT_GUARDED_BY(mutex_);
  std::vector<Graph> graphs_ WEFT_GUARDED_BY(mutex_);
  std::set<const program::Step*> refused_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft::gpu
