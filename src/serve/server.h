// The server without a network: what every protocol calls, and programs that embed it.
//
//   Server server(std::move(backend), {});
//   TRY(server.models().SetConfig({{"mlp", "models/mlp"}}));
//   server.Infer(request, [](Result<InferResponse> response) { ... });
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "serve/graph.h"
#include "serve/models.h"
#include "serve/request_trace.h"
#include "serve/run_handler.h"
#include "serve/shared_memory.h"
#include "serve/stats.h"
#include "serve/trace_context.h"

namespace weft::serve {

inline constexpr std::string_view kServerVersion = "0.1.0";

struct ServerOptions {
  SchedulerOptions scheduler = {};
  BatchingOptions batching = {};
  // Runs that take less may be done on the thread that brings the request.
  Time run_here_below = 200 * kMicrosecond;
  // The same where that thread is wanted for others.
  Time run_wanted_below = kHandOver;
  // Bytes of inputs that wait or run, of all requests; more are turned away. 0: no limit.
  int64_t max_inflight_bytes = 0;
  ModelLimits models = {};
};
// For this machine: as many slots as cores, and some for the high class; or, where runs are not the
// host's work, as many as the devices do side by side (Backend::Lanes), of which some are the high
// class's.
ServerOptions DefaultServerOptions(int lanes = 0);

struct InferRequest {
  ModelQuery model;
  std::shared_ptr<Servable> servable = {};  // found already; null: by `model`
  std::string graph = {};                   // empty: the default one
  std::vector<NamedTensor> inputs = {};
  std::vector<std::string> outputs = {};  // in this order; empty: all
  Priority priority = Priority::kNormal;
  Time received = 0;  // of Now(); 0: now
  Time deadline = kNever;
  std::optional<TraceContext> trace = std::nullopt;
  ThreadUse thread_use = ThreadUse::kFree;
};

struct InferResponse {
  std::string model, graph;
  int64_t version = 0;
  std::vector<NamedTensor> outputs;
};

using InferDone = std::function<void(Result<InferResponse>)>;

// Called on the thread that ran a batch, before and behind the answers of its requests: what goes
// to one connection may leave at once.
struct AnswerHooks {
  std::function<void()> begin, end;
};

class Server : private TaskRunner {
 public:
  Server(std::unique_ptr<Backend> backend, const ServerOptions& options);
  ~Server() override;

  Models& models() { return models_; }
  ServerStats& stats() { return stats_; }
  RequestTrace& request_trace() { return request_trace_; }
  SharedMemory& shared_memory() { return shared_memory_; }
  Time started() const { return started_; }
  int64_t inflight_bytes() const { return inflight_bytes_; }
  const Backend& backend() const { return *backend_; }
  RunHandler::Load load() const { return handler_->load(); }
  std::vector<RunHandler::CrewFacts> Crews() const;  // of runs, and those that receive
  bool HasIdleCore() const { return handler_->HasIdleCore(); }
  // So many threads receive; `protocol` outlives the server. Before the first request.
  void AddReceivers(std::string_view protocol, int threads) {
    receivers_.emplace_back(protocol, threads);
  }
  bool own_cores() const { return options_.scheduler.own_cores; }

  // A request under way, for who wants to end it.
  class Ticket {
   public:
    void Cancel() const;  // it is answered with CANCELLED unless it has begun
    bool MayCancel() const { return !tasks_.empty(); }  // it may not be over yet

   private:
    friend class Server;
    RunHandler* handler_ = nullptr;
    std::vector<std::weak_ptr<Task>> tasks_;
  };
  // Before the first request.
  void SetAnswerHooks(AnswerHooks hooks) { hooks_ = std::move(hooks); }
  // `done` is called once, on this thread or another, maybe before this returns.
  Ticket Infer(InferRequest request, InferDone done);
  Result<InferResponse> InferAndWait(InferRequest request);

  // No more requests; waits for those that are there, at most until then. Whether all are done.
  bool Drain(Time deadline);
  bool IsDraining() const { return draining_; }
  // Ready for requests: models are there, and the server does not shut down.
  bool Ready() const { return !draining_ && models_.Ready(); }
  std::string PrometheusText() const;

 private:
  struct InferTask;
  struct Split;
  void Run(const Scheduler::Batch& batch) override;
  void Refuse(Task& task, Error error) override;
  Result<std::vector<std::shared_ptr<InferTask>>> Plan(InferRequest request, InferDone& done);
  Status Hold(InferTask& task);
  bool MayRunHere(const InferTask& task, ThreadUse use) const;
  static std::vector<std::shared_ptr<InferTask>> SplitRows(std::shared_ptr<InferTask> whole,
                                                           int64_t rows, int64_t most);

  const ServerOptions options_;
  std::unique_ptr<Backend> backend_;
  const Time started_ = Now();
  ServerStats stats_;
  RequestTrace request_trace_;
  SharedMemory shared_memory_;
  std::atomic<int64_t> inflight_bytes_ = 0;
  Models models_;
  AnswerHooks hooks_;
  std::vector<std::pair<std::string_view, int>> receivers_;
  std::atomic<bool> draining_ = false;
  std::unique_ptr<RunHandler> handler_;  // last: its threads use the rest
};

}  // namespace weft::serve
