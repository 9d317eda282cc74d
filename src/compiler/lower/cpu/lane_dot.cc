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
  // Rows that lie along the contraction are turned, which pays where it is short (the library goes
  // along it), or each element is used more than once.
  if (columns_fit && s.n >= lanes && s.n >= s.m && !s.trans_b) return DotLanes::kColumns;
  bool is_short = s.k < program::TargetFacts::kUsualLanes || s.k <= 2 * lanes;
  rows_fit &= s.trans_a || s.n > 1 || is_short;
  columns_fit &= !s.trans_b || s.m > 1 || is_short;
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

LoopShape LaneLoop(const LowerContext& cx, const Instruction& dot, const DotSizes& s,
                   DotLanes along, int64_t rows, int64_t columns) {
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
  shape.width = ByteWidth(program::ComputeType(dot.shape().dtype())) * (values > room / 2   ? 4
                                                                        : values > room / 4 ? 2
                                                                                            : 1);
  return shape;
}

// What one lane computes: `rows` by `columns` elements of the product.
class LaneProduct {
 public:
  LaneProduct(const LowerContext& cx, KernelDraft& draft, const Instruction& dot, const DotSizes& s,
              DotLanes along)
      : e_(draft.elements()),
        b_(draft.builder()),
        dot_(dot),
        s_(s),
        along_(along),
        left_(draft.MemoryOf(cx.memory.Leaf(*dot.operand(0)))),
        right_(draft.MemoryOf(cx.memory.Leaf(*dot.operand(1)))),
        out_(draft.MemoryOf(cx.memory.Leaf(dot))) {}

  int64_t rows() const { return along_ == DotLanes::kRows ? 1 : s_.m; }
  int64_t columns() const { return along_ == DotLanes::kColumns ? 1 : s_.n; }

  void EmitAt(const Index& at) {
    const Coord* i = along_ == DotLanes::kRows ? &at.coords[1] : nullptr;
    const Coord* j = along_ == DotLanes::kColumns ? &at.coords[1] : nullptr;
    std::vector<ValueId> results;
    for (int64_t row = 0; row < rows(); ++row) {
      for (int64_t column = 0; column < columns(); ++column) {
        ValueId sum = Sum(at.coords[0], i, j, row, column);
        results.push_back(stored_ == type_ ? sum : b_.Narrow(sum, stored_));
      }
    }
    if (along_ != DotLanes::kColumns) {
      Coord to = Place(at.coords[0], s_.m * s_.n, i, s_.n, 0);
      return StoreRows(e_, out_, stored_, to, std::move(results));
    }
    for (int64_t row = 0; row < rows(); ++row) {
      StoreAt(e_, out_, stored_, Place(at.coords[0], s_.m * s_.n, j, 1, row * s_.n),
              {results[static_cast<size_t>(row)], -1});
    }
  }

 private:
  // Of a matrix in the batch: at a lane's row or column, or none, and so many elements on.
  Coord Place(const Coord& matrix, int64_t size, const Coord* lane, int64_t stride, int64_t more) {
    Coord c = ScaleCoord(e_, matrix, size);
    if (lane != nullptr) c = AddCoords(e_, c, ScaleCoord(e_, *lane, stride));
    return AddConstant(e_, c, more);
  }

  ValueId Spread(ValueId v) { return b_.type(v).lanes == e_.lanes ? v : b_.Splat(v, e_.lanes); }

  ValueId Sum(const Coord& matrix, const Coord* i, const Coord* j, int64_t row, int64_t column) {
    int64_t left_row = s_.trans_a ? 1 : s_.k, left_k = s_.trans_a ? s_.m : 1;
    int64_t right_column = s_.trans_b ? s_.k : 1, right_k = s_.trans_b ? 1 : s_.n;
    ValueId sum = b_.Number(0, {type_, e_.lanes}), runs = -1;
    auto end_run = [&] { return runs < 0 ? sum : b_.Add(runs, sum); };
    for (int64_t k = 0; k < s_.k; ++k) {
      if (k > 0 && k % kSumRun == 0) {
        runs = end_run();
        sum = b_.Number(0, {type_, e_.lanes});
      }
      Coord x = Place(matrix, s_.m * s_.k, i, left_row, row * left_row + k * left_k);
      Coord y = Place(matrix, s_.k * s_.n, j, right_column, column * right_column + k * right_k);
      sum = b_.Fma(Spread(LoadAt(e_, left_, dot_.operand(0)->shape().dtype(), x).re),
                   Spread(LoadAt(e_, right_, dot_.operand(1)->shape().dtype(), y).re), sum);
    }
    return end_run();
  }

  ElementContext& e_;
  KernelBuilder& b_;
  const Instruction& dot_;
  const DotSizes& s_;
  DotLanes along_;
  KernelBuilder::MemoryId left_, right_, out_;
  DType stored_ = dot_.shape().dtype(), type_ = program::ComputeType(stored_);
};

Status LowerDotInLanes(Subject& subject) {
  LowerContext& cx = subject.cx;
  const Instruction& dot = subject.instruction;
  const DotSizes& s = *subject.dot();
  DotLanes along = LanesOfDot(cx, dot, s);
  KernelBody body = BodyOf(cx, dot);
  KernelDraft draft = NewDraft(cx, body);
  draft.Declare(body.inputs, body.outputs);
  LaneProduct product(cx, draft, dot, s, along);
  LoopShape shape = LaneLoop(cx, dot, s, along, product.rows(), product.columns());
  TRY(draft.ForEach(shape, [&](const Index& index) -> Status {
    product.EmitAt(Coordinates(draft.elements(), shape.dims, index));
    return {};
  }));
  Finish(cx, draft, body, subject.steps);
  return {};
}

}  // namespace

extern constinit const LoweringRow kDotInLanes = {
    "dot in lanes", {hlo::Op::kDot}, MatchDotInLanes, LowerDotInLanes};

}  // namespace weft::compiler
