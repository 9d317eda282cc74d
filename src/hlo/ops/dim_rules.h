// The dimension rules that op rows name (hlo/dim_rule.h), by family.
#pragma once

#include "hlo/dim_rule.h"
#include "hlo/instruction.h"

namespace weft::hlo {

// Builds a rule: operands and results begin without factors.
class RuleMaker {
 public:
  explicit RuleMaker(const Instruction& instruction);
  int Add(int64_t size, FactorKind kind = FactorKind::kParallel);
  void Operand(int64_t operand, int64_t dim, int factor);
  void Result(int64_t leaf, int64_t dim, int factor);
  // One factor for dimension `dim` of all operands from `first` up to `end` and of all results.
  void Along(int64_t dim, FactorKind kind, int64_t first, int64_t end);
  // Dimensions without a factor get one of their own that is needed whole; factors of size 1 go.
  DimRule Take();

  const Instruction& instruction() const { return i_; }
  int64_t leaves() const { return static_cast<int64_t>(shapes_.size()); }
  const Shape& leaf(int64_t k) const { return *shapes_[static_cast<size_t>(k)]; }

 private:
  const Instruction& i_;
  std::vector<const Shape*> shapes_;  // of the result's leaves
  DimRule rule_;
};

// Operands of the result's rank and the results have the same dimensions.
DimRule RuleElementwise(const Instruction& i);
// The result's dimensions depend on nothing: iota, constant.
DimRule RuleSource(const Instruction& i);
DimRule RuleBitcastConvert(const Instruction& i);
DimRule RuleBroadcast(const Instruction& i);
DimRule RuleReshape(const Instruction& i);
DimRule RuleTranspose(const Instruction& i);
DimRule RuleReverse(const Instruction& i);
DimRule RuleConcatenate(const Instruction& i);
DimRule RulePad(const Instruction& i);
DimRule RuleSlice(const Instruction& i);
DimRule RuleDynamicSlice(const Instruction& i);
DimRule RuleDynamicUpdateSlice(const Instruction& i);
DimRule RuleGather(const Instruction& i);
DimRule RuleScatter(const Instruction& i);
DimRule RuleDot(const Instruction& i);
DimRule RuleScaledDot(const Instruction& i);
DimRule RuleConvolution(const Instruction& i);
DimRule RuleReduce(const Instruction& i);
// Windows of one element go along dimensions in parallel.
DimRule RuleReduceWindow(const Instruction& i);
DimRule RuleSelectAndScatter(const Instruction& i);
DimRule RuleSort(const Instruction& i);
DimRule RuleTopK(const Instruction& i);
DimRule RuleFft(const Instruction& i);
DimRule RuleCholesky(const Instruction& i);
DimRule RuleTriangularSolve(const Instruction& i);
DimRule RuleBatchNorm(const Instruction& i);
// By the call's sharding rule (kShardingRule), by its number of batch dimensions, or by what its
// target is known to do; else every dimension is needed whole.
DimRule RuleCustomCall(const Instruction& i);
// Collectives that move or combine parts along `dimensions`.
DimRule RuleCollectiveDims(const Instruction& i);

}  // namespace weft::hlo
