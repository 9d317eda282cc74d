#include "hlo/evaluate.h"

#include <utility>

#include "base/counter_random.h"
#include "base/stack.h"
#include "hlo/evaluate/device_group.h"
#include "hlo/evaluate/plan.h"
#include "hlo/evaluate/steps.h"
#include "hlo/verify/rules.h"

namespace weft::hlo {
EvalContext::EvalContext(const Module& module, const EvalOptions& options)
    : module_(module), options_(options), own_frames_(std::make_unique<EvalFrames>()) {
  frames_ = own_frames_.get();
}

EvalContext::EvalContext(const Module& module, const EvalOptions& options, const EvalPlans& plans,
                         EvalFrames& frames)
    : module_(module), options_(options), plans_(&plans), frames_(&frames) {}

EvalContext::~EvalContext() = default;

const EvalPlan& EvalContext::PlanOf(const Computation& computation) {
  if (plans_ != nullptr) {
    if (const EvalPlan* plan = plans_->Find(computation)) return *plan;
  }
  if (own_plans_ == nullptr) {
    own_plans_ = std::make_unique<EvalPlans>(plans_ != nullptr ? plans_->next_number() : 0);
    if (own_frames_ == nullptr) own_frames_ = std::make_unique<EvalFrames>();
  }
  return own_plans_->Add(computation, options_.max_tensor_bytes);
}

const ScalarFunction* EvalContext::Compiled(const Computation& computation) {
  const EvalPlan& plan = PlanOf(computation);
  return plan.scalars ? &*plan.scalars : nullptr;
}

DeviceGroup* EvalContext::MakeGroup() {
  own_group_ = std::make_unique<DeviceGroup>(1);
  return group_ = own_group_.get();
}

// The message starts with the op, the instruction follows as a note; both come from the innermost
// instruction alone.
Error EvalContext::Place(Error error, const Instruction& instruction) {
  if (error_has_place_) return error;
  error_has_place_ = true;
  std::string_view mnemonic = Mnemonic(instruction.op());
  if (!StartsWithOp(error.message(), mnemonic)) error.Prefix(StrCat(mnemonic, ": "));
  error.Note(StrCat("in ", instruction.ToString(), " of ", instruction.parent()->name()));
  if (std::string where = instruction.SourceLocation(); !where.empty()) {
    error.Source(std::move(where));
  }
  return error;
}

Result<Literal> EvalContext::Run(const EvalPlan& plan, std::span<Literal> owned,
                                 std::span<const Literal> read) {
  if (!plan.status) return std::unexpected(plan.status.error());
  size_t count = owned.size() + read.size();
  if (plan.parameter_slots.size() != count) {
    return InvalidArgument("computation ", plan.computation->name(), " takes ",
                           plan.parameter_slots.size(), " arguments, got ", count);
  }
  // Frames of plans made on the way are not kept for the next evaluation.
  bool prepared = plans_ != nullptr && plan.number < plans_->next_number();
  EvalFrames& frames = prepared ? *frames_ : *own_frames_;
  std::unique_ptr<EvalFrame> frame = frames.Take(plan);
  for (size_t i = 0; i < count; ++i) {
    EvalSlot& slot = frame->slots[plan.parameter_slots[i]];
    const Shape& shape = plan.computation->parameter(static_cast<int64_t>(i))->shape();
    if (i < owned.size()) {
      slot.value = std::move(owned[i]);
      slot.borrowed = nullptr;
    } else if (const Literal& argument = read[i - owned.size()]; HasForm(argument, shape)) {
      slot.borrowed = &argument;
      continue;
    } else {
      slot.value = argument;
      slot.borrowed = nullptr;
    }
    TRY(MakeForm(slot.value, shape));
  }
  for (const EvalStep& step : plan.steps) {
    if (IsCancelled()) {
      return MakeError(Code::kCancelled, "cancelled before ", step.instruction->name());
    }
    if (Status status = RunStep(*this, plan, step, *frame); !status) {
      return std::unexpected(Place(std::move(status).error(), *step.instruction));
    }
  }
  frame->operands.clear();
  EvalSlot& root = frame->slots[plan.root_slot];
  Result<Literal> result =
      root.borrowed != nullptr ? *root.borrowed : std::exchange(root.value, Literal());
  for (int32_t slot : plan.parameter_slots) frame->slots[slot].Clear();
  frames.Give(plan, std::move(frame));
  return result;
}

Result<Literal> EvalContext::Call(const Computation& computation, std::span<Literal> arguments) {
  if (call_depth_ >= options_.max_call_depth || IsStackShort()) {
    return ResourceExhausted("calls are nested deeper than ", call_depth_, " at ",
                             computation.name());
  }
  ++call_depth_;
  Result<Literal> result = Run(PlanOf(computation), arguments, {});
  --call_depth_;
  return result;
}

Result<Literal> EvalContext::CallReading(const Computation& computation,
                                         std::span<const Literal> arguments) {
  if (call_depth_ >= options_.max_call_depth || IsStackShort()) {
    return ResourceExhausted("calls are nested deeper than ", call_depth_, " at ",
                             computation.name());
  }
  ++call_depth_;
  Result<Literal> result = Run(PlanOf(computation), {}, arguments);
  --call_depth_;
  return result;
}

Status EvalContext::CountLoopStep(const Instruction& loop) {
  if (IsCancelled()) {
    return MakeError(Code::kCancelled, Mnemonic(loop.op()), ": cancelled in ", loop.name());
  }
  if (++loop_steps_ > options_.max_loop_steps) {
    Error error(Code::kResourceExhausted, StrCat(Mnemonic(loop.op()), ": more than ",
                                                 options_.max_loop_steps, " loop iterations"));
    return std::unexpected(
        error.Hint("the loop may not end on these inputs; if it does, raise "
                   "EvalOptions::max_loop_steps (weft eval: --max-loop-steps)"));
  }
  return {};
}

uint64_t EvalContext::NextRandom() {
  // splitmix64 of a counter; devices get streams of their own.
  uint64_t stream = static_cast<uint64_t>(device()) << 32;
  return SplitMix(options_.seed + kSplitMixStep * (++random_counter_ + stream));
}

Result<Literal> EvaluateInstruction(const Instruction& instruction, std::span<Literal> operands) {
  const OpDef& def = instruction.def();
  if (instruction.IsConstant()) return instruction.literal();
  if (def.evaluate == nullptr) return Unimplemented(def.mnemonic, ": not evaluated");
  if (static_cast<int64_t>(operands.size()) != instruction.operand_count()) {
    return InvalidArgument(def.mnemonic, ": takes ", instruction.operand_count(), " operands, got ",
                           operands.size());
  }
  EvalOptions options;
  if (!FitsIn(instruction.shape(), options.max_tensor_bytes)) {
    return ResourceExhausted(def.mnemonic, ": the result ",
                             instruction.shape().ToStringWithoutLayout(), " is too large");
  }
  EvalContext context(*instruction.parent()->module(), options);
  return def.evaluate(context, instruction, operands);
}

}  // namespace weft::hlo
