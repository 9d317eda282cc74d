// Conversions of runs of elements on the way to and from packed panels, in the vectors of this
// processor.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::cpu {

void WidenBf16(const std::byte* src, int64_t n, float* dst);
void WidenF16(const std::byte* src, int64_t n, float* dst);
void WidenS8(const std::byte* src, int64_t n, uint32_t* dst);
void WidenU8(const std::byte* src, int64_t n, uint32_t* dst);
void WidenS8(const std::byte* src, int64_t n, float* dst);
void WidenU8(const std::byte* src, int64_t n, float* dst);
// To nearest, ties to even; quiet NaN stays NaN.
void RoundToBf16(const float* src, int64_t n, std::byte* dst);

}  // namespace weft::cpu
