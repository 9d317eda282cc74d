// A computation prepared for evaluation: the instructions that matter in list order, each with the
// slots of its operands and what dies there.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/literal.h"
#include "hlo/computation.h"
#include "hlo/evaluate/lanes.h"
#include "hlo/evaluate/scalar_function.h"
#include "hlo/op.h"

namespace weft::hlo {

struct EvalUse {
  int32_t slot = 0;
  bool last = false;      // nothing reads the slot afterwards
  bool by_lanes = false;  // the slot is filled by a kLanes or kChain step
};

struct EvalStep {
  enum class Kind : uint8_t { kRow, kConstant, kElement, kTuple, kLanes, kChain };
  const Instruction* instruction = nullptr;
  Result<Literal> (*evaluate)(EvalContext&, const Instruction&, std::span<Literal>) = nullptr;
  Kind kind = Kind::kRow;
  bool unused = false;        // nothing reads the result
  bool take_element = false;  // kElement: nothing reads this element of the tuple afterwards
  bool keep_tuple = false;    // kElement: the tuple, emptied, becomes the result
  bool too_large = false;     // the result exceeds the limit
  int32_t slot = 0;
  int32_t lanes = 0;        // kLanes: in EvalPlan::lanes; kChain: in EvalPlan::chains
  int32_t tuple_slot = -1;  // kTuple: of the parameter whose tuple, emptied, becomes the result
  int32_t first_use = 0, use_count = 0;  // in EvalPlan::uses
};

// An elementwise op on arrays of sizes known beforehand.
struct EvalLanes {
  LaneOp op;
  int64_t size = 0, bytes = 0;  // of the result
  int32_t count = 0;            // of operands
  bool broadcast[3] = {};
  bool fits[3] = {};  // the operand's memory can hold the result
};

// Elementwise ops on arrays of one size that are computed together, a block of elements at a time.
// The step's uses are the chain's inputs.
struct EvalChain {
  ScalarFunction function;
  std::vector<EvalStep> members;
  std::vector<bool> broadcast;   // inputs that are scalars
  std::vector<int32_t> outputs;  // members whose results are read elsewhere
  int64_t size = 0;              // elements
};

// A value of a running computation. Borrowed values belong to the caller or to a constant. The
// value of a dead slot may be an array without its storage, or a small result of such a step that
// nobody reads: the next run then need not make them again.
struct EvalSlot {
  Literal value;
  const Literal* borrowed = nullptr;
  const Literal& get() const { return borrowed != nullptr ? *borrowed : value; }
  void Clear() {
    if (value.IsValid()) value = Literal();
    borrowed = nullptr;
  }
};

struct EvalFrame {
  std::vector<EvalSlot> slots;
  std::vector<Literal> operands;
  std::vector<std::unique_ptr<ScalarFunction::Frame>> chains;  // of small ones; made when needed
};

struct EvalPlan {
  const Computation* computation = nullptr;
  Status status;  // why the computation cannot be evaluated
  std::vector<int32_t> parameter_slots;
  std::vector<EvalStep> steps;
  std::vector<EvalUse> uses;
  std::vector<EvalLanes> lanes;
  std::vector<EvalChain> chains;
  std::optional<ScalarFunction> scalars;  // the computation as a function of scalars, if it is one
  std::vector<std::pair<int32_t, const Literal*>> constants;  // by slot; they need no steps
  std::vector<std::unique_ptr<const Literal>> empty;          // arrays without elements among them
  int32_t slot_count = 0, max_uses = 0, root_slot = 0;
  int32_t number = 0;  // among the plans of one evaluation
};

// Which computations do something besides returning a value, as far as was asked.
using EffectsCache = std::unordered_map<const Computation*, bool>;

// Evaluated for its effect, though nothing reads the result; looks into called computations.
bool HasEffects(const Instruction& instruction, EffectsCache& cache);

// Whether all arrays of a shape have known sizes that come to at most `limit` bytes.
bool FitsIn(const Shape& shape, int64_t limit);

EvalPlan MakeEvalPlan(const Computation& computation, int64_t max_tensor_bytes,
                      EffectsCache& cache);

// Joins elementwise steps of a plan to chains.
void JoinChains(EvalPlan& plan);

// Plans by computation, numbered from `first_number` on in the order in which they were added.
class EvalPlans {
 public:
  explicit EvalPlans(int32_t first_number = 0) : next_number_(first_number) {}
  const EvalPlan* Find(const Computation& computation) const {  // null when there is none
    auto it = plans_.find(&computation);
    return it == plans_.end() ? nullptr : it->second.get();
  }
  const EvalPlan& Add(const Computation& computation, int64_t max_tensor_bytes);
  int32_t next_number() const { return next_number_; }

 private:
  int32_t next_number_;
  std::unordered_map<const Computation*, std::unique_ptr<EvalPlan>> plans_;
  EffectsCache effects_;
};

// Frames that no call uses at the moment, by plan number. Belongs to one evaluation at a time.
struct EvalFrames {
  std::vector<std::vector<std::unique_ptr<EvalFrame>>> free;
  std::unique_ptr<EvalFrame> Take(const EvalPlan& plan);
  void Give(const EvalPlan& plan, std::unique_ptr<EvalFrame> frame) {
    free[static_cast<size_t>(plan.number)].push_back(std::move(frame));
  }
};

}  // namespace weft::hlo
