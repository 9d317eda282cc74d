#include "base/float_mode.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace weft {
namespace {

// The register that says how floats are computed, and its bits for subnormal numbers.
#if defined(__x86_64__)
constexpr uint64_t kFlushBits = (1 << 15) | (1 << 6);  // results; operands
uint64_t ReadFloatControl() {
  return _mm_getcsr();
}
void WriteFloatControl(uint64_t control) {
  _mm_setcsr(static_cast<uint32_t>(control));
}
#elif defined(__aarch64__)
constexpr uint64_t kFlushBits = 1 << 24;  // both
uint64_t ReadFloatControl() {
  uint64_t control;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  return control;
}
void WriteFloatControl(uint64_t control) {
  asm volatile("msr fpcr, %0" : : "r"(control) : "memory");
}
#else
constexpr uint64_t kFlushBits = 0;  // always kept
uint64_t ReadFloatControl() {
  return 0;
}
void WriteFloatControl(uint64_t) {}
#endif

}  // namespace

FloatMode::FloatMode(bool flush) : before_(ReadFloatControl()) {
  uint64_t wanted = flush ? before_ | kFlushBits : before_ & ~kFlushBits;
  changed_ = wanted != before_;
  if (changed_) WriteFloatControl(wanted);
}

FloatMode::~FloatMode() {
  if (changed_) WriteFloatControl(before_);
}

bool FloatMode::Flushes() {
  return kFlushBits != 0 && (ReadFloatControl() & kFlushBits) == kFlushBits;
}

}  // namespace weft
