// Ops on parts, by their rules.
#include <algorithm>

#include "base/log.h"
#include "compiler/analysis/collectives.h"
#include "compiler/spmd/partition_indexed.h"
#include "compiler/spmd/partitioner.h"
#include "compiler/spmd/window.h"

namespace weft::compiler::spmd {
namespace {

using hlo::Attrs;
using hlo::Builder;
using hlo::DimRule;
using hlo::FactorKind;
using hlo::Instruction;
using hlo::Op;

// Attributes that repeat sizes of dimensions, which are those of parts now.
void FitAttributes(const Instruction& whole, Instruction& local) {
  const Shape& from = whole.operand_count() > 0 ? whole.operand(0)->shape() : whole.shape();
  switch (local.op()) {
    case Op::kSlice: {
      hlo::SliceDims& dims = local.mutable_attrs<hlo::SliceAttrs>().slice;
      for (size_t d = 0; d < dims.size(); ++d) {
        const int64_t dim = static_cast<int64_t>(d);
        if (local.operand(0)->shape().dim(dim) != from.dim(dim)) {
          dims[d] = {0, local.shape().dim(dim), 1};
        }
      }
      return;
    }
    case Op::kDynamicSlice: {
      hlo::Ints& sizes = local.mutable_attrs<hlo::DynamicSliceAttrs>().dynamic_slice_sizes;
      for (size_t d = 0; d < sizes.size(); ++d) {
        sizes[d] = local.shape().dim(static_cast<int64_t>(d));
      }
      return;
    }
    case Op::kGather: {
      hlo::Ints& sizes = local.mutable_attrs<hlo::GatherAttrs>().slice_sizes;
      for (size_t d = 0; d < sizes.size(); ++d) {
        const int64_t dim = static_cast<int64_t>(d);
        if (sizes[d] == from.dim(dim)) sizes[d] = local.operand(0)->shape().dim(dim);
      }
      return;
    }
    case Op::kConvolution: {
      auto& a = local.mutable_attrs<hlo::ConvolutionAttrs>();
      const hlo::ConvDims& d = a.dim_labels;
      const Shape& input = local.operand(0)->shape();
      if (a.feature_group_count > 1) {
        a.feature_group_count =
            input.dim(d.input_feature) / local.operand(1)->shape().dim(d.kernel_input);
      }
      if (a.batch_group_count > 1) {
        a.batch_group_count = input.dim(d.input_batch) / local.shape().dim(d.output_batch);
      }
      return;
    }
    case Op::kReshape: local.mutable_attrs<hlo::ReshapeAttrs>().inferred_dimension = {}; return;
    case Op::kCustomCall: {
      std::vector<Shape>& shapes =
          local.mutable_attrs<hlo::CustomCallAttrs>().operand_layout_constraints;
      for (size_t k = 0; k < shapes.size(); ++k) {
        const Shape& operand = local.operand(static_cast<int64_t>(k))->shape();
        for (int64_t d = 0; operand.IsArray() && d < operand.rank(); ++d) {
          shapes[k].set_dim(d, operand.dim(d));
        }
      }
      return;
    }
    default: return;
  }
}

bool HoldsAll(AxisSet set, const AxisList& axes) {
  return std::ranges::all_of(axes, [&](int axis) { return (set & BitOf(axis)) != 0; });
}

// Why a dimension that is cut must be gathered, and how much that is.
void LogGathered(const Instruction& i, const Cut& cut, std::span<const Form> operands,
                 const DeviceMesh& mesh) {
  for (size_t k = 0; k < operands.size(); ++k) {
    for (size_t d = 0; d < operands[k].dims.size(); ++d) {
      if (operands[k].dims[d].axes.empty()) continue;
      const AxisSet kept = OperandForm(i, cut, static_cast<int64_t>(k), mesh).cut();
      if (HoldsAll(kept, operands[k].dims[d].axes)) continue;  // an all-to-all, or halos
      for (int factor : cut.rule.operands[k][d]) {
        const FactorKind kind = cut.rule.factors[static_cast<size_t>(factor)].kind;
        const bool stays =
            kind == FactorKind::kParallel || !cut.axes[static_cast<size_t>(factor)].empty();
        if (stays) continue;
        const std::string_view why = !hlo::HasRule(i)                ? i.def().no_dim_rule
                                     : kind == FactorKind::kPermuted ? "elements move along it"
                                     : kind != FactorKind::kReduced  ? "the op needs all of it"
                                     : HasRepeatableReduction(i)
                                         ? "the axes cut another dimension of the op"
                                         : "its initial value may count once only";
        VLOG("compiler", 1) << Mnemonic(i.op()) << " " << i.name() << ": dimension "
                            << static_cast<int64_t>(d) << " of operand " << static_cast<int64_t>(k)
                            << " is gathered: "
                            << i.operand(static_cast<int64_t>(k))->shape().ByteSize()
                            << " bytes, cut by " << mesh.NameOf(operands[k].dims[d].axes) << ": "
                            << why;
        break;
      }
    }
  }
}

// The first half of an asynchronous op: a handle for the second, not a value.
bool IsUnderWay(const Instruction& i) {
  return HasTrait(i.op(), hlo::kAsyncStart) || i.op() == Op::kAsyncUpdate;
}

// Axes along which the op computes on summands: its result is to hold them, and so does an operand
// that it is linear in.
AxisSet SummandAxes(const Instruction& i, const Cut& cut, std::span<const Form> operands,
                    std::span<const Form> results) {
  if (results.size() != 1 || !cut.reduced.empty() || !HasZero(i.shape().dtype())) return 0;
  const Form& result = results[0];
  if (result.reduction == hlo::ReductionKind::kMax ||
      result.reduction == hlo::ReductionKind::kMin) {
    return 0;
  }
  AxisSet axes = 0;
  for (size_t k = 0; k < operands.size(); ++k) {
    if (!hlo::IsLinearIn(i, static_cast<int64_t>(k))) continue;
    axes |= operands[k].unreduced & result.unreduced;
  }
  for (const AxisList& list : cut.axes) {
    for (int axis : list) axes &= ~BitOf(axis);
  }
  return axes;
}

// Of products, one factor is in summands; of all else, every operand that the op is linear in.
bool TakesSummands(const Instruction& i, int64_t operand, std::span<const Form> operands,
                   AxisSet summands) {
  if (summands == 0 || !hlo::IsLinearIn(i, operand)) return false;
  if (i.op() != Op::kMultiply && i.op() != Op::kDot) return true;
  const bool first = (operands[0].unreduced & summands) != 0;
  return operand == (first ? 0 : 1);
}

// The kind of summands that parts of a reduction are; none: no such kind.
hlo::ReductionKind SummandsOf(const Instruction& i) {
  if (i.op() == Op::kDynamicSlice || i.op() == Op::kGather) return WithZeroes(i.shape().dtype());
  const bool scatter = i.op() == Op::kScatter;
  if (i.op() != Op::kReduce && !scatter) return hlo::ReductionKind::kSum;
  std::optional<program::ReduceOp> op = SimpleReduction(
      scatter ? *i.attrs<hlo::ScatterAttrs>().to_apply : *i.attrs<hlo::ReduceAttrs>().to_apply);
  if (!op || i.shape().dtype() == DType::kPred) return hlo::ReductionKind::kNone;
  switch (*op) {
    case program::ReduceOp::kAdd: return hlo::ReductionKind::kSum;
    case program::ReduceOp::kMax: return hlo::ReductionKind::kMax;
    case program::ReduceOp::kMin: return hlo::ReductionKind::kMin;
    default: return hlo::ReductionKind::kNone;
  }
}

}  // namespace

// Constants and iotas: made on the device that needs them.
Status ComputationPartitioner::EmitSource(const Instruction& i) {
  std::vector<Form> forms = program_.FormsOf(&i);
  if (!i.shape().IsArray()) return Bind(i, Clone(i, i.shape(), {}), forms);
  Form form = forms[0];
  form.unreduced = 0;
  const bool one = i.op() == Op::kConstant;
  bool offset = false;
  if (!one) {
    const size_t dim = static_cast<size_t>(i.attrs<hlo::IotaAttrs>().iota_dimension);
    offset = !form.dims[dim].axes.empty();
  }
  if (one || form.IsReplicated()) {
    // A constant stands whole in the program; parts of it are cut where they are read.
    form = Form::Replicated(i.shape().rank());
    return Bind(i, Clone(i, i.shape(), {}), std::span(&form, 1));
  }
  const Shape part = LocalShape(i.shape(), form, mesh_);
  if (!offset) return Bind(i, Clone(i, part, {}), std::span(&form, 1));
  // Counted in integers, so that numbers are rounded once, as those of the whole are.
  const int64_t dim = i.attrs<hlo::IotaAttrs>().iota_dimension;
  Builder b = emitter_.builder();
  Instruction* index = TRY(emitter_.IndexAlong(form.dims[static_cast<size_t>(dim)].axes));
  Instruction* size = b.ScalarConstant(DType::kS32, static_cast<double>(part.dim(dim)));
  Instruction* start = TRY(b.Add(Op::kMultiply, {index, size}));
  const Shape counts(DType::kS32, part.dims());
  Instruction* local = Clone(i, counts, {});
  local = TRY(b.Add(Op::kAdd, {local, TRY(FillWith(b, start, counts))}));
  local = TRY(b.Convert(local, i.shape().dtype()));
  return Bind(i, local, std::span(&form, 1));
}

// Padding of a dimension that is reduced must not count.
Result<std::vector<Instruction*>> ComputationPartitioner::MaskReduced(
    const Instruction& i, const Cut& cut, std::vector<Instruction*> operands) {
  // Nothing is read from padding there.
  if (i.op() == Op::kDynamicSlice || i.op() == Op::kGather) return operands;
  const int64_t inputs = i.op() == Op::kReduce ? i.operand_count() / 2 : i.operand_count();
  for (int64_t k = 0; k < inputs; ++k) {
    const DimRule::Tensor& tensor = cut.rule.operands[static_cast<size_t>(k)];
    for (size_t d = 0; d < tensor.size(); ++d) {
      if (tensor[d].size() != 1) continue;
      const size_t factor = static_cast<size_t>(tensor[d][0]);
      if (cut.rule.factors[factor].kind != FactorKind::kReduced || cut.axes[factor].empty()) {
        continue;
      }
      const Shape& shape = i.operand(k)->shape();
      Instruction*& x = operands[static_cast<size_t>(k)];
      Instruction* fill =
          i.op() == Op::kReduce ? operands[static_cast<size_t>(inputs + k)] : nullptr;
      const int64_t size = shape.dim(static_cast<int64_t>(d));
      if (size % mesh_.SizeOf(cut.axes[factor]) == 0) continue;
      if (fill == nullptr) {
        fill = emitter_.builder().Constant(Literal(Shape::Scalar(shape.dtype())));
      }
      x = TRY(emitter_.MaskPadding(x, static_cast<int64_t>(d), size, cut.axes[factor], fill));
    }
  }
  return operands;
}

// Parts of a reduction of several arrays together: gathered and reduced once more.
Status ComputationPartitioner::CombineByGather(const Instruction& i, const Cut& cut,
                                               std::vector<Instruction*>& parts) {
  std::vector<Instruction*> operands;
  Builder b = emitter_.builder();
  for (Instruction*& part : parts) {
    Dims dims = {1};
    for (int64_t size : part->shape().dims()) dims.push_back(size);
    Instruction* row = TRY(b.Reshape(part, dims));
    operands.push_back(TRY(emitter_.AllGather(row, 0, cut.reduced)));
  }
  const int64_t inputs = i.operand_count() / 2;
  for (int64_t k = 0; k < inputs; ++k) {
    LocalValue& init = values_[i.operand(inputs + k)][0];
    operands.push_back(TRY(Get(init, Form::Replicated(0))));
  }
  hlo::ReduceAttrs attrs{.dimensions = {0}, .to_apply = i.attrs<hlo::ReduceAttrs>().to_apply};
  Instruction* all = TRY(b.Add(Op::kReduce, operands, Attrs(std::move(attrs))));
  for (size_t k = 0; k < parts.size(); ++k) {
    parts[k] = all->shape().IsTuple() ? TRY(b.GetTupleElement(all, static_cast<int64_t>(k))) : all;
  }
  return {};
}

Status ComputationPartitioner::FinishReduction(const Instruction& i, const Cut& cut,
                                               Instruction* local, Leaves& leaves) {
  std::vector<Instruction*> parts;
  Builder b = emitter_.builder();
  if (local->shape().IsTuple()) {
    for (int64_t k = 0; k < local->shape().tuple_size(); ++k) {
      parts.push_back(TRY(b.GetTupleElement(local, k)));
    }
  } else {
    parts.push_back(local);
  }
  const hlo::ReductionKind kind = parts.size() == 1 ? SummandsOf(i) : hlo::ReductionKind::kNone;
  if (kind == hlo::ReductionKind::kNone) TRY(CombineByGather(i, cut, parts));
  for (size_t k = 0; k < leaves.size(); ++k) {
    Form form = cut.FormOf(cut.rule.results[k], mesh_);
    if (kind != hlo::ReductionKind::kNone) {
      for (int axis : cut.reduced) form.unreduced |= BitOf(axis);
      form.reduction = kind;
    }
    leaves[k].forms.emplace_back(std::move(form), parts[k]);
  }
  return {};
}

// The op itself, on parts.
Result<Instruction*> ComputationPartitioner::EmitLocal(const Instruction& i, const Cut& cut,
                                                       std::span<const Form> made,
                                                       std::vector<Instruction*> operands) {
  if (!cut.reduced.empty()) operands = TRY(MaskReduced(i, cut, std::move(operands)));
  size_t at = 0;
  const Shape shape = LocalShapeOf(i.shape(), made, at, mesh_);
  std::vector<IndexedOp::CutDim> dims;
  if (!operands.empty() && i.operand(0)->shape().IsArray()) {
    dims = IndexedOp::CutDims(i, cut, operands[0], mesh_);
  }
  IndexedOp indexed(emitter_, i, operands, std::move(dims));
  if (i.op() == Op::kDynamicUpdateSlice && indexed.IsCut()) return indexed.EmitUpdate();
  if (i.op() == Op::kDynamicSlice) TRY(indexed.PrepareSlice());
  if (i.op() == Op::kGather) TRY(indexed.PrepareGather());
  if (i.op() == Op::kScatter) TRY(indexed.PrepareScatter(cut.reduced));
  WindowedOp windowed(emitter_, i, cut, shape);
  const bool moves = windowed.IsCut();
  if (moves && CumulativeDim(i) >= 0) return EmitCumulative(i, cut, shape, operands);
  if (moves) TRY(windowed.Prepare(operands));
  if (moves && i.op() == Op::kConcatenate) return windowed.Join(operands);
  Instruction* local = Clone(i, shape, operands);
  FitAttributes(i, *local);
  if (moves) windowed.FitAttributes(*local);
  if (i.op() == Op::kDynamicSlice) return indexed.FinishSlice(local);
  if (i.op() == Op::kGather) return indexed.FinishGather(local);
  return local;
}

// Sums of values that are there as summands alone: added before they are reduced, so that one
// all-reduce does for all. Ops that move elements leave them so where nobody else reads them.
void ComputationPartitioner::KeepSummands(const Instruction& i, std::vector<Form>& operands,
                                          Form& result) {
  const bool sum = i.op() == Op::kAdd || i.op() == Op::kSubtract;
  const bool moves = i.op() == Op::kReshape || i.op() == Op::kTranspose || i.op() == Op::kNegate ||
                     i.op() == Op::kCopy;
  if (!sum && (!moves || i.operand(0)->users().size() != 1 || i.IsRoot())) return;
  const Form* common = nullptr;
  for (const Instruction* operand : i.operands()) {
    const Leaves& leaves = values_[operand];
    if (leaves.size() != 1 || leaves[0].forms.size() != 1) return;
    const Form& form = leaves[0].forms[0].first;
    const bool sums = form.reduction != hlo::ReductionKind::kMax &&
                      form.reduction != hlo::ReductionKind::kMin && form.unreduced != 0;
    if (!sums || (common != nullptr && !form.SameAs(*common))) return;
    common = &form;
  }
  if (sum && i.operand(0) == i.operand(1)) return;
  // Those that are to be scattered are so once they are added up.
  if (moves && (common->unreduced & (operands[0].cut() | result.cut())) != 0) return;
  for (Form& operand : operands) {
    if (sum) operand = *common;
    operand.unreduced = common->unreduced;
  }
  if (sum) result = *common;
  result.unreduced = common->unreduced;
}

Status ComputationPartitioner::EmitOp(const Instruction& i) {
  const bool whole = MayHideSize(i);
  if (!whole && TRY(EmitRotation(i))) return {};
  std::vector<Form> wanted;
  for (const Instruction* operand : i.operands()) {
    const Leaves& leaves = values_[operand];
    wanted.push_back(operand->shape().IsArray() ? leaves[0].declared : Form());
  }
  Leaves leaves = NewLeaves(i);
  std::vector<Form> results;
  for (const LocalValue& leaf : leaves) results.push_back(leaf.declared);
  if (!whole && results.size() == 1) KeepSummands(i, wanted, results[0]);
  DimRule own;
  Cut cut = ChooseCut(i, program_.RuleOf(i, own), wanted, results, mesh_);
  if (whole) cut.Clear();
  if (i.op() == Op::kSlice && TRY(EmitNarrowSlice(i, cut, wanted[0]))) return {};
  if (i.op() == Op::kSort && TRY(EmitSortedFront(i, cut, wanted))) return {};
  if (!whole) CutElsewhere(i, wanted, mesh_, program_.link(), cut);
  LogGathered(i, cut, wanted, mesh_);
  const AxisSet summands = SummandAxes(i, cut, wanted, results);
  std::vector<Instruction*> operands;
  for (size_t k = 0; k < wanted.size(); ++k) {
    const Instruction* operand = i.operand(static_cast<int64_t>(k));
    if (IsUnderWay(*operand)) {
      operands.push_back(map_.instructions.at(operand));
      continue;
    }
    std::vector<Form> forms;
    if (operand->shape().IsArray()) {
      forms.push_back(OperandForm(i, cut, static_cast<int64_t>(k), mesh_));
      if (TakesSummands(i, static_cast<int64_t>(k), wanted, summands)) {
        forms.back().unreduced = summands;
        forms.back().reduction = hlo::ReductionKind::kSum;
      }
    } else {
      for (const Shape* shape : LeavesOf(operand->shape())) {
        forms.push_back(Form::Replicated(shape->IsArray() ? shape->rank() : 0));
      }
    }
    operands.push_back(TRY(BuildAll(operand, forms)));
  }
  std::vector<Form> made;
  for (size_t k = 0; k < leaves.size(); ++k) {
    made.push_back(cut.FormOf(cut.rule.results[k], mesh_));
    if (summands != 0) {
      made.back().unreduced = summands;
      made.back().reduction = hlo::ReductionKind::kSum;
    }
  }
  Instruction* local = TRY(EmitLocal(i, cut, made, std::move(operands)));
  if (IsUnderWay(i)) return {};
  if (i.op() == Op::kRng || i.op() == Op::kRngGetAndUpdateState) {
    local = TRY(KeepFirst(i, local, made[0]));
  }
  if (cut.reduced.empty()) return Bind(i, local, made, std::move(leaves));
  TRY(FinishReduction(i, cut, local, leaves));
  values_[&i] = std::move(leaves);
  return {};
}

}  // namespace weft::compiler::spmd
