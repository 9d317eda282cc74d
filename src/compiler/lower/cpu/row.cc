// Multi-pass row fusion (softmax, normalisation). Fusions of reductions along the minor dimensions
// with what is computed from their results and from the same rows (softmax, normalisation): one row
// at a time, in stages. A stage is one pass over the row; it ends with the results of reductions,
// which the next one uses as scalars.
#include "base/str.h"
#include "compiler/lower/row_plan.h"
#include "compiler/lower/table.h"

namespace weft::compiler {

using hlo::Instruction;
using HloOp = hlo::Op;

Index NarrowIndex(ElementEmitter& e, const RowSpace& space, const Shape& shape, const Index& row) {
  Index index;
  size_t next = 0;
  for (int64_t size : shape.dims()) {
    if (size == 1) {
      index.coords.push_back(e.Constant(0));
      continue;
    }
    while (space.wide[next] == 1) ++next;
    index.coords.push_back(row.coords[next++]);
  }
  return index;
}

namespace {

Decision MatchRows(Subject& subject) {
  if (!subject.row_space()) return Refuse("no reduction's rows are used again");
  return Take("what is made of a row's reductions is made while the row is in cache");
}

Status LowerRows(Subject& subject) {
  LowerContext& cx = subject.cx;
  const KernelBody& body = subject.body();
  const RowSpace& space = *subject.row_space();
  Steps& steps = subject.steps;
  LoopShape shape = ShapeOf(cx, body, space.wide);
  RowPlan plan(body, space, shape.in_place);
  KernelDraft draft = NewDraft(cx, body);
  draft.Declare(body.inputs, body.outputs);
  ElementEmitter& e = draft.elements();
  KernelBuilder& b = draft.builder();
  Dims rows(std::span(space.wide.data(), space.kept));
  Dims columns(std::span(space.wide.data() + space.kept, space.wide.size() - space.kept));
  auto column_of = [&](const Index& index) {
    Index part;
    for (size_t d = space.kept; d < space.wide.size(); ++d) part.coords.push_back(index.coords[d]);
    return e.Linear(columns, part);
  };
  double cost = shape.cost * static_cast<double>(space.length);
  TRY(draft.ForEachRow(rows, cost, cx.serial, [&](const Index& row) -> Status {
    for (const Instruction* m : body.members) {
      if (m->shape().IsScalar() && !m->IsConstant() && !space.IsNarrow(m->shape())) {
        TRY(e.Emit(*m, Index()));
      }
    }
    for (int stage = 0; stage <= plan.last(); ++stage) {
      for (const Instruction* m : plan.Narrow(stage)) {
        e.SetValue(*m, TRY(e.Emit(*m, NarrowIndex(e, space, m->shape(), row))));
      }
      std::vector<KernelBuilder::MemoryId> arrays;
      for (const Instruction* m : plan.Kept(stage)) {
        DType type = m->shape().dtype();
        std::string name = StrCat("row", stage, "_", arrays.size());
        arrays.push_back(IsComplex(type) ? b.Array(name, RealType(type), 2 * space.length)
                                         : b.Array(name, program::ComputeType(type), space.length));
      }
      auto store = [&](const Index& index) -> Status {
        for (size_t k = 0; k < arrays.size(); ++k) {
          const Instruction& m = *plan.Kept(stage)[k];
          e.StoreAt(arrays[k], m.shape().dtype(), column_of(index), TRY(e.Emit(m, index)));
        }
        std::vector<Element> values;
        for (size_t k : plan.Outputs(stage)) {
          values.push_back(TRY(e.Emit(*body.outputs[k].inside, index)));
        }
        for (size_t k = 0; k < values.size(); ++k) {
          MemValue to = body.outputs[plan.Outputs(stage)[k]].value;
          e.StoreAt(draft.MemoryOf(to), cx.memory.shape(to).dtype(), e.Linear(space.wide, index),
                    values[k]);
        }
        return {};
      };
      auto reduces = plan.Reduces(stage);
      if (!reduces.empty()) {
        RowReducer reducer(draft, reduces, shape.width);
        reducer.set_also(store);
        std::vector<Element> results = TRY(reducer.Row(row, b.Int(0), space.length, false));
        for (size_t k = 0; k < reduces.size(); ++k) e.SetValue(*reduces[k], results[k]);
      } else if (!plan.Outputs(stage).empty()) {
        int64_t minor = columns.back();
        int lanes = draft.LanesFor(shape.width, minor);
        if (minor != space.length && minor % lanes != 0) lanes = 1;
        auto at = [&](Coord j) -> Status {
          Index linear, index = row;
          linear.is_linear = true;
          linear.linear = j;
          Index inner = e.Coordinates(columns, linear);
          for (const Coord& c : inner.coords) index.coords.push_back(c);
          return store(index);
        };
        // Short rows by the vectors that wrote what is kept of them.
        bool straight = columns.size() == 1 && space.length < 2 * lanes;
        TRY(straight ? draft.StraightLanes(space.length, lanes, at)
                     : draft.OverLanes(space.length, lanes, shape.in_place, at));
      }
      for (size_t k = 0; k < arrays.size(); ++k) {
        e.BindAt(*plan.Kept(stage)[k], arrays[k], column_of);
      }
    }
    for (const KernelOutput& output : body.outputs) {
      const Instruction& root = *output.inside;
      if (space.IsWide(root.shape())) continue;
      Index index = NarrowIndex(e, space, root.shape(), row);
      Element value = TRY(e.Emit(root, index));
      e.StoreAt(draft.MemoryOf(output.value), root.shape().dtype(),
                e.Linear(root.shape().dims(), index), value);
    }
    return {};
  }));
  Finish(cx, draft, body, steps);
  return {};
}

}  // namespace

extern constinit const LoweringRow kRows = {"rows in stages", {}, MatchRows, LowerRows};

}  // namespace weft::compiler
