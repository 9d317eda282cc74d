// The values of a program that have shardings, and which of them lie alike: what propagation works
// on.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "compiler/spmd/form.h"
#include "hlo/dim_rule.h"
#include "hlo/module.h"

namespace weft::compiler::spmd {

// One leaf of what an instruction makes. Loop state is one value: of the loop, of its body and of
// its condition.
struct ShardedValue {
  const hlo::Instruction* instruction = nullptr;
  const Shape* shape = nullptr;
  Form form;
  AxisSet banned = 0;   // axes that may not cut it: a user is manual along them
  bool stated = false;  // by the program
  bool even = false;    // propagation cuts it into equal parts, by whole axes: callers see it
};

// Numbers of values, such as the leaves of what an instruction makes.
using ValueIds = InlineVec<int, 4>;

// Values whose dimensions go together: an op with its rule, or two that lie alike.
struct Constraint {
  const hlo::Instruction* at = nullptr;
  hlo::DimRule rule;
  ValueIds values;  // by tensor of the rule, operands first; -1: none
  int64_t operands = 0;
  bool passes = false;  // every dimension goes through: links, elementwise ops, transposes
  // From operands to results, and from results to operands: what a barrier allows.
  bool forward = true, backward = true;
  const hlo::DimRule::Tensor& tensor(size_t k) const {
    const size_t n = rule.operands.size();
    return k < n ? rule.operands[k] : rule.results[k - n];
  }
};

// Names that custom calls of annotations have.
inline constexpr std::string_view kSharding = "Sharding", kFullToShard = "SPMDFullToShardShape",
                                  kShardToFull = "SPMDShardToFullShape";
bool IsCallOf(const hlo::Instruction& i, std::string_view target);
// The axes along which what a FullToShard gives, or a ShardToFull takes, is of one device.
Result<AxisSet> ManualAxes(const hlo::Instruction& boundary, const DeviceMesh& mesh);

class ValueTable {
 public:
  // Every executed computation has one caller (separate-computations).
  static Result<ValueTable> Of(const hlo::Module& module, const DeviceMesh& mesh);

  std::vector<ShardedValue>& values() { return values_; }
  std::vector<Constraint>& constraints() { return constraints_; }
  std::span<const int> ValuesOf(const hlo::Instruction* i) const;
  // The rule of an op; null: it has none of its own (structure, boundaries).
  const hlo::DimRule* FindRule(const hlo::Instruction* i) const {
    auto it = rules_.find(i);
    return it != rules_.end() ? &constraints_[it->second].rule : nullptr;
  }
  // The axes along which a computation is of one device; none where it was not visited.
  AxisSet ManualOf(const hlo::Computation* computation) const;
  // Executed computations, callers first.
  const std::vector<const hlo::Computation*>& computations() const { return computations_; }

 private:
  explicit ValueTable(const DeviceMesh& mesh) : mesh_(mesh) {}
  void Reserve(size_t count) {
    values_.reserve(count);
    constraints_.reserve(count);
    of_.reserve(count);
    rules_.reserve(count);
  }
  // `manual`: the axes along which the computation is of one device.
  Status Visit(const hlo::Computation& computation, std::span<const ValueIds> parameters,
               AxisSet manual);
  Status VisitInstruction(const hlo::Instruction& i);
  Status AddValues(const hlo::Instruction& i);
  Status ReadStated(const hlo::Instruction& i);
  Status VisitCalls(const hlo::Instruction& i);
  Status VisitBoundary(const hlo::Instruction& i);
  void Link(const hlo::Instruction& at, std::span<const int> from, std::span<const int> to);
  void AddRule(const hlo::Instruction& i);
  void JoinGroups();
  void FlowManual();
  void FlowUnreduced();
  void LinkBoundary(const hlo::Instruction& i, int whole, int local, AxisSet manual);

  const DeviceMesh& mesh_;
  const hlo::Computation* entry_ = nullptr;
  AxisSet manual_ = 0;  // of the computation that is visited
  std::vector<ShardedValue> values_;
  std::vector<Constraint> constraints_;
  std::unordered_map<const hlo::Instruction*, ValueIds> of_;   // looked up only
  std::unordered_map<const hlo::Instruction*, size_t> rules_;  // constraints; looked up only
  std::vector<const hlo::Computation*> computations_;
  std::unordered_map<const hlo::Computation*, AxisSet> manual_of_;  // looked up only
  std::vector<std::pair<int64_t, int>> groups_;                     // group, value
  FormReader reader_{mesh_};
};

}  // namespace weft::compiler::spmd
