// Reductions along the minor dimension (row reductions): a row after the other, or pieces of few
// long rows in parallel.
#include <algorithm>

#include "base/str.h"
#include "compiler/lower/cpu/reduce_ways.h"
#include "program/target_facts.h"

namespace weft::compiler {

using hlo::Instruction;
using HloOp = hlo::Op;

namespace {

constexpr int64_t kEnoughRows = program::TargetFacts::kUsualThreads;  // rows, each one thread's

Decision MatchRowReduce(Subject& subject) {
  if (Decision reduces = TakesReduces(subject); !reduces.taken) return reduces;
  const auto& [list, wanted, count, dims, same_dims, shape] = *subject.reduces();
  if (!dims.minor) return Refuse("the minor dimension is kept");
  if (subject.cx.serial) return Take("rows are reduced one after the other inside of a loop");
  if (dims.rows >= kEnoughRows) return Take("there are rows enough for all threads");
  double total = shape.cost * static_cast<double>(dims.rows) * static_cast<double>(dims.length);
  if (total < 2 * subject.cx.target.WorkOfPiece())
    return Take("the rows are too short for several threads");
  return Refuse("there are few rows, and they are long");
}

Status LowerRowReduce(Subject& subject) {
  LowerContext& cx = subject.cx;
  const KernelBody& body = subject.body();
  const ReduceGroup& group = *subject.reduces();
  const ReduceDims& dims = group.dims;
  const LoopShape& shape = group.shape;
  const auto& reduces = group.reduces;
  KeptTogether together = KeptInside(dims);
  Dims rows = dims.kept_sizes;
  size_t inside = dims.kept.size();  // the dimension kept together
  for (size_t k = 0; k < dims.kept.size(); ++k) {
    if (dims.kept[k] == together.dimension) rows[inside = k] = 1;
  }
  auto store = [&](KernelDraft& draft, Index row, std::span<const Element> values) {
    ElementContext& e = draft.elements();
    for (int64_t v = 0; v < together.size; ++v) {
      if (together.dimension >= 0) row.coords[inside] = ConstantCoord(e, v);
      for (size_t k = 0; k < body.outputs.size(); ++k) {
        MemValue to = body.outputs[k].value;
        StoreAt(e, draft.MemoryOf(to), cx.memory.shape(to).dtype(),
                LinearCoord(e, dims.kept_sizes, row),
                values[static_cast<size_t>(v) * group.count + group.wanted[k]]);
      }
    }
  };
  KernelDraft draft = NewDraft(cx, body);
  draft.Declare(body.inputs, body.outputs);
  RowReducer reducer(draft, reduces, shape.width, together);
  reducer.set_cost(shape.cost);
  double row_cost = shape.cost * static_cast<double>(dims.length * together.size);
  TRY(draft.ForEachRow(rows, row_cost, cx.serial, [&](const Index& row) -> Status {
    store(draft, row, TRY(reducer.Row(row, draft.builder().Int(0), dims.length, false)));
    return {};
  }));
  Finish(cx, draft, body, subject.steps);
  return {};
}

Decision MatchSplitReduce(Subject& subject) {
  if (Decision reduces = TakesReduces(subject); !reduces.taken) return reduces;
  if (!subject.reduces()->dims.minor) return Refuse("the minor dimension is kept");
  return Take("there are few rows, and they are long");
}

// The results of pieces of rows together, and the rest of the rows.
Status JoinSplit(Subject& subject, std::span<const program::BufferId> partial, int64_t pieces,
                 int64_t piece) {
  LowerContext& cx = subject.cx;
  const KernelBody& body = subject.body();
  const auto& [reduces, wanted, count, dims, same_dims, shape] = *subject.reduces();
  int64_t rest = dims.length - pieces * piece;
  Dims grid = dims.kept_sizes;
  grid.push_back(pieces);
  KernelDraft last(StrCat(body.instruction->name(), ".join"), cx.program, cx.memory, cx.target);
  // The rest of the rows, and initial values, are read here.
  last.Declare(body.inputs, body.outputs);
  std::vector<KernelBuilder::MemoryId> memory;
  for (program::BufferId p : partial)
    memory.push_back(last.DeclareBuffer(p, program::Access::kRead));
  RowReducer join(last, reduces, shape.width);
  ElementContext& e = last.elements();
  TRY(last.ForEachRow(dims.kept_sizes, 1, true, [&](const Index& row) -> Status {
    std::vector<Element> acc = TRY(join.Pieces(pieces, [&](const Coord& p, size_t i) {
      Index at = row;
      at.coords.push_back(p);
      return LoadAt(e, memory[i], join.type(i), LinearCoord(e, grid, at));
    }));
    if (rest > 0) {
      std::vector<Element> value =
          TRY(join.Row(row, last.builder().Int(pieces * piece), rest, true));
      acc = TRY(join.Combine(std::move(acc), value));
    }
    for (size_t k = 0; k < body.outputs.size(); ++k) {
      MemValue to = body.outputs[k].value;
      StoreAt(e, last.MemoryOf(to), cx.memory.shape(to).dtype(),
              LinearCoord(e, dims.kept_sizes, row), acc[wanted[k]]);
    }
    return {};
  }));
  Finish(cx, last, body, subject.steps);
  return {};
}

// Few long rows: pieces of them in parallel, then the pieces together.
Status LowerSplitReduce(Subject& subject) {
  LowerContext& cx = subject.cx;
  const KernelBody& body = subject.body();
  const auto& [reduces, wanted, count, dims, same_dims, shape] = *subject.reduces();
  Steps& steps = subject.steps;
  int64_t unit = dims.reduced.size() > 1 ? dims.reduced_sizes.back() : 64;
  int64_t piece = (dims.length / program::TargetFacts::kJoinedPieces + unit - 1) / unit * unit;
  piece = std::min(std::max(piece, unit), dims.length);
  int64_t pieces = dims.length / piece;
  KernelDraft draft = NewDraft(cx, body);
  std::vector<program::BufferId> partial;
  {
    RowReducer types(draft, reduces, shape.width);
    for (size_t i = 0; i < types.operand_count(); ++i) {
      partial.push_back(cx.Scratch(Shape(types.type(i), {dims.rows, pieces}), "partial"));
    }
  }
  draft.Declare(body.inputs, {});
  std::vector<KernelBuilder::MemoryId> memory;
  for (program::BufferId b : partial)
    memory.push_back(draft.DeclareBuffer(b, program::Access::kWrite));
  RowReducer reducer(draft, reduces, shape.width);
  reducer.set_cost(shape.cost);
  Dims grid = dims.kept_sizes;
  grid.push_back(pieces);
  KernelBuilder& b = draft.builder();
  ElementContext& e = draft.elements();
  TRY(draft.ForEachRow(
      grid, shape.cost * static_cast<double>(piece), false, [&](const Index& at) -> Status {
        Index row = at;
        ValueId number = at.coords.back().base;
        row.coords.pop_back();
        std::vector<Element> values =
            TRY(reducer.Row(row, b.Mul(number, b.Int(piece)), piece, true));
        for (size_t i = 0; i < values.size(); ++i) {
          StoreAt(e, memory[i], reducer.type(i), LinearCoord(e, grid, at), values[i]);
        }
        return {};
      }));
  Finish(cx, draft, body, steps);
  return JoinSplit(subject, partial, pieces, piece);
}

}  // namespace

Decision TakesReduces(Subject& subject) {
  if (!subject.reduces()) return Refuse("not all results are reductions");
  const ReduceGroup& group = *subject.reduces();
  if (!group.same_dims) return Refuse("the reductions are along different dimensions");
  const ReduceDims& dims = group.dims;
  if (dims.length > kShortReduce) return Take("");
  // Few elements that do not lie together: a result in each lane.
  bool plain = std::all_of(group.reduces.begin(), group.reduces.end(),
                           [](const Instruction* r) { return r->operand_count() == 2; });
  const Shape& from = group.reduces[0]->operand(0)->shape();
  bool together = plain && !subject.cx.serial && dims.length >= kVectorReduce && dims.minor &&
                  from.dim(dims.reduced.back()) > 1 && KeptInside(dims).dimension < 0;
  return together ? Take("") : Refuse("few elements make a result");
}

extern constinit const LoweringRow kRowReduce = {
    "row reduction", {HloOp::kReduce}, MatchRowReduce, LowerRowReduce};
extern constinit const LoweringRow kSplitReduce = {
    "row reduction in pieces", {HloOp::kReduce}, MatchSplitReduce, LowerSplitReduce};

}  // namespace weft::compiler
