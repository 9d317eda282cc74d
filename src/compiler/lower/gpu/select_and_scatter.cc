// select-and-scatter (the gradient of pooling) without threads that meet: a first kernel finds what
// each window selects, a second one collects for each element what the windows that cover it give,
// in the order of the windows.
#include <algorithm>

#include "base/str.h"
#include "compiler/lower/indexed.h"
#include "compiler/lower/table.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Access;
using program::LoopKind;
using program::Op;

namespace {

Decision MatchSelectThenCollect(Subject& subject) {
  if (subject.cx.serial) return Refuse("part of a loop that one thread runs");
  if (subject.instruction.shape().elements() == 0) return Refuse("the result has no elements");
  return Take("elements collect from the windows that select them");
}

// The windows along one dimension that may cover coordinate c: [first, last], none if empty.
struct Covering {
  ValueId first, last;
};
Covering CoveringWindows(KernelBuilder& b, const hlo::WindowDim& w, ValueId c, int64_t windows) {
  int64_t reach = (w.size - 1) * w.window_dilation;
  // first = ceil((c + pad - reach) / stride) of what is not negative.
  ValueId from = b.Max(b.Add(c, b.Int(w.pad_low - reach + w.stride - 1)), b.Int(0));
  ValueId to = b.Add(c, b.Int(w.pad_low));
  return {b.Div(from, b.Int(w.stride)), b.Min(b.Div(to, b.Int(w.stride)), b.Int(windows - 1))};
}

class SelectThenCollect {
 public:
  explicit SelectThenCollect(Subject& subject)
      : subject_(subject), cx_(subject.cx), op_(subject.instruction) {
    body_.instruction = &op_;
    body_.members = {&op_};
    for (const Instruction* i : op_.operands()) {
      if (i->IsConstant() && i->literal().size() == 1) continue;
      body_.inputs.push_back({i, cx_.memory.Leaf(*i)});
    }
    body_.outputs = {{&op_, cx_.memory.Leaf(op_)}};
  }

  Status Lower() {
    const Shape& source = op_.operand(1)->shape();
    program::BufferId selected = cx_.Scratch(Shape(DType::kS64, source.dims()), "selected");
    KernelDraft select(StrCat(op_.name(), ".select"), cx_.program, cx_.memory, cx_.target);
    select.Declare(body_.inputs, {});
    KernelBuilder::MemoryId to = select.DeclareBuffer(selected, Access::kWrite);
    TRY(select.ForEachOnGrid(source.dims(), false, [&](const Index& at) -> Status {
      ValueId place = TRY(EmitSelectedPlace(select, op_, at));
      select.builder().Store(to, LinearCoord(select.elements(), source.dims(), at).base, place);
      return {};
    }));
    Finish(cx_, select, body_, subject_.steps);
    return Collect(selected);
  }

 private:
  Status Collect(program::BufferId selected) {
    const Shape& shape = op_.shape();
    KernelDraft draft = NewDraft(cx_, body_);
    draft.Declare(body_.inputs, body_.outputs);
    from_ = draft.DeclareBuffer(selected, Access::kRead);
    ElementContext& e = draft.elements();
    TRY(draft.ForEachOnGrid(shape.dims(), false, [&](const Index& at) -> Status {
      Coord here = LinearCoord(e, shape.dims(), at);
      Element sum = TRY(EmitElement(e, *op_.operand(2), Index()));
      Index window;
      sum = TRY(Along(draft, 0, at, here, window, sum));
      StoreAt(e, draft.MemoryOf(body_.outputs[0].value), shape.dtype(), here, sum);
      return {};
    }));
    Finish(cx_, draft, body_, subject_.steps);
    return {};
  }

  // Loops over the windows along dimension d and those inside.
  Result<Element> Along(KernelDraft& draft, size_t d, const Index& at, const Coord& here,
                        Index& window, Element sum) {
    KernelBuilder& b = draft.builder();
    const auto& attrs = op_.attrs<hlo::SelectAndScatterAttrs>();
    const Dims& windows = op_.operand(1)->shape().dims();
    if (d == windows.size()) return Take(draft, here, window, sum);
    Covering range = CoveringWindows(b, attrs.window.dims[d], at.coords[d].base, windows[d]);
    KernelBuilder::Carry carry = {sum.re};
    if (sum.im >= 0) carry.push_back(sum.im);
    std::vector<ValueId> inside =
        b.BeginLoop(LoopKind::kSerial, range.first, b.Add(range.last, b.Int(1)), b.Int(1), carry);
    window.coords.push_back({inside[0], 0, 1, 0, windows[d] - 1});
    Element next = TRY(
        Along(draft, d + 1, at, here, window, {inside[1], sum.im >= 0 ? inside[2] : ValueId{-1}}));
    window.coords.pop_back();
    carry = {next.re};
    if (next.im >= 0) carry.push_back(next.im);
    std::vector<ValueId> after = b.End(carry);
    return Element{after[0], sum.im >= 0 ? after[1] : ValueId{-1}};
  }

  Result<Element> Take(KernelDraft& draft, const Coord& here, const Index& window, Element sum) {
    KernelBuilder& b = draft.builder();
    ElementContext& e = draft.elements();
    const Instruction& source = *op_.operand(1);
    ValueId place = b.Load(from_, LinearCoord(e, source.shape().dims(), window).base);
    b.BeginIf(b.Emit(Op::kEq, {place, here.base}));
    Element value = TRY(EmitElement(e, source, window));
    const auto& attrs = op_.attrs<hlo::SelectAndScatterAttrs>();
    Element next = TRY(CallComputation(e, *attrs.scatter, std::vector<Element>{sum, value}))[0];
    KernelBuilder::Carry yes = {next.re}, no = {sum.re};
    if (sum.im >= 0) {
      yes.push_back(next.im);
      no.push_back(sum.im);
    }
    b.BeginElse(yes);
    std::vector<ValueId> after = b.End(no);
    return Element{after[0], sum.im >= 0 ? after[1] : ValueId{-1}};
  }

  Subject& subject_;
  LowerContext& cx_;
  const Instruction& op_;
  KernelBody body_;
  KernelBuilder::MemoryId from_ = -1;
};

Status LowerSelectThenCollect(Subject& subject) {
  return SelectThenCollect(subject).Lower();
}

}  // namespace

extern constinit const LoweringRow kSelectThenCollect = {"select then collect",
                                                         {hlo::Op::kSelectAndScatter},
                                                         MatchSelectThenCollect,
                                                         LowerSelectThenCollect};

}  // namespace weft::compiler
