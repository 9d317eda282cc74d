// IEEE 754's minimum and maximum: NaN when either is NaN, and -0 is less than +0.
#pragma once

#include <cmath>

namespace weft {

template <class T>
T Minimum(T a, T b) {
  if (a != a || b != b) return a + b;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

template <class T>
T Maximum(T a, T b) {
  if (a != a || b != b) return a + b;
  if (a == b) return std::signbit(a) ? b : a;
  return a < b ? b : a;
}

}  // namespace weft
