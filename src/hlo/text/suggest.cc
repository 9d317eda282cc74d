#include "hlo/text/suggest.h"

#include <algorithm>
#include <vector>

namespace weft::hlo::text {
namespace {

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t replace = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replace, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view Nearest(std::string_view word, std::span<const std::string_view> names) {
  constexpr size_t kLongest = 64;
  if (word.size() > kLongest) return "";
  std::string_view best;
  size_t best_distance = word.size() / 3 + 1;
  for (std::string_view name : names) {
    if (name.size() > kLongest) continue;
    size_t distance = EditDistance(word, name);
    if (distance < best_distance) {
      best_distance = distance;
      best = name;
    }
  }
  return best;
}

}  // namespace weft::hlo::text
