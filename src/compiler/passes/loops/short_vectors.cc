// Short vectors by element: movements rename, the rest is computed once for each element.
#include "compiler/passes/loops/short_vectors.h"

#include <algorithm>
#include <numeric>

#include "compiler/analysis/queries.h"
#include "compiler/passes/loops/counted_loop.h"
#include "compiler/passes/rewrite.h"
#include "hlo/op.h"

namespace weft::compiler {

using hlo::Builder;
using hlo::Instruction;
using hlo::Ints;
using hlo::Op;

namespace {

size_t Unsigned(int64_t n) {
  return static_cast<size_t>(n);
}

Ints CoordinatesOf(int64_t n, const Shape& shape) {
  Ints at(Unsigned(shape.rank()));
  for (int64_t d = shape.rank(); d-- > 0; n /= shape.dim(d)) at[Unsigned(d)] = n % shape.dim(d);
  return at;
}

int64_t PlaceOf(const Ints& at, const Shape& shape) {
  int64_t n = 0;
  for (int64_t d = 0; d < shape.rank(); ++d) n = n * shape.dim(d) + at[Unsigned(d)];
  return n;
}

// Where a part begins, where that is known: in bounds.
std::optional<Ints> KnownStartsOf(const Instruction& i, int64_t first, const Shape& part) {
  Ints starts;
  for (int64_t d = 0; d < part.rank(); ++d) {
    std::optional<int64_t> start = IntegerValue(*i.operand(first + d));
    if (!start) return std::nullopt;
    starts.push_back(std::clamp<int64_t>(*start, 0, i.operand(0)->shape().dim(d) - part.dim(d)));
  }
  return starts;
}

// How far behind its first element n of a part lies in the array as a row.
int64_t FlatOffset(int64_t n, const Shape& array, const Shape& part) {
  return PlaceOf(CoordinatesOf(n, part), array);
}

// s32[], from 0 to `last`.
Result<Instruction*> InBounds(Builder& b, Instruction* start, int64_t last) {
  DType dtype = start->shape().dtype();
  if (BitWidth(dtype) < 32) {  // which may not hold the last one
    start = TRY(b.Convert(start, DType::kS32));
    dtype = DType::kS32;
  }
  start = TRY(b.Add(Op::kMaximum, {start, b.ScalarConstant(dtype, 0)}));
  Instruction* most = b.ScalarConstant(dtype, static_cast<double>(last));
  start = TRY(b.Add(Op::kMinimum, {start, most}));
  return dtype != DType::kS32 ? b.Convert(start, DType::kS32) : Result<Instruction*>(start);
}

// Where the first element of a part lies there, s32[]: its starts are brought in bounds.
Result<Instruction*> FlatStart(Builder& b, std::span<Instruction* const> starts, const Shape& array,
                               const Shape& part) {
  Instruction* place = nullptr;
  for (int64_t d = 0; d < array.rank(); ++d) {
    Instruction* start = starts[Unsigned(d)];
    const int64_t last_start = array.dim(d) - part.dim(d);
    if (std::optional<int64_t> known = last_start == 0 ? 0 : IntegerValue(*start)) {
      const auto place_known = static_cast<double>(std::clamp<int64_t>(*known, 0, last_start));
      start = b.ScalarConstant(DType::kS32, place_known);
    } else {
      start = TRY(InBounds(b, start, last_start));
    }
    if (place != nullptr) {
      Instruction* row = b.ScalarConstant(DType::kS32, static_cast<double>(array.dim(d)));
      start = TRY(b.Add(Op::kAdd, {TRY(b.Add(Op::kMultiply, {place, row})), start}));
    }
    place = start;
  }
  return place;
}

struct Source {
  int64_t operand, element;
};

Source SourceInConcatenation(const Instruction& i, Ints at) {
  int64_t& along = at[Unsigned(i.attrs<hlo::DimensionsAttrs>().dimensions[0])];
  int64_t operand = 0;
  const int64_t dim = i.attrs<hlo::DimensionsAttrs>().dimensions[0];
  while (along >= i.operand(operand)->shape().dim(dim)) {
    along -= i.operand(operand++)->shape().dim(dim);
  }
  return {operand, PlaceOf(at, i.operand(operand)->shape())};
}

// Which element of an operand element n of a movement is; nullopt: it is no movement.
std::optional<Source> SourceOf(const Instruction& i, int64_t n) {
  const Ints at = CoordinatesOf(n, i.shape());
  const Shape& from = i.operand(0)->shape();
  Ints source(Unsigned(from.rank()));
  switch (i.op()) {
    case Op::kCopy:
    case Op::kReshape: return Source{0, n};
    case Op::kConcatenate: return SourceInConcatenation(i, at);
    case Op::kBroadcast: {
      const Ints& dims = i.attrs<hlo::BroadcastAttrs>().dimensions;
      for (size_t d = 0; d < source.size(); ++d) source[d] = at[Unsigned(dims[d])];
      return Source{0, PlaceOf(source, from)};
    }
    case Op::kTranspose: {
      const Ints& order = i.attrs<hlo::DimensionsAttrs>().dimensions;
      for (size_t d = 0; d < source.size(); ++d) source[Unsigned(order[d])] = at[d];
      return Source{0, PlaceOf(source, from)};
    }
    case Op::kReverse: {
      source = at;
      for (int64_t d : i.attrs<hlo::DimensionsAttrs>().dimensions) {
        source[Unsigned(d)] = from.dim(d) - 1 - at[Unsigned(d)];
      }
      return Source{0, PlaceOf(source, from)};
    }
    case Op::kSlice: {
      const hlo::SliceDims& slice = i.attrs<hlo::SliceAttrs>().slice;
      for (size_t d = 0; d < at.size(); ++d) source[d] = slice[d].start + at[d] * slice[d].stride;
      return Source{0, PlaceOf(source, from)};
    }
    case Op::kDynamicSlice: {
      std::optional<Ints> starts = KnownStartsOf(i, 1, i.shape());
      if (!starts) return std::nullopt;
      return Source{0, PlaceOf(*starts, from) + FlatOffset(n, from, i.shape())};
    }
    default: return std::nullopt;
  }
}

Result<Numbers> Moved(const Instruction& i, std::span<const Numbers> operands) {
  Numbers elements;
  for (int64_t n = 0; n < i.shape().elements(); ++n) {
    std::optional<Source> source = SourceOf(i, n);
    if (!source) return Numbers();
    elements.push_back(operands[Unsigned(source->operand)][Unsigned(source->element)]);
  }
  return elements;
}

Result<Numbers> Computed(Builder& b, const Instruction& i, std::span<const Numbers> operands) {
  const Shape one = Shape::Scalar(i.shape().dtype());
  Numbers elements;
  for (size_t n = 0; n < Unsigned(i.shape().elements()); ++n) {
    Numbers of;
    for (const Numbers& operand : operands) of.push_back(operand[operand.size() == 1 ? 0 : n]);
    elements.push_back(TRY(b.Add(i.op(), of, i.attrs(), &one)));
  }
  return elements;
}

Result<Numbers> Reduced(Builder& b, const Instruction& i, std::span<const Numbers> operands) {
  const auto& attrs = i.attrs<hlo::ReduceAttrs>();
  const Shape& from = i.operand(0)->shape();
  Numbers sums(Unsigned(i.shape().elements()), operands[1][0]);
  for (int64_t n = 0; n < from.elements(); ++n) {
    Ints at = CoordinatesOf(n, from), kept;
    for (int64_t d = 0; d < from.rank(); ++d) {
      if (std::ranges::count(attrs.dimensions, d) == 0) kept.push_back(at[Unsigned(d)]);
    }
    Instruction*& sum = sums[Unsigned(PlaceOf(kept, i.shape()))];
    Instruction* const pair[] = {sum, operands[0][Unsigned(n)]};
    sum = TRY(CallInline(b, *attrs.to_apply, pair))[0];
  }
  return sums;
}

// Places of the dimensions that neither list has, from `at` on.
void SetOthers(Ints& place, const Ints& a, const Ints& b, const Ints& from, size_t& at) {
  for (int64_t d = 0; d < std::ssize(place); ++d) {
    if (std::ranges::count(a, d) + std::ranges::count(b, d) > 0) continue;
    place[Unsigned(d)] = from[at++];
  }
}

// Sums of products, in order.
Result<Numbers> Multiplied(Builder& b, const Instruction& i, std::span<const Numbers> operands) {
  const auto& attrs = i.attrs<hlo::DotAttrs>();
  const Shape &left = i.operand(0)->shape(), &right = i.operand(1)->shape();
  const DType dtype = i.shape().dtype();
  if (left.dtype() != dtype || right.dtype() != dtype || BitWidth(dtype) < 32) return Numbers();
  int64_t terms = 1;
  for (int64_t d : attrs.lhs_contracting_dims) terms *= left.dim(d);
  Numbers sums;
  for (int64_t n = 0; n < i.shape().elements(); ++n) {
    const Ints at = CoordinatesOf(n, i.shape());
    Ints l(Unsigned(left.rank())), r(Unsigned(right.rank()));
    size_t next = 0;
    for (; next < attrs.lhs_batch_dims.size(); ++next) {
      l[Unsigned(attrs.lhs_batch_dims[next])] = r[Unsigned(attrs.rhs_batch_dims[next])] = at[next];
    }
    SetOthers(l, attrs.lhs_batch_dims, attrs.lhs_contracting_dims, at, next);
    SetOthers(r, attrs.rhs_batch_dims, attrs.rhs_contracting_dims, at, next);
    Instruction* sum = nullptr;
    for (int64_t term = 0; term < terms; ++term) {
      int64_t rest = term;
      for (size_t c = attrs.lhs_contracting_dims.size(); c-- > 0;) {
        const int64_t d = attrs.lhs_contracting_dims[c], size = left.dim(d);
        l[Unsigned(d)] = r[Unsigned(attrs.rhs_contracting_dims[c])] = rest % size;
        rest /= size;
      }
      Instruction* product = TRY(b.Add(Op::kMultiply, {operands[0][Unsigned(PlaceOf(l, left))],
                                                       operands[1][Unsigned(PlaceOf(r, right))]}));
      sum = sum == nullptr ? product : TRY(b.Add(Op::kAdd, {sum, product}));
    }
    if (sum == nullptr) return Numbers();
    sums.push_back(sum);
  }
  return sums;
}

// The element at a place that is computed: one choice for each that it may be.
Result<Numbers> Chosen(Builder& b, const Instruction& i, std::span<const Numbers> operands) {
  if (i.shape().elements() != 1) return Numbers();
  Numbers starts;
  for (const Numbers& start : operands.subspan(1)) starts.push_back(start[0]);
  Instruction* place = TRY(FlatStart(b, starts, i.operand(0)->shape(), i.shape()));
  Instruction* value = operands[0][0];
  for (size_t n = 1; n < operands[0].size(); ++n) {
    Instruction* here = b.ScalarConstant(DType::kS32, static_cast<double>(n));
    Instruction* is_here = TRY(b.Compare(place, here, hlo::Direction::kEq));
    value = TRY(b.Add(Op::kSelect, {is_here, operands[0][n], value}));
  }
  return Numbers{value};
}

Result<Numbers> Updated(Builder& b, const Instruction& i, std::span<const Numbers> operands) {
  const Shape& part = i.operand(1)->shape();
  Numbers elements = operands[0];
  if (std::optional<Ints> starts = KnownStartsOf(i, 2, part)) {
    for (int64_t n = 0; n < part.elements(); ++n) {
      int64_t place = PlaceOf(*starts, i.shape()) + FlatOffset(n, i.shape(), part);
      elements[Unsigned(place)] = operands[1][Unsigned(n)];
    }
    return elements;
  }
  if (part.elements() != 1) return Numbers();
  Numbers starts;
  for (const Numbers& start : operands.subspan(2)) starts.push_back(start[0]);
  Instruction* place = TRY(FlatStart(b, starts, i.shape(), part));
  for (size_t n = 0; n < elements.size(); ++n) {
    Instruction* here = b.ScalarConstant(DType::kS32, static_cast<double>(n));
    Instruction* is_here = TRY(b.Compare(place, here, hlo::Direction::kEq));
    elements[n] = TRY(b.Add(Op::kSelect, {is_here, operands[1][0], elements[n]}));
  }
  return elements;
}

}  // namespace

Result<Numbers> ElementsOf(Builder& b, Instruction* array) {
  const int64_t row[] = {array->shape().elements()};
  Instruction* flat = TRY(ReshapeTo(b, array, row));
  Numbers elements;
  for (int64_t n = 0; n < row[0]; ++n) {
    hlo::SliceAttrs one{.slice = {{.start = n, .limit = n + 1}}};
    elements.push_back(TRY(ReshapeTo(b, TRY(b.Add(Op::kSlice, {flat}, std::move(one))), {})));
  }
  return elements;
}

Result<Numbers> ReadRow(Builder& b, const Instruction& slice, Instruction* whole,
                        Instruction* row) {
  const Shape &part = slice.shape(), &all = slice.operand(0)->shape();
  Ints first;  // of the other dimensions
  for (int64_t d = 1; d < all.rank(); ++d) {
    const int64_t most = all.dim(d) - part.dim(d);
    first.push_back(most == 0 ? 0
                              : std::clamp<int64_t>(*IntegerValue(*slice.operand(1 + d)), 0, most));
  }
  Numbers elements;
  for (int64_t n = 0; n < part.elements(); ++n) {
    const Ints at = CoordinatesOf(n, part);
    std::vector<Instruction*> operands = {whole, row};
    for (size_t d = 0; d < first.size(); ++d) {
      const auto place = static_cast<double>(first[d] + at[d + 1]);
      operands.push_back(b.ScalarConstant(row->shape().dtype(), place));
    }
    hlo::DynamicSliceAttrs attrs;
    attrs.dynamic_slice_sizes.assign(operands.size() - 1, 1);
    Instruction* one = TRY(b.Add(Op::kDynamicSlice, operands, std::move(attrs)));
    elements.push_back(TRY(b.Reshape(one, {})));
  }
  return elements;
}

Result<Numbers> ReadFlat(Builder& b, const Instruction& slice, Instruction* flat,
                         std::span<Instruction* const> starts) {
  const Shape& all = slice.operand(0)->shape();
  Instruction* first = TRY(FlatStart(b, starts, all, slice.shape()));
  Numbers elements;
  for (int64_t n = 0; n < slice.shape().elements(); ++n) {
    Instruction* place = first;
    if (const int64_t offset = FlatOffset(n, all, slice.shape()); offset != 0) {
      Instruction* behind = b.ScalarConstant(DType::kS32, static_cast<double>(offset));
      place = TRY(b.Add(Op::kAdd, {first, behind}));
    }
    Instruction* one = TRY(b.Add(Op::kDynamicSlice, {flat, place},
                                 hlo::DynamicSliceAttrs{.dynamic_slice_sizes = {1}}));
    elements.push_back(TRY(b.Reshape(one, {})));
  }
  return elements;
}

Numbers ElementsOfLeaf(Builder& b, const Instruction& i) {
  Numbers elements;
  const DType dtype = i.shape().dtype();
  for (int64_t n = 0; n < i.shape().elements(); ++n) {
    if (i.op() == Op::kIota) {
      const Ints at = CoordinatesOf(n, i.shape());
      const int64_t along = i.attrs<hlo::IotaAttrs>().iota_dimension;
      elements.push_back(b.ScalarConstant(dtype, static_cast<double>(at[Unsigned(along)])));
      continue;
    }
    const Literal& all = i.literal();
    Literal one(Shape::Scalar(dtype));
    std::copy_n(all.data() + n * ByteWidth(dtype), ByteWidth(dtype), one.mutable_data());
    elements.push_back(b.Constant(std::move(one)));
  }
  return elements;
}

Result<Numbers> EmitByElement(Builder& b, const Instruction& i, std::span<const Numbers> operands) {
  if (operands.empty()) return Numbers();
  const bool computed = hlo::IsElementwise(i.op()) && i.called_computations().empty() &&
                        i.op() != Op::kStochasticConvert;
  if (computed && i.op() != Op::kCopy) return Computed(b, i, operands);
  if (i.op() == Op::kReduce && i.operand_count() == 2) return Reduced(b, i, operands);
  if (i.op() == Op::kDot) return Multiplied(b, i, operands);
  if (i.op() == Op::kDynamicUpdateSlice) return Updated(b, i, operands);
  Numbers moved = TRY(Moved(i, operands));
  if (moved.empty() && i.op() == Op::kDynamicSlice) return Chosen(b, i, operands);
  return moved;
}

}  // namespace weft::compiler
