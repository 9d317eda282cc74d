// Elements that are loops over others: reduce, dot, reduce-window; and bit reinterpretations.
#include <algorithm>
#include <bit>

#include "compiler/lower/element/element.h"
#include "compiler/lower/element/float_bits.h"
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

}  // namespace

// Few rounds are written out. All carried values have as many lanes as there are.
Result<std::vector<Element>> ElementEmitter::Fold(int64_t rounds, int64_t unrolled,
                                                  std::vector<Element> acc,
                                                  const std::vector<bool>& sums,
                                                  const FoldStep& step) {
  if (rounds <= unrolled) {
    for (int64_t i = 0; i < rounds; ++i) acc = TRY(step(Constant(i), std::move(acc)));
    return acc;
  }
  auto pack = [&](std::span<const Element> elements) {
    KernelBuilder::Carry values;
    auto wide = [&](ValueId v) { return b_.type(v).lanes == lanes_ ? v : b_.Splat(v, lanes_); };
    for (const Element& e : elements) {
      values.push_back(wide(e.re));
      if (e.im >= 0) values.push_back(wide(e.im));
    }
    return values;
  };
  auto unpack = [&](std::span<const ValueId> values) {
    std::vector<Element> elements;
    size_t k = 0;
    for (const Element& e : acc) {
      Element& out = elements.emplace_back();
      out.re = values[k++];
      if (e.im >= 0) out.im = values[k++];
    }
    return elements;
  };
  std::vector<bool> carried;
  for (size_t k = 0; k < acc.size(); ++k) {
    carried.insert(carried.end(), acc[k].im >= 0 ? 2 : 1, sums[k]);
  }
  return unpack(TRY(EmitSumLoop(
      b_, {b_.Int(0), b_.Int(rounds), 1, rounds}, pack(acc), carried,
      [&](ValueId at, const KernelBuilder::Carry& so_far) -> Result<KernelBuilder::Carry> {
        return pack(TRY(step({at, 0, 1}, unpack(so_far))));
      })));
}

// One output element as a loop over the reduced dimensions.
Result<Element> ElementEmitter::EmitReduce(const Instruction& reduce, int64_t output,
                                           const Index& index) {
  const auto& attrs = reduce.attrs<hlo::ReduceAttrs>();
  int64_t n = reduce.operand_count() / 2;
  const Dims& from = reduce.operand(0)->shape().dims();
  const Shape& shape = reduce.shape().IsTuple() ? reduce.shape().tuple_element(0) : reduce.shape();
  Index at = Coordinates(shape.dims(), index);
  std::vector<Element> init;
  for (int64_t i = 0; i < n; ++i) init.push_back(TRY(Emit(*reduce.operand(n + i), Index())));
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
    moved.coords.push_back(is_reduced ? Constant(0) : at.coords[next++]);
  }
  auto step = [&](Coord number, std::vector<Element> acc) -> Result<std::vector<Element>> {
    Index linear;
    linear.is_linear = true;
    linear.linear = number;
    std::vector<int64_t> sizes;
    for (size_t d : reduced) sizes.push_back(from[d]);
    Index inner = Coordinates(sizes, linear);
    for (size_t k = 0; k < reduced.size(); ++k) moved.coords[reduced[k]] = inner.coords[k];
    std::vector<Element> args = std::move(acc);
    for (int64_t i = 0; i < n; ++i) args.push_back(TRY(Emit(*reduce.operand(i), moved)));
    return Call(*attrs.to_apply, args);
  };
  std::vector<Element> acc =
      TRY(Fold(total, kShortReduce, std::move(init), SumsOf(reduce, *attrs.to_apply), step));
  return acc[static_cast<size_t>(output)];
}

// Sums are in the compute type of the result, rounded once.
Result<Element> ElementEmitter::EmitDot(const Instruction& dot, const Index& index) {
  const auto& attrs = dot.attrs<hlo::DotAttrs>();
  const Shape &lhs = dot.operand(0)->shape(), &rhs = dot.operand(1)->shape();
  Index at = Coordinates(dot.shape().dims(), index), left, right;
  left.coords.resize(static_cast<size_t>(lhs.rank()), Constant(0));
  right.coords.resize(static_cast<size_t>(rhs.rank()), Constant(0));
  size_t next = 0;
  for (size_t i = 0; i < attrs.lhs_batch_dims.size(); ++i, ++next) {
    left.coords[static_cast<size_t>(attrs.lhs_batch_dims[i])] = at.coords[next];
    right.coords[static_cast<size_t>(attrs.rhs_batch_dims[i])] = at.coords[next];
  }
  for (int64_t d = 0; d < lhs.rank(); ++d) {
    if (!Contains(attrs.lhs_batch_dims, d) && !Contains(attrs.lhs_contracting_dims, d)) {
      left.coords[static_cast<size_t>(d)] = at.coords[next++];
    }
  }
  for (int64_t d = 0; d < rhs.rank(); ++d) {
    if (!Contains(attrs.rhs_batch_dims, d) && !Contains(attrs.rhs_contracting_dims, d)) {
      right.coords[static_cast<size_t>(d)] = at.coords[next++];
    }
  }
  std::vector<int64_t> sizes;
  int64_t total = 1;
  for (int64_t d : attrs.lhs_contracting_dims) {
    sizes.push_back(lhs.dim(d));
    total *= lhs.dim(d);
  }
  DType type = dot.shape().dtype(), part = program::ComputeType(RealType(type));
  auto step = [&](Coord number, std::vector<Element> sums) -> Result<std::vector<Element>> {
    const Element& acc = sums[0];
    Index linear;
    linear.is_linear = true;
    linear.linear = number;
    Index inner = Coordinates(sizes, linear);
    for (size_t k = 0; k < sizes.size(); ++k) {
      left.coords[static_cast<size_t>(attrs.lhs_contracting_dims[k])] = inner.coords[k];
      right.coords[static_cast<size_t>(attrs.rhs_contracting_dims[k])] = inner.coords[k];
    }
    Element x = TRY(Emit(*dot.operand(0), left)), y = TRY(Emit(*dot.operand(1), right));
    x = Convert(x, lhs.dtype(), IsComplex(type) ? type : part);
    y = Convert(y, rhs.dtype(), IsComplex(type) ? type : part);
    auto term = [&](ValueId p, ValueId q, ValueId sum, bool negative) {
      Match(p, q);
      Match(p, sum);
      Match(q, sum);
      if (part == DType::kPred) return b_.Emit(Op::kOr, {sum, b_.Emit(Op::kAnd, {p, q})});
      if (negative) p = b_.Emit(Op::kNeg, {p});
      const program::Value& so_far = b_.value(sum);
      if (so_far.is_constant && so_far.bits == 0) return b_.Mul(p, q);  // the first term
      if (IsFloat(part)) return b_.Fma(p, q, sum);
      return b_.Add(sum, b_.Mul(p, q));
    };
    Element sum{term(x.re, y.re, acc.re, false), -1};
    if (IsComplex(type)) {
      sum.re = term(x.im, y.im, sum.re, true);
      sum.im = term(x.im, y.re, term(x.re, y.im, acc.im, false), false);
    }
    return std::vector<Element>{sum};
  };
  Element acc = TRY(Fold(total, kUnrolledTerms, {Zero(type)}, {part == DType::kF32}, step))[0];
  if (!IsComplex(type)) acc.re = Round(acc.re, type);
  return acc;
}

Result<Element> ElementEmitter::EmitReduceWindow(const Instruction& op, int64_t output,
                                                 const Index& index) {
  const auto& attrs = op.attrs<hlo::ReduceWindowAttrs>();
  int64_t n = op.operand_count() / 2;
  const Dims& from = op.operand(0)->shape().dims();
  const Shape& shape = op.shape().IsTuple() ? op.shape().tuple_element(0) : op.shape();
  Index at = Coordinates(shape.dims(), index);
  std::vector<Element> init;
  for (int64_t i = 0; i < n; ++i) init.push_back(TRY(Emit(*op.operand(n + i), Index())));
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
    Index inner = Coordinates(sizes, linear), moved;
    ValueId inside = -1;
    auto also = [&](ValueId p) {
      if (p < 0) return;
      if (inside >= 0) Match(inside, p);
      inside = inside < 0 ? p : b_.Emit(Op::kAnd, {inside, p});
    };
    for (size_t d = 0; d < from.size(); ++d) {
      const hlo::WindowDim& w = attrs.window.dims[d];
      Coord k = inner.coords[d];
      if (w.reversal) k = AddConstant(Scale(k, -1), w.size - 1);
      Coord c = Add(Scale(at.coords[d], w.stride), Scale(k, w.window_dilation));
      c = AddConstant(c, -w.pad_low);
      int64_t width = (from[d] - 1) * w.base_dilation + 1;
      int64_t reach = (shape.dims()[d] - 1) * w.stride + (w.size - 1) * w.window_dilation;
      if (w.pad_low > 0 || reach - w.pad_low >= width) {
        ValueId x = LaneValue(c, DType::kS64);
        ValueId low = b_.Emit(Op::kGe, {x, b_.Int(0, b_.type(x))});
        also(b_.Emit(Op::kAnd, {low, b_.Emit(Op::kLt, {x, b_.Int(width, b_.type(x))})}));
        c = Clamp(c, 0, width - 1);
      }
      if (w.base_dilation > 1) {
        ValueId r = LaneValue(Remainder(c, w.base_dilation), DType::kS64);
        also(b_.Emit(Op::kEq, {r, b_.Int(0, b_.type(r))}));
        c = Divide(c, w.base_dilation);
      }
      moved.coords.push_back(c);
    }
    std::vector<Element> args = acc;
    for (int64_t i = 0; i < n; ++i) args.push_back(TRY(Emit(*op.operand(i), moved)));
    std::vector<Element> next = TRY(Call(*attrs.to_apply, args));
    for (size_t i = 0; i < next.size(); ++i) next[i] = Select(inside, next[i], acc[i]);
    return next;
  };
  std::vector<Element> acc =
      TRY(Fold(total, kUnrolledTerms, std::move(init), SumsOf(op, *attrs.to_apply), step));
  return acc[static_cast<size_t>(output)];
}

// Same width: the bits under another type. Otherwise the last dimension holds the parts, the low
// bits first.
Result<Element> ElementEmitter::EmitBitcastConvert(const Instruction& convert, const Index& index) {
  DType from = convert.operand(0)->shape().dtype(), to = convert.shape().dtype();
  if (IsComplex(from) || IsComplex(to)) {
    if (from == to) return Emit(*convert.operand(0), index);
    return Unimplemented("bitcast-convert: no native lowering from ", Name(from), " to ", Name(to));
  }
  auto stored_bits = [](DType t) { return t == DType::kPred ? 8 : BitWidth(t); };
  int from_bits = stored_bits(from), to_bits = stored_bits(to);
  DType from_int = IntegerType(DTypeClass::kUnsigned, std::max(from_bits, 8));
  DType to_int = IntegerType(DTypeClass::kUnsigned, std::max(to_bits, 8));
  // An element's storage bits as an unsigned integer, and back.
  auto bits_of = [&](ValueId v) -> ValueId {
    if (from == DType::kPred) return b_.Cast(v, DType::kU8);
    if (IsFloat(from) && BitWidth(b_.type(v).dtype) != from_bits) {
      return b_.Cast(BitsOfNarrowFloat(b_, v, from), from_int);
    }
    ValueId bits = b_.Bitcast(v, from_int);
    if (from_bits >= 8) return bits;
    return b_.Emit(Op::kAnd, {bits, b_.Int((1 << from_bits) - 1, b_.type(bits))});
  };
  auto value_of = [&](ValueId v) -> ValueId {
    DType compute = program::ComputeType(to);
    if (to == DType::kPred) return b_.Emit(Op::kNe, {v, b_.Int(0, b_.type(v))});
    if (IsFloat(to) && BitWidth(compute) != to_bits) {
      ValueId bits = b_.Cast(v, DType::kU32);
      if (to_bits < 8) bits = b_.Emit(Op::kAnd, {bits, b_.Int((1 << to_bits) - 1, b_.type(bits))});
      return NarrowFloatOfBits(b_, bits, to);
    }
    return Round(b_.Bitcast(v, compute), to);
  };
  if (from_bits == to_bits) {
    Element x = TRY(Emit(*convert.operand(0), index));
    if (from == to) return x;
    return Element{value_of(bits_of(x.re)), -1};
  }
  Index at = Coordinates(convert.shape().dims(), index);
  if (from_bits > to_bits) {
    Coord part = at.coords.back();
    at.coords.pop_back();
    ValueId bits = bits_of(TRY(Emit(*convert.operand(0), at)).re);
    ValueId amount = b_.Cast(LaneValue(Scale(part, to_bits), DType::kS32), from_int);
    Match(bits, amount);
    return Element{value_of(b_.Cast(b_.Emit(Op::kShr, {bits, amount}), to_int)), -1};
  }
  ValueId all = -1;
  for (int i = 0; i < to_bits / from_bits; ++i) {
    Index part = at;
    part.coords.push_back(Constant(i));
    ValueId bits = b_.Cast(bits_of(TRY(Emit(*convert.operand(0), part)).re), to_int);
    if (i > 0) bits = b_.Emit(Op::kShl, {bits, b_.Int(i * from_bits, b_.type(bits))});
    if (all >= 0) Match(all, bits);
    all = all < 0 ? bits : b_.Emit(Op::kOr, {all, bits});
  }
  return Element{value_of(all), -1};
}

}  // namespace weft::compiler
