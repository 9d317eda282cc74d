// Elements that are loops over others: reduce, dot, reduce-window.
#include <algorithm>
#include <bit>

#include "compiler/lower/element/elementwise.h"
#include "compiler/lower/element/ops.h"
#include "compiler/lower/sums.h"
#include "hlo/computation.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Op;
using program::Type;

namespace {

bool Contains(std::span<const int64_t> list, int64_t x) {
  return std::find(list.begin(), list.end(), x) != list.end();
}

// Which results of a reduction are sums of f32.
std::vector<bool> SumsOf(const Instruction& reduction, const hlo::Computation& to_apply) {
  std::vector<bool> sums;
  for (int64_t i = 0; i < reduction.operand_count() / 2; ++i) {
    sums.push_back(SumsF32(to_apply, reduction.operand(i)->shape().dtype(), i));
  }
  return sums;
}

// acc = step(k, acc) for k from 0 to rounds - 1. `sums`: elements that are sums of f32, which are
// cut in runs (sums.h).
using FoldStep = std::function<Result<std::vector<Element>>(const Coord&, std::vector<Element>)>;
// Few rounds are written out. All carried values have as many lanes as there are.
Result<std::vector<Element>> FoldElements(ElementContext& e, int64_t rounds, int64_t unrolled,
                                          std::vector<Element> acc, const std::vector<bool>& sums,
                                          const FoldStep& step) {
  if (rounds <= unrolled) {
    for (int64_t i = 0; i < rounds; ++i) acc = TRY(step(ConstantCoord(e, i), std::move(acc)));
    return acc;
  }
  auto pack = [&](std::span<const Element> elements) {
    KernelBuilder::Carry values;
    auto wide = [&](ValueId v) { return e.b.type(v).lanes == e.lanes ? v : e.b.Splat(v, e.lanes); };
    for (const Element& element : elements) {
      values.push_back(wide(element.re));
      if (element.im >= 0) values.push_back(wide(element.im));
    }
    return values;
  };
  auto unpack = [&](std::span<const ValueId> values) {
    std::vector<Element> elements;
    size_t k = 0;
    for (const Element& element : acc) {
      Element& out = elements.emplace_back();
      out.re = values[k++];
      if (element.im >= 0) out.im = values[k++];
    }
    return elements;
  };
  std::vector<bool> carried;
  for (size_t k = 0; k < acc.size(); ++k) {
    carried.insert(carried.end(), acc[k].im >= 0 ? 2 : 1, sums[k]);
  }
  return unpack(TRY(EmitSumLoop(
      e.b, {e.b.Int(0), e.b.Int(rounds), 1, rounds}, pack(acc), carried,
      [&](ValueId at, const KernelBuilder::Carry& so_far) -> Result<KernelBuilder::Carry> {
        return pack(TRY(step({at, 0, 1}, unpack(so_far))));
      })));
}

}  // namespace

// One output element as a loop over the reduced dimensions.
Result<Element> EmitReduce(ElementContext& e, const Instruction& reduce, int64_t output,
                           const Index& index) {
  const auto& attrs = reduce.attrs<hlo::ReduceAttrs>();
  int64_t n = reduce.operand_count() / 2;
  const Dims& from = reduce.operand(0)->shape().dims();
  const Shape& shape = reduce.shape().IsTuple() ? reduce.shape().tuple_element(0) : reduce.shape();
  Index at = Coordinates(e, shape.dims(), index);
  std::vector<Element> init;
  for (int64_t i = 0; i < n; ++i)
    init.push_back(TRY(EmitElement(e, *reduce.operand(n + i), Index())));
  Index moved;
  std::vector<size_t> reduced;
  size_t next = 0;
  int64_t total = 1;
  for (size_t d = 0; d < from.size(); ++d) {
    bool is_reduced = std::find(attrs.dimensions.begin(), attrs.dimensions.end(),
                                static_cast<int64_t>(d)) != attrs.dimensions.end();
    if (is_reduced) {
      reduced.push_back(d);
      total *= from[d];
    }
    moved.coords.push_back(is_reduced ? ConstantCoord(e, 0) : at.coords[next++]);
  }
  auto step = [&](Coord number, std::vector<Element> acc) -> Result<std::vector<Element>> {
    Index linear;
    linear.is_linear = true;
    linear.linear = number;
    std::vector<int64_t> sizes;
    for (size_t d : reduced) sizes.push_back(from[d]);
    Index inner = Coordinates(e, sizes, linear);
    for (size_t k = 0; k < reduced.size(); ++k) moved.coords[reduced[k]] = inner.coords[k];
    std::vector<Element> args = std::move(acc);
    for (int64_t i = 0; i < n; ++i) args.push_back(TRY(EmitElement(e, *reduce.operand(i), moved)));
    return CallComputation(e, *attrs.to_apply, args);
  };
  std::vector<Element> acc = TRY(
      FoldElements(e, total, kShortReduce, std::move(init), SumsOf(reduce, *attrs.to_apply), step));
  return acc[static_cast<size_t>(output)];
}

namespace {

// The coordinates of both operands of a dot: those that the result's give, zero in the contracted
// dimensions.
std::pair<Index, Index> DotOperandsAt(ElementContext& e, const Instruction& dot, const Index& at) {
  const auto& attrs = dot.attrs<hlo::DotAttrs>();
  std::pair<Index, Index> both;
  auto& [left, right] = both;
  left.coords.resize(static_cast<size_t>(dot.operand(0)->shape().rank()), ConstantCoord(e, 0));
  right.coords.resize(static_cast<size_t>(dot.operand(1)->shape().rank()), ConstantCoord(e, 0));
  size_t next = 0;
  for (size_t i = 0; i < attrs.lhs_batch_dims.size(); ++i, ++next) {
    left.coords[static_cast<size_t>(attrs.lhs_batch_dims[i])] = at.coords[next];
    right.coords[static_cast<size_t>(attrs.rhs_batch_dims[i])] = at.coords[next];
  }
  auto place = [&](Index& index, const auto& batch, const auto& contracting) {
    for (size_t d = 0; d < index.coords.size(); ++d) {
      int64_t dim = static_cast<int64_t>(d);
      if (Contains(batch, dim) || Contains(contracting, dim)) continue;
      index.coords[d] = at.coords[next++];
    }
  };
  place(left, attrs.lhs_batch_dims, attrs.lhs_contracting_dims);
  place(right, attrs.rhs_batch_dims, attrs.rhs_contracting_dims);
  return both;
}

// sum + p * q
ValueId DotTerm(ElementContext& e, DType type, ValueId p, ValueId q, ValueId sum) {
  MatchLanes(e, p, q);
  MatchLanes(e, p, sum);
  MatchLanes(e, q, sum);
  if (type == DType::kPred) return e.b.Emit(Op::kOr, {sum, e.b.Emit(Op::kAnd, {p, q})});
  const program::Value& so_far = e.b.value(sum);
  if (so_far.is_constant && so_far.bits == 0) return e.b.Mul(p, q);  // the first term
  if (IsFloat(type)) return e.b.Fma(p, q, sum);
  return e.b.Add(sum, e.b.Mul(p, q));
}

}  // namespace

// Sums are in the compute type of the result, rounded once. Of complex numbers those of the real
// and of the imaginary parts of the left side are added last: x times its conjugate has the
// imaginary part 0.
Result<Element> EmitDot(ElementContext& e, const Instruction& dot, const Index& index) {
  const auto& attrs = dot.attrs<hlo::DotAttrs>();
  const Shape &lhs = dot.operand(0)->shape(), &rhs = dot.operand(1)->shape();
  Index at = Coordinates(e, dot.shape().dims(), index);
  auto [left, right] = DotOperandsAt(e, dot, at);
  std::vector<int64_t> sizes;
  int64_t total = 1;
  for (int64_t d : attrs.lhs_contracting_dims) {
    sizes.push_back(lhs.dim(d));
    total *= lhs.dim(d);
  }
  DType type = dot.shape().dtype(), part = program::ComputeType(RealType(type));
  auto step = [&, &left = left, &right = right](
                  Coord number, std::vector<Element> sums) -> Result<std::vector<Element>> {
    Index linear;
    linear.is_linear = true;
    linear.linear = number;
    Index inner = Coordinates(e, sizes, linear);
    for (size_t k = 0; k < sizes.size(); ++k) {
      left.coords[static_cast<size_t>(attrs.lhs_contracting_dims[k])] = inner.coords[k];
      right.coords[static_cast<size_t>(attrs.rhs_contracting_dims[k])] = inner.coords[k];
    }
    Element x = TRY(EmitElement(e, *dot.operand(0), left)),
            y = TRY(EmitElement(e, *dot.operand(1), right));
    x = ConvertElement(e, x, lhs.dtype(), IsComplex(type) ? type : part);
    y = ConvertElement(e, y, rhs.dtype(), IsComplex(type) ? type : part);
    Element sum{DotTerm(e, part, x.re, y.re, sums[0].re), -1};
    if (!IsComplex(type)) return std::vector<Element>{sum};
    sum.im = DotTerm(e, part, x.re, y.im, sums[0].im);
    return std::vector<Element>{
        sum, {DotTerm(e, part, x.im, y.im, sums[1].re), DotTerm(e, part, x.im, y.re, sums[1].im)}};
  };
  const size_t parts = IsComplex(type) ? 2 : 1;
  std::vector<Element> sums =
      TRY(FoldElements(e, total, kUnrolledTerms, std::vector(parts, ZeroElement(e, type)),
                       std::vector<bool>(parts, part == DType::kF32), step));
  if (IsComplex(type)) {
    MatchLanes(e, sums[0].re, sums[1].re);
    MatchLanes(e, sums[0].im, sums[1].im);
    return Element{e.b.Sub(sums[0].re, sums[1].re), e.b.Add(sums[0].im, sums[1].im)};
  }
  return Element{RoundToStorage(e.b, sums[0].re, type), -1};
}

Result<Element> EmitReduceWindow(ElementContext& e, const Instruction& op, int64_t output,
                                 const Index& index) {
  const auto& attrs = op.attrs<hlo::ReduceWindowAttrs>();
  int64_t n = op.operand_count() / 2;
  const Dims& from = op.operand(0)->shape().dims();
  const Shape& shape = op.shape().IsTuple() ? op.shape().tuple_element(0) : op.shape();
  Index at = Coordinates(e, shape.dims(), index);
  std::vector<Element> init;
  for (int64_t i = 0; i < n; ++i) init.push_back(TRY(EmitElement(e, *op.operand(n + i), Index())));
  std::vector<int64_t> sizes;
  int64_t total = 1;
  for (const hlo::WindowDim& w : attrs.window.dims) {
    sizes.push_back(w.size);
    total *= w.size;
  }
  auto step = [&](Coord number, std::vector<Element> acc) -> Result<std::vector<Element>> {
    Index linear;
    linear.is_linear = true;
    linear.linear = number;
    Index inner = Coordinates(e, sizes, linear), moved;
    ValueId inside = -1;
    auto also = [&](ValueId p) {
      if (p < 0) return;
      if (inside >= 0) MatchLanes(e, inside, p);
      inside = inside < 0 ? p : e.b.Emit(Op::kAnd, {inside, p});
    };
    for (size_t d = 0; d < from.size(); ++d) {
      const hlo::WindowDim& w = attrs.window.dims[d];
      Coord k = inner.coords[d];
      if (w.reversal) k = AddConstant(e, ScaleCoord(e, k, -1), w.size - 1);
      Coord c =
          AddCoords(e, ScaleCoord(e, at.coords[d], w.stride), ScaleCoord(e, k, w.window_dilation));
      c = AddConstant(e, c, -w.pad_low);
      int64_t width = (from[d] - 1) * w.base_dilation + 1;
      int64_t reach = (shape.dims()[d] - 1) * w.stride + (w.size - 1) * w.window_dilation;
      if (w.pad_low > 0 || reach - w.pad_low >= width) {
        ValueId x = LaneValue(e, c, DType::kS64);
        ValueId low = e.b.Emit(Op::kGe, {x, e.b.Int(0, e.b.type(x))});
        also(e.b.Emit(Op::kAnd, {low, e.b.Emit(Op::kLt, {x, e.b.Int(width, e.b.type(x))})}));
        c = ClampCoord(e, c, 0, width - 1);
      }
      if (w.base_dilation > 1) {
        ValueId r = LaneValue(e, CoordRemainder(e, c, w.base_dilation), DType::kS64);
        also(e.b.Emit(Op::kEq, {r, e.b.Int(0, e.b.type(r))}));
        c = DivideCoord(e, c, w.base_dilation);
      }
      moved.coords.push_back(c);
    }
    std::vector<Element> args = acc;
    for (int64_t i = 0; i < n; ++i) args.push_back(TRY(EmitElement(e, *op.operand(i), moved)));
    std::vector<Element> next = TRY(CallComputation(e, *attrs.to_apply, args));
    for (size_t i = 0; i < next.size(); ++i) next[i] = SelectElement(e, inside, next[i], acc[i]);
    return next;
  };
  std::vector<Element> acc = TRY(
      FoldElements(e, total, kUnrolledTerms, std::move(init), SumsOf(op, *attrs.to_apply), step));
  return acc[static_cast<size_t>(output)];
}

}  // namespace weft::compiler
