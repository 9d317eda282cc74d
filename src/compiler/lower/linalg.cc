// Dense factorisations and solves. Small ones are straight-line code on values, so that all of a
// matrix stays in registers; larger ones are loops in memory where they are part of a native loop,
// and library routines elsewhere.
#include <algorithm>

#include "compiler/lower/lowering.h"
#include "compiler/lower/matrix.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Access;
using program::LoopKind;
using program::Op;

namespace {

constexpr int64_t kUnrolledOrder = 8;
// Operations of straight-line code: more of them are loops, so that what surrounds them can still
// be one function with them.
constexpr int64_t kUnrolledLu = 5 * 5 * 5;
constexpr int64_t kUnrolledSolve = 128;
constexpr int64_t kLoopedOrder = 32;  // outside of loops: larger ones are routines

using Matrix = std::vector<std::vector<Element>>;

int64_t BatchOf(const Shape& shape) {
  int64_t batch = 1;
  for (int64_t d = 0; d + 2 < shape.rank(); ++d) batch *= shape.dim(d);
  return batch;
}

Index ElementAt(ElementEmitter& e, ValueId base, int64_t offset) {
  Index index;
  index.is_linear = true;
  index.linear = {e.builder().Add(base, e.builder().Int(offset)), 0, 1};
  return index;
}

// The elements of an operand's matrix that begins at element `base`.
Result<Matrix> LoadSmallMatrix(ElementEmitter& e, const Instruction& operand, ValueId base,
                               int64_t m, int64_t n) {
  Matrix a(static_cast<size_t>(m));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      a[static_cast<size_t>(i)].push_back(TRY(e.Emit(operand, ElementAt(e, base, i * n + j))));
    }
  }
  return a;
}

void StoreSmallMatrix(ElementEmitter& e, KernelBuilder::MemoryId memory, DType dtype, ValueId base,
                      const Matrix& a) {
  int64_t at = 0;
  for (const auto& row : a) {
    for (const Element& x : row) e.StoreAt(memory, dtype, ElementAt(e, base, at++).linear, x);
  }
}

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

struct SmallLu {
  std::vector<ValueId> pivots;  // s32, from 1
  ValueId info;
};

// Row swaps are selects: every index is constant.
SmallLu FactorSmallLu(const Field& f, ElementEmitter& e, Matrix& a) {
  KernelBuilder& b = e.builder();
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
        a[k][j] = e.Select(chosen, a[i][j], a[k][j]);
        a[i][j] = e.Select(chosen, top[j], a[i][j]);
      }
    }
    result.pivots.push_back(row);
    ValueId singular = f.IsZero(a[k][k]);
    ValueId first = b.Emit(Op::kAnd, {singular, b.Emit(Op::kEq, {result.info, number(0)})});
    result.info = b.Select(first, number(k + 1), result.info);
    // Where the pivot is 0 so is all below it: 0 / 1 leaves the rest of the matrix as it is.
    Element one = f.FromReal(b.Float(1, b.type(a[k][k].re)));
    Element divisor = e.Select(singular, one, a[k][k]);
    for (size_t i = k + 1; i < m; ++i) {
      Element factor = a[i][k] = f.Divide(a[i][k], divisor);
      for (size_t j = k + 1; j < n; ++j) a[i][j] = f.SubtractProduct(a[i][j], factor, a[k][j]);
    }
  }
  return result;
}

Status CheckFloats(const Instruction& i, DType dtype) {
  for (const Instruction* operand : i.operands()) {
    if (operand->shape().dtype() != dtype) {
      return Unimplemented(hlo::Mnemonic(i.op()), ": operands of several types");
    }
  }
  return {};
}

}  // namespace

Status Lowering::LowerCholesky(const Instruction& cholesky, Steps& steps) {
  const Shape& shape = cholesky.shape();
  if (shape.elements() == 0) return {};
  TRY(CheckFloats(cholesky, shape.dtype()));
  bool lower = cholesky.attrs<hlo::CholeskyAttrs>().lower;
  int64_t n = shape.dims().back(), batch = BatchOf(shape);
  if (n <= kUnrolledOrder) {
    KernelBody body = BodyOf(cholesky);
    KernelDraft draft = NewDraft(body);
    draft.Declare(body.inputs, body.outputs);
    ElementEmitter& e = draft.elements();
    Field f(e, shape.dtype());
    TRY(draft.ForEachRow(
        {batch}, static_cast<double>(n * n * n), serial_, [&](const Index& row) -> Status {
          ValueId base = e.Scale(row.coords[0], n * n).base;
          Matrix a = TRY(LoadSmallMatrix(e, *cholesky.operand(0), base, n, n)), out = a;
          size_t size = a.size();
          for (size_t i = 0; i < size && !lower; ++i) {
            for (size_t j = 0; j <= i; ++j) a[i][j] = f.Conjugate(out[j][i]);
          }
          ValueId ok = FactorSmall(f, e.builder(), a);
          for (size_t i = 0; i < size; ++i) {
            for (size_t j = 0; j < size; ++j) {
              Element x = lower ? (j <= i ? a[i][j] : f.Zero())
                                : (j >= i ? f.Conjugate(a[j][i]) : f.Zero());
              out[i][j] = e.Select(ok, x, f.NotANumber());
            }
          }
          StoreSmallMatrix(e, draft.MemoryOf(memory_.Leaf(cholesky)), shape.dtype(), base, out);
          return {};
        }));
    Finish(draft, body, steps);
    return {};
  }
  if (serial_) return LowerCholeskyLoops(cholesky, steps);
  steps.push_back(Routine("cholesky", cholesky, {{"n", n}, {"batch", batch}, {"lower", lower}}));
  return {};
}

Status Lowering::LowerTriangularSolve(const Instruction& solve, Steps& steps) {
  const Shape& shape = solve.shape();
  if (shape.elements() == 0) return {};
  TRY(CheckFloats(solve, shape.dtype()));
  const auto& attrs = solve.attrs<hlo::TriangularSolveAttrs>();
  int64_t rows = shape.dim(shape.rank() - 2), columns = shape.dim(shape.rank() - 1);
  int64_t n = attrs.left_side ? rows : columns, m = attrs.left_side ? columns : rows;
  int64_t batch = BatchOf(shape);
  if (n > kUnrolledOrder) {
    if (serial_) return LowerSolveLoops(solve, steps);
    bool conjugate = attrs.transpose_a == hlo::TransposeA::kAdjoint;
    bool transpose = conjugate || attrs.transpose_a == hlo::TransposeA::kTranspose;
    steps.push_back(Routine("triangular_solve", solve,
                            {{"m", rows},
                             {"n", columns},
                             {"batch", batch},
                             {"left_side", attrs.left_side},
                             {"lower", attrs.lower},
                             {"transpose", transpose},
                             {"conjugate", conjugate},
                             {"unit_diagonal", attrs.unit_diagonal}}));
    return {};
  }
  KernelBody body = BodyOf(solve);
  KernelDraft draft = NewDraft(body);
  draft.Declare(body.inputs, body.outputs);
  ElementEmitter& e = draft.elements();
  Field f(e, shape.dtype());
  Triangle triangle(attrs);
  auto one_batch = [&](const Index& row) -> Status {
    ValueId a_base = e.Scale(row.coords[0], n * n).base, base = e.Scale(row.coords[0], n * m).base;
    Matrix a = TRY(LoadSmallMatrix(e, *solve.operand(0), a_base, n, n));
    // Entry i of column c of what is solved for, c possibly one for each lane.
    auto at = [&](int64_t i, const Coord& c) {
      Coord place = attrs.left_side ? e.AddConstant(c, i * m) : e.AddConstant(e.Scale(c, n), i);
      Index index;
      index.is_linear = true;
      index.linear = e.Add({base, 0, 1}, place);
      return index;
    };
    auto column = [&](const Coord& c) -> Status {
      std::vector<Element> x;
      for (int64_t i = 0; i < n; ++i) x.push_back(TRY(e.Emit(*solve.operand(1), at(i, c))));
      SolveSmall(f, triangle, a, x);
      for (int64_t i = 0; i < n; ++i) {
        e.StoreAt(draft.MemoryOf(memory_.Leaf(solve)), shape.dtype(), at(i, c).linear,
                  x[static_cast<size_t>(i)]);
      }
      return {};
    };
    if (n * n * m <= kUnrolledSolve && !(attrs.left_side && m >= 4 && (m & (m - 1)) == 0)) {
      for (int64_t c = 0; c < m; ++c) TRY(column(e.Constant(c)));
      return {};
    }
    int lanes = attrs.left_side ? draft.LanesFor(ByteWidth(shape.dtype()), m) : 1;
    return draft.OverLanes(m, lanes, false, column);
  };
  TRY(draft.ForEachRow({batch}, static_cast<double>(n * n * m), serial_, one_batch));
  Finish(draft, body, steps);
  return {};
}

Status Lowering::LowerLu(const Instruction& call, Steps& steps) {
  const Shape& shape = call.operand(0)->shape();
  int64_t m = shape.dim(shape.rank() - 2), n = shape.dim(shape.rank() - 1);
  int64_t batch = BatchOf(shape), pivots = std::min(m, n);
  if (batch == 0) return {};
  const auto leaves = memory_.Leaves(call);
  if (pivots > 0 && m * n * pivots > kUnrolledLu) {
    if (serial_ || std::max(m, n) <= kLoopedOrder) return LowerLuLoops(call, steps);
    steps.push_back(Routine("lu", call, {{"m", m}, {"n", n}, {"batch", batch}}));
    return {};
  }
  KernelBody body = BodyOf(call);
  KernelDraft draft = NewDraft(body);
  if (pivots == 0) {
    body.inputs.clear();
    body.outputs = {body.outputs[2]};
  }
  draft.Declare(body.inputs, body.outputs);
  ElementEmitter& e = draft.elements();
  Field f(e, shape.dtype());
  TRY(draft.ForEachRow(
      {batch}, static_cast<double>(m * n * pivots), serial_, [&](const Index& row) -> Status {
        SmallLu lu{{}, e.builder().Int(0, {DType::kS32, 1})};
        if (pivots > 0) {
          ValueId base = e.Scale(row.coords[0], m * n).base;
          Matrix a = TRY(LoadSmallMatrix(e, *call.operand(0), base, m, n));
          lu = FactorSmallLu(f, e, a);
          StoreSmallMatrix(e, draft.MemoryOf(leaves[0]), shape.dtype(), base, a);
          ValueId first = e.Scale(row.coords[0], pivots).base;
          for (int64_t k = 0; k < pivots; ++k) {
            e.StoreAt(draft.MemoryOf(leaves[1]), DType::kS32, ElementAt(e, first, k).linear,
                      {lu.pivots[static_cast<size_t>(k)], -1});
          }
        }
        e.StoreAt(draft.MemoryOf(leaves[2]), DType::kS32, row.coords[0], {lu.info, -1});
        return {};
      }));
  Finish(draft, body, steps);
  return {};
}

}  // namespace weft::compiler
