// Windows of convolutions and reduce_window, used by more than one family of handlers.
#pragma once

#include <vector>

#include "hlo/import/to_hlo.h"

namespace weft::hlo::mlir {

// The attributes that are lists by dimension; an empty list means the default for each.
struct WindowLists {
  Ints size, stride, base_dilation, window_dilation;
  std::vector<Ints> padding;  // {low, high}
  std::vector<bool> reversal;
};
Result<Window> WindowOf(const WindowLists& lists);

// Of convolution and dynamic_conv; `padding` is {low, high} by spatial dimension.
Result<ConvolutionAttrs> ConvolutionOf(Converter& c, const Operation& op,
                                       const std::vector<Ints>& padding);
Result<std::vector<Precision>> PrecisionOf(const Operation& op);
// Of gather and dynamic_gather, but for slice_sizes.
Result<GatherAttrs> GatherOf(const Operation& op);

}  // namespace weft::hlo::mlir
