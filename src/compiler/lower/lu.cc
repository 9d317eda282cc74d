// LU factorisation with partial pivoting. Small ones are straight-line code on values; larger ones
// are loops in memory or a library routine.
#include <algorithm>

#include "compiler/lower/linalg.h"
#include "compiler/lower/small_matrix.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Op;
using HloOp = hlo::Op;

namespace {

// Operations of straight-line code: more of them are loops, so that what surrounds them can still
// be one function with them.
constexpr int64_t kUnrolledLuWork = program::CodeBounds::kStraight;
// Outside of loops: larger ones are routines.
constexpr int64_t kLoopedOrder = program::CodeBounds::kTerms;

struct SmallLu {
  std::vector<ValueId> pivots;  // s32, from 1
  ValueId info;
};

// Row swaps are selects: every index is constant.
SmallLu FactorSmallLu(const Field& f, ElementContext& e, Matrix& a) {
  KernelBuilder& b = e.b;
  auto number = [&](size_t i) { return b.Int(static_cast<int64_t>(i), {DType::kS32, 1}); };
  size_t m = a.size(), n = a[0].size();
  SmallLu result{{}, number(0)};
  for (size_t k = 0; k < std::min(m, n); ++k) {
    ValueId best = f.PivotSize(a[k][k]), row = number(k + 1);
    for (size_t i = k + 1; i < m; ++i) {
      ValueId size = f.PivotSize(a[i][k]);
      ValueId larger = b.Emit(Op::kGt, {size, best});
      best = b.Select(larger, size, best);
      row = b.Select(larger, number(i + 1), row);
    }
    std::vector<Element> top = a[k];
    for (size_t i = k + 1; i < m; ++i) {
      ValueId chosen = b.Emit(Op::kEq, {row, number(i + 1)});
      for (size_t j = 0; j < n; ++j) {
        a[k][j] = SelectElement(e, chosen, a[i][j], a[k][j]);
        a[i][j] = SelectElement(e, chosen, top[j], a[i][j]);
      }
    }
    result.pivots.push_back(row);
    ValueId singular = f.IsZero(a[k][k]);
    ValueId first = b.Emit(Op::kAnd, {singular, b.Emit(Op::kEq, {result.info, number(0)})});
    result.info = b.Select(first, number(k + 1), result.info);
    // Where the pivot is 0 so is all below it: 0 / 1 leaves the rest of the matrix as it is.
    Element one = f.FromReal(b.Float(1, b.type(a[k][k].re)));
    Element divisor = SelectElement(e, singular, one, a[k][k]);
    for (size_t i = k + 1; i < m; ++i) {
      Element factor = a[i][k] = f.Divide(a[i][k], divisor);
      for (size_t j = k + 1; j < n; ++j) a[i][j] = f.SubtractProduct(a[i][j], factor, a[k][j]);
    }
  }
  return result;
}

// Of the call weft.lu.
struct LuSizes {
  explicit LuSizes(const Instruction& call) {
    const Shape& shape = call.operand(0)->shape();
    m = shape.dim(shape.rank() - 2), n = shape.dim(shape.rank() - 1);
    batch = BatchOf(shape), pivots = std::min(m, n);
  }
  int64_t m, n, batch, pivots;
};

bool IsLu(const Instruction& call) {
  return call.attrs<hlo::CustomCallAttrs>().custom_call_target == "weft.lu";
}

Decision MatchUnrolledLu(Subject& subject) {
  if (!IsLu(subject.instruction)) return Refuse("it is another call");
  LuSizes s(subject.instruction);
  if (s.batch == 0 || s.pivots == 0) return Take("there are no elements");
  if (s.m * s.n * s.pivots > kUnrolledLuWork) return Refuse("matrices are too large to unroll");
  return Take("a matrix fits in registers");
}

Status LowerUnrolledLu(Subject& subject) {
  LowerContext& cx = subject.cx;
  const Instruction& call = subject.instruction;
  const Shape& shape = call.operand(0)->shape();
  auto [m, n, batch, pivots] = LuSizes(call);
  if (batch == 0) return {};
  const auto leaves = cx.memory.Leaves(call);
  KernelBody body = BodyOf(cx, call);
  KernelDraft draft = NewDraft(cx, body);
  if (pivots == 0) {
    body.inputs.clear();
    body.outputs = {body.outputs[2]};
  }
  draft.Declare(body.inputs, body.outputs);
  ElementContext& e = draft.elements();
  Field f(e, shape.dtype());
  TRY(draft.ForEachRow(
      {batch}, static_cast<double>(m * n * pivots), cx.serial, [&](const Index& row) -> Status {
        SmallLu lu{{}, e.b.Int(0, {DType::kS32, 1})};
        if (pivots > 0) {
          ValueId base = ScaleCoord(e, row.coords[0], m * n).base;
          Matrix a = TRY(LoadSmallMatrix(e, *call.operand(0), base, m, n));
          lu = FactorSmallLu(f, e, a);
          StoreSmallMatrix(e, draft.MemoryOf(leaves[0]), shape.dtype(), base, a);
          ValueId first = ScaleCoord(e, row.coords[0], pivots).base;
          for (int64_t k = 0; k < pivots; ++k) {
            StoreAt(e, draft.MemoryOf(leaves[1]), DType::kS32, ElementAt(e, first, k).linear,
                    {lu.pivots[static_cast<size_t>(k)], -1});
          }
        }
        StoreAt(e, draft.MemoryOf(leaves[2]), DType::kS32, row.coords[0], {lu.info, -1});
        return {};
      }));
  Finish(cx, draft, body, subject.steps);
  return {};
}

Decision MatchLoopedLu(Subject& subject) {
  if (!IsLu(subject.instruction)) return Refuse("it is another call");
  LuSizes s(subject.instruction);
  if (subject.cx.serial) return Take("inside of a loop a call would cost more than the work");
  if (std::max(s.m, s.n) <= kLoopedOrder) return Take("matrices are too small for the library");
  return Refuse("matrices are large enough for the library");
}

Status LowerLoopedLu(Subject& subject) {
  return LowerLuLoops(subject.cx, subject.instruction, subject.steps);
}

Decision MatchLibraryLu(Subject& subject) {
  if (!IsLu(subject.instruction)) return Refuse("it is another call");
  return Take("matrices are large enough for the library");
}

Status LowerLibraryLu(Subject& subject) {
  LuSizes s(subject.instruction);
  subject.steps.push_back(
      Routine(subject.cx, "lu", subject.instruction, {{"m", s.m}, {"n", s.n}, {"batch", s.batch}}));
  return {};
}

}  // namespace

extern constinit const LoweringRow kUnrolledLu = {
    "unrolled LU", {HloOp::kCustomCall}, MatchUnrolledLu, LowerUnrolledLu};
extern constinit const LoweringRow kLoopedLu = {
    "LU by loops", {HloOp::kCustomCall}, MatchLoopedLu, LowerLoopedLu};
extern constinit const LoweringRow kLibraryLu = {
    "library LU", {HloOp::kCustomCall}, MatchLibraryLu, LowerLibraryLu};

}  // namespace weft::compiler
