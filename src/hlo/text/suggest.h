// "did you mean": the nearest of some names.
#pragma once

#include <span>
#include <string_view>

namespace weft::hlo::text {

// The name that differs from `word` by the fewest letters; empty when all differ by more than a
// third.
std::string_view Nearest(std::string_view word, std::span<const std::string_view> names);

}  // namespace weft::hlo::text
