// Random loops in loops and branches, in the form that differentiated loops have: numbers that
// count and choose, arrays that every level carries on and updates at places made of the numbers.
#include <algorithm>
#include <utility>

#include "hlo/computation.h"
#include "hlo/random/maker.h"

namespace weft::hlo::random {
namespace {

// Rounds of a loop, by how many are around it.
constexpr int64_t kNestRounds[] = {6, 4, 3};
constexpr int kNestLevels = 3;
constexpr int64_t kNestElements = 120;  // of an array

// Elements of a long one, and rounds of a loop over it: more than narrow numbers can say.
constexpr int64_t kManyElements = 330;

int64_t AtMost(DType type, int64_t value) {
  int bits = BitWidth(type) - IsSigned(type);
  return bits < 32 ? std::min(value, (int64_t{1} << bits) - 1) : value;
}

}  // namespace

// One more number, made of those there are.
Result<Instruction*> NestNumber(Maker& maker, Builder& b, const Nest& nest) {
  Instruction *x = PickOne(maker.dice, nest.numbers), *y = PickOne(maker.dice, nest.numbers);
  Instruction* few = NumberOf(b, nest, maker.dice.Between(-2, 5));
  switch (maker.dice.Below(11)) {
    case 0: return b.Add(Op::kAdd, {x, y});
    case 1: return b.Add(Op::kSubtract, {x, y});
    case 2: return b.Add(Op::kAdd, {x, few});
    case 3: return b.Add(maker.dice.Chance(50) ? Op::kMinimum : Op::kMaximum, {x, few});
    case 4: return b.Add(maker.dice.Chance(50) ? Op::kMinimum : Op::kMaximum, {x, y});
    case 5: return b.Add(Op::kAnd, {x, NumberOf(b, nest, maker.dice.Between(1, 7))});
    case 6: return b.Add(Op::kShiftRightArithmetic, {x, NumberOf(b, nest, 1)});
    case 7:
      return b.Add(Op::kClamp,
                   {NumberOf(b, nest, 0), x, NumberOf(b, nest, maker.dice.Between(0, 6))});
    case 8:
      if (!nest.flags.empty()) return b.Add(Op::kSelect, {PickOne(maker.dice, nest.flags), x, y});
      return b.Add(Op::kMultiply, {x, few});
    case 9: {  // one of two sums, by how the numbers stand to each other
      Instruction* less =
          TRY(b.Compare(x, y, maker.dice.Chance(50) ? Direction::kLt : Direction::kGe));
      Instruction* up = TRY(b.Add(Op::kAdd, {PickOne(maker.dice, nest.numbers), few}));
      Instruction* apart = TRY(b.Add(Op::kSubtract, {y, PickOne(maker.dice, nest.numbers)}));
      return maker.dice.Chance(50) ? b.Add(Op::kSelect, {less, up, x})
                                   : b.Add(Op::kSelect, {less, apart, up});
    }
    default: {  // an element of an array
      for (const Value& v : nest.arrays) {
        if (v.dtype() != nest.type || v.shape().rank() != 1) continue;
        DynamicSliceAttrs attrs;
        attrs.dynamic_slice_sizes = {1};
        Instruction* place = TRY(NestPlace(maker, b, nest, v.shape().dim(0)));
        return b.Reshape(TRY(b.Add(Op::kDynamicSlice, {v.at, place}, attrs)), {});
      }
      return b.Add(Op::kNegate, {x});
    }
  }
}

// A sum that is chosen by conditions in each other, which are made of chosen numbers themselves.
Result<Instruction*> NestChoice(Maker& maker, Builder& b, const Nest& nest, int depth) {
  auto small = [&]() -> Result<Instruction*> {
    Instruction* x = PickOne(maker.dice, nest.numbers);
    if (maker.dice.Chance(40)) return x;
    return b.Add(Op::kClamp,
                 {NumberOf(b, nest, 0), x, NumberOf(b, nest, maker.dice.Between(1, 9))});
  };
  Instruction *x = TRY(small()), *y = TRY(small());
  if (depth == 0) return b.Add(maker.dice.Chance(50) ? Op::kAdd : Op::kSubtract, {x, y});
  Instruction* z = x;
  if (maker.dice.Chance(60)) {
    Instruction* less = TRY(b.Compare(x, y, Direction::kLt));
    z = TRY(b.Add(Op::kSelect, {less, y, TRY(small())}));
  }
  constexpr Direction kOrders[] = {Direction::kLt, Direction::kLe, Direction::kGt, Direction::kEq};
  Instruction* chosen = TRY(b.Compare(z, y, maker.dice.Of(kOrders)));
  Instruction* deeper = TRY(NestChoice(maker, b, nest, depth - 1));
  if (maker.dice.Chance(50)) std::swap(x, deeper);
  return b.Add(Op::kSelect, {chosen, deeper, x});
}

Result<Instruction*> NestFlag(Maker& maker, Builder& b, const Nest& nest) {
  constexpr Direction kDirections[] = {Direction::kLt, Direction::kLe, Direction::kGt,
                                       Direction::kGe, Direction::kEq, Direction::kNe};
  if (!nest.flags.empty() && maker.dice.Chance(30)) {
    Instruction *p = PickOne(maker.dice, nest.flags), *q = PickOne(maker.dice, nest.flags);
    if (maker.dice.Chance(40)) return b.Add(Op::kNot, {p});
    return b.Add(maker.dice.Chance(50) ? Op::kAnd : Op::kOr, {p, q});
  }
  Instruction* x = PickOne(maker.dice, nest.numbers);
  Instruction* y = maker.dice.Chance(50) ? PickOne(maker.dice, nest.numbers)
                                         : NumberOf(b, nest, maker.dice.Between(-1, 6));
  return b.Compare(x, y, maker.dice.Of(kDirections));
}

// Where in `size` elements: as it is, from the end where negative, or brought into range.
Result<Instruction*> NestPlace(Maker& maker, Builder& b, const Nest& nest, int64_t size) {
  Instruction *x = PickOne(maker.dice, nest.numbers), *all = NumberOf(b, nest, size);
  switch (maker.dice.Below(4)) {
    case 0: {
      Instruction* below = TRY(b.Compare(x, NumberOf(b, nest, 0), Direction::kLt));
      return b.Add(Op::kSelect, {below, TRY(b.Add(Op::kAdd, {x, all})), x});
    }
    case 1: return b.Add(Op::kClamp, {NumberOf(b, nest, 0), x, NumberOf(b, nest, size - 1)});
    case 2:
      return b.Add(Op::kSubtract, {TRY(b.Add(Op::kSubtract, {all, x})), NumberOf(b, nest, 1)});
    default: return x;
  }
}

// Of two arrays of one shape whose elements stay what loop state may be.
Result<Value> NestElements(Maker& maker, Builder& b, const Value& x, const Value& y) {
  DType t = x.dtype();
  bool real = IsFloat(t);
  Known known = maker.Union(x.known, y.known);
  if (t == DType::kPred) {
    return Value{TRY(b.Add(maker.dice.Chance(50) ? Op::kXor : Op::kOr, {x.at, y.at})), known};
  }
  if (IsComplex(t) || !(IsInteger(t) || IsComputable(t))) return y;
  if (real && (BitWidth(t) < 16 || maker.dice.Chance(50))) {
    return Value{TRY(b.Add(maker.dice.Chance(50) ? Op::kMaximum : Op::kMinimum, {x.at, y.at})),
                 known};
  }
  Instruction* sum = TRY(b.Add(maker.dice.Chance(50) ? Op::kAdd : Op::kSubtract, {x.at, y.at}));
  if (!real) return Value{sum, known};
  double most = std::min(maker.state_bound, LargestExact(t));
  return Value{TRY(b.Add(Op::kClamp, {b.ScalarConstant(t, -most), sum, b.ScalarConstant(t, most)})),
               known};
}

// The array with a row of it, or of another one like it, changed at some place.
Result<Value> NestUpdate(Maker& maker, Builder& b, const Nest& nest, const Value& array) {
  int64_t rank = array.shape().rank(), size = rank > 0 ? array.shape().dim(0) : 0;
  if (rank > 0 && maker.dice.Chance(25)) return NestMaskedStore(maker, b, nest, array);
  std::vector<Value> alike;
  for (const Value& v : nest.arrays) {
    if (HaveSameShape(v, array)) alike.push_back(v);
  }
  if (rank == 0 || size == 0 || maker.dice.Chance(15)) {
    return NestElements(maker, b, PickOne(maker.dice, alike), array);
  }
  DynamicSliceAttrs attrs;
  for (int64_t d = 0; d < rank; ++d) {
    attrs.dynamic_slice_sizes.push_back(d == 0 ? 1 : array.shape().dim(d));
  }
  auto row = [&]() -> Result<Value> {
    const Value from = PickOne(maker.dice, alike);
    std::vector<Instruction*> operands = {from.at, TRY(NestPlace(maker, b, nest, size))};
    for (int64_t d = 1; d < rank; ++d) operands.push_back(NumberOf(b, nest, 0));
    return Value{TRY(b.Add(Op::kDynamicSlice, operands, attrs)), from.known};
  };
  Value one = TRY(row());
  if (maker.dice.Chance(70)) one = TRY(NestElements(maker, b, one, TRY(row())));
  std::vector<Instruction*> operands = {array.at, one.at, TRY(NestPlace(maker, b, nest, size))};
  for (int64_t d = 1; d < rank; ++d) operands.push_back(NumberOf(b, nest, 0));
  Instruction* updated = TRY(b.Add(Op::kDynamicUpdateSlice, operands, NoAttrs{}));
  if (!nest.flags.empty() && maker.dice.Chance(25)) {  // or not
    Shape shape = ArrayShape(DType::kPred, array.shape().dims());
    Instruction* flag = TRY(b.Broadcast(PickOne(maker.dice, nest.flags), shape, {}));
    updated = TRY(b.Add(Op::kSelect, {flag, updated, array.at}));
  }
  return Value{updated, StateFacts(maker, array)};
}

// What a round of a loop, or a branch, does.
Status NestRound(Maker& maker, Scope& scope, Nest& nest, int level, int64_t actions) {
  for (; actions > 0; --actions) {
    Builder b = scope.builder();
    int64_t action = maker.dice.Below(100);
    if (action < 12) {
      int64_t lowest = IsSigned(nest.type) ? maker.dice.Between(-9, 0) : 0;
      Instruction* choice =
          TRY(NestChoice(maker, b, nest, static_cast<int>(maker.dice.Between(1, 3))));
      nest.numbers.push_back(TRY(b.Add(Op::kMaximum, {choice, NumberOf(b, nest, lowest)})));
    } else if (action < 35) {
      nest.numbers.push_back(TRY(NestNumber(maker, b, nest)));
    } else if (action < 45) {
      nest.flags.push_back(TRY(NestFlag(maker, b, nest)));
    } else if (action < 75) {
      if (nest.arrays.empty()) continue;
      Value& array = nest.arrays[static_cast<size_t>(maker.dice.Below(std::ssize(nest.arrays)))];
      array = TRY(NestUpdate(maker, b, nest, array));
    } else if (level < kNestLevels) {
      TRY(action < 90 ? NestLoop(maker, scope, nest, level)
                      : NestBranches(maker, scope, nest, level));
    }
  }
  return {};
}

namespace {

// When a loop ends.
struct NestEnd {
  bool down, recheck, early;
  int64_t most;  // rounds
};

Result<Computation*> NestCondition(Maker& maker, Scope& scope, const Nest& nest, const Shape& state,
                                   const NestEnd& ends) {
  Scope condition = NewScope(maker, scope, "condition");
  Builder c = condition.builder();
  Instruction* seen = TRY(c.Parameter(0, state));
  Instruction* end = TRY(c.GetTupleElement(seen, 1));
  if (ends.recheck) end = TRY(c.Add(Op::kMinimum, {end, NumberOf(c, nest, ends.most)}));
  Instruction* count = TRY(c.GetTupleElement(seen, 0));
  Instruction* more = ends.down ? TRY(c.Compare(count, NumberOf(c, nest, 0), Direction::kGe))
                                : TRY(c.Compare(count, end, Direction::kLt));
  Nest asked = TRY(NestIn(maker, c, seen, nest, 2));
  if (ends.early) more = TRY(c.Add(Op::kAnd, {more, TRY(NestFlag(maker, c, asked))}));
  condition.computation->set_root(more);
  return condition.computation;
}

}  // namespace

// Counts up to a bound, or down from it: a constant, or a number of what is around the loop.
Status NestLoop(Maker& maker, Scope& scope, Nest& nest, int level) {
  const bool is_long = level == 0 && maker.dice.Chance(8), flat = maker.dice.Chance(20);
  const int64_t most = is_long ? AtMost(nest.type, kManyElements) : kNestRounds[level];
  Builder b = scope.builder();
  Nest given = PartOfNest(maker, nest, true);
  Instruction* bound =
      NumberOf(b, nest, maker.dice.Chance(30) ? maker.dice.Below(2) : maker.dice.Between(0, most));
  bool dynamic = maker.dice.Chance(50), recheck = maker.dice.Chance(30);
  bool down = IsSigned(nest.type) && !flat && maker.dice.Chance(30);
  if (dynamic) {
    bound = PickOne(maker.dice, nest.numbers);
    // Brought into range here, or by the condition in every round. One below the least number
    // would be the greatest.
    if (down) bound = TRY(b.Add(Op::kMaximum, {bound, NumberOf(b, nest, -1)}));
    if (!recheck || down) bound = TRY(b.Add(Op::kMinimum, {bound, NumberOf(b, nest, most)}));
  }
  Instruction* start = down ? TRY(b.Add(Op::kSubtract, {bound, NumberOf(b, nest, 1)}))
                            : NumberOf(b, nest, maker.dice.Chance(70) ? 0 : 1);
  std::vector<Instruction*> leaves = {start, bound};
  std::vector<Instruction*> parts = LeavesOf(given);
  leaves.insert(leaves.end(), parts.begin(), parts.end());
  if (flat) leaves[2] = NumberOf(b, nest, maker.dice.Between(0, 2));  // the first of the numbers
  Instruction* init = TRY(b.Tuple(leaves));

  bool ends_early = maker.dice.Chance(25);
  Computation* condition =
      TRY(NestCondition(maker, scope, given, init->shape(), {down, recheck, ends_early, most}));

  Scope body = NewScope(maker, scope, "body");
  body.uniform &= !dynamic && !ends_early;
  Builder r = body.builder();
  Instruction* state = TRY(r.Parameter(0, init->shape()));
  Nest now = TRY(NestIn(maker, r, state, given, 2)), after = now;
  Instruction* counter = TRY(r.GetTupleElement(state, 0));
  Instruction* last = TRY(r.GetTupleElement(state, 1));
  after.numbers.push_back(last);
  after.numbers.push_back(counter);
  TRY(NestRound(maker, body, after, level + 1, maker.dice.Between(1, 6)));
  std::vector<Instruction*> next = {
      TRY(r.Add(Op::kAdd, {counter, NumberOf(r, nest, down ? -1 : 1)})), last};
  parts = LeavesOf(NextNest(maker, now, after));
  next.insert(next.end(), parts.begin(), parts.end());
  if (flat) TRY(CountFlat(maker, r, after, level, next[0] = counter, next[2] = now.numbers[0]));
  body.computation->set_root(TRY(r.Tuple(next)));

  Instruction* loop =
      TRY(b.Add(Op::kWhile, {init}, WhileAttrs{.condition = condition, .body = body.computation}));
  Nest results = TRY(NestIn(maker, b, loop, given, 2));
  results.numbers.push_back(TRY(b.GetTupleElement(loop, 0)));
  TakeResults(maker, nest, given, results);
  return {};
}

// Branches on a flag or a number; they hand some parts on as they are and change others.
Status NestBranches(Maker& maker, Scope& scope, Nest& nest, int level) {
  Builder b = scope.builder();
  bool by_index = nest.flags.empty() || maker.dice.Chance(50);
  Nest given = PartOfNest(maker, nest, false);
  std::vector<Instruction*> operands = {PickOne(maker.dice, by_index ? nest.numbers : nest.flags)};
  if (by_index) operands[0] = TRY(b.Convert(operands[0], DType::kS32));
  Instruction* tuple = TRY(b.Tuple(LeavesOf(given)));
  std::vector<Computation*> branches;
  for (int64_t k = by_index ? maker.dice.Between(1, 3) : 2; k > 0; --k) {
    operands.push_back(tuple);
    Scope branch = NewScope(maker, scope, "branch");
    branch.uniform = false;
    Builder r = branch.builder();
    Nest now = TRY(NestIn(maker, r, TRY(r.Parameter(0, tuple->shape())), given, 0)), after = now;
    TRY(NestRound(maker, branch, after, level + 1, maker.dice.Between(0, 3)));
    branch.computation->set_root(TRY(r.Tuple(LeavesOf(NextNest(maker, now, after)))));
    branches.push_back(branch.computation);
  }
  ConditionalAttrs attrs;
  if (by_index) {
    attrs.branch_computations = branches;
  } else {
    attrs.true_computation = branches[0];
    attrs.false_computation = branches[1];
  }
  Instruction* made = TRY(b.Add(Op::kConditional, operands, attrs));
  TakeResults(maker, nest, given, TRY(NestIn(maker, b, made, given, 0)));
  return {};
}

void NestAny(Maker& maker, Scope& scope) {
  if (scope.depth >= 2) return;
  constexpr DType kCounts[] = {DType::kS8,  DType::kU8,  DType::kS16, DType::kU16,
                               DType::kU32, DType::kS64, DType::kU64};
  Nest nest;
  if (maker.dice.Chance(50)) nest.type = maker.dice.Of(kCounts);
  for (int64_t n = maker.dice.Between(1, 3); n > 0; --n) {
    nest.numbers.push_back(maker.Like(scope, nest.type, Dims(), true).at);
  }
  if (maker.dice.Chance(50)) nest.flags.push_back(maker.Like(scope, DType::kPred, Dims(), true).at);
  for (int64_t n = maker.dice.Between(1, 4); n > 0; --n) {
    auto v = maker.Find(scope, [&](const Value& x) {
      return MayBeState(maker, x) && x.shape().elements() <= kNestElements && x.shape().rank() <= 2;
    });
    bool is_long = maker.dice.Chance(20);
    Dimensions dims = {is_long ? maker.dice.Between(100, kManyElements) : maker.dice.Between(1, 8)};
    if (!is_long && maker.dice.Chance(30)) dims.push_back(maker.dice.Between(1, 9));
    Value array =
        v && maker.dice.Chance(50)
            ? *v
            : maker.Fresh(scope, maker.dice.Chance(35) ? nest.type : maker.AnyType(), dims);
    if (!MayBeState(maker, array)) array = maker.NewConstant(scope, array.shape());
    nest.arrays.push_back(array);
    if (maker.dice.Chance(40)) nest.arrays.push_back(maker.NewConstant(scope, array.shape()));
  }
  // Loops that run a few rounds, mostly.
  for (Instruction*& number : nest.numbers) {
    Builder b = scope.builder();
    Instruction* least = NumberOf(b, nest, IsSigned(nest.type) ? -3 : 0);
    auto few = b.Add(Op::kClamp, {least, number, NumberOf(b, nest, 9)});
    if (few && maker.dice.Chance(70)) number = *few;
  }
  Nest given = nest;
  if (!NestLoop(maker, scope, nest, 0)) return;
  if (maker.dice.Chance(30) && !NestRound(maker, scope, nest, 1, maker.dice.Between(1, 3))) return;
  for (size_t k = given.numbers.size(); k < nest.numbers.size(); ++k) {
    maker.Push(scope, nest.numbers[k], maker.Unknown(nest.type));
  }
  for (size_t k = given.flags.size(); k < nest.flags.size(); ++k) {
    maker.Push(scope, nest.flags[k], maker.Unknown(DType::kPred));
  }
  for (size_t k = 0; k < nest.arrays.size(); ++k) {
    if (nest.arrays[k].at == given.arrays[k].at) continue;
    maker.Push(scope, nest.arrays[k].at, StateFacts(maker, given.arrays[k]));
  }
}

}  // namespace weft::hlo::random
