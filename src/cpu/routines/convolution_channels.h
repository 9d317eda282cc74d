// Convolutions that keep channels apart (depthwise), and their gradients by weights: each channel
// of the result is made of one of the input and of the kernel. Vectors run along channels; several
// places of the last axis are summed at once, in registers.
#pragma once

#include <vector>

#include "cpu/routines/convolution_plan.h"
#include "cpu/routines/multiply.h"
#include "program/library.h"

namespace weft::cpu {

// Whether groups have one feature of the result each, and are enough for a vector.
bool KeepsChannelsApart(const program::ConvolutionForm& form);

// An array as matrices of channels by what lies within one, each of which is turned so that
// channels are neighbours.
struct ChannelTurn {
  int64_t matrices = 0, channels = 0, within = 1;

  bool Turns() const { return within > 1; }
  int64_t Elements() const { return Turns() ? matrices * channels * within : 0; }
};

class ChannelConvolution {
 public:
  explicit ChannelConvolution(program::ConvolutionForm form);

  // T: what sums are kept in.
  template <class T>
  Status Run(const Means& means, const T* input, const T* kernel, T* output) const;
  // Elements of scratch.
  int64_t ScratchElements() const;

 private:
  ChannelTurn input_, kernel_, output_;
  std::vector<ConvolutionPhase> phases_;
};

}  // namespace weft::cpu
