// select-and-scatter: for every window one element, chosen by the program, is updated.
#include "compiler/lower/indexed.h"

#include "base/str.h"
#include "compiler/lower/table.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Access;
using program::LoopKind;
using program::Op;

Result<ValueId> EmitSelectedPlace(KernelDraft& draft, const Instruction& op, const Index& at) {
  ElementContext& e = draft.elements();
  KernelBuilder& b = draft.builder();
  const auto& attrs = op.attrs<hlo::SelectAndScatterAttrs>();
  const Instruction& operand = *op.operand(0);
  const Shape& shape = op.shape();
  int64_t total = 1;
  Dims sizes;
  for (const hlo::WindowDim& w : attrs.window.dims) {
    sizes.push_back(w.size);
    total *= w.size;
  }
  // The place of the best element so far (-1: none yet) and its value.
  Element zero = ZeroElement(e, shape.dtype());
  KernelBuilder::Carry carry = {b.Int(-1), zero.re};
  if (zero.im >= 0) carry.push_back(zero.im);
  std::vector<ValueId> inside =
      b.BeginLoop(LoopKind::kSerial, b.Int(0), b.Int(total), b.Int(1), carry);
  Element best{inside[2], zero.im >= 0 ? inside[3] : -1};
  Index inner;
  inner.is_linear = true;
  inner.linear = {inside[0], 0, 1};
  Index k = Coordinates(e, sizes, inner), from;
  ValueId valid = b.Pred(true);
  for (size_t d = 0; d < sizes.size(); ++d) {
    const hlo::WindowDim& w = attrs.window.dims[d];
    Coord c = AddCoords(e, ScaleCoord(e, at.coords[d], w.stride),
                        ScaleCoord(e, k.coords[d], w.window_dilation));
    c = AddConstant(e, c, -w.pad_low);
    ValueId low = b.Emit(Op::kGe, {c.base, b.Int(0)});
    ValueId high = b.Emit(Op::kLt, {c.base, b.Int(shape.dims()[d])});
    valid = b.Emit(Op::kAnd, {valid, b.Emit(Op::kAnd, {low, high})});
    from.coords.push_back(ClampCoord(e, c, 0, shape.dims()[d] - 1));
  }
  Element value = TRY(EmitElement(e, operand, from));
  std::vector<Element> keeps =
      TRY(CallComputation(e, *attrs.select, std::vector<Element>{best, value}));
  ValueId first = b.Emit(Op::kLt, {inside[1], b.Int(0)});
  ValueId better = b.Emit(Op::kOr, {first, b.Emit(Op::kNot, {keeps[0].re})});
  ValueId takes = b.Emit(Op::kAnd, {valid, better});
  Coord place = LinearCoord(e, shape.dims(), from);
  Element chosen = SelectElement(e, takes, value, best);
  KernelBuilder::Carry yield = {b.Select(takes, place.base, inside[1]), chosen.re};
  if (zero.im >= 0) yield.push_back(chosen.im);
  return b.End(yield)[0];
}

namespace {

Decision MatchSelectAndScatter(Subject&) {
  return Take("one window after the other");
}

// For every window: the chosen element gets the source's value scattered to it.
Status LowerSelectAndScatter(Subject& subject) {
  LowerContext& cx = subject.cx;
  const Instruction& op = subject.instruction;
  Steps& steps = subject.steps;
  const auto& attrs = op.attrs<hlo::SelectAndScatterAttrs>();
  const Instruction &source = *op.operand(1), &init = *op.operand(2);
  const Shape& shape = op.shape();
  MemValue result = cx.memory.Leaf(op);
  KernelBody body;
  body.instruction = &op;
  body.members = {&op};
  for (const Instruction* i : op.operands()) {
    if (i->IsConstant() && i->literal().size() == 1) continue;
    body.inputs.push_back({i, cx.memory.Leaf(*i)});
  }
  body.outputs = {{&op, result}};
  {
    KernelDraft fill(StrCat(op.name(), ".init"), cx.program, cx.memory, cx.target);
    fill.Declare(body.inputs, body.outputs);
    LoopShape loop;
    loop.dims = shape.dims();
    loop.flat = true;
    loop.serial = cx.serial;
    loop.width = std::max<int64_t>(4, ByteWidth(shape.dtype()));
    ElementContext& e = fill.elements();
    TRY(fill.ForEach(loop, [&](const Index& index) -> Status {
      StoreAt(e, fill.MemoryOf(result), shape.dtype(), LinearCoord(e, shape.dims(), index),
              TRY(EmitElement(e, init, Index())));
      return {};
    }));
    Finish(cx, fill, body, steps);
  }
  KernelDraft draft = NewDraft(cx, body);
  draft.Declare(body.inputs, {});
  KernelBuilder::MemoryId out = draft.DeclareBuffer(cx.Buffer(result), Access::kReadWrite);
  ElementContext& e = draft.elements();
  KernelBuilder& b = draft.builder();
  int64_t windows = source.shape().elements();
  ValueId number = b.BeginLoop(LoopKind::kSerial, b.Int(0), b.Int(windows), b.Int(1))[0];
  Index linear;
  linear.is_linear = true;
  linear.linear = {number, 0, 1};
  Index at = Coordinates(e, source.shape().dims(), linear);
  ValueId chosen = TRY(EmitSelectedPlace(draft, op, at));
  b.BeginIf(b.Emit(Op::kGe, {chosen, b.Int(0)}));
  Element old = LoadAt(e, out, shape.dtype(), {chosen, 0, 1});
  Element add = TRY(EmitElement(e, source, at));
  std::vector<Element> sum =
      TRY(CallComputation(e, *attrs.scatter, std::vector<Element>{old, add}));
  StoreAt(e, out, shape.dtype(), {chosen, 0, 1}, sum[0]);
  b.End();
  b.End();
  Finish(cx, draft, body, steps);
  return {};
}

}  // namespace

extern constinit const LoweringRow kSelectAndScatter = {"select and scatter",
                                                        {hlo::Op::kSelectAndScatter},
                                                        MatchSelectAndScatter,
                                                        LowerSelectAndScatter};

}  // namespace weft::compiler
