// A loaded version of a model: its graphs, ready to run, with nothing left to compile.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "serve/graph.h"
#include "serve/scheduler.h"
#include "serve/stats.h"

namespace weft::serve {

struct BatchingOptions {
  bool enabled = true;
  Time max_delay = 0;  // for others to come, while there is a free slot
};

class Servable {
 public:
  struct Source {
    std::string name;
    int64_t version = 0;
    std::string path;
    int64_t most_bytes = 0;  // of weights; 0: any number
  };
  // Reads, compiles and runs every program with zeros, then what the folder has to warm it up
  // (warm_up.h), so that no request pays for any of it.
  static Result<std::shared_ptr<Servable>> Load(Source source, Backend& backend, WeightStore& store,
                                                std::shared_ptr<ModelStats> stats,
                                                const BatchingOptions& batching);

  const std::string& name() const { return name_; }
  int64_t version() const { return version_; }
  const ModelFolder& folder() const { return folder_; }
  const Variables& variables() const { return *variables_; }
  ModelStats& stats() const { return *stats_; }
  int64_t compiles() const;

  // An empty name: the default graph, or the only one.
  Result<Graph*> Find(std::string_view graph) const;

  // Requests of a graph that may share a run, and the programs for its buckets.
  struct Way {
    Way(Graph* g, std::vector<size_t> p, std::vector<int64_t> buckets, bool alone, Time max_delay)
        : graph(g), programs(std::move(p)), lane(std::move(buckets), alone, max_delay) {}
    // Whether all sizes fit; the batch need not, where it can be split.
    bool Holds(std::span<const int64_t> sizes) const;
    Graph* graph;
    std::vector<size_t> programs;
    double volume = 1;  // of the sizes but for the batch
    Lane lane;
  };
  Result<Way*> WayFor(Graph& graph, std::span<const int64_t> sizes) const;

 private:
  Servable() = default;
  Status MakeGraphs(Backend& backend, const BatchingOptions& batching);
  Status WarmUp(Way& way);
  Status Replay(const std::string& path);

  std::string name_;
  int64_t version_ = 0;
  ModelFolder folder_;
  std::unique_ptr<Variables> variables_;
  std::shared_ptr<ModelStats> stats_;
  std::vector<std::unique_ptr<Graph>> graphs_;
  std::vector<std::unique_ptr<Way>> ways_;  // the smallest first
};

}  // namespace weft::serve
