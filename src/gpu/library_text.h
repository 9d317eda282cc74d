// The device functions in lib/, as text that generated code starts with, and the kernels of
// routines.
#pragma once

#include <string_view>

namespace weft::gpu {

extern const std::string_view kNumbersText;
extern const std::string_view kHalvesText;
extern const std::string_view kFormatsText;
// kernels/, for routines.
extern const std::string_view kElementsText;
extern const std::string_view kGemmText;

}  // namespace weft::gpu
