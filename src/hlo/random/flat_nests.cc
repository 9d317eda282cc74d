// Parts of random nests of loops that passes look for: two loops that are written as one, and
// arrays that change at one index by a mask.
#include <algorithm>

#include "hlo/random/maker.h"

namespace weft::hlo::random {

Instruction* NumberOf(Builder& b, const Nest& nest, int64_t value) {
  Literal literal{Shape::Scalar(nest.type)};
  literal.SetInt(0, value);
  return b.Constant(std::move(literal));
}

namespace {

// Whether the inner loop is over, by its counter: at some number that it comes to. Numbers of 8
// bits come to every one, if only by wrapping around.
Result<Instruction*> EndsByCounter(Maker& maker, Builder& b, const Nest& nest, bool any,
                                   Instruction* inner) {
  constexpr Direction kEnds[] = {Direction::kEq, Direction::kGe, Direction::kGt};
  int64_t added =
      any && maker.dice.Chance(30) ? maker.dice.Between(-128, 127) : maker.dice.Between(0, 1);
  int64_t limit = maker.dice.Between(3, 6);
  if (any && maker.dice.Chance(50)) {
    limit = maker.dice.Chance(60) ? maker.dice.Between(122, 126) : maker.dice.Between(0, 126);
  }
  Instruction* seen = added == 0 ? inner : TRY(b.Add(Op::kAdd, {inner, NumberOf(b, nest, added)}));
  return b.Compare(seen, NumberOf(b, nest, limit), maker.dice.Of(kEnds));
}

// Whether the inner loop is over, by what it finds; after some rounds in any case.
Result<Instruction*> EndsByPredicate(Maker& maker, Builder& b, const Nest& nest,
                                     Instruction* inner) {
  Instruction* most = NumberOf(b, nest, maker.dice.Between(1, 5));
  Instruction* found = TRY(NestFlag(maker, b, nest));
  Instruction* last = TRY(b.Compare(inner, most, Direction::kGe));
  return b.Add(Op::kOr, {found, last});
}

}  // namespace

// The outer counter goes on where the inner loop is over, the inner one starts anew there.
Status CountFlat(Maker& maker, Builder& b, const Nest& nest, int level, Instruction*& counter,
                 Instruction*& inner) {
  bool by_counter = maker.dice.Chance(50), goes_on = maker.dice.Chance(50);
  bool any = BitWidth(nest.type) == 8 && level == 0 && maker.dice.Chance(40);
  Instruction* ends = TRY(by_counter ? EndsByCounter(maker, b, nest, any, inner)
                                     : EndsByPredicate(maker, b, nest, inner));
  Instruction* more = TRY(b.Add(Op::kAdd, {inner, NumberOf(b, nest, 1)}));
  Instruction* anew =
      NumberOf(b, nest, any && by_counter ? maker.dice.Between(-9, 90) : maker.dice.Between(0, 2));
  Instruction* next = TRY(b.Add(Op::kAdd, {counter, NumberOf(b, nest, 1)}));
  if (goes_on && !by_counter) {
    Instruction* goes = TRY(b.Add(Op::kNot, {ends}));
    inner = TRY(b.Add(Op::kSelect, {goes, more, anew}));
    counter = TRY(b.Add(Op::kSelect, {goes, counter, next}));
  } else {
    inner = TRY(b.Add(Op::kSelect, {ends, anew, more}));
    counter = TRY(b.Add(Op::kSelect, {ends, next, counter}));
  }
  return {};
}

// where(arange(n) == place, value, array), or one more there; other masks beside it.
Result<Value> NestMaskedStore(Maker& maker, Builder& b, const Nest& nest, const Value& array) {
  const Shape& shape = array.shape();
  Shape numbers = ArrayShape(nest.type, shape.dims()),
        mask = ArrayShape(DType::kPred, shape.dims());
  Instruction* holds = nullptr;
  bool apart = maker.dice.Chance(15);
  for (int64_t d = 0; d < shape.rank(); ++d) {
    if (d > 0 && maker.dice.Chance(50)) continue;
    Instruction* place = TRY(NestPlace(maker, b, nest, shape.dim(d)));
    Instruction* iota = TRY(b.Add(Op::kIota, {}, IotaAttrs{.iota_dimension = d}, &numbers));
    Instruction* at = TRY(b.Compare(iota, TRY(b.Broadcast(place, numbers, {})),
                                    apart ? Direction::kNe : Direction::kEq));
    holds = holds == nullptr ? at : TRY(b.Add(apart ? Op::kOr : Op::kAnd, {holds, at}));
  }
  if (!apart && !nest.flags.empty() && maker.dice.Chance(30)) {
    Instruction* flag = TRY(b.Broadcast(PickOne(maker.dice, nest.flags), mask, {}));
    holds = TRY(b.Add(Op::kAnd, {holds, flag}));
  }
  std::vector<Value> alike;
  for (const Value& v : nest.arrays) {
    if (HaveSameShape(v, array)) alike.push_back(v);
  }
  if (!apart && IsInteger(array.dtype()) && maker.dice.Chance(30)) {
    Instruction* one = TRY(b.Convert(holds, array.dtype()));
    return Value{TRY(b.Add(Op::kAdd, {array.at, one})), StateFacts(maker, array)};
  }
  Value value = TRY(NestElements(maker, b, PickOne(maker.dice, alike), array));
  Instruction *on = value.at, *off = array.at;
  if (apart) std::swap(on, off);
  return Value{TRY(b.Add(Op::kSelect, {holds, on, off})), StateFacts(maker, array)};
}

}  // namespace weft::hlo::random
