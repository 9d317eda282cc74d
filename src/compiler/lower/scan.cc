// scan: a walk along one dimension with carried values, for bodies that work element by element.
#include <algorithm>

#include "compiler/analysis/scan_body.h"
#include "compiler/lower/table.h"

namespace weft::compiler {

using hlo::Instruction;
using program::LoopKind;

namespace {

Decision MatchScan(Subject&) {
  return Take("a walk along one dimension, lanes beside it");
}

Status LowerScan(Subject& subject) {
  LowerContext& cx = subject.cx;
  const Instruction& scan = subject.instruction;
  Steps& steps = subject.steps;
  const auto& attrs = scan.attrs<hlo::ScanAttrs>();
  int64_t dim = attrs.dimensions[0];
  size_t carries = static_cast<size_t>(attrs.num_carries);
  size_t inputs = static_cast<size_t>(scan.operand_count()) - carries;
  const auto& results = cx.memory.Leaves(scan);
  size_t outputs = results.size() - carries;
  if (inputs == 0) return Unimplemented("scan: no native lowering without inputs");
  Dims whole = scan.operand(0)->shape().dims(), slice = whole;
  slice.erase_at(static_cast<size_t>(dim));
  int64_t length = whole[static_cast<size_t>(dim)];
  if (!IsElementwiseScanBody(*attrs.to_apply, slice)) {
    return Unimplemented("scan: no native lowering of a body that is not elementwise");
  }
  KernelBody body = BodyOf(cx, scan);
  KernelDraft draft = NewDraft(cx, body);
  draft.Declare(body.inputs, body.outputs);
  ElementEmitter& e = draft.elements();
  KernelBuilder& b = draft.builder();
  LoopShape shape;
  shape.dims = slice;
  shape.serial = cx.serial;
  shape.cost = static_cast<double>(length) * static_cast<double>(attrs.to_apply->size());
  shape.scalar = dim == static_cast<int64_t>(whole.size()) - 1;  // lanes would be far apart
  for (const KernelInput& in : body.inputs) {
    shape.width = std::max(shape.width, ByteWidth(in.inside->shape().dtype()));
  }
  std::vector<bool> complex;
  for (size_t c = 0; c < carries; ++c) {
    complex.push_back(IsComplex(scan.operand(static_cast<int64_t>(inputs + c))->shape().dtype()));
  }
  auto store = [&](size_t k, const Index& index, Element value) {
    const Shape& to = cx.memory.shape(results[k]);
    e.StoreAt(draft.MemoryOf(results[k]), to.dtype(), e.Linear(to.dims(), index), value);
  };
  TRY(draft.ForEach(shape, [&](const Index& linear) -> Status {
    Index at = e.Coordinates(slice, linear);
    int lanes = e.lanes();
    auto wide = [&](ValueId v) { return b.type(v).lanes == lanes ? v : b.Splat(v, lanes); };
    KernelBuilder::Carry start;
    for (size_t c = 0; c < carries; ++c) {
      const Instruction& operand = *scan.operand(static_cast<int64_t>(inputs + c));
      Element x = TRY(e.Emit(operand, operand.shape().IsScalar() ? Index() : at));
      start.push_back(wide(x.re));
      if (complex[c]) start.push_back(wide(x.im));
    }
    std::vector<ValueId> inside =
        b.BeginLoop(LoopKind::kSerial, b.Int(0), b.Int(length), b.Int(1), start);
    Coord t{inside[0], 0, 1};
    if (attrs.is_reverse) t = e.AddConstant(e.Scale(t, -1), length - 1);
    Index full = at;
    full.coords.insert_at(static_cast<size_t>(dim), t);
    std::vector<Element> args;
    for (size_t i = 0; i < inputs; ++i) {
      args.push_back(TRY(e.Emit(*scan.operand(static_cast<int64_t>(i)), full)));
    }
    size_t next = 1;
    for (size_t c = 0; c < carries; ++c) {
      Element& x = args.emplace_back();
      x.re = inside[next++];
      if (complex[c]) x.im = inside[next++];
    }
    std::vector<Element> made = TRY(e.Call(*attrs.to_apply, args));
    for (size_t k = 0; k < outputs; ++k) store(k, full, made[k]);
    KernelBuilder::Carry yield;
    for (size_t c = 0; c < carries; ++c) {
      yield.push_back(wide(made[outputs + c].re));
      if (complex[c]) yield.push_back(wide(made[outputs + c].im));
    }
    std::vector<ValueId> after = b.End(yield);
    next = 0;
    for (size_t c = 0; c < carries; ++c) {
      Element last{after[next++], -1};
      if (complex[c]) last.im = after[next++];
      store(outputs + c, at, last);
    }
    return {};
  }));
  Finish(cx, draft, body, steps);
  return {};
}

}  // namespace

extern constinit const LoweringRow kScan = {"scan", {hlo::Op::kScan}, MatchScan, LowerScan};

}  // namespace weft::compiler
