#include "gpu/loop_graph.h"

#include <algorithm>
#include <deque>

#include "base/log.h"
#include "base/metrics.h"
#include "base/str.h"

namespace weft::gpu {
namespace {

// Of one loop: results of successive runs lie at a few places in turn.
constexpr int64_t kGraphsKept = 8;
// Launched and not done. What the device has been given cannot be taken back: a loop that is
// cancelled ends when these have run, and shorter ones make nobody wait.
constexpr int64_t kGraphsUnderWay = 32;

}  // namespace

LoopGraphs::Graph* LoopGraphs::Find(const Work& work) {
  for (Graph& graph : graphs_) {
    if (graph.loop == work.loop && graph.rounds == work.rounds &&
        graph.addresses == work.addresses) {
      return &graph;
    }
  }
  return nullptr;
}

// The oldest of the loop's graphs goes, unless it is still under way.
bool LoopGraphs::MakeRoom(const program::Step* loop) {
  auto same = [loop](const Graph& graph) { return graph.loop == loop; };
  if (std::ranges::count_if(graphs_, same) < kGraphsKept) return true;
  auto oldest = std::ranges::find_if(graphs_, same);
  if (oldest->last == nullptr || !oldest->last->done()) return false;
  core_->cuda->GraphExecDestroy(oldest->executable);
  graphs_.erase(oldest);
  return true;
}

Result<void*> LoopGraphs::Capture(const Work& work) {
  // Any call may be made meanwhile: the stream is this object's own.
  constexpr int kRelaxed = 2;
  const CudaDriver& cuda = *core_->cuda;
  if (recorder_ == nullptr) {
    recorder_ = TRY(CudaStream::Create(runtime::StreamKind::kCompute, core_));
    side_ = TRY(CudaStream::Create(runtime::StreamKind::kCompute, core_));
    recorder_->LeaveOutOfTimelines();
    side_->LeaveOutOfTimelines();
  }
  TRY(cuda.Check(cuda.StreamBeginCapture(recorder_->handle(), kRelaxed), "begin of a graph"));
  Status status = work.enqueue_rounds(*recorder_, *side_);
  void *graph = nullptr, *executable = nullptr;
  Status ended = cuda.Check(cuda.StreamEndCapture(recorder_->handle(), &graph), "end of a graph");
  if (status) status = ended;
  if (status) {
    status = cuda.Check(cuda.GraphInstantiate(&executable, graph, 0), "making a graph");
  }
  if (graph != nullptr) cuda.GraphDestroy(graph);
  if (status) return executable;
  recorder_.reset();
  side_.reset();
  return std::unexpected(std::move(status).error());
}

Result<bool> LoopGraphs::Launch(const Work& work, int64_t times, CudaStream& stream,
                                const std::atomic<bool>* cancel) {
  const CudaDriver& cuda = *core_->cuda;
  if (!cuda.has_graphs()) return false;
  MutexLock lock(mutex_);
  if (refused_.contains(work.loop)) return false;
  Graph* graph = Find(work);
  if (graph == nullptr) {
    if (!MakeRoom(work.loop)) return false;
    auto made = Capture(work);
    if (!made) {
      if (made.error().code() == Code::kCancelled) return std::unexpected(made.error());
      NOTE("gpu", 1) << "gpu: " << work.loop->name
                     << ": no graph of its rounds: " << made.error().message();
      refused_.insert(work.loop);
      return false;
    }
    graph = &graphs_.emplace_back(work.loop, work.addresses, work.rounds, *made, nullptr);
  }
  Status launched = LaunchPaced(graph->executable, times, stream, cancel);
  graph->last = TRY(stream.Record());
  TRY(launched);
  return true;
}

Status LoopGraphs::LaunchPaced(void* executable, int64_t times, CudaStream& stream,
                               const std::atomic<bool>* cancel) const {
  const CudaDriver& cuda = *core_->cuda;
  const bool paced = times > kGraphsUnderWay;
  std::deque<runtime::EventPtr> under_way;
  for (int64_t i = 0; i < times; ++i) {
    if (std::ssize(under_way) == kGraphsUnderWay) {
      metrics::Add(metrics::kDeviceSyncs);
      TRY(under_way.front()->Wait());
      under_way.pop_front();
    }
    if (cancel != nullptr && *cancel) return MakeError(Code::kCancelled, "the loop was cancelled");
    TRY(cuda.Check(cuda.GraphLaunch(executable, stream.handle()), "launch of rounds"));
    if (paced) under_way.push_back(TRY(stream.Record()));
  }
  return {};
}

void LoopGraphs::Clear() {
  MutexLock lock(mutex_);
  if (graphs_.empty() || !core_->MakeCurrent()) return;
  for (const Graph& graph : graphs_) {
    if (graph.last != nullptr) (void)graph.last->Wait();
    core_->cuda->GraphExecDestroy(graph.executable);
  }
  graphs_.clear();
}

}  // namespace weft::gpu
