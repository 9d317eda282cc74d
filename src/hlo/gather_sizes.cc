#include "hlo/gather_sizes.h"

#include <algorithm>

namespace weft::hlo {

std::vector<SizeSource> GatherSizes(const Instruction& gather) {
  const auto& a = gather.attrs<GatherAttrs>();
  auto names = [](const auto& dims, int64_t d) {
    return std::find(dims.begin(), dims.end(), d) != dims.end();
  };
  const Shape &from = gather.operand(0)->shape(), &to = gather.shape();
  std::vector<SizeSource> sources(static_cast<size_t>(to.rank()));
  int64_t window = 0, batch = 0;
  for (int64_t d = 0; d < to.rank(); ++d) {
    SizeSource& source = sources[static_cast<size_t>(d)];
    if (!names(a.offset_dims, d)) {
      if (batch == a.index_vector_dim) ++batch;
      source = {1, batch++};
      continue;
    }
    while (names(a.collapsed_slice_dims, window) || names(a.operand_batching_dims, window)) {
      ++window;
    }
    bool is_place = from.dim(window) == 1 && names(a.start_index_map, window);
    if (to.dim(d) == from.dim(window) && !is_place) source = {0, window};
    ++window;
  }
  return sources;
}

}  // namespace weft::hlo
