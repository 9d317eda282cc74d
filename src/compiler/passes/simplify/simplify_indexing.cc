// Rules of simplify about dynamic-slice, dynamic-update-slice, gather and scatter.
#include <algorithm>
#include <limits>

#include "compiler/passes/effects.h"
#include "compiler/passes/simplify/simplify_rules.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Computation;
using hlo::Instruction;
using hlo::Ints;
using hlo::Op;

// Start indices as scalars, from operand `first` on.
std::span<Instruction* const> StartsOf(const Instruction& i, size_t first) {
  return i.operands().subspan(first);
}
bool HasScalarStarts(const Instruction& i, size_t first, int64_t rank) {
  auto starts = StartsOf(i, first);
  return static_cast<int64_t>(starts.size()) == rank &&
         std::all_of(starts.begin(), starts.end(),
                     [](const Instruction* s) { return s->shape().IsScalar(); });
}
bool HaveSameStarts(std::span<Instruction* const> a, std::span<Instruction* const> z) {
  if (a.size() != z.size()) return false;
  for (size_t d = 0; d < a.size(); ++d) {
    std::optional<int64_t> x = IntegerValue(*a[d]), y = IntegerValue(*z[d]);
    // Numbers of 64 bits without a sign may be beyond those with one.
    bool same =
        x && x == y && IsUnsigned(a[d]->shape().dtype()) == IsUnsigned(z[d]->shape().dtype());
    if (a[d] != z[d] && !same) return false;
  }
  return true;
}

// Clamped constant starts; nullopt when one is not known. Whole dimensions start at 0.
std::optional<Ints> KnownStarts(std::span<Instruction* const> starts, const Shape& whole,
                                const Shape& part) {
  Ints known;
  for (size_t d = 0; d < starts.size(); ++d) {
    int64_t at = static_cast<int64_t>(d), last = whole.dim(at) - part.dim(at);
    std::optional<int64_t> start = last == 0 ? 0 : IntegerValue(*starts[d]);
    if (!start) return std::nullopt;
    bool huge = starts[d]->shape().dtype() == DType::kU64 && *start < 0;
    known.push_back(huge ? last : std::clamp<int64_t>(*start, 0, last));
  }
  return known;
}

// The element at `starts` of an array that is computed from indices, as a scalar.
Result<Instruction*> ElementOfIndices(Instruction& x, std::span<Instruction* const> starts,
                                      Builder& b) {
  Shape shape = Shape::Scalar(x.shape().dtype());
  if (const Literal* value = SplatValue(x)) {
    Instruction* scalar = FillScalar(x);
    return scalar != nullptr ? scalar : b.Constant(*value);
  }
  if (x.op() != Op::kIota) {
    std::vector<Instruction*> operands;
    for (Instruction* operand : x.operands()) {
      operands.push_back(TRY(ElementOfIndices(*operand, starts, b)));
    }
    return b.Add(x.op(), operands, x.attrs(), &shape);
  }
  int64_t along = x.attrs<hlo::IotaAttrs>().iota_dimension;
  Instruction* at = starts[static_cast<size_t>(along)];
  DType dtype = at->shape().dtype();
  Instruction* last = b.ScalarConstant(dtype, static_cast<double>(x.shape().dim(along) - 1));
  at = TRY(b.Add(Op::kMinimum, {TRY(b.Add(Op::kMaximum, {at, b.ScalarConstant(dtype, 0)})), last}));
  return dtype != shape.dtype() ? b.Convert(at, shape.dtype()) : Result<Instruction*>(at);
}

// dynamic-slice(transpose(x)) = dynamic-slice(x), reshaped, where that is one piece of x: rows of a
// batch that lies along another dimension than the first one.
Result<Instruction*> PieceOfTranspose(Instruction& i, Builder& b) {
  Instruction* transpose = i.operand(0);
  if (transpose->op() != Op::kTranspose || HasControlDependencies(*transpose)) return nullptr;
  Instruction* x = transpose->operand(0);
  const Ints& order = transpose->attrs<hlo::DimensionsAttrs>().dimensions;
  std::vector<Instruction*> operands(i.operands().begin(), i.operands().end());
  operands[0] = x;
  Ints sizes(order.size()), kept;
  for (size_t d = 0; d < order.size(); ++d) {
    const auto from = static_cast<size_t>(order[d]);
    sizes[from] = i.shape().dim(static_cast<int64_t>(d));
    operands[1 + from] = i.operand(1 + static_cast<int64_t>(d));
    if (sizes[from] != 1) kept.push_back(order[d]);
  }
  if (kept.empty()) return nullptr;
  for (size_t n = 0; n < kept.size(); ++n) {  // the last dimensions, whole and in order
    const int64_t d = x->shape().rank() - std::ssize(kept) + static_cast<int64_t>(n);
    if (kept[n] != d || sizes[static_cast<size_t>(d)] != x->shape().dim(d)) return nullptr;
  }
  Instruction* piece =
      TRY(b.Add(Op::kDynamicSlice, operands, hlo::DynamicSliceAttrs{.dynamic_slice_sizes = sizes}));
  return b.Reshape(piece, i.shape().dims());
}

// dynamic-slice(x, constants) = slice(x);  dynamic-slice(dynamic-update-slice(x, u, s), s) = u when
// both are of one size;  one element of iota, or of what is computed from it, is computed from its
// index
Result<Instruction*> SimplifyDynamicSlice(Instruction& i, Builder& b) {
  Instruction* x = i.operand(0);
  if (!HasScalarStarts(i, 1, x->shape().rank())) return nullptr;
  auto starts = StartsOf(i, 1);
  if (std::optional<Ints> known = KnownStarts(starts, x->shape(), i.shape())) {
    hlo::SliceDims slice;
    for (size_t d = 0; d < known->size(); ++d) {
      slice.push_back({(*known)[d], (*known)[d] + i.shape().dim(static_cast<int64_t>(d)), 1});
    }
    return b.Add(Op::kSlice, {x}, hlo::SliceAttrs{.slice = std::move(slice)});
  }
  if (x->op() == Op::kDynamicUpdateSlice && HaveSameStarts(starts, StartsOf(*x, 2)) &&
      Shape::Compatible(x->operand(1)->shape(), i.shape())) {
    return x->operand(1);
  }
  bool wide = std::all_of(starts.begin(), starts.end(), [](const Instruction* start) {
    DType dtype = start->shape().dtype();
    return dtype == DType::kS32 || dtype == DType::kS64 || dtype == DType::kU32;
  });
  bool fits = x->shape().elements() <= std::numeric_limits<int32_t>::max();
  if (i.shape().elements() == 1 && wide && fits && IsOfIndices(*x)) {
    return b.Broadcast(TRY(ElementOfIndices(*x, starts, b)), WithoutLayoutOf(i.shape()), {});
  }
  return PieceOfTranspose(i, b);
}

// Store-to-load forwarding: slice(dynamic-update-slice(x, u, constants)) = slice(u) of what lies in
// the update, through other updates that have nothing of it. What none of them wrote stays a slice
// of the last while others read the updates: x would have to outlive them.
Result<Instruction*> SliceOfUpdate(Instruction& i, Builder& b) {
  for (Instruction* at = i.operand(0);
       at->op() == Op::kDynamicUpdateSlice && HasScalarStarts(*at, 2, at->shape().rank());
       at = at->operand(0)) {
    if (!IsStaticArray(*at) || !IsStaticArray(*at->operand(1))) return nullptr;
    const Shape& part = at->operand(1)->shape();
    const std::optional<Ints> known = KnownStarts(StartsOf(*at, 2), at->shape(), part);
    if (!known) return nullptr;
    hlo::SliceDims slice = i.attrs<hlo::SliceAttrs>().slice;
    bool is_inside = true, is_apart = false;
    for (size_t d = 0; d < known->size(); ++d) {
      const int64_t begin = (*known)[d], end = begin + part.dim(static_cast<int64_t>(d));
      is_inside &= slice[d].start >= begin && slice[d].limit <= end;
      is_apart |= slice[d].limit <= begin || slice[d].start >= end;
      slice[d].start -= begin;
      slice[d].limit -= begin;
    }
    if (is_inside) {
      return b.Add(Op::kSlice, {at->operand(1)}, hlo::SliceAttrs{.slice = std::move(slice)});
    }
    if (!is_apart) return nullptr;
    if (at == i.operand(0) && IsReadOnce(*at) && !HasControlDependencies(*at)) {
      return b.Add(Op::kSlice, {at->operand(0)}, i.attrs());
    }
  }
  return nullptr;
}

// update of everything = the update;  of nothing = the array;  update(update(x, u, s), v, s) =
// update(x, v, s) of one size;  update(x, dynamic-slice(x, s), s) = x
Result<Instruction*> SimplifyUpdate(Instruction& i, Builder& b) {
  Instruction *x = i.operand(0), *update = i.operand(1);
  if (!IsStaticArray(*x) || !IsStaticArray(*update)) return nullptr;
  if (Shape::Compatible(update->shape(), i.shape())) return update;
  if (update->shape().elements() == 0) return x;
  if (!HasScalarStarts(i, 2, x->shape().rank())) return nullptr;
  auto starts = StartsOf(i, 2);
  if (update->op() == Op::kDynamicSlice && update->operand(0) == x &&
      HaveSameStarts(StartsOf(*update, 1), starts)) {
    return x;
  }
  if (x->op() == Op::kDynamicUpdateSlice && HaveSameStarts(StartsOf(*x, 2), starts) &&
      Shape::Compatible(x->operand(1)->shape(), update->shape()) &&
      Shape::Compatible(x->operand(0)->shape(), x->shape())) {
    std::vector<Instruction*> operands(i.operands().begin(), i.operands().end());
    operands[0] = x->operand(0);
    return b.Add(Op::kDynamicUpdateSlice, operands, i.attrs());
  }
  return nullptr;
}

// The number of index vectors, and the index vector dimension's size.
struct IndexShape {
  int64_t vectors = 0, length = 0;
};
IndexShape ShapeOfIndices(const Shape& indices, int64_t vector_dim) {
  int64_t length = vector_dim < indices.rank() ? indices.dim(vector_dim) : 1;
  return {length == 0 ? 0 : indices.elements() / length, length};
}

// Elements of the one index vector, put where the operand has these dimensions; 0 elsewhere.
Result<std::vector<Instruction*>> SplitIndices(Builder& b, Instruction* indices,
                                               const Ints& index_map, int64_t rank) {
  DType dtype = indices->shape().dtype();
  std::vector<Instruction*> starts(static_cast<size_t>(rank));
  int64_t length = static_cast<int64_t>(index_map.size());
  Instruction* flat = TRY(b.Reshape(indices, Ints{length}));
  for (int64_t k = 0; k < length; ++k) {
    Instruction* element = flat;
    if (length > 1) {
      hlo::SliceAttrs slice{.slice = {{k, k + 1, 1}}};
      element = TRY(b.Add(Op::kSlice, {flat}, std::move(slice)));
    }
    starts[static_cast<size_t>(index_map[static_cast<size_t>(k)])] =
        TRY(b.Reshape(element, Ints{}));
  }
  for (Instruction*& start : starts) {
    if (start == nullptr) start = b.ScalarConstant(dtype, 0);
  }
  return starts;
}

// gather with one index vector = dynamic-slice, reshaped: both clamp
Result<Instruction*> SimplifyGather(Instruction& i, Builder& b) {
  const auto& attrs = i.attrs<hlo::GatherAttrs>();
  Instruction *x = i.operand(0), *indices = i.operand(1);
  if (!IsStaticArray(*x) || !IsStaticArray(*indices) || i.shape().elements() == 0) return nullptr;
  IndexShape index = ShapeOfIndices(indices->shape(), attrs.index_vector_dim);
  if (index.vectors != 1 || !attrs.operand_batching_dims.empty() ||
      index.length != static_cast<int64_t>(attrs.start_index_map.size()) || index.length == 0) {
    return nullptr;
  }
  std::vector<Instruction*> operands = {x};
  auto starts = TRY(SplitIndices(b, indices, attrs.start_index_map, x->shape().rank()));
  operands.insert(operands.end(), starts.begin(), starts.end());
  Instruction* slice = TRY(b.Add(Op::kDynamicSlice, operands,
                                 hlo::DynamicSliceAttrs{.dynamic_slice_sizes = attrs.slice_sizes}));
  return b.Reshape(slice, i.shape().dims());
}

// Element k of a constant array of integers, or of a fill with one.
std::optional<int64_t> ConstantElement(const Instruction& i, int64_t k) {
  if (const Literal* splat = SplatValue(i)) return splat->GetInt(0);
  if (!i.IsConstant() || i.attrs<hlo::ConstantAttrs>().elided) return std::nullopt;
  return i.literal().GetInt(k);
}

// Where the window of a scatter with one known index vector begins, and its sizes.
struct KnownWindow {
  Ints starts, sizes;
};
std::optional<KnownWindow> FindWindow(const Instruction& i) {
  const auto& attrs = i.attrs<hlo::ScatterAttrs>();
  const Shape &whole = i.operand(0)->shape(), &update = i.operand(2)->shape();
  IndexShape index = ShapeOfIndices(i.operand(1)->shape(), attrs.index_vector_dim);
  if (index.vectors != 1 || !attrs.input_batching_dims.empty()) return std::nullopt;
  if (index.length != std::ssize(attrs.scatter_dims_to_operand_dims)) return std::nullopt;
  KnownWindow window{Ints(static_cast<size_t>(whole.rank())), {}};
  for (int64_t k = 0; k < index.length; ++k) {
    std::optional<int64_t> start = ConstantElement(*i.operand(1), k);
    if (!start) return std::nullopt;
    int64_t dim = attrs.scatter_dims_to_operand_dims[static_cast<size_t>(k)];
    window.starts[static_cast<size_t>(dim)] = *start;
  }
  size_t next = 0;
  for (int64_t d = 0; d < whole.rank(); ++d) {
    bool inserted = std::find(attrs.inserted_window_dims.begin(), attrs.inserted_window_dims.end(),
                              d) != attrs.inserted_window_dims.end();
    int64_t size = inserted ? 1 : update.dim(attrs.update_window_dims[next++]);
    int64_t start = window.starts[static_cast<size_t>(d)];
    if (start < 0 || start > whole.dim(d) - size) return std::nullopt;  // would be dropped
    window.sizes.push_back(size);
  }
  return window;
}

// The dimension along which a scatter has one element for each row of a fill; -1: it is another.
int64_t OneElementOfEachRow(const Instruction& i) {
  const auto& attrs = i.attrs<hlo::ScatterAttrs>();
  const Shape& whole = i.shape();
  if (!attrs.update_window_dims.empty() || attrs.inserted_window_dims.size() != 1 ||
      attrs.scatter_dims_to_operand_dims != attrs.inserted_window_dims ||
      std::ssize(attrs.input_batching_dims) != whole.rank() - 1 ||
      !std::ranges::is_sorted(attrs.input_batching_dims) ||
      !std::ranges::is_sorted(attrs.scatter_indices_batching_dims)) {
    return -1;
  }
  int64_t along = attrs.inserted_window_dims[0];
  bool one = i.operand(2)->shape().elements() * whole.dim(along) == whole.elements();
  return one ? along : -1;
}

// scatter of one element a row to a fill = select(iota = index, what it combines to, the fill):
// where elementwise ops read it, neither the fill nor the scatter is kept in memory
Result<Instruction*> SelectInsteadOfScatter(Instruction& i, std::optional<Op> op, Builder& b) {
  Instruction* fill = FillScalar(*i.operand(0));
  int64_t along = fill == nullptr || i.users().empty() || i.IsRoot() ? -1 : OneElementOfEachRow(i);
  bool fuses = std::ranges::all_of(
      i.users(), [](const Instruction* user) { return hlo::IsElementwise(user->op()); });
  if (along < 0 || !fuses) return nullptr;
  const Shape whole = WithoutLayoutOf(i.shape());
  Ints rows, kept;
  for (int64_t d = 0; d < whole.rank(); ++d) {
    if (d == along) continue;
    rows.push_back(whole.dim(d));
    kept.push_back(d);
  }
  Instruction* index = TRY(b.Reshape(i.operand(1), rows));
  if (index->shape().dtype() != DType::kS32) index = TRY(b.Convert(index, DType::kS64));
  Instruction* value = TRY(b.Reshape(i.operand(2), rows));
  if (op) {
    Instruction* old = TRY(b.Broadcast(fill, Shape(whole.dtype(), rows), {}));
    value = TRY(b.Add(*op, {old, value}));
  }
  Shape numbers(index->shape().dtype(), whole.dims());
  Instruction* iota = TRY(b.Add(Op::kIota, {}, hlo::IotaAttrs{.iota_dimension = along}, &numbers));
  Instruction* here =
      TRY(b.Compare(iota, TRY(b.Broadcast(index, numbers, kept)), hlo::Direction::kEq));
  return b.Add(Op::kSelect, {here, TRY(b.Broadcast(value, whole, kept)), i.operand(0)});
}

// scatter of nothing = the array;  scatter to one known place = dynamic-update-slice of what the
// place and the update combine to
Result<Instruction*> SimplifyScatter(Instruction& i, Builder& b) {
  if (i.operand_count() != 3 || !IsStaticArray(*i.operand(1)) || !IsStaticArray(*i.operand(2))) {
    return nullptr;
  }
  Instruction *x = i.operand(0), *update = i.operand(2);
  if (update->shape().elements() == 0) return x;
  const Computation& combine = *i.attrs<hlo::ScatterAttrs>().to_apply;
  bool overwrites = combine.root() == combine.parameter(1);
  std::optional<Op> op = BinaryReducer(combine);
  if ((!overwrites && !op) || update->shape().dtype() != i.shape().dtype()) return nullptr;
  std::optional<KnownWindow> window = FindWindow(i);
  if (!window) return SelectInsteadOfScatter(i, op, b);
  std::vector<Instruction*> operands = {x, TRY(b.Reshape(update, window->sizes))};
  if (!overwrites) {
    hlo::SliceDims place;
    for (size_t d = 0; d < window->sizes.size(); ++d) {
      place.push_back({window->starts[d], window->starts[d] + window->sizes[d], 1});
    }
    Instruction* old = TRY(b.Add(Op::kSlice, {x}, hlo::SliceAttrs{.slice = std::move(place)}));
    operands[1] = TRY(b.Add(*op, {old, operands[1]}));
  }
  for (int64_t start : window->starts) {
    Literal literal{Shape::Scalar(DType::kS64)};
    literal.SetInt(0, start);
    operands.push_back(b.Constant(std::move(literal)));
  }
  return b.Add(Op::kDynamicUpdateSlice, operands, hlo::NoAttrs{});
}

}  // namespace

Result<Instruction*> SimplifyIndexing(Instruction& i, Builder& b) {
  if (!IsStaticArray(i) || i.operand_count() == 0) return nullptr;
  if (i.operand(0)->shape().dtype() != i.shape().dtype()) return nullptr;
  switch (i.op()) {
    case Op::kDynamicSlice: return SimplifyDynamicSlice(i, b);
    case Op::kSlice: return SliceOfUpdate(i, b);
    case Op::kDynamicUpdateSlice: return SimplifyUpdate(i, b);
    case Op::kGather: return SimplifyGather(i, b);
    case Op::kScatter: return SimplifyScatter(i, b);
    default: return nullptr;
  }
}

}  // namespace weft::compiler
