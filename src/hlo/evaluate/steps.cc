#include "hlo/evaluate/steps.h"

#include <utility>

#include "base/elements.h"
#include "hlo/evaluate.h"
#include "hlo/evaluate/plan.h"

namespace weft::hlo {
namespace {

constexpr int64_t kKeptBytes = 1024;  // results up to this size stay in their dead slots

void SetSlot(EvalSlot& slot, Literal value) {
  slot.value = std::move(value);
  slot.borrowed = nullptr;
}

Status RunElement(const EvalPlan& plan, const EvalStep& step, EvalFrame& frame) {
  const EvalUse& use = plan.uses[step.first_use];
  EvalSlot& from = frame.slots[use.slot];
  EvalSlot& to = frame.slots[step.slot];
  int64_t index = step.instruction->tuple_index();
  const std::vector<Literal>& elements = from.get().tuple();
  if (index < 0 || index >= static_cast<int64_t>(elements.size())) {
    return InvalidArgument("get-tuple-element: index ", index, " of a tuple of ", elements.size());
  }
  if (from.borrowed != nullptr) {
    to.borrowed = &elements[index];
    return {};
  }
  to.borrowed = nullptr;
  if (step.take_element) {
    to.value = std::move(from.value.mutable_tuple()[index]);
  } else {
    to.value = elements[index];
  }
  if (use.last && !step.keep_tuple) from.value = Literal();
  return MakeForm(to.value, step.instruction->shape());
}

// The operand at its last use, otherwise a copy that shares its bytes.
Literal TakeOperand(EvalSlot& slot, bool last) {
  if (last && slot.borrowed == nullptr) return std::exchange(slot.value, Literal());
  return slot.get();
}

Status RunTuple(const EvalPlan& plan, const EvalStep& step, EvalFrame& frame) {
  const EvalUse* uses = plan.uses.data() + step.first_use;
  size_t count = static_cast<size_t>(step.use_count);
  EvalSlot& to = frame.slots[step.slot];
  if (step.tuple_slot >= 0) {
    EvalSlot& from = frame.slots[step.tuple_slot];
    if (from.borrowed == nullptr && from.value.tuple().size() == count) {
      std::vector<Literal>& elements = from.value.mutable_tuple();
      for (size_t i = 0; i < count; ++i) {
        elements[i] = TakeOperand(frame.slots[uses[i].slot], uses[i].last);
      }
      SetSlot(to, std::exchange(from.value, Literal()));
      return {};
    }
  }
  std::vector<Literal> elements;
  elements.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    elements.push_back(TakeOperand(frame.slots[uses[i].slot], uses[i].last));
  }
  SetSlot(to, Literal::Tuple(std::move(elements)));
  return {};
}

// After its last use; a small result of a kLanes step keeps its memory.
void LeaveSlot(const EvalUse& use, EvalSlot& slot) {
  if (!use.last || slot.borrowed != nullptr) return;
  bool keep = use.by_lanes && slot.value.byte_size() <= kKeptBytes && slot.value.OwnsStorage();
  if (!keep) slot.value.TakeStorage();
}

// False: an operand has run-time sizes, which EvaluateElementwise looks after.
Result<bool> RunLanes(const EvalPlan& plan, const EvalStep& step, EvalFrame& frame) {
  const EvalLanes& lanes = plan.lanes[step.lanes];
  const EvalUse* uses = plan.uses.data() + step.first_use;
  LaneOperand operands[3];
  int32_t reused = -1;  // the operand whose memory the result takes
  for (int32_t i = 0; i < lanes.count; ++i) {
    const EvalSlot& slot = frame.slots[uses[i].slot];
    const Literal& value = slot.get();
    if (value.HasDynamicSizes()) return false;
    operands[i] = {value.data(), value.dtype(), lanes.broadcast[i]};
    if (lanes.bytes > kKeptBytes && lanes.fits[i] && uses[i].last && slot.borrowed == nullptr &&
        value.OwnsStorage()) {
      reused = i;
    }
  }
  const Shape& shape = step.instruction->shape();
  EvalSlot& to = frame.slots[step.slot];
  to.borrowed = nullptr;
  if (!to.value.IsValid() || to.value.HasDynamicSizes()) to.value = Literal::FromShape(shape);
  if (reused >= 0) {
    to.value.PutStorage(frame.slots[uses[reused].slot].value.TakeStorage());
  } else if (!to.value.OwnsStorage()) {
    to.value.PutStorage(Literal::NewStorage(lanes.bytes));
    if (to.value.storage() == nullptr) {
      return ResourceExhausted("no memory for ", lanes.bytes, " bytes of shape ", shape);
    }
  }
  RunLaneOp(lanes.op, step.instruction->attrs(), std::span(operands, lanes.count), shape.dtype(),
            to.value.storage().get(), lanes.size);
  for (int32_t i = 0; i < lanes.count; ++i) LeaveSlot(uses[i], frame.slots[uses[i].slot]);
  return true;
}

// The chain's members one by one, as some operand has run-time sizes.
Status RunMembers(EvalContext& context, const EvalPlan& plan, const EvalStep& step,
                  EvalFrame& frame) {
  const EvalChain& chain = plan.chains[step.lanes];
  for (const EvalStep& member : chain.members) {
    std::vector<Literal> operands;
    for (int32_t u = 0; u < member.use_count; ++u) {
      operands.push_back(frame.slots[plan.uses[member.first_use + u].slot].get());
    }
    Literal value = TRY(member.evaluate(context, *member.instruction, operands));
    TRY(MakeForm(value, member.instruction->shape()));
    SetSlot(frame.slots[member.slot], std::move(value));
  }
  size_t output = 0;
  for (size_t m = 0; m < chain.members.size(); ++m) {
    bool read = output < chain.outputs.size() && chain.outputs[output] == static_cast<int32_t>(m);
    output += read;
    if (!read) frame.slots[chain.members[m].slot].Clear();
  }
  for (int32_t u = 0; u < step.use_count; ++u) {
    const EvalUse& use = plan.uses[step.first_use + u];
    if (use.last && frame.slots[use.slot].borrowed == nullptr) frame.slots[use.slot].Clear();
  }
  return {};
}

// Memory for a result: that of an input that ends here, or new.
Status PlaceOutput(const EvalPlan& plan, const EvalStep& step, const Shape& shape, int64_t bytes,
                   EvalFrame& frame, EvalSlot& to) {
  const EvalChain& chain = plan.chains[step.lanes];
  to.borrowed = nullptr;
  if (!to.value.IsValid() || to.value.HasDynamicSizes()) to.value = Literal::FromShape(shape);
  for (int32_t u = 0; u < step.use_count && bytes > kKeptBytes; ++u) {
    const EvalUse& use = plan.uses[step.first_use + u];
    EvalSlot& slot = frame.slots[use.slot];
    if (use.last && slot.borrowed == nullptr && !chain.broadcast[u] &&
        slot.value.byte_size() == bytes && slot.value.OwnsStorage()) {
      to.value.PutStorage(slot.value.TakeStorage());
      return {};
    }
  }
  if (to.value.OwnsStorage()) return {};
  to.value.PutStorage(Literal::NewStorage(bytes));
  if (to.value.storage() != nullptr) return {};
  return ResourceExhausted("no memory for ", bytes, " bytes of shape ", shape);
}

constexpr int64_t kChainLanes = 8 * kBlockLanes;  // computed by this thread alone

Status RunChain(EvalContext& context, const EvalPlan& plan, const EvalStep& step,
                EvalFrame& frame) {
  const EvalChain& chain = plan.chains[step.lanes];
  InlineVec<ScalarFunction::In, 8> in;
  InlineVec<ScalarFunction::Out, 4> out;
  for (int32_t u = 0; u < step.use_count; ++u) {
    const Literal& value = frame.slots[plan.uses[step.first_use + u].slot].get();
    if (value.HasDynamicSizes()) return RunMembers(context, plan, step, frame);
    in.push_back({value.dtype(), value.data(), chain.broadcast[u]});
  }
  for (int32_t m : chain.outputs) {
    const EvalStep& member = chain.members[m];
    const Shape& shape = member.instruction->shape();
    EvalSlot& to = frame.slots[member.slot];
    TRY(PlaceOutput(plan, step, shape, chain.size * ByteWidth(shape.dtype()), frame, to));
    out.push_back({shape.dtype(), to.value.storage().get()});
  }
  if (chain.size > kChainLanes) {
    chain.function.Run(in, out, chain.size);
  } else {
    frame.chains.resize(plan.chains.size());
    std::unique_ptr<ScalarFunction::Frame>& registers = frame.chains[step.lanes];
    if (registers == nullptr) {
      registers = std::make_unique<ScalarFunction::Frame>(chain.function, chain.size);
    }
    chain.function.Run(*registers, in, out, chain.size);
  }
  for (int32_t u = 0; u < step.use_count; ++u) {
    const EvalUse& use = plan.uses[step.first_use + u];
    LeaveSlot(use, frame.slots[use.slot]);
  }
  return {};
}

Error TooLarge(const EvalContext& context, const Instruction& instruction) {
  const Shape& shape = instruction.shape();
  if (shape.HasUnboundedDims()) {
    return Error(Code::kUnimplemented,
                 StrCat(Mnemonic(instruction.op()), ": a result of unbounded shape ",
                        shape.ToStringWithoutLayout(), " is not evaluated"));
  }
  return Error(Code::kResourceExhausted,
               StrCat(Mnemonic(instruction.op()), ": the result ", shape.ToStringWithoutLayout(),
                      " exceeds the limit of ", context.options().max_tensor_bytes, " bytes"));
}

}  // namespace

bool HasForm(const Literal& value, const Shape& shape) {
  if (value.dtype() != shape.dtype()) return false;
  if (shape.IsArray()) return Shape::SameDims(value.shape(), shape);
  if (!shape.IsTuple()) return true;
  if (value.tuple().size() != shape.elements_of_tuple().size()) return false;
  for (int64_t i = 0; i < shape.tuple_size(); ++i) {
    if (!HasForm(value.tuple()[i], shape.tuple_element(i))) return false;
  }
  return true;
}

Status MakeForm(Literal& value, const Shape& shape) {
  if (HasForm(value, shape)) return {};
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

Status RunStep(EvalContext& context, const EvalPlan& plan, const EvalStep& step, EvalFrame& frame) {
  const Instruction& instruction = *step.instruction;
  switch (step.kind) {
    case EvalStep::Kind::kLanes:
      if (TRY(RunLanes(plan, step, frame))) return {};
      break;
    case EvalStep::Kind::kChain: return RunChain(context, plan, step, frame);
    case EvalStep::Kind::kElement: return RunElement(plan, step, frame);
    case EvalStep::Kind::kTuple:
      if (!step.too_large) return RunTuple(plan, step, frame);
      break;
    case EvalStep::Kind::kConstant:
      return InvalidArgument("constant: the elements of ", instruction.name(),
                             " were left out: ", instruction.shape().ToStringWithoutLayout());
    case EvalStep::Kind::kRow: break;
  }
  if (step.too_large) return std::unexpected(TooLarge(context, instruction));
  if (step.evaluate == nullptr) {
    return Unimplemented(Mnemonic(instruction.op()), ": not evaluated");
  }
  const EvalUse* uses = plan.uses.data() + step.first_use;
  std::vector<Literal>& operands = frame.operands;
  operands.clear();
  for (int32_t u = 0; u < step.use_count; ++u) {
    operands.push_back(TakeOperand(frame.slots[uses[u].slot], uses[u].last));
  }
  Literal value = TRY(step.evaluate(context, instruction, operands));
  operands.clear();
  TRY(MakeForm(value, instruction.shape()));
  if (!step.unused) SetSlot(frame.slots[step.slot], std::move(value));
  return {};
}

}  // namespace weft::hlo
