#include "hlo/attrs.h"
#include "hlo/evaluate/index_ops.h"
#include "hlo/gather_sizes.h"
#include "hlo/instruction.h"
#include "hlo/op.h"
#include "hlo/ops/dim_rules.h"
#include "hlo/ops/shape_rules.h"

namespace weft::hlo {
namespace {

// Dimension lists of gather against the operand and the indices (with a trailing dimension of size
// 1 when the index vector is implicit).
Status CheckGatherDims(const GatherAttrs& a, const Shape& operand, const Shape& indices) {
  constexpr Op op = Op::kGather;
  int64_t result_rank = static_cast<int64_t>(a.offset_dims.size()) + indices.rank() - 1;
  TRY(CheckSortedDimList(op, "offset_dims", a.offset_dims, result_rank));
  TRY(CheckDimList(op, "start_index_map", a.start_index_map, operand.rank()));
  TRY(CheckSortedDimList(op, "collapsed_slice_dims", a.collapsed_slice_dims, operand.rank()));
  TRY(CheckSortedDimList(op, "operand_batching_dims", a.operand_batching_dims, operand.rank()));
  TRY(CheckDimList(op, "start_indices_batching_dims", a.start_indices_batching_dims,
                   indices.rank()));
  if (!SizesAgree(indices.dim(a.index_vector_dim),
                  static_cast<int64_t>(a.start_index_map.size()))) {
    return InvalidArgument("gather: start_index_map=", DimList(a.start_index_map),
                           " does not match dimension index_vector_dim=", a.index_vector_dim,
                           " of the start indices, which has size ",
                           indices.dim(a.index_vector_dim));
  }
  for (int64_t d : a.operand_batching_dims) {
    if (Contains(a.collapsed_slice_dims, d)) {
      return InvalidArgument("gather: operand_batching_dims=", DimList(a.operand_batching_dims),
                             ": dimension ", d, " is also collapsed");
    }
  }
  if (a.operand_batching_dims.size() != a.start_indices_batching_dims.size()) {
    return InvalidArgument("gather: operand_batching_dims=", DimList(a.operand_batching_dims),
                           " and start_indices_batching_dims=",
                           DimList(a.start_indices_batching_dims), " differ in number");
  }
  return {};
}

Status CheckSliceSizes(const GatherAttrs& a, const Shape& operand) {
  auto error = [&](const auto&... what) {
    return InvalidArgument("gather: slice_sizes=", DimList(a.slice_sizes), " of operand ",
                           operand.ToStringWithoutLayout(), ": ", what...);
  };
  size_t rank = static_cast<size_t>(operand.rank());
  if (a.slice_sizes.size() != rank) return error("one size per dimension is needed");
  if (rank !=
      a.offset_dims.size() + a.collapsed_slice_dims.size() + a.operand_batching_dims.size()) {
    return error("each dimension must be one of offset_dims=", DimList(a.offset_dims),
                 ", collapsed_slice_dims=", DimList(a.collapsed_slice_dims),
                 ", operand_batching_dims=", DimList(a.operand_batching_dims));
  }
  for (int64_t i = 0; i < operand.rank(); ++i) {
    int64_t size = a.slice_sizes[static_cast<size_t>(i)];
    if (size < 0 || (!operand.is_unbounded(i) && size > operand.dim(i))) {
      return error("size ", size, " of dimension ", i, " is out of range");
    }
    if (size > 1 && (Contains(a.collapsed_slice_dims, i) || Contains(a.operand_batching_dims, i))) {
      return error("size ", size, " of dimension ", i, ", which is collapsed, must be 1 or 0");
    }
  }
  return {};
}

Result<Shape> InferGather(const InferArgs& args) {
  TRY(ExpectArrayOperand(args, 0));
  TRY(ExpectArrayOperand(args, 1));
  const Shape& operand = args.operand(0);
  Shape indices = WithoutLayout(args.operand(1));
  const GatherAttrs& a = args.attrs.As<GatherAttrs>();
  if (!IsInteger(indices.dtype())) {
    return InvalidArgument("gather: start indices must be integers, got ",
                           indices.ToStringWithoutLayout());
  }
  if (a.index_vector_dim < 0 || a.index_vector_dim > indices.rank()) {
    return InvalidArgument("gather: index_vector_dim=", a.index_vector_dim,
                           " is no dimension of the start indices ",
                           indices.ToStringWithoutLayout());
  }
  if (a.index_vector_dim == indices.rank()) {
    if (indices.rank() >= kMaxRank) return InvalidArgument("gather: too many dimensions");
    indices.AppendDim(1);
  }
  TRY(CheckGatherDims(a, operand, indices));
  TRY(CheckSliceSizes(a, operand));
  int64_t result_rank = static_cast<int64_t>(a.offset_dims.size()) + indices.rank() - 1;
  if (result_rank > kMaxRank) return InvalidArgument("gather: too many result dimensions");
  Shape to = Shape::Scalar(operand.dtype());
  for (const auto& [source, dim] : GatherDims(a, result_rank)) {
    if (source == 0) {
      int64_t size = a.slice_sizes[static_cast<size_t>(dim)];
      to.AppendDim(size, size == operand.dim(dim) && operand.is_dynamic(dim));
    } else {
      to.AppendDim(indices.dim(dim), indices.is_dynamic(dim));
    }
  }
  return to;
}

}  // namespace

template <>
OpRow Define<Op::kGather>() {
  return {.doc =
              "Slices of the first operand of slice_sizes elements, one per index vector of the "
              "second; starts are clamped so that slices lie within the operand.",
          .infer = InferGather,
          .evaluate = EvaluateGather,
          .dim_rule = RuleGather};
}

}  // namespace weft::hlo
