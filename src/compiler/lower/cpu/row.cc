// Multi-pass row fusion (softmax, normalisation). Fusions of reductions along the minor dimensions
// with what is computed from their results and from the same rows (softmax, normalisation): one row
// at a time, in stages. A stage is one pass over the row; it ends with the results of reductions,
// which the next one uses as scalars.
#include <functional>

#include "base/str.h"
#include "compiler/lower/row_plan.h"
#include "compiler/lower/table.h"

namespace weft::compiler {

using hlo::Instruction;
using HloOp = hlo::Op;

Index NarrowIndex(ElementContext& e, const RowSpace& space, const Shape& shape, const Index& row) {
  Index index;
  size_t next = 0;
  for (int64_t size : shape.dims()) {
    if (size == 1) {
      index.coords.push_back(ConstantCoord(e, 0));
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

// The kernel of rows that are reduced and used again: stage by stage while the row is in cache.
class RowKernel {
 public:
  RowKernel(LowerContext& cx, const KernelBody& body, const RowSpace& space)
      : cx_(cx),
        body_(body),
        space_(space),
        shape_(ShapeOf(cx, body, space.wide)),
        plan_(body, space, shape_.in_place),
        draft_(NewDraft(cx, body)),
        e_(draft_.elements()),
        columns_(std::span(space.wide.data() + space.kept, space.wide.size() - space.kept)) {
    draft_.Declare(body.inputs, body.outputs);
  }

  Status Lower(Steps& steps) {
    Dims rows(std::span(space_.wide.data(), space_.kept));
    double cost = shape_.cost * static_cast<double>(space_.length);
    TRY(draft_.ForEachRow(rows, cost, cx_.serial, [&](const Index& row) -> Status {
      for (const Instruction* m : body_.members) {
        if (m->shape().IsScalar() && !m->IsConstant() && !space_.IsNarrow(m->shape())) {
          TRY(EmitElement(e_, *m, Index()));
        }
      }
      for (int stage = 0; stage <= plan_.last(); ++stage) TRY(EmitStage(stage, row));
      return StoreNarrow(row);
    }));
    Finish(cx_, draft_, body_, steps);
    return {};
  }

 private:
  Coord ColumnOf(const Index& index) {
    Index part;
    for (size_t d = space_.kept; d < space_.wide.size(); ++d) {
      part.coords.push_back(index.coords[d]);
    }
    return LinearCoord(e_, columns_, part);
  }

  // Arrays for what later stages read of the row.
  std::vector<KernelBuilder::MemoryId> KeptArrays(int stage) {
    KernelBuilder& b = draft_.builder();
    std::vector<KernelBuilder::MemoryId> arrays;
    for (const Instruction* m : plan_.Kept(stage)) {
      DType type = m->shape().dtype();
      std::string name = StrCat("row", stage, "_", arrays.size());
      arrays.push_back(IsComplex(type) ? b.Array(name, RealType(type), 2 * space_.length)
                                       : b.Array(name, program::ComputeType(type), space_.length));
    }
    return arrays;
  }

  // What a stage computes of one element of the row, into its arrays and the results.
  Status StoreElement(int stage, std::span<const KernelBuilder::MemoryId> arrays,
                      const Index& index) {
    for (size_t k = 0; k < arrays.size(); ++k) {
      const Instruction& m = *plan_.Kept(stage)[k];
      StoreAt(e_, arrays[k], m.shape().dtype(), ColumnOf(index), TRY(EmitElement(e_, m, index)));
    }
    return StoreOutputs(cx_, draft_, body_, plan_.Outputs(stage), space_, index);
  }

  Status EmitStage(int stage, const Index& row) {
    for (const Instruction* m : plan_.Narrow(stage)) {
      e_.SetValue(*m, TRY(EmitElement(e_, *m, NarrowIndex(e_, space_, m->shape(), row))));
    }
    std::vector<KernelBuilder::MemoryId> arrays = KeptArrays(stage);
    auto store = [&](const Index& index) { return StoreElement(stage, arrays, index); };
    auto reduces = plan_.Reduces(stage);
    if (!reduces.empty()) {
      RowReducer reducer(draft_, reduces, shape_.width);
      reducer.set_also(store);
      std::vector<Element> results =
          TRY(reducer.Row(row, draft_.builder().Int(0), space_.length, false));
      for (size_t k = 0; k < reduces.size(); ++k) e_.SetValue(*reduces[k], results[k]);
    } else if (!plan_.Outputs(stage).empty()) {
      TRY(OverColumns(row, store));
    }
    for (size_t k = 0; k < arrays.size(); ++k) {
      e_.BindAt(*plan_.Kept(stage)[k], arrays[k],
                [this](const Index& index) { return ColumnOf(index); });
    }
    return {};
  }

  Status OverColumns(const Index& row, const std::function<Status(const Index&)>& store) {
    int64_t minor = columns_.back();
    int lanes = draft_.LanesFor(shape_.width, minor);
    while (minor != space_.length && minor % lanes != 0) lanes /= 2;
    auto at = [&](Coord j) -> Status {
      Index linear, index = row;
      linear.is_linear = true;
      linear.linear = j;
      Index inner = Coordinates(e_, columns_, linear);
      for (const Coord& c : inner.coords) index.coords.push_back(c);
      return store(index);
    };
    // Short rows by the vectors that wrote what is kept of them.
    bool straight = columns_.size() == 1 && space_.length < 2 * lanes;
    return straight ? draft_.StraightLanes(space_.length, lanes, at)
                    : draft_.OverLanes(space_.length, lanes, shape_.in_place, at);
  }

  // Results of one element a row.
  Status StoreNarrow(const Index& row) {
    for (const KernelOutput& output : body_.outputs) {
      const Instruction& root = *output.inside;
      if (space_.IsWide(root.shape())) continue;
      Index index = NarrowIndex(e_, space_, root.shape(), row);
      Element value = TRY(EmitElement(e_, root, index));
      StoreAt(e_, draft_.MemoryOf(output.value), root.shape().dtype(),
              LinearCoord(e_, root.shape().dims(), index), value);
    }
    return {};
  }

  LowerContext& cx_;
  const KernelBody& body_;
  const RowSpace& space_;
  LoopShape shape_;
  RowPlan plan_;
  KernelDraft draft_;
  ElementContext& e_;
  Dims columns_;
};

Status LowerRows(Subject& subject) {
  return RowKernel(subject.cx, subject.body(), *subject.row_space()).Lower(subject.steps);
}

}  // namespace

extern constinit const LoweringRow kRows = {"rows in stages", {}, MatchRows, LowerRows};

}  // namespace weft::compiler
