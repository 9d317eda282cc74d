// What a nest of loops and branches works on, as a loop's state or a branch's operands.
#include "hlo/random/maker.h"

namespace weft::hlo::random {

// What is handed to a loop or a branch: some of it, some of it twice, and what nobody may read.
Nest PartOfNest(Maker& maker, const Nest& nest, bool twice) {
  Nest part;
  part.type = nest.type;
  auto some = [&](const auto& all, auto& chosen, int percent) {
    for (const auto& one : all) {
      if (maker.dice.Chance(percent)) chosen.push_back(one);
      if (twice && !chosen.empty() && maker.dice.Chance(8)) chosen.push_back(chosen.back());
    }
  };
  std::vector<Instruction*> numbers = nest.numbers;
  if (numbers.size() > 5) numbers.erase(numbers.begin() + 1, numbers.end() - 4);
  some(numbers, part.numbers, 70);
  if (part.numbers.empty()) part.numbers.push_back(nest.numbers.back());
  some(nest.flags, part.flags, 40);
  some(nest.arrays, part.arrays, 85);
  return part;
}

std::vector<Instruction*> LeavesOf(const Nest& nest) {
  std::vector<Instruction*> leaves = nest.numbers;
  leaves.insert(leaves.end(), nest.flags.begin(), nest.flags.end());
  for (const Value& v : nest.arrays) leaves.push_back(v.at);
  return leaves;
}

// The same parts as elements of a tuple, from `first` on.
Result<Nest> NestIn(Maker& maker, Builder& b, Instruction* tuple, const Nest& like, int64_t first) {
  Nest nest;
  nest.type = like.type;
  for (size_t k = 0; k < like.numbers.size(); ++k) {
    nest.numbers.push_back(TRY(b.GetTupleElement(tuple, first++)));
  }
  for (size_t k = 0; k < like.flags.size(); ++k) {
    nest.flags.push_back(TRY(b.GetTupleElement(tuple, first++)));
  }
  for (const Value& v : like.arrays) {
    nest.arrays.push_back({TRY(b.GetTupleElement(tuple, first++)), StateFacts(maker, v)});
  }
  return nest;
}

// The state of the next round: as it was, updated, or another one's.
Nest NextNest(Maker& maker, const Nest& state, const Nest& after) {
  Nest next = state;
  for (Instruction*& number : next.numbers) {
    if (!maker.dice.Chance(35)) number = PickOne(maker.dice, after.numbers);
  }
  for (Instruction*& flag : next.flags) {
    if (!maker.dice.Chance(35)) flag = PickOne(maker.dice, after.flags);
  }
  for (size_t k = 0; k < next.arrays.size(); ++k) {
    int64_t choice = maker.dice.Below(100);
    if (choice < 15) continue;
    next.arrays[k] = after.arrays[k];
    for (const Value& v : after.arrays) {
      if (choice >= 90 && HaveSameShape(v, next.arrays[k])) next.arrays[k] = v;
    }
  }
  return next;
}

// What is left of a loop or a conditional: arrays take the place of those given, or do not.
void TakeResults(Maker& maker, Nest& nest, const Nest& given, const Nest& results) {
  for (Instruction* number : results.numbers) {
    if (maker.dice.Chance(60)) nest.numbers.push_back(number);
  }
  for (Instruction* flag : results.flags) {
    if (maker.dice.Chance(60)) nest.flags.push_back(flag);
  }
  for (size_t k = 0; k < given.arrays.size(); ++k) {
    auto it = std::find_if(nest.arrays.begin(), nest.arrays.end(),
                           [&](const Value& v) { return v.at == given.arrays[k].at; });
    if (it != nest.arrays.end() && maker.dice.Chance(80)) *it = results.arrays[k];
  }
}

}  // namespace weft::hlo::random
