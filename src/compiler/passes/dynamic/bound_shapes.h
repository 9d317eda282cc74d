// What bound-dynamic-shapes knows of a value, and its rules by op.
//
// An array with run-time sizes lies in memory as its bound. Beside it go its sizes, s32[] scalars
// of the same computation; elements beyond them are filler, whose value means nothing.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "hlo/builder.h"
#include "hlo/instruction.h"

namespace weft::compiler {

// By dimension of one array; null: the bound.
using Sizes = std::vector<hlo::Instruction*>;

// Sizes of the leaves of values, in the order of the leaves.
class KnownSizes {
 public:
  // Leaves that nothing was noted of have their bounds.
  std::vector<Sizes> Of(const hlo::Instruction& value) const;
  Sizes OfArray(const hlo::Instruction& value) const { return Of(value)[0]; }
  bool Has(const hlo::Instruction& value) const { return known_.contains(&value); }
  void Note(const hlo::Instruction& value, std::vector<Sizes> leaves);

 private:
  std::unordered_map<const hlo::Instruction*, std::vector<Sizes>> known_;  // never iterated
};

bool IsSized(const Sizes& sizes);  // a size is known
bool AnyIsSized(std::span<const Sizes> leaves);
std::vector<Shape> LeavesOf(const Shape& shape);

// The size as a value: the bound as a constant where there is none.
hlo::Instruction* SizeValue(hlo::Builder& b, const Sizes& sizes, const Shape& shape, int64_t dim);
// `fill`, a scalar or an array of the same shape, in the place of filler.
Result<hlo::Instruction*> FillBeyond(hlo::Builder& b, hlo::Instruction* value, const Sizes& sizes,
                                     hlo::Instruction* fill);

// Rewrites one op that calls nothing that is executed. The value is what its users read afterwards:
// the op itself or what stands in its place.
struct BoundValue {
  hlo::Instruction* value = nullptr;
  std::vector<Sizes> leaves;
};
Result<BoundValue> BoundOp(hlo::Instruction* i, const KnownSizes& known);
// set-dimension-size and its kin, and the custom calls that mean the same.
Result<BoundValue> BoundSizeOp(hlo::Instruction* i, const KnownSizes& known);
bool IsSizeOp(const hlo::Instruction& i);
// reduce, reduce-window, sort, dot, convolution: filler must not count.
Result<BoundValue> BoundFold(hlo::Instruction* i, const KnownSizes& known);
bool IsFold(hlo::Op op);
// Collectives of devices that have the same sizes.
Result<BoundValue> BoundCollective(hlo::Instruction* i, const KnownSizes& known);

}  // namespace weft::compiler
