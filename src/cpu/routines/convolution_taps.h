// Convolutions of many features to few, such as the gradient by an image: one product of features
// and all taps, then every tap's part is added where it belongs (col2im). Products of windows would
// have too few columns for a micro-kernel.
#pragma once

#include "cpu/routines/epilogue.h"
#include "program/library.h"

namespace weft::cpu {

// Whether the convolution, of elements of one type, is such a one.
bool IsByTaps(const program::ConvolutionForm& form, DType dtype);

std::unique_ptr<PreparedRoutine> PrepareByTaps(program::ConvolutionForm form, DType dtype,
                                               const Epilogue& epilogue);

}  // namespace weft::cpu
