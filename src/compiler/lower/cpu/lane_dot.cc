// Products of small matrices, many of them or with one long dimension: lanes go along the batch,
// the rows of the result or its columns; all that a lane computes is written out.
#include <algorithm>

#include "compiler/lower/dot.h"
#include "compiler/lower/sums.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Instruction;

namespace {

// Of a whole small matrix, when lanes go along the batch.
constexpr int64_t kMaxProducts = program::CodeBounds::kStraight / 2;
// Of a row or column of the result.
constexpr int64_t kMaxRowProducts = program::CodeBounds::kStraight;

// What lanes go along in a product of small matrices.
enum class DotLanes { kNone, kBatch, kRows, kColumns };

DotLanes LanesOfDot(const LowerContext& cx, const Instruction& dot, const DotSizes& s) {
  DType type = program::ComputeType(dot.shape().dtype());
  int64_t lanes = cx.target.vector_bits / 8 / ByteWidth(type);
  bool rows_fit = s.n <= kFewDotColumns && s.n * s.k <= kMaxRowProducts;
  bool columns_fit = s.m <= kFewDotColumns && s.m * s.k <= kMaxRowProducts;
  if (s.m * s.n * s.k <= kMaxProducts && s.batch >= 2 * lanes) return DotLanes::kBatch;
  if (cx.serial || s.batch * s.m * s.n * s.k <= kStraightProducts) return DotLanes::kNone;
  // Rows that lie along the contraction are turned, which pays where it is short, or each element
  // is used more than once.
  if (columns_fit && s.n >= lanes && s.n >= s.m && !s.trans_b) return DotLanes::kColumns;
  rows_fit &= s.trans_a || s.n > 1 || s.k < program::TargetFacts::kUsualLanes;
  columns_fit &= !s.trans_b || s.m > 1 || s.k < program::TargetFacts::kUsualLanes;
  if (rows_fit && s.m >= (s.trans_a ? lanes : 2 * lanes)) return DotLanes::kRows;
  if (columns_fit && s.n >= 2 * lanes) return DotLanes::kColumns;
  return DotLanes::kNone;
}

Decision MatchDotInLanes(Subject& subject) {
  const Instruction& dot = subject.instruction;
  if (!subject.dot()) return Refuse("the product is not in canonical form");
  if (!IsComputedInOneFloat(dot)) return Refuse("it is not computed in f32 or f64 throughout");
  switch (LanesOfDot(subject.cx, dot, *subject.dot())) {
    case DotLanes::kBatch: return Take("small matrices, enough of them for a matrix a lane");
    case DotLanes::kRows: return Take("short rows, enough of them for a row a lane");
    case DotLanes::kColumns: return Take("short columns, enough of them for a column a lane");
    default: return Refuse("what a lane would compute is too much, or lanes would be empty");
  }
}

Status LowerDotInLanes(Subject& subject) {
  LowerContext& cx = subject.cx;
  const Instruction& dot = subject.instruction;
  const DotSizes& s = *subject.dot();
  DotLanes along = LanesOfDot(cx, dot, s);
  KernelBody body = BodyOf(cx, dot);
  KernelDraft draft = NewDraft(cx, body);
  draft.Declare(body.inputs, body.outputs);
  KernelBuilder& b = draft.builder();
  ElementContext& e = draft.elements();
  auto memory_of = [&](const Instruction* i) { return draft.MemoryOf(cx.memory.Leaf(*i)); };
  KernelBuilder::MemoryId left = memory_of(dot.operand(0)), right = memory_of(dot.operand(1));
  KernelBuilder::MemoryId out = memory_of(&dot);
  DType stored = dot.shape().dtype(), type = program::ComputeType(stored);
  int64_t rows = along == DotLanes::kRows ? 1 : s.m,
          columns = along == DotLanes::kColumns ? 1 : s.n;
  LoopShape shape;
  shape.dims = {s.batch};
  if (along != DotLanes::kBatch) shape.dims.push_back(along == DotLanes::kRows ? s.m : s.n);
  shape.cost = static_cast<double>(rows * columns * s.k);
  shape.serial = cx.serial;
  shape.in_place = cx.memory.Coalesced(cx.memory.Leaf(*dot.operand(0)), cx.memory.Leaf(dot)) ||
                   cx.memory.Coalesced(cx.memory.Leaf(*dot.operand(1)), cx.memory.Leaf(dot));
  // As many registers for each value as all of a lane's leave.
  int64_t values = rows * columns + (along == DotLanes::kColumns ? 1 : s.k);
  int64_t room = cx.target.ValuesOfLane();
  shape.width = ByteWidth(type) * (values > room / 2 ? 4 : values > room / 4 ? 2 : 1);
  TRY(draft.ForEach(shape, [&](const Index& index) -> Status {
    Index at = Coordinates(e, shape.dims, index);
    const Coord* i = along == DotLanes::kRows ? &at.coords[1] : nullptr;
    const Coord* j = along == DotLanes::kColumns ? &at.coords[1] : nullptr;
    // Of a matrix in the batch: at a lane's row or column, or none, and so many elements on.
    auto place = [&](int64_t size, const Coord* lane, int64_t stride, int64_t more) {
      Coord c = ScaleCoord(e, at.coords[0], size);
      if (lane != nullptr) c = AddCoords(e, c, ScaleCoord(e, *lane, stride));
      return AddConstant(e, c, more);
    };
    auto spread = [&](ValueId v) { return b.type(v).lanes == e.lanes ? v : b.Splat(v, e.lanes); };
    int64_t left_row = s.trans_a ? 1 : s.k, left_k = s.trans_a ? s.m : 1;
    int64_t right_column = s.trans_b ? s.k : 1, right_k = s.trans_b ? 1 : s.n;
    std::vector<ValueId> results;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        ValueId sum = b.Number(0, {type, e.lanes}), runs = -1;
        auto end_run = [&] { return runs < 0 ? sum : b.Add(runs, sum); };
        for (int64_t k = 0; k < s.k; ++k) {
          if (k > 0 && k % kSumRun == 0) {
            runs = end_run();
            sum = b.Number(0, {type, e.lanes});
          }
          Coord x = place(s.m * s.k, i, left_row, row * left_row + k * left_k);
          Coord y = place(s.k * s.n, j, right_column, column * right_column + k * right_k);
          sum = b.Fma(spread(LoadAt(e, left, dot.operand(0)->shape().dtype(), x).re),
                      spread(LoadAt(e, right, dot.operand(1)->shape().dtype(), y).re), sum);
        }
        sum = end_run();
        results.push_back(stored == type ? sum : b.Narrow(sum, stored));
      }
    }
    if (along == DotLanes::kColumns) {
      for (int64_t row = 0; row < rows; ++row) {
        StoreAt(e, out, stored, place(s.m * s.n, j, 1, row * s.n),
                {results[static_cast<size_t>(row)], -1});
      }
      return {};
    }
    StoreRows(e, out, stored, place(s.m * s.n, i, s.n, 0), std::move(results));
    return {};
  }));
  Finish(cx, draft, body, subject.steps);
  return {};
}

}  // namespace

extern constinit const LoweringRow kDotInLanes = {
    "dot in lanes", {hlo::Op::kDot}, MatchDotInLanes, LowerDotInLanes};

}  // namespace weft::compiler
