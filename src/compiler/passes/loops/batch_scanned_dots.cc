#include "compiler/passes/loops/batch_scanned_dots.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "compiler/analysis/work.h"
#include "compiler/passes/loops/hoist_invariants.h"
#include "compiler/passes/rewrite.h"
#include "hlo/builder.h"
#include "hlo/clone.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::DotAttrs;
using hlo::Instruction;
using hlo::Ints;
using hlo::Op;

// What a value is a function of: row `index` of invariant arrays of `count` rows.
struct ScannedRow {
  Instruction* index;
  int64_t count;
  bool operator==(const ScannedRow&) const = default;
};

Ints Shifted(const Ints& dims) {
  Ints shifted = dims;
  for (int64_t& d : shifted) ++d;
  return shifted;
}

Ints WithRows(int64_t count, const Shape& shape) {
  Ints dims = {count};
  dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
  return dims;
}

// The only dimension of which a dynamic-slice takes one element of several, the others being taken
// whole; -1: it is another one.
int64_t RowDimension(const Instruction& slice) {
  const Shape &whole = slice.operand(0)->shape(), &part = slice.shape();
  int64_t row = -1;
  for (int64_t d = 0; d < whole.rank(); ++d) {
    if (whole.dim(d) == part.dim(d)) continue;
    if (part.dim(d) != 1 || row >= 0) return -1;
    row = d;
  }
  return row;
}

double ByteSizeOf(const Instruction& i) {
  return static_cast<double>(i.shape().ByteSize());
}

// Operations a second of a product with operands of this type.
double PeakOf(DType dtype, const program::TargetInfo& target) {
  const double width = std::max<double>(ByteWidth(RealType(dtype)), 1), single = sizeof(float);
  bool matrix =
      target.MatrixUnitsTake(dtype) && (width < single || (width == single && target.tf32));
  if (matrix) return target.bf16_matrix_flops * std::min(1.0, 2 / width);
  return target.f32_flops * std::min(1.0, single / width);
}

class ScannedDotBatcher {
 public:
  ScannedDotBatcher(const Loop& loop, int64_t trips, const Effects& effects,
                    const program::TargetInfo& target)
      : loop_(loop),
        trips_(static_cast<double>(trips)),
        effects_(effects),
        target_(target),
        spare_bytes_(static_cast<double>(target.memory_bytes / kHoistedPartOfMemory)) {}

  Result<std::optional<Loop>> Run() {
    FindRows();
    std::vector<Instruction*> moved = FindGains();
    if (moved.empty()) return std::nullopt;
    TRY(ComputeOutside(moved));
    std::vector<Instruction*> products;
    for (Instruction* dot : moved) products.push_back(outside_.Find(dot));
    std::vector<int64_t> kept;
    for (int64_t k = 0; k < loop_.size(); ++k) kept.push_back(k);
    Loop changed = TRY(RebuildLoop(loop_, kept, products));
    for (size_t n = 0; n < moved.size(); ++n) {
      Instruction* all = changed.Next(std::ssize(kept) + static_cast<int64_t>(n));
      changed.body->MoveBefore(all, changed.body_state->next());
      TRY(ReadRow(moved[n], all));
    }
    return changed;
  }

 private:
  bool IsInvariant(const Instruction* i) const { return invariant_.contains(i); }

  // May be computed elsewhere, of other sizes too.
  bool IsPlain(const Instruction& i) const {
    return i.shape().IsArray() && i.shape().IsStatic() && !HasControlDependencies(i) &&
           i.sharding() == nullptr && effects_.IsFunction(i);
  }

  void FindRows() {
    for (Instruction* i : *loop_.body) {
      if (i->op() == Op::kGetTupleElement && i->operand(0) == loop_.body_state) {
        if (loop_.IsInvariant(i->tuple_index()) && i->shape().IsArray()) invariant_.insert(i);
        continue;
      }
      if (i->IsParameter() || !IsPlain(*i)) continue;
      if (StaysInvariant(*i)) {
        invariant_.insert(i);
      } else if (std::optional<ScannedRow> row = RowOf(*i)) {
        rows_[i] = *row;
      }
    }
  }

  static bool KeepsRows(Op op) {
    return op == Op::kReshape || op == Op::kTranspose || op == Op::kBroadcast ||
           HasTrait(op, hlo::kElementwise);
  }

  bool StaysInvariant(const Instruction& i) const {
    if (i.IsConstant() || i.op() == Op::kIota) return true;
    return KeepsRows(i.op()) && std::ranges::all_of(i.operands(), [&](const Instruction* operand) {
             return IsInvariant(operand);
           });
  }

  std::optional<ScannedRow> RowOf(const Instruction& i) const {
    if (i.op() == Op::kDynamicSlice) {
      int64_t d = RowDimension(i);
      if (d < 0 || !IsInvariant(i.operand(0))) return std::nullopt;
      return ScannedRow{i.operand(d + 1), i.operand(0)->shape().dim(d)};
    }
    if (!KeepsRows(i.op()) && i.op() != Op::kDot) return std::nullopt;
    std::optional<ScannedRow> row;
    for (const Instruction* operand : i.operands()) {
      bool spread = HasTrait(i.op(), hlo::kElementwise);
      if (spread && !std::ranges::equal(operand->shape().dims(), i.shape().dims())) {
        return std::nullopt;
      }
      if (IsInvariant(operand)) continue;
      auto found = rows_.find(operand);
      if (found == rows_.end() || (row && *row != found->second)) return std::nullopt;
      // Of two rows: a product for each of them in any case.
      if (row && i.op() == Op::kDot) return std::nullopt;
      row = found->second;
    }
    return row;
  }

  // Seconds of memory's, in all; caches are as fast as arithmetic.
  double Reading(double bytes) const {
    return bytes <= static_cast<double>(target_.l2_bytes) ? 0 : bytes / target_.bytes_per_second;
  }
  // Of the product of so many rows.
  double Seconds(const Instruction& dot, double rows) const {
    double flops = 2 * rows * WorkOfInstruction(dot);
    double bytes = rows * ByteSizeOf(dot);
    for (const Instruction* operand : dot.operands()) {
      bytes += (IsInvariant(operand) ? 1 : rows) * ByteSizeOf(*operand);
    }
    return std::max(flops / PeakOf(dot.operand(0)->shape().dtype(), target_), Reading(bytes));
  }
  bool Gains(const Instruction& dot) const {
    double rows = static_cast<double>(rows_.at(&dot).count);
    double step = target_.RunsOnHost() ? 0 : target_.launch_seconds;
    double inside = trips_ * (Seconds(dot, 1) + step);
    double written = rows * ByteSizeOf(dot);
    return inside > Seconds(dot, rows) + step + Reading(written);
  }

  // Products that are worth it and that something reads which stays, in order.
  std::vector<Instruction*> FindGains() {
    std::unordered_set<const Instruction*> stays;  // functions of rows, yet computed inside
    std::vector<Instruction*> moved;
    for (Instruction* i = loop_.body->last(); i != nullptr; i = i->prev()) {
      if (!rows_.contains(i)) continue;
      bool read = std::ranges::any_of(i->users(), [&](const Instruction* user) {
        return !rows_.contains(user) || stays.contains(user);
      });
      if (!read) continue;
      double bytes = static_cast<double>(rows_.at(i).count) * ByteSizeOf(*i);
      if (i->op() == Op::kDot && bytes <= spare_bytes_ && Gains(*i)) {
        moved.push_back(i);
        spare_bytes_ -= bytes;
      } else {
        stays.insert(i);
      }
    }
    std::ranges::reverse(moved);
    return moved;
  }

  // Before the loop: what these are computed from, and they themselves, for all rows.
  Status ComputeOutside(std::span<Instruction* const> moved) {
    std::unordered_set<const Instruction*> needed(moved.begin(), moved.end());
    for (Instruction* i = loop_.body->last(); i != nullptr; i = i->prev()) {
      if (!needed.contains(i) || ReadsState(*i)) continue;
      bool slice = rows_.contains(i) && i->op() == Op::kDynamicSlice;  // without its place
      for (int64_t k = 0; k < (slice ? 1 : i->operand_count()); ++k) needed.insert(i->operand(k));
    }
    hlo::Computation& parent = *loop_.op->parent();
    for (Instruction* i : *loop_.body) {
      if (!needed.contains(i)) continue;
      if (ReadsState(*i)) {
        outside_.instructions[i] = TRY(ReadInit(loop_, i->tuple_index()));
      } else if (rows_.contains(i)) {
        Builder b(parent, loop_.op, i);
        outside_.instructions[i] = TRY(AllRows(b, *i, rows_.at(i).count));
      } else {
        hlo::CloneInstruction(*i, parent, outside_, loop_.op);
      }
    }
    return {};
  }
  bool ReadsState(const Instruction& i) const {
    return i.op() == Op::kGetTupleElement && i.operand(0) == loop_.body_state;
  }

  // The instruction with one more dimension, that of the rows, which is the first.
  Result<Instruction*> AllRows(Builder& b, Instruction& i, int64_t count) {
    Shape shape(i.shape().dtype(), WithRows(count, i.shape()));
    switch (i.op()) {
      case Op::kDynamicSlice: return RowsFirst(b, i, shape);
      case Op::kReshape: return b.Reshape(outside_.Find(i.operand(0)), shape.dims());
      case Op::kTranspose: {
        Ints order = Shifted(i.attrs<hlo::DimensionsAttrs>().dimensions);
        order.insert(order.begin(), 0);
        return b.Transpose(outside_.Find(i.operand(0)), std::move(order));
      }
      case Op::kBroadcast: {
        Ints dims = Shifted(i.attrs<hlo::BroadcastAttrs>().dimensions);
        dims.insert(dims.begin(), 0);
        return b.Broadcast(outside_.Find(i.operand(0)), shape, std::move(dims));
      }
      case Op::kDot: return DotOfRows(b, i, shape);
      default: break;
    }
    std::vector<Instruction*> operands;
    for (Instruction* operand : i.operands()) {
      Instruction* value = outside_.Find(operand);
      if (IsInvariant(operand)) {
        Ints dims;
        for (int64_t d = 1; d < shape.rank(); ++d) dims.push_back(d);
        Shape spread(operand->shape().dtype(), WithRows(count, operand->shape()));
        value = TRY(b.Broadcast(value, spread, std::move(dims)));
      }
      operands.push_back(value);
    }
    return b.Add(i.op(), operands, i.attrs(), &shape);
  }

  Result<Instruction*> RowsFirst(Builder& b, const Instruction& slice, const Shape& shape) {
    Instruction* whole = outside_.Find(slice.operand(0));
    Ints order = {RowDimension(slice)};
    for (int64_t d = 0; d < whole->shape().rank(); ++d) {
      if (d != order[0]) order.push_back(d);
    }
    return b.Reshape(TRY(TransposeTo(b, whole, order)), shape.dims());
  }

  // The rows are the first free dimension of the left operand, whichever operand has them inside.
  Result<Instruction*> DotOfRows(Builder& b, Instruction& dot, const Shape& shape) {
    const auto& old = dot.attrs<DotAttrs>();
    bool left = rows_.contains(dot.operand(0));
    const Ints& batch = left ? old.lhs_batch_dims : old.rhs_batch_dims;
    const Ints& contracting = left ? old.lhs_contracting_dims : old.rhs_contracting_dims;
    DotAttrs attrs = old;
    attrs.lhs_batch_dims = Shifted(batch), attrs.lhs_contracting_dims = Shifted(contracting);
    attrs.rhs_batch_dims = left ? old.rhs_batch_dims : old.lhs_batch_dims;
    attrs.rhs_contracting_dims = left ? old.rhs_contracting_dims : old.lhs_contracting_dims;
    if (!left) std::ranges::reverse(attrs.operand_precision);
    Instruction* operands[] = {outside_.Find(dot.operand(left ? 0 : 1)),
                               outside_.Find(dot.operand(left ? 1 : 0))};
    // It comes as batch, rows, free of `rows`, free of the other.
    const int64_t batches = std::ssize(batch);
    const int64_t own = operands[0]->shape().rank() - 1 - batches - std::ssize(contracting);
    const int64_t others = shape.rank() - 1 - batches - own;
    Ints order = {batches};
    for (int64_t d = 0; d < batches; ++d) order.push_back(d);
    const int64_t first = left ? own : others, from = batches + 1;
    for (int64_t d = 0; d < own + others; ++d) {
      bool of_left = d < first;
      int64_t at = left ? d : of_left ? own + d : d - first;
      order.push_back(from + at);
    }
    Shape product = shape;
    for (int64_t d = 0; d < shape.rank(); ++d) {
      product.set_dim(order[static_cast<size_t>(d)], shape.dim(d));
    }
    Instruction* all = TRY(b.Add(Op::kDot, operands, std::move(attrs), &product));
    return TransposeTo(b, all, order);
  }

  // The body reads a row where it computed it.
  Status ReadRow(Instruction* dot, Instruction* all) {
    const ScannedRow& row = rows_.at(dot);
    Builder b(*dot->parent(), dot, dot);
    std::vector<Instruction*> operands = {all, row.index};
    Instruction* zero = b.ScalarConstant(row.index->shape().dtype(), 0);
    operands.resize(static_cast<size_t>(all->shape().rank()) + 1, zero);
    Instruction* slice =
        TRY(b.Add(Op::kDynamicSlice, operands,
                  hlo::DynamicSliceAttrs{.dynamic_slice_sizes = WithRows(1, dot->shape())}));
    dot->ReplaceAllUsesWith(TRY(b.Reshape(slice, dot->shape().dims())));
    return {};
  }

  const Loop& loop_;
  const double trips_;
  const Effects& effects_;
  const program::TargetInfo& target_;
  double spare_bytes_;  // for products
  std::unordered_set<const Instruction*> invariant_;
  std::unordered_map<const Instruction*, ScannedRow> rows_;
  hlo::CloneMap outside_;
};

}  // namespace

Result<std::optional<Loop>> BatchScannedDots(const Loop& loop, int64_t trips,
                                             const Effects& effects,
                                             const program::TargetInfo& target) {
  return ScannedDotBatcher(loop, trips, effects, target).Run();
}

}  // namespace weft::compiler
