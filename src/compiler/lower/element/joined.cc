// Elements of arrays that are put together from others: concatenate, dynamic-update-slice.
//
// A vector of lanes mostly comes from one of them: then it is read as a run, and only one that
// reaches over an edge is gathered.
#include <algorithm>
#include <unordered_set>

#include "compiler/analysis/element_cost.h"
#include "compiler/lower/element/element.h"
#include "hlo/computation.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Op;
using HloOp = hlo::Op;

namespace {

constexpr int kMaxBranches = 2;    // within each other: each one doubles the code
constexpr int kMaxOpenTests = 16;  // of concatenations, within each other

}  // namespace

// Lanes go along dimension d, one element each.
bool ElementEmitter::IsRun(const Index& at, size_t d) const {
  if (lanes_ == 1) return false;
  for (size_t i = 0; i < at.coords.size(); ++i) {
    const Coord& c = at.coords[i];
    if (b_.type(c.base).lanes > 1 || c.step != (i == d ? 1 : 0) || c.each != 1) {
      return false;
    }
  }
  return true;
}

Element ElementEmitter::Spread(Element value) {
  auto spread = [&](ValueId v) {
    return v < 0 || b_.type(v).lanes == lanes_ ? v : b_.Splat(v, lanes_);
  };
  return {spread(value.re), spread(value.im)};
}

Result<Element> ElementEmitter::EmitEither(ValueId condition,
                                           const std::function<Result<Element>()>& yes,
                                           const std::function<Result<Element>()>& no) {
  auto parts = [](Element e) {
    std::vector<ValueId> values = {e.re};
    if (e.im >= 0) values.push_back(e.im);
    return values;
  };
  b_.BeginIf(condition, program::Branch::kLikely);
  size_t begin = b_.code_size();
  Element first = Spread(TRY(yes()));
  bool nothing = b_.code_size() == begin;
  b_.BeginElse(parts(first));
  begin = b_.code_size();
  Element second = Spread(TRY(no()));
  // All of the work is in the second block: the branch is there to skip it, and speculating it
  // would be in vain.
  if (nothing && b_.code_size() > begin) b_.SetBranch(program::Branch::kGuard);
  std::vector<ValueId> after = b_.End(parts(second));
  return Element{after[0], after.size() > 1 ? after[1] : -1};
}

// What computing a side of a select takes that nothing else asks for; 0 where much of it is shared.
double ElementEmitter::OwnCost(const Instruction& side, const Instruction& select,
                               const Index& index) {
  constexpr size_t kMost = 300;
  std::vector<const Instruction*> reached = {&side};
  std::unordered_set<const Instruction*> seen = {&side, &select};
  for (size_t at = 0; at < reached.size() && reached.size() < kMost; ++at) {
    const Instruction& i = *reached[at];
    if (bound_.contains(&i) || arguments_.contains(&i) || FindCached(i, index)) continue;
    for (const Instruction* operand : i.operands()) {
      if (seen.insert(operand).second) reached.push_back(operand);
    }
  }
  double own = 0, shared = 0;
  for (const Instruction* i : reached) {
    if (bound_.contains(i) || !i->shape().IsArray() || FindCached(*i, index)) continue;
    bool only = std::all_of(i->users().begin(), i->users().end(),
                            [&](const Instruction* user) { return seen.contains(user); });
    (only ? own : shared) += ElementCost(*i);
  }
  return 2 * shared <= own ? own : 0;
}

// One condition for all lanes, and sides that are work: only the one that is chosen is computed.
Result<std::optional<Element>> ElementEmitter::EmitOneSide(const Instruction& select,
                                                           const Index& index) {
  constexpr double kMuchWork = 40;
  const Instruction& condition = *select.operand(0);
  bool one = condition.shape().IsScalar() ||
             (condition.op() == HloOp::kBroadcast && condition.operand(0)->shape().IsScalar());
  if (!one || select.shape().IsScalar() || branches_ > 0) return std::nullopt;
  if (OwnCost(*select.operand(1), select, index) < kMuchWork &&
      OwnCost(*select.operand(2), select, index) < kMuchWork) {
    return std::nullopt;
  }
  ValueId chosen = TRY(Emit(condition, condition.shape().IsScalar() ? Index() : index)).re;
  if (b_.type(chosen).lanes != 1) return std::nullopt;
  ++branches_;
  auto value = EmitEither(
      chosen, [&] { return Emit(*select.operand(1), index); },
      [&] { return Emit(*select.operand(2), index); });
  --branches_;
  return std::optional(TRY(std::move(value)));
}

// The index of the least element, p or (q and x < y) ? x : y, as p ? x : q ? min(x, y) : y:
// machines whose predicates are vectors have no logic for more lanes than a register has.
Result<std::optional<Element>> ElementEmitter::EmitLeastOf(const Instruction& select,
                                                           const Index& index) {
  const Instruction *choice = select.operand(0), *x = select.operand(1), *y = select.operand(2);
  bool plain = choice->op() == HloOp::kOr && choice->shape().rank() == select.shape().rank() &&
               IsInteger(select.shape().dtype());
  if (!plain) return std::nullopt;
  auto less = [&](const Instruction* i) {
    return i->op() == HloOp::kCompare && i->operand(0) == x && i->operand(1) == y &&
           i->attrs<hlo::CompareAttrs>().direction == hlo::Direction::kLt;
  };
  for (int64_t k = 0; k < 2; ++k) {
    const Instruction *first = choice->operand(1 - k), *both = choice->operand(k);
    if (both->op() != HloOp::kAnd) continue;
    for (int64_t n = 0; n < 2; ++n) {
      if (!less(both->operand(n))) continue;
      ValueId p = TRY(Emit(*first, index)).re, q = TRY(Emit(*both->operand(1 - n), index)).re;
      ValueId a = TRY(Emit(*x, index)).re, b = TRY(Emit(*y, index)).re;
      auto most_of = [&](ValueId v) -> std::optional<int64_t> {
        if (auto number = b_.IntConstant(v)) return number;
        auto it = at_most_.find(v);
        return it == at_most_.end() ? std::nullopt : std::optional(it->second);
      };
      std::optional<int64_t> most = most_of(a), next = b_.IntConstant(b);
      Match(a, b);
      Element chosen;
      if (most && next && *most < *next) {  // elements come in the order of their indices
        Match(p, q);
        chosen = Select(b_.Emit(Op::kOr, {p, q}), {a, -1}, {b, -1});
      } else {
        chosen = Select(p, {a, -1}, Select(q, {b_.Min(a, b), -1}, {b, -1}));
      }
      if (most && next) at_most_[chosen.re] = std::max(*most, *next);
      return chosen;
    }
  }
  return std::nullopt;
}

bool ElementEmitter::ReadsAtIndex(const Instruction& instruction) const {
  constexpr size_t kMostLookedAt = 32;
  std::vector<const Instruction*> reached = {&instruction};
  for (size_t i = 0; i < reached.size() && i < kMostLookedAt; ++i) {
    if (bound_.contains(reached[i])) continue;
    HloOp op = reached[i]->op();
    if (op == HloOp::kDynamicSlice || op == HloOp::kGather) return true;
    for (const Instruction* operand : reached[i]->operands()) {
      if (std::find(reached.begin(), reached.end(), operand) == reached.end()) {
        reached.push_back(operand);
      }
    }
  }
  return false;
}

bool ElementEmitter::IsAskedInTurn(const Instruction& instruction) const {
  bool logic = instruction.op() == HloOp::kAnd || instruction.op() == HloOp::kOr;
  if (!logic || instruction.shape().dtype() != DType::kPred || lanes_ != 1) return false;
  return instruction.shape().elements() == 1 &&
         (ReadsAtIndex(*instruction.operand(0)) || ReadsAtIndex(*instruction.operand(1)));
}

Result<Element> ElementEmitter::EmitInTurn(const Instruction& instruction, const Index& index) {
  const Instruction *first = instruction.operand(0), *second = instruction.operand(1);
  if (!ReadsAtIndex(*second)) std::swap(first, second);
  ValueId decides = TRY(Emit(*first, index)).re;
  bool both = instruction.op() == HloOp::kAnd;
  auto other = [&]() -> Result<Element> {
    if (ranges_ == nullptr) return Emit(*second, index);
    ranges_->BeginAssumption(*first, both);
    Result<Element> element = Emit(*second, index);
    ranges_->EndAssumption();
    return element;
  };
  auto known = [&]() -> Result<Element> { return Element{b_.Pred(!both), -1}; };
  if (both) return EmitEither(decides, other, known);
  return EmitEither(decides, known, other);
}

Result<Element> ElementEmitter::EmitConcatenate(const Instruction& concatenate,
                                                const Index& index) {
  size_t d = static_cast<size_t>(concatenate.attrs<hlo::DimensionsAttrs>().dimensions[0]);
  Index at = Coordinates(concatenate.shape().dims(), index);
  const Coord along = at.coords[d];
  std::optional<int64_t> first = b_.IntConstant(along.base);
  if (!IsRun(at, d)) {
    bool one = b_.type(along.base).lanes == 1 && (along.step == 0 || lanes_ == 1);
    if (!one || !first) return EmitConcatenateChosen(concatenate, d, at);
    for (const Instruction* operand : concatenate.operands()) {
      int64_t size = operand->shape().dim(static_cast<int64_t>(d));
      if (*first < size) {
        at.coords[d] = Constant(*first);
        return Emit(*operand, at);
      }
      *first -= size;
    }
    return EmitConcatenateChosen(concatenate, d, at);
  }
  if (first) return EmitConcatenateAt(concatenate, d, at, *first);
  return EmitConcatenateRun(concatenate, d, at, {});
}

// A run of lanes that lies within one operand is read as one, the largest tried first; `tried` are
// those that it does not lie within.
Result<Element> ElementEmitter::EmitConcatenateRun(const Instruction& concatenate, size_t d,
                                                   const Index& at, std::vector<int64_t> tried) {
  const Coord along = at.coords[d];
  int64_t offset = 0, most = -1, begin = 0, which = -1;
  for (int64_t k = 0; k < concatenate.operand_count(); ++k) {
    int64_t size = concatenate.operand(k)->shape().dim(static_cast<int64_t>(d));
    bool reached = along.high >= offset && along.low < offset + size;
    if (size > most && reached && std::find(tried.begin(), tried.end(), k) == tried.end()) {
      which = k;
      most = size;
      begin = offset;
    }
    offset += size;
  }
  if (most < 2 * lanes_ || branches_ >= kMaxBranches) {
    return EmitConcatenateChosen(concatenate, d, at);
  }
  ValueId inside = -1;
  if (along.low < begin) inside = b_.Emit(Op::kGe, {along.base, b_.Int(begin)});
  if (along.high >= begin + most) {
    ValueId below = b_.Emit(Op::kLe, {along.base, b_.Int(begin + most - lanes_)});
    inside = inside < 0 ? below : b_.Emit(Op::kAnd, {inside, below});
  }
  Index moved = at;
  auto within = [&]() -> Result<Element> {
    Coord& c = moved.coords[d] = AddConstant(along, -begin);
    c.low = std::max(c.low, int64_t{0});
    c.high = std::min(c.high, most - 1);
    return Emit(*concatenate.operand(which), moved);
  };
  if (inside < 0) return within();
  tried.push_back(which);
  ++branches_;
  auto value = EmitEither(inside, within,
                          [&] { return EmitConcatenateRun(concatenate, d, at, std::move(tried)); });
  --branches_;
  return value;
}

// Lanes [first, first + lanes), which operands they come from being known: runs of the operands,
// moved to their lanes.
Result<Element> ElementEmitter::EmitConcatenateAt(const Instruction& concatenate, size_t d,
                                                  const Index& at, int64_t first) {
  int lanes = lanes_;
  auto shuffle = [&](Element a, Element b, const std::vector<int32_t>& from) {
    Element result{b_.Shuffle(a.re, b.re, from), -1};
    if (a.im >= 0) result.im = b_.Shuffle(a.im, b.im, from);
    return result;
  };
  auto blend = [&](Element a, Element b, int64_t begin, int64_t end) {
    std::vector<int32_t> from;
    for (int32_t l = 0; l < lanes; ++l) from.push_back(l >= begin && l < end ? lanes + l : l);
    return shuffle(a, b, from);
  };
  Element result;
  int64_t offset = 0;
  for (const Instruction* operand : concatenate.operands()) {
    int64_t size = operand->shape().dim(static_cast<int64_t>(d));
    int64_t begin = std::max(first - offset, int64_t{0});
    int64_t end = std::min(first - offset + lanes, size);
    int64_t lane = offset + begin - first;  // of the operand's first element
    offset += size;
    if (begin >= end) continue;
    Index moved = at;
    Element part;
    if (size >= lanes) {
      int64_t from = std::min(begin, size - lanes), shift = begin - from - lane;
      moved.coords[d] = {b_.Int(from), 1, from == 0 ? int64_t{lanes} : from, from,
                         from + lanes - 1};
      part = Spread(TRY(Emit(*operand, moved)));
      if (shift != 0) {
        std::vector<int32_t> lane_from;
        for (int64_t l = 0; l < lanes; ++l) {
          lane_from.push_back(static_cast<int32_t>(std::clamp<int64_t>(l + shift, 0, lanes - 1)));
        }
        part = shuffle(part, part, lane_from);
      }
    } else {
      for (int64_t i = begin; i < end; ++i) {
        moved.coords[d] = Constant(i);
        lanes_ = 1;
        auto one = Emit(*operand, moved);
        lanes_ = lanes;
        Element value = Spread(TRY(std::move(one)));
        int64_t l = lane + i - begin;
        part = part.re < 0 ? value : blend(part, value, l, l + 1);
      }
    }
    result = result.re < 0 ? part : blend(result, part, lane, lane + end - begin);
  }
  return result;
}

// Operands [begin, end), which of them is asked for not being known: halves, one of them behind a
// test where the coordinate is the same in all lanes, else both.
Result<Element> ElementEmitter::EmitConcatenateRange(const Instruction& concatenate, size_t d,
                                                     const Index& at, Operands range) {
  const Coord along = at.coords[d];
  auto size_of = [&](int64_t k) {
    return concatenate.operand(k)->shape().dim(static_cast<int64_t>(d));
  };
  while (range.end - range.begin > 1 && along.low >= range.offset + size_of(range.begin)) {
    range.offset += size_of(range.begin++);
  }
  int64_t middle = (range.begin + range.end) / 2, offset = range.offset;
  for (int64_t k = range.begin; k < middle; ++k) offset += size_of(k);
  while (middle > range.begin && along.high < offset) {
    range.end = middle;
    offset -= size_of(--middle);
  }
  if (middle == range.begin) {
    const Instruction& operand = *concatenate.operand(range.begin);
    Index moved = at;
    moved.coords[d] = Clamp(AddConstant(along, -range.offset), 0, size_of(range.begin) - 1);
    return Emit(operand, moved);
  }
  auto part = [&](bool first) {
    Index in = at;
    Coord& c = in.coords[d];
    if (first) {
      c.high = std::min(c.high, offset - 1);
    } else {
      c.low = std::max(c.low, offset);
    }
    return EmitConcatenateRange(
        concatenate, d, in,
        first ? Operands{range.begin, middle, range.offset} : Operands{middle, range.end, offset});
  };
  ValueId inside = IsWithin(along, 0, offset, concatenate.shape().dims()[d] + 1);
  bool loads = lanes_ == 1 && middle - range.begin == 1 && range.end - middle == 1 &&
               IsBound(*concatenate.operand(range.begin)) && IsBound(*concatenate.operand(middle));
  if (b_.type(inside).lanes == 1 && !loads && open_tests_ < kMaxOpenTests) {
    ++open_tests_;
    auto value = EmitEither(inside, [&] { return part(true); }, [&] { return part(false); });
    --open_tests_;
    return value;
  }
  // Both are computed: neither may count on being asked for.
  Element left = TRY(EmitConcatenateRange(concatenate, d, at, {range.begin, middle, range.offset}));
  Element right = TRY(EmitConcatenateRange(concatenate, d, at, {middle, range.end, offset}));
  return Select(inside, left, right);
}

Result<Element> ElementEmitter::EmitConcatenateChosen(const Instruction& concatenate, size_t d,
                                                      const Index& at) {
  return EmitConcatenateRange(concatenate, d, at, {0, concatenate.operand_count(), 0});
}

// Dimensions in which all lanes are known to lie inside or outside the update ask nothing.
Result<Element> ElementEmitter::EmitDynamicUpdateSlice(const Instruction& update,
                                                       const Index& index) {
  const Instruction &operand = *update.operand(0), &slice = *update.operand(1);
  Index at = Coordinates(update.shape().dims(), index), from = at, inner = at;
  int64_t rank = operand.shape().rank();
  size_t minor = static_cast<size_t>(rank) - 1;
  bool run = rank > 0 && IsRun(at, minor) && branches_ < kMaxBranches &&
             slice.shape().dims()[minor] >= 2 * lanes_;
  auto both = [&](ValueId& a, ValueId b) {
    if (a >= 0) Match(a, b);
    a = a < 0 ? b : b_.Emit(Op::kAnd, {a, b});
  };
  std::vector<int64_t> asked;     // dimensions
  ValueId inside = -1, all = -1;  // each lane; all lanes
  for (int64_t d = 0; d < rank; ++d) {
    int64_t size = slice.shape().dim(d), room = operand.shape().dim(d) - size;
    if (room == 0) continue;
    size_t i = static_cast<size_t>(d);
    Coord start = TRY(EmitStart(*update.operand(d + 2), room));
    Coord& c = from.coords[i] = Add(at.coords[i], Scale(start, -1));
    if (c.high < 0 || c.low >= size) return Emit(operand, at);
    inner.coords[i] = c;
    if (c.low >= 0 && c.high < size) continue;
    asked.push_back(d);
    if (run) {
      int64_t last = i == minor ? size - lanes_ : size - 1;
      if (c.low < 0) both(all, b_.Emit(Op::kGe, {c.base, b_.Int(0)}));
      if (c.high >= size) both(all, b_.Emit(Op::kLe, {c.base, b_.Int(last)}));
    }
  }
  auto chosen = [&]() -> Result<Element> {
    for (int64_t d : asked) {
      int64_t size = slice.shape().dim(d);
      size_t i = static_cast<size_t>(d);
      const Coord& c = from.coords[i];
      bool wide = b_.type(c.base).lanes > 1 || (c.step != 0 && lanes_ > 1);
      ValueId x = wide ? LaneValue(c, DType::kS64) : c.base;
      both(inside, b_.Emit(Op::kAnd, {b_.Emit(Op::kGe, {x, b_.Int(0, b_.type(x))}),
                                      b_.Emit(Op::kLt, {x, b_.Int(size, b_.type(x))})}));
      inner.coords[i] = Clamp(c, 0, size - 1);
    }
    Element value = TRY(Emit(slice, inner));
    if (inside < 0) return value;
    Element old = TRY(Emit(operand, at));
    return Select(inside, value, old);
  };
  if (!run || all < 0) return chosen();
  auto within = [&]() -> Result<Element> {
    Index moved = from;
    for (int64_t d = 0; d < rank; ++d) {
      Coord& c = moved.coords[static_cast<size_t>(d)];
      c.low = std::max(c.low, int64_t{0});
      c.high = std::min(c.high, slice.shape().dim(d) - 1);
    }
    return Emit(slice, moved);
  };
  ++branches_;
  auto value = EmitEither(all, within, chosen);
  --branches_;
  return value;
}

}  // namespace weft::compiler
