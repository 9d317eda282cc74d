#include "hlo/evaluate/contract.h"

#include <algorithm>

#include "hlo/evaluate/matmul.h"
#include "hlo/evaluate/result.h"
#include "hlo/evaluate/strided.h"
#include "hlo/instruction.h"

namespace weft::hlo {

Result<Literal> Permuted(const EvalContext& context, Literal value,
                         std::span<const int64_t> order) {
  ZeroBeyondDynamicSizes(value);
  if (std::is_sorted(order.begin(), order.end())) return value;
  Shape shape = Shape::Scalar(value.dtype());
  Dims strides = RowMajorStrides(value.shape().dims()), from_strides;
  for (int64_t d : order) {
    shape.AppendDim(value.shape().dim(d));
    from_strides.push_back(strides[static_cast<size_t>(d)]);
  }
  Literal out = TRY(NewResult(context, shape));
  CopyStrided(shape.dims(), value.data(), from_strides, out.mutable_data(),
              RowMajorStrides(shape.dims()), ByteWidth(value.dtype()));
  return out;
}

void ZeroBeyondDynamicSizes(Literal& value) {
  if (!value.HasDynamicSizes()) return;
  const Dims& dims = value.shape().dims();
  Dims strides = RowMajorStrides(dims);
  static constexpr std::byte kZero[16] = {};
  int64_t width = ByteWidth(value.dtype());
  for (int64_t d = 0; d < value.shape().rank(); ++d) {
    size_t i = static_cast<size_t>(d);
    if (value.dynamic_size(d) >= dims[i]) continue;
    Dims rest = dims;
    rest[i] = dims[i] - value.dynamic_size(d);
    CopyStrided(rest, kZero, Dims(dims.size(), 0),
                value.mutable_data() + value.dynamic_size(d) * strides[i] * width, strides, width);
  }
}

namespace {

Ints FreeDims(int64_t rank, const Ints& a, const Ints& b, const Ints& c = {}) {
  Ints free;
  for (int64_t d = 0; d < rank; ++d) {
    auto in = [d](const Ints& dims) {
      return std::find(dims.begin(), dims.end(), d) != dims.end();
    };
    if (!in(a) && !in(b) && !in(c)) free.push_back(d);
  }
  return free;
}

Ints JoinedDims(const Ints& a, const Ints& b, const Ints& c = {}) {
  Ints all = a;
  all.insert(all.end(), b.begin(), b.end());
  all.insert(all.end(), c.begin(), c.end());
  return all;
}

int64_t SizeOfDims(const Shape& shape, const Ints& dims) {
  int64_t size = 1;
  for (int64_t d : dims) size *= shape.dim(d);
  return size;
}

// Run-time sizes of the dimensions of a dot's result.
void KeepDotSizes(const Literal& from, const Ints& dims, size_t at, Literal& out) {
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t size = from.dynamic_size(dims[i]), to = static_cast<int64_t>(at + i);
    if (size < out.shape().dim(to)) out.set_dynamic_size(to, size);
  }
}

// The dot of two arrays; the result has the instruction's shape.
template <class A>
Result<Literal> DotOf(const EvalContext& context, const Shape& shape, const A& attrs, Literal lhs,
                      Literal rhs) {
  Literal out = TRY(NewResult(context, shape));
  Ints lhs_free = FreeDims(lhs.shape().rank(), attrs.lhs_batch_dims, attrs.lhs_contracting_dims);
  Ints rhs_free = FreeDims(rhs.shape().rank(), attrs.rhs_batch_dims, attrs.rhs_contracting_dims);
  MatMulSizes sizes = {SizeOfDims(lhs.shape(), attrs.lhs_batch_dims),
                       SizeOfDims(lhs.shape(), lhs_free), SizeOfDims(rhs.shape(), rhs_free),
                       SizeOfDims(lhs.shape(), attrs.lhs_contracting_dims),
                       HasExactProducts(lhs.dtype(), rhs.dtype())};
  KeepDotSizes(lhs, JoinedDims(attrs.lhs_batch_dims, lhs_free), 0, out);
  KeepDotSizes(rhs, rhs_free, attrs.lhs_batch_dims.size() + lhs_free.size(), out);
  lhs = TRY(Permuted(context, std::move(lhs),
                     JoinedDims(attrs.lhs_batch_dims, lhs_free, attrs.lhs_contracting_dims)));
  rhs = TRY(Permuted(context, std::move(rhs),
                     JoinedDims(attrs.rhs_batch_dims, attrs.rhs_contracting_dims, rhs_free)));
  WithComputeType(lhs.dtype(), rhs.dtype(), out.dtype(), [&]<class T>() {
    DenseSource<T> a({lhs.dtype(), sizes.k, sizes.m * sizes.k}, lhs.data());
    DenseSource<T> b({rhs.dtype(), sizes.n, sizes.k * sizes.n}, rhs.data());
    MatMul<T>(sizes, a, b, {out.dtype(), sizes.n, sizes.m * sizes.n}, out.mutable_data());
  });
  return out;
}

// value * scale, where one element of the scale covers a block.
Result<Literal> ScaledOperand(const EvalContext& context, Literal value, Literal scale) {
  if (scale.shape().rank() != value.shape().rank() || scale.shape().IsScalar()) return value;
  bool wide = BitWidth(value.dtype()) > 32 || BitWidth(scale.dtype()) > 32;
  DType dtype = wide ? DType::kF64 : DType::kF32;
  value = TRY(ConvertedTo(std::move(value), dtype));
  scale = TRY(ConvertedTo(std::move(scale), dtype));
  if (value.size() == 0) return value;
  Dims sizes, from_strides, strides = RowMajorStrides(scale.shape().dims());
  for (int64_t d = 0; d < value.shape().rank(); ++d) {
    int64_t blocks = scale.shape().dim(d);
    sizes.push_back(blocks), sizes.push_back(value.shape().dim(d) / blocks);
    from_strides.push_back(strides[static_cast<size_t>(d)]), from_strides.push_back(0);
  }
  Literal factors = TRY(NewResult(context, value.shape()));
  CopyStrided(sizes, scale.data(), from_strides, factors.mutable_data(), RowMajorStrides(sizes),
              ByteWidth(dtype));
  auto multiply = [&]<class T>(T) {
    std::span<T> to = value.values<T>();
    std::span<const T> by = std::as_const(factors).values<T>();
    for (size_t i = 0; i < to.size(); ++i) to[i] *= by[i];
  };
  wide ? multiply(double()) : multiply(float());
  return value;
}

// Where each group begins and ends along the ragged dimension.
struct RaggedGroups {
  struct Range {
    int64_t group, begin, end;
  };
  int64_t count;                           // of groups
  bool shared;                             // all prefixes have the same ranges
  std::vector<std::vector<Range>> ranges;  // by prefix, those that are not empty, ascending

  const std::vector<Range>& Of(int64_t prefix) const {
    return ranges[shared ? 0 : static_cast<size_t>(prefix)];
  }
};

RaggedGroups RaggedGroupsOf(const Literal& sizes, int64_t prefixes, int64_t limit) {
  RaggedGroups groups{sizes.shape().dims().back(), sizes.shape().rank() == 1, {}};
  groups.ranges.resize(groups.shared ? 1 : static_cast<size_t>(prefixes));
  for (size_t p = 0; p < groups.ranges.size(); ++p) {
    int64_t at = 0, first = static_cast<int64_t>(p) * groups.count;
    for (int64_t g = 0; g < groups.count && at < limit; ++g) {
      int64_t size = std::clamp<int64_t>(sizes.GetInt(first + g), 0, limit - at);
      if (size > 0) groups.ranges[p].push_back({g, at, at + size});
      at += size;
    }
  }
  return groups;
}

// Rows [b][x][ragged][rest] of lhs by the matrix of their group: [group][b][k][n].
Result<Literal> RaggedFree(const EvalContext& context, const Instruction& instruction, Literal lhs,
                           Literal rhs, const Literal& group_sizes) {
  const RaggedDotAttrs& a = instruction.attrs<RaggedDotAttrs>();
  Literal out = TRY(NewResult(context, instruction.shape()));
  Ints prefix = RaggedPrefixDims(a, lhs.shape().rank(), RaggedMode::kFree);
  Ints lhs_free = FreeDims(lhs.shape().rank(), a.lhs_batch_dims, a.lhs_contracting_dims);
  Ints rhs_free =
      FreeDims(rhs.shape().rank(), a.rhs_batch_dims, a.rhs_contracting_dims, a.rhs_group_dims);
  int64_t batch = SizeOfDims(lhs.shape(), a.lhs_batch_dims),
          k = SizeOfDims(lhs.shape(), a.lhs_contracting_dims);
  int64_t n = SizeOfDims(rhs.shape(), rhs_free), ragged = lhs.shape().dim(a.lhs_ragged_dims[0]);
  int64_t prefixes = SizeOfDims(lhs.shape(), prefix);
  int64_t m = SizeOfDims(lhs.shape(), lhs_free);
  if (out.size() == 0 || k == 0) return out;
  int64_t rest = m * batch / (prefixes * ragged);
  RaggedGroups groups = RaggedGroupsOf(group_sizes, prefixes, ragged);
  lhs = TRY(Permuted(context, std::move(lhs),
                     JoinedDims(a.lhs_batch_dims, lhs_free, a.lhs_contracting_dims)));
  rhs = TRY(Permuted(context, std::move(rhs),
                     JoinedDims(JoinedDims(a.rhs_group_dims, a.rhs_batch_dims),
                                a.rhs_contracting_dims, rhs_free)));
  int64_t per_batch = prefixes / batch;  // values of x
  std::byte* to = out.mutable_data();
  WithComputeType(lhs.dtype(), rhs.dtype(), out.dtype(), [&]<class T>() {
    for (int64_t p = 0; p < prefixes; ++p) {
      for (const auto& [g, begin, end] : groups.Of(p)) {
        int64_t row = (p * ragged + begin) * rest;
        DenseMatrices c{out.dtype(), n, 0};
        DenseSource<T> x({lhs.dtype(), k, 0}, lhs.data() + row * k * ByteWidth(lhs.dtype()));
        DenseSource<T> y({rhs.dtype(), n, 0},
                         rhs.data() + (g * batch + p / per_batch) * k * n * ByteWidth(rhs.dtype()));
        MatMul<T>({1, (end - begin) * rest, n, k}, x, y, c, to + c.Offset(0, row, 0));
      }
    }
  });
  return out;
}

// Columns [x][ragged][rest] of lhs and rows of rhs, those of one group at a time.
Result<Literal> RaggedContracting(const EvalContext& context, const Instruction& instruction,
                                  Literal lhs, Literal rhs, const Literal& group_sizes) {
  const RaggedDotAttrs& a = instruction.attrs<RaggedDotAttrs>();
  Literal out = TRY(NewResult(context, instruction.shape()));
  Ints prefix = RaggedPrefixDims(a, lhs.shape().rank(), RaggedMode::kContracting);
  Ints lhs_free = FreeDims(lhs.shape().rank(), a.lhs_batch_dims, a.lhs_contracting_dims);
  Ints rhs_free = FreeDims(rhs.shape().rank(), a.rhs_batch_dims, a.rhs_contracting_dims);
  int64_t batch = SizeOfDims(lhs.shape(), a.lhs_batch_dims), m = SizeOfDims(lhs.shape(), lhs_free);
  int64_t n = SizeOfDims(rhs.shape(), rhs_free),
          k = SizeOfDims(lhs.shape(), a.lhs_contracting_dims);
  int64_t ragged = lhs.shape().dim(a.lhs_ragged_dims[0]),
          prefixes = SizeOfDims(lhs.shape(), prefix);
  if (out.size() == 0 || k == 0) return out;
  int64_t xs = prefixes / batch, rest = k / (xs * ragged);
  RaggedGroups groups = RaggedGroupsOf(group_sizes, prefixes, ragged);
  lhs = TRY(Permuted(context, std::move(lhs),
                     JoinedDims(a.lhs_batch_dims, lhs_free, a.lhs_contracting_dims)));
  rhs = TRY(Permuted(context, std::move(rhs),
                     JoinedDims(a.rhs_batch_dims, a.rhs_contracting_dims, rhs_free)));
  int64_t lw = ByteWidth(lhs.dtype()), rw = ByteWidth(rhs.dtype());
  Literal x = TRY(NewResult(context, Shape(lhs.dtype(), {m, k})));
  Literal y = TRY(NewResult(context, Shape(rhs.dtype(), {k, n})));
  std::byte* to = out.mutable_data();
  for (int64_t g = 0; g < groups.count; ++g) {
    for (int64_t b = 0; b < batch; ++b) {
      int64_t depth = 0;
      for (int64_t i = 0; i < xs; ++i) {
        const auto& ranges = groups.Of(b * xs + i);
        auto range = std::lower_bound(ranges.begin(), ranges.end(), g,
                                      [](const auto& r, int64_t group) { return r.group < group; });
        if (range == ranges.end() || range->group != g) continue;
        auto [group, begin, end] = *range;
        int64_t from = (i * ragged + begin) * rest, count = (end - begin) * rest;
        CopyStrided({m, count}, lhs.data() + (b * m * k + from) * lw, {k, 1},
                    x.mutable_data() + depth * lw, {k, 1}, lw);
        CopyStrided({count * n}, rhs.data() + (b * k + from) * n * rw, {1},
                    y.mutable_data() + depth * n * rw, {1}, rw);
        depth += count;
      }
      WithComputeType(lhs.dtype(), rhs.dtype(), out.dtype(), [&]<class T>() {
        DenseMatrices c{out.dtype(), n, m * n};
        MatMul<T>({1, m, n, depth}, DenseSource<T>({lhs.dtype(), k, 0}, x.data()),
                  DenseSource<T>({rhs.dtype(), n, 0}, y.data()), c,
                  to + c.Offset(g * batch + b, 0, 0));
      });
    }
  }
  return out;
}

}  // namespace

Result<Literal> EvaluateDot(EvalContext& context, const Instruction& instruction,
                            std::span<Literal> operands) {
  return DotOf(context, instruction.shape(), instruction.attrs<DotAttrs>(), std::move(operands[0]),
               std::move(operands[1]));
}

Result<Literal> EvaluateScaledDot(EvalContext& context, const Instruction& instruction,
                                  std::span<Literal> operands) {
  Literal lhs = TRY(ScaledOperand(context, std::move(operands[0]), std::move(operands[2])));
  Literal rhs = TRY(ScaledOperand(context, std::move(operands[1]), std::move(operands[3])));
  if (instruction.attrs<DotAttrs>().algorithm == DotAlgorithm::kBF16BF16F32) {
    lhs = TRY(ConvertedTo(std::move(lhs), DType::kBF16));
    rhs = TRY(ConvertedTo(std::move(rhs), DType::kBF16));
  }
  return DotOf(context, instruction.shape(), instruction.attrs<DotAttrs>(), std::move(lhs),
               std::move(rhs));
}

Result<Literal> EvaluateRaggedDot(EvalContext& context, const Instruction& instruction,
                                  std::span<Literal> operands) {
  const RaggedDotAttrs& attrs = instruction.attrs<RaggedDotAttrs>();
  Literal lhs = std::move(operands[0]), rhs = std::move(operands[1]);
  switch (RaggedModeOf(attrs)) {
    case RaggedMode::kFree:
      return RaggedFree(context, instruction, std::move(lhs), std::move(rhs), operands[2]);
    case RaggedMode::kContracting:
      return RaggedContracting(context, instruction, std::move(lhs), std::move(rhs), operands[2]);
    case RaggedMode::kBatch: break;
  }
  return DotOf(context, instruction.shape(), attrs, std::move(lhs), std::move(rhs));
}

RaggedMode RaggedModeOf(const RaggedDotAttrs& attrs) {
  auto has = [&](const Ints& dims) {
    return std::find(dims.begin(), dims.end(), attrs.lhs_ragged_dims[0]) != dims.end();
  };
  if (has(attrs.lhs_batch_dims)) return RaggedMode::kBatch;
  return has(attrs.lhs_contracting_dims) ? RaggedMode::kContracting : RaggedMode::kFree;
}

Ints RaggedPrefixDims(const RaggedDotAttrs& attrs, int64_t lhs_rank, RaggedMode mode) {
  int64_t ragged = attrs.lhs_ragged_dims[0];
  Ints prefix;
  auto append_until_ragged = [&](const Ints& dims) {
    for (int64_t d : dims) {
      if (d == ragged) return;
      prefix.push_back(d);
    }
  };
  append_until_ragged(attrs.lhs_batch_dims);
  if (mode == RaggedMode::kContracting) append_until_ragged(attrs.lhs_contracting_dims);
  if (mode != RaggedMode::kFree) return prefix;
  Ints free;
  for (int64_t d = 0; d < lhs_rank; ++d) {
    auto has = [&](const Ints& dims) {
      return std::find(dims.begin(), dims.end(), d) != dims.end();
    };
    if (!has(attrs.lhs_batch_dims) && !has(attrs.lhs_contracting_dims)) free.push_back(d);
  }
  append_until_ragged(free);
  return prefix;
}

}  // namespace weft::hlo
