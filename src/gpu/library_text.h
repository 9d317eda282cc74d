// The device functions in lib/, as text that generated code starts with, and the kernels of
// routines.
#pragma once

#include <string_view>

namespace weft::gpu {

extern const std::string_view kNumbersText;
extern const std::string_view kHalvesText;
extern const std::string_view kFormatsText;
extern const std::string_view kMatrixText;
// kernels/, for routines.
extern const std::string_view kElementsText;
extern const std::string_view kFftText;
extern const std::string_view kGemmText;
extern const std::string_view kGemmEpilogueText;
extern const std::string_view kGemmThinText;
extern const std::string_view kSortText;
extern const std::string_view kPermuteText;
extern const std::string_view kRandomText;
extern const std::string_view kLinalgText;
extern const std::string_view kConvolutionText;

}  // namespace weft::gpu
