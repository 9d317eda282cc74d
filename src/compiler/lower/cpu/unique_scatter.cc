// Vectorization of scatters whose indices are unique (x.at[1::2].set(y)): a vector of updates at
// once, as strided or scattered stores, where the general way takes one after the other.
#include <algorithm>

#include "compiler/lower/scatter_share.h"
#include "compiler/lower/table.h"
#include "program/target_facts.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Access;
using program::Op;
using HloOp = hlo::Op;

namespace {

// Whether elements that follow each other in the updates are of one window.
bool RunsAlongWindows(const Instruction& scatter) {
  const Shape& updates = scatter.operand(2)->shape();
  int64_t minor = updates.rank() - 1;
  while (minor > 0 && updates.dim(minor) == 1) --minor;
  const auto& window = scatter.attrs<hlo::ScatterAttrs>().update_window_dims;
  return minor >= 0 && updates.dim(minor) > 1 && std::ranges::find(window, minor) != window.end();
}

Decision MatchUniqueScatter(Subject& subject) {
  const Instruction& scatter = ScatterOf(subject.instruction);
  const auto& attrs = scatter.attrs<hlo::ScatterAttrs>();
  if (scatter.operand_count() != 3) return Refuse("several arrays are updated");
  if (!attrs.unique_indices) return Refuse("updates may meet");
  ScatterDims dims(scatter);
  if (!dims.MeetWhole(scatter)) return Refuse("windows may meet in part");
  if (RunsAlongWindows(scatter)) return Refuse("windows are runs of memory");
  if (!attrs.input_batching_dims.empty()) return Refuse("dimensions of a batch say where, too");
  DType dtype = scatter.shape().dtype();
  if (IsComplex(dtype) || ByteWidth(dtype) < 4) return Refuse("lanes of this type are not stored");
  if (dims.updates < program::TargetFacts::kUsualLanes) return Refuse("there are few updates");
  return Take("updates never meet: as many at once as there are lanes");
}

// Where an element of the updates goes, and whether that is inside of the array (-1: always).
struct Place {
  Index at;
  ValueId inside = -1;
};

Result<Place> PlaceOf(ElementContext& e, const Instruction& scatter, const ScatterDims& dims,
                      const Index& update) {
  const auto& attrs = scatter.attrs<hlo::ScatterAttrs>();
  const Instruction& indices = *scatter.operand(1);
  const Shape& shape = scatter.shape();
  auto at = [&](const Dims& list, size_t k) { return update.coords[static_cast<size_t>(list[k])]; };
  Place place;
  place.at.coords.resize(static_cast<size_t>(shape.rank()), ConstantCoord(e, 0));
  for (size_t w = 0; w < dims.covered.size(); ++w) {
    place.at.coords[static_cast<size_t>(dims.covered[w])] = at(dims.window, w);
  }
  for (size_t k = 0; k < attrs.scatter_dims_to_operand_dims.size(); ++k) {
    Index from;
    size_t next = 0;
    for (int64_t d = 0; d < indices.shape().rank(); ++d) {
      bool is_vector = d == attrs.index_vector_dim;
      from.coords.push_back(is_vector ? ConstantCoord(e, static_cast<int64_t>(k))
                                      : at(dims.scatter, next++));
    }
    // Windows have one element along it.
    const int64_t d = attrs.scatter_dims_to_operand_dims[k], size = shape.dim(d);
    Coord c = TRY(EmitCoord(e, indices, from));
    auto check = [&](Op op, int64_t bound) {
      bool wide = e.b.type(c.base).lanes > 1 || (c.step != 0 && e.lanes > 1);
      ValueId x = wide ? LaneValue(e, c, DType::kS64) : c.base;
      ValueId ok = e.b.Emit(op, {x, e.b.Int(bound, e.b.type(x))});
      if (place.inside >= 0) MatchLanes(e, place.inside, ok);
      place.inside = place.inside < 0 ? ok : e.b.Emit(Op::kAnd, {place.inside, ok});
    };
    if (c.low < 0) check(Op::kGe, 0);
    if (c.high >= size) check(Op::kLt, size);
    place.at.coords[static_cast<size_t>(d)] = ClampCoord(e, c, 0, size - 1);
  }
  return place;
}

Status LowerUniqueScatter(Subject& subject) {
  LowerContext& cx = subject.cx;
  const Instruction& scatter = ScatterOf(subject.instruction);
  const hlo::Computation& combine = *scatter.attrs<hlo::ScatterAttrs>().to_apply;
  ScatterDims dims(scatter);
  KernelBody body = ScatterBody(cx, subject.instruction, scatter);
  CopyScattered(cx, subject.instruction, scatter, body, subject.steps);
  if (!HasUpdates(scatter)) return {};
  KernelDraft draft = NewDraft(cx, body);
  draft.Declare(body.inputs, {});
  auto memory = draft.DeclareBuffer(cx.Buffer(body.outputs[0].value), Access::kReadWrite);
  ElementContext& e = draft.elements();
  const Dims& sizes = scatter.operand(2)->shape().dims();
  LoopShape shape = ShapeOf(cx, body, sizes);
  shape.flat = false;
  shape.in_place = true;
  const DType dtype = scatter.shape().dtype();
  TRY(draft.ForEach(shape, [&](const Index& index) -> Status {
    Index at = Coordinates(e, sizes, index);
    Place place = TRY(PlaceOf(e, scatter, dims, at));
    Coord to = LinearCoord(e, scatter.shape().dims(), place.at);
    Element value = TRY(EmitElement(e, *scatter.operand(2), at));
    bool overwrites = combine.root()->IsParameter() && combine.root()->parameter_number() == 1;
    if (!overwrites) {
      const Element args[] = {LoadAt(e, memory, dtype, to), value};
      value = TRY(CallComputation(e, combine, args))[0];
    }
    StoreAt(e, memory, dtype, to, value, place.inside);
    return {};
  }));
  Finish(cx, draft, body, subject.steps);
  return {};
}

}  // namespace

extern constinit const LoweringRow kUniqueScatter = {
    "scatter in lanes", {HloOp::kScatter}, MatchUniqueScatter, LowerUniqueScatter};

}  // namespace weft::compiler
