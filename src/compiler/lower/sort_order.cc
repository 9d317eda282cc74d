// Comparator recognition: the total order that a sort's comparator means.
#include "compiler/lower/sort_order.h"

#include <cmath>

#include "hlo/instruction.h"

namespace weft::compiler {

using hlo::Direction;
using hlo::Instruction;
using HloOp = hlo::Op;

namespace {

// A parameter, with zeros or NaN made one.
struct SortKey {
  int64_t parameter = -1;
  bool is_float = false, one_zero = false, one_nan = false;
};

struct KeyComparison {
  int64_t operand;
  bool is_equality;
  bool descending;
  bool is_float, zeros_equal, nans_equal;
};

bool IsNumber(const Instruction& i, bool (*is)(double)) {
  const Instruction* constant = &i;
  while (constant->op() == HloOp::kBroadcast || constant->op() == HloOp::kConvert) {
    constant = constant->operand(0);
  }
  return constant->IsConstant() && constant->literal().size() == 1 &&
         IsFloat(constant->literal().dtype()) && is(constant->literal().GetDouble(0));
}

bool IsPositiveZero(double x) {
  return x == 0 && !std::signbit(x);
}
bool IsPlainNan(double x) {
  return std::isnan(x) && !std::signbit(x);
}

bool CompareIs(const Instruction& i, Direction direction) {
  return i.op() == HloOp::kCompare && i.attrs<hlo::CompareAttrs>().direction == direction &&
         !i.attrs<hlo::CompareAttrs>().total_order();
}

// select(x == 0, 0, x), select(x != x, NaN, x), any number of times around a parameter. The tests
// may be of x or of what it was made from: both are zero, or NaN, for the same numbers.
std::optional<SortKey> KeyOf(const Instruction& value) {
  SortKey key;
  const Instruction* at = &value;
  std::vector<const Instruction*> chain;
  std::vector<const Instruction*> tested;
  while (!at->IsParameter()) {
    chain.push_back(at);
    if (at->op() == HloOp::kConvert || at->op() == HloOp::kCopy) {
      DType from = at->operand(0)->shape().dtype(), to = at->shape().dtype();
      bool widens = IsFloat(from) && IsFloat(to) && (to == DType::kF32 || to == DType::kF64) &&
                    BitWidth(from) <= BitWidth(to);
      if (from != to && !widens) return std::nullopt;
      at = at->operand(0);
      continue;
    }
    if (at->op() != HloOp::kSelect) return std::nullopt;
    const Instruction &test = *at->operand(0), &instead = *at->operand(1);
    if (test.op() != HloOp::kCompare || !IsFloat(test.operand(0)->shape().dtype())) {
      return std::nullopt;
    }
    const Instruction& x = *test.operand(0);
    if (CompareIs(test, Direction::kEq) &&
        IsNumber(*test.operand(1), [](double v) { return v == 0; }) &&
        IsNumber(instead, IsPositiveZero)) {
      key.one_zero = true;
    } else if (CompareIs(test, Direction::kNe) && test.operand(1) == &x &&
               IsNumber(instead, IsPlainNan)) {
      key.one_nan = true;
    } else {
      return std::nullopt;
    }
    tested.push_back(&x);
    at = at->operand(2);
  }
  chain.push_back(at);
  for (const Instruction* x : tested) {
    bool known = false;
    for (const Instruction* link : chain) known |= link == x;
    if (!known) return std::nullopt;
  }
  key.parameter = at->parameter_number();
  key.is_float = IsFloat(at->shape().dtype());
  if (IsComplex(at->shape().dtype())) return std::nullopt;
  return key;
}

std::optional<KeyComparison> ComparisonOf(const Instruction& i) {
  if (i.op() != HloOp::kCompare) return std::nullopt;
  const auto& attrs = i.attrs<hlo::CompareAttrs>();
  std::optional<SortKey> a = KeyOf(*i.operand(0)), b = KeyOf(*i.operand(1));
  if (!a || !b || a->parameter / 2 != b->parameter / 2 || a->parameter == b->parameter ||
      a->one_zero != b->one_zero || a->one_nan != b->one_nan) {
    return std::nullopt;
  }
  bool total = attrs.total_order();
  KeyComparison result{a->parameter / 2, attrs.direction == Direction::kEq,
                       attrs.direction == Direction::kGt, a->is_float,
                       // Partial orders have one zero; where NaN go in one is open.
                       a->one_zero || (a->is_float && !total),
                       a->one_nan || (a->is_float && !total)};
  if (!result.is_equality && attrs.direction != Direction::kLt && !result.descending) {
    return std::nullopt;
  }
  if (a->parameter % 2 == 1) result.descending = !result.descending;
  return result;
}

// Adds what is compared; `before` is one comparison, or `first before, or equal and the rest`.
bool AppendComparisons(const Instruction& before, std::vector<KeyComparison>& list) {
  const Instruction* at = &before;
  while (true) {
    if (std::optional<KeyComparison> last = ComparisonOf(*at)) {
      if (last->is_equality) return false;
      list.push_back(*last);
      return true;
    }
    // The parts of or(first, and(equal, rest)), and of select(equal, rest, first).
    const Instruction *first = nullptr, *equal = nullptr, *rest = nullptr;
    if (at->op() == HloOp::kSelect) {
      equal = at->operand(0), rest = at->operand(1), first = at->operand(2);
    } else if (at->op() == HloOp::kOr) {
      bool left = at->operand(1)->op() == HloOp::kAnd;
      first = at->operand(left ? 0 : 1);
      const Instruction* both = at->operand(left ? 1 : 0);
      if (both->op() != HloOp::kAnd) return false;
      std::optional<KeyComparison> is = ComparisonOf(*both->operand(0));
      bool leads = is && is->is_equality;
      equal = both->operand(leads ? 0 : 1), rest = both->operand(leads ? 1 : 0);
    } else {
      return false;
    }
    std::optional<KeyComparison> head = ComparisonOf(*first), same = ComparisonOf(*equal);
    if (!head || !same || head->is_equality || !same->is_equality ||
        head->operand != same->operand || head->zeros_equal != same->zeros_equal ||
        head->nans_equal != same->nans_equal) {
      return false;
    }
    list.push_back(*head);
    at = rest;
  }
}

}  // namespace

std::optional<SortOrder> OrderOfComparator(const hlo::Computation& comparator) {
  std::vector<KeyComparison> list;
  if (!AppendComparisons(*comparator.root(), list)) return std::nullopt;
  SortOrder order;
  order.descending = list[0].descending;
  bool floats = false;
  for (const KeyComparison& c : list) {
    if (c.descending != order.descending) return std::nullopt;
    for (int64_t key : order.keys) {
      if (key == c.operand) return std::nullopt;
    }
    order.keys.push_back(c.operand);
    if (!c.is_float) continue;
    if (floats && (order.zeros_equal != c.zeros_equal || order.nans_equal != c.nans_equal)) {
      return std::nullopt;
    }
    floats = true;
    order.zeros_equal = c.zeros_equal;
    order.nans_equal = c.nans_equal;
  }
  return order;
}

}  // namespace weft::compiler
