#include "hlo/evaluate.h"

#include <utility>

#include "base/elements.h"
#include "hlo/evaluate/device_group.h"
#include "hlo/evaluate/plan.h"
#include "hlo/verify/rules.h"

namespace weft::hlo {
namespace {

bool SameForm(const Literal& value, const Shape& shape) {
  if (value.dtype() != shape.dtype()) return false;
  if (shape.IsArray()) return Shape::SameDims(value.shape(), shape);
  if (!shape.IsTuple()) return true;
  if (value.tuple().size() != shape.elements_of_tuple().size()) return false;
  for (int64_t i = 0; i < shape.tuple_size(); ++i) {
    if (!SameForm(value.tuple()[i], shape.tuple_element(i))) return false;
  }
  return true;
}

// Float arrays of another precision than the instruction's are converted (mixed precision is
// accepted by the verifier); anything else is an error.
Status MakeForm(Literal& value, const Shape& shape) {
  if (SameForm(value, shape)) return {};
  if (shape.IsTuple() && value.shape().IsTuple() &&
      value.tuple().size() == shape.elements_of_tuple().size()) {
    std::vector<Literal> elements = std::move(value).TakeTuple();
    for (size_t i = 0; i < elements.size(); ++i) {
      TRY(MakeForm(elements[i], shape.tuple_element(static_cast<int64_t>(i))));
    }
    value = Literal::Tuple(std::move(elements));
    return {};
  }
  if (!IsFloat(shape.dtype()) || !IsFloat(value.dtype()) ||
      !Shape::SameDims(shape, value.shape())) {
    return InvalidArgument("the value has shape ", value.shape().ToStringWithoutLayout(),
                           ", expected ", shape.ToStringWithoutLayout());
  }
  Shape to = value.shape();
  to.set_dtype(shape.dtype());
  Literal converted = TRY(Literal::Allocate(to));
  ConvertElements(value.dtype(), value.data(), shape.dtype(), converted.mutable_data(),
                  value.size());
  if (value.HasDynamicSizes()) {
    for (int64_t d = 0; d < to.rank(); ++d) converted.set_dynamic_size(d, value.dynamic_size(d));
  }
  value = std::move(converted);
  return {};
}

Result<Literal> TakeElement(EvalSlot& slot, const EvalStep& step, bool last) {
  int64_t index = step.instruction->tuple_index();
  const std::vector<Literal>& elements = slot.get().tuple();
  if (index < 0 || index >= static_cast<int64_t>(elements.size())) {
    return InvalidArgument("get-tuple-element: index ", index, " of a tuple of ", elements.size());
  }
  if (slot.borrowed != nullptr) return elements[index];
  if (step.take_element) {
    Literal element = std::move(slot.value.mutable_tuple()[index]);
    if (last) slot.value = Literal();
    return element;
  }
  Literal element = elements[index];
  if (last) slot.value = Literal();
  return element;
}

// One instruction; its operands leave their slots at their last use.
Result<Literal> RunStep(EvalContext& context, const EvalPlan& plan, const EvalStep& step,
                        EvalFrame& frame) {
  const Instruction& instruction = *step.instruction;
  if (step.kind == EvalStep::Kind::kConstant) {
    if (instruction.literal().IsValid()) return instruction.literal();
    return InvalidArgument("constant: the elements of ", instruction.name(),
                           " were left out: ", instruction.shape().ToStringWithoutLayout());
  }
  const EvalUse* uses = plan.uses.data() + step.first_use;
  if (step.kind == EvalStep::Kind::kElement) {
    return TakeElement(frame.slots[uses[0].slot], step, uses[0].last);
  }
  if (step.too_large) {
    if (instruction.shape().HasUnboundedDims()) {
      return Unimplemented(Mnemonic(instruction.op()), ": a result of unbounded shape ",
                           instruction.shape().ToStringWithoutLayout(), " is not evaluated");
    }
    return ResourceExhausted(Mnemonic(instruction.op()), ": the result ",
                             instruction.shape().ToStringWithoutLayout(), " exceeds the limit of ",
                             context.options().max_tensor_bytes, " bytes");
  }
  std::vector<Literal>& operands = frame.operands;
  operands.clear();
  for (int32_t u = 0; u < step.use_count; ++u) {
    EvalSlot& slot = frame.slots[uses[u].slot];
    if (uses[u].last && slot.borrowed == nullptr) {
      operands.push_back(std::exchange(slot.value, Literal()));
    } else {
      operands.push_back(slot.get());
    }
  }
  if (step.kind == EvalStep::Kind::kTuple) {
    std::vector<Literal> elements(std::make_move_iterator(operands.begin()),
                                  std::make_move_iterator(operands.end()));
    return Literal::Tuple(std::move(elements));
  }
  if (step.evaluate == nullptr) {
    return Unimplemented(Mnemonic(instruction.op()), ": not evaluated");
  }
  return step.evaluate(context, instruction, operands);
}

Status CheckArguments(const Module& module, std::span<const Literal> arguments) {
  const Computation* entry = module.entry();
  if (entry == nullptr) return InvalidArgument("module ", module.name(), " has no entry");
  std::span<Instruction* const> parameters = entry->parameters();
  if (parameters.size() != arguments.size()) {
    return InvalidArgument("module ", module.name(), " takes ", parameters.size(),
                           " arguments, got ", arguments.size());
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (parameters[i] == nullptr || !arguments[i].IsValid() ||
        !Shape::CompatibleIgnoringDynamic(arguments[i].shape(), parameters[i]->shape())) {
      return InvalidArgument(
          "argument ", i, " has shape ", arguments[i].shape().ToStringWithoutLayout(),
          ", parameter ", parameters[i] == nullptr ? "" : parameters[i]->name(), " has shape ",
          parameters[i] == nullptr ? "" : parameters[i]->shape().ToStringWithoutLayout());
    }
  }
  return {};
}

}  // namespace

EvalPlan& EvalContext::PlanOf(const Computation& computation) {
  std::shared_ptr<EvalPlan>& plan = plans_[&computation];
  if (plan == nullptr) {
    plan =
        std::make_shared<EvalPlan>(MakeEvalPlan(computation, options_.max_tensor_bytes, effects_));
  }
  return *plan;
}

// The message starts with the op, the instruction follows as a note; both come from the innermost
// instruction alone.
Error EvalContext::Place(Error error, const Instruction& instruction) {
  if (error_has_place_) return error;
  error_has_place_ = true;
  std::string_view mnemonic = Mnemonic(instruction.op());
  if (!StartsWithOp(error.message(), mnemonic)) error.Prefix(StrCat(mnemonic, ": "));
  error.Note(StrCat("in ", instruction.ToString()));
  if (std::string where = instruction.SourceLocation(); !where.empty()) {
    error.Source(std::move(where));
  }
  return error;
}

Result<Literal> EvalContext::Run(EvalPlan& plan, std::span<Literal> owned,
                                 std::span<const Literal> read) {
  if (!plan.status) return std::unexpected(plan.status.error());
  size_t count = owned.size() + read.size();
  if (plan.parameter_slots.size() != count) {
    return InvalidArgument("computation ", plan.computation->name(), " takes ",
                           plan.parameter_slots.size(), " arguments, got ", count);
  }
  std::unique_ptr<EvalFrame> frame;
  if (plan.free_frames.empty()) {
    frame = std::make_unique<EvalFrame>();
    frame->slots.resize(static_cast<size_t>(plan.slot_count));
    frame->operands.reserve(static_cast<size_t>(plan.max_uses));
  } else {
    frame = std::move(plan.free_frames.back());
    plan.free_frames.pop_back();
  }
  for (size_t i = 0; i < count; ++i) {
    EvalSlot& slot = frame->slots[plan.parameter_slots[i]];
    const Shape& shape = plan.computation->parameter(static_cast<int64_t>(i))->shape();
    if (i < owned.size()) {
      slot.value = std::move(owned[i]);
      slot.borrowed = nullptr;
    } else if (const Literal& argument = read[i - owned.size()]; SameForm(argument, shape)) {
      slot.borrowed = &argument;
      continue;
    } else {
      slot.value = argument;
      slot.borrowed = nullptr;
    }
    TRY(MakeForm(slot.value, shape));
  }
  for (const EvalStep& step : plan.steps) {
    Result<Literal> value = RunStep(*this, plan, step, *frame);
    if (value) {
      if (Status form = MakeForm(*value, step.instruction->shape()); !form) {
        value = std::unexpected(std::move(form).error());
      }
    }
    if (!value) return std::unexpected(Place(std::move(value).error(), *step.instruction));
    if (!step.unused) frame->slots[step.slot].value = std::move(*value);
  }
  frame->operands.clear();
  EvalSlot& root = frame->slots[plan.root_slot];
  Result<Literal> result =
      root.borrowed != nullptr ? *root.borrowed : std::exchange(root.value, Literal());
  for (int32_t slot : plan.parameter_slots) frame->slots[slot] = EvalSlot();
  plan.free_frames.push_back(std::move(frame));
  return result;
}

Result<Literal> EvalContext::Call(const Computation& computation, std::span<Literal> arguments) {
  if (call_depth_ >= options_.max_call_depth) {
    return ResourceExhausted("calls are nested deeper than ", options_.max_call_depth, " at ",
                             computation.name());
  }
  ++call_depth_;
  Result<Literal> result = Run(PlanOf(computation), arguments, {});
  --call_depth_;
  return result;
}

Result<Literal> EvalContext::CallReading(const Computation& computation,
                                         std::span<const Literal> arguments) {
  if (call_depth_ >= options_.max_call_depth) {
    return ResourceExhausted("calls are nested deeper than ", options_.max_call_depth, " at ",
                             computation.name());
  }
  ++call_depth_;
  Result<Literal> result = Run(PlanOf(computation), {}, arguments);
  --call_depth_;
  return result;
}

Status EvalContext::CountLoopStep(const Instruction& loop) {
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
  uint64_t z = options_.seed + 0x9e3779b97f4a7c15ull * ++random_counter_ +
               0xd1b54a32d192ed03ull * static_cast<uint64_t>(device());
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

Result<Literal> Evaluate(const Module& module, std::span<const Literal> arguments,
                         const EvalOptions& options) {
  TRY(CheckArguments(module, arguments));
  DeviceGroup group(1);
  EvalContext context(module, options);
  context.SetDevice(&group, 0, 0, 1, 1);
  std::vector<Literal> owned(arguments.begin(), arguments.end());
  return context.Call(*module.entry(), owned);
}

Result<std::vector<Literal>> EvaluateOnDevices(const Module& module,
                                               std::span<const std::vector<Literal>> arguments,
                                               const EvalOptions& options) {
  int64_t replicas =
      options.num_replicas > 0 ? options.num_replicas : module.config().replica_count;
  int64_t partitions =
      options.num_partitions > 0 ? options.num_partitions : module.config().num_partitions;
  constexpr int64_t kMaxDevices = 1024;
  if (replicas < 1 || partitions < 1 || replicas > kMaxDevices || partitions > kMaxDevices ||
      replicas * partitions > kMaxDevices) {
    return InvalidArgument("cannot simulate ", replicas, " replicas of ", partitions,
                           " partitions: at most ", kMaxDevices, " devices");
  }
  int64_t devices = replicas * partitions;
  if (static_cast<int64_t>(arguments.size()) != devices) {
    return InvalidArgument("module ", module.name(), " runs on ", devices,
                           " devices, got arguments for ", arguments.size());
  }
  for (const std::vector<Literal>& of_device : arguments) TRY(CheckArguments(module, of_device));
  DeviceGroup group(devices);
  return group.RunAll([&](int64_t device) -> Result<Literal> {
    EvalContext context(module, options);
    context.SetDevice(&group, device / partitions, device % partitions, replicas, partitions);
    std::vector<Literal> owned = arguments[static_cast<size_t>(device)];
    return context.Call(*module.entry(), owned);
  });
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
