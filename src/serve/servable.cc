#include "serve/servable.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/thread_limit.h"
#include "serve/run_handler.h"
#include "serve/warm_up.h"

namespace weft::serve {
namespace {

// The first one touches memory, the next says how long it takes with all threads, the last with
// one.
constexpr int kWarmUpRuns = 3;

}  // namespace

Result<std::shared_ptr<Servable>> Servable::Load(Source source, Backend& backend,
                                                 WeightStore& store,
                                                 std::shared_ptr<ModelStats> stats,
                                                 const BatchingOptions& batching) {
  std::shared_ptr<Servable> servable(new Servable);
  servable->name_ = std::move(source.name);
  servable->version_ = source.version;
  servable->stats_ = std::move(stats);
  servable->folder_ = TRY(ReadModelFolder(source.path));
  const ModelSpec& spec = servable->folder_.spec;
  std::shared_ptr<const WeightsFile> weights;
  if (!spec.weights.empty())
    weights = TRY(WeightsFile::Open(StrCat(source.path, "/", spec.weights)));
  servable->variables_ = std::make_unique<Variables>(store, std::move(weights));
  for (const VariableSpec& variable : spec.variables) TRY(servable->variables_->Register(variable));
  int64_t bytes = servable->variables_->registered_bytes();
  if (source.most_bytes != 0 && bytes > source.most_bytes) {
    return MakeError(Code::kResourceExhausted, source.path, ": ", bytes,
                     " bytes of weights: there is room for ", source.most_bytes);
  }
  Time begin = Now();
  TRY(servable->MakeGraphs(backend, batching));
  TRY(servable->Replay(source.path));
  LOG(info) << servable->name_ << ": version " << source.version << ": " << servable->compiles()
            << " programs ready in " << (Now() - begin) / kMillisecond << " ms";
  return servable;
}

Status Servable::MakeGraphs(Backend& backend, const BatchingOptions& batching) {
  for (const GraphSpec& spec : folder_.spec.graphs) {
    Graph& graph =
        *graphs_.emplace_back(std::make_unique<Graph>(folder_, spec, *variables_, backend));
    for (const ProgramSpec& program : spec.programs) {
      std::vector<size_t> programs = TRY(graph.Buckets(program.sizes));
      bool known = std::ranges::any_of(ways_, [&](const std::unique_ptr<Way>& way) {
        return way->graph == &graph && way->programs == programs;
      });
      if (known) continue;
      std::vector<int64_t> rows;
      for (size_t p : programs) {
        rows.push_back(spec.batch < 0 ? 1
                                      : spec.programs[p].sizes[static_cast<size_t>(spec.batch)]);
      }
      bool alone = !batching.enabled || !spec.IsBatched();
      auto way =
          std::make_unique<Way>(&graph, programs, std::move(rows), alone, batching.max_delay);
      for (size_t s = 0; s < program.sizes.size(); ++s) {
        if (static_cast<int64_t>(s) != spec.batch)
          way->volume *= static_cast<double>(program.sizes[s]);
      }
      TRY(WarmUp(*way));
      auto volume = [](const std::unique_ptr<Way>& other) { return other->volume; };
      ways_.insert(std::ranges::upper_bound(ways_, way->volume, {}, volume), std::move(way));
    }
    graph.Freeze();
  }
  return {};
}

Status Servable::WarmUp(Way& way) {
  const GraphSpec& spec = way.graph->spec();
  for (size_t bucket = 0; bucket < way.programs.size(); ++bucket) {
    const ProgramSpec& program = spec.programs[way.programs[bucket]];
    GraphMember member{{}, program.sizes};
    for (const TensorSpec& input : spec.inputs) {
      member.inputs.push_back(TRY(Literal::Allocate(input.At(program.sizes))));
    }
    GraphMember* members[] = {&member};
    TRY(way.graph->Prepare(way.programs[bucket]));
    for (int run = 0; run < kWarmUpRuns; ++run) {
      RunTimes times;
      const bool one = run == kWarmUpRuns - 1;
      std::optional<ThreadLimit> limit;
      if (one) limit.emplace(1);
      Time begin = Now();
      TRY(way.graph->Run(way.programs[bucket], members, nullptr, &times));
      if (run > 0) way.lane.Learn(bucket, Now() - begin, true, one ? 1 : 2);
    }
  }
  return {};
}

Status Servable::Replay(const std::string& path) {
  std::vector<WarmUpRecord> records = TRY(ReadWarmUpRecords(path));
  for (size_t i = 0; i < records.size(); ++i) {
    auto run = [&](WarmUpRecord& record) -> Status {
      Graph* graph = TRY(Find(record.graph));
      GraphMember member{TRY(graph->Order(std::move(record.inputs))), {}};
      std::vector<const Shape*> shapes;
      for (const Literal& input : member.inputs) shapes.push_back(&input.shape());
      member.sizes = TRY(graph->spec().SizesOf(shapes));
      Way* way = TRY(WayFor(*graph, member.sizes));
      const int64_t batch = graph->spec().batch;
      const int64_t rows = batch < 0 ? 1 : member.sizes[static_cast<size_t>(batch)];
      if (rows > way->lane.largest())
        return InvalidArgument(rows, " rows: at most ", way->lane.largest());
      GraphMember* members[] = {&member};
      RunTimes times;
      return graph->Run(way->programs[way->lane.BucketFor(rows)], members, nullptr, &times);
    };
    if (Status status = run(records[i]); !status) {
      return std::unexpected(
          status.error().Prefix(StrCat(path, "/warmup.jsonl: request ", i + 1, ": ")));
    }
  }
  return {};
}

int64_t Servable::compiles() const {
  int64_t compiles = 0;
  for (const auto& graph : graphs_) compiles += graph->compiles();
  return compiles;
}

Result<Graph*> Servable::Find(std::string_view graph) const {
  for (const auto& own : graphs_) {
    if (own->spec().name == (graph.empty() ? kDefaultGraph : graph)) return own.get();
  }
  if (graph.empty() && graphs_.size() == 1) return graphs_[0].get();
  std::string known;
  for (const auto& own : graphs_) StrAppend(known, known.empty() ? "" : ", ", own->spec().name);
  return NotFound("model ", name_, ": no graph ", graph.empty() ? kDefaultGraph : graph,
                  ", there are: ", known);
}

bool Servable::Way::Holds(std::span<const int64_t> sizes) const {
  const GraphSpec& spec = graph->spec();
  const std::vector<int64_t>& largest = spec.programs[programs.back()].sizes;
  for (size_t s = 0; s < sizes.size(); ++s) {
    bool split = static_cast<int64_t>(s) == spec.batch && spec.IsBatched();
    if (!split && sizes[s] > largest[s]) return false;
  }
  return true;
}

Result<Servable::Way*> Servable::WayFor(Graph& graph, std::span<const int64_t> sizes) const {
  for (const auto& way : ways_) {
    if (way->graph == &graph && way->Holds(sizes)) return way.get();
  }
  TRY(graph.Buckets(sizes));  // says what there is
  return MakeError(Code::kInternal, graph.spec().name, ": no way for sizes that have programs");
}

}  // namespace weft::serve
