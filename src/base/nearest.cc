#include "base/nearest.h"

#include <algorithm>
#include <vector>

#include "base/str.h"

namespace weft {
namespace {

constexpr size_t kLongestWord = 256;  // the distance takes the product of the lengths

}  // namespace

int EditDistance(std::string_view a, std::string_view b) {
  // Rows of the table of distances between prefixes: two above the current one, one above, current.
  std::vector<int> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    before.swap(above);
    above.swap(row);
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

std::string_view Nearest(std::string_view word, std::span<const std::string_view> known) {
  std::string_view best;
  if (word.size() > kLongestWord) return best;
  int least = std::max<int>(1, static_cast<int>(word.size()) / 3) + 1;
  for (std::string_view name : known) {
    if (int distance = EditDistance(word, name); distance < least) {
      least = distance;
      best = name;
    }
  }
  return best;
}

std::string DidYouMean(std::string_view word, std::span<const std::string_view> known) {
  std::string_view nearest = Nearest(word, known);
  return nearest.empty() ? "" : StrCat("; did you mean `", nearest, "`?");
}

}  // namespace weft
