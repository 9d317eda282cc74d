// What becomes of subnormal numbers in the arithmetic of a thread. IEEE keeps them; many programs
// want them to count as zero, since x86 takes a hundred times as long over them.
#pragma once

#include <cstdint>

namespace weft {

// While one lives, float and double arithmetic of this thread takes subnormal operands as zeros and
// gives zeros for subnormal results (`flush`), or keeps them. Moving bits about, negation and
// absolute values leave them as they are.
class FloatMode {
 public:
  explicit FloatMode(bool flush);
  ~FloatMode();
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;

  // Whether this thread takes subnormal numbers as zeros now.
  static bool Flushes();

 private:
  uint64_t before_ = 0;
  bool changed_ = false;
};

}  // namespace weft
