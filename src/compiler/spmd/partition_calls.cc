// Custom calls: cut by their rules, called with what a device has, or called on one device alone.
#include <algorithm>

#include "compiler/spmd/partitioner.h"
#include "hlo/evaluate/custom_calls.h"

namespace weft::compiler::spmd {
namespace {

using hlo::Builder;
using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

// Callbacks that every device makes, with its parts of the operands.
bool IsCalledWithParts(const Instruction& i) {
  return hlo::ConfigIntOfCustomCall(i, "partitioned").value_or(0) != 0;
}

// The one device that the call's sharding names; nullopt: none.
std::optional<int64_t> DeviceOf(const Instruction& i) {
  const hlo::Sharding* all = i.sharding();
  if (all == nullptr) return std::nullopt;
  const hlo::Sharding& one =
      all->kind == hlo::Sharding::Kind::kTuple && !all->elements.empty() ? all->elements[0] : *all;
  if (one.kind != hlo::Sharding::Kind::kMaximal) return std::nullopt;
  return one.device;
}

// What takes the place of a result where the call is not made.
Result<Instruction*> NothingOf(Builder& b, const Shape& shape) {
  if (shape.IsToken()) return b.Add(Op::kAfterAll, {});
  if (shape.IsArray()) return ZeroesOf(b, Shape(shape.dtype(), shape.dims()));
  std::vector<Instruction*> elements;
  for (const Shape& element : shape.elements_of_tuple()) {
    elements.push_back(TRY(NothingOf(b, element)));
  }
  return b.Tuple(elements);
}

}  // namespace

// One side of the choice: the call, or nothing. Tuples are what branches take.
Result<Computation*> ComputationPartitioner::OnceBranch(const Instruction& i, const Shape& operands,
                                                        bool runs) {
  hlo::Module& module = program_.state().module;
  Computation* branch = module.AddComputation(
      module.UniqueName(StrCat(i.name(), runs ? ".here" : ".elsewhere")), &emitter_.into());
  Builder b(*branch, nullptr, &i);
  Instruction* all = TRY(b.Parameter(0, operands));
  if (!runs) {
    branch->set_root(TRY(NothingOf(b, i.shape())));
    return branch;
  }
  std::vector<Instruction*> parts;
  for (int64_t k = 0; k < i.operand_count(); ++k) {
    parts.push_back(TRY(b.GetTupleElement(all, k)));
  }
  hlo::CloneMap map;
  hlo::CloneChanges changes{.name = i.name(), .shape = i.shape(), .operands = parts};
  Instruction* call = hlo::CloneInstruction(i, *branch, map, nullptr, changes);
  call->mutable_extras().sharding = {};
  branch->set_root(call);
  return branch;
}

// On one device; the others get what it gave.
Status ComputationPartitioner::EmitOnce(const Instruction& i, int64_t device) {
  if (device < 0 || device >= mesh_.devices) {
    return InvalidArgument("custom-call: on device ", device, " of ", mesh_.devices);
  }
  std::vector<Instruction*> operands;
  for (const Instruction* operand : i.operands()) {
    std::vector<Form> forms;
    for (const Shape* shape : LeavesOf(operand->shape())) {
      forms.push_back(Form::Replicated(shape->IsArray() ? shape->rank() : 0));
    }
    operands.push_back(TRY(BuildAll(operand, forms)));
  }
  AxisList all;
  int64_t place = device;
  for (int k = 0; k < static_cast<int>(mesh_.pieces.size()); ++k) all.push_back(k);
  for (int64_t p = 0; p < mesh_.devices; ++p) {
    if (mesh_.DeviceAt(p) == device) place = p;
  }
  Instruction* index = TRY(emitter_.IndexAlong(all));
  Builder b = emitter_.builder();
  Instruction* here = TRY(b.Compare(
      index, b.ScalarConstant(DType::kS32, static_cast<double>(place)), hlo::Direction::kEq));
  Instruction* tuple = TRY(b.Tuple(operands));
  hlo::ConditionalAttrs attrs;
  attrs.true_computation = TRY(OnceBranch(i, tuple->shape(), true));
  attrs.false_computation = TRY(OnceBranch(i, tuple->shape(), false));
  Instruction* chosen = TRY(b.Add(Op::kConditional, {here, tuple, tuple}, std::move(attrs)));
  std::vector<Form> forms;
  for (const Shape* shape : LeavesOf(i.shape())) {
    forms.push_back(Form::Replicated(shape->IsArray() ? shape->rank() : 0));
  }
  TRY(Bind(i, chosen, forms));
  for (LocalValue& leaf : values_[&i]) {
    if (!leaf.whole->IsArray()) continue;
    leaf.forms[0].second = TRY(emitter_.Broadcast(leaf.forms[0].second, device));
  }
  return {};
}

Status ComputationPartitioner::EmitCustomCall(const Instruction& i) {
  if (program_.IsManual(&i)) return EmitOp(i);
  if (IsCalledWithParts(i)) {
    std::vector<Instruction*> operands;
    for (const Instruction* operand : i.operands()) {
      std::vector<Form> forms;
      for (const LocalValue& leaf : values_[operand]) forms.push_back(leaf.declared);
      operands.push_back(TRY(BuildAll(operand, forms)));
    }
    Instruction* local = Clone(i, i.shape(), operands);
    local->mutable_attrs<hlo::CustomCallAttrs>().operand_layout_constraints.clear();
    return Bind(i, local, program_.FormsOf(&i));
  }
  const std::optional<int64_t> device = DeviceOf(i);
  const auto& attrs = i.attrs<hlo::CustomCallAttrs>();
  const bool known = hlo::IsKnownCustomCall(attrs.custom_call_target);
  if (device || (attrs.custom_call_has_side_effect && !known))
    return EmitOnce(i, device.value_or(0));
  return EmitOp(i);
}

namespace {

// Ops that meet the host once a program, not once a device.
bool MeetsHost(Op op) {
  switch (op) {
    case Op::kInfeed:
    case Op::kOutfeed:
    case Op::kSend:
    case Op::kSendDone:
    case Op::kRecv:
    case Op::kRecvDone: return true;
    default: return false;
  }
}

}  // namespace

Status CheckHasParts(const Instruction& i, bool manual) {
  if (MeetsHost(i.op())) {
    Error error(
        Code::kUnimplemented,
        StrCat(Mnemonic(i.op()), ": from or to the host in a program of several partitions"));
    error.Hint("jax.pure_callback and jax.experimental.io_callback can be partitioned");
    return std::unexpected(std::move(error));
  }
  if (i.op() == Op::kPartitionId && !manual) {
    Error error(Code::kUnimplemented,
                "partition-id: outside of a manual computation: devices would differ");
    error.Hint("jax.lax.axis_index within jax.shard_map tells which device it is");
    return std::unexpected(std::move(error));
  }
  return {};
}

}  // namespace weft::compiler::spmd
