// Who calls whom. Computed once; changes to the module are not followed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hlo/module.h"

namespace weft::hlo {

// How a computation is reached from the entry.
enum class CallContext : uint8_t {
  kUnreached,
  kControlFlow,  // runs as instructions do: entry, call, while, conditional, async
  kEmbedded,     // applied to elements or fused: reduce, map, sort, fusion, ...
  kBoth,
};

class CallGraph {
 public:
  explicit CallGraph(const Module& module);

  // Instructions that call the computation; one that names it twice is listed once.
  std::span<Instruction* const> callers(const Computation* c) const { return node(c).callers; }
  // Each called computation once, in order of first mention.
  std::span<Computation* const> callees(const Computation* c) const { return node(c).callees; }
  CallContext context(const Computation* c) const { return node(c).context; }
  // All computations, callees before callers.
  std::span<Computation* const> PostOrder() const { return post_order_; }
  // A computation calls itself, directly or not (never so in a module that verifies).
  bool HasCycle() const { return has_cycle_; }

 private:
  struct Node {
    std::vector<Instruction*> callers;
    std::vector<Computation*> callees;
    CallContext context = CallContext::kUnreached;
  };
  const Node& node(const Computation* c) const { return nodes_[static_cast<size_t>(c->id())]; }
  Node& node(const Computation* c) { return nodes_[static_cast<size_t>(c->id())]; }
  void FindPostOrder(const Module& module);
  void FindContexts(const Module& module);

  std::vector<Node> nodes_;  // by computation id
  std::vector<Computation*> post_order_;
  bool has_cycle_ = false;
};

// How this instruction runs the computations it names.
CallContext ContextOfCalls(const Instruction& caller);

}  // namespace weft::hlo
