// Updates of a slice (dynamic-update-slice): in place where the array may be overwritten, else on a
// copy.
#include <algorithm>
#include <utility>
#include <vector>

#include "compiler/lower/table.h"

namespace weft::compiler {

using hlo::Instruction;
using HloOp = hlo::Op;

namespace {

// The input that is updated; none if the kernel computes the array.
const KernelInput* UpdatedInput(const KernelBody& body) {
  const Instruction* below = body.outputs[0].inside->operand(0);
  auto input = std::find_if(body.inputs.begin(), body.inputs.end(),
                            [&](const KernelInput& in) { return in.inside == below; });
  return input == body.inputs.end() ? nullptr : &*input;
}

Decision MatchUpdate(Subject& subject) {
  const KernelBody& body = subject.body();
  if (body.outputs.size() != 1) return Refuse("the kernel has other results besides");
  const KernelInput* input = UpdatedInput(body);
  if (input == nullptr) return Refuse("the updated array is computed in the same kernel");
  const Instruction& root = *body.outputs[0].inside;
  if (subject.cx.memory.Coalesced(input->value, body.outputs[0].value)) {
    return Take("the array is updated in place");
  }
  // One loop over all of it reads less than a copy and the update.
  bool most = root.operand(1)->shape().elements() * 2 > root.shape().elements();
  if (most) return Refuse("most of the array is new, and it cannot be updated in place");
  return Take("a copy of the array is updated");
}

Status LowerUpdate(Subject& subject) {
  LowerContext& cx = subject.cx;
  const KernelBody& body = subject.body();
  const Instruction &root = *body.outputs[0].inside, &slice = *root.operand(1);
  const Instruction* below = root.operand(0);
  MemValue result = body.outputs[0].value;
  const KernelInput* input = UpdatedInput(body);
  Copy(cx, input->value, result, "the updated array", root, subject.steps);
  KernelBody part = body;
  // The array below is an input only if something else in the kernel reads it.
  bool read = false;
  for (const Instruction* i : body.members) {
    for (int64_t k = 0; k < i->operand_count(); ++k) {
      read |= i->operand(k) == below && !(i == &root && k == 0);
    }
  }
  if (!read) part.inputs.erase(part.inputs.begin() + (input - body.inputs.data()));
  KernelDraft draft = NewDraft(cx, part);
  draft.Declare(part.inputs, part.outputs);
  ElementContext& e = draft.elements();
  LoopShape shape = ShapeOf(cx, part, slice.shape().dims());
  shape.flat = false;
  auto place = [&](const Index& index) -> Result<Coord> {
    Index to = Coordinates(e, slice.shape().dims(), index);
    for (int64_t d = 0; d < root.shape().rank(); ++d) {
      int64_t room = root.shape().dim(d) - slice.shape().dim(d);
      if (room == 0) continue;
      Coord& c = to.coords[static_cast<size_t>(d)];
      c = AddCoords(e, c, TRY(EmitStart(e, *root.operand(d + 2), room)));
    }
    return LinearCoord(e, root.shape().dims(), to);
  };
  auto store = [&](Coord at, const Element& value) {
    StoreAt(e, draft.MemoryOf(result), root.shape().dtype(), at, value);
  };
  if (IsStraightUpdate(root, body.members)) {
    // What is stored may be read for another element: all are computed first.
    std::vector<std::pair<Coord, Element>> stores;
    for (int64_t n = 0; n < slice.shape().elements(); ++n) {
      Index index;
      index.is_linear = true;
      index.linear = ConstantCoord(e, n);
      Element value = TRY(EmitElement(e, slice, index));
      stores.emplace_back(TRY(place(index)), value);
    }
    for (const auto& [at, value] : stores) store(at, value);
  } else {
    TRY(draft.ForEach(shape, [&](const Index& index) -> Status {
      Element value = TRY(EmitElement(e, slice, index));
      store(TRY(place(index)), value);
      return {};
    }));
  }
  Finish(cx, draft, part, subject.steps);
  return {};
}

}  // namespace

extern constinit const LoweringRow kUpdate = {
    "update", {HloOp::kDynamicUpdateSlice}, MatchUpdate, LowerUpdate};

}  // namespace weft::compiler
