#include "hlo/call_graph.h"

namespace weft::hlo {

CallContext ContextOfCalls(const Instruction& caller) {
  switch (caller.op()) {
    case Op::kCall:
    case Op::kWhile:
    case Op::kConditional:
    case Op::kAsyncStart:
    case Op::kAsyncUpdate:
    case Op::kAsyncDone: return CallContext::kControlFlow;
    default: return CallContext::kEmbedded;
  }
}

CallGraph::CallGraph(const Module& module) {
  nodes_.resize(static_cast<size_t>(module.id_limit()));
  for (const auto& computation : module.computations()) {
    for (Instruction* i : *computation) {
      for (Computation* called : i->called_computations()) {
        std::vector<Instruction*>& callers = node(called).callers;
        if (!callers.empty() && callers.back() == i) continue;
        // Computations are visited one after the other, so the last caller tells whether this one
        // has called before.
        if (callers.empty() || callers.back()->parent() != computation.get()) {
          node(computation.get()).callees.push_back(called);
        }
        callers.push_back(i);
      }
    }
  }
  FindPostOrder(module);
  FindContexts(module);
}

void CallGraph::FindPostOrder(const Module& module) {
  enum : uint8_t { kNew, kOpen, kDone };
  std::vector<uint8_t> state(nodes_.size(), kNew);
  struct Frame {
    Computation* computation;
    size_t next;
  };
  std::vector<Frame> stack;
  auto open = [&](Computation* c) {
    uint8_t& s = state[static_cast<size_t>(c->id())];
    has_cycle_ = has_cycle_ || s == kOpen;
    if (s != kNew) return;
    s = kOpen;
    stack.push_back({c, 0});
  };
  for (const auto& start : module.computations()) {
    if (state[static_cast<size_t>(start->id())] == kNew) open(start.get());
    while (!stack.empty()) {
      Frame& frame = stack.back();
      const std::vector<Computation*>& callees = node(frame.computation).callees;
      if (frame.next < callees.size()) {
        open(callees[frame.next++]);
        continue;
      }
      state[static_cast<size_t>(frame.computation->id())] = kDone;
      post_order_.push_back(frame.computation);
      stack.pop_back();
    }
  }
}

void CallGraph::FindContexts(const Module& module) {
  if (module.entry() == nullptr) return;
  node(module.entry()).context = CallContext::kControlFlow;
  auto join = [](CallContext a, CallContext b) {
    if (a == CallContext::kUnreached || a == b) return b;
    return b == CallContext::kUnreached ? a : CallContext::kBoth;
  };
  // Callers before callees, so that each is final when it is read.
  for (auto it = post_order_.rbegin(); it != post_order_.rend(); ++it) {
    CallContext from = node(*it).context;
    if (from == CallContext::kUnreached) continue;
    for (Instruction* i : **it) {
      for (Computation* called : i->called_computations()) {
        bool embeds = ContextOfCalls(*i) == CallContext::kEmbedded;
        CallContext& to = node(called).context;
        to = join(to, embeds ? CallContext::kEmbedded : from);
      }
    }
  }
}

}  // namespace weft::hlo
