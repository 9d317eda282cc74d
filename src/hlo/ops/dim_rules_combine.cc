// Dimension rules of ops that combine elements: products, reductions, windows, indexed ops.
#include <algorithm>

#include "hlo/ops/dim_rules.h"

namespace weft::hlo {
namespace {

bool Names(const Ints& dims, int64_t dim) {
  return std::ranges::find(dims, dim) != dims.end();
}

// Batch dimensions, free ones of lhs and rhs, and contracting ones of a given kind.
DimRule DotRule(const Instruction& i, FactorKind contracting) {
  RuleMaker maker(i);
  const auto& a = i.attrs<DotAttrs>();
  const Shape& lhs = i.operand(0)->shape();
  const Shape& rhs = i.operand(1)->shape();
  int64_t next = 0;
  for (size_t k = 0; k < a.lhs_batch_dims.size(); ++k) {
    const int factor = maker.Add(lhs.dim(a.lhs_batch_dims[k]));
    maker.Operand(0, a.lhs_batch_dims[k], factor);
    maker.Operand(1, a.rhs_batch_dims[k], factor);
    maker.Result(0, next++, factor);
  }
  auto free = [&](int64_t side, const Shape& shape, const Ints& batch, const Ints& reduced) {
    for (int64_t d = 0; d < shape.rank(); ++d) {
      if (Names(batch, d) || Names(reduced, d)) continue;
      const int factor = maker.Add(shape.dim(d));
      maker.Operand(side, d, factor);
      maker.Result(0, next++, factor);
    }
  };
  free(0, lhs, a.lhs_batch_dims, a.lhs_contracting_dims);
  free(1, rhs, a.rhs_batch_dims, a.rhs_contracting_dims);
  for (size_t k = 0; k < a.lhs_contracting_dims.size(); ++k) {
    const int factor = maker.Add(lhs.dim(a.lhs_contracting_dims[k]), contracting);
    maker.Operand(0, a.lhs_contracting_dims[k], factor);
    maker.Operand(1, a.rhs_contracting_dims[k], factor);
  }
  return maker.Take();
}

bool IsTrivial(const WindowDim& w) {
  return w.size == 1 && w.stride == 1 && w.pad_low == 0 && w.pad_high == 0 &&
         w.base_dilation == 1 && w.window_dilation == 1;
}

}  // namespace

DimRule RuleDot(const Instruction& i) {
  return DotRule(i, FactorKind::kReduced);
}

// Scales cover blocks of the operands: only operands with scalar scales could be cut freely.
DimRule RuleScaledDot(const Instruction& i) {
  DimRule rule = DotRule(i, FactorKind::kWhole);
  for (size_t side = 0; side < 2; ++side) {
    const Shape& value = i.operand(static_cast<int64_t>(side))->shape();
    const Shape& scale = i.operand(static_cast<int64_t>(side) + 2)->shape();
    for (int64_t d = 0; d < value.rank(); ++d) {
      DimRule::Dim& dim = rule.operands[side][static_cast<size_t>(d)];
      if (scale.rank() == 0 || scale.dim(d) == 1) continue;
      if (scale.dim(d) == value.dim(d)) {
        rule.operands[side + 2][static_cast<size_t>(d)] = dim;
      } else {
        for (int f : dim) rule.factors[static_cast<size_t>(f)].kind = FactorKind::kWhole;
      }
    }
  }
  return rule;
}

DimRule RuleConvolution(const Instruction& i) {
  RuleMaker maker(i);
  const auto& a = i.attrs<ConvolutionAttrs>();
  const ConvDims& d = a.dim_labels;
  const Shape& lhs = i.operand(0)->shape();
  const bool labelled = d.input_rank == lhs.rank() && i.operand_count() == 2 &&
                        a.convolution_kind == ConvKind::kUnset;
  if (!labelled) return maker.Take();
  // Groups come first in what they divide: features of input and output, or the batch.
  const int64_t groups = a.feature_group_count * a.batch_group_count;
  const int64_t outputs = i.shape().dim(d.output_feature);
  if (groups < 1 || (a.feature_group_count > 1 && a.batch_group_count > 1)) return maker.Take();
  if (outputs % groups != 0) return maker.Take();
  const int group = maker.Add(groups);
  const int batch = maker.Add(i.shape().dim(d.output_batch));
  const int output = maker.Add(outputs / groups);
  const int input = maker.Add(i.operand(1)->shape().dim(d.kernel_input), FactorKind::kReduced);
  if (a.batch_group_count > 1) maker.Operand(0, d.input_batch, group);
  maker.Operand(0, d.input_batch, batch);
  maker.Result(0, d.output_batch, batch);
  if (a.feature_group_count > 1) maker.Operand(0, d.input_feature, group);
  maker.Operand(0, d.input_feature, input);
  maker.Operand(1, d.kernel_input, input);
  maker.Operand(1, d.kernel_output, group);
  maker.Operand(1, d.kernel_output, output);
  maker.Result(0, d.output_feature, group);
  maker.Result(0, d.output_feature, output);
  // Positions whose windows are one element are independent; other windows reach over. Parts of a
  // window give summands.
  for (size_t s = 0; s < a.window.dims.size(); ++s) {
    const WindowDim& w = a.window.dims[s];
    const bool alone = IsTrivial(w);
    if (w.base_dilation == 1 && !w.reversal) {
      maker.Operand(1, d.kernel_spatial[s], maker.Add(w.size, FactorKind::kReduced));
    }
    const int spatial = maker.Add(i.shape().dim(d.output_spatial[s]),
                                  alone ? FactorKind::kParallel : FactorKind::kPermuted);
    maker.Operand(0, d.input_spatial[s], spatial);
    maker.Result(0, d.output_spatial[s], spatial);
  }
  return maker.Take();
}

DimRule RuleReduce(const Instruction& i) {
  RuleMaker maker(i);
  const Ints& reduced = i.attrs<ReduceAttrs>().dimensions;
  const int64_t inputs = i.operand_count() / 2;
  int64_t next = 0;
  for (int64_t d = 0; d < i.operand(0)->shape().rank(); ++d) {
    const bool gone = Names(reduced, d);
    const int factor = maker.Add(i.operand(0)->shape().dim(d),
                                 gone ? FactorKind::kReduced : FactorKind::kParallel);
    for (int64_t k = 0; k < inputs; ++k) maker.Operand(k, d, factor);
    for (int64_t k = 0; !gone && k < maker.leaves(); ++k) maker.Result(k, next, factor);
    if (!gone) ++next;
  }
  return maker.Take();
}

DimRule RuleReduceWindow(const Instruction& i) {
  RuleMaker maker(i);
  const Window& window = i.attrs<ReduceWindowAttrs>().window;
  for (size_t d = 0; d < window.dims.size(); ++d) {
    const bool alone = IsTrivial(window.dims[d]);
    if (!alone && window.dims[d].base_dilation != 1) continue;
    maker.Along(static_cast<int64_t>(d), alone ? FactorKind::kParallel : FactorKind::kPermuted, 0,
                i.operand_count() / 2);
  }
  return maker.Take();
}

DimRule RuleSelectAndScatter(const Instruction& i) {
  RuleMaker maker(i);
  const Window& window = i.attrs<SelectAndScatterAttrs>().window;
  for (size_t d = 0; d < window.dims.size(); ++d) {
    if (!IsTrivial(window.dims[d])) continue;
    maker.Along(static_cast<int64_t>(d), FactorKind::kParallel, 0, 2);
  }
  return maker.Take();
}

DimRule RuleGather(const Instruction& i) {
  RuleMaker maker(i);
  const auto& a = i.attrs<GatherAttrs>();
  const Shape& from = i.operand(0)->shape();
  const Shape& indices = i.operand(1)->shape();
  // Batch dimensions of the result are those of the indices, in order.
  std::vector<int> by_index(static_cast<size_t>(indices.rank()), -1);
  int64_t at = 0;
  for (int64_t d = 0; d < i.shape().rank(); ++d) {
    if (Names(a.offset_dims, d)) continue;
    if (at == a.index_vector_dim) ++at;
    const int factor = maker.Add(i.shape().dim(d));
    maker.Result(0, d, factor);
    maker.Operand(1, at, factor);
    by_index[static_cast<size_t>(at++)] = factor;
  }
  for (size_t k = 0; k < a.operand_batching_dims.size(); ++k) {
    const int factor = by_index[static_cast<size_t>(a.start_indices_batching_dims[k])];
    if (factor >= 0) maker.Operand(0, a.operand_batching_dims[k], factor);
  }
  // An index falls into one part of the operand; from the others comes nothing.
  for (int64_t d : a.start_index_map) {
    if (a.slice_sizes[static_cast<size_t>(d)] == 1 && !Names(a.operand_batching_dims, d)) {
      maker.Operand(0, d, maker.Add(from.dim(d), FactorKind::kReduced));
    }
  }
  size_t offset = 0;
  for (int64_t d = 0; d < from.rank(); ++d) {
    if (Names(a.collapsed_slice_dims, d) || Names(a.operand_batching_dims, d)) continue;
    const int64_t to = a.offset_dims[offset++];
    if (a.slice_sizes[static_cast<size_t>(d)] != from.dim(d) || from.dim(d) == 1) continue;
    const int factor = maker.Add(from.dim(d));
    maker.Operand(0, d, factor);
    maker.Result(0, to, factor);
  }
  return maker.Take();
}

DimRule RuleScatter(const Instruction& i) {
  RuleMaker maker(i);
  const auto& a = i.attrs<ScatterAttrs>();
  const int64_t inputs = i.operand_count() / 2;
  const Shape& from = i.operand(0)->shape();
  const Shape& indices = i.operand(inputs)->shape();
  const Shape& updates = i.operand(inputs + 1)->shape();
  auto share = [&](int64_t dim, int64_t update_dim) {
    const int factor = maker.Add(from.dim(dim));
    for (int64_t k = 0; k < inputs; ++k) {
      maker.Operand(k, dim, factor);
      maker.Operand(inputs + 1 + k, update_dim, factor);
      maker.Result(k, dim, factor);
    }
    return factor;
  };
  // Dimensions of the updates that are not of windows are those of the indices, in order.
  std::vector<int64_t> update_of(static_cast<size_t>(indices.rank()), -1);
  int64_t at = 0;
  for (int64_t d = 0; d < updates.rank(); ++d) {
    if (Names(a.update_window_dims, d)) continue;
    if (at == a.index_vector_dim) ++at;
    if (at < indices.rank()) update_of[static_cast<size_t>(at++)] = d;
  }
  // Updates of other indices are summands; those that fall outside of a part are dropped.
  for (int64_t d = 0; d < indices.rank(); ++d) {
    const int64_t update_dim = update_of[static_cast<size_t>(d)];
    if (update_dim < 0 || Names(a.scatter_indices_batching_dims, d)) continue;
    const int factor = maker.Add(indices.dim(d), FactorKind::kReduced);
    maker.Operand(inputs, d, factor);
    for (int64_t k = 0; k < inputs; ++k) maker.Operand(inputs + 1 + k, update_dim, factor);
  }
  for (int64_t d : a.scatter_dims_to_operand_dims) {
    if (!Names(a.inserted_window_dims, d)) continue;
    const int factor = maker.Add(from.dim(d));
    for (int64_t k = 0; k < inputs; ++k) maker.Operand(k, d, factor), maker.Result(k, d, factor);
  }
  for (size_t k = 0; k < a.input_batching_dims.size(); ++k) {
    const int64_t index_dim = a.scatter_indices_batching_dims[k];
    const int64_t update_dim = update_of[static_cast<size_t>(index_dim)];
    if (update_dim < 0) continue;
    maker.Operand(inputs, index_dim, share(a.input_batching_dims[k], update_dim));
  }
  size_t window = 0;
  for (int64_t d = 0; d < from.rank(); ++d) {
    if (Names(a.inserted_window_dims, d) || Names(a.input_batching_dims, d)) continue;
    const int64_t update_dim = a.update_window_dims[window++];
    if (updates.dim(update_dim) == from.dim(d)) share(d, update_dim);
  }
  return maker.Take();
}

DimRule RuleBatchNorm(const Instruction& i) {
  RuleMaker maker(i);
  const int64_t feature = i.attrs<BatchNormAttrs>().feature_index;
  const int64_t rank = i.operand(0)->shape().rank();
  const int factor = maker.Add(i.operand(0)->shape().dim(feature));
  for (int64_t k = 0; k < i.operand_count(); ++k) {
    maker.Operand(k, i.operand(k)->shape().rank() == rank && rank > 1 ? feature : 0, factor);
  }
  for (int64_t k = 0; k < maker.leaves(); ++k) {
    maker.Result(k, maker.leaf(k).rank() == rank && rank > 1 ? feature : 0, factor);
  }
  return maker.Take();
}

DimRule RuleCollectiveDims(const Instruction& i) {
  RuleMaker maker(i);
  const int64_t leaves = maker.leaves();
  Ints moved;
  if (i.attrs().Is<AllGatherAttrs>()) moved = i.attrs<AllGatherAttrs>().dimensions;
  if (i.attrs().Is<ReduceScatterAttrs>()) moved = i.attrs<ReduceScatterAttrs>().dimensions;
  if (i.attrs().Is<AllToAllAttrs>()) moved = i.attrs<AllToAllAttrs>().dimensions;
  if (leaves != i.operand_count()) return maker.Take();
  for (int64_t k = 0; k < leaves; ++k) {
    const Shape& from = i.operand(k)->shape();
    const Shape& to = maker.leaf(k);
    if (!from.IsArray() || from.rank() != to.rank()) continue;
    for (int64_t d = 0; d < to.rank(); ++d) {
      if (Names(moved, d) || from.dim(d) != to.dim(d)) continue;
      const int factor = maker.Add(to.dim(d));
      maker.Operand(k, d, factor);
      maker.Result(k, d, factor);
    }
  }
  return maker.Take();
}

}  // namespace weft::hlo
