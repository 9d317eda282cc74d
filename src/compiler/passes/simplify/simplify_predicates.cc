// Rules of simplify about comparisons, bits and choices.
#include "compiler/passes/simplify/simplify_rules.h"
#include "hlo/match.h"

namespace weft::compiler {
namespace {

namespace m = hlo::m;
using hlo::Builder;
using hlo::Direction;
using hlo::Instruction;
using hlo::Match;
using hlo::Op;

bool IsBits(DType dtype) {
  return IsInteger(dtype) || dtype == DType::kPred;
}

// Every bit of an element is this one.
bool IsAllOnes(const Literal& l) {
  if (l.dtype() == DType::kPred) return l.GetInt(0) != 0;
  int bits = BitWidth(l.dtype());
  uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  return (static_cast<uint64_t>(l.GetInt(0)) & mask) == mask;
}
bool IsAllZeros(const Literal& l) {
  return l.GetInt(0) == 0;
}

Result<Instruction*> BitsLike(Builder& b, const Shape& shape, bool ones) {
  Literal literal{Shape::Scalar(shape.dtype())};
  literal.SetInt(0, !ones ? 0 : shape.dtype() == DType::kPred ? 1 : -1);
  return FillWith(b, b.Constant(std::move(literal)), shape);
}

Result<Instruction*> CompareWith(Builder& b, const Instruction& compare, Instruction* x,
                                 Instruction* y, Direction direction) {
  hlo::CompareAttrs attrs = compare.attrs<hlo::CompareAttrs>();
  attrs.direction = direction;
  return b.Add(Op::kCompare, {x, y}, attrs);
}

bool IsZero(const Instruction& i) {
  const Literal* value = SplatValue(i);
  return value != nullptr && IsInteger(value->dtype()) && IsAllZeros(*value);
}

// True only where the integer is not zero.
bool ImpliesNotZero(const Instruction& p, const Instruction& x) {
  if (p.op() == Op::kAnd) {
    return ImpliesNotZero(*p.operand(0), x) || ImpliesNotZero(*p.operand(1), x);
  }
  if (p.op() != Op::kCompare || p.operand(0) != &x || !IsZero(*p.operand(1))) return false;
  Direction d = p.attrs<hlo::CompareAttrs>().direction;
  return d == Direction::kNe || d == Direction::kLt || d == Direction::kGt;
}

// The remainder r = x % d of which this is r or, where r is not zero, r + d: zero where r is, as d
// is farther from zero than r. Null: it is none.
Instruction* RemainderZeroWith(Instruction& chosen) {
  Instruction *p, *sum, *r, *d;
  if (!Match(&chosen, m::Select(m::Op(&p), m::Op(&sum), m::Op(&r))) || r->op() != Op::kRemainder ||
      !Shape::SameDims(p->shape(), chosen.shape()) || !Match(sum, m::Add(m::Same(r), m::Op(&d)))) {
    return nullptr;
  }
  const Literal *added = SplatValue(*d), *divisor = SplatValue(*r->operand(1));
  bool same = d == r->operand(1) ||
              (added != nullptr && divisor != nullptr && added->GetInt(0) == divisor->GetInt(0));
  return same && ImpliesNotZero(*p, *r) ? r : nullptr;
}

// x == x, x <= x, x >= x are true, x != x, x < x, x > x false, for integers and total orders;
// unsigned x >= 0 is true, x < 0 false;  c < x = x > c;  (pred == false) = not pred;
// (x % d, rounded down) == 0 is (x % d, rounded to zero) == 0
Result<Instruction*> SimplifyCompare(Instruction& i, Builder& b) {
  Instruction *x = i.operand(0), *y = i.operand(1);
  const auto& attrs = i.attrs<hlo::CompareAttrs>();
  Direction d = attrs.direction;
  DType dtype = x->shape().dtype();
  if (!IsStaticArray(i) || dtype != y->shape().dtype()) return nullptr;
  bool ordered = IsBits(dtype) || attrs.total_order();
  if (x == y && ordered) {
    bool with_equal = d == Direction::kEq || d == Direction::kLe || d == Direction::kGe;
    return BitsLike(b, i.shape(), with_equal);
  }
  const Literal *left = SplatValue(*x), *right = SplatValue(*y);
  if (left != nullptr && right == nullptr) return CompareWith(b, i, y, x, Swapped(d));
  if (right == nullptr || left != nullptr) return nullptr;
  if (dtype == DType::kPred) {
    bool is_not =
        (d == Direction::kEq && IsAllZeros(*right)) || (d == Direction::kNe && IsAllOnes(*right));
    return is_not ? b.Add(Op::kNot, {x}) : nullptr;
  }
  if (!IsAllZeros(*right)) return nullptr;
  if (IsInteger(dtype) && (d == Direction::kEq || d == Direction::kNe)) {
    if (Instruction* r = RemainderZeroWith(*x)) return CompareWith(b, i, r, y, d);
  }
  if (!IsUnsigned(dtype)) return nullptr;
  if (d == Direction::kLt) return BitsLike(b, i.shape(), false);
  if (d == Direction::kGe) return BitsLike(b, i.shape(), true);
  return nullptr;
}

// not(a < b) = (a >= b) where one of the two holds; not(a == b) = (a != b) always
Result<Instruction*> SimplifyNot(Instruction& i, Builder& b) {
  Instruction* compare;
  if (!Match(i.operand(0), m::Compare().To(&compare).OneUser())) return nullptr;
  const auto& attrs = compare->attrs<hlo::CompareAttrs>();
  DType dtype = compare->operand(0)->shape().dtype();
  bool either = attrs.direction == Direction::kEq || attrs.direction == Direction::kNe;
  if (!either && !IsBits(dtype) && !attrs.total_order()) return nullptr;
  return CompareWith(b, *compare, compare->operand(0), compare->operand(1),
                     hlo::Negated(attrs.direction));
}

// sign(x) != 1 & x % c != 0  =  x < 0 & x % c != 0, for c > 0: x is not 0 where it has a remainder.
// Division that rounds down is written so; the other form needs no sign, and is false for an x that
// is known not to be negative.
Result<Instruction*> SimplifySignOfRest(Instruction& i, Builder& b) {
  for (int64_t k : {0, 1}) {
    Instruction *low = i.operand(k), *rest = i.operand(1 - k);
    if (low->op() != Op::kCompare || rest->op() != Op::kCompare) continue;
    Instruction *sign = low->operand(0), *r = rest->operand(0);
    if (sign->op() != Op::kSign || r->op() != Op::kRemainder || r->operand(0) != sign->operand(0) ||
        !IsInteger(r->shape().dtype()) || !IsZero(*rest->operand(1))) {
      continue;
    }
    const Literal *one = SplatValue(*low->operand(1)), *c = SplatValue(*r->operand(1));
    bool applies = low->attrs<hlo::CompareAttrs>().direction == Direction::kNe &&
                   rest->attrs<hlo::CompareAttrs>().direction == Direction::kNe && one != nullptr &&
                   one->GetInt(0) == 1 && c != nullptr && c->GetInt(0) > 0;
    if (!applies) continue;
    Instruction* negative = TRY(b.Compare(sign->operand(0), rest->operand(1), Direction::kLt));
    return b.Add(Op::kAnd, {negative, rest});
  }
  return nullptr;
}

// x & ~x = 0;  x | ~x = ~0;  x & ~0 = x;  x | ~0 = ~0;  x ^ x = 0;  x ^ ~0 = ~x
Result<Instruction*> SimplifyBits(Instruction& i, Builder& b) {
  Instruction* x;
  if (!IsStaticArray(i) || !IsBits(i.shape().dtype())) return nullptr;
  const Literal* c = SplatValue(*i.operand(1));
  bool ones = c != nullptr && IsAllOnes(*c);
  if (i.op() == Op::kXor) {
    if (i.operand(0) == i.operand(1)) return BitsLike(b, i.shape(), false);
    return ones ? b.Add(Op::kNot, {i.operand(0)}) : nullptr;
  }
  if (ones) return i.operand(i.op() == Op::kAnd ? 0 : 1);
  if (i.op() == Op::kAnd && i.shape().dtype() == DType::kPred) {
    if (Instruction* simpler = TRY(SimplifySignOfRest(i, b))) return simpler;
  }
  if (Match(&i, m::Is(i.op(), m::Op(&x), m::Not(m::Same(x))))) {
    return BitsLike(b, i.shape(), i.op() == Op::kOr);
  }
  return nullptr;
}

// select(a > b, a, b) = max(a, b), and the like, for integers
Result<Instruction*> SelectAsMinMax(Instruction& i, Builder& b) {
  Instruction *compare = i.operand(0), *x = i.operand(1), *y = i.operand(2);
  if (compare->op() != Op::kCompare || !IsInteger(i.shape().dtype())) return nullptr;
  Direction d = compare->attrs<hlo::CompareAttrs>().direction;
  if (compare->operand(0) == y && compare->operand(1) == x) {
    d = Swapped(d);
  } else if (compare->operand(0) != x || compare->operand(1) != y) {
    return nullptr;
  }
  if (d == Direction::kGt || d == Direction::kGe) return b.Add(Op::kMaximum, {x, y});
  if (d == Direction::kLt || d == Direction::kLe) return b.Add(Op::kMinimum, {x, y});
  return d == Direction::kEq ? y : x;
}

// select(not p, a, b) = select(p, b, a);  of preds: select(p, true, false) = p,
// select(p, false, true) = not p, select(p, a, false) = p & a, select(p, true, a) = p | a,
// select(p, false, a) = ~p & a, select(p, a, true) = ~p | a
Result<Instruction*> SimplifySelect(Instruction& i, Builder& b) {
  Instruction *p = i.operand(0), *x = i.operand(1), *y = i.operand(2), *inverse;
  if (!IsStaticArray(i) || x->shape().dtype() != y->shape().dtype()) return nullptr;
  if (Match(p, m::Not(m::Op(&inverse)))) return b.Add(Op::kSelect, {inverse, y, x});
  if (Instruction* extreme = TRY(SelectAsMinMax(i, b))) return extreme;
  if (i.shape().dtype() != DType::kPred || !Shape::SameDims(p->shape(), i.shape())) return nullptr;
  const Literal *on_true = SplatValue(*x), *on_false = SplatValue(*y);
  bool true_is_1 = on_true != nullptr && IsAllOnes(*on_true);
  bool true_is_0 = on_true != nullptr && IsAllZeros(*on_true);
  bool false_is_1 = on_false != nullptr && IsAllOnes(*on_false);
  bool false_is_0 = on_false != nullptr && IsAllZeros(*on_false);
  if (true_is_1 && false_is_0) return p;
  if (true_is_0 && false_is_1) return b.Add(Op::kNot, {p});
  if (false_is_0) return b.Add(Op::kAnd, {p, x});
  if (true_is_1) return b.Add(Op::kOr, {p, y});
  if (true_is_0) return b.Add(Op::kAnd, {TRY(b.Add(Op::kNot, {p})), y});
  if (false_is_1) return b.Add(Op::kOr, {TRY(b.Add(Op::kNot, {p})), x});
  return nullptr;
}

}  // namespace

Result<Instruction*> SimplifyPredicates(Instruction& i, Builder& b) {
  switch (i.op()) {
    case Op::kCompare: return SimplifyCompare(i, b);
    case Op::kNot: return SimplifyNot(i, b);
    case Op::kAnd:
    case Op::kOr:
    case Op::kXor: return SimplifyBits(i, b);
    case Op::kSelect: return SimplifySelect(i, b);
    default: return nullptr;
  }
}

}  // namespace weft::compiler
