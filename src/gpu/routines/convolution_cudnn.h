// HLO's convolution as one of the three that cuDNN has.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "gpu/libraries/cudnn.h"
#include "program/library.h"

namespace weft::gpu {

// A forward convolution y = x * w in cuDNN's terms, one of which is what the step computes.
struct DnnProblem {
  using Dims = std::vector<int64_t>;
  int operation = kDnnForward;
  Dims x, x_strides, y, y_strides;  // [batch, feature, spatial...]
  Dims w;                           // [feature of y, feature of x in a group, spatial...]
  Dims w_strides;                   // of the step's array; of groups too: see below
  Dims strides, dilations, pre, post;
  // The features of w that the library numbers through lie in groups in the step's array.
  int64_t groups = 1, group_stride = 0, per_group = 0;
  bool flipped = false;  // the step's array against the library's
  int uses[3];           // the uses that are x, w and y
};
// UNIMPLEMENTED: it is none of them.
Result<DnnProblem> DnnProblemOf(const program::ConvolutionForm& form);

}  // namespace weft::gpu
