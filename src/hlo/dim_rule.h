// Which dimensions of an op's operands and results go together: what propagation of shardings and
// the partitioner work from. A dimension is a list of factors, major to minor; a factor that occurs
// in several tensors is cut alike in all of them.
//
//   dot f32[8,4], f32[4,6]:  ([i, k], [k, j]) -> ([i, j])  i=8 j=6 k=4 reduced
//   reshape f32[8] to [2,4]: ([i j]) -> ([i, j])           i=2 j=4
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/inline_vec.h"
#include "hlo/fwd.h"

namespace weft::hlo {

enum class FactorKind : uint8_t {
  kParallel,  // a part of the operands gives the same part of the results
  kReduced,   // in no result: parts of the operands give summands (of the op's reduction)
  kPermuted,  // lies alike in operands and results, but elements move along it
  kWhole,     // the op needs all of it
};

struct Factor {
  int64_t size = 1;
  FactorKind kind = FactorKind::kParallel;
  bool operator==(const Factor&) const = default;
};

struct DimRule {
  using Dim = InlineVec<int, 2>;    // factors, major to minor; empty: of size 1, or of no account
  using Tensor = std::vector<Dim>;  // by dimension
  std::vector<Factor> factors;
  std::vector<Tensor> operands;  // by operand; tokens and tuples have no dimensions
  std::vector<Tensor> results;   // by leaf of the result, depth first

  bool operator==(const DimRule&) const = default;
  std::string ToString() const;  // "([i, k], [k, j]) -> ([i, j]) i=8 j=6 k=4:reduced"
};

// The frontend attribute of a custom call that says its rule, as ToString writes it.
inline constexpr std::string_view kShardingRule = "sharding.rule";
// The way back from ToString. Nothing is known of shapes here.
Result<DimRule> ParseDimRule(std::string_view text);

// The rule of an instruction: that of its row, or the elementwise one by trait. An op without one
// (OpRow::no_dim_rule says why) has every dimension as a factor of its own that is needed whole.
DimRule RuleOf(const Instruction& instruction);
// Whether the op, as a function of this operand alone (or together with the others that it is
// linear in), gives the sum of what it gives for summands. Rounding is not looked at.
bool IsLinearIn(const Instruction& instruction, int64_t operand);
// Whether the op has a rule.
bool HasRule(const Instruction& instruction);

}  // namespace weft::hlo
