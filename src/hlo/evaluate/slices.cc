#include <algorithm>

#include "hlo/attrs.h"
#include "hlo/computation.h"
#include "hlo/evaluate/move.h"
#include "hlo/evaluate/result.h"
#include "hlo/evaluate/strided.h"
#include "hlo/instruction.h"
#include "hlo/module.h"

namespace weft::hlo {
namespace {

// Start indices from the operands after the arrays: one rank-1 array or a scalar per dimension,
// clamped so that a block of `sizes` lies within `whole`.
Dims ClampedStarts(std::span<Literal> indices, const Dims& whole, const Dims& sizes) {
  Dims starts;
  bool one_array = indices.size() == 1 && indices[0].shape().rank() == 1;
  for (size_t i = 0; i < whole.size(); ++i) {
    const Literal& l = one_array ? indices[0] : indices[i];
    int64_t start = l.GetInt(one_array ? static_cast<int64_t>(i) : 0);
    // Indices of u64 beyond the largest int64 read as negative.
    if (l.dtype() == DType::kU64 && start < 0) start = whole[i];
    starts.push_back(std::clamp<int64_t>(start, 0, whole[i] - sizes[i]));
  }
  return starts;
}

int64_t BlockOffset(const Dims& starts, const Dims& strides) {
  int64_t offset = 0;
  for (size_t i = 0; i < starts.size(); ++i) offset += starts[i] * strides[i];
  return offset;
}

}  // namespace

Result<Literal> EvaluateSlice(EvalContext& context, const Instruction& instruction,
                              std::span<Literal> operands) {
  Literal from = TRY(ConvertedTo(std::move(operands[0]), instruction.shape().dtype()));
  Literal out = TRY(NewResult(context, instruction.shape()));
  const SliceDims& slice = instruction.attrs<SliceAttrs>().slice;
  const Dims& sizes = out.shape().dims();
  Dims strides = RowMajorStrides(from.shape().dims());
  int64_t offset = 0;
  for (size_t i = 0; i < slice.size(); ++i) {
    int64_t d = static_cast<int64_t>(i), size = from.dynamic_size(d);
    if (size != from.shape().dim(d)) {
      int64_t length =
          std::clamp<int64_t>(size - slice[i].start, 0, slice[i].limit - slice[i].start);
      out.set_dynamic_size(d, length / slice[i].stride + (length % slice[i].stride != 0));
    }
    offset += slice[i].start * strides[i];
    // A dimension of at most one element has no stride to speak of.
    if (sizes[i] > 1) strides[i] *= slice[i].stride;
  }
  int64_t width = ByteWidth(out.dtype());
  if (out.size() == 0) return out;
  CopyStrided(sizes, from.data() + offset * width, strides, out.mutable_data(),
              RowMajorStrides(sizes), width);
  return out;
}

Result<Literal> EvaluateDynamicSlice(EvalContext& context, const Instruction& instruction,
                                     std::span<Literal> operands) {
  Literal from = TRY(ConvertedTo(std::move(operands[0]), instruction.shape().dtype()));
  Literal out = TRY(NewResult(context, instruction.shape()));
  if (out.size() == 0) return out;
  const Dims& sizes = out.shape().dims();
  Dims starts = ClampedStarts(operands.subspan(1), from.shape().dims(), sizes);
  Dims strides = RowMajorStrides(from.shape().dims());
  int64_t width = ByteWidth(out.dtype());
  for (int64_t i = 0; i < out.shape().rank(); ++i) {
    if (from.dynamic_size(i) != from.shape().dim(i) && sizes[static_cast<size_t>(i)] > 1 &&
        sizes[static_cast<size_t>(i)] == from.shape().dim(i)) {
      out.set_dynamic_size(i, from.dynamic_size(i));
    }
  }
  CopyStrided(sizes, from.data() + BlockOffset(starts, strides) * width, strides,
              out.mutable_data(), RowMajorStrides(sizes), width);
  return out;
}

Result<Literal> EvaluateDynamicUpdateSlice(EvalContext&, const Instruction& instruction,
                                           std::span<Literal> operands) {
  // A buffer holds one array.
  bool buffer = operands[0].shape().IsBuffer();
  Literal whole = std::move(operands[0]);
  Literal& out = buffer ? whole.mutable_tuple()[0] : whole;
  const Shape& declared = buffer ? instruction.shape().buffer_content() : instruction.shape();
  out = TRY(ConvertedTo(std::move(out), declared.dtype()));
  Literal update = TRY(ConvertedTo(std::move(operands[1]), out.dtype()));
  const Dims& sizes = update.shape().dims();
  if (update.size() == 0) return whole;
  Dims starts = ClampedStarts(operands.subspan(2), out.shape().dims(), sizes);
  Dims strides = RowMajorStrides(out.shape().dims());
  int64_t width = ByteWidth(out.dtype());
  // Of a dynamically sized update only the part that is there.
  Dims there = sizes;
  for (size_t i = 0; i < there.size(); ++i) {
    there[i] = update.dynamic_size(static_cast<int64_t>(i));
    if (there[i] != sizes[i] && sizes[i] == out.shape().dim(static_cast<int64_t>(i))) {
      out.set_dynamic_size(static_cast<int64_t>(i), there[i]);
    }
  }
  CopyStrided(there, update.data(), RowMajorStrides(sizes),
              out.mutable_data() + BlockOffset(starts, strides) * width, strides, width);
  return whole;
}

Result<Literal> EvaluatePad(EvalContext& context, const Instruction& instruction,
                            std::span<Literal> operands) {
  DType dtype = instruction.shape().dtype();
  Literal from = TRY(ConvertedTo(std::move(operands[0]), dtype));
  Literal value = TRY(ConvertedTo(std::move(operands[1]), dtype));
  Literal out = TRY(NewResult(context, instruction.shape()));
  int64_t width = ByteWidth(dtype);
  const Padding& padding = instruction.attrs<PadAttrs>().padding;
  for (size_t i = 0; i < padding.size(); ++i) {
    int64_t d = static_cast<int64_t>(i), there = from.dynamic_size(d);
    const PaddingDim& p = padding[i];
    if (there == from.shape().dim(d)) continue;
    __int128 between = there > 0 ? static_cast<__int128>(there - 1) * p.interior : 0;
    __int128 size = static_cast<__int128>(p.low) + p.high + there + between;
    out.set_dynamic_size(d,
                         static_cast<int64_t>(std::clamp<__int128>(size, 0, out.shape().dim(d))));
  }
  if (out.size() == 0) return out;
  FillElements(out.mutable_data(), out.size(), value.data(), width);
  Dims sizes = from.shape().dims(), from_strides = RowMajorStrides(sizes);
  Dims to_strides = RowMajorStrides(out.shape().dims());
  int64_t from_offset = 0, to_offset = 0;
  for (size_t i = 0; i < padding.size(); ++i) {
    int64_t d = static_cast<int64_t>(i), there = from.dynamic_size(d);
    const PaddingDim& p = padding[i];
    // Padding may be any numbers whose sum is a size: the way there takes more than 64 bits.
    __int128 step = static_cast<__int128>(p.interior) + 1, low = p.low;
    int64_t limit = out.shape().dim(d);
    // Elements first .. last - 1 land within [0, limit).
    if (low >= limit) return out;
    __int128 first = low >= 0 ? 0 : (-low + step - 1) / step;
    __int128 last = std::min<__int128>(there, (limit - 1 - low) / step + 1);
    if (first >= last) return out;
    sizes[i] = static_cast<int64_t>(last - first);
    from_offset += static_cast<int64_t>(first) * from_strides[i];
    to_offset += static_cast<int64_t>(low + first * step) * to_strides[i];
    if (sizes[i] > 1) to_strides[i] *= static_cast<int64_t>(step);
  }
  CopyStrided(sizes, from.data() + from_offset * width, from_strides,
              out.mutable_data() + to_offset * width, to_strides, width);
  return out;
}

Result<Literal> EvaluateConcatenate(EvalContext& context, const Instruction& instruction,
                                    std::span<Literal> operands) {
  Literal out = TRY(NewResult(context, instruction.shape()));
  int64_t along = instruction.attrs<DimensionsAttrs>().dimensions[0];
  Dims strides = RowMajorStrides(out.shape().dims());
  int64_t width = ByteWidth(out.dtype()), at = 0;
  bool dynamic = false;
  for (Literal& operand : operands) {
    Literal from = TRY(ConvertedTo(std::move(operand), out.dtype()));
    Dims sizes = from.shape().dims(), from_strides = RowMajorStrides(sizes);
    for (int64_t d = 0; d < from.shape().rank(); ++d) {
      if (from.dynamic_size(d) == from.shape().dim(d)) continue;
      if (d == along) {
        dynamic = true;
        sizes[static_cast<size_t>(d)] = from.dynamic_size(d);
      } else {
        out.set_dynamic_size(d, from.dynamic_size(d));
      }
    }
    int64_t size = sizes[static_cast<size_t>(along)];
    if (from.size() > 0 && size > 0) {
      CopyStrided(sizes, from.data(), from_strides,
                  out.mutable_data() + at * strides[static_cast<size_t>(along)] * width, strides,
                  width);
    }
    at += size;
  }
  if (dynamic) out.set_dynamic_size(along, at);
  return out;
}

Instruction* FoldSameShapeIdentity(Instruction& instruction) {
  if (instruction.operand_count() == 0) return nullptr;
  Instruction* operand = instruction.operand(0);
  if (instruction.shape() != operand->shape() || !instruction.shape().IsStatic()) return nullptr;
  switch (instruction.op()) {
    case Op::kBroadcast: {
      const Ints& dims = instruction.attrs<BroadcastAttrs>().dimensions;
      return std::is_sorted(dims.begin(), dims.end()) ? operand : nullptr;
    }
    case Op::kConcatenate: return instruction.operand_count() == 1 ? operand : nullptr;
    case Op::kSlice:
      for (const SliceDim& s : instruction.attrs<SliceAttrs>().slice) {
        if (s.start != 0 || s.stride != 1) return nullptr;
      }
      return operand;
    case Op::kPad:
      for (const PaddingDim& p : instruction.attrs<PadAttrs>().padding) {
        if (p != PaddingDim()) return nullptr;
      }
      return operand;
    default: return operand;  // dynamic-slice of everything: starts are clamped to 0
  }
}

Instruction* FoldReshape(Instruction& reshape) {
  Instruction* operand = reshape.operand(0);
  if (!reshape.shape().IsStatic() || !operand->shape().IsStatic()) return nullptr;
  if (reshape.shape() == operand->shape()) return operand;
  if (operand->op() != Op::kReshape || !operand->operand(0)->shape().IsStatic()) return nullptr;
  Instruction* source = operand->operand(0);
  if (source->shape() == reshape.shape()) return source;
  Computation* parent = reshape.parent();
  return parent->Add(Op::kReshape, parent->module()->UniqueName("reshape"), reshape.shape(),
                     std::span(&source, 1), reshape.attrs(), &reshape);
}

Instruction* FoldTranspose(Instruction& transpose) {
  Instruction* operand = transpose.operand(0);
  const Ints& dims = transpose.attrs<DimensionsAttrs>().dimensions;
  if (std::is_sorted(dims.begin(), dims.end()) && transpose.shape() == operand->shape()) {
    return operand;
  }
  if (operand->op() != Op::kTranspose) return nullptr;
  const Ints& inner = operand->attrs<DimensionsAttrs>().dimensions;
  Instruction* source = operand->operand(0);
  if (source->shape().dtype() != transpose.shape().dtype() ||
      operand->shape().dtype() != transpose.shape().dtype()) {
    return nullptr;
  }
  DimensionsAttrs both;
  for (int64_t d : dims) both.dimensions.push_back(inner[static_cast<size_t>(d)]);
  if (std::is_sorted(both.dimensions.begin(), both.dimensions.end()) &&
      source->shape() == transpose.shape()) {
    return source;
  }
  Computation* parent = transpose.parent();
  return parent->Add(Op::kTranspose, parent->module()->UniqueName("transpose"), transpose.shape(),
                     std::span(&source, 1), std::move(both), &transpose);
}

Instruction* FoldReverse(Instruction& reverse) {
  Instruction* operand = reverse.operand(0);
  if (!reverse.shape().IsStatic()) return nullptr;
  auto moving = [](const Instruction& r) {
    Ints dims;
    for (int64_t d : r.attrs<DimensionsAttrs>().dimensions) {
      if (r.shape().dim(d) > 1) dims.push_back(d);
    }
    std::sort(dims.begin(), dims.end());
    return dims;
  };
  Ints dims = moving(reverse);
  if (dims.empty()) return reverse.shape() == operand->shape() ? operand : nullptr;
  if (operand->op() != Op::kReverse || moving(*operand) != dims) return nullptr;
  Instruction* source = operand->operand(0);
  return source->shape() == reverse.shape() && source->shape() == operand->shape() ? source
                                                                                   : nullptr;
}

}  // namespace weft::hlo
