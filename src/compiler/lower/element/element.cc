// Scalar and vector code generation for one element (expression trees), with local CSE by block.
#include "compiler/lower/element/element.h"

#include "compiler/lower/element/elementwise.h"
#include "compiler/lower/element/ops.h"
#include "hlo/computation.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Instruction;
using HloOp = hlo::Op;

namespace {

constexpr int kMaxDepth = 2 * program::CodeBounds::kMembers;  // of nested element computations
// Where elementwise chains are no longer walked by recursion.
constexpr int kChainDepth = program::WorkBounds::kPath / 2;

// The instruction of a fused computation that the fusion, or a leaf of it, is.
const Instruction& EnterFusion(ElementContext& e, const Instruction& fusion, int64_t leaf) {
  const hlo::Computation& called = *fusion.attrs<hlo::FusionAttrs>().calls;
  for (const Instruction* parameter : called.parameters()) {
    e.arguments[parameter] = fusion.operand(parameter->parameter_number());
  }
  return fusion.shape().IsTuple() ? *called.root()->operand(leaf) : *called.root();
}

Result<Element> EmitConstant(ElementContext& e, const Instruction& constant, const Index& index) {
  const Literal& literal = constant.literal();
  if (!literal.IsValid()) return Unimplemented("constant: its value was left out of the text");
  if (literal.size() == 1) return ConstantElement(e, literal, 0);
  // Small ones as a chain of selects would be long; bound ones are read from memory.
  Coord at = LinearCoord(e, constant.shape().dims(), index);
  if (auto i = e.b.IntConstant(at.base); i && at.step == 0) return ConstantElement(e, literal, *i);
  return Unimplemented("constant: not bound to memory");
}

// Elementwise ops below this one at the same index, operands first: a long chain of them is walked
// here and not by recursion.
Status EmitChain(ElementContext& e, const Instruction& instruction, const Index& index) {
  struct Place {
    const Instruction* at;
    int64_t next;  // operand
  };
  std::vector<Place> stack = {{&instruction, 0}};
  while (true) {
    Place& top = stack.back();
    if (top.next == top.at->operand_count()) {
      if (stack.size() == 1) return {};
      const Instruction* done = top.at;
      stack.pop_back();
      TRY(EmitElement(e, *done, index));
      continue;
    }
    const Instruction* operand = top.at->operand(top.next++);
    bool chained = hlo::IsElementwise(operand->op()) && !e.bound.contains(operand) &&
                   operand->shape().IsScalar() == instruction.shape().IsScalar();
    if (chained && e.FindCached(*operand, index) == nullptr) stack.push_back({operand, 0});
  }
}

Result<Element> EmitUncached(ElementContext& e, const Instruction& instruction,
                             const Index& index) {
  const Shape& shape = instruction.shape();
  if (auto it = e.bound.find(&instruction); it != e.bound.end()) {
    auto place = e.places.find(&instruction);
    Coord at = place == e.places.end() ? LinearCoord(e, shape.dims(), index) : place->second(index);
    if (auto known = TRY(EmitKnown(e, instruction, at))) return *known;
    return LoadAt(e, it->second, shape.dtype(), at);
  }
  HloOp op = instruction.op();
  if (auto it = e.arguments.find(&instruction); it != e.arguments.end()) {
    return EmitElement(e, *it->second, index);
  }
  if (e.short_circuit && IsShortCircuited(e, instruction))
    return EmitShortCircuit(e, instruction, index);
  if (op == HloOp::kSelect && e.value_ranges != nullptr && shape.elements() == 1) {
    std::optional<bool> first = e.value_ranges->Outcome(*instruction.operand(0));
    if (first) return EmitElement(e, *instruction.operand(*first ? 1 : 2), index);
  }
  if (op == HloOp::kSelect && e.lanes > 1) {
    if (auto chosen = TRY(EmitOneSide(e, instruction, index))) return *chosen;
    if (auto chosen = TRY(EmitLeastOf(e, instruction, index))) return *chosen;
  }
  if (hlo::IsElementwise(op)) {
    std::vector<Element> args;
    for (const Instruction* operand : instruction.operands()) {
      // select and clamp take scalars beside arrays.
      bool scalar = operand->shape().IsScalar() && !shape.IsScalar();
      args.push_back(TRY(EmitElement(e, *operand, scalar ? Index() : index)));
    }
    return EmitElementwise(e, instruction, args);
  }
  switch (op) {
    case HloOp::kConstant: return EmitConstant(e, instruction, index);
    case HloOp::kIota: {
      int64_t d = instruction.attrs<hlo::IotaAttrs>().iota_dimension;
      DType part = RealType(shape.dtype());
      DType integer = FitsS32(shape.dim(d)) ? DType::kS32 : DType::kS64;
      Coord at = CoordinateAt(e, shape.dims(), index, static_cast<size_t>(d));
      ValueId value = LaneValue(e, at, integer);
      Element element{RoundToStorage(e.b, e.b.Cast(value, program::ComputeType(part)), part), -1};
      if (IsComplex(shape.dtype())) element.im = e.b.Number(0, e.b.type(element.re));
      return element;
    }
    case HloOp::kPad: return EmitPad(e, instruction, index);
    case HloOp::kConcatenate: return EmitConcatenate(e, instruction, index);
    case HloOp::kGather: return EmitGather(e, instruction, index);
    case HloOp::kDynamicSlice: return EmitDynamicSlice(e, instruction, index);
    case HloOp::kDynamicUpdateSlice: return EmitDynamicUpdateSlice(e, instruction, index);
    case HloOp::kReduce: return EmitReduce(e, instruction, 0, index);
    case HloOp::kReduceWindow: return EmitReduceWindow(e, instruction, 0, index);
    case HloOp::kDot: return EmitDot(e, instruction, index);
    case HloOp::kBitcastConvert: return EmitBitcastConvert(e, instruction, index);
    case HloOp::kFusion: return EmitElement(e, EnterFusion(e, instruction, 0), index);
    case HloOp::kGetTupleElement: {
      return EmitLeaf(e, *instruction.operand(0), instruction.tuple_index(), index);
    }
    default: return EmitMoved(e, instruction, index);
  }
}

}  // namespace

Result<Element> EmitElement(ElementContext& e, const Instruction& instruction, const Index& index) {
  if (const Element* known = e.FindCached(instruction, index)) return *known;
  if (e.depth > 0 && e.depth % kChainDepth == 0 && hlo::IsElementwise(instruction.op()) &&
      !e.bound.contains(&instruction)) {
    TRY(EmitChain(e, instruction, index));
  }
  if (++e.depth > kMaxDepth) {
    return Unimplemented(hlo::Mnemonic(instruction.op()), ": expression too deep to lower");
  }
  int64_t block = e.b.block();
  Element value = TRY(EmitUncached(e, instruction, index));
  --e.depth;
  e.cache[&instruction].push_back({index, value, block, e.lanes});
  return value;
}

Result<Element> EmitLeaf(ElementContext& e, const Instruction& instruction, int64_t leaf,
                         const Index& index) {
  switch (instruction.op()) {
    case HloOp::kReduce: return EmitReduce(e, instruction, leaf, index);
    case HloOp::kReduceWindow: return EmitReduceWindow(e, instruction, leaf, index);
    case HloOp::kTuple: return EmitElement(e, *instruction.operand(leaf), index);
    case HloOp::kFusion: return EmitElement(e, EnterFusion(e, instruction, leaf), index);
    default:
      return Unimplemented(hlo::Mnemonic(instruction.op()), ": no native lowering of its tuple");
  }
}

Result<std::vector<Element>> CallComputation(ElementContext& e, const hlo::Computation& computation,
                                             std::span<const Element> arguments) {
  // The computation's instructions stand for other values in every call.
  for (const Instruction* instruction : computation) e.cache.erase(instruction);
  for (size_t i = 0; i < arguments.size(); ++i) {
    e.SetValue(*computation.parameter(static_cast<int64_t>(i)), arguments[i]);
  }
  std::vector<Element> results;
  const Instruction* root = computation.root();
  if (root->op() == HloOp::kTuple) {
    for (const Instruction* operand : root->operands()) {
      results.push_back(TRY(EmitElement(e, *operand, Index())));
    }
  } else {
    results.push_back(TRY(EmitElement(e, *root, Index())));
  }
  for (const Instruction* instruction : computation) e.cache.erase(instruction);
  return results;
}

}  // namespace weft::compiler
