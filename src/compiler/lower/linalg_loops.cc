// Factorisations and solves as loops in memory, in place of a copy of the operand: inside of native
// loops, where a call of a library routine would cost more than the work.
#include <algorithm>

#include "compiler/lower/linalg.h"
#include "compiler/lower/matrix.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Access;
using program::LoopKind;
using program::Op;

namespace {

// A loop over [begin, end), with values from one round to the next.
struct SerialLoop {
  SerialLoop(KernelBuilder& builder, ValueId begin, ValueId end, KernelBuilder::Carry carry = {})
      : b(builder), inside(b.BeginLoop(LoopKind::kSerial, begin, end, b.Int(1), carry)) {}
  ValueId counter() const { return inside[0]; }
  std::vector<ValueId> End(const KernelBuilder::Carry& yield = {}) { return b.End(yield); }
  KernelBuilder& b;
  std::vector<ValueId> inside;
};

int64_t MatricesOf(const Shape& shape) {
  return shape.elements() / (shape.dim(shape.rank() - 1) * shape.dim(shape.rank() - 2));
}

// sum - (a(k) * b(k) for k in [begin, end))
template <class A, class B>
Element MinusDot(const Field& f, KernelBuilder& b, Element sum, ValueId begin, ValueId end,
                 const A& left, const B& right) {
  KernelBuilder::Carry carry, yield;
  f.Append(sum, carry);
  SerialLoop loop(b, begin, end, carry);
  size_t next = 1;
  Element so_far = f.Take(loop.inside, next);
  f.Append(f.SubtractProduct(so_far, left(loop.counter()), right(loop.counter())), yield);
  next = 0;
  return f.Take(loop.End(yield), next);
}

}  // namespace

Status LowerCholeskyLoops(LowerContext& cx, const Instruction& cholesky, Steps& steps) {
  const Shape& shape = cholesky.shape();
  bool lower = cholesky.attrs<hlo::CholeskyAttrs>().lower;
  int64_t n = shape.dims().back();
  MemValue result = cx.memory.Leaf(cholesky);
  Copy(cx, cx.memory.Leaf(*cholesky.operand(0)), result, "factors are made in place", cholesky,
       steps);
  KernelBody body;
  body.instruction = &cholesky;
  KernelDraft draft = NewDraft(cx, body);
  draft.Declare({}, {});
  KernelBuilder::MemoryId memory = draft.DeclareBuffer(cx.Buffer(result), Access::kReadWrite);
  ElementContext& e = draft.elements();
  KernelBuilder& b = draft.builder();
  Field f(e, shape.dtype());
  ValueId zero = b.Int(0), size = b.Int(n);
  TRY(draft.ForEachRow(
      {MatricesOf(shape)}, static_cast<double>(n * n * n), true, [&](const Index& row) -> Status {
        MatrixMemory a{e, memory, shape.dtype(), ScaleCoord(e, row.coords[0], n * n).base, n};
        // The lower factor; an upper one lies transposed and conjugated.
        auto load = [&](ValueId i, ValueId j) {
          return lower ? a.Load(i, j) : f.Conjugate(a.Load(j, i));
        };
        auto store = [&](ValueId i, ValueId j, Element x) {
          lower ? a.Store(i, j, x) : a.Store(j, i, f.Conjugate(x));
        };
        SerialLoop over_i(b, zero, size, {b.Pred(true)});
        ValueId i = over_i.counter();
        SerialLoop over_j(b, zero, i);
        ValueId j = over_j.counter();
        Element sum = MinusDot(
            f, b, load(i, j), zero, j, [&](ValueId k) { return load(i, k); },
            [&](ValueId k) { return f.Conjugate(load(j, k)); });
        store(i, j, f.DivideByReal(sum, load(j, j).re));
        over_j.End();
        sum = MinusDot(
            f, b, load(i, i), zero, i, [&](ValueId k) { return load(i, k); },
            [&](ValueId k) { return f.Conjugate(load(i, k)); });
        store(i, i, f.FromReal(b.Emit(Op::kSqrt, {sum.re})));
        SerialLoop above(b, b.Add(i, b.Int(1)), size);
        store(i, above.counter(), f.Zero());
        above.End();
        ValueId ok = b.Emit(Op::kAnd, {over_i.inside[1], f.IsUsableDiagonal(sum.re)});
        ok = over_i.End({ok})[0];
        b.BeginIf(b.Emit(Op::kNot, {ok}));
        SerialLoop all(b, zero, b.Int(n * n));
        a.Store(zero, all.counter(), f.NotANumber());
        all.End();
        b.End();
        return {};
      }));
  Finish(cx, draft, body, steps);
  return {};
}

Status LowerSolveLoops(LowerContext& cx, const Instruction& solve, Steps& steps) {
  const Shape& shape = solve.shape();
  const auto& attrs = solve.attrs<hlo::TriangularSolveAttrs>();
  int64_t rows = shape.dim(shape.rank() - 2), columns = shape.dim(shape.rank() - 1);
  int64_t n = attrs.left_side ? rows : columns, m = attrs.left_side ? columns : rows;
  bool conjugate = attrs.transpose_a == hlo::TransposeA::kAdjoint;
  bool transpose = conjugate || attrs.transpose_a == hlo::TransposeA::kTranspose;
  bool swap = transpose == attrs.left_side, lower = attrs.lower != swap;
  MemValue result = cx.memory.Leaf(solve);
  Copy(cx, cx.memory.Leaf(*solve.operand(1)), result, "solved in place", solve, steps);
  KernelBody body;
  body.instruction = &solve;
  body.inputs = {{solve.operand(0), cx.memory.Leaf(*solve.operand(0))}};
  KernelDraft draft = NewDraft(cx, body);
  draft.Declare(body.inputs, {});
  KernelBuilder::MemoryId memory = draft.DeclareBuffer(cx.Buffer(result), Access::kReadWrite);
  ElementContext& e = draft.elements();
  KernelBuilder& b = draft.builder();
  Field f(e, shape.dtype());
  ValueId zero = b.Int(0), size = b.Int(n);
  TRY(draft.ForEachRow(
      {MatricesOf(shape)}, static_cast<double>(n * n * m), true, [&](const Index& row) -> Status {
        MatrixMemory a{e, draft.MemoryOf(body.inputs[0].value), shape.dtype(),
                       ScaleCoord(e, row.coords[0], n * n).base, n};
        ValueId base = ScaleCoord(e, row.coords[0], n * m).base;
        auto triangle = [&](ValueId i, ValueId k) {
          int lanes = e.lanes;
          e.lanes = 1;
          Element x = swap ? a.Load(k, i) : a.Load(i, k);
          e.lanes = lanes;
          return conjugate ? f.Conjugate(x) : x;
        };
        auto place = [&](ValueId i, const Coord& c) {
          Coord at = attrs.left_side ? Coord{b.Mul(i, b.Int(m)), 0, 1} : Coord{i, 0, 1};
          return AddCoords(e, AddCoords(e, {base, 0, 1}, at),
                           attrs.left_side ? c : ScaleCoord(e, c, n));
        };
        auto column = [&](const Coord& c) -> Status {
          auto load = [&](ValueId i) { return LoadAt(e, memory, shape.dtype(), place(i, c)); };
          SerialLoop over_i(b, zero, size);
          ValueId i = over_i.counter();
          if (!lower) i = b.Sub(b.Int(n - 1), i);
          Element x = MinusDot(
              f, b, load(i), lower ? zero : b.Add(i, b.Int(1)), lower ? i : size,
              [&](ValueId k) { return triangle(i, k); }, load);
          if (!attrs.unit_diagonal) x = f.Divide(x, triangle(i, i));
          StoreAt(e, memory, shape.dtype(), place(i, c), x);
          over_i.End();
          return {};
        };
        int lanes = attrs.left_side ? draft.LanesFor(ByteWidth(shape.dtype()), m) : 1;
        return draft.OverLanes(m, lanes, true, column);
      }));
  Finish(cx, draft, body, steps);
  return {};
}

Status LowerLuLoops(LowerContext& cx, const Instruction& call, Steps& steps) {
  const Shape& shape = call.operand(0)->shape();
  int64_t m = shape.dim(shape.rank() - 2), n = shape.dim(shape.rank() - 1);
  int64_t pivots = std::min(m, n);
  const auto leaves = cx.memory.Leaves(call);
  Copy(cx, cx.memory.Leaf(*call.operand(0)), leaves[0], "factors are made in place", call, steps);
  KernelBody body;
  body.instruction = &call;
  body.outputs = {{&call, leaves[1]}, {&call, leaves[2]}};
  KernelDraft draft = NewDraft(cx, body);
  draft.Declare({}, body.outputs);
  KernelBuilder::MemoryId memory = draft.DeclareBuffer(cx.Buffer(leaves[0]), Access::kReadWrite);
  ElementContext& e = draft.elements();
  KernelBuilder& b = draft.builder();
  Field f(e, shape.dtype());
  ValueId zero = b.Int(0), none = b.Int(0, {DType::kS32, 1});
  TRY(draft.ForEachRow(
      {MatricesOf(shape)}, static_cast<double>(m * n * pivots), cx.serial,
      [&](const Index& row) -> Status {
        MatrixMemory a{e, memory, shape.dtype(), ScaleCoord(e, row.coords[0], m * n).base, n};
        SerialLoop over_k(b, zero, b.Int(pivots), {none});
        ValueId k = over_k.counter(), below = b.Add(k, b.Int(1));
        SerialLoop search(b, below, b.Int(m), {f.PivotSize(a.Load(k, k)), k});
        ValueId size = f.PivotSize(a.Load(search.counter(), k));
        ValueId larger = b.Emit(Op::kGt, {size, search.inside[1]});
        ValueId best = search.End({b.Select(larger, size, search.inside[1]),
                                   b.Select(larger, search.counter(), search.inside[2])})[1];
        StoreAt(e, draft.MemoryOf(leaves[1]), DType::kS32,
                AddCoords(e, ScaleCoord(e, row.coords[0], pivots), {k, 0, 1}),
                {b.Cast(b.Add(best, b.Int(1)), DType::kS32), -1});
        SerialLoop swap(b, zero, b.Int(n));
        Element upper = a.Load(k, swap.counter()), chosen = a.Load(best, swap.counter());
        a.Store(best, swap.counter(), upper);
        a.Store(k, swap.counter(), chosen);
        swap.End();
        Element pivot = a.Load(k, k);
        ValueId singular = f.IsZero(pivot);
        ValueId first = b.Emit(Op::kAnd, {singular, b.Emit(Op::kEq, {over_k.inside[1], none})});
        ValueId info = b.Select(first, b.Cast(below, DType::kS32), over_k.inside[1]);
        b.BeginIf(b.Emit(Op::kNot, {singular}));
        SerialLoop over_i(b, below, b.Int(m));
        ValueId i = over_i.counter();
        Element factor = f.Divide(a.Load(i, k), pivot);
        a.Store(i, k, factor);
        SerialLoop over_j(b, below, b.Int(n));
        ValueId j = over_j.counter();
        a.Store(i, j, f.SubtractProduct(a.Load(i, j), factor, a.Load(k, j)));
        over_j.End();
        over_i.End();
        b.End();
        info = over_k.End({info})[0];
        StoreAt(e, draft.MemoryOf(leaves[2]), DType::kS32, row.coords[0], {info, -1});
        return {};
      }));
  Finish(cx, draft, body, steps);
  return {};
}

}  // namespace weft::compiler
