#include "hlo/evaluate/move.h"

#include <algorithm>
#include <complex>
#include <cstring>

#include "base/thread_pool.h"
#include "hlo/attrs.h"
#include "hlo/evaluate/result.h"
#include "hlo/evaluate/strided.h"
#include "hlo/instruction.h"

namespace weft::hlo {
namespace {

// Gives result dimension `to` the run-time size of operand dimension `from`.
void KeepDynamicSize(const Literal& operand, int64_t from, Literal& result, int64_t to) {
  if (operand.dynamic_size(from) != operand.shape().dim(from)) {
    result.set_dynamic_size(to, std::min(operand.dynamic_size(from), result.shape().dim(to)));
  }
}

// The elements of `value`, row-major, in the order in which they lie in memory under the layout.
Dims PhysicalSizes(const Shape& shape, const Layout& layout, Dims* strides) {
  Dims logical = RowMajorStrides(shape.dims()), sizes;
  for (size_t i = layout.minor_to_major.size(); i-- > 0;) {
    int64_t d = layout.minor_to_major[i];
    sizes.push_back(shape.dim(d));
    strides->push_back(logical[static_cast<size_t>(d)]);
  }
  return sizes;
}

}  // namespace

Result<Literal> EvaluateBroadcast(EvalContext& context, const Instruction& instruction,
                                  std::span<Literal> operands) {
  Literal from = TRY(ConvertedTo(std::move(operands[0]), instruction.shape().dtype()));
  Literal out = TRY(NewResult(context, instruction.shape()));
  const Ints& dims = instruction.attrs<BroadcastAttrs>().dimensions;
  const Dims& sizes = out.shape().dims();
  Dims from_strides(sizes.size(), 0), strides = RowMajorStrides(from.shape().dims());
  for (size_t i = 0; i < dims.size(); ++i) {
    from_strides[static_cast<size_t>(dims[i])] += strides[i];
    KeepDynamicSize(from, static_cast<int64_t>(i), out, dims[i]);
  }
  CopyStrided(sizes, from.data(), from_strides, out.mutable_data(), RowMajorStrides(sizes),
              ByteWidth(out.dtype()));
  return out;
}

Result<Literal> EvaluateIota(EvalContext& context, const Instruction& instruction,
                             std::span<Literal>) {
  Literal out = TRY(NewResult(context, instruction.shape()));
  if (out.size() == 0) return out;
  int64_t dim = instruction.attrs<IotaAttrs>().iota_dimension, width = ByteWidth(out.dtype());
  Dims sizes = out.shape().dims();
  Shape line_shape(out.dtype(), {sizes[static_cast<size_t>(dim)]});
  Literal line = TRY(NewResult(context, line_shape));
  constexpr int64_t kBlock = 4096;
  std::vector<int64_t> counts(kBlock);
  for (int64_t begin = 0; begin < line.size(); begin += kBlock) {
    int64_t n = std::min(kBlock, line.size() - begin);
    for (int64_t i = 0; i < n; ++i) counts[static_cast<size_t>(i)] = begin + i;
    ConvertElements(DType::kS64, reinterpret_cast<const std::byte*>(counts.data()), out.dtype(),
                    line.mutable_data() + begin * width, n);
  }
  Dims from_strides(sizes.size(), 0);
  from_strides[static_cast<size_t>(dim)] = 1;
  CopyStrided(sizes, line.data(), from_strides, out.mutable_data(), RowMajorStrides(sizes), width);
  return out;
}

// Run-time sizes go along while the leading dimensions stay the same.
Result<Literal> EvaluateReshape(EvalContext& context, const Instruction& instruction,
                                std::span<Literal> operands) {
  TRY(CheckResultSize(context, instruction.shape()));
  Literal from = TRY(ConvertedTo(std::move(operands[0]), instruction.shape().dtype()));
  Literal out = from.WithShape(instruction.shape());
  if (!from.HasDynamicSizes() || out.HasDynamicSizes()) return out;
  const Dims& a = from.shape().dims();
  const Dims& b = out.shape().dims();
  size_t head = 0, tail = 0, shorter = std::min(a.size(), b.size());
  while (head < shorter && a[head] == b[head]) ++head;
  while (tail < shorter - head && a[a.size() - 1 - tail] == b[b.size() - 1 - tail]) ++tail;
  for (size_t i = 0; i < head; ++i) {
    KeepDynamicSize(from, static_cast<int64_t>(i), out, static_cast<int64_t>(i));
  }
  for (size_t i = 1; i <= tail; ++i) {
    KeepDynamicSize(from, static_cast<int64_t>(a.size() - i), out,
                    static_cast<int64_t>(b.size() - i));
  }
  return out;
}

Result<Literal> EvaluateTranspose(EvalContext& context, const Instruction& instruction,
                                  std::span<Literal> operands) {
  Literal from = TRY(ConvertedTo(std::move(operands[0]), instruction.shape().dtype()));
  Literal out = TRY(NewResult(context, instruction.shape()));
  const Ints& dims = instruction.attrs<DimensionsAttrs>().dimensions;
  Dims strides = RowMajorStrides(from.shape().dims()), from_strides;
  for (size_t i = 0; i < dims.size(); ++i) {
    from_strides.push_back(strides[static_cast<size_t>(dims[i])]);
    KeepDynamicSize(from, dims[i], out, static_cast<int64_t>(i));
  }
  CopyStrided(out.shape().dims(), from.data(), from_strides, out.mutable_data(),
              RowMajorStrides(out.shape().dims()), ByteWidth(out.dtype()));
  return out;
}

// A dynamic dimension is reversed over its run-time size; what lies beyond is filler.
Result<Literal> EvaluateReverse(EvalContext& context, const Instruction& instruction,
                                std::span<Literal> operands) {
  Literal from = TRY(ConvertedTo(std::move(operands[0]), instruction.shape().dtype()));
  Literal out = TRY(NewResult(context, instruction.shape()));
  Dims sizes = out.shape().dims(), strides = RowMajorStrides(sizes), from_strides = strides;
  int64_t offset = 0;
  for (int64_t i = 0; i < out.shape().rank(); ++i) {
    sizes[static_cast<size_t>(i)] = from.dynamic_size(i);
    KeepDynamicSize(from, i, out, i);
  }
  if (std::count(sizes.begin(), sizes.end(), 0) > 0) return out;
  for (int64_t d : instruction.attrs<DimensionsAttrs>().dimensions) {
    size_t i = static_cast<size_t>(d);
    offset += (sizes[i] - 1) * strides[i];
    from_strides[i] = -strides[i];
  }
  int64_t width = ByteWidth(out.dtype());
  CopyStrided(sizes, from.data() + offset * width, from_strides, out.mutable_data(), strides,
              width);
  return out;
}

Result<Literal> EvaluateBitcast(EvalContext& context, const Instruction& instruction,
                                std::span<Literal> operands) {
  Literal from = std::move(operands[0]);
  const Shape& to = instruction.shape();
  if (!to.IsArray() || !from.shape().IsArray()) return from;
  const Shape& operand_shape = instruction.operand(0)->shape();
  Layout from_layout = operand_shape.LayoutOrDefault(), to_layout = to.LayoutOrDefault();
  TRY(CheckResultSize(context, to));
  // Elements in memory order.
  if (!from_layout.IsRowMajor()) {
    Literal moved = TRY(NewResult(context, from.shape()));
    Dims strides, sizes = PhysicalSizes(from.shape(), from_layout, &strides);
    CopyStrided(sizes, from.data(), strides, moved.mutable_data(), RowMajorStrides(sizes),
                ByteWidth(from.dtype()));
    from = std::move(moved);
  }
  Shape flat = to;
  flat.ClearLayout();
  Literal linear;
  if (from.dtype() == to.dtype() && from.size() == to.elements()) {
    linear = from.WithShape(flat);
  } else if (!IsSubByte(from.dtype()) && !IsSubByte(to.dtype())) {
    linear = TRY(NewResult(context, flat));
    std::memcpy(linear.mutable_data(), from.data(),
                static_cast<size_t>(std::min(linear.byte_size(), from.byte_size())));
  } else {
    std::vector<std::byte> packed = from.Pack();
    linear = TRY(Literal::Unpack(flat, packed));
  }
  if (to_layout.IsRowMajor()) return linear.WithShape(to);
  Literal out = TRY(NewResult(context, to));
  Dims strides, sizes = PhysicalSizes(to, to_layout, &strides);
  CopyStrided(sizes, linear.data(), RowMajorStrides(sizes), out.mutable_data(), strides,
              ByteWidth(to.dtype()));
  return out;
}

Result<Literal> EvaluateCopy(EvalContext&, const Instruction& instruction,
                             std::span<Literal> operands) {
  Literal from = std::move(operands[0]);
  if (!from.shape().IsArray() || !instruction.shape().IsArray()) return from;
  from = TRY(ConvertedTo(std::move(from), instruction.shape().dtype()));
  return from.WithShape(instruction.shape());
}

}  // namespace weft::hlo
