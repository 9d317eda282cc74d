// The word that was probably meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace weft {

// How many letters to insert, drop, replace or swap with their neighbour to make one of the other.
int EditDistance(std::string_view a, std::string_view b);

// The closest of `known`, the first among equals; empty when none is close: more than a third of
// the letters would have to change.
std::string_view Nearest(std::string_view word, std::span<const std::string_view> known);

// "; did you mean `close`?", or nothing.
std::string DidYouMean(std::string_view word, std::span<const std::string_view> known);

}  // namespace weft
