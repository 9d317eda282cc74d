#include "client/donation.h"

#include <algorithm>
#include <utility>

namespace weft::client {
namespace {

constexpr size_t kFewArguments = 32;  // compared one by one

}  // namespace

// Sorted when there are many.
int64_t FirstDuplicateOfDonated(std::span<const ArrayRef> arrays, const std::vector<bool>& donated,
                                int64_t* earlier) {
  auto is_donated = [&](size_t i) { return donated[i]; };
  if (arrays.size() <= kFewArguments) {
    for (size_t i = 0; i < arrays.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (arrays[i] == arrays[j] && (is_donated(i) || is_donated(j))) {
          *earlier = static_cast<int64_t>(j);
          return static_cast<int64_t>(i);
        }
      }
    }
    return -1;
  }
  std::vector<size_t> order(arrays.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(arrays[a].get(), a) < std::pair(arrays[b].get(), b);
  });
  for (size_t k = 1; k < order.size(); ++k) {
    if (arrays[order[k]] != arrays[order[k - 1]]) continue;
    size_t first = k - 1;
    bool any = is_donated(order[first]);
    for (; k < order.size() && arrays[order[k]] == arrays[order[first]]; ++k) {
      any |= is_donated(order[k]);
      if (any) {
        *earlier = static_cast<int64_t>(order[first]);
        return static_cast<int64_t>(order[k]);
      }
    }
    --k;
  }
  return -1;
}

}  // namespace weft::client
