// What is known of a sum because of how its terms stand to each other: of j - i where j > i, of
// i + n where i < 100 - n.
//
// Sums are those of whole numbers, without wrapping around. A fact is a sum that is not negative: a
// loop's condition where the body runs, a counter beside what it started from, the condition of a
// branch. A sum is at least what is left of it when a multiple of a fact is taken away.
#include <algorithm>
#include <limits>
#include <utility>

#include "compiler/analysis/value_range.h"
#include "hlo/computation.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Computation;
using hlo::Direction;
using hlo::Instruction;
using hlo::Op;

namespace {

constexpr size_t kMaxTerms = program::WorkBounds::kTree;   // terms of a sum, and facts
constexpr int kMaxSumDepth = program::WorkBounds::kDepth;  // sums within each other

}  // namespace

// A term is an instruction, or the element of a loop's state that is read from a parameter.
struct ValueRanges::Sum {
  using Term = std::pair<const Instruction*, int64_t>;
  struct Part {
    int64_t factor;
    const Instruction* value;
  };
  // By the order in which terms were met: it reaches no output.
  std::vector<std::pair<Term, Part>> parts;
  __int128 constant = 0;

  void Add(const Term& term, const Part& part) {
    auto it = std::find_if(parts.begin(), parts.end(),
                           [&](const auto& entry) { return entry.first == term; });
    if (it == parts.end()) {
      parts.emplace_back(term, part);
    } else if (it->second.factor += part.factor; it->second.factor == 0) {
      parts.erase(it);
    }
  }
  void Add(const Sum& other, int64_t factor) {
    constant += other.constant * factor;
    for (const auto& [term, part] : other.parts) Add(term, {part.factor * factor, part.value});
  }
  bool IsSmall() const {
    return parts.size() <= kMaxTerms &&
           std::all_of(parts.begin(), parts.end(), [](const auto& entry) {
             return std::abs(entry.second.factor) < kLargestFactor;
           });
  }
  int64_t FactorOf(const Term& term) const {
    for (const auto& [other, part] : parts) {
      if (other == term) return part.factor;
    }
    return 0;
  }
};

// `loop`: what its condition reads is what its body reads.
ValueRanges::Sum ValueRanges::SumOf(const Instruction& number, const Instruction* loop, int depth) {
  const Instruction& i = Peel(number, true);
  Sum sum;
  bool adds = i.op() == Op::kAdd || i.op() == Op::kSubtract || i.op() == Op::kMultiply;
  if (adds && depth < kMaxSumDepth && NeverWraps(i)) {
    Sum left = SumOf(*i.operand(0), loop, depth + 1), right = SumOf(*i.operand(1), loop, depth + 1);
    int64_t factor = i.op() == Op::kSubtract ? -1 : 1;
    if (i.op() == Op::kMultiply) {
      if (!right.parts.empty()) std::swap(left, right);
      bool scales = right.parts.empty() && right.constant > -kLargestFactor &&
                    right.constant < kLargestFactor;
      if (scales) sum.Add(left, static_cast<int64_t>(right.constant));
      if (scales && sum.IsSmall()) return sum;
    } else {
      sum.Add(left, 1);
      sum.Add(right, factor);
      if (sum.IsSmall()) return sum;
    }
    sum = {};
  }
  if (std::optional<ValueRange> range = Of(i); range && range->low == range->high) {
    sum.constant = range->low;
    return sum;
  }
  Sum::Term term{&i, -1};
  if (i.op() == Op::kGetTupleElement && i.operand(0)->IsParameter()) {
    const Instruction* state = i.operand(0);
    const Instruction* caller = CallerOf(*state);
    if (caller != nullptr && caller->op() == Op::kWhile) {
      const auto& attrs = caller->attrs<hlo::WhileAttrs>();
      const Instruction &init = *caller->operand(0), &root = *attrs.body->root();
      int64_t k = i.tuple_index();
      bool known = init.op() == Op::kTuple && root.op() == Op::kTuple && i.shape().IsScalar();
      if (known && depth < kMaxSumDepth && IsSameState(root, k, *attrs.body)) {
        return SumOf(*init.operand(k), loop, depth + 1);
      }
      if (caller == loop) state = attrs.body->parameter(0);
      term = {state, k};
    }
  }
  sum.Add(term, {1, &i});
  return sum;
}

bool ValueRanges::IsSameState(const Instruction& root, int64_t k, const Computation& body) const {
  const Instruction& next = Peel(*root.operand(k), true);
  return next.op() == Op::kGetTupleElement && next.operand(0)->IsParameter() &&
         next.parent() == &body && next.tuple_index() == k;
}

// Adds what a condition says that is true, or false.
void ValueRanges::AddFacts(const Instruction& condition, bool value, const Instruction* loop,
                           std::vector<Sum>& facts) {
  const Instruction& i = Peel(condition, true);
  if (i.shape().elements() != 1 || facts.size() > kMaxTerms) return;
  if (i.op() == (value ? Op::kAnd : Op::kOr)) {
    AddFacts(*i.operand(0), value, loop, facts);
    AddFacts(*i.operand(1), value, loop, facts);
    return;
  }
  if (i.op() != Op::kCompare || !Of(*i.operand(0))) return;
  Direction direction = i.attrs<hlo::CompareAttrs>().direction;
  if (!value) direction = hlo::Negated(direction);
  if (direction == Direction::kEq || direction == Direction::kNe) return;
  bool less = direction == Direction::kLt || direction == Direction::kLe;
  bool strict = direction == Direction::kLt || direction == Direction::kGt;
  Sum fact = SumOf(*i.operand(less ? 1 : 0), loop, 0);
  fact.Add(SumOf(*i.operand(less ? 0 : 1), loop, 0), -1);
  fact.constant -= strict ? 1 : 0;
  if (fact.parts.size() > 1 && fact.IsSmall()) facts.push_back(std::move(fact));
}

// Of the loops whose state is in the sum.
std::vector<ValueRanges::Sum> ValueRanges::FactsAbout(const Sum& sum) {
  std::vector<Sum> facts;
  // A copy: a select that is met on the way has its own condition hold for a while.
  const auto conditions = conditions_;
  for (const auto& [condition, value] : conditions) AddFacts(*condition, value, nullptr, facts);
  for (const auto& [term, part] : sum.parts) {
    const Instruction* caller = term.second >= 0 ? CallerOf(*term.first) : nullptr;
    if (caller == nullptr) continue;
    const auto& attrs = caller->attrs<hlo::WhileAttrs>();
    if (attrs.body->parameter(0) != term.first) continue;
    AddFacts(*attrs.condition->root(), true, caller, facts);
    const Instruction &init = *caller->operand(0), &root = *attrs.body->root();
    if (init.op() != Op::kTuple || root.op() != Op::kTuple) continue;
    // What only grows is never less than at first.
    const Instruction& next = Peel(*root.operand(term.second), true);
    bool grows =
        next.op() == Op::kAdd && StateElement(*next.operand(0), *attrs.body) == term.second;
    if (!grows || !NeverWraps(next) || Of(*next.operand(1))->low < 0) continue;
    Sum fact = SumOf(*init.operand(term.second), nullptr, 0);
    Sum grown;
    grown.Add(term, {1, part.value});
    grown.Add(fact, -1);
    if (grown.parts.size() > 1 && grown.IsSmall()) facts.push_back(std::move(grown));
  }
  return facts;
}

std::optional<__int128> ValueRanges::LeastOf(const Sum& sum) {
  __int128 least = sum.constant;
  for (const auto& [term, part] : sum.parts) {
    std::optional<ValueRange> range = Of(*part.value);
    if (!range) return std::nullopt;
    least += __int128{part.factor} * (part.factor > 0 ? range->low : range->high);
  }
  return least;
}

ValueRange ValueRanges::ByRelations(const Instruction& i, ValueRange range) {
  if (i.shape().elements() != 1 || in_relations_) return range;
  in_relations_ = true;  // what is asked on the way is answered without
  Cache outside = std::exchange(local_, {});
  Sum sum = SumOf(i, nullptr, 0);
  if (sum.parts.size() > 1) {
    Sum negative;
    negative.Add(sum, -1);
    for (const Sum& fact : FactsAbout(sum)) {
      for (bool low : {true, false}) {
        const Sum& whole = low ? sum : negative;
        std::optional<__int128> least;
        for (const auto& [term, part] : fact.parts) {
          int64_t factor = whole.FactorOf(term) / part.factor;
          if (factor <= 0 || whole.FactorOf(term) % part.factor != 0) continue;
          Sum rest = whole;
          rest.Add(fact, -factor);
          std::optional<__int128> bound = rest.IsSmall() ? LeastOf(rest) : std::nullopt;
          if (bound && (!least || *bound > *least)) least = bound;
        }
        if (!least || *least < std::numeric_limits<int64_t>::min() / 2) continue;
        if (low && *least > range.low && *least <= range.high) {
          range.low = static_cast<int64_t>(*least);
        }
        if (!low && -*least < range.high && -*least >= range.low) {
          range.high = static_cast<int64_t>(-*least);
        }
      }
    }
  }
  in_relations_ = false;
  local_ = std::move(outside);
  return range;
}

void ValueRanges::BeginAssumption(const Instruction& condition, bool value) {
  assumptions_.emplace_back(refined_.size(), conditions_.size());
  Assume(condition, value);
  conditions_.emplace_back(&condition, value);
  local_.clear();
}

void ValueRanges::EndAssumption() {
  refined_.resize(assumptions_.back().first);
  conditions_.resize(assumptions_.back().second);
  assumptions_.pop_back();
  local_.clear();
}

}  // namespace weft::compiler
