// Products of two tall matrices, [k, m] turned by [k, n], with few columns each and many rows (a
// covariance, the normal equations): every row adds an outer product to sums in registers. Pieces
// of the rows are summed in parallel, then joined.
#include <algorithm>
#include <bit>

#include "base/str.h"
#include "compiler/lower/dot.h"
#include "compiler/lower/sums.h"

namespace weft::compiler {

using hlo::Instruction;
using program::LoopKind;

namespace {

constexpr int64_t kMostColumns = 16;
constexpr int64_t kLeastRows = 64;
constexpr int64_t kSums = 16;  // registers: as many as hide the time that one addition takes
constexpr int64_t kPiecesOfRows = 32;
constexpr double kPieceProducts = 100'000;

// A stretch of a row's elements that lie in one register.
struct Stretch {
  int64_t first;
  int lanes;
};

std::vector<Stretch> StretchesOf(int64_t columns, int64_t most) {
  std::vector<Stretch> runs;
  for (int64_t at = 0; at < columns;) {
    int64_t lanes = std::min<int64_t>(most, std::bit_floor(static_cast<uint64_t>(columns - at)));
    runs.push_back({at, static_cast<int>(lanes)});
    at += lanes;
  }
  return runs;
}

Decision MatchTallDot(Subject& subject) {
  const Instruction& dot = subject.instruction;
  if (!subject.dot()) return Refuse("the product is not in canonical form");
  const DotSizes& s = *subject.dot();
  DType type = dot.shape().dtype();
  bool same = type == DType::kF32 || type == DType::kF64;
  for (const Instruction* operand : dot.operands()) same &= operand->shape().dtype() == type;
  if (!same) return Refuse("it is not of f32 or f64 throughout");
  if (s.batch != 1 || !s.trans_a || s.trans_b) return Refuse("rows of operands are not contracted");
  if (s.m > kMostColumns || s.n > kMostColumns || s.k < kLeastRows) {
    return Refuse("operands are not tall and narrow");
  }
  return Take("two tall matrices with few columns");
}

Status LowerTallDot(Subject& subject) {
  LowerContext& cx = subject.cx;
  Steps& steps = subject.steps;
  const Instruction& dot = subject.instruction;
  const DotSizes& s = *subject.dot();
  DType type = dot.shape().dtype();
  int64_t lanes = cx.target.vector_bits / 8 / ByteWidth(type);
  std::vector<Stretch> runs = StretchesOf(s.n, lanes);
  int64_t per_row = static_cast<int64_t>(runs.size());
  // Columns of the left matrix whose sums fit, and rows that are added side by side.
  int64_t tile = std::clamp<int64_t>(kSums / per_row, 1, s.m);
  int64_t beside = std::max<int64_t>(1, kSums / (tile * per_row) / 2);
  double products = static_cast<double>(s.m * s.n) * static_cast<double>(s.k);
  int64_t pieces = cx.serial ? 1
                             : std::clamp<int64_t>(static_cast<int64_t>(products / kPieceProducts),
                                                   1, kPiecesOfRows);
  int64_t piece = (s.k + pieces - 1) / pieces;
  piece = (piece + beside - 1) / beside * beside;
  pieces = (s.k + piece - 1) / piece;

  KernelBody body = BodyOf(cx, dot);
  KernelDraft draft = NewDraft(cx, body);
  bool whole = pieces == 1;
  draft.Declare(body.inputs, whole ? std::span<const KernelOutput>(body.outputs)
                                   : std::span<const KernelOutput>());
  program::BufferId partial = -1;
  if (!whole) partial = cx.Scratch(Shape(type, {pieces, s.m, s.n}), "partial");
  KernelBuilder& b = draft.builder();
  auto memory_of = [&](KernelDraft& d, const Instruction& i) {
    return d.MemoryOf(cx.memory.Leaf(i));
  };
  KernelBuilder::MemoryId left = memory_of(draft, *dot.operand(0));
  KernelBuilder::MemoryId right = memory_of(draft, *dot.operand(1));
  KernelBuilder::MemoryId out =
      whole ? memory_of(draft, dot) : draft.DeclareBuffer(partial, program::Access::kWrite);

  // Adds rows k, k + 1, .. to the sums, each to a set of its own.
  auto add_rows = [&](ValueId k, KernelBuilder::Carry sums, int64_t rows, ValueId first,
                      int64_t columns) {
    for (int64_t r = 0; r < rows; ++r) {
      ValueId row = b.Add(k, b.Int(r));
      size_t at = static_cast<size_t>(r * columns * per_row);
      for (int64_t i = 0; i < columns; ++i) {
        ValueId x = b.Load(left, b.Add(b.Add(b.Mul(row, b.Int(s.m)), first), b.Int(i)));
        for (const Stretch& run : runs) {
          ValueId y = b.Load(right, b.Add(b.Mul(row, b.Int(s.n)), b.Int(run.first)), run.lanes);
          sums[at] = b.Fma(b.Splat(x, run.lanes), y, sums[at]);
          ++at;
        }
      }
    }
    return sums;
  };
  auto loop = [&](ValueId begin, ValueId end, int64_t rows, KernelBuilder::Carry sums,
                  ValueId first, int64_t columns) {
    int64_t trips = rows == 1 && beside > 1 ? beside - 1 : (piece + rows - 1) / rows;
    return EmitSums(b, {begin, end, rows, trips}, sums, [&](ValueId k, const auto& so_far) {
      return add_rows(k, so_far, rows, first, columns);
    });
  };
  // Columns [first, first + columns) of the left matrix.
  auto sum_tile = [&](ValueId number, ValueId begin, ValueId end, ValueId first, int64_t columns) {
    size_t count = static_cast<size_t>(columns * per_row);
    KernelBuilder::Carry sums;
    for (int64_t r = 0; r < beside * columns; ++r) {
      for (const Stretch& run : runs) sums.push_back(b.Number(0, {type, run.lanes}));
    }
    ValueId even = b.Sub(end, b.Rem(b.Sub(end, begin), b.Int(beside)));
    sums = loop(begin, even, beside, std::move(sums), first, columns);
    for (size_t k = count; k < sums.size(); ++k) {
      sums[k % count] = b.Add(sums[k % count], sums[k]);
    }
    sums.resize(count);
    if (beside > 1) sums = loop(even, end, 1, std::move(sums), first, columns);
    ValueId to = b.Add(b.Mul(number, b.Int(s.m * s.n)), b.Mul(first, b.Int(s.n)));
    for (size_t k = 0; k < count; ++k) {
      const Stretch& run = runs[k % runs.size()];
      b.Store(out, b.Add(to, b.Int(static_cast<int64_t>(k) / per_row * s.n + run.first)), sums[k]);
    }
  };
  auto sum_piece = [&](ValueId number) {
    ValueId begin = b.Mul(number, b.Int(piece));
    ValueId end = whole ? b.Int(s.k) : b.Min(b.Add(begin, b.Int(piece)), b.Int(s.k));
    int64_t even = s.m - s.m % tile;
    if (even == tile) {
      sum_tile(number, begin, end, b.Int(0), tile);
    } else {
      b.For(
          LoopKind::kSerial, 0, even,
          [&](ValueId first) { sum_tile(number, begin, end, first, tile); }, tile);
    }
    if (even < s.m) sum_tile(number, begin, end, b.Int(even), s.m - even);
  };
  if (whole) {
    sum_piece(b.Int(0));
  } else {
    b.For(LoopKind::kParallel, 0, pieces, sum_piece);
  }
  Finish(cx, draft, body, steps);
  if (whole) return {};

  KernelDraft last(StrCat(dot.name(), ".join"), cx.program, cx.memory, cx.target);
  last.Declare({}, body.outputs);
  KernelBuilder::MemoryId parts = last.DeclareBuffer(partial, program::Access::kRead);
  KernelBuilder::MemoryId to = memory_of(last, dot);
  KernelBuilder& c = last.builder();
  auto join = [&](ValueId first, int width) {
    KernelBuilder::Carry sum = {c.Number(0, {type, width})};
    sum = *EmitWideSumLoop(
        c, {c.Int(0), c.Int(pieces), 1, pieces}, sum, {type == DType::kF32},
        [&](ValueId p, const KernelBuilder::Carry& so_far) -> Result<KernelBuilder::Carry> {
          ValueId at = c.Add(c.Mul(p, c.Int(s.m * s.n)), first);
          return KernelBuilder::Carry{c.Add(so_far[0], c.Load(parts, at, width))};
        });
    c.Store(to, first, sum[0]);
  };
  int64_t even = s.m * s.n / lanes * lanes;
  if (even > 0) {
    c.For(
        LoopKind::kSerial, 0, even, [&](ValueId first) { join(first, static_cast<int>(lanes)); },
        lanes);
  }
  for (int64_t at = even; at < s.m * s.n; ++at) join(c.Int(at), 1);
  Finish(cx, last, body, steps);
  return {};
}

}  // namespace

extern constinit const LoweringRow kTallDot = {
    "tall dot", {hlo::Op::kDot}, MatchTallDot, LowerTallDot};

}  // namespace weft::compiler
