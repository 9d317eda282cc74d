// A computation as what its order is chosen by: what has to come before what, which values are made
// and read, and which may take the memory of others.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/passes/effects.h"
#include "hlo/module.h"

namespace weft::compiler {

using ScheduleOrder = std::vector<int32_t>;  // nodes

struct ScheduleGraph {
  struct Value {
    int64_t bytes = 0;
    bool is_held = false;      // somebody else's memory: nothing is taken for it, nothing freed
    bool is_writable = false;  // once nobody reads it any more
    bool is_kept = false;      // to the end of the computation
    int32_t maker = -1;
    std::vector<int32_t> readers;  // nodes, each once
  };
  struct Node {
    hlo::Instruction* instruction = nullptr;
    std::vector<int32_t> before, after;                 // nodes, each once
    std::vector<int32_t> reads, makes;                  // values; ops that only forward have none
    std::vector<std::pair<int32_t, int32_t>> in_place;  // (made, read) that may share memory
    int64_t inside = 0;                                 // bytes that loops and branches hold
  };
  // A node that had better run behind all readers of a value, whose memory it writes.
  struct Overwrite {
    int32_t node, value;
  };
  std::vector<Node> nodes;  // as the list has them
  std::vector<Value> values;
  std::vector<Overwrite> overwrites;

  int64_t BytesOf(int32_t value) const {
    const Value& v = values[static_cast<size_t>(value)];
    return v.is_held ? 0 : v.bytes;
  }
  // The most bytes held at once.
  int64_t Peak(const ScheduleOrder& order) const;
};

// What the computations inside of others hold at most; filled in callees first.
using SchedulePeaks = std::unordered_map<const hlo::Computation*, int64_t>;

ScheduleGraph MakeScheduleGraph(const hlo::Computation& computation, const Effects& effects,
                                const SchedulePeaks& peaks);

}  // namespace weft::compiler
