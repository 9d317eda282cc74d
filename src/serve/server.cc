#include "serve/server.h"

#include <algorithm>
#include <future>
#include <utility>

#include "base/cores.h"
#include "base/metrics.h"
#include "base/trace.h"
#include "serve/batch.h"
#include "serve/thread_class.h"

namespace weft::serve {
namespace {

Outcome OutcomeOf(const Error& error) {
  switch (error.code()) {
    case Code::kResourceExhausted: return Outcome::kShed;
    case Code::kDeadlineExceeded: return Outcome::kExpired;
    case Code::kCancelled: return Outcome::kCancelled;
    default: return Outcome::kFailed;
  }
}

}  // namespace

ServerOptions DefaultServerOptions(int lanes) {
  ServerOptions options;
  int cores = std::max(AvailableCores(), 1);
  options.scheduler.cores = options.scheduler.high_slots = cores;
  if (lanes > 0) {
    SchedulerOptions& scheduler = options.scheduler;
    // A run that has begun goes on: one of the high class finds a lane without one.
    scheduler.lanes = scheduler.high_slots = lanes;
    scheduler.reserved = std::max(lanes * 3 / 8, 1);
    scheduler.slots = std::max(lanes, scheduler.reserved + 1);
    scheduler.least_slots = scheduler.reserved + 1;
    return options;
  }
  options.scheduler.reserved = std::max(cores / 4, 1);
  options.scheduler.slots = cores + options.scheduler.reserved;
  options.scheduler.least_slots = std::max(cores / 2, 1) + options.scheduler.reserved;
  return options;
}

struct Server::InferTask : Task {
  std::shared_ptr<Servable> servable;
  Servable::Way* way = nullptr;
  GraphMember member;
  std::vector<size_t> outputs;  // wanted
  InferDone done;
  Time received = 0;
  Time ripe = 0, began = 0;  // 0: it did not run
  RunTimes times;
  std::optional<TraceContext> trace;
  Server* server = nullptr;
  int64_t held_bytes = 0;  // of its inputs

  ~InferTask() override {
    server->inflight_bytes_.fetch_sub(held_bytes, std::memory_order_relaxed);
  }

  void Finish(Result<InferResponse> response) {
    ModelStats& stats = servable->stats();
    Outcome outcome = response ? Outcome::kOk : OutcomeOf(response.error());
    stats.Count(priority, outcome);
    Time now = Now();
    stats.Observe(priority, Phase::kTotal, now - received);
    if (server->request_trace_.on()) server->request_trace_.Add(Spans(outcome, now));
    std::exchange(done, nullptr)(std::move(response));
  }

  // Begins to run. A batch that waited for others was not ripe yet.
  void Begin(Time now, Time batch_ripe) {
    began = now;
    ripe = std::clamp(batch_ripe, arrival, now);
    servable->stats().Observe(priority, Phase::kBatchWait, ripe - arrival);
    servable->stats().Observe(priority, Phase::kQueue, began - ripe);
  }

  void Observe(const RunTimes& run) {
    times = run;
    ModelStats& stats = servable->stats();
    stats.Observe(priority, Phase::kToDevice, run.to_device);
    stats.Observe(priority, Phase::kRun, run.run);
    stats.Observe(priority, Phase::kToHost, run.to_host);
  }

  // The request and its phases, one after the other.
  std::vector<inspect::AsyncSpan> Spans(Outcome outcome, Time now) const {
    std::string note = StrCat(NameOf(priority), ", ", rows, " rows, ", NameOf(outcome));
    if (trace) StrAppend(note, ", trace ", trace->TraceId());
    std::vector<inspect::AsyncSpan> spans = {
        {0, StrCat("request ", servable->name()), received, now, std::move(note)}};
    Time at = received;
    auto add = [&](Phase phase, Time end) {
      if (end > at) spans.push_back({0, std::string(NameOf(phase)), at, std::min(end, now)});
      at = std::max(at, end);
    };
    add(Phase::kAdmission, arrival);
    if (began == 0) {
      add(Phase::kQueue, now);
      return spans;
    }
    add(Phase::kBatchWait, ripe);
    add(Phase::kQueue, began);
    add(Phase::kToDevice, at + times.to_device);
    add(Phase::kRun, at + times.run);
    add(Phase::kToHost, at + times.to_host);
    return spans;
  }

  InferResponse Response() {
    const GraphSpec& spec = way->graph->spec();
    InferResponse response{servable->name(), spec.name, servable->version(), {}};
    for (size_t k : outputs) {
      response.outputs.push_back({spec.outputs[k].name, member.outputs[k]});
    }
    return response;
  }
};

// A request with more rows than the largest program takes: parts of it, joined when all are done.
struct Server::Split {
  Mutex mutex;
  InferDone done;
  std::vector<InferResponse> parts WEFT_GUARDED_BY(mutex);
  size_t left WEFT_GUARDED_BY(mutex) = 0;
  std::optional<Error> error WEFT_GUARDED_BY(mutex);

  void Add(size_t index, Result<InferResponse> part) {
    {
      MutexLock lock(mutex);
      if (part) {
        parts[index] = std::move(*part);
      } else if (!error) {
        error = part.error();
      }
      if (--left > 0) return;
    }
    done(Join());
  }

  Result<InferResponse> Join() WEFT_EXCLUDES(mutex) {
    MutexLock lock(mutex);
    if (error) return std::unexpected(*error);
    InferResponse all = std::move(parts[0]);
    for (size_t k = 0; k < all.outputs.size(); ++k) {
      std::vector<Literal> pieces = {all.outputs[k].value};
      for (size_t p = 1; p < parts.size(); ++p) pieces.push_back(parts[p].outputs[k].value);
      all.outputs[k].value = TRY(JoinRows(pieces));
    }
    return all;
  }
};

Server::Server(std::unique_ptr<Backend> backend, const ServerOptions& options)
    : options_(options),
      backend_(std::move(backend)),
      models_(*backend_, stats_, options.batching, options.models),
      handler_(new RunHandler(options.scheduler, *this)) {}

Server::~Server() {
  handler_.reset();
}

std::vector<RunHandler::CrewFacts> Server::Crews() const {
  std::vector<RunHandler::CrewFacts> crews = handler_->Crews();
  const int kept = own_cores() ? CoresForReceivers(options_.scheduler.cores) : 0;
  for (const auto& [protocol, threads] : receivers_) {
    RunHandler::CrewFacts& crew = crews.emplace_back(protocol, threads);
    crew.rank = RankWithSlices(SlicesFor(own_cores()).receiver);
    crew.cores = kept > 0 ? StrCat("the first ", kept, " while requests are turned away")
                          : std::string("any core");
  }
  return crews;
}

void Server::Ticket::Cancel() const {
  for (const std::weak_ptr<Task>& task : tasks_) {
    if (std::shared_ptr<Task> held = task.lock()) handler_->Cancel(*held);
  }
}

Result<std::vector<std::shared_ptr<Server::InferTask>>> Server::Plan(InferRequest request,
                                                                     InferDone& done) {
  auto task = std::make_shared<InferTask>();
  task->server = this;
  task->trace = request.trace;
  task->servable = std::move(request.servable);
  if (task->servable == nullptr) task->servable = TRY(models_.Find(request.model));
  Graph* graph = TRY(task->servable->Find(request.graph));
  const GraphSpec& spec = graph->spec();
  task->member.inputs = TRY(graph->Order(std::move(request.inputs)));
  task->outputs = TRY(graph->Outputs(request.outputs));
  std::vector<const Shape*> shapes;
  for (const Literal& input : task->member.inputs) shapes.push_back(&input.shape());
  task->member.sizes = TRY(spec.SizesOf(shapes));
  TRY(Hold(*task));
  task->way = TRY(task->servable->WayFor(*graph, task->member.sizes));
  task->lane = &task->way->lane;
  task->priority = request.priority;
  task->received = task->arrival = request.received;
  task->deadline = request.deadline;
  if (spec.batch >= 0) task->rows = task->member.sizes[static_cast<size_t>(spec.batch)];
  task->done = std::move(done);
  int64_t rows = task->rows, most = task->lane->largest();
  if (rows <= most) return std::vector{std::move(task)};
  return SplitRows(std::move(task), rows, most);
}

// Counts the bytes of its inputs for as long as the task is there.
Status Server::Hold(InferTask& task) {
  int64_t bytes = 0;
  for (const Literal& input : task.member.inputs) bytes += input.byte_size();
  int64_t all = inflight_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  task.held_bytes = bytes;
  if (options_.max_inflight_bytes == 0 || all <= options_.max_inflight_bytes || all == bytes)
    return {};
  task.servable->stats().Count(task.priority, Outcome::kShed);
  Error error(Code::kResourceExhausted,
              StrCat("overloaded: inputs of ", all, " bytes would be held, at most ",
                     options_.max_inflight_bytes, " may be"));
  error.Hint("retry after 10 ms");
  return std::unexpected(std::move(error));
}

std::vector<std::shared_ptr<Server::InferTask>> Server::SplitRows(std::shared_ptr<InferTask> whole,
                                                                  int64_t rows, int64_t most) {
  auto split = std::make_shared<Split>();
  split->done = std::move(whole->done);
  std::vector<std::shared_ptr<InferTask>> parts;
  size_t batch = static_cast<size_t>(whole->way->graph->spec().batch);
  for (int64_t row = 0; row < rows; row += most) {
    auto part = std::make_shared<InferTask>();
    part->server = whole->server;
    part->trace = whole->trace;
    // The first one holds the bytes for all.
    if (row == 0) part->held_bytes = std::exchange(whole->held_bytes, 0);
    part->servable = whole->servable;
    part->way = whole->way;
    part->lane = whole->lane;
    part->outputs = whole->outputs;
    part->priority = whole->priority;
    part->received = whole->received;
    part->arrival = whole->arrival;
    part->deadline = whole->deadline;
    part->rows = std::min(most, rows - row);
    part->member.sizes = whole->member.sizes;
    part->member.sizes[batch] = part->rows;
    for (const Literal& input : whole->member.inputs) {
      Shape shape = input.shape();
      shape.set_dim(0, part->rows);
      // Whole rows: nothing is copied, nothing can fail.
      part->member.inputs.push_back(std::move(*CutAt(input, shape, row)));
    }
    part->done = [split, index = parts.size()](Result<InferResponse> response) {
      split->Add(index, std::move(response));
    };
    parts.push_back(std::move(part));
  }
  MutexLock lock(split->mutex);
  split->parts.resize(parts.size());
  split->left = parts.size();
  return parts;
}

bool Server::MayRunHere(const InferTask& task, ThreadUse use) const {
  Time cost = task.lane->Cost(task.lane->BucketFor(task.rows));
  Time most = use == ThreadUse::kFree ? options_.run_here_below : options_.run_wanted_below;
  return cost > 0 && cost <= most;
}

Server::Ticket Server::Infer(InferRequest request, InferDone done) {
  if (request.received == 0) request.received = Now();
  Ticket ticket;
  ticket.handler_ = handler_.get();
  Priority priority = request.priority;
  const ThreadUse use = request.thread_use;
  Result<std::vector<std::shared_ptr<InferTask>>> tasks = Plan(std::move(request), done);
  if (!tasks) {
    done(std::unexpected(tasks.error()));
    return ticket;
  }
  for (auto& task : *tasks) {
    task->arrival = Now();
    task->servable->stats().Observe(priority, Phase::kAdmission, task->arrival - task->received);
  }
  if (tasks->size() == 1 && MayRunHere(*tasks->front(), use) && handler_->RunHere(tasks->front())) {
    if (RunHandler::HoldsRuns()) ticket.tasks_.push_back(tasks->front());
    return ticket;
  }
  for (const auto& task : *tasks) ticket.tasks_.push_back(task);
  for (auto& task : *tasks) handler_->Submit(std::move(task));
  return ticket;
}

Result<InferResponse> Server::InferAndWait(InferRequest request) {
  std::promise<Result<InferResponse>> promise;
  Infer(std::move(request), [&](Result<InferResponse> r) { promise.set_value(std::move(r)); });
  return promise.get_future().get();
}

void Server::Run(const Scheduler::Batch& batch) {
  std::vector<GraphMember*> members;
  auto task_at = [&](size_t i) -> InferTask& { return static_cast<InferTask&>(*batch.tasks[i]); };
  Time began = Now();
  for (size_t i = 0; i < batch.tasks.size(); ++i) {
    members.push_back(&task_at(i).member);
    task_at(i).Begin(began, batch.ripe);
  }
  Servable::Way& way = *task_at(0).way;
  trace::Span span(trace::Kind::kPhase, [&] {
    return trace::What{.name = StrCat("serve ", task_at(0).servable->name()),
                       .shapes = StrCat(batch.tasks.size(), " requests, ", batch.rows, " of ",
                                        way.lane.buckets()[batch.bucket], " rows")};
  });
  RunTimes times;
  Status status = way.graph->Run(way.programs[batch.bucket], members, nullptr, &times);
  ModelStats& stats = task_at(0).servable->stats();
  stats.CountBatch(static_cast<int64_t>(members.size()), batch.rows,
                   way.lane.buckets()[batch.bucket] - batch.rows);
  const bool several = batch.tasks.size() > 1;
  if (several && hooks_.begin) hooks_.begin();
  for (size_t i = 0; i < batch.tasks.size(); ++i) {
    InferTask& task = task_at(i);
    if (!status) {
      task.Finish(std::unexpected(status.error()));
      continue;
    }
    task.Observe(times);
    task.Finish(task.Response());
  }
  if (several && hooks_.end) hooks_.end();
}

void Server::Refuse(Task& task, Error error) {
  static_cast<InferTask&>(task).Finish(std::unexpected(std::move(error)));
}

bool Server::Drain(Time deadline) {
  draining_ = true;
  return handler_->Drain(deadline);
}

std::string Server::PrometheusText() const {
  std::string out = metrics::PrometheusText() + stats_.PrometheusText();
  RunHandler::Load now = handler_->load();
  out +=
      "# HELP weft_serve_queued_requests requests that wait\n"
      "# TYPE weft_serve_queued_requests gauge\n";
  for (int c = 0; c < kPriorities; ++c) {
    StrAppend(out, "weft_serve_queued_requests{priority=\"", NameOf(static_cast<Priority>(c)),
              "\"} ", now.queued[c], "\n");
  }
  StrAppend(out, "# HELP weft_serve_running_batches runs of programs under way\n",
            "# TYPE weft_serve_running_batches gauge\nweft_serve_running_batches ", now.running,
            "\n");
  StrAppend(out, "# HELP weft_serve_slots runs that may be under way, as adapted to their times\n",
            "# TYPE weft_serve_slots gauge\nweft_serve_slots ", now.limit, "\n");
  StrAppend(out, "# HELP weft_serve_inflight_bytes inputs of requests that wait or run\n",
            "# TYPE weft_serve_inflight_bytes gauge\nweft_serve_inflight_bytes ",
            inflight_bytes_.load(), "\n");
  StrAppend(out,
            "# HELP weft_serve_shared_weights_total weights that another version had already\n",
            "# TYPE weft_serve_shared_weights_total counter\nweft_serve_shared_weights_total ",
            models_.shared_weights(), "\n");
  return out;
}

}  // namespace weft::serve
