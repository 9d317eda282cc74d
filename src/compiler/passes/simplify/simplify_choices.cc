// Rules of simplify about the first of several predicates that holds: what select over a list of
// conditions comes as is an argmax over all of them side by side.
#include <algorithm>
#include <limits>
#include <vector>

#include "compiler/passes/simplify/simplify_rules.h"
#include "hlo/computation.h"
#include "program/work_bounds.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Direction;
using hlo::Instruction;
using hlo::Op;

// Operands of the concatenation.
constexpr int64_t kMostConditions = program::WorkBounds::kCandidates;
constexpr int kMostNumbers = 1 + kMostConditions;  // that a chain of selects chooses from

bool Holds(Direction d, int64_t x, int64_t y) {
  switch (d) {
    case Direction::kEq: return x == y;
    case Direction::kNe: return x != y;
    case Direction::kLt: return x < y;
    case Direction::kLe: return x <= y;
    case Direction::kGt: return x > y;
    case Direction::kGe: return x >= y;
  }
  return false;
}

// A step of a reduction of predicates and their numbers, (p, i), (q, j) -> ..., where i < j.
class StepOfChoice {
 public:
  StepOfChoice(bool p, bool q) : p_(p), q_(q) {}

  // nullopt: it depends on more than that, or is beyond this.
  std::optional<bool> Predicate(const Instruction& e) const {
    if (!e.shape().IsScalar() || e.shape().dtype() != DType::kPred) return std::nullopt;
    if (e.IsParameter()) return e.parameter_number() == 0 ? p_ : q_;
    if (e.IsConstant()) return e.literal().GetInt(0) != 0;
    if (e.op() == Op::kCompare) return Compared(e);
    std::vector<bool> of;
    for (const Instruction* operand : e.operands()) {
      std::optional<bool> value = Predicate(*operand);
      if (!value) return std::nullopt;
      of.push_back(*value);
    }
    switch (e.op()) {
      case Op::kNot: return !of[0];
      case Op::kAnd: return of[0] && of[1];
      case Op::kOr: return of[0] || of[1];
      case Op::kXor: return of[0] != of[1];
      case Op::kSelect: return of[0] ? of[1] : of[2];
      default: return std::nullopt;
    }
  }

  // Whether the number is i (true) or j.
  std::optional<bool> IsFirst(const Instruction& e) const {
    if (e.IsParameter()) return e.parameter_number() == 1;
    if (e.op() == Op::kMinimum) {
      std::optional<bool> x = IsFirst(*e.operand(0)), y = IsFirst(*e.operand(1));
      if (!x || !y) return std::nullopt;
      return *x || *y;
    }
    if (e.op() != Op::kSelect) return std::nullopt;
    std::optional<bool> chosen = Predicate(*e.operand(0));
    return chosen ? IsFirst(*e.operand(*chosen ? 1 : 2)) : std::nullopt;
  }

 private:
  std::optional<bool> Compared(const Instruction& e) const {
    Direction d = e.attrs<hlo::CompareAttrs>().direction;
    const Instruction &x = *e.operand(0), &y = *e.operand(1);
    if (x.shape().dtype() == DType::kPred) {
      std::optional<bool> a = Predicate(x), b = Predicate(y);
      if (!a || !b) return std::nullopt;
      return Holds(d, *a, *b);
    }
    std::optional<bool> a = IsFirst(x), b = IsFirst(y);
    if (!a || !b) return std::nullopt;
    return Holds(d, *a ? 0 : 1, *b ? 0 : 1);
  }

  bool p_, q_;
};

// (p, i), (q, j) -> (p or q, p or not q ? i : j)
bool ChoosesFirst(const hlo::Computation& step) {
  const Instruction& root = *step.root();
  if (root.op() != Op::kTuple || root.operand_count() != 2) return false;
  for (bool p : {false, true}) {
    for (bool q : {false, true}) {
      StepOfChoice at(p, q);
      if (at.Predicate(*root.operand(0)) != (p || q)) return false;
      if (at.IsFirst(*root.operand(1)) != (p || !q)) return false;
    }
  }
  return true;
}

// The numbers 0, 1, ... along the dimension, as they are or broadcast.
bool CountsAlong(const Instruction& i, int64_t dimension) {
  if (i.op() == Op::kIota) return i.attrs<hlo::IotaAttrs>().iota_dimension == dimension;
  if (i.op() != Op::kBroadcast || i.operand(0)->op() != Op::kIota) return false;
  int64_t along = i.operand(0)->attrs<hlo::IotaAttrs>().iota_dimension;
  return i.attrs<hlo::BroadcastAttrs>().dimensions[static_cast<size_t>(along)] == dimension;
}

// argmax(concatenate(p0, p1, ...)) of predicates = select(p0, 0, select(p1, 1, ... 0)), their
// maximum p0 | p1 | ...
Result<Instruction*> FirstThatHolds(Instruction& i, Builder& b) {
  Instruction& reduce = *i.operand(0);
  if (reduce.op() != Op::kReduce || reduce.operand_count() != 4) return nullptr;
  Instruction& joined = *reduce.operand(0);
  const auto& attrs = reduce.attrs<hlo::ReduceAttrs>();
  if (joined.op() != Op::kConcatenate || joined.shape().dtype() != DType::kPred ||
      attrs.dimensions.size() != 1 || joined.operand_count() > kMostConditions) {
    return nullptr;
  }
  int64_t dimension = attrs.dimensions[0];
  const Instruction &p = *reduce.operand(2), &number = *reduce.operand(3);
  bool starts = p.IsConstant() && p.literal().GetInt(0) == 0 && IntegerValue(number) == 0;
  if (!starts || joined.attrs<hlo::DimensionsAttrs>().dimensions[0] != dimension ||
      !IsInteger(number.shape().dtype()) || !CountsAlong(*reduce.operand(1), dimension) ||
      !ChoosesFirst(*attrs.to_apply)) {
    return nullptr;
  }
  for (const Instruction* part : joined.operands()) {
    if (!IsStaticArray(*part) || part->shape().dim(dimension) != 1) return nullptr;
  }
  bool wants_number = i.tuple_index() == 1;
  const Dims& dims = i.shape().dims();
  auto count = [&](int64_t k) -> Result<Instruction*> {
    Literal literal{Shape::Scalar(i.shape().dtype())};
    literal.SetInt(0, k);
    return FillWith(b, b.Constant(std::move(literal)), i.shape());
  };
  Instruction* result = wants_number ? TRY(count(0)) : nullptr;
  for (int64_t k = joined.operand_count(); k-- > 0;) {
    Instruction* condition = TRY(b.Reshape(joined.operand(k), dims));
    if (wants_number) {
      result = TRY(b.Add(Op::kSelect, {condition, TRY(count(k)), result}));
    } else {
      result = result == nullptr ? condition : TRY(b.Add(Op::kOr, {condition, result}));
    }
  }
  return result;
}

// Selects between known numbers, and between such selects; how many numbers, at most `room`.
bool IsChoiceOfNumbers(const Instruction& i, int& room) {
  if (SplatValue(i) != nullptr) return --room >= 0;
  if (i.op() != Op::kSelect || !Shape::SameDims(i.operand(0)->shape(), i.shape())) return false;
  return IsChoiceOfNumbers(*i.operand(1), room) && IsChoiceOfNumbers(*i.operand(2), room);
}

Result<Instruction*> EachCompared(Instruction& choice, const Literal& with, Direction d,
                                  Builder& b) {
  if (const Literal* number = SplatValue(choice)) {
    Literal holds{Shape::Scalar(DType::kPred)};
    holds.SetInt(0, Holds(d, number->GetInt(0), with.GetInt(0)));
    Shape shape(DType::kPred, choice.shape().dims());
    return FillWith(b, b.Constant(std::move(holds)), shape);
  }
  Instruction* x = TRY(EachCompared(*choice.operand(1), with, d, b));
  Instruction* y = TRY(EachCompared(*choice.operand(2), with, d, b));
  const Literal *on_true = SplatValue(*x), *on_false = SplatValue(*y);
  if (on_true != nullptr && on_false != nullptr && *on_true == *on_false) return x;
  return b.Add(Op::kSelect, {choice.operand(0), x, y});
}

// select(p, 1, select(q, 2, 0)) < 2 = select(p, true, select(q, false, true))
Result<Instruction*> CompareOfChoice(Instruction& i, Builder& b) {
  Instruction& choice = *i.operand(0);
  const Literal* with = SplatValue(*i.operand(1));
  if (with == nullptr || choice.op() != Op::kSelect || !IsStaticArray(i)) return nullptr;
  DType dtype = choice.shape().dtype();
  if (dtype == DType::kU64 || !IsInteger(dtype)) return nullptr;
  int room = kMostNumbers;
  if (!IsChoiceOfNumbers(choice, room)) return nullptr;
  return EachCompared(choice, *with, i.attrs<hlo::CompareAttrs>().direction, b);
}

// What leaves the other operand of an op as it is; null: none. LLVM knows those of integers.
Instruction* IdentityOf(Op op, DType dtype, Builder& b) {
  if (dtype != DType::kF32 && dtype != DType::kF64) return nullptr;
  constexpr double kInf = std::numeric_limits<double>::infinity();
  switch (op) {
    case Op::kAdd: return b.ScalarConstant(dtype, -0.0);  // +0 would make -0 one of its own
    case Op::kMinimum: return b.ScalarConstant(dtype, kInf);
    case Op::kMaximum: return b.ScalarConstant(dtype, -kInf);
    default: return nullptr;
  }
}

// Whether a number that a loop hands on is behind a scalar: its state is read by elements.
bool ReadsCarriedNumber(const Instruction& i, int64_t depth) {
  if (!i.shape().IsArray() || i.shape().elements() != 1 || depth == 0) return false;
  if (i.op() == Op::kGetTupleElement) return IsFloat(i.shape().dtype());
  return std::any_of(i.operands().begin(), i.operands().end(), [&](const Instruction* operand) {
    return ReadsCarriedNumber(*operand, depth - 1);
  });
}

// select(p, s, min(s, v)) = min(s, select(p, infinity, v)) of scalars, likewise max and sums: where
// s is what an iteration hands on, the next one waits for one operation instead of two. Where that
// is in the predicate or the term, it would wait for more.
Result<Instruction*> ChooseTerm(Instruction& i, Builder& b) {
  if (!i.shape().IsScalar()) return nullptr;
  for (int64_t k : {1, 2}) {
    Instruction &s = *i.operand(k), &op = *i.operand(3 - k);
    if (op.operand_count() != 2 || !IsReadOnce(op) || op.operand(0) == op.operand(1)) continue;
    if (s.IsConstant() || (op.operand(0) != &s && op.operand(1) != &s)) continue;
    int64_t side = op.operand(0) == &s ? 1 : 0;
    Instruction* v = op.operand(side);
    constexpr int64_t kDepth = program::WorkBounds::kTree;
    if (ReadsCarriedNumber(*i.operand(0), kDepth) || ReadsCarriedNumber(*v, kDepth)) continue;
    Instruction* identity = IdentityOf(op.op(), i.shape().dtype(), b);
    if (identity == nullptr) continue;
    Instruction* term =
        TRY(b.Add(Op::kSelect, {i.operand(0), k == 1 ? identity : v, k == 1 ? v : identity}));
    return b.Add(op.op(), {side == 1 ? &s : term, side == 1 ? term : &s}, op.attrs());
  }
  return nullptr;
}

}  // namespace

Result<Instruction*> SimplifyChoices(Instruction& i, Builder& b) {
  if (i.op() == Op::kSelect && IsStaticArray(i)) return ChooseTerm(i, b);
  if (i.op() == Op::kGetTupleElement && IsStaticArray(i)) return FirstThatHolds(i, b);
  if (i.op() == Op::kCompare) return CompareOfChoice(i, b);
  return nullptr;
}

}  // namespace weft::compiler
