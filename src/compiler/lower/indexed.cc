// scatter and select-and-scatter: updates at places that the program computes, one after the other.
#include <algorithm>

#include "base/str.h"
#include "compiler/lower/lowering.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Access;
using program::LoopKind;
using program::Op;

namespace {

bool Holds(std::span<const int64_t> list, int64_t x) {
  return std::find(list.begin(), list.end(), x) != list.end();
}

constexpr double kParallelScatter = 400'000;  // element updates worth several threads
constexpr int64_t kWindowPiece = 64;  // elements of the minor window dimension a thread takes

}  // namespace

// Updates are applied in order. Threads share the work by columns of the window, so that the order
// at each element is the same for any number of them.
Status Lowering::LowerScatter(const Instruction& scatter, Steps& steps) {
  const auto& attrs = scatter.attrs<hlo::ScatterAttrs>();
  int64_t n = (scatter.operand_count() - 1) / 2;
  const Instruction& indices = *scatter.operand(n);
  const Shape &operand = scatter.operand(0)->shape(), &updates = scatter.operand(n + 1)->shape();
  const auto& results = memory_.Leaves(scatter);
  KernelBody body;
  body.instruction = &scatter;
  body.members = {&scatter};
  auto bind = [&](const Instruction* i) {
    if (i->IsConstant() && i->literal().size() == 1) return;
    for (const KernelInput& in : body.inputs) {
      if (in.inside == i) return;
    }
    body.inputs.push_back({i, memory_.Leaf(*i)});
  };
  std::vector<std::pair<MemValue, MemValue>> moves;
  for (int64_t i = 0; i < n; ++i) {
    moves.emplace_back(memory_.Leaf(*scatter.operand(i)), results[static_cast<size_t>(i)]);
  }
  CopyTogether(std::move(moves), "the scattered-into array", scatter, steps);
  for (int64_t i = 0; i < n; ++i) {
    body.outputs.push_back({&scatter, results[static_cast<size_t>(i)]});
    bind(scatter.operand(n + 1 + i));
  }
  if (updates.elements() == 0) return {};
  bind(&indices);
  KernelDraft draft = NewDraft(body);
  draft.Declare(body.inputs, {});
  std::vector<KernelBuilder::MemoryId> memory;
  for (const KernelOutput& out : body.outputs) {
    memory.push_back(draft.DeclareBuffer(Buffer(out.value), Access::kReadWrite));
  }
  ElementEmitter& e = draft.elements();
  KernelBuilder& b = draft.builder();
  // The dimensions of updates: those that say which index, and those of the window.
  Dims scatter_dims, scatter_sizes, window_dims, window_sizes;
  for (int64_t d = 0; d < updates.rank(); ++d) {
    bool window = Holds(attrs.update_window_dims, d);
    (window ? window_dims : scatter_dims).push_back(d);
    (window ? window_sizes : scatter_sizes).push_back(updates.dim(d));
  }
  // Operand dimensions that the window covers, in order.
  Dims covered;
  for (int64_t d = 0; d < operand.rank(); ++d) {
    if (!Holds(attrs.inserted_window_dims, d) && !Holds(attrs.input_batching_dims, d)) {
      covered.push_back(d);
    }
  }
  int64_t count = 1, window = 1;
  for (int64_t s : scatter_sizes) count *= s;
  for (int64_t s : window_sizes) window *= s;
  auto one_index =
      [&](ValueId number,
          const std::function<Status(const Index&, const Index&)>& over_window) -> Status {
    Index linear;
    linear.is_linear = true;
    linear.linear = {number, 0, 1};
    Index at = e.Coordinates(scatter_sizes, linear), start;
    start.coords.resize(static_cast<size_t>(operand.rank()), e.Constant(0));
    auto index_at = [&](int64_t component) {
      Index i;
      size_t next = 0;
      for (int64_t d = 0; d < indices.shape().rank(); ++d) {
        i.coords.push_back(d == attrs.index_vector_dim ? e.Constant(component) : at.coords[next++]);
      }
      return i;
    };
    for (size_t k = 0; k < attrs.input_batching_dims.size(); ++k) {
      int64_t d = attrs.scatter_indices_batching_dims[k];
      if (attrs.index_vector_dim < d) --d;
      start.coords[static_cast<size_t>(attrs.input_batching_dims[k])] =
          at.coords[static_cast<size_t>(d)];
    }
    ValueId inside = -1;
    for (size_t k = 0; k < attrs.scatter_dims_to_operand_dims.size(); ++k) {
      int64_t d = attrs.scatter_dims_to_operand_dims[k];
      Coord c = TRY(e.EmitCoord(indices, index_at(static_cast<int64_t>(k))));
      int64_t size = 1;
      for (size_t w = 0; w < covered.size(); ++w) {
        if (covered[w] == d) size = window_sizes[w];
      }
      auto check = [&](ValueId ok) { inside = inside < 0 ? ok : b.Emit(Op::kAnd, {inside, ok}); };
      int64_t last = operand.dim(d) - size;
      if (c.low < 0) check(b.Emit(Op::kGe, {c.base, b.Int(0)}));
      if (c.high > last) check(b.Emit(Op::kLe, {c.base, b.Int(last)}));
      start.coords[static_cast<size_t>(d)] = c;
    }
    if (inside >= 0) b.BeginIf(inside);
    TRY(over_window(at, start));
    if (inside >= 0) b.End();
    return {};
  };
  // One element (or one a lane) of the window.
  auto update = [&](const Index& at, const Index& start, const Index& w) -> Status {
    Index from, to = start;
    from.coords.resize(static_cast<size_t>(updates.rank()));
    for (size_t k = 0; k < scatter_dims.size(); ++k) {
      from.coords[static_cast<size_t>(scatter_dims[k])] = at.coords[k];
    }
    for (size_t k = 0; k < window_dims.size(); ++k) {
      from.coords[static_cast<size_t>(window_dims[k])] = w.coords[k];
      Coord& c = to.coords[static_cast<size_t>(covered[k])];
      c = e.Add(c, w.coords[k]);
    }
    Coord place = e.Linear(operand.dims(), to);
    std::vector<Element> args;
    for (int64_t i = 0; i < n; ++i) {
      args.push_back(
          e.LoadAt(memory[static_cast<size_t>(i)], scatter.operand(i)->shape().dtype(), place));
    }
    for (int64_t i = 0; i < n; ++i) args.push_back(TRY(e.Emit(*scatter.operand(n + 1 + i), from)));
    std::vector<Element> values = TRY(e.Call(*attrs.to_apply, args));
    for (int64_t i = 0; i < n; ++i) {
      e.StoreAt(memory[static_cast<size_t>(i)], scatter.operand(i)->shape().dtype(), place,
                values[static_cast<size_t>(i)]);
    }
    return {};
  };
  int64_t width = 1;
  for (int64_t i = 0; i < n; ++i) {
    width = std::max(width, ByteWidth(RealType(scatter.operand(i)->shape().dtype())));
  }
  if (IsFloat(operand.dtype())) width = std::max<int64_t>(width, 4);
  int64_t minor = window_sizes.empty() ? 1 : window_sizes.back();
  double work = static_cast<double>(count) * static_cast<double>(window);
  bool split = !serial_ && work > kParallelScatter && minor >= 2 * kWindowPiece;
  int64_t piece = split ? kWindowPiece : minor;
  int64_t pieces = split ? (minor + piece - 1) / piece : 1;
  if (minor % piece != 0) {
    piece = minor;
    pieces = 1;
  }
  if (target_.kind == program::TargetKind::kGpu) {
    piece = 1;
    pieces = minor;
  }
  ValueId column = b.Int(0);
  if (pieces > 1) {
    ValueId p = b.BeginLoop(LoopKind::kParallel, b.Int(0), b.Int(pieces), b.Int(1))[0];
    column = b.Mul(p, b.Int(piece));
  }
  // No two updates meet: any order will do.
  constexpr int64_t kScatterChunks = 16;
  bool chunked = attrs.unique_indices && !serial_ && pieces == 1 && work > kParallelScatter / 4 &&
                 count >= 64 * kScatterChunks;
  ValueId number = b.Int(0), first = b.Int(0), last = b.Int(count);
  if (chunked) {
    int64_t chunk = (count + kScatterChunks - 1) / kScatterChunks;
    ValueId c = b.BeginLoop(LoopKind::kParallel, b.Int(0), b.Int(kScatterChunks), b.Int(1))[0];
    first = b.Mul(c, b.Int(chunk));
    last = b.Min(b.Add(first, b.Int(chunk)), b.Int(count));
  }
  if (count > 1) number = b.BeginLoop(LoopKind::kSerial, first, last, b.Int(1))[0];
  TRY(one_index(number, [&](const Index& at, const Index& start) -> Status {
    Index w;
    w.coords.resize(window_dims.size(), e.Constant(0));
    if (window == 1) return update(at, start, w);
    LoopShape outer;
    outer.dims = Dims(std::span(window_sizes.data(), window_sizes.size() - 1));
    outer.serial = true;
    outer.scalar = true;  // lanes are of the row inside
    int lanes = minor >= 4 ? draft.LanesFor(width, piece) : 1;
    auto row = [&](const Index& o) {
      Index index = e.Coordinates(outer.dims, o);
      index.coords.push_back({});
      return draft.OverLanes(piece, lanes, true, [&](Coord c) {
        index.coords.back() = e.Add({column, 0, piece}, c);
        return update(at, start, index);
      });
    };
    return draft.ForEach(outer, row);
  }));
  if (count > 1) b.End();
  if (chunked || pieces > 1) b.End();
  Finish(draft, body, steps);
  return {};
}

// For every window: the chosen element gets the source's value scattered to it.
Status Lowering::LowerSelectAndScatter(const Instruction& op, Steps& steps) {
  const auto& attrs = op.attrs<hlo::SelectAndScatterAttrs>();
  const Instruction &operand = *op.operand(0), &source = *op.operand(1), &init = *op.operand(2);
  const Shape& shape = op.shape();
  MemValue result = memory_.Leaf(op);
  KernelBody body;
  body.instruction = &op;
  body.members = {&op};
  for (const Instruction* i : op.operands()) {
    if (i->IsConstant() && i->literal().size() == 1) continue;
    body.inputs.push_back({i, memory_.Leaf(*i)});
  }
  body.outputs = {{&op, result}};
  {
    KernelDraft fill(StrCat(op.name(), ".init"), program_, memory_, target_);
    fill.Declare(body.inputs, body.outputs);
    LoopShape loop;
    loop.dims = shape.dims();
    loop.flat = true;
    loop.serial = serial_;
    loop.width = std::max<int64_t>(4, ByteWidth(shape.dtype()));
    ElementEmitter& e = fill.elements();
    TRY(fill.ForEach(loop, [&](const Index& index) -> Status {
      e.StoreAt(fill.MemoryOf(result), shape.dtype(), e.Linear(shape.dims(), index),
                TRY(e.Emit(init, Index())));
      return {};
    }));
    Finish(fill, body, steps);
  }
  KernelDraft draft = NewDraft(body);
  draft.Declare(body.inputs, {});
  KernelBuilder::MemoryId out = draft.DeclareBuffer(Buffer(result), Access::kReadWrite);
  ElementEmitter& e = draft.elements();
  KernelBuilder& b = draft.builder();
  int64_t windows = source.shape().elements(), total = 1;
  Dims sizes;
  for (const hlo::WindowDim& w : attrs.window.dims) {
    sizes.push_back(w.size);
    total *= w.size;
  }
  ValueId number = b.BeginLoop(LoopKind::kSerial, b.Int(0), b.Int(windows), b.Int(1))[0];
  Index linear;
  linear.is_linear = true;
  linear.linear = {number, 0, 1};
  Index at = e.Coordinates(source.shape().dims(), linear);
  // The place of the best element so far (-1: none yet) and its value.
  Element zero = e.Zero(shape.dtype());
  KernelBuilder::Carry carry = {b.Int(-1), zero.re};
  if (zero.im >= 0) carry.push_back(zero.im);
  std::vector<ValueId> inside =
      b.BeginLoop(LoopKind::kSerial, b.Int(0), b.Int(total), b.Int(1), carry);
  Element best{inside[2], zero.im >= 0 ? inside[3] : -1};
  Index inner;
  inner.is_linear = true;
  inner.linear = {inside[0], 0, 1};
  Index k = e.Coordinates(sizes, inner), from;
  ValueId valid = b.Pred(true);
  for (size_t d = 0; d < sizes.size(); ++d) {
    const hlo::WindowDim& w = attrs.window.dims[d];
    Coord c = e.Add(e.Scale(at.coords[d], w.stride), e.Scale(k.coords[d], w.window_dilation));
    c = e.AddConstant(c, -w.pad_low);
    ValueId low = b.Emit(Op::kGe, {c.base, b.Int(0)});
    ValueId high = b.Emit(Op::kLt, {c.base, b.Int(shape.dims()[d])});
    valid = b.Emit(Op::kAnd, {valid, b.Emit(Op::kAnd, {low, high})});
    from.coords.push_back(e.Clamp(c, 0, shape.dims()[d] - 1));
  }
  Element value = TRY(e.Emit(operand, from));
  std::vector<Element> keeps = TRY(e.Call(*attrs.select, std::vector<Element>{best, value}));
  ValueId first = b.Emit(Op::kLt, {inside[1], b.Int(0)});
  ValueId better = b.Emit(Op::kOr, {first, b.Emit(Op::kNot, {keeps[0].re})});
  ValueId takes = b.Emit(Op::kAnd, {valid, better});
  Coord place = e.Linear(shape.dims(), from);
  Element chosen = e.Select(takes, value, best);
  KernelBuilder::Carry yield = {b.Select(takes, place.base, inside[1]), chosen.re};
  if (zero.im >= 0) yield.push_back(chosen.im);
  std::vector<ValueId> after = b.End(yield);
  b.BeginIf(b.Emit(Op::kGe, {after[0], b.Int(0)}));
  Element old = e.LoadAt(out, shape.dtype(), {after[0], 0, 1});
  Element add = TRY(e.Emit(source, at));
  std::vector<Element> sum = TRY(e.Call(*attrs.scatter, std::vector<Element>{old, add}));
  e.StoreAt(out, shape.dtype(), {after[0], 0, 1}, sum[0]);
  b.End();
  b.End();
  Finish(draft, body, steps);
  return {};
}

}  // namespace weft::compiler
