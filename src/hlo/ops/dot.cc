#include "hlo/attrs.h"
#include "hlo/evaluate/contract.h"
#include "hlo/instruction.h"
#include "hlo/op.h"
#include "hlo/ops/dim_rules.h"
#include "hlo/ops/shape_rules.h"

namespace weft::hlo {
namespace {

// The part that dot, scaled-dot and ragged-dot share.
struct DotDims {
  const Ints& lhs_batch;
  const Ints& lhs_contracting;
  const Ints& rhs_batch;
  const Ints& rhs_contracting;
};

template <class A>
DotDims DotDimsOf(const A& a) {
  return {a.lhs_batch_dims, a.lhs_contracting_dims, a.rhs_batch_dims, a.rhs_contracting_dims};
}

Status CheckDotDims(const InferArgs& args, const DotDims& d) {
  const Shape& lhs = args.operand(0);
  const Shape& rhs = args.operand(1);
  TRY(CheckDimList(args.op, "lhs_batch_dims", d.lhs_batch, lhs.rank()));
  TRY(CheckDimList(args.op, "lhs_contracting_dims", d.lhs_contracting, lhs.rank()));
  TRY(CheckDimList(args.op, "rhs_batch_dims", d.rhs_batch, rhs.rank()));
  TRY(CheckDimList(args.op, "rhs_contracting_dims", d.rhs_contracting, rhs.rank()));
  auto error = [&](const auto&... what) {
    return InvalidArgument(Mnemonic(args.op), ": ", what..., ": ", lhs.ToStringWithoutLayout(),
                           " and ", rhs.ToStringWithoutLayout());
  };
  auto disjoint = [](const Ints& a, const Ints& b) {
    return std::none_of(a.begin(), a.end(), [&](int64_t x) { return Contains(b, x); });
  };
  if (!disjoint(d.lhs_batch, d.lhs_contracting) || !disjoint(d.rhs_batch, d.rhs_contracting)) {
    return error("a dimension is both batch and contracting");
  }
  if (d.lhs_batch.size() != d.rhs_batch.size() ||
      d.lhs_contracting.size() != d.rhs_contracting.size()) {
    return error("lhs and rhs differ in the number of batch or contracting dimensions");
  }
  auto check = [&](const Ints& left, const Ints& right, std::string_view what) -> Status {
    for (size_t i = 0; i < left.size(); ++i) {
      if (!SizesAgree(lhs.dim(left[i]), rhs.dim(right[i]))) {
        return error(what, " dimensions ", left[i], " of lhs and ", right[i],
                     " of rhs differ in size");
      }
    }
    return {};
  };
  TRY(check(d.lhs_batch, d.rhs_batch, "batch"));
  return check(d.lhs_contracting, d.rhs_contracting, "contracting");
}

// Batch dimensions, then free ones of lhs, then free ones of rhs that are not in `left_out`.
Status AppendDotResult(const InferArgs& args, const DotDims& d, const Ints& left_out, Shape& to) {
  const Shape& lhs = args.operand(0);
  const Shape& rhs = args.operand(1);
  if (to.rank() + lhs.rank() + rhs.rank() > kMaxRank) {
    return InvalidArgument(Mnemonic(args.op),
                           ": too many dimensions: ", lhs.ToStringWithoutLayout(), " and ",
                           rhs.ToStringWithoutLayout());
  }
  for (int64_t i : d.lhs_batch) to.AppendDim(lhs.dim(i), lhs.is_dynamic(i));
  for (int64_t i = 0; i < lhs.rank(); ++i) {
    if (Contains(d.lhs_batch, i) || Contains(d.lhs_contracting, i)) continue;
    to.AppendDim(lhs.dim(i), lhs.is_dynamic(i));
  }
  for (int64_t i = 0; i < rhs.rank(); ++i) {
    if (Contains(d.rhs_batch, i) || Contains(d.rhs_contracting, i) || Contains(left_out, i)) {
      continue;
    }
    to.AppendDim(rhs.dim(i), rhs.is_dynamic(i));
  }
  return {};
}

Result<Shape> InferDot(const InferArgs& args) {
  TRY(ExpectArrayOperand(args, 0));
  TRY(ExpectArrayOperand(args, 1));
  DotDims dims = DotDimsOf(args.attrs.As<DotAttrs>());
  TRY(CheckDotDims(args, dims));
  Shape to = Shape::Scalar(DeclaredTypeOr(args, args.operand(0).dtype(), args.operand(1).dtype()));
  TRY(AppendDotResult(args, dims, {}, to));
  return to;
}

// A scale is a scalar (none), or of the operand's rank with sizes that divide the operand's.
Status CheckScale(const InferArgs& args, int64_t operand, int64_t scale) {
  TRY(ExpectArrayOperand(args, scale));
  const Shape& value = args.operand(operand);
  const Shape& s = args.operand(scale);
  bool ones = std::all_of(s.dims().begin(), s.dims().end(), [](int64_t n) { return n == 1; });
  if (ones) return {};
  bool fits = s.rank() == value.rank();
  for (int64_t i = 0; fits && i < s.rank(); ++i) {
    fits = s.is_unbounded(i) || value.is_unbounded(i) ||
           (s.dim(i) != 0 ? value.dim(i) % s.dim(i) == 0 : value.dim(i) == 0);
  }
  if (fits) return {};
  return InvalidArgument("scaled-dot: scale ", s.ToStringWithoutLayout(),
                         " does not divide operand ", value.ToStringWithoutLayout());
}

Result<Shape> InferScaledDot(const InferArgs& args) {
  TRY(ExpectArrayOperand(args, 0));
  TRY(ExpectArrayOperand(args, 1));
  TRY(CheckScale(args, 0, 2));
  TRY(CheckScale(args, 1, 3));
  if (args.operand(2).IsScalar() && args.operand(3).IsScalar()) {
    return InvalidArgument("scaled-dot: at least one of the scales must not be a scalar");
  }
  return InferDot(args);
}

// group_sizes is [g], or [b..., x..., g]: lhs batch dimensions before the ragged one, then those of
// the ragged dimension's own kind before it.
Status CheckGroupSizes(const InferArgs& args, const RaggedDotAttrs& a, RaggedMode mode) {
  const Shape& lhs = args.operand(0);
  const Shape& groups = args.operand(2);
  int64_t ragged = a.lhs_ragged_dims[0];
  if (groups.rank() == 1) return {};
  Ints prefix = RaggedPrefixDims(a, lhs.rank(), mode);
  bool fits = groups.rank() == static_cast<int64_t>(prefix.size()) + 1;
  for (size_t i = 0; fits && i < prefix.size(); ++i) {
    fits = SizesAgree(lhs.dim(prefix[i]), groups.dim(static_cast<int64_t>(i)));
  }
  if (fits) return {};
  return InvalidArgument("ragged-dot: group sizes ", groups.ToStringWithoutLayout(),
                         " do not fit ragged dimension ", ragged, " of lhs ",
                         lhs.ToStringWithoutLayout());
}

Result<Shape> InferRaggedDot(const InferArgs& args) {
  for (int64_t i = 0; i < 3; ++i) TRY(ExpectArrayOperand(args, i));
  const RaggedDotAttrs& a = args.attrs.As<RaggedDotAttrs>();
  const Shape& lhs = args.operand(0);
  const Shape& rhs = args.operand(1);
  const Shape& groups = args.operand(2);
  DotDims dims = DotDimsOf(a);
  TRY(CheckDotDims(args, dims));
  TRY(CheckDimList(args.op, "lhs_ragged_dims", a.lhs_ragged_dims, lhs.rank()));
  TRY(CheckDimList(args.op, "rhs_group_dims", a.rhs_group_dims, rhs.rank()));
  if (a.lhs_ragged_dims.size() != 1) {
    return InvalidArgument("ragged-dot: lhs_ragged_dims=", DimList(a.lhs_ragged_dims),
                           " must name one dimension");
  }
  if (groups.rank() < 1 || !IsInteger(groups.dtype())) {
    return InvalidArgument("ragged-dot: group sizes must be an array of integers, got ",
                           groups.ToStringWithoutLayout());
  }
  RaggedMode mode = RaggedModeOf(a);
  TRY(CheckGroupSizes(args, a, mode));
  for (int64_t d : a.rhs_group_dims) {
    if (Contains(a.rhs_batch_dims, d) || Contains(a.rhs_contracting_dims, d)) {
      return InvalidArgument("ragged-dot: rhs_group_dims=", DimList(a.rhs_group_dims),
                             ": dimension ", d, " is also batch or contracting");
    }
  }
  size_t group_dims = mode == RaggedMode::kFree ? 1 : 0;
  int64_t group_count = groups.dim(groups.rank() - 1);
  if (a.rhs_group_dims.size() != group_dims ||
      (group_dims == 1 && !SizesAgree(group_count, rhs.dim(a.rhs_group_dims[0])))) {
    return InvalidArgument("ragged-dot: rhs_group_dims=", DimList(a.rhs_group_dims), " of rhs ",
                           rhs.ToStringWithoutLayout(), " must name ", group_dims,
                           " dimensions of size ", group_count);
  }
  Shape to = Shape::Scalar(DeclaredTypeOr(args, lhs.dtype(), rhs.dtype()));
  if (mode == RaggedMode::kContracting) {
    to.AppendDim(group_count, groups.is_dynamic(groups.rank() - 1));
  }
  TRY(AppendDotResult(args, dims, a.rhs_group_dims, to));
  return to;
}

}  // namespace

template <>
OpRow Define<Op::kDot>() {
  return {.doc =
              "Products summed over the contracting dimensions. Result dimensions: batch, free "
              "ones of lhs, free ones of rhs. Accumulates in more precision than the result.",
          .infer = InferDot,
          .evaluate = EvaluateDot,
          .dim_rule = RuleDot};
}

template <>
OpRow Define<Op::kScaledDot>() {
  return {.doc =
              "A dot of two operands (0, 1) that are first multiplied by scales (2, 3); one "
              "scale element covers a block of operand size / scale size elements in each "
              "dimension. A scalar scale is no scale. With the algorithm dot_bf16_bf16_f32 what is "
              "multiplied is rounded to bf16 first.",
          .infer = InferScaledDot,
          .evaluate = EvaluateScaledDot,
          .dim_rule = RuleScaledDot};
}

template <>
OpRow Define<Op::kRaggedDot>() {
  return {.doc =
              "A dot in which one dimension of lhs is cut into consecutive groups of the sizes "
              "in operand 2. Ragged free dimension: each group of rows has a matrix of its own "
              "in rhs. Ragged contracting dimension: one result per group. Ragged batch "
              "dimension: as dot. Rows beyond the last group give 0.",
          .infer = InferRaggedDot,
          .evaluate = EvaluateRaggedDot,
          .no_dim_rule = "groups begin anywhere in the ragged dimension"};
}

}  // namespace weft::hlo
