#include "compiler/passes/recognize/axes.h"

#include <algorithm>

#include "hlo/module.h"

namespace weft::compiler {

using hlo::Instruction;
using hlo::Op;

bool AxisView::Has(int axis) const {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

AxisList NumberAxes(const Shape& shape) {
  AxisList axes;
  for (int64_t d = 0; d < shape.rank(); ++d) {
    axes.push_back(shape.dim(d) == 1 ? kUnitAxis : static_cast<int>(d));
  }
  return axes;
}

namespace {

// AxisList under other dimensions, where these differ in some of size 1 alone.
std::optional<AxisList> AxesOfReshape(const Shape& from, const AxisList& axes, const Shape& to) {
  AxisList result;
  size_t at = 0;
  auto skip = [&] {
    while (at < axes.size() && from.dim(static_cast<int64_t>(at)) == 1) ++at;
  };
  for (int64_t d = 0; d < to.rank(); ++d) {
    if (to.dim(d) == 1) {
      result.push_back(kUnitAxis);
      continue;
    }
    skip();
    if (at == axes.size() || from.dim(static_cast<int64_t>(at)) != to.dim(d)) return std::nullopt;
    result.push_back(axes[at++]);
  }
  skip();
  if (at != axes.size()) return std::nullopt;
  return result;
}

}  // namespace

std::optional<AxisView> BehindMove(const AxisView& view) {
  Instruction* i = view.value;
  if (i->op() == Op::kCopy) return AxisView{i->operand(0), view.axes};
  if (i->op() == Op::kReshape) {
    auto axes = AxesOfReshape(i->shape(), view.axes, i->operand(0)->shape());
    if (!axes) return std::nullopt;
    return AxisView{i->operand(0), std::move(*axes)};
  }
  if (i->op() != Op::kTranspose) return std::nullopt;
  const auto& order = i->attrs<hlo::DimensionsAttrs>().dimensions;
  AxisList axes(view.axes.size());
  for (size_t d = 0; d < axes.size(); ++d) axes[static_cast<size_t>(order[d])] = view.axes[d];
  return AxisView{i->operand(0), std::move(axes)};
}

std::optional<AxisList> AxesAfterMove(const Instruction& move, const AxisList& axes) {
  if (move.op() == Op::kCopy) return axes;
  if (move.op() == Op::kReshape) {
    return AxesOfReshape(move.operand(0)->shape(), axes, move.shape());
  }
  if (move.op() != Op::kTranspose) return std::nullopt;
  AxisList result;
  for (int64_t d : move.attrs<hlo::DimensionsAttrs>().dimensions) {
    result.push_back(axes[static_cast<size_t>(d)]);
  }
  return result;
}

AxisView BehindMoves(AxisView view) {
  while (auto next = BehindMove(view)) view = std::move(*next);
  return view;
}

AxisView BehindBroadcasts(AxisView view) {
  for (;;) {
    view = BehindMoves(std::move(view));
    Instruction* i = view.value;
    if (i->op() != Op::kBroadcast) return view;
    AxisList axes;
    for (int64_t d : i->attrs<hlo::BroadcastAttrs>().dimensions) {
      axes.push_back(view.axes[static_cast<size_t>(d)]);
    }
    view = {i->operand(0), std::move(axes)};
  }
}

std::optional<double> SplatOf(const AxisView& view) {
  Instruction* i = BehindBroadcasts(view).value;
  if (!i->IsConstant() || !i->shape().IsArray() || i->shape().elements() == 0) return std::nullopt;
  const Literal& literal = i->literal();
  if (IsComplex(literal.dtype())) return std::nullopt;
  for (int64_t at = 1; at < literal.size(); ++at) {
    if (literal.GetDouble(at) != literal.GetDouble(0)) return std::nullopt;
  }
  return literal.GetDouble(0);
}

std::optional<IndexAlong> IndexAlongAxis(const AxisView& from) {
  AxisView view = BehindBroadcasts(from);
  DType dtype = view.value->shape().dtype();
  if (dtype != DType::kS32 && dtype != DType::kS64) return std::nullopt;
  int64_t offset = 0;
  for (;; view = BehindBroadcasts(std::move(view))) {
    Instruction* i = view.value;
    if (i->op() != Op::kAdd && i->op() != Op::kSubtract) break;
    int64_t side = 1;
    auto constant = SplatOf({i->operand(1), view.axes});
    if (!constant && i->op() == Op::kAdd) {
      side = 0;
      constant = SplatOf({i->operand(0), view.axes});
    }
    if (!constant) return std::nullopt;
    offset += static_cast<int64_t>(i->op() == Op::kAdd ? *constant : -*constant);
    view.value = i->operand(1 - side);
  }
  Instruction* i = view.value;
  if (i->op() == Op::kIota) {
    auto d = static_cast<size_t>(i->attrs<hlo::IotaAttrs>().iota_dimension);
    if (view.axes[d] == kUnitAxis) return std::nullopt;
    return IndexAlong{view.axes[d], offset};
  }
  if (!i->IsConstant() || i->shape().rank() != 1 || i->literal().size() < 2) return std::nullopt;
  const Literal& literal = i->literal();
  for (int64_t at = 0; at < literal.size(); ++at) {
    if (literal.GetInt(at) != literal.GetInt(0) + at) return std::nullopt;
  }
  return IndexAlong{view.axes[0], literal.GetInt(0) + offset};
}

// key - query DIRECTION c.
bool Conjunction::AddBound(const AxisView& compare, bool negated) {
  using enum hlo::Direction;
  Instruction* i = compare.value;
  auto a = IndexAlongAxis({i->operand(0), compare.axes});
  auto b = IndexAlongAxis({i->operand(1), compare.axes});
  if (!a || !b || a->axis == b->axis) return false;
  hlo::Direction direction = i->attrs<hlo::CompareAttrs>().direction;
  if (b->axis == key_axis) {
    std::swap(a, b);
    direction = hlo::Swapped(direction);
  }
  if (a->axis != key_axis || (query_axis != kUnitAxis && query_axis != b->axis)) return false;
  if (negated) {
    switch (direction) {
      case kLt: direction = kGe; break;
      case kLe: direction = kGt; break;
      case kGt: direction = kLe; break;
      case kGe: direction = kLt; break;
      default: return false;
    }
  }
  int64_t c = b->offset - a->offset;
  auto below = [&](int64_t bound) { last = std::min(last.value_or(bound), bound); };
  auto above = [&](int64_t bound) { first = std::max(first.value_or(bound), bound); };
  switch (direction) {
    case kLt: below(c - 1); break;
    case kLe: below(c); break;
    case kGt: above(c + 1); break;
    case kGe: above(c); break;
    default: return false;
  }
  query_axis = b->axis;
  return true;
}

void Conjunction::Add(const AxisView& predicate, bool negated) {
  std::vector<Term> todo = {{predicate, negated}};
  while (!todo.empty()) {
    Term term = {BehindBroadcasts(std::move(todo.back().view)), todo.back().negated};
    todo.pop_back();
    Instruction* i = term.view.value;
    auto add = [&](int64_t operand, bool is_negated) {
      todo.push_back({{i->operand(operand), term.view.axes}, is_negated});
    };
    if (auto all = SplatOf(term.view); all && (*all != 0) != term.negated) continue;
    if (i->op() == Op::kNot) {
      add(0, !term.negated);
      continue;
    }
    if (i->op() == (term.negated ? Op::kOr : Op::kAnd)) {
      add(1, term.negated);
      add(0, term.negated);
      continue;
    }
    // select(p, x, false) is p and x; select(p, true, x) is p or x.
    if (i->op() == Op::kSelect && i->operand(0)->shape().rank() == i->shape().rank()) {
      auto otherwise = SplatOf({i->operand(term.negated ? 1 : 2), term.view.axes});
      if (otherwise && (*otherwise != 0) == term.negated) {
        add(term.negated ? 2 : 1, term.negated);
        add(0, term.negated);
        continue;
      }
    }
    if (i->op() == Op::kCompare && AddBound(term.view, term.negated)) continue;
    terms.push_back(std::move(term));
  }
}

}  // namespace weft::compiler
