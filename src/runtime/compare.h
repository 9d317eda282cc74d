// How far two arrays of numbers are apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/dtype.h"

namespace weft::runtime {

struct Difference {
  int64_t count = 0;   // elements that differ by more than is allowed
  int64_t first = -1;  // the first of them ...
  double ulps = 0;     // ... by how many units in the last place of the wanted value
  double largest = 0;  // of the finite differences of those that differ
  std::string wanted, got;
  bool any() const { return count > 0; }
  // "element 3 is 1.5 and should be 1.25 (2097152 ULP apart), 4 of 16 differ"
  std::string ToString(int64_t elements) const;
};

// What elementary functions may be off, in units in the last place; power twice as much.
inline constexpr double kFunctionUlps = 4;

// By how much a float may differ from the wanted one, x. All 0: not at all.
struct Tolerance {
  double ulps = 0;      // units in the last place of the largest of |x| and `scale`,
  double scale = 0;     // the size of the numbers that the value was computed from; or
  double relative = 0;  // this part of the largest of |x| and 1; or
  // this much, where `ulps` is 0 or x infinite (infinite: it may overflow or not)
  double absolute = 0;
  double tiny = 0;  // below this, functions may flush or lose digits
};

// The one comparison of results. Integers and bits must be equal, floats within the tolerance; an
// infinity equals itself alone. All NaN are one value, zeros too, and so are numbers below the
// normal ones where this thread takes them as zeros (base/float_mode.h). Memory is dense, one byte
// for an element of a sub-byte type.
Difference Compare(DType dtype, std::span<const std::byte> wanted, std::span<const std::byte> got,
                   const Tolerance& tolerance);
inline Difference Compare(DType dtype, std::span<const std::byte> wanted,
                          std::span<const std::byte> got, double slack, double scale) {
  return Compare(dtype, wanted, got, Tolerance{.ulps = slack, .scale = scale});
}

// Of the floats that numbers of the type are computed with.
double SmallestNormal(DType dtype);

// The largest finite |x| of an array of floats; 0 for other types.
double LargestOf(DType dtype, std::span<const std::byte> array);

// What rounding in another order may do to a value of the type, in units in the last place.
double SlackOf(DType dtype, bool long_sums);

}  // namespace weft::runtime
