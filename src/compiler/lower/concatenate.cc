// Concatenation: each operand by a loop of its own, or by a copy.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "compiler/lower/table.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Instruction;
using HloOp = hlo::Op;

namespace {

// Of a kernel that joins arrays: what computes the one that is joined, and nothing else.
KernelBody PartOf(const KernelBody& body, const Instruction& operand,
                  const std::unordered_map<const Instruction*, size_t>& input_numbers) {
  bool fused = body.instruction->op() == HloOp::kFusion;
  std::vector<const Instruction*> reached = {&operand};
  std::unordered_set<const Instruction*> seen = {&operand};
  std::vector<size_t> inputs;
  for (size_t at = 0; at < reached.size(); ++at) {
    auto input = input_numbers.find(reached[at]);
    if (input != input_numbers.end()) inputs.push_back(input->second);
    if (!fused || reached[at]->IsParameter()) continue;
    for (const Instruction* i : reached[at]->operands()) {
      if (seen.insert(i).second) reached.push_back(i);
    }
  }
  KernelBody part;
  part.instruction = body.instruction;
  part.outputs = body.outputs;
  std::sort(inputs.begin(), inputs.end());
  for (size_t k : inputs) part.inputs.push_back(body.inputs[k]);
  for (const Instruction* i : reached) {
    if (fused && !i->IsParameter()) part.members.push_back(i);
  }
  return part;
}

// An input of the kernel, or a part of one in one piece: where that begins, in bytes; none: it has
// to be computed.
std::optional<int64_t> CopiedFrom(
    const Instruction& operand,
    const std::unordered_map<const Instruction*, size_t>& input_numbers) {
  if (input_numbers.contains(&operand)) return 0;
  if (operand.op() != HloOp::kSlice || !input_numbers.contains(operand.operand(0))) {
    return std::nullopt;
  }
  return StartOfPart(operand);
}

// Whether operands lie one behind the other, and are so many and so small that a copy of each is
// better than code for each.
bool IsJoinedByCopies(const Instruction& concatenate) {
  constexpr int64_t kManyOperands = program::CodeBounds::kTerms;  // operands
  // Bytes of one: half of a first-level cache.
  constexpr int64_t kSmallBytes = program::TargetFacts::kFirstLevelBytes / 2;
  const Shape& shape = concatenate.shape();
  int64_t rows = 1, d = concatenate.attrs<hlo::DimensionsAttrs>().dimensions[0];
  for (int64_t k = 0; k < d; ++k) rows *= shape.dim(k);
  return rows == 1 && concatenate.operand_count() > kManyOperands && BitWidth(shape.dtype()) >= 8 &&
         shape.ByteSize() / concatenate.operand_count() <= kSmallBytes;
}

// Each operand by a loop of its own, so that nothing has to be chosen inside.
Status LowerConcatenate(Subject& subject) {
  LowerContext& cx = subject.cx;
  const KernelBody& body = subject.body();
  Steps& steps = subject.steps;
  const Instruction& root = *body.outputs[0].inside;
  int64_t d = root.attrs<hlo::DimensionsAttrs>().dimensions[0], offset = 0;
  std::unordered_map<const Instruction*, size_t> input_numbers;
  for (size_t k = 0; k < body.inputs.size(); ++k) input_numbers.emplace(body.inputs[k].inside, k);
  bool copies = IsJoinedByCopies(root);
  int64_t bytes_before = 0;
  for (const Instruction* operand : root.operands()) {
    if (operand->shape().elements() == 0) continue;
    int64_t bytes = operand->shape().elements() * ByteWidth(operand->shape().dtype());
    std::optional<int64_t> start = CopiedFrom(*operand, input_numbers);
    if (copies && start) {
      const Instruction* from = input_numbers.contains(operand) ? operand : operand->operand(0);
      CopyInto(cx, cx.Buffer(body.inputs[input_numbers.at(from)].value), bytes,
               cx.Buffer(body.outputs[0].value), bytes_before, *body.instruction, steps, *start);
      bytes_before += bytes, offset += operand->shape().dim(d);
      continue;
    }
    bytes_before += bytes;
    KernelDraft draft = NewDraft(cx, body);
    KernelBody part = PartOf(body, *operand, input_numbers);
    draft.Declare(part.inputs, part.outputs);
    ElementContext& e = draft.elements();
    LoopShape shape = ShapeOf(cx, part, operand->shape().dims());
    shape.flat = false;
    shape.cuts =
        MinorSplitPoints(part.members, std::vector<const Instruction*>{operand}, shape.dims);
    TRY(draft.ForEach(shape, [&](const Index& index) -> Status {
      Element value = TRY(EmitElement(e, *operand, index));
      Index to = Coordinates(e, operand->shape().dims(), index);
      Coord& c = to.coords[static_cast<size_t>(d)];
      c = AddConstant(e, c, offset);
      StoreAt(e, draft.MemoryOf(part.outputs[0].value), root.shape().dtype(),
              LinearCoord(e, root.shape().dims(), to), value);
      return {};
    }));
    Finish(cx, draft, part, steps);
    offset += operand->shape().dim(d);
  }
  return {};
}

Decision MatchConcatenate(Subject& subject) {
  if (subject.body().outputs.size() != 1) return Refuse("the kernel has other results besides");
  return Take("nothing has to be chosen in a loop for each operand");
}

}  // namespace

extern constinit const LoweringRow kConcatenate = {
    "loop for each operand", {HloOp::kConcatenate}, MatchConcatenate, LowerConcatenate};

}  // namespace weft::compiler
