// The device functions in lib/, as text that generated code starts with.
#pragma once

#include <string_view>

namespace weft::gpu {

extern const std::string_view kNumbersText;
extern const std::string_view kHalvesText;
extern const std::string_view kFormatsText;

}  // namespace weft::gpu
