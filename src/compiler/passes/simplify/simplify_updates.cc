// Rules of simplify about updates of arrays.
#include <algorithm>

#include "compiler/passes/effects.h"
#include "compiler/passes/simplify/simplify_rules.h"
#include "program/work_bounds.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Op;

constexpr size_t kMostUpdates = program::WorkBounds::kTree;  // of an array, in a row

// The elements of `x` where an update goes.
Result<Instruction*> PartOf(Builder& b, Instruction* x, const Instruction& update) {
  std::vector<Instruction*> operands = {x};
  for (int64_t k = 2; k < update.operand_count(); ++k) operands.push_back(update.operand(k));
  const auto& dims = update.operand(1)->shape().dims();
  return b.Add(Op::kDynamicSlice, operands,
               hlo::DynamicSliceAttrs{.dynamic_slice_sizes = {dims.begin(), dims.end()}});
}

// What an update under a choice goes to: the array that was not updated, or the choice between it
// and the updates before, one fewer.
Result<Instruction*> BaseOf(Instruction& choice, Instruction& update, Builder& b) {
  int64_t k = choice.operand(1) == &update ? 1 : 2;
  Instruction *before = update.operand(0), *other = choice.operand(3 - k);
  if (before == other) return other;
  return b.Add(Op::kSelect, {choice.operand(0), k == 1 ? before : other, k == 1 ? other : before});
}

// select(p, dynamic-update-slice(x, u, at), x) = dynamic-update-slice(x, select(part of p, u, part
// of x), at), and the other way round: x can be updated where it is
Result<Instruction*> ChooseUpdate(Instruction& i, Instruction& update, Builder& b) {
  bool is_second = i.operand(2) == &update;
  Instruction *u = update.operand(1), *p = i.operand(0);
  Instruction* scalar = FillScalar(*p);
  if (u->shape().elements() * 2 > i.shape().elements()) return nullptr;
  Instruction* x = TRY(BaseOf(i, update, b));
  Instruction* old = TRY(PartOf(b, x, update));
  Shape shape = WithoutLayoutOf(u->shape());
  shape.set_dtype(DType::kPred);
  Instruction* part =
      scalar != nullptr ? TRY(b.Broadcast(scalar, shape, {})) : TRY(PartOf(b, p, update));
  Instruction* chosen = TRY(b.Add(Op::kSelect, {part, is_second ? old : u, is_second ? u : old}));
  std::vector<Instruction*> operands(update.operands().begin(), update.operands().end());
  operands[0] = x;
  operands[1] = chosen;
  return b.Add(Op::kDynamicUpdateSlice, operands, update.attrs());
}

// select(p, scatter(x, at, u), x) = scatter(x, select(p, at, -1), u), and the other way round:
// updates that lie outside of the array are not made
Result<Instruction*> ChooseScatter(Instruction& i, Instruction& scatter, Builder& b) {
  Instruction* scalar = FillScalar(*i.operand(0));
  Instruction* at = scatter.operand(1);
  if (scalar == nullptr || scatter.operand_count() != 3 || !IsStaticArray(*at)) return nullptr;
  const auto& attrs = scatter.attrs<hlo::ScatterAttrs>();
  bool is_signed = IsInteger(at->shape().dtype()) && !IsUnsigned(at->shape().dtype());
  if (!is_signed || attrs.scatter_dims_to_operand_dims.empty() || at->shape().elements() == 0 ||
      at->shape().elements() * 2 > scatter.shape().elements()) {
    return nullptr;
  }
  bool is_second = i.operand(2) == &scatter;
  Instruction* x = TRY(BaseOf(i, scatter, b));
  Shape shape = WithoutLayoutOf(at->shape());
  Instruction* nowhere = TRY(b.Broadcast(b.ScalarConstant(shape.dtype(), -1), shape, {}));
  shape.set_dtype(DType::kPred);
  Instruction* whether = TRY(b.Broadcast(scalar, shape, {}));
  Instruction* chosen =
      TRY(b.Add(Op::kSelect, {whether, is_second ? nowhere : at, is_second ? at : nowhere}));
  Shape result = WithoutLayoutOf(scatter.shape());
  return b.Add(Op::kScatter, std::vector{x, chosen, scatter.operand(2)}, scatter.attrs(), &result);
}

bool IsUpdateReadOnce(const Instruction& i) {
  bool updates = i.op() == Op::kDynamicUpdateSlice || i.op() == Op::kScatter;
  return updates && IsReadOnce(i) && i.shape().IsArray() && i.control_predecessors().empty();
}

// Whether `i` is `x` after some updates that nothing else reads: what the later of them store may
// be anything where they are not made.
bool UpdatesOnly(const Instruction& i, const Instruction& x) {
  const Instruction* at = &i;
  for (size_t k = 0; k < kMostUpdates && IsUpdateReadOnce(*at); ++k) {
    at = at->operand(0);
    if (at == &x) return true;
  }
  return false;
}

// Elements [begin, end) of the dimension along which an update goes, whole in all others.
struct Extent {
  int64_t dim, begin, end;
};

std::optional<Extent> ExtentOf(const Instruction& update) {
  if (update.op() != Op::kDynamicUpdateSlice || !IsStaticArray(update)) return std::nullopt;
  const Shape &whole = update.shape(), &part = update.operand(1)->shape();
  std::optional<Extent> extent;
  for (int64_t d = 0; d < whole.rank(); ++d) {
    if (part.dim(d) == whole.dim(d)) continue;
    std::optional<int64_t> start = IntegerValue(*update.operand(2 + d));
    if (extent || !start || part.dim(d) == 0) return std::nullopt;
    if (update.operand(2 + d)->shape().dtype() == DType::kU64 && *start < 0) return std::nullopt;
    int64_t begin = std::clamp<int64_t>(*start, 0, whole.dim(d) - part.dim(d));
    extent = Extent{d, begin, begin + part.dim(d)};
  }
  return extent;
}

// What of an update is seen: elements [begin, end) of the dimension, none later overwrote them.
struct Piece {
  Instruction* update;
  int64_t begin, end, from;  // `from`: where the update begins
};

// zeros.at[0].set(a).at[1].set(b) is the concatenation of a and b: updates at constant places that
// leave nothing of what they update.
Result<Instruction*> JoinUpdates(Instruction& i, Builder& b) {
  std::optional<Extent> last = ExtentOf(i);
  if (!last ||
      (i.users().size() == 1 && ExtentOf(*i.users()[0]) && i.users()[0]->operand(0) == &i)) {
    return nullptr;  // the last of a chain has them all
  }
  std::vector<Extent> open = {{last->dim, 0, i.shape().dim(last->dim)}};
  std::vector<Piece> pieces;
  for (Instruction* u = &i; !open.empty(); u = u->operand(0)) {
    std::optional<Extent> extent = ExtentOf(*u);
    if (!extent || extent->dim != last->dim || HasControlDependencies(*u)) return nullptr;
    std::vector<Extent> rest;
    for (const Extent& part : open) {
      int64_t begin = std::max(part.begin, extent->begin), end = std::min(part.end, extent->end);
      if (begin >= end) {
        rest.push_back(part);
        continue;
      }
      pieces.push_back({u->operand(1), begin, end, extent->begin});
      if (part.begin < begin) rest.push_back({part.dim, part.begin, begin});
      if (end < part.end) rest.push_back({part.dim, end, part.end});
    }
    open = std::move(rest);
  }
  std::ranges::sort(pieces, {}, &Piece::begin);
  std::vector<Instruction*> operands;
  for (const Piece& piece : pieces) {
    const Shape& shape = piece.update->shape();
    hlo::SliceAttrs seen;
    for (int64_t size : shape.dims()) seen.slice.push_back({.start = 0, .limit = size});
    seen.slice[static_cast<size_t>(last->dim)] = {.start = piece.begin - piece.from,
                                                  .limit = piece.end - piece.from};
    bool all = piece.end - piece.begin == shape.dim(last->dim);
    operands.push_back(all ? piece.update : TRY(b.Add(Op::kSlice, {piece.update}, seen)));
  }
  return b.Add(Op::kConcatenate, operands, hlo::DimensionsAttrs{.dimensions = {last->dim}});
}

}  // namespace

Result<Instruction*> SimplifyUpdates(Instruction& i, Builder& b) {
  if (i.op() == Op::kDynamicUpdateSlice) return JoinUpdates(i, b);
  if (i.op() != Op::kSelect || !IsStaticArray(i)) return nullptr;
  for (int64_t k : {1, 2}) {
    Instruction &update = *i.operand(k), &other = *i.operand(3 - k);
    if (!UpdatesOnly(update, other)) continue;
    return update.op() == Op::kScatter ? ChooseScatter(i, update, b) : ChooseUpdate(i, update, b);
  }
  return nullptr;
}

}  // namespace weft::compiler
