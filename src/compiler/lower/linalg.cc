// Dense factorisations and solves. Small ones are straight-line code on values, so that all of a
// matrix stays in registers; larger ones are loops in memory where they are part of a native loop,
// and library routines elsewhere.
#include "compiler/lower/linalg.h"

#include <algorithm>

#include "compiler/lower/small_matrix.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Access;
using program::LoopKind;
using program::Op;
using HloOp = hlo::Op;

namespace {

constexpr int64_t kUnrolledOrder = program::CodeBounds::kWrittenOut / 2;  // rows of a matrix
// Of straight-line code: more of them are loops, so that what surrounds them can still be one
// function with them.
constexpr int64_t kUnrolledSolveWork = program::CodeBounds::kStraight;  // multiplications

// The lower factor in place of the lower triangle; whether there is one.
ValueId FactorSmall(const Field& f, KernelBuilder& b, Matrix& l) {
  size_t n = l.size();
  ValueId ok = -1;
  for (size_t j = 0; j < n; ++j) {
    ValueId root = -1;
    for (size_t i = j; i < n; ++i) {
      Element sum = l[i][j];
      for (size_t k = 0; k < j; ++k) {
        sum = f.SubtractProduct(sum, l[i][k], f.Conjugate(l[j][k]));
      }
      if (i == j) {
        ValueId usable = f.IsUsableDiagonal(sum.re);
        ok = ok < 0 ? usable : b.Emit(Op::kAnd, {ok, usable});
        root = b.Emit(Op::kSqrt, {sum.re});
        l[j][j] = f.FromReal(root);
      } else {
        l[i][j] = f.DivideByReal(sum, root);
      }
    }
  }
  return ok;
}

// A triangle as a solve reads it: x op(a) = b is op(a)^T x^T = b^T.
struct Triangle {
  explicit Triangle(const hlo::TriangularSolveAttrs& attrs) {
    conjugate = attrs.transpose_a == hlo::TransposeA::kAdjoint;
    bool transpose = conjugate || attrs.transpose_a == hlo::TransposeA::kTranspose;
    swap = transpose == attrs.left_side;
    lower = attrs.lower != swap;
    unit = attrs.unit_diagonal;
  }
  bool swap, conjugate, lower, unit;
};

// In place of x, whose i-th entry belongs to the i-th row of the triangle.
void SolveSmall(const Field& f, const Triangle& t, const Matrix& a, std::vector<Element>& x) {
  int64_t n = static_cast<int64_t>(x.size());
  for (int64_t step = 0; step < n; ++step) {
    int64_t i = t.lower ? step : n - 1 - step;
    auto at = [&](int64_t k) {
      Element y = t.swap ? a[static_cast<size_t>(k)][static_cast<size_t>(i)]
                         : a[static_cast<size_t>(i)][static_cast<size_t>(k)];
      return t.conjugate ? f.Conjugate(y) : y;
    };
    Element& mine = x[static_cast<size_t>(i)];
    for (int64_t k = t.lower ? 0 : i + 1; k < (t.lower ? i : n); ++k) {
      mine = f.SubtractProduct(mine, at(k), x[static_cast<size_t>(k)]);
    }
    if (!t.unit) mine = f.Divide(mine, at(i));
  }
}

Status CheckFloats(const Instruction& i, DType dtype) {
  for (const Instruction* operand : i.operands()) {
    if (operand->shape().dtype() != dtype) {
      return Unimplemented(hlo::Mnemonic(i.op()), ": operands of several types");
    }
  }
  return {};
}

Decision MatchUnrolledCholesky(Subject& subject) {
  bool small = subject.instruction.shape().dims().back() <= kUnrolledOrder;
  return small ? Take("a matrix fits in registers") : Refuse("matrices are too large to unroll");
}

Status LowerUnrolledCholesky(Subject& subject) {
  LowerContext& cx = subject.cx;
  const Instruction& cholesky = subject.instruction;
  const Shape& shape = cholesky.shape();
  if (shape.elements() == 0) return {};
  TRY(CheckFloats(cholesky, shape.dtype()));
  bool lower = cholesky.attrs<hlo::CholeskyAttrs>().lower;
  int64_t n = shape.dims().back(), batch = BatchOf(shape);
  KernelBody body = BodyOf(cx, cholesky);
  KernelDraft draft = NewDraft(cx, body);
  draft.Declare(body.inputs, body.outputs);
  ElementContext& e = draft.elements();
  Field f(e, shape.dtype());
  TRY(draft.ForEachRow(
      {batch}, static_cast<double>(n * n * n), cx.serial, [&](const Index& row) -> Status {
        ValueId base = ScaleCoord(e, row.coords[0], n * n).base;
        Matrix a = TRY(LoadSmallMatrix(e, *cholesky.operand(0), base, n, n)), out = a;
        size_t size = a.size();
        for (size_t i = 0; i < size && !lower; ++i) {
          for (size_t j = 0; j <= i; ++j) a[i][j] = f.Conjugate(out[j][i]);
        }
        ValueId ok = FactorSmall(f, e.b, a);
        for (size_t i = 0; i < size; ++i) {
          for (size_t j = 0; j < size; ++j) {
            Element x =
                lower ? (j <= i ? a[i][j] : f.Zero()) : (j >= i ? f.Conjugate(a[j][i]) : f.Zero());
            out[i][j] = SelectElement(e, ok, x, f.NotANumber());
          }
        }
        StoreSmallMatrix(e, draft.MemoryOf(cx.memory.Leaf(cholesky)), shape.dtype(), base, out);
        return {};
      }));
  Finish(cx, draft, body, subject.steps);
  return {};
}

Decision MatchInsideLoop(Subject& subject) {
  if (!subject.cx.serial) return Refuse("it is not inside of a loop on one thread");
  return Take("inside of a loop a call would cost more than the work");
}

Status LowerLoopedCholesky(Subject& subject) {
  const Shape& shape = subject.instruction.shape();
  if (shape.elements() == 0) return {};
  TRY(CheckFloats(subject.instruction, shape.dtype()));
  return LowerCholeskyLoops(subject.cx, subject.instruction, subject.steps);
}

Decision MatchLarge(Subject&) {
  return Take("matrices are large enough for the library");
}

Status LowerLibraryCholesky(Subject& subject) {
  const Instruction& cholesky = subject.instruction;
  const Shape& shape = cholesky.shape();
  if (shape.elements() == 0) return {};
  TRY(CheckFloats(cholesky, shape.dtype()));
  bool lower = cholesky.attrs<hlo::CholeskyAttrs>().lower;
  int64_t n = shape.dims().back(), batch = BatchOf(shape);
  subject.steps.push_back(
      Routine(subject.cx, "cholesky", cholesky, {{"n", n}, {"batch", batch}, {"lower", lower}}));
  return {};
}

// Of a triangular solve: the order of the triangle, how many columns are solved for.
struct SolveSizes {
  explicit SolveSizes(const Instruction& solve) : batch(BatchOf(solve.shape())) {
    const Shape& shape = solve.shape();
    rows = shape.dim(shape.rank() - 2), columns = shape.dim(shape.rank() - 1);
    bool left = solve.attrs<hlo::TriangularSolveAttrs>().left_side;
    n = left ? rows : columns, m = left ? columns : rows;
  }
  int64_t batch, rows, columns, n, m;
};

Decision MatchUnrolledSolve(Subject& subject) {
  bool small = SolveSizes(subject.instruction).n <= kUnrolledOrder;
  return small ? Take("the triangle fits in registers")
               : Refuse("triangles are too large to unroll");
}

Status LowerUnrolledSolve(Subject& subject) {
  LowerContext& cx = subject.cx;
  const Instruction& solve = subject.instruction;
  const Shape& shape = solve.shape();
  if (shape.elements() == 0) return {};
  TRY(CheckFloats(solve, shape.dtype()));
  const auto& attrs = solve.attrs<hlo::TriangularSolveAttrs>();
  auto [batch, rows, columns, n, m] = SolveSizes(solve);
  KernelBody body = BodyOf(cx, solve);
  KernelDraft draft = NewDraft(cx, body);
  draft.Declare(body.inputs, body.outputs);
  ElementContext& e = draft.elements();
  Field f(e, shape.dtype());
  Triangle triangle(attrs);
  auto one_batch = [&](const Index& row) -> Status {
    ValueId a_base = ScaleCoord(e, row.coords[0], n * n).base,
            base = ScaleCoord(e, row.coords[0], n * m).base;
    Matrix a = TRY(LoadSmallMatrix(e, *solve.operand(0), a_base, n, n));
    // Entry i of column c of what is solved for, c possibly one for each lane.
    auto at = [&](int64_t i, const Coord& c) {
      Coord place =
          attrs.left_side ? AddConstant(e, c, i * m) : AddConstant(e, ScaleCoord(e, c, n), i);
      Index index;
      index.is_linear = true;
      index.linear = AddCoords(e, {base, 0, 1}, place);
      return index;
    };
    auto column = [&](const Coord& c) -> Status {
      std::vector<Element> x;
      for (int64_t i = 0; i < n; ++i) x.push_back(TRY(EmitElement(e, *solve.operand(1), at(i, c))));
      SolveSmall(f, triangle, a, x);
      for (int64_t i = 0; i < n; ++i) {
        StoreAt(e, draft.MemoryOf(cx.memory.Leaf(solve)), shape.dtype(), at(i, c).linear,
                x[static_cast<size_t>(i)]);
      }
      return {};
    };
    if (n * n * m <= kUnrolledSolveWork && !(attrs.left_side && m >= 4 && (m & (m - 1)) == 0)) {
      for (int64_t c = 0; c < m; ++c) TRY(column(ConstantCoord(e, c)));
      return {};
    }
    int lanes = attrs.left_side ? draft.LanesFor(ByteWidth(shape.dtype()), m) : 1;
    return draft.OverLanes(m, lanes, false, column);
  };
  TRY(draft.ForEachRow({batch}, static_cast<double>(n * n * m), cx.serial, one_batch));
  Finish(cx, draft, body, subject.steps);
  return {};
}

Status LowerLoopedSolve(Subject& subject) {
  const Shape& shape = subject.instruction.shape();
  if (shape.elements() == 0) return {};
  TRY(CheckFloats(subject.instruction, shape.dtype()));
  return LowerSolveLoops(subject.cx, subject.instruction, subject.steps);
}

Status LowerLibrarySolve(Subject& subject) {
  const Instruction& solve = subject.instruction;
  if (solve.shape().elements() == 0) return {};
  TRY(CheckFloats(solve, solve.shape().dtype()));
  const auto& attrs = solve.attrs<hlo::TriangularSolveAttrs>();
  SolveSizes s(solve);
  bool conjugate = attrs.transpose_a == hlo::TransposeA::kAdjoint;
  bool transpose = conjugate || attrs.transpose_a == hlo::TransposeA::kTranspose;
  subject.steps.push_back(Routine(subject.cx, "triangular_solve", solve,
                                  {{"m", s.rows},
                                   {"n", s.columns},
                                   {"batch", s.batch},
                                   {"left_side", attrs.left_side},
                                   {"lower", attrs.lower},
                                   {"transpose", transpose},
                                   {"conjugate", conjugate},
                                   {"unit_diagonal", attrs.unit_diagonal}}));
  return {};
}

}  // namespace

extern constinit const LoweringRow kUnrolledCholesky = {
    "unrolled Cholesky", {HloOp::kCholesky}, MatchUnrolledCholesky, LowerUnrolledCholesky};
extern constinit const LoweringRow kLoopedCholesky = {
    "Cholesky by loops", {HloOp::kCholesky}, MatchInsideLoop, LowerLoopedCholesky};
extern constinit const LoweringRow kLibraryCholesky = {
    "library Cholesky", {HloOp::kCholesky}, MatchLarge, LowerLibraryCholesky};
extern constinit const LoweringRow kUnrolledSolve = {
    "unrolled solve", {HloOp::kTriangularSolve}, MatchUnrolledSolve, LowerUnrolledSolve};
extern constinit const LoweringRow kLoopedSolve = {
    "solve by loops", {HloOp::kTriangularSolve}, MatchInsideLoop, LowerLoopedSolve};
extern constinit const LoweringRow kLibrarySolve = {
    "library solve", {HloOp::kTriangularSolve}, MatchLarge, LowerLibrarySolve};

}  // namespace weft::compiler
