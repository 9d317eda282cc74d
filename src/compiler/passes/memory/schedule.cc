// The order in which the instructions of each executed computation run. Two things hang on it: how
// much memory is held at once, and whether an array can be updated where it is, which takes that
// everything else that reads it has run before.
#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "compiler/analysis/in_place.h"
#include "compiler/analysis/search.h"
#include "compiler/passes.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/memory/schedule_graph.h"
#include "hlo/computation.h"
#include "program/target_facts.h"

namespace weft::compiler {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

// Bytes held at once.
constexpr int64_t kWorthOrdering = program::TargetFacts::kSecondLevelBytes / 4;
constexpr double kWorthChanging = 0.95;  // of them

// Operands first, the ones whose operands hold the most before the others.
ScheduleOrder DepthFirst(const ScheduleGraph& graph, bool largest_first) {
  size_t n = graph.nodes.size();
  std::vector<double> below(n, 0);
  for (size_t i = 0; i < n; ++i) {
    for (int32_t v : graph.nodes[i].makes) below[i] += static_cast<double>(graph.BytesOf(v));
    for (int32_t b : graph.nodes[i].before) below[i] += below[static_cast<size_t>(b)];
    below[i] = std::min(below[i], 1e18);
  }
  ScheduleOrder order;
  std::vector<uint8_t> state(n, 0);
  std::vector<int32_t> work;
  auto visit = [&](int32_t from) {
    work.push_back(from);
    while (!work.empty()) {
      int32_t at = work.back();
      uint8_t& s = state[static_cast<size_t>(at)];
      if (s != 0) {
        work.pop_back();
        if (s == 1) order.push_back(at);
        s = 2;
        continue;
      }
      s = 1;
      std::vector<int32_t> next = graph.nodes[static_cast<size_t>(at)].before;
      if (largest_first) {
        std::sort(next.begin(), next.end(), [&](int32_t a, int32_t b) {
          double x = below[static_cast<size_t>(a)], y = below[static_cast<size_t>(b)];
          return x != y ? x > y : a < b;
        });
      }
      for (size_t k = next.size(); k-- > 0;) {
        if (state[static_cast<size_t>(next[k])] == 0) work.push_back(next[k]);
      }
    }
  };
  for (size_t i = 0; i < n; ++i) {
    if (graph.nodes[i].after.empty()) visit(static_cast<int32_t>(i));
  }
  return order;
}

// Always what frees most or takes least of what could run.
class Greedy {
 public:
  explicit Greedy(const ScheduleGraph& graph) : graph_(graph) {}

  ScheduleOrder Run() {
    size_t n = graph_.nodes.size();
    waiting_.resize(n);
    score_.resize(n);
    is_ready_.resize(n);
    for (const auto& value : graph_.values) {
      left_.push_back(static_cast<int32_t>(value.readers.size()) + value.is_kept);
    }
    for (size_t i = 0; i < n; ++i) {
      waiting_[i] = graph_.nodes[i].before.size();
      if (waiting_[i] == 0) Enter(static_cast<int32_t>(i));
    }
    ScheduleOrder order;
    while (!ready_.empty()) {
      int32_t at = ready_.begin()->first.second;
      ready_.erase(ready_.begin());
      is_ready_[static_cast<size_t>(at)] = false;
      order.push_back(at);
      Leave(at);
    }
    return order;
  }

 private:
  int64_t ScoreOf(int32_t at) const {
    const auto& node = graph_.nodes[static_cast<size_t>(at)];
    if (node.reads.empty() && node.makes.empty()) return std::numeric_limits<int64_t>::max();
    int64_t score = 0;
    for (int32_t v : node.makes) score -= graph_.BytesOf(v);
    for (int32_t v : node.reads) {
      if (left_[static_cast<size_t>(v)] == 1) score += graph_.BytesOf(v);
    }
    return score;
  }
  void Enter(int32_t at) {
    score_[static_cast<size_t>(at)] = ScoreOf(at);
    is_ready_[static_cast<size_t>(at)] = true;
    ready_.emplace(std::pair(-score_[static_cast<size_t>(at)], at), 0);
  }
  void Leave(int32_t at) {
    const auto& node = graph_.nodes[static_cast<size_t>(at)];
    for (int32_t v : node.reads) {
      if (--left_[static_cast<size_t>(v)] != 1) continue;
      for (int32_t r : graph_.values[static_cast<size_t>(v)].readers) {
        if (!is_ready_[static_cast<size_t>(r)]) continue;
        ready_.erase(std::pair(-score_[static_cast<size_t>(r)], r));
        Enter(r);
      }
    }
    for (int32_t next : node.after) {
      if (--waiting_[static_cast<size_t>(next)] == 0) Enter(next);
    }
  }

  const ScheduleGraph& graph_;
  std::vector<size_t> waiting_;
  std::vector<int32_t> left_;  // readers of values still to come
  std::vector<int64_t> score_;
  std::vector<bool> is_ready_;
  std::map<std::pair<int64_t, int32_t>, int> ready_;  // the best first
};

// Moves what overwrites an array behind the others that read it.
class Delays {
 public:
  Delays(const ScheduleGraph& graph, ScheduleOrder& order) : graph_(graph), order_(order) {
    position_.resize(order.size());
    settled_.resize(order.size());
    for (size_t p = 0; p < order.size(); ++p) position_[static_cast<size_t>(order[p])] = p;
  }

  void Run() {
    std::vector<ScheduleGraph::Overwrite> all = graph_.overwrites;
    std::sort(all.begin(), all.end(), [&](const auto& a, const auto& b) {
      int64_t x = graph_.values[static_cast<size_t>(a.value)].bytes;
      int64_t y = graph_.values[static_cast<size_t>(b.value)].bytes;
      return std::tuple(-x, a.value, a.node) < std::tuple(-y, b.value, b.node);
    });
    for (const auto& overwrite : all) {
      for (int32_t reader : graph_.values[static_cast<size_t>(overwrite.value)].readers) {
        if (reader == overwrite.node) continue;
        if (At(reader) > At(overwrite.node) && !Delay(overwrite.node, reader)) break;
        settled_[static_cast<size_t>(overwrite.node)].push_back(reader);
      }
    }
  }

 private:
  size_t At(int32_t node) const { return position_[static_cast<size_t>(node)]; }

  // False: the reader needs what the node makes.
  bool Delay(int32_t node, int32_t behind) {
    size_t begin = At(node), end = At(behind) + 1;
    work_ += static_cast<int64_t>(end - begin);
    if (work_ > kMaxInstructions) return false;
    std::vector<int32_t> stay, move;
    std::vector<bool> moves(end - begin, false);
    for (size_t p = begin; p < end; ++p) {
      int32_t at = order_[p];
      bool depends = at == node;
      auto moved = [&](int32_t b) { return At(b) >= begin && At(b) < p && moves[At(b) - begin]; };
      const auto &before = graph_.nodes[static_cast<size_t>(at)].before,
                 &readers = settled_[static_cast<size_t>(at)];
      depends = depends || std::any_of(before.begin(), before.end(), moved) ||
                std::any_of(readers.begin(), readers.end(), moved);
      moves[p - begin] = depends;
      (depends ? move : stay).push_back(at);
    }
    if (move.back() == behind) return false;
    std::copy(stay.begin(), stay.end(), order_.begin() + static_cast<int64_t>(begin));
    std::copy(move.begin(), move.end(), order_.begin() + static_cast<int64_t>(end - move.size()));
    for (size_t p = begin; p < end; ++p) position_[static_cast<size_t>(order_[p])] = p;
    return true;
  }

  const ScheduleGraph& graph_;
  ScheduleOrder& order_;
  std::vector<size_t> position_;
  std::vector<std::vector<int32_t>> settled_;  // readers that a node has to stay behind
  int64_t work_ = 0;
};

ScheduleOrder FindOrder(const ScheduleGraph& graph) {
  ScheduleOrder order(graph.nodes.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  int64_t peak = graph.Peak(order);
  if (peak >= kWorthOrdering) {
    auto most = static_cast<int64_t>(kWorthChanging * static_cast<double>(peak));
    for (ScheduleOrder& other :
         std::vector{DepthFirst(graph, false), DepthFirst(graph, true), Greedy(graph).Run()}) {
      Delays(graph, other).Run();
      int64_t bytes = graph.Peak(other);
      if (bytes > most) continue;
      most = bytes - 1;
      order = std::move(other);
    }
  }
  Delays(graph, order).Run();
  return order;
}

}  // namespace

Result<bool> Schedule(hlo::Module& module, const PassContext&) {
  if (module.config().is_scheduled) return false;
  Effects effects(module);
  std::vector<Computation*> executed = {module.entry()};
  for (size_t at = 0; at < executed.size(); ++at) {
    for (const Instruction* i : *executed[at]) {
      const bool is_called = i->op() == Op::kAsyncStart && IsAsyncCall(*i);
      if (i->op() != Op::kWhile && i->op() != Op::kConditional && !is_called) continue;
      for (Computation* c : i->called_computations()) executed.push_back(c);
    }
  }
  SchedulePeaks peaks;
  bool changed = false;
  for (size_t at = executed.size(); at-- > 0;) {
    Computation& computation = *executed[at];
    ScheduleGraph graph = MakeScheduleGraph(computation, effects, peaks);
    ScheduleOrder order = FindOrder(graph);
    peaks[&computation] = graph.Peak(order);
    if (std::is_sorted(order.begin(), order.end())) continue;
    changed = true;
    for (int32_t node : order) {
      computation.MoveBefore(graph.nodes[static_cast<size_t>(node)].instruction, nullptr);
    }
  }
  return changed;
}

}  // namespace weft::compiler
