// Products of two tall matrices, [k, m] turned by [k, n], with few columns each and many rows (a
// covariance, the normal equations), or of a vector and one (a gradient): every row adds an outer
// product to sums in registers. Pieces of the rows are summed in parallel, then joined.
#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "base/str.h"
#include "compiler/lower/dot.h"
#include "compiler/lower/sums.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Instruction;
using program::LoopKind;

namespace {

constexpr int64_t kLeastRows = program::CodeBounds::kShortLoop;  // of the contraction

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

// A product as one of two tall matrices, the operand `left` turned. A vector lies both ways; it is
// the left side, so that the columns of the other one are lanes.
struct TallSides {
  DotSizes sizes;
  int64_t left = 0;
};

std::optional<TallSides> TallSidesOf(const DotSizes& s) {
  const bool rows_left = s.trans_a || s.m == 1, rows_right = !s.trans_b || s.n == 1;
  if (s.batch != 1 || !rows_left || !rows_right) return std::nullopt;
  TallSides sides{.sizes = s};
  if (s.n == 1) {
    std::swap(sides.sizes.m, sides.sizes.n);
    sides.left = 1;
  }
  return sides;
}

Decision MatchTallDot(Subject& subject) {
  const Instruction& dot = subject.instruction;
  if (!subject.dot()) return Refuse("the product is not in canonical form");
  const std::optional<TallSides> sides = TallSidesOf(*subject.dot());
  DType type = dot.shape().dtype();
  bool same = type == DType::kF32 || type == DType::kF64;
  for (const Instruction* operand : dot.operands()) same &= operand->shape().dtype() == type;
  if (!same) return Refuse("it is not of f32 or f64 throughout");
  if (!sides) return Refuse("rows of operands are not contracted");
  const DotSizes& s = sides->sizes;
  if (s.n == 1) return Refuse("both operands are vectors");
  if (s.m > kFewDotColumns || s.n > kFewDotColumns || s.k < kLeastRows) {
    return Refuse("operands are not tall and narrow");
  }
  return Take("two tall matrices with few columns");
}

// How the work is cut.
struct TallDotPlan {
  TallDotPlan(const LowerContext& cx, const DotSizes& s, DType type)
      : lanes(cx.target.vector_bits / 8 / ByteWidth(type)), runs(StretchesOf(s.n, lanes)) {
    per_row = static_cast<int64_t>(runs.size());
    int64_t sums = cx.target.Accumulators();
    tile = std::clamp<int64_t>(sums / per_row, 1, s.m);
    beside = std::max<int64_t>(1, sums / (tile * per_row) / 2);
    double products = static_cast<double>(s.m * s.n) * static_cast<double>(s.k);
    int64_t wanted = static_cast<int64_t>(products / cx.target.WorkOfPiece());
    pieces = cx.serial ? 1 : std::clamp<int64_t>(wanted, 1, program::TargetFacts::kJoinedPieces);
    piece = (s.k + pieces - 1) / pieces;
    piece = (piece + beside - 1) / beside * beside;
    pieces = (s.k + piece - 1) / piece;
  }
  int64_t lanes;
  std::vector<Stretch> runs;  // of a row of the right matrix
  int64_t per_row = 1;        // of them
  int64_t tile = 1;           // columns of the left matrix whose sums fit in registers
  int64_t beside = 1;         // rows that are added side by side
  int64_t pieces = 1, piece = 0;
};

// Sums of outer products, inside a kernel.
class OuterProductSums {
 public:
  OuterProductSums(KernelBuilder& builder, const DotSizes& sizes, const TallDotPlan& plan,
                   DType type, KernelBuilder::MemoryId left, KernelBuilder::MemoryId right,
                   KernelBuilder::MemoryId out)
      : b(builder), s(sizes), plan_(plan), type_(type), left_(left), right_(right), out_(out) {}

  void Piece(ValueId number) {
    ValueId begin = b.Mul(number, b.Int(plan_.piece));
    ValueId end =
        plan_.pieces == 1 ? b.Int(s.k) : b.Min(b.Add(begin, b.Int(plan_.piece)), b.Int(s.k));
    int64_t even = s.m - s.m % plan_.tile;
    if (even == plan_.tile) {
      Tile(number, begin, end, b.Int(0), plan_.tile);
    } else {
      b.For(
          LoopKind::kSerial, 0, even,
          [&](ValueId first) { Tile(number, begin, end, first, plan_.tile); }, plan_.tile);
    }
    if (even < s.m) Tile(number, begin, end, b.Int(even), s.m - even);
  }

 private:
  // Adds rows k, k + 1, .. to the sums, each to a set of its own.
  KernelBuilder::Carry AddRows(ValueId k, KernelBuilder::Carry sums, int64_t rows, ValueId first,
                               int64_t columns) {
    for (int64_t r = 0; r < rows; ++r) {
      ValueId row = b.Add(k, b.Int(r));
      size_t at = static_cast<size_t>(r * columns * plan_.per_row);
      for (int64_t i = 0; i < columns; ++i) {
        ValueId x = b.Load(left_, b.Add(b.Add(b.Mul(row, b.Int(s.m)), first), b.Int(i)));
        for (const Stretch& run : plan_.runs) {
          ValueId y = b.Load(right_, b.Add(b.Mul(row, b.Int(s.n)), b.Int(run.first)), run.lanes);
          sums[at] = b.Fma(b.Splat(x, run.lanes), y, sums[at]);
          ++at;
        }
      }
    }
    return sums;
  }

  KernelBuilder::Carry Loop(ValueId begin, ValueId end, int64_t rows, KernelBuilder::Carry sums,
                            ValueId first, int64_t columns) {
    int64_t beside = plan_.beside;
    int64_t trips = rows == 1 && beside > 1 ? beside - 1 : (plan_.piece + rows - 1) / rows;
    return EmitSums(b, {begin, end, rows, trips}, sums, [&](ValueId k, const auto& so_far) {
      return AddRows(k, so_far, rows, first, columns);
    });
  }

  // Columns [first, first + columns) of the left matrix.
  void Tile(ValueId number, ValueId begin, ValueId end, ValueId first, int64_t columns) {
    size_t count = static_cast<size_t>(columns * plan_.per_row);
    KernelBuilder::Carry sums;
    for (int64_t r = 0; r < plan_.beside * columns; ++r) {
      for (const Stretch& run : plan_.runs) sums.push_back(b.Number(0, {type_, run.lanes}));
    }
    ValueId even = b.Sub(end, b.Rem(b.Sub(end, begin), b.Int(plan_.beside)));
    sums = Loop(begin, even, plan_.beside, std::move(sums), first, columns);
    for (size_t k = count; k < sums.size(); ++k) {
      sums[k % count] = b.Add(sums[k % count], sums[k]);
    }
    sums.resize(count);
    if (plan_.beside > 1) sums = Loop(even, end, 1, std::move(sums), first, columns);
    ValueId to = b.Add(b.Mul(number, b.Int(s.m * s.n)), b.Mul(first, b.Int(s.n)));
    for (size_t k = 0; k < count; ++k) {
      const Stretch& run = plan_.runs[k % plan_.runs.size()];
      int64_t row = static_cast<int64_t>(k) / plan_.per_row;
      b.Store(out_, b.Add(to, b.Int(row * s.n + run.first)), sums[k]);
    }
  }

  KernelBuilder& b;
  const DotSizes& s;
  const TallDotPlan& plan_;
  DType type_;
  KernelBuilder::MemoryId left_, right_, out_;
};

// The sums of the pieces together.
void JoinTallDot(Subject& subject, const TallDotPlan& plan, const KernelBody& body,
                 program::BufferId partial) {
  LowerContext& cx = subject.cx;
  const Instruction& dot = subject.instruction;
  DType type = dot.shape().dtype();
  int64_t size = dot.shape().elements(), pieces = plan.pieces;
  KernelDraft last(StrCat(dot.name(), ".join"), cx.program, cx.memory, cx.target);
  last.Declare({}, body.outputs);
  KernelBuilder::MemoryId parts = last.DeclareBuffer(partial, program::Access::kRead);
  KernelBuilder::MemoryId to = last.MemoryOf(cx.memory.Leaf(dot));
  KernelBuilder& b = last.builder();
  auto join = [&](ValueId first, int width) {
    KernelBuilder::Carry sum = {b.Number(0, {type, width})};
    sum = *EmitWideSumLoop(
        b, {b.Int(0), b.Int(pieces), 1, pieces}, sum, {type == DType::kF32},
        [&](ValueId p, const KernelBuilder::Carry& so_far) -> Result<KernelBuilder::Carry> {
          ValueId at = b.Add(b.Mul(p, b.Int(size)), first);
          return KernelBuilder::Carry{b.Add(so_far[0], b.Load(parts, at, width))};
        });
    b.Store(to, first, sum[0]);
  };
  int64_t even = size / plan.lanes * plan.lanes;
  if (even > 0) {
    b.For(
        LoopKind::kSerial, 0, even,
        [&](ValueId first) { join(first, static_cast<int>(plan.lanes)); }, plan.lanes);
  }
  for (int64_t at = even; at < size; ++at) join(b.Int(at), 1);
  Finish(cx, last, body, subject.steps);
}

Status LowerTallDot(Subject& subject) {
  LowerContext& cx = subject.cx;
  const Instruction& dot = subject.instruction;
  const TallSides sides = *TallSidesOf(*subject.dot());
  const DotSizes& s = sides.sizes;
  DType type = dot.shape().dtype();
  TallDotPlan plan(cx, s, type);
  KernelBody body = BodyOf(cx, dot);
  KernelDraft draft = NewDraft(cx, body);
  bool whole = plan.pieces == 1;
  draft.Declare(body.inputs, whole ? std::span<const KernelOutput>(body.outputs)
                                   : std::span<const KernelOutput>());
  program::BufferId partial = -1;
  if (!whole) partial = cx.Scratch(Shape(type, {plan.pieces, s.m, s.n}), "partial");
  auto memory_of = [&](const Instruction& i) { return draft.MemoryOf(cx.memory.Leaf(i)); };
  KernelBuilder::MemoryId left = memory_of(*dot.operand(sides.left));
  KernelBuilder::MemoryId right = memory_of(*dot.operand(1 - sides.left));
  KernelBuilder::MemoryId out =
      whole ? memory_of(dot) : draft.DeclareBuffer(partial, program::Access::kWrite);
  KernelBuilder& b = draft.builder();
  OuterProductSums sums(b, s, plan, type, left, right, out);
  if (whole) {
    sums.Piece(b.Int(0));
  } else {
    b.For(LoopKind::kParallel, 0, plan.pieces, [&](ValueId number) { sums.Piece(number); });
  }
  Finish(cx, draft, body, subject.steps);
  if (!whole) JoinTallDot(subject, plan, body, partial);
  return {};
}

}  // namespace

extern constinit const LoweringRow kTallDot = {
    "tall dot", {hlo::Op::kDot}, MatchTallDot, LowerTallDot};

}  // namespace weft::compiler
