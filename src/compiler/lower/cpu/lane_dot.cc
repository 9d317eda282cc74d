// Products of small matrices, many of them or with one long dimension: lanes go along the batch,
// the rows of the result or its columns; all that a lane computes is written out.
#include <algorithm>

#include "compiler/lower/lowering.h"

namespace weft::compiler {

using hlo::Instruction;

namespace {

constexpr int64_t kMaxProducts = 64;      // of a whole small matrix, when lanes go along the batch
constexpr int64_t kMaxRowProducts = 128;  // of a row or column of the result
constexpr int64_t kMaxRow = 16;           // elements of it
constexpr int64_t kLong = 8;              // of a contraction
constexpr int64_t kRegisters = 24;        // for elements of a lane
// One product of so few is better off with scalars and rows that stay in registers.
constexpr int64_t kStraightProducts = 512;

}  // namespace

DotLanes Lowering::LanesOfDot(const Instruction& dot, const DotSizes& s) const {
  DType type = program::ComputeType(dot.shape().dtype());
  if (!IsComputedInOneFloat(dot) || target_.kind != program::TargetKind::kCpu)
    return DotLanes::kNone;
  int64_t lanes = target_.vector_bits / 8 / ByteWidth(type);
  bool rows_fit = s.n <= kMaxRow && s.n * s.k <= kMaxRowProducts;
  bool columns_fit = s.m <= kMaxRow && s.m * s.k <= kMaxRowProducts;
  if (s.m * s.n * s.k <= kMaxProducts && s.batch >= 2 * lanes) return DotLanes::kBatch;
  if (serial_ || s.batch * s.m * s.n * s.k <= kStraightProducts) return DotLanes::kNone;
  // Rows that lie along the contraction are turned, which pays where it is short, or each element
  // is used more than once.
  if (columns_fit && s.n >= lanes && s.n >= s.m && !s.trans_b) return DotLanes::kColumns;
  rows_fit &= s.trans_a || s.n > 1 || s.k < kLong;
  columns_fit &= !s.trans_b || s.m > 1 || s.k < kLong;
  if (rows_fit && s.m >= (s.trans_a ? lanes : 2 * lanes)) return DotLanes::kRows;
  if (columns_fit && s.n >= 2 * lanes) return DotLanes::kColumns;
  return DotLanes::kNone;
}

Status Lowering::LowerDotInLanes(const Instruction& dot, const DotSizes& s, DotLanes along,
                                 Steps& steps) {
  KernelBody body = BodyOf(dot);
  KernelDraft draft = NewDraft(body);
  draft.Declare(body.inputs, body.outputs);
  KernelBuilder& b = draft.builder();
  ElementEmitter& e = draft.elements();
  auto memory_of = [&](const Instruction* i) { return draft.MemoryOf(memory_.Leaf(*i)); };
  KernelBuilder::MemoryId left = memory_of(dot.operand(0)), right = memory_of(dot.operand(1));
  KernelBuilder::MemoryId out = memory_of(&dot);
  DType stored = dot.shape().dtype(), type = program::ComputeType(stored);
  int64_t rows = along == DotLanes::kRows ? 1 : s.m,
          columns = along == DotLanes::kColumns ? 1 : s.n;
  LoopShape shape;
  shape.dims = {s.batch};
  if (along != DotLanes::kBatch) shape.dims.push_back(along == DotLanes::kRows ? s.m : s.n);
  shape.cost = static_cast<double>(rows * columns * s.k);
  shape.serial = serial_;
  shape.in_place = memory_.Share(memory_.Leaf(*dot.operand(0)), memory_.Leaf(dot)) ||
                   memory_.Share(memory_.Leaf(*dot.operand(1)), memory_.Leaf(dot));
  // As many registers for each value as all of a lane's leave.
  int64_t values = rows * columns + (along == DotLanes::kColumns ? 1 : s.k);
  shape.width = ByteWidth(type) * (values > kRegisters / 2 ? 4 : values > kRegisters / 4 ? 2 : 1);
  TRY(draft.ForEach(shape, [&](const Index& index) -> Status {
    Index at = e.Coordinates(shape.dims, index);
    const Coord* i = along == DotLanes::kRows ? &at.coords[1] : nullptr;
    const Coord* j = along == DotLanes::kColumns ? &at.coords[1] : nullptr;
    // Of a matrix in the batch: at a lane's row or column, or none, and so many elements on.
    auto place = [&](int64_t size, const Coord* lane, int64_t stride, int64_t more) {
      Coord c = e.Scale(at.coords[0], size);
      if (lane != nullptr) c = e.Add(c, e.Scale(*lane, stride));
      return e.AddConstant(c, more);
    };
    auto spread = [&](ValueId v) {
      return b.type(v).lanes == e.lanes() ? v : b.Splat(v, e.lanes());
    };
    int64_t left_row = s.trans_a ? 1 : s.k, left_k = s.trans_a ? s.m : 1;
    int64_t right_column = s.trans_b ? s.k : 1, right_k = s.trans_b ? 1 : s.n;
    std::vector<ValueId> results;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        ValueId sum = b.Number(0, {type, e.lanes()});
        for (int64_t k = 0; k < s.k; ++k) {
          Coord x = place(s.m * s.k, i, left_row, row * left_row + k * left_k);
          Coord y = place(s.k * s.n, j, right_column, column * right_column + k * right_k);
          sum = b.Fma(spread(e.LoadAt(left, dot.operand(0)->shape().dtype(), x).re),
                      spread(e.LoadAt(right, dot.operand(1)->shape().dtype(), y).re), sum);
        }
        results.push_back(stored == type ? sum : b.Narrow(sum, stored));
      }
    }
    if (along == DotLanes::kColumns) {
      for (int64_t row = 0; row < rows; ++row) {
        e.StoreAt(out, stored, place(s.m * s.n, j, 1, row * s.n),
                  {results[static_cast<size_t>(row)], -1});
      }
      return {};
    }
    StoreRows(e, out, stored, place(s.m * s.n, i, s.n, 0), std::move(results));
    return {};
  }));
  Finish(draft, body, steps);
  return {};
}

}  // namespace weft::compiler
