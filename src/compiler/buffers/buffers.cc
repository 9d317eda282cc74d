// Liveness analysis: live segments of values on one line through all executed computations.
#include "compiler/buffers/buffers.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/check.h"
#include "base/str.h"
#include "compiler/lower/cpu/epilogue.h"
#include "hlo/computation.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Instruction;
using HloOp = hlo::Op;

int32_t Memory::Group(MemValue value) const {
  while (values_[static_cast<size_t>(value)].parent >= 0) {
    value = values_[static_cast<size_t>(value)].parent;
  }
  return value;
}

int32_t Memory::Find(MemValue value) {
  int32_t root = Group(value);
  while (values_[static_cast<size_t>(value)].parent >= 0) {
    int32_t next = values_[static_cast<size_t>(value)].parent;
    values_[static_cast<size_t>(value)].parent = root;
    value = next;
  }
  return root;
}

const std::vector<MemValue>& Memory::Leaves(const Instruction& instruction) const {
  auto it = leaves_.find(&instruction);
  CHECK(it != leaves_.end()) << instruction.name();
  return it->second;
}

const std::vector<MemValue>& Memory::State(const Instruction& loop) const {
  auto it = state_.find(&loop);
  CHECK(it != state_.end()) << loop.name();
  return it->second;
}

MemValue Memory::NewValue(const Shape& shape, const Instruction* def, bool in_loop) {
  if (!shape.IsArray()) return -1;
  Value value;
  value.shape = shape;
  value.shape.ClearLayout();
  value.def = def;
  value.in_loop = in_loop;
  value.scope = scope_;
  values_.push_back(std::move(value));
  return static_cast<MemValue>(values_.size()) - 1;
}

int32_t Memory::NextMoment(const Instruction& at) {
  moments_.push_back(&at);
  return 2 * static_cast<int32_t>(moments_.size() - 1);
}

void Memory::DefineAt(MemValue value, int32_t at) {
  if (value < 0) return;
  Value& v = values_[static_cast<size_t>(value)];
  v.live.push_back({at, at, value});
  v.split = -1;
}

// Positions only grow, so the last segment is the one that reaches here; behind a conditional, the
// one that reached it.
void Memory::UseAt(MemValue value, int32_t at) {
  if (value < 0) return;
  Value& v = values_[static_cast<size_t>(value)];
  if (v.live.empty()) {
    v.live.push_back({at, at, value});
    return;
  }
  if (v.split >= 0 && at > v.split_end) {
    while (v.live.size() > 1 && v.live.back().begin > v.split) v.live.pop_back();
    v.split = -1;
  }
  v.live.back().end = std::max(v.live.back().end, at);
}

// An operand at the start of a branch. Only one of the branches runs, so what the others did to its
// memory is of no concern.
void Memory::EnterBranch(MemValue value, int32_t at) {
  if (value < 0) return;
  Value& v = values_[static_cast<size_t>(value)];
  if (v.constant != nullptr) return;
  if (v.live.empty() || v.live.back().end < at - 1) v.live.push_back({at, at, value});
  v.live.back().end = std::max(v.live.back().end, at);
  v.split = -1;
}

// An instruction that is to run as part of the product before it must not write over what that
// reads. Arguments and loop state may be written over all the same: what is made of them belongs
// there.
void Memory::KeepForEpilogue(const Instruction& instruction, int32_t at) {
  constexpr int32_t kNear = program::WorkBounds::kTree;  // slots
  for (int64_t k : ProductOperands(instruction)) {
    const Value& product = values_[static_cast<size_t>(Leaf(*instruction.operand(k)))];
    if (product.live.empty() || at - product.live.back().begin > kNear) continue;
    for (const Instruction* operand : product.def->operands()) {
      MemValue v = Leaf(*operand);
      const Instruction* def = values_[static_cast<size_t>(v)].def;
      if (!def->IsParameter() && !def->IsConstant() && def->op() != HloOp::kWhile) UseAt(v, at + 1);
    }
  }
}

// Two slots a position: reads at the first, writes at the second, unless a result must not lie on
// an operand: then it is written at the first, too.
Status Memory::Walk(const hlo::Computation& computation, bool in_loop) {
  for (const Instruction* i : computation) {
    if (i->IsParameter()) {
      if (leaves_.contains(i)) continue;
    }
    if (i->op() == HloOp::kWhile) {
      TRY(WalkWhile(*i, in_loop));
      continue;
    }
    if (i->op() == HloOp::kConditional) {
      TRY(WalkConditional(*i, in_loop));
      continue;
    }
    std::vector<MemValue> mine;
    if (i->op() == HloOp::kAsyncStart) {
      mine = IsAsyncCall(*i) ? TRY(WalkAsyncCall(*i, in_loop)) : WalkStart(*i, in_loop);
    } else if (i->op() == HloOp::kAsyncDone) {
      mine = WalkDone(*i);
    } else if (IsForwarding(*i)) {
      mine = ForwardedLeaves(*i, [&](const Instruction& x) -> const auto& { return Leaves(x); });
    } else if (i->IsConstant()) {
      ForEachLeaf(i->shape(), [&](const Shape& shape) {
        MemValue v = NewValue(shape, i, in_loop);
        if (v >= 0) {
          values_[static_cast<size_t>(v)].constant = i;
          values_[static_cast<size_t>(v)].live.push_back({0, INT32_MAX, v});
        }
        mine.push_back(v);
      });
    } else {
      int32_t at = NextMoment(*i);
      std::vector<InPlace> in_place = InPlaceOperands(*i);
      ForEachLeaf(i->shape(), [&](const Shape& shape) {
        MemValue v = NewValue(shape, i, in_loop);
        DefineAt(v, in_place.empty() ? at : at + 1);
        mine.push_back(v);
      });
      for (int64_t k = 0; k < i->operand_count(); ++k) {
        bool may_lie_below = std::any_of(in_place.begin(), in_place.end(),
                                         [&](const InPlace& p) { return p.operand == k; });
        int32_t used = in_place.empty() || may_lie_below ? at : at + 1;
        for (MemValue v : Leaves(*i->operand(k))) UseAt(v, used);
      }
      if (epilogues_) KeepForEpilogue(*i, at);
      for (const InPlace& p : in_place) {
        MemValue below = Leaf(*i->operand(p.operand)), result = mine[static_cast<size_t>(p.leaf)];
        if (below < 0 || result < 0) continue;
        candidates_.push_back(
            {below, result, values_[static_cast<size_t>(result)].shape.ByteSize(), Why::kInPlace});
      }
    }
    leaves_[i] = std::move(mine);
  }
  return {};
}

Status Memory::WalkWhile(const Instruction& loop, bool in_loop) {
  (void)in_loop;
  const auto& attrs = loop.attrs<hlo::WhileAttrs>();
  const hlo::Computation &body = *attrs.body, &condition = *attrs.condition;
  std::vector<MemValue> init = Leaves(*loop.operand(0)), state;
  // State that the body hands on unchanged is the initial value itself.
  std::vector<bool> passes = PassedThrough(loop);
  int32_t start = NextMoment(loop);
  size_t k = 0;
  ForEachLeaf(loop.shape(), [&](const Shape& shape) {
    MemValue from = init[k];
    UseAt(from, start);
    if (passes[k] || from < 0) {
      state.push_back(from);
    } else {
      MemValue v = NewValue(shape, &loop, true);
      DefineAt(v, start + 1);
      candidates_.push_back({from, v, shape.ByteSize(), Why::kControl});
      state.push_back(v);
    }
    ++k;
  });
  leaves_[condition.parameter(0)] = state;
  leaves_[body.parameter(0)] = state;
  TRY(Walk(condition, true));
  int32_t tested = NextMoment(*condition.root());
  for (MemValue v : Leaves(*condition.root())) UseAt(v, tested);
  for (MemValue v : state) UseAt(v, tested + 1);
  TRY(Walk(body, true));
  int32_t end = NextMoment(*body.root());
  const auto next = Leaves(*body.root());
  std::vector<MemValue> kept;
  for (size_t i = 0; i < state.size(); ++i) {
    UseAt(next[i], end);
    if (passes[i] || state[i] < 0) {
      UseAt(state[i], end + 1);
      continue;
    }
    if (next[i] != state[i]) {
      candidates_.push_back({next[i], state[i],
                             values_[static_cast<size_t>(state[i])].shape.ByteSize(),
                             Why::kControl});
      rounds_.push_back({&loop, i, next[i], state[i], start, tested, end});
    }
  }
  for (size_t i = 0; i < state.size(); ++i) {
    if (!passes[i]) DefineAt(state[i], end + 1);
    kept.push_back(passes[i] ? -1 : state[i]);
  }
  leaves_[&loop] = state;
  state_[&loop] = std::move(kept);
  return {};
}

Status Memory::WalkConditional(const Instruction& conditional, bool in_loop) {
  int32_t start = NextMoment(conditional);
  for (const Instruction* operand : conditional.operands()) {
    for (MemValue v : Leaves(*operand)) UseAt(v, start);
  }
  std::vector<MemValue> results;
  ForEachLeaf(conditional.shape(), [&](const Shape& shape) {
    results.push_back(NewValue(shape, &conditional, in_loop));
  });
  std::vector<hlo::Computation*> branches = conditional.attrs<hlo::ConditionalAttrs>().branches();
  for (size_t b = 0; b < branches.size(); ++b) {
    int32_t entered = NextMoment(conditional);
    const auto operands = Leaves(*conditional.operand(static_cast<int64_t>(b) + 1));
    for (MemValue v : operands) EnterBranch(v, entered);
    leaves_[branches[b]->parameter(0)] = operands;
    TRY(Walk(*branches[b], in_loop));
    int32_t end = NextMoment(*branches[b]->root());
    const auto made = Leaves(*branches[b]->root());
    for (size_t k = 0; k < results.size(); ++k) {
      UseAt(made[k], end);
      if (results[k] < 0) continue;
      // Each branch writes it; between the branches it holds nothing.
      DefineAt(results[k], end + 1);
      candidates_.push_back({made[k], results[k],
                             values_[static_cast<size_t>(results[k])].shape.ByteSize(),
                             Why::kControl});
    }
  }
  int32_t end = NextMoment(conditional);
  for (int64_t k = 1; k < conditional.operand_count(); ++k) {
    for (MemValue v : Leaves(*conditional.operand(k))) {
      if (v < 0) continue;
      values_[static_cast<size_t>(v)].split = start;
      values_[static_cast<size_t>(v)].split_end = end;
    }
  }
  for (MemValue v : results) UseAt(v, end);
  leaves_[&conditional] = std::move(results);
  return {};
}

namespace {

// The number of a leaf, depth first; -1: there is no such leaf.
int64_t LeafAt(const Shape& shape, std::span<const int64_t> index) {
  const Shape* s = &shape;
  int64_t leaf = 0;
  for (int64_t i : index) {
    if (!s->IsTuple() || i >= s->tuple_size()) return -1;
    for (int64_t k = 0; k < i; ++k) leaf += LeafCount(s->tuple_element(k));
    s = &s->tuple_element(i);
  }
  return s->IsTuple() ? -1 : leaf;
}

}  // namespace

void Memory::DefineParameters() {
  const hlo::Computation& entry = *module_->entry();
  int64_t next = 0;
  int32_t at = NextMoment(*entry.root());
  for (const Instruction* p : entry.parameters()) {
    std::vector<MemValue> mine;
    ForEachLeaf(p->shape(), [&](const Shape& shape) {
      MemValue v = NewValue(shape, p, false);
      if (v >= 0) {
        values_[static_cast<size_t>(v)].parameter = next++;
        DefineAt(v, at);
      }
      mine.push_back(v);
    });
    leaves_[p] = mine;
  }
}

// The leaf of a parameter, which the program may take for its own; -1: there is none.
MemValue Memory::Donate(int64_t parameter, const ShapeIndex& index) {
  const hlo::Computation& entry = *module_->entry();
  if (parameter < 0 || parameter >= static_cast<int64_t>(entry.parameters().size())) return -1;
  const Instruction& p = *entry.parameter(parameter);
  int64_t leaf = LeafAt(p.shape(), index);
  if (leaf < 0) return -1;
  MemValue v = Leaf(p, leaf);
  if (v >= 0) values_[static_cast<size_t>(v)].donated = true;
  return v;
}

void Memory::DefineResults() {
  const Instruction& root = *module_->entry()->root();
  int32_t end = NextMoment(root);
  const auto roots = Leaves(root);
  std::vector<MemValue> by_leaf;
  int64_t next_result = 0;
  std::vector<Shape> root_shapes;
  ForEachLeaf(root.shape(), [&](const Shape& s) { root_shapes.push_back(s); });
  for (size_t k = 0; k < roots.size(); ++k) {
    MemValue from = roots[k];
    if (from < 0) {
      by_leaf.push_back(-1);
      continue;
    }
    const Shape& shape = root_shapes[k];
    MemValue v = NewValue(shape, &root, false);
    values_[static_cast<size_t>(v)].result = next_result++;
    DefineAt(v, end + 1);
    UseAt(from, end);
    candidates_.push_back({from, v, shape.ByteSize(), Why::kResult});
    results_.push_back(v);
    by_leaf.push_back(v);
  }
  for (const auto& alias : module_->config().input_output_alias) {
    MemValue parameter = Donate(alias.parameter, alias.parameter_index);
    int64_t leaf = LeafAt(root.shape(), alias.output);
    if (parameter < 0 || leaf < 0 || by_leaf[static_cast<size_t>(leaf)] < 0) continue;
    candidates_.push_back({parameter, by_leaf[static_cast<size_t>(leaf)], 0,
                           alias.kind == hlo::AliasKind::kMust ? Why::kMustAlias : Why::kMayAlias});
  }
}

Result<Memory> Memory::Analyse(const hlo::Module& module, bool epilogues) {
  Memory memory;
  memory.module_ = &module;
  memory.epilogues_ = epilogues;
  memory.DefineParameters();
  for (const auto& donor : module.config().buffer_donors) {
    memory.Donate(donor.parameter, donor.index);
  }
  TRY(memory.Walk(*module.entry(), false));
  memory.DefineResults();
  // A result keeps its buffer from the moment that the value in it is there.
  std::vector<size_t> order(memory.candidates_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t i, size_t j) {
    const CoalescingCandidate &a = memory.candidates_[i], &b = memory.candidates_[j];
    if (a.why != b.why) return a.why < b.why;
    return a.bytes != b.bytes ? a.bytes > b.bytes : i < j;
  });
  for (size_t i : order) memory.TryCoalesce(memory.candidates_[i]);
  memory.CoalesceDonated();
  memory.FindDoubleBuffered();
  return memory;
}

}  // namespace weft::compiler
