// Value-range analysis: between which numbers the elements of integer arrays lie, as far as that
// can be read off: loop counters above all, so that indices known to be in range are used as they
// are.
//
// The state of a loop is followed to a range that no iteration leaves, with what the loop's
// condition says of the iterations that run. Arithmetic that may wrap around gives the whole type.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hlo/module.h"

namespace weft::compiler {

// Factors of terms, and growth in one round of a loop: products of three stay far from 64 bits.
inline constexpr int64_t kLargestFactor = int64_t{1} << 20;

struct ValueRange {
  int64_t low, high;
  bool operator==(const ValueRange&) const = default;
};

class ValueRanges {
 public:
  // The module must stay as it is.
  explicit ValueRanges(const hlo::Module& module);

  // nullopt: no integer or pred, or of 64 bits without a sign.
  std::optional<ValueRange> Of(const hlo::Instruction& i);
  // Of a comparison of integers, or and, or, not of such, that always comes out the same.
  std::optional<bool> Outcome(const hlo::Instruction& compare, int depth = 0);
  // A sum, difference or product of integers that its type holds as it is.
  bool NeverWraps(const hlo::Instruction& i);
  // What is asked in between is asked where the condition is true, or false.
  void BeginAssumption(const hlo::Instruction& condition, bool value);
  void EndAssumption();

 private:
  struct StateRange {
    ValueRange condition, body;  // what the two computations see
  };
  using StateKey = std::pair<const hlo::Instruction*, int64_t>;

  using Cache = std::unordered_map<const hlo::Instruction*, ValueRange>;

  const hlo::Instruction& Peel(const hlo::Instruction& i, bool one = false) const;
  const hlo::Instruction* CallerOf(const hlo::Instruction& parameter) const;
  const hlo::Instruction* BranchOperand(const hlo::Instruction& parameter) const;
  int64_t StateElement(const hlo::Instruction& i, const hlo::Computation& c) const;
  ValueRange Compute(const hlo::Instruction& i, ValueRange full);
  ValueRange OfBinary(const hlo::Instruction& i, ValueRange full);
  ValueRange OfSelect(const hlo::Instruction& select);
  ValueRange OfScatter(const hlo::Instruction& scatter, ValueRange full);
  ValueRange OfBranches(const hlo::Instruction& conditional, int64_t k, ValueRange full);
  // What is known of numbers where a condition is true, or false.
  void Assume(const hlo::Instruction& condition, bool value);
  void AssumeWithin(const hlo::Instruction& number, ValueRange range);
  ValueRange OfLoopValue(const hlo::Instruction& get, ValueRange full);
  StateRange OfState(const hlo::Instruction& loop, int64_t k, ValueRange full);
  StateRange FindState(const hlo::Instruction& loop, int64_t k, ValueRange full);
  std::vector<int64_t> Thresholds(const hlo::Instruction& loop) const;
  ValueRange AfterLoop(const hlo::Instruction& loop, int64_t k, ValueRange full);
  ValueRange Limit(const hlo::Instruction& condition, bool value, const hlo::Computation& c,
                   int64_t k, ValueRange full);

  // value_range_relations.cc
  struct Sum;
  Sum SumOf(const hlo::Instruction& number, const hlo::Instruction* loop, int depth);
  bool IsSameState(const hlo::Instruction& root, int64_t k, const hlo::Computation& body) const;
  void AddFacts(const hlo::Instruction& condition, bool value, const hlo::Instruction* loop,
                std::vector<Sum>& facts);
  std::vector<Sum> FactsAbout(const Sum& sum);
  std::optional<__int128> LeastOf(const Sum& sum);
  ValueRange ByRelations(const hlo::Instruction& i, ValueRange range);

  // value_range_induction.cc
  struct Group;
  struct Limits {
    int64_t before, after;
  };
  std::optional<int64_t> GrowthOf(const hlo::Instruction& instruction, Group& group);
  std::optional<int64_t> FindGrowth(const hlo::Instruction& i, Group& group);
  std::optional<int64_t> GrowthOfState(const hlo::Instruction& get, Group& group);
  std::optional<Limits> LimitsByGrowth(const hlo::Instruction& loop, int64_t k);

  std::unordered_map<const hlo::Computation*, const hlo::Instruction*> callers_;  // null: several
  Cache known_;
  Cache local_;                            // what was found under the present assumptions
  std::map<StateKey, StateRange> states_;  // asked by key only
  std::map<StateKey, StateRange> open_;    // what is assumed of states in question
  // What is assumed of single numbers in a branch of a select.
  std::vector<std::pair<const hlo::Instruction*, ValueRange>> refined_;
  std::vector<std::pair<const hlo::Instruction*, bool>> conditions_;  // that hold there, or not
  std::vector<std::pair<size_t, size_t>> assumptions_;  // begun: what there was before
  bool in_relations_ = false, in_growth_ = false;
  int64_t budget_ = 0;
  int depth_ = 0;
};

}  // namespace weft::compiler
