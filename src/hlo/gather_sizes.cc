#include "hlo/gather_sizes.h"

#include <algorithm>

namespace weft::hlo {
namespace {

bool NamesDim(const Ints& dims, int64_t d) {
  return std::find(dims.begin(), dims.end(), d) != dims.end();
}

}  // namespace

std::vector<SizeSource> GatherDims(const GatherAttrs& attrs, int64_t result_rank) {
  std::vector<SizeSource> sources;
  int64_t window = 0, batch = 0;
  for (int64_t d = 0; d < result_rank; ++d) {
    if (NamesDim(attrs.offset_dims, d)) {
      while (NamesDim(attrs.collapsed_slice_dims, window) ||
             NamesDim(attrs.operand_batching_dims, window)) {
        ++window;
      }
      sources.push_back({0, window++});
    } else {
      if (batch == attrs.index_vector_dim) ++batch;
      sources.push_back({1, batch++});
    }
  }
  return sources;
}

std::vector<SizeSource> GatherSizes(const Instruction& gather) {
  const auto& attrs = gather.attrs<GatherAttrs>();
  const Shape &from = gather.operand(0)->shape(), &to = gather.shape();
  std::vector<SizeSource> sources = GatherDims(attrs, to.rank());
  for (int64_t d = 0; d < to.rank(); ++d) {
    SizeSource& source = sources[static_cast<size_t>(d)];
    if (source.operand != 0) continue;
    bool is_place = from.dim(source.dim) == 1 && NamesDim(attrs.start_index_map, source.dim);
    if (is_place || to.dim(d) != from.dim(source.dim)) source.operand = -1;
  }
  return sources;
}

}  // namespace weft::hlo
