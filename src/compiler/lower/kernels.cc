// Kernels: what an instruction or a fusion computes in one, the shape of its loops, drafts.
#include <algorithm>
#include <array>
#include <bit>
#include <unordered_set>

#include "compiler/lower/lowering.h"
#include "program/target_facts.h"

namespace weft::compiler {

using hlo::Instruction;
using HloOp = hlo::Op;

namespace {

bool NeedsCoordinates(const Instruction& i) {
  if (hlo::IsElementwise(i.op()) || i.IsParameter() || i.IsConstant()) return false;
  switch (i.op()) {
    case HloOp::kReshape:
    case HloOp::kBitcast:
    case HloOp::kCopy:
    case HloOp::kOptBarrier:
    case HloOp::kTuple:
    case HloOp::kGetTupleElement: return false;
    case HloOp::kBroadcast: return !i.operand(0)->shape().IsScalar();
    default: return true;
  }
}

}  // namespace

KernelBody BodyOf(const LowerContext& cx, const Instruction& instruction) {
  KernelBody body;
  body.instruction = &instruction;
  const auto& leaves = cx.memory.Leaves(instruction);
  if (instruction.op() == HloOp::kFusion) {
    const hlo::Computation& fused = *instruction.attrs<hlo::FusionAttrs>().calls;
    for (const Instruction* i : fused) {
      if (i->IsParameter()) {
        body.inputs.push_back({i, cx.memory.Leaf(*instruction.operand(i->parameter_number()))});
      } else {
        body.members.push_back(i);
      }
    }
    const Instruction* root = fused.root();
    if (root->op() == HloOp::kTuple) {
      size_t next = 0;
      for (const Instruction* operand : root->operands()) {
        for (int64_t leaf = 0; leaf < LeafCount(operand->shape()); ++leaf) {
          body.outputs.push_back({operand, leaves[next++], leaf});
        }
      }
    } else {
      for (size_t k = 0; k < leaves.size(); ++k) {
        body.outputs.push_back({root, leaves[k], static_cast<int64_t>(k)});
      }
    }
    return body;
  }
  std::unordered_set<const Instruction*> known;
  for (const Instruction* operand : instruction.operands()) {
    if (operand->IsConstant() && operand->literal().size() == 1) continue;
    if (!operand->shape().IsArray() || !known.insert(operand).second) continue;
    body.inputs.push_back({operand, cx.memory.Leaf(*operand)});
  }
  body.members.push_back(&instruction);
  for (size_t k = 0; k < leaves.size(); ++k) {
    body.outputs.push_back({&instruction, leaves[k], static_cast<int64_t>(k)});
  }
  return body;
}

namespace {

// The work of putting two elements together, or results of several operands.
double CostOfCombining(const Instruction& i) {
  const hlo::Computation* function = i.op() == HloOp::kReduce ? i.attrs<hlo::ReduceAttrs>().to_apply
                                     : i.op() == HloOp::kReduceWindow
                                         ? i.attrs<hlo::ReduceWindowAttrs>().to_apply
                                         : nullptr;
  double cost = 0;
  if (function != nullptr) {
    for (const Instruction* op : *function) cost += op->IsParameter() ? 0 : ElementCost(*op);
  }
  return std::max(cost, 2.0);
}

// How many elements are put together in all.
double Combined(const Instruction& i) {
  const Shape& shape =
      i.shape().IsTuple() && i.shape().tuple_size() > 0 ? i.shape().tuple_element(0) : i.shape();
  if (!shape.IsArray()) return 0;
  double elements = static_cast<double>(shape.elements());
  switch (i.op()) {
    case HloOp::kReduce: return static_cast<double>(i.operand(0)->shape().elements());
    case HloOp::kReduceWindow:
      for (const hlo::WindowDim& d : i.attrs<hlo::ReduceWindowAttrs>().window.dims) {
        elements *= static_cast<double>(d.size);
      }
      return elements;
    case HloOp::kDot:
      for (int64_t d : i.attrs<hlo::DotAttrs>().lhs_contracting_dims) {
        elements *= static_cast<double>(i.operand(0)->shape().dim(d));
      }
      return elements;
    default: return 0;
  }
}

// What a gather reads lies in several arrays, in which of them is known of each lane only.
bool ReadsFromConcatenate(const Instruction& gather) {
  return gather.operand(0)->op() == HloOp::kConcatenate;
}

}  // namespace

LoopShape ShapeOf(const LowerContext& cx, const KernelBody& body, const Dims& dims) {
  LoopShape shape;
  shape.dims = dims;
  shape.flat = true;
  shape.serial = cx.serial;
  double elements = 1;
  for (int64_t d : dims) elements *= static_cast<double>(d);
  double cost = static_cast<double>(body.inputs.size() + body.outputs.size());
  // What most of the work is done in decides the lanes: a few wider values take several registers.
  std::array<double, 4> work_by_width = {};  // of 1, 2, 4 and 8 bytes
  auto note = [&](DType dtype, double work) {
    int64_t width = std::max<int64_t>(ByteWidth(RealType(dtype)), IsFloat(dtype) ? 4 : 1);
    work_by_width[static_cast<size_t>(std::bit_width(static_cast<uint64_t>(width)) - 1)] += work;
  };
  for (const KernelInput& input : body.inputs) {
    if (input.inside->shape().IsArray() && !input.inside->shape().IsScalar()) {
      note(input.inside->shape().dtype(), 1);
    }
  }
  for (const Instruction* i : body.members) {
    shape.flat &= !NeedsCoordinates(*i);
    cost += CostOfCombining(*i) * Combined(*i) / std::max(1.0, elements);
    if (!i->shape().IsArray()) continue;
    // Of an update only what is new.
    const Shape& made = i->op() == HloOp::kDynamicUpdateSlice ? i->operand(1)->shape() : i->shape();
    double times = std::max(1.0, static_cast<double>(made.elements()) / elements);
    // Powers are computed in f64, each lane in two registers: where there are few elements, half
    // the code to compile is worth more than lanes.
    constexpr double kFewElements = program::TargetFacts::kCachedNumbers;
    bool wide = i->op() == HloOp::kPower && IsFloat(i->shape().dtype()) && !cx.serial &&
                elements <= kFewElements;
    DType dtype = wide ? DType::kF64 : i->shape().dtype();
    // Lanes are read one by one, each at an index of 32 bits.
    bool scattered = i->op() == HloOp::kGather && ReadsFromConcatenate(*i);
    if (scattered && ByteWidth(dtype) < ByteWidth(DType::kS32)) dtype = DType::kS32;
    if (!i->shape().IsScalar()) note(dtype, times * ElementCost(*i));
    cost += times * ElementCost(*i);
  }
  constexpr double kMinorShare = 0.15;  // of the work of a kernel
  double total = 0, wider = 0;
  for (double work : work_by_width) total += work;
  size_t widest = work_by_width.size() - 1;
  while (widest > 0 && wider + work_by_width[widest] <= kMinorShare * total) {
    wider += work_by_width[widest--];
  }
  shape.width = int64_t{1} << widest;
  // Of narrow numbers more are computed at once.
  shape.cost = cost * static_cast<double>(std::min<int64_t>(shape.width, 4)) / 4;
  for (const KernelOutput& output : body.outputs) {
    for (const KernelInput& input : body.inputs) {
      shape.in_place |= cx.memory.Coalesced(input.value, output.value);
    }
  }
  return shape;
}

KernelDraft NewDraft(LowerContext& cx, const KernelBody& body) {
  KernelDraft draft(body.instruction->name(), cx.program, cx.memory, cx.target, &cx.value_ranges);
  if (cx.in_condition) draft.elements().short_circuit = true;
  draft.elements().disabled = cx.disabled;
  draft.elements().lowered = body.instruction;
  return draft;
}

void Finish(LowerContext& cx, KernelDraft& draft, const KernelBody& body, Steps& steps) {
  steps.push_back(draft.Finish(cx.kernels, body.instruction->SourceLocation()));
}

}  // namespace weft::compiler
