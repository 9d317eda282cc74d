#include "compiler/passes/memory/schedule_graph.h"

#include <algorithm>

#include "compiler/analysis/in_place.h"
#include "hlo/computation.h"

namespace weft::compiler {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

class GraphBuilder {
 public:
  GraphBuilder(const Computation& computation, const Effects& effects, const SchedulePeaks& peaks)
      : computation_(computation), effects_(effects), peaks_(peaks) {}

  ScheduleGraph Run() {
    for (Instruction* i : computation_) number_[i] = static_cast<int32_t>(number_.size());
    for (Instruction* i : computation_) AddNode(*i);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (int32_t b : graph_.nodes[n].before) {
        graph_.nodes[static_cast<size_t>(b)].after.push_back(static_cast<int32_t>(n));
      }
    }
    for (int32_t v : leaves_.at(computation_.root())) {
      if (v >= 0) ValueOf(v).is_kept = true;
    }
    AddOverwrites();
    return std::move(graph_);
  }

 private:
  ScheduleGraph::Value& ValueOf(int32_t v) { return graph_.values[static_cast<size_t>(v)]; }

  int32_t NewValue(const Shape& shape, int32_t maker) {
    if (!shape.IsArray()) return -1;
    ScheduleGraph::Value value;
    value.bytes = shape.ByteSize();
    value.maker = maker;
    value.is_writable = true;
    graph_.values.push_back(std::move(value));
    return static_cast<int32_t>(graph_.values.size()) - 1;
  }

  void AddNode(Instruction& i) {
    int32_t number = number_.at(&i);
    ScheduleGraph::Node node;
    node.instruction = &i;
    auto follows = [&](const Instruction* other) {
      int32_t b = number_.at(other);
      if (std::find(node.before.begin(), node.before.end(), b) == node.before.end()) {
        node.before.push_back(b);
      }
    };
    for (const Instruction* operand : i.operands()) follows(operand);
    for (const Instruction* other : i.control_predecessors()) follows(other);
    if (effects_.Has(i)) {
      if (last_effect_ != nullptr) follows(last_effect_);
      last_effect_ = &i;
    }
    std::vector<int32_t> mine;
    if (i.IsParameter()) {
      AddParameter(i, mine);
    } else if (i.IsConstant()) {
      ForEachLeaf(i.shape(), [&](const Shape& shape) {
        int32_t v = NewValue(shape, number);
        if (v >= 0) ValueOf(v).is_held = true, ValueOf(v).is_writable = false;
        mine.push_back(v);
      });
    } else if (IsForwarding(i)) {
      mine =
          ForwardedLeaves(i, [&](const Instruction& x) -> const auto& { return leaves_.at(&x); });
    } else {
      AddReads(i, number, node);
      AddMakes(i, number, node, mine);
    }
    leaves_[&i] = std::move(mine);
    graph_.nodes.push_back(std::move(node));
  }

  // Arguments and loop state lie in memory that is there anyway.
  void AddParameter(const Instruction& parameter, std::vector<int32_t>& mine) {
    ForEachLeaf(parameter.shape(), [&](const Shape& shape) {
      int32_t v = NewValue(shape, number_.at(&parameter));
      if (v >= 0) ValueOf(v).is_held = true;
      mine.push_back(v);
    });
    if (!computation_.IsEntry()) return;
    const hlo::ModuleConfig& config = computation_.module()->config();
    int64_t number = parameter.parameter_number();
    bool donated = false;
    for (const auto& donor : config.buffer_donors) donated |= donor.parameter == number;
    for (const auto& alias : config.input_output_alias) donated |= alias.parameter == number;
    for (int32_t v : mine) {
      if (v >= 0) ValueOf(v).is_writable = donated;
    }
  }

  void AddReads(const Instruction& i, int32_t number, ScheduleGraph::Node& node) {
    for (const Instruction* operand : i.operands()) {
      for (int32_t v : leaves_.at(operand)) {
        if (v < 0 || std::find(node.reads.begin(), node.reads.end(), v) != node.reads.end()) {
          continue;
        }
        node.reads.push_back(v);
        ValueOf(v).readers.push_back(number);
      }
    }
  }

  void AddMakes(const Instruction& i, int32_t number, ScheduleGraph::Node& node,
                std::vector<int32_t>& mine) {
    std::vector<bool> passed;
    if (i.op() == Op::kWhile) passed = PassedThrough(i);
    size_t k = 0;
    ForEachLeaf(i.shape(), [&](const Shape& shape) {
      if (i.op() == Op::kWhile) {
        int32_t init = leaves_.at(i.operand(0))[k];
        int32_t v = passed[k] || init < 0 ? init : NewValue(shape, number);
        if (v >= 0 && v != init) {
          node.makes.push_back(v);
          node.in_place.emplace_back(v, init);
        }
        mine.push_back(v);
      } else {
        int32_t v = NewValue(shape, number);
        if (v >= 0) node.makes.push_back(v);
        mine.push_back(v);
      }
      ++k;
    });
    if (i.op() == Op::kConditional) AddBranchResults(i, node, mine);
    for (const InPlace& p : InPlaceOperands(i)) {
      int32_t read = leaves_.at(i.operand(p.operand))[0], made = mine[static_cast<size_t>(p.leaf)];
      if (read >= 0 && made >= 0) node.in_place.emplace_back(made, read);
    }
    if (i.op() == Op::kWhile || i.op() == Op::kConditional) {
      for (const Computation* c : i.called_computations()) {
        auto it = peaks_.find(c);
        if (it != peaks_.end()) node.inside = std::max(node.inside, it->second);
      }
    }
  }

  // Results of branches take the memory of what they update, or of anything of their size.
  void AddBranchResults(const Instruction& i, ScheduleGraph::Node& node,
                        const std::vector<int32_t>& mine) {
    for (size_t k = 0; k < mine.size(); ++k) {
      if (mine[k] < 0) continue;
      size_t known = node.in_place.size();
      for (OperandLeaf from : LeavesUpdatedByBranches(i, static_cast<int64_t>(k))) {
        int32_t read = leaves_.at(i.operand(from.operand))[static_cast<size_t>(from.leaf)];
        std::pair<int32_t, int32_t> pair(mine[k], read);
        if (read < 0 || ValueOf(read).bytes != ValueOf(mine[k]).bytes) continue;
        if (std::find(node.in_place.begin(), node.in_place.end(), pair) == node.in_place.end()) {
          node.in_place.push_back(pair);
        }
      }
      if (node.in_place.size() > known) continue;
      for (int32_t r : node.reads) {
        if (ValueOf(mine[k]).bytes == ValueOf(r).bytes) node.in_place.emplace_back(mine[k], r);
      }
    }
  }

  static bool IsUpdate(const Instruction& i) {
    Op op = i.op() == Op::kFusion ? i.attrs<hlo::FusionAttrs>().calls->root()->op() : i.op();
    return op == Op::kDynamicUpdateSlice || op == Op::kScatter || op == Op::kWhile ||
           op == Op::kConditional;
  }

  // Updates; what a loop's body makes for the next round, over the state of this one; results over
  // arguments.
  void AddOverwrites() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const ScheduleGraph::Node& node = graph_.nodes[n];
      if (!IsUpdate(*node.instruction)) continue;
      for (const auto& [made, read] : node.in_place) Overwrite(static_cast<int32_t>(n), read);
    }
    const auto& root = leaves_.at(computation_.root());
    if (computation_.IsEntry()) {
      for (int32_t made : root) {
        if (made < 0 || ValueOf(made).maker < 0) continue;
        int32_t maker = ValueOf(made).maker;
        std::vector<int32_t> arguments;
        for (const auto& [m, read] : graph_.nodes[static_cast<size_t>(maker)].in_place) {
          if (m == made && ValueOf(read).is_held) arguments.push_back(read);
        }
        // One that nobody else reads will do, wherever the instruction stands.
        bool free = std::any_of(arguments.begin(), arguments.end(), [&](int32_t v) {
          return ValueOf(v).is_writable && ValueOf(v).readers.size() == 1;
        });
        if (free) continue;
        for (int32_t read : arguments) Overwrite(maker, read);
      }
      return;
    }
    if (computation_.parameters().size() != 1) return;
    const auto& state = leaves_.at(computation_.parameter(0));
    if (state.size() != root.size()) return;
    for (size_t k = 0; k < root.size(); ++k) {
      if (root[k] < 0 || state[k] < 0 || root[k] == state[k]) continue;
      if (ValueOf(root[k]).bytes != ValueOf(state[k]).bytes) continue;
      Overwrite(ValueOf(root[k]).maker, state[k]);
    }
  }

  void Overwrite(int32_t node, int32_t value) {
    if (node < 0 || !ValueOf(value).is_writable || ValueOf(value).is_kept) return;
    // What reads it elsewhere itself writes to other memory in any case.
    const ScheduleGraph::Node& n = graph_.nodes[static_cast<size_t>(node)];
    bool reads = std::find(n.reads.begin(), n.reads.end(), value) != n.reads.end();
    bool may = std::any_of(n.in_place.begin(), n.in_place.end(),
                           [&](const auto& p) { return p.second == value; });
    if (!reads || may) graph_.overwrites.push_back({node, value});
  }

  const Computation& computation_;
  const Effects& effects_;
  const SchedulePeaks& peaks_;
  ScheduleGraph graph_;
  std::unordered_map<const Instruction*, int32_t> number_;
  std::unordered_map<const Instruction*, std::vector<int32_t>> leaves_;
  const Instruction* last_effect_ = nullptr;
};

}  // namespace

ScheduleGraph MakeScheduleGraph(const Computation& computation, const Effects& effects,
                                const SchedulePeaks& peaks) {
  return GraphBuilder(computation, effects, peaks).Run();
}

int64_t ScheduleGraph::Peak(const ScheduleOrder& order) const {
  std::vector<int32_t> left;
  std::vector<int64_t> held;  // bytes that go when the value does
  for (const Value& v : values) {
    left.push_back(static_cast<int32_t>(v.readers.size()) + v.is_kept);
    held.push_back(v.is_held ? 0 : v.bytes);
  }
  int64_t now = 0, peak = 0;
  for (int32_t at : order) {
    const Node& node = nodes[static_cast<size_t>(at)];
    if (node.instruction->IsParameter() || node.instruction->IsConstant()) continue;
    std::vector<int32_t> taken;
    for (const auto& [made, read] : node.in_place) {
      const Value& from = values[static_cast<size_t>(read)];
      auto is_taken = [&](int32_t v) {
        return std::find(taken.begin(), taken.end(), v) != taken.end();
      };
      if (left[static_cast<size_t>(read)] != 1 || !from.is_writable || is_taken(read) ||
          is_taken(made) || from.bytes != values[static_cast<size_t>(made)].bytes) {
        continue;
      }
      held[static_cast<size_t>(made)] = held[static_cast<size_t>(read)];
      held[static_cast<size_t>(read)] = 0;
      taken.push_back(read);
      taken.push_back(made);
    }
    for (int32_t v : node.makes) {
      if (std::find(taken.begin(), taken.end(), v) == taken.end()) {
        now += held[static_cast<size_t>(v)];
      }
    }
    peak = std::max(peak, now + node.inside);
    for (int32_t v : node.reads) {
      if (--left[static_cast<size_t>(v)] == 0) now -= held[static_cast<size_t>(v)];
    }
    for (int32_t v : node.makes) {
      if (left[static_cast<size_t>(v)] == 0) now -= held[static_cast<size_t>(v)];
    }
  }
  return peak;
}

}  // namespace weft::compiler
