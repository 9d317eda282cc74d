#include <algorithm>
#include <limits>

#include "base/elements.h"
#include "base/thread_pool.h"
#include "hlo/evaluate/index_ops.h"
#include "hlo/evaluate/result.h"
#include "hlo/evaluate/strided.h"
#include "hlo/gather_sizes.h"
#include "hlo/instruction.h"

namespace weft::hlo {

IndexedWindows::IndexedWindows(const Form& form, const Shape& operand, const Literal& indices,
                               const Shape& slices)
    : index_map_(form.index_map) {
  auto in = [](const Ints& dims, int64_t d) {
    return std::find(dims.begin(), dims.end(), d) != dims.end();
  };
  Dims strides = RowMajorStrides(slices.dims());
  size_t window = 0;
  for (int64_t d = 0; d < operand.rank(); ++d) {
    bool none = in(form.collapsed_dims, d) || in(form.operand_batching, d);
    int64_t dim = none ? 0 : form.window_dims[window++];
    sizes_.push_back(none ? 1 : slices.dim(dim));
    slice_strides_.push_back(none ? 0 : strides[static_cast<size_t>(dim)]);
  }
  // Dimensions of the indices but the vector's are those of the slices that no window runs over.
  const Shape& shape = indices.shape();
  Dims index_strides = RowMajorStrides(shape.dims()), from_strides;
  int64_t slice_dim = 0;
  for (int64_t d = 0; d < shape.rank(); ++d) {
    if (d == form.index_vector_dim) continue;
    while (in(form.window_dims, slice_dim)) ++slice_dim;
    for (size_t i = 0; i < form.indices_batching.size(); ++i) {
      if (form.indices_batching[i] == d) {
        batching_.emplace_back(form.operand_batching[i], batch_sizes_.size());
      }
    }
    batch_sizes_.push_back(shape.dim(d));
    batch_strides_.push_back(strides[static_cast<size_t>(slice_dim++)]);
    from_strides.push_back(index_strides[static_cast<size_t>(d)]);
    count_ *= shape.dim(d);
  }
  // Index vectors one after the other.
  std::vector<int64_t> loaded(static_cast<size_t>(indices.size()));
  LoadI64(indices.dtype(), indices.data(), indices.size(), loaded.data());
  if (indices.dtype() == DType::kU64) {
    for (int64_t& i : loaded) i = i < 0 ? std::numeric_limits<int64_t>::max() : i;
  }
  Dims sizes = batch_sizes_;
  if (form.index_vector_dim < shape.rank()) {
    sizes.push_back(shape.dim(form.index_vector_dim));
    from_strides.push_back(index_strides[static_cast<size_t>(form.index_vector_dim)]);
  }
  indices_.resize(loaded.size());
  CopyStrided(sizes, reinterpret_cast<const std::byte*>(loaded.data()), from_strides,
              reinterpret_cast<std::byte*>(indices_.data()), RowMajorStrides(sizes), 8);
}

int64_t IndexedWindows::Locate(int64_t i, Dims& starts) const {
  starts.clear();
  starts.resize(sizes_.size(), 0);
  for (size_t k = 0; k < index_map_.size(); ++k) {
    starts[static_cast<size_t>(index_map_[k])] =
        indices_[static_cast<size_t>(i) * index_map_.size() + k];
  }
  int64_t at = 0;
  for (size_t d = batch_sizes_.size(); d-- > 0;) {
    int64_t coordinate = i % batch_sizes_[d];
    i /= batch_sizes_[d];
    at += coordinate * batch_strides_[d];
    for (const auto& [operand_dim, batch_dim] : batching_) {
      if (batch_dim == d) starts[static_cast<size_t>(operand_dim)] = coordinate;
    }
  }
  return at;
}

Result<Literal> EvaluateGather(EvalContext& context, const Instruction& instruction,
                               std::span<Literal> operands) {
  const GatherAttrs& a = instruction.attrs<GatherAttrs>();
  Literal from = TRY(ConvertedTo(std::move(operands[0]), instruction.shape().dtype()));
  Literal out = TRY(NewResult(context, instruction.shape()));
  std::vector<SizeSource> sources = GatherSizes(instruction);
  for (size_t d = 0; d < sources.size(); ++d) {
    if (sources[d].operand < 0) continue;
    const Literal& source = sources[d].operand == 0 ? from : operands[1];
    int64_t size = source.dynamic_size(sources[d].dim);
    if (size < source.shape().dim(sources[d].dim)) {
      out.set_dynamic_size(static_cast<int64_t>(d), size);
    }
  }
  if (out.size() == 0) return out;
  IndexedWindows windows(
      {a.offset_dims, a.collapsed_slice_dims, a.start_index_map, a.operand_batching_dims,
       a.start_indices_batching_dims, a.index_vector_dim},
      from.shape(), operands[1], out.shape());
  const Dims& whole = from.shape().dims();
  Dims strides = RowMajorStrides(whole);
  // A collapsed dimension of size 0 has nothing to gather from.
  if (from.size() == 0) return out;
  int64_t width = ByteWidth(out.dtype());
  StridedCopy copy(windows.sizes(), strides, windows.slice_strides(), width);
  std::byte* to = out.mutable_data();
  int64_t grain = std::max<int64_t>(1, (1 << 16) / (16 + copy.elements() * width));
  DefaultPool().ParallelFor(windows.count(), grain, [&](int64_t begin, int64_t end) {
    Dims starts;
    for (int64_t i = begin; i < end; ++i) {
      int64_t to_at = windows.Locate(i, starts), from_at = 0;
      for (size_t d = 0; d < starts.size(); ++d) {
        from_at += std::clamp<int64_t>(starts[d], 0, whole[d] - windows.sizes()[d]) * strides[d];
      }
      copy.Run(from.data() + from_at * width, to + to_at * width);
    }
  });
  return out;
}

}  // namespace weft::hlo
