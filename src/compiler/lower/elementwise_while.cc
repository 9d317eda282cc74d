// Loops over large arrays, element by element, as one kernel: the rounds are inside.
#include "compiler/in_place.h"
#include "compiler/lower/lowering.h"
#include "compiler/trip_count.h"

namespace weft::compiler {

using hlo::Instruction;
using program::LoopKind;

Status Lowering::LowerElementwiseLoop(const Instruction& loop, Steps& steps) {
  const hlo::Computation& computation = *loop.attrs<hlo::WhileAttrs>().body;
  const Instruction& root = *computation.root();
  std::vector<bool> passes = PassedThrough(loop);
  const auto init = memory_.Leaves(*loop.operand(0));
  const auto& results = memory_.Leaves(loop);
  KernelBody body;
  body.instruction = &loop;
  std::vector<std::vector<const Instruction*>> gets(passes.size());  // of the state, in the body
  for (const Instruction* i : computation) {
    if (i->IsParameter() || i == &root) continue;
    if (i->op() == hlo::Op::kGetTupleElement) {
      gets[static_cast<size_t>(i->tuple_index())].push_back(i);
    } else {
      body.members.push_back(i);
    }
  }
  Dims dims;
  for (size_t k = 0; k < passes.size(); ++k) {
    for (const Instruction* get : gets[k]) body.inputs.push_back({get, init[k]});
    const Instruction& next = *root.operand(static_cast<int64_t>(k));
    if (passes[k] || next.shape().IsScalar()) continue;
    dims = next.shape().dims();
    body.outputs.push_back({&next, results[k]});
  }
  KernelDraft draft = NewDraft(body);
  draft.Declare(body.inputs, body.outputs);
  KernelBuilder& b = draft.builder();
  ElementEmitter& e = draft.elements();
  int64_t trips = *TripCount(loop);
  LoopShape shape = ShapeOf(body, dims);
  shape.cost *= static_cast<double>(trips);
  TRY(draft.ForEach(shape, [&](const Index& index) -> Status {
    // What changes from round to round: one value, or one for each lane.
    auto pack = [&](Element element, bool scalar, KernelBuilder::Carry& values) {
      int lanes = scalar ? 1 : e.lanes();
      for (ValueId v : {element.re, element.im}) {
        if (v >= 0) values.push_back(b.type(v).lanes == lanes ? v : b.Splat(v, lanes));
      }
    };
    KernelBuilder::Carry carry, next;
    auto at = [&](const Instruction& i) { return i.shape().IsScalar() ? Index() : index; };
    for (size_t k = 0; k < passes.size(); ++k) {
      if (passes[k]) continue;
      const Shape& state = root.operand(static_cast<int64_t>(k))->shape();
      Element first =
          gets[k].empty() ? e.Zero(state.dtype()) : TRY(e.Emit(*gets[k][0], at(*gets[k][0])));
      pack(first, state.IsScalar(), carry);
    }
    std::vector<ValueId> inside =
        b.BeginLoop(LoopKind::kSerial, b.Int(0), b.Int(trips), b.Int(1), carry);
    auto unpack = [&](std::span<const ValueId> values, size_t& from, const Shape& state) {
      Element element{values[from++], -1};
      if (IsComplex(state.dtype())) element.im = values[from++];
      return element;
    };
    size_t from = 1;
    for (size_t k = 0; k < passes.size(); ++k) {
      if (passes[k]) continue;
      Element value = unpack(inside, from, root.operand(static_cast<int64_t>(k))->shape());
      for (const Instruction* get : gets[k]) e.SetValue(*get, value);
    }
    for (size_t k = 0; k < passes.size(); ++k) {
      if (passes[k]) continue;
      const Instruction& made = *root.operand(static_cast<int64_t>(k));
      pack(TRY(e.Emit(made, at(made))), made.shape().IsScalar(), next);
    }
    std::vector<ValueId> after = b.End(next);
    from = 0;
    for (size_t k = 0; k < passes.size(); ++k) {
      if (passes[k]) continue;
      const Shape& state = root.operand(static_cast<int64_t>(k))->shape();
      Element value = unpack(after, from, state);
      if (state.IsScalar()) continue;
      e.StoreAt(draft.MemoryOf(results[k]), state.dtype(), e.Linear(dims, index), value);
    }
    return {};
  }));
  Finish(draft, body, steps);
  return {};
}

}  // namespace weft::compiler
