#include "hlo/evaluate/plan.h"

#include <algorithm>
#include <unordered_set>

#include "hlo/evaluate/steps.h"
#include "hlo/module.h"
#include "hlo/ops/elementwise.h"

namespace weft::hlo {
namespace {

bool AddBytes(const Shape& shape, int64_t limit, int64_t& total) {
  if (shape.IsArray()) {
    std::optional<int64_t> n = shape.CheckedElements();
    int64_t bytes = 0;
    if (!n || __builtin_mul_overflow(*n, ByteWidth(shape.dtype()), &bytes)) return false;
    if (bytes > limit - total) return false;
    total += bytes;
  }
  for (const Shape& element : shape.elements_of_tuple()) {
    if (!AddBytes(element, limit, total)) return false;
  }
  return true;
}

constexpr int kMaxEffectDepth = 1000;  // what is nested deeper counts as an effect

bool EffectsOf(const Computation& computation, EffectsCache& cache, int depth);

bool EffectsOf(const Instruction& instruction, EffectsCache& cache, int depth) {
  if (HasSideEffect(instruction.op())) return true;
  if (instruction.op() == Op::kCustomCall &&
      instruction.attrs<CustomCallAttrs>().custom_call_has_side_effect) {
    return true;
  }
  if (!HasTrait(instruction.op(), kCalls)) return false;
  for (const Computation* called : instruction.called_computations()) {
    if (EffectsOf(*called, cache, depth + 1)) return true;
  }
  return false;
}

bool EffectsOf(const Computation& computation, EffectsCache& cache, int depth) {
  if (depth > kMaxEffectDepth) return true;
  auto [it, added] = cache.emplace(&computation, false);
  if (!added) return it->second;
  for (const Instruction* instruction : computation) {
    if (EffectsOf(*instruction, cache, depth)) return cache[&computation] = true;
  }
  return false;
}

// An array without elements is known beforehand: nothing it is made from need be evaluated.
bool IsKnownEmpty(const Instruction& instruction, EffectsCache& cache) {
  const Shape& shape = instruction.shape();
  return shape.IsArray() && shape.IsStatic() && shape.CheckedElements() == 0 &&
         !instruction.IsParameter() && !instruction.IsConstant() &&
         !EffectsOf(instruction, cache, 0);
}

// The instructions to evaluate: what the root and the effects read.
std::unordered_set<const Instruction*> LiveInstructions(const Computation& computation,
                                                        EffectsCache& cache) {
  std::unordered_set<const Instruction*> live;
  std::vector<const Instruction*> work;
  auto add = [&](const Instruction* instruction) {
    if (live.insert(instruction).second) work.push_back(instruction);
  };
  add(computation.root());
  for (const Instruction* instruction : computation) {
    if (HasEffects(*instruction, cache)) add(instruction);
  }
  while (!work.empty()) {
    const Instruction* instruction = work.back();
    work.pop_back();
    if (IsKnownEmpty(*instruction, cache)) continue;
    for (const Instruction* operand : instruction->operands()) add(operand);
  }
  return live;
}

// What an elementwise op reads for an operand: the scalar that a broadcast repeats.
const Instruction* LaneSource(const Instruction* operand) {
  if (operand->op() != Op::kBroadcast || operand->operand_count() != 1) return operand;
  const Instruction* from = operand->operand(0);
  bool same = from->shape().IsArray() && from->shape().IsScalar() &&
              from->shape().dtype() == operand->shape().dtype() && operand->shape().IsStatic();
  return same ? from : operand;
}

// What an elementwise op on static arrays of one size, or scalars, needs; false: not one.
bool PlanLanes(const Instruction& instruction, EvalLanes& lanes) {
  const Shape& shape = instruction.shape();
  if (!instruction.def().evaluate || instruction.def().evaluate != EvaluateElementwise)
    return false;
  int64_t count = instruction.operand_count();
  if (!shape.IsArray() || !shape.IsStatic() || count < 1 || count > 3) return false;
  DType types[3];
  for (int64_t i = 0; i < count; ++i) {
    const Shape& operand = instruction.operand(i)->shape();
    if (!operand.IsArray() || !operand.IsStatic()) return false;
    if (!operand.IsScalar() && !Shape::SameDims(operand, shape)) return false;
    types[i] = operand.dtype();
    bool scalar = LaneSource(instruction.operand(i))->shape().IsScalar();
    lanes.broadcast[i] = scalar && !shape.IsScalar();
    lanes.fits[i] = !lanes.broadcast[i] && ByteWidth(types[i]) == ByteWidth(shape.dtype());
  }
  Result<LaneOp> op = FindLaneOp(instruction.op(), instruction.attrs(),
                                 std::span(types, static_cast<size_t>(count)), shape.dtype());
  if (!op) return false;
  lanes.op = *op;
  lanes.size = shape.elements();
  lanes.bytes = lanes.size * ByteWidth(shape.dtype());
  lanes.count = static_cast<int32_t>(count);
  return true;
}

EvalStep::Kind KindOf(const Instruction& instruction) {
  switch (instruction.op()) {
    case Op::kConstant: return EvalStep::Kind::kConstant;
    case Op::kGetTupleElement: return EvalStep::Kind::kElement;
    case Op::kTuple: return EvalStep::Kind::kTuple;
    default: return EvalStep::Kind::kRow;
  }
}

// A root that is a tuple like the one parameter, as in the bodies of loops, is built in the
// parameter's tuple, whose elements have been taken by then.
void ReuseParameterTuple(const std::vector<bool>& read_whole, EvalPlan& plan) {
  if (plan.parameter_slots.size() != 1 || plan.steps.empty()) return;
  int32_t slot = plan.parameter_slots[0];
  EvalStep& root = plan.steps.back();
  const Shape& shape = plan.computation->parameter(0)->shape();
  if (root.kind != EvalStep::Kind::kTuple || root.slot != plan.root_slot || read_whole[slot] ||
      !shape.IsTuple() || !shape.IsStatic() ||
      !Shape::Compatible(shape, root.instruction->shape())) {
    return;
  }
  root.tuple_slot = slot;
  for (EvalStep& step : plan.steps) {
    if (step.kind == EvalStep::Kind::kElement && plan.uses[step.first_use].slot == slot) {
      step.keep_tuple = true;
    }
  }
}

// Marks last uses, walking backwards. An element of a tuple may be taken out when all that follows
// reads other elements of it.
void MarkLastUses(EvalPlan& plan) {
  std::vector<bool> used(static_cast<size_t>(plan.slot_count));
  std::vector<bool> read_whole(used.size());
  std::vector<std::vector<bool>> elements_read(used.size());
  std::vector<bool> by_lanes(used.size());
  for (const EvalStep& step : plan.steps) {
    by_lanes[step.slot] = step.kind == EvalStep::Kind::kLanes;
    if (step.kind != EvalStep::Kind::kChain) continue;
    const EvalChain& chain = plan.chains[step.lanes];
    for (int32_t m : chain.outputs) by_lanes[chain.members[m].slot] = true;
  }
  used[plan.root_slot] = read_whole[plan.root_slot] = true;
  for (auto step = plan.steps.rbegin(); step != plan.steps.rend(); ++step) {
    step->unused = !used[step->slot];
    for (int32_t u = step->use_count - 1; u >= 0; --u) {
      EvalUse& use = plan.uses[step->first_use + u];
      use.last = !used[use.slot];
      use.by_lanes = by_lanes[use.slot];
      used[use.slot] = true;
      if (step->kind != EvalStep::Kind::kElement) {
        read_whole[use.slot] = true;
        continue;
      }
      std::vector<bool>& read = elements_read[use.slot];
      size_t index = static_cast<size_t>(step->instruction->tuple_index());
      if (read.size() <= index) read.resize(index + 1);
      step->take_element = !read_whole[use.slot] && !read[index];
      read[index] = true;
    }
  }
  ReuseParameterTuple(read_whole, plan);
}

Status AddStep(const Instruction& instruction, int64_t max_tensor_bytes,
               std::unordered_map<const Instruction*, int32_t>& slots, EvalPlan& plan) {
  if (instruction.IsConstant() && instruction.literal().IsValid() &&
      HasForm(instruction.literal(), instruction.shape())) {
    slots[&instruction] = plan.slot_count;
    plan.constants.emplace_back(plan.slot_count++, &instruction.literal());
    return {};
  }
  EvalStep step;
  step.instruction = &instruction;
  step.kind = KindOf(instruction);
  step.evaluate = instruction.def().evaluate;
  step.too_large = !FitsIn(instruction.shape(), max_tensor_bytes);
  if (EvalLanes lanes; !step.too_large && PlanLanes(instruction, lanes)) {
    step.kind = EvalStep::Kind::kLanes;
    step.lanes = static_cast<int32_t>(plan.lanes.size());
    plan.lanes.push_back(lanes);
  }
  step.slot = plan.slot_count++;
  step.first_use = static_cast<int32_t>(plan.uses.size());
  step.use_count = static_cast<int32_t>(instruction.operand_count());
  plan.max_uses = std::max(plan.max_uses, step.use_count);
  for (const Instruction* operand : instruction.operands()) {
    bool lanes = step.kind == EvalStep::Kind::kLanes;
    auto it = slots.find(lanes ? LaneSource(operand) : operand);
    if (it == slots.end()) {
      return InvalidArgument(instruction.name(), ": operand ", operand->name(),
                             " does not come before it");
    }
    plan.uses.push_back({it->second});
  }
  slots[&instruction] = step.slot;
  plan.steps.push_back(step);
  return {};
}

// All parameters are scalars, as of reducers and comparators.
bool IsOfScalars(const Computation& computation) {
  constexpr size_t kMost = 64;
  std::span<Instruction* const> parameters = computation.parameters();
  return !parameters.empty() && parameters.size() <= kMost && computation.root() != nullptr &&
         std::all_of(parameters.begin(), parameters.end(), [](const Instruction* p) {
           return p != nullptr && p->shape().IsArray() && p->shape().IsScalar();
         });
}

Status FillPlan(const Computation& computation, int64_t max_tensor_bytes, EffectsCache& cache,
                EvalPlan& plan) {
  if (computation.root() == nullptr) {
    return InvalidArgument("computation ", computation.name(), " has no root");
  }
  std::unordered_map<const Instruction*, int32_t> slots;
  for (const Instruction* parameter : computation.parameters()) {
    if (parameter == nullptr) {
      return InvalidArgument("computation ", computation.name(), " lacks a parameter number");
    }
    slots[parameter] = plan.slot_count;
    plan.parameter_slots.push_back(plan.slot_count++);
  }
  std::unordered_set<const Instruction*> live = LiveInstructions(computation, cache);
  for (const Instruction* instruction : computation) {
    if (instruction->IsParameter() || !live.contains(instruction)) continue;
    if (IsKnownEmpty(*instruction, cache)) {
      Shape shape = instruction->shape();
      shape.ClearLayout();
      plan.empty.push_back(std::make_unique<const Literal>(std::move(shape)));
      slots[instruction] = plan.slot_count;
      plan.constants.emplace_back(plan.slot_count++, plan.empty.back().get());
      continue;
    }
    TRY(AddStep(*instruction, max_tensor_bytes, slots, plan));
  }
  auto root = slots.find(computation.root());
  if (root == slots.end()) {
    return InvalidArgument("computation ", computation.name(), " does not hold its root");
  }
  plan.root_slot = root->second;
  JoinChains(plan);
  MarkLastUses(plan);
  return {};
}

}  // namespace

bool HasEffects(const Instruction& instruction, EffectsCache& cache) {
  return EffectsOf(instruction, cache, 0);
}

bool FitsIn(const Shape& shape, int64_t limit) {
  int64_t total = 0;
  return AddBytes(shape, limit, total);
}

EvalPlan MakeEvalPlan(const Computation& computation, int64_t max_tensor_bytes,
                      EffectsCache& cache) {
  EvalPlan plan;
  plan.computation = &computation;
  plan.status = FillPlan(computation, max_tensor_bytes, cache, plan);
  if (IsOfScalars(computation)) {
    Result<ScalarFunction> scalars = ScalarFunction::Compile(computation);
    if (scalars) plan.scalars = std::move(*scalars);
  }
  return plan;
}

const EvalPlan& EvalPlans::Add(const Computation& computation, int64_t max_tensor_bytes) {
  std::unique_ptr<EvalPlan>& plan = plans_[&computation];
  if (plan == nullptr) {
    plan = std::make_unique<EvalPlan>(MakeEvalPlan(computation, max_tensor_bytes, effects_));
    plan->number = next_number_++;
  }
  return *plan;
}

std::unique_ptr<EvalFrame> EvalFrames::Take(const EvalPlan& plan) {
  size_t number = static_cast<size_t>(plan.number);
  if (number >= free.size()) free.resize(number + 1);
  if (free[number].empty()) {
    auto frame = std::make_unique<EvalFrame>();
    frame->slots.resize(static_cast<size_t>(plan.slot_count));
    for (const auto& [slot, literal] : plan.constants) frame->slots[slot].borrowed = literal;
    frame->operands.reserve(static_cast<size_t>(plan.max_uses));
    return frame;
  }
  std::unique_ptr<EvalFrame> frame = std::move(free[number].back());
  free[number].pop_back();
  return frame;
}

}  // namespace weft::hlo
