#include "hlo/attrs.h"
#include "hlo/computation.h"
#include "hlo/evaluate/index_ops.h"
#include "hlo/instruction.h"
#include "hlo/op.h"
#include "hlo/ops/dim_rules.h"
#include "hlo/ops/shape_rules.h"

namespace weft::hlo {
namespace {

// Dimension lists of scatter against one operand and the indices (with a trailing dimension of size
// 1 when the index vector is implicit).
Status CheckScatterDims(const ScatterAttrs& a, const Shape& operand, const Shape& indices,
                        const Shape& updates) {
  constexpr Op op = Op::kScatter;
  TRY(CheckSortedDimList(op, "update_window_dims", a.update_window_dims, updates.rank()));
  TRY(CheckSortedDimList(op, "inserted_window_dims", a.inserted_window_dims, operand.rank()));
  TRY(CheckSortedDimList(op, "input_batching_dims", a.input_batching_dims, operand.rank()));
  TRY(CheckDimList(op, "scatter_dims_to_operand_dims", a.scatter_dims_to_operand_dims,
                   operand.rank()));
  TRY(CheckDimList(op, "scatter_indices_batching_dims", a.scatter_indices_batching_dims,
                   indices.rank()));
  size_t window =
      a.update_window_dims.size() + a.inserted_window_dims.size() + a.input_batching_dims.size();
  if (window != static_cast<size_t>(operand.rank())) {
    return InvalidArgument("scatter: each dimension of operand ", operand.ToStringWithoutLayout(),
                           " must be one of update_window_dims=", DimList(a.update_window_dims),
                           ", inserted_window_dims=", DimList(a.inserted_window_dims),
                           ", input_batching_dims=", DimList(a.input_batching_dims));
  }
  if (!SizesAgree(indices.dim(a.index_vector_dim),
                  static_cast<int64_t>(a.scatter_dims_to_operand_dims.size()))) {
    return InvalidArgument(
        "scatter: scatter_dims_to_operand_dims=", DimList(a.scatter_dims_to_operand_dims),
        " does not match dimension index_vector_dim=", a.index_vector_dim,
        " of the indices, which has size ", indices.dim(a.index_vector_dim));
  }
  if (a.input_batching_dims.size() != a.scatter_indices_batching_dims.size()) {
    return InvalidArgument("scatter: input_batching_dims=", DimList(a.input_batching_dims),
                           " and scatter_indices_batching_dims=",
                           DimList(a.scatter_indices_batching_dims), " differ in number");
  }
  for (int64_t d : a.input_batching_dims) {
    if (Contains(a.inserted_window_dims, d)) {
      return InvalidArgument("scatter: input_batching_dims=", DimList(a.input_batching_dims),
                             ": dimension ", d, " is also inserted");
    }
  }
  return {};
}

Status CheckUpdates(const ScatterAttrs& a, const Shape& operand, const Shape& indices,
                    const Shape& updates) {
  auto error = [&](const auto&... what) {
    return InvalidArgument("scatter: updates ", updates.ToStringWithoutLayout(),
                           " do not fit operand ", operand.ToStringWithoutLayout(), " and indices ",
                           indices.ToStringWithoutLayout(), ": ", what...);
  };
  int64_t rank = indices.rank() - 1 + static_cast<int64_t>(a.update_window_dims.size());
  if (updates.rank() != rank) return error("rank ", rank, " is needed");
  TRY(CheckScatterDims(a, operand, indices, updates));
  size_t next = 0;
  for (int64_t d = 0; d < operand.rank(); ++d) {
    if (Contains(a.inserted_window_dims, d) || Contains(a.input_batching_dims, d)) continue;
    int64_t window = a.update_window_dims[next++];
    if (!operand.is_unbounded(d) && updates.dim(window) > operand.dim(d)) {
      return error("window dimension ", window, " is larger than operand dimension ", d);
    }
  }
  int64_t batch = 0;
  for (int64_t i = 0; i < updates.rank(); ++i) {
    if (Contains(a.update_window_dims, i)) continue;
    if (batch == a.index_vector_dim) ++batch;
    if (!SizesAgree(updates.dim(i), indices.dim(batch))) {
      return error("dimension ", i, " and indices dimension ", batch, " differ");
    }
    ++batch;
  }
  return {};
}

Result<Shape> InferScatter(const InferArgs& args) {
  if (args.size() % 2 != 1 || args.size() < 3) {
    return InvalidArgument("scatter: takes n operands, indices and n updates, got ", args.size(),
                           " operands");
  }
  for (int64_t i = 0; i < args.size(); ++i) TRY(ExpectArrayOperand(args, i));
  int64_t count = args.size() / 2;
  const ScatterAttrs& a = args.attrs.As<ScatterAttrs>();
  Shape indices = WithoutLayout(args.operand(count));
  if (!IsInteger(indices.dtype())) {
    return InvalidArgument("scatter: indices must be integers, got ",
                           indices.ToStringWithoutLayout());
  }
  if (a.index_vector_dim < 0 || a.index_vector_dim > indices.rank()) {
    return InvalidArgument("scatter: index_vector_dim=", a.index_vector_dim,
                           " is no dimension of the indices ", indices.ToStringWithoutLayout());
  }
  if (a.index_vector_dim == indices.rank()) {
    if (indices.rank() >= kMaxRank) return InvalidArgument("scatter: too many dimensions");
    indices.AppendDim(1);
  }
  std::vector<Shape> results;
  for (int64_t i = 0; i < count; ++i) {
    const Shape& updates = args.operand(count + 1 + i);
    TRY(CheckUpdates(a, args.operand(i), indices, updates));
    if (!Shape::SameDims(updates, args.operand(count + 1)) ||
        !Shape::SameDims(args.operand(i), args.operand(0))) {
      return InvalidArgument("scatter: all operands must have one shape, and all updates too");
    }
    results.push_back(WithoutLayout(args.operand(i)));
  }
  return count == 1 ? results[0] : Shape::Tuple(std::move(results));
}

// to_apply combines n current and n new scalars into n scalars.
Status CheckScatter(const Instruction& scatter) {
  const Computation* apply = scatter.attrs<ScatterAttrs>().to_apply;
  int64_t count = scatter.operand_count() / 2;
  if (apply == nullptr || apply->root() == nullptr) {
    return InvalidArgument("scatter: to_apply is missing");
  }
  auto error = [&](const auto&... what) {
    return InvalidArgument("scatter: to_apply=", apply->name(), " ", what...);
  };
  if (static_cast<int64_t>(apply->parameters().size()) != 2 * count) {
    return error("must have ", 2 * count, " parameters, has ", apply->parameters().size());
  }
  const Shape& result = apply->root()->shape();
  if (count > 1 && (!result.IsTuple() || result.tuple_size() != count)) {
    return error("must return a tuple of ", count, " scalars, returns ",
                 result.ToStringWithoutLayout());
  }
  for (int64_t i = 0; i < 2 * count; ++i) {
    const Instruction* parameter = apply->parameter(i);
    int64_t operand = i < count ? i : i + 1;
    DType type = scatter.operand(operand)->shape().dtype();
    const Shape& out = result.IsTuple() && i % count < result.tuple_size()
                           ? result.tuple_element(i % count)
                           : result;
    if (parameter == nullptr || !parameter->shape().IsScalar() || !out.IsScalar() ||
        !TypesAgree(parameter->shape().dtype(), type) || !TypesAgree(out.dtype(), type)) {
      return error("must combine scalars of type ", Name(type), " at parameter ", i);
    }
  }
  return {};
}

}  // namespace

template <>
OpRow Define<Op::kScatter>() {
  return {.doc =
              "The operands with windows of updates combined into them by to_apply, one window "
              "per index vector; updates that lie outside an operand are dropped.",
          .infer = InferScatter,
          .check = CheckScatter,
          .evaluate = EvaluateScatter,
          .dim_rule = RuleScatter};
}

}  // namespace weft::hlo
