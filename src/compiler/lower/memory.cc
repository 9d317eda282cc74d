#include "compiler/lower/memory.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <unordered_set>

#include "base/check.h"
#include "base/str.h"
#include "compiler/trip_count.h"
#include "hlo/computation.h"
#include "program/builder.h"

namespace weft::compiler {

using hlo::Instruction;
using HloOp = hlo::Op;
using program::BufferId;
using program::BufferKind;

namespace {

constexpr int64_t kOwnStorageBytes = 64;        // of temporaries outside of loops
constexpr int64_t kLoopOwnStorageBytes = 4096;  // inside, where they may become registers
constexpr int64_t kAlign = 64;
constexpr int64_t kAlternatingBytes = 2048;  // copies of less are not worth twice the code

int64_t RoundUp(int64_t n) {
  return (n + kAlign - 1) / kAlign * kAlign;
}

}  // namespace

int64_t LeafCount(const Shape& shape) {
  if (!shape.IsTuple()) return 1;
  int64_t n = 0;
  for (const Shape& element : shape.elements_of_tuple()) n += LeafCount(element);
  return n;
}

void ForEachLeaf(const Shape& shape, const std::function<void(const Shape&)>& fn) {
  if (!shape.IsTuple()) return fn(shape);
  for (const Shape& element : shape.elements_of_tuple()) ForEachLeaf(element, fn);
}

bool IsForwarding(const Instruction& instruction) {
  switch (instruction.op()) {
    case HloOp::kTuple:
    case HloOp::kGetTupleElement:
    case HloOp::kReshape:
    case HloOp::kBitcast:
    case HloOp::kCopy:
    case HloOp::kOptBarrier:
    case HloOp::kAddDependency:
    case HloOp::kAfterAll:
    case HloOp::kDomain: return true;
    default: return false;
  }
}

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
  values_.push_back(std::move(value));
  return static_cast<MemValue>(values_.size()) - 1;
}

void Memory::DefineAt(MemValue value, int32_t at) {
  if (value >= 0) values_[static_cast<size_t>(value)].live.push_back({at, at});
}

// Positions only grow, so the last segment is the one that reaches here.
void Memory::UseAt(MemValue value, int32_t at) {
  if (value < 0) return;
  std::vector<Segment>& live = values_[static_cast<size_t>(value)].live;
  if (live.empty()) {
    live.push_back({at, at});
  } else {
    live.back().end = std::max(live.back().end, at);
  }
}

bool Memory::Overlap(const std::vector<Segment>& a, const std::vector<Segment>& b) const {
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i].end < b[j].begin) {
      ++i;
    } else if (b[j].end < a[i].begin) {
      ++j;
    } else {
      return true;
    }
  }
  return false;
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
    if (i->op() == HloOp::kTuple) {
      for (const Instruction* operand : i->operands()) {
        const auto& leaves = Leaves(*operand);
        mine.insert(mine.end(), leaves.begin(), leaves.end());
      }
    } else if (i->op() == HloOp::kGetTupleElement) {
      const Shape& tuple = i->operand(0)->shape();
      int64_t first = 0;
      for (int64_t k = 0; k < i->tuple_index(); ++k) first += LeafCount(tuple.tuple_element(k));
      const auto& leaves = Leaves(*i->operand(0));
      mine.assign(leaves.begin() + first, leaves.begin() + first + LeafCount(i->shape()));
    } else if (i->op() == HloOp::kAfterAll) {
      mine = {-1};
    } else if (IsForwarding(*i)) {
      mine = Leaves(*i->operand(0));
    } else if (i->IsConstant()) {
      ForEachLeaf(i->shape(), [&](const Shape& shape) {
        MemValue v = NewValue(shape, i, in_loop);
        if (v >= 0) {
          values_[static_cast<size_t>(v)].constant = i;
          values_[static_cast<size_t>(v)].live.push_back({0, INT32_MAX});
        }
        mine.push_back(v);
      });
    } else {
      int32_t at = 2 * clock_++;
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
      for (const InPlace& p : in_place) {
        MemValue below = Leaf(*i->operand(p.operand)), result = mine[static_cast<size_t>(p.leaf)];
        if (below < 0 || result < 0) continue;
        wishes_.push_back(
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
  std::vector<bool> passes(init.size(), false);
  const Instruction* root = body.root();
  const auto& elements = loop.shape().elements_of_tuple();
  bool flat = std::none_of(elements.begin(), elements.end(),
                           [](const Shape& element) { return element.IsTuple(); });
  if (root->op() == HloOp::kTuple && flat && !init.empty()) {
    for (size_t k = 0; k < init.size(); ++k) {
      const Instruction* element = root->operand(static_cast<int64_t>(k));
      while (element->op() == HloOp::kCopy || element->op() == HloOp::kBitcast) {
        element = element->operand(0);
      }
      passes[k] = element->op() == HloOp::kGetTupleElement &&
                  element->tuple_index() == static_cast<int64_t>(k) &&
                  element->operand(0)->IsParameter();
    }
  }
  int32_t start = 2 * clock_++;
  size_t k = 0;
  ForEachLeaf(loop.shape(), [&](const Shape& shape) {
    MemValue from = init[k];
    UseAt(from, start);
    if (passes[k] || from < 0) {
      state.push_back(from);
    } else {
      MemValue v = NewValue(shape, &loop, true);
      DefineAt(v, start + 1);
      wishes_.push_back({from, v, shape.ByteSize(), Why::kControl});
      state.push_back(v);
    }
    ++k;
  });
  leaves_[condition.parameter(0)] = state;
  leaves_[body.parameter(0)] = state;
  TRY(Walk(condition, true));
  int32_t tested = 2 * clock_++;
  for (MemValue v : Leaves(*condition.root())) UseAt(v, tested);
  for (MemValue v : state) UseAt(v, tested + 1);
  TRY(Walk(body, true));
  int32_t end = 2 * clock_++;
  const auto next = Leaves(*body.root());
  std::vector<MemValue> kept;
  for (size_t i = 0; i < state.size(); ++i) {
    UseAt(next[i], end);
    if (passes[i] || state[i] < 0) {
      UseAt(state[i], end + 1);
      continue;
    }
    if (next[i] != state[i]) {
      wishes_.push_back({next[i], state[i], values_[static_cast<size_t>(state[i])].shape.ByteSize(),
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
  int32_t start = 2 * clock_++;
  UseAt(Leaf(*conditional.operand(0)), start);
  std::vector<MemValue> results;
  ForEachLeaf(conditional.shape(), [&](const Shape& shape) {
    results.push_back(NewValue(shape, &conditional, in_loop));
  });
  std::vector<hlo::Computation*> branches = conditional.attrs<hlo::ConditionalAttrs>().branches();
  for (size_t b = 0; b < branches.size(); ++b) {
    const auto operands = Leaves(*conditional.operand(static_cast<int64_t>(b) + 1));
    leaves_[branches[b]->parameter(0)] = operands;
    TRY(Walk(*branches[b], in_loop));
    int32_t end = 2 * clock_++;
    const auto made = Leaves(*branches[b]->root());
    for (size_t k = 0; k < results.size(); ++k) {
      UseAt(made[k], end);
      if (results[k] < 0) continue;
      // Each branch writes it; between the branches it holds nothing.
      DefineAt(results[k], end + 1);
      wishes_.push_back({made[k], results[k],
                         values_[static_cast<size_t>(results[k])].shape.ByteSize(), Why::kControl});
    }
  }
  int32_t end = 2 * clock_++;
  // Operands of all branches stay readable until the end: another branch may read them.
  for (int64_t k = 1; k < conditional.operand_count(); ++k) {
    for (MemValue v : Leaves(*conditional.operand(k))) UseAt(v, end);
  }
  for (MemValue v : results) UseAt(v, end);
  leaves_[&conditional] = std::move(results);
  return {};
}

void Memory::TryShare(const Wish& wish) {
  int32_t a = Find(wish.a), b = Find(wish.b);
  if (a == b) return;
  Value &x = values_[static_cast<size_t>(a)], &y = values_[static_cast<size_t>(b)];
  if (x.constant != nullptr || y.constant != nullptr) return;
  if (x.shape.ByteSize() != y.shape.ByteSize()) return;
  if (x.shape.dtype() != y.shape.dtype()) return;  // a kernel sees a buffer as one array
  if (x.parameter >= 0 && y.parameter >= 0) return;
  if (x.result >= 0 && y.result >= 0) return;
  if ((x.parameter >= 0 && !x.donated) || (y.parameter >= 0 && !y.donated)) return;
  if (Overlap(x.live, y.live)) return;
  y.parent = a;
  std::vector<Segment> all;
  std::merge(x.live.begin(), x.live.end(), y.live.begin(), y.live.end(), std::back_inserter(all),
             [](const Segment& s, const Segment& t) { return s.begin < t.begin; });
  x.live = std::move(all);
  y.live.clear();
  x.parameter = std::max(x.parameter, y.parameter);
  x.donated |= y.donated;
  x.result = std::max(x.result, y.result);
  x.in_loop &= y.in_loop;
}

const std::vector<size_t>& Memory::Alternating(const Instruction& loop) const {
  static const std::vector<size_t> kNone;
  auto it = alternating_.find(&loop);
  return it == alternating_.end() ? kNone : it->second;
}

// What the body makes must have a temporary of its own, which then belongs to the loop.
void Memory::FindAlternating() {
  std::unordered_set<int32_t> taken;
  for (const Round& round : rounds_) {
    int32_t next = Find(round.next), state = Find(round.state);
    const Value &x = values_[static_cast<size_t>(next)], &y = values_[static_cast<size_t>(state)];
    if (next == state || x.constant != nullptr || x.parameter >= 0 || x.result >= 0) continue;
    if (x.shape.ByteSize() < kAlternatingBytes || x.shape != y.shape) continue;
    if (x.live.front().begin <= round.body || x.live.back().end > round.end + 1) continue;
    if (TripCount(*round.loop).value_or(0) < 2) continue;
    if (!taken.insert(next).second || !taken.insert(state).second) continue;
    values_[static_cast<size_t>(next)].live = {{round.start, round.end + 1}};
    alternating_[round.loop].push_back(round.leaf);
  }
}

Result<Memory> Memory::Analyse(const hlo::Module& module) {
  Memory memory;
  memory.module_ = &module;
  const hlo::Computation& entry = *module.entry();
  std::vector<MemValue> parameters;
  int32_t at = 2 * memory.clock_++;
  std::vector<std::pair<int64_t, int64_t>> first_leaf;
  for (const Instruction* p : entry.parameters()) {
    std::vector<MemValue> mine;
    ForEachLeaf(p->shape(), [&](const Shape& shape) {
      MemValue v = memory.NewValue(shape, p, false);
      if (v >= 0) {
        memory.values_[static_cast<size_t>(v)].parameter = static_cast<int64_t>(parameters.size());
        memory.DefineAt(v, at);
        parameters.push_back(v);
      }
      mine.push_back(v);
    });
    memory.leaves_[p] = mine;
  }
  auto leaf_of = [](const Shape& shape, std::span<const int64_t> index) {
    const Shape* s = &shape;
    int64_t leaf = 0;
    for (int64_t i : index) {
      if (!s->IsTuple() || i >= s->tuple_size()) return int64_t{-1};
      for (int64_t k = 0; k < i; ++k) leaf += LeafCount(s->tuple_element(k));
      s = &s->tuple_element(i);
    }
    return s->IsTuple() ? int64_t{-1} : leaf;
  };
  auto donate = [&](int64_t parameter, const ShapeIndex& index) -> MemValue {
    if (parameter < 0 || parameter >= static_cast<int64_t>(entry.parameters().size())) return -1;
    const Instruction& p = *entry.parameter(parameter);
    int64_t leaf = leaf_of(p.shape(), index);
    if (leaf < 0) return -1;
    MemValue v = memory.Leaf(p, leaf);
    if (v >= 0) memory.values_[static_cast<size_t>(v)].donated = true;
    return v;
  };
  for (const auto& donor : module.config().buffer_donors) donate(donor.parameter, donor.index);
  TRY(memory.Walk(entry, false));
  // Results.
  int32_t end = 2 * memory.clock_++;
  const auto roots = memory.Leaves(*entry.root());
  std::vector<MemValue> by_leaf;
  int64_t next_result = 0;
  std::vector<Shape> root_shapes;
  ForEachLeaf(entry.root()->shape(), [&](const Shape& s) { root_shapes.push_back(s); });
  for (size_t k = 0; k < roots.size(); ++k) {
    MemValue from = roots[k];
    if (from < 0) {
      by_leaf.push_back(-1);
      continue;
    }
    const Shape& shape = root_shapes[k];
    MemValue v = memory.NewValue(shape, entry.root(), false);
    memory.values_[static_cast<size_t>(v)].result = next_result++;
    memory.DefineAt(v, end + 1);
    memory.UseAt(from, end);
    memory.wishes_.push_back({from, v, shape.ByteSize(), Why::kResult});
    memory.results_.push_back(v);
    by_leaf.push_back(v);
  }
  for (const auto& alias : module.config().input_output_alias) {
    MemValue parameter = donate(alias.parameter, alias.parameter_index);
    int64_t leaf = leaf_of(entry.root()->shape(), alias.output);
    if (parameter < 0 || leaf < 0 || by_leaf[static_cast<size_t>(leaf)] < 0) continue;
    memory.wishes_.push_back({parameter, by_leaf[static_cast<size_t>(leaf)], 0, Why::kAlias});
  }
  // A result keeps its buffer from the moment that the value in it is there.
  std::vector<size_t> order(memory.wishes_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t i, size_t j) {
    const Wish &a = memory.wishes_[i], &b = memory.wishes_[j];
    if (a.why != b.why) return a.why < b.why;
    return a.bytes != b.bytes ? a.bytes > b.bytes : i < j;
  });
  for (size_t i : order) memory.TryShare(memory.wishes_[i]);
  memory.FindAlternating();
  return memory;
}

// Temporaries in one arena: the largest first, each at the lowest place where nothing that lives at
// the same time lies.
void Memory::Place(program::Program& program) {
  struct Item {
    int32_t value;
    int64_t bytes, offset;
    int32_t begin, end;
  };
  std::vector<Item> items;
  for (size_t v = 0; v < values_.size(); ++v) {
    Value& value = values_[v];
    if (value.parent >= 0 || value.constant != nullptr || value.parameter >= 0 ||
        value.result >= 0 || value.live.empty()) {
      continue;
    }
    int64_t bytes = value.shape.ByteSize();
    if (bytes <= (value.in_loop ? kLoopOwnStorageBytes : kOwnStorageBytes)) {
      value.buffer = AddBuffer(program, StrCat("t", v), value.shape, BufferKind::kTemp);
      continue;
    }
    items.push_back({static_cast<int32_t>(v), RoundUp(bytes), 0, value.live.front().begin,
                     value.live.back().end});
  }
  if (items.empty()) return;
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.value < b.value;
  });
  std::vector<const Item*> placed;  // by offset
  for (Item& item : items) {
    int64_t at = 0;
    for (const Item* other : placed) {
      // What an instruction reads and what it writes lie apart, unless they are one value.
      if (other->end / 2 < item.begin / 2 || other->begin / 2 > item.end / 2) continue;
      if (at + item.bytes <= other->offset) break;
      at = std::max(at, other->offset + other->bytes);
    }
    item.offset = at;
    arena_bytes_ = std::max(arena_bytes_, at + item.bytes);
    auto where =
        std::upper_bound(placed.begin(), placed.end(), &item,
                         [](const Item* a, const Item* b) { return a->offset < b->offset; });
    placed.insert(where, &item);
  }
  BufferId arena =
      AddBuffer(program, "arena", Shape(DType::kU8, {arena_bytes_}), BufferKind::kTemp);
  for (const Item& item : items) {
    Value& value = values_[static_cast<size_t>(item.value)];
    value.buffer = AddView(program, StrCat("t", item.value), value.shape, arena, item.offset);
  }
}

void Memory::Assign(program::Program& program) {
  std::vector<int32_t> parameters, results;
  for (size_t v = 0; v < values_.size(); ++v) {
    if (values_[v].parent >= 0) continue;
    if (values_[v].parameter >= 0) parameters.push_back(static_cast<int32_t>(v));
    if (values_[v].result >= 0) results.push_back(static_cast<int32_t>(v));
  }
  auto by = [&](auto field) {
    return [this, field](int32_t a, int32_t b) {
      return values_[static_cast<size_t>(a)].*field < values_[static_cast<size_t>(b)].*field;
    };
  };
  std::sort(parameters.begin(), parameters.end(), by(&Value::parameter));
  std::sort(results.begin(), results.end(), by(&Value::result));
  for (int32_t v : parameters) {
    Value& value = values_[static_cast<size_t>(v)];
    value.buffer = AddBuffer(program, StrCat("p", value.parameter), value.shape,
                             BufferKind::kParameter, value.parameter);
    if (value.donated) program.buffers[value.buffer].donation = program::Donation::kMay;
  }
  for (int32_t v : results) {
    Value& value = values_[static_cast<size_t>(v)];
    BufferId base = value.buffer;  // of the donated parameter in the group
    const Shape& shape =
        values_[static_cast<size_t>(results_[static_cast<size_t>(value.result)])].shape;
    BufferId id =
        AddBuffer(program, StrCat("r", value.result), shape, BufferKind::kResult, value.result);
    if (base >= 0) program.buffers[id].base = base;
    if (base < 0) value.buffer = id;
  }
  Place(program);
}

BufferId Memory::Buffer(program::Program& program, MemValue value) {
  Value& group = values_[static_cast<size_t>(Find(value))];
  if (group.buffer < 0) {
    CHECK(group.constant != nullptr) << "value without a buffer";
    Literal literal = group.constant->literal();
    group.buffer = AddConstant(program, StrCat("c", Find(value)), literal.WithShape(group.shape));
  }
  const Shape& shape = values_[static_cast<size_t>(value)].shape;
  const program::Buffer& buffer = program.buffers[group.buffer];
  if (buffer.shape.dtype() == shape.dtype()) return group.buffer;
  std::string key = StrCat(Find(value), ":", Name(shape.dtype()));
  auto [it, added] = views_.try_emplace(key, -1);
  if (added) {
    BufferId base = buffer.base >= 0 ? buffer.base : group.buffer;
    int64_t offset = buffer.base >= 0 ? buffer.offset : 0;
    it->second = AddView(program, StrCat("v", it->first), shape, base, offset);
  }
  return it->second;
}

}  // namespace weft::compiler
