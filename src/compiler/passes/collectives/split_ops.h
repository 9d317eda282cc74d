// Which ops are done for each part of a dimension by itself: from the factors of their rules
// (dim_rule.h), as shardings follow. A mesh of a few parts, all of them on this device.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "hlo/module.h"

namespace weft::compiler {

// How an op is done by parts: which dimension of each operand and of the result is cut.
struct OpSplit {
  std::vector<int64_t> operands;  // -1: whole
  int64_t result = -1;            // -1: parts are summands
};

class SplitOps {
 public:
  // That of the collectives between products with the most bytes, less what is cut and put together
  // for it; none: it is not worth it.
  static std::optional<SplitOps> Find(const hlo::Computation& computation, int64_t parts);

  int64_t parts() const { return parts_; }

  // Null: it is done as a whole.
  const OpSplit* Of(const hlo::Instruction* i) const {
    const auto it = ops_.find(i);
    return it != ops_.end() ? &it->second : nullptr;
  }
  // Where a value is cut; -1: nowhere.
  int64_t DimOf(const hlo::Instruction* value) const {
    const auto it = dims_.find(value);
    return it != dims_.end() ? it->second : -1;
  }

 private:
  explicit SplitOps(int64_t parts) : parts_(parts) {}
  void Run(const hlo::Instruction* seed, int64_t dim);
  int64_t Score(const std::vector<const hlo::Instruction*>& between) const;
  bool IsSource(const hlo::Instruction& i) const;
  bool IsCopied(const hlo::Instruction& i, int64_t dim) const;
  void Set(const hlo::Instruction* value, int64_t dim);
  void Adopt(const hlo::Instruction& i, int64_t operand, int64_t dim);
  void ThroughBarriers(const hlo::Instruction& value, int64_t dim);

  int64_t parts_;
  std::unordered_map<const hlo::Instruction*, int64_t> dims_;  // of values
  std::unordered_map<const hlo::Instruction*, OpSplit> ops_;
  std::vector<const hlo::Instruction*> work_;
};

// The tuple that a get-tuple-element reads through a barrier; null: another one.
const hlo::Instruction* BarredTuple(const hlo::Instruction& element);
// The barrier that alone reads a tuple, itself read by elements alone; null: there is none.
const hlo::Instruction* BarrierOf(const hlo::Instruction& tuple);

}  // namespace weft::compiler
