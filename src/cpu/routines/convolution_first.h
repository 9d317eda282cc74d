// Convolutions of f32, or of narrow floats as f32, whose features stand before places (NCHW): input
// and result are transposed around a convolution with features last, whose windows are read where
// they lie.
#pragma once

#include "cpu/routines/epilogue.h"
#include "program/library.h"

namespace weft::cpu {

// Whether transposing costs less than packing windows of such arrays.
bool IsWorthTransposing(const program::ConvolutionForm& form);
// The same convolution with features last in input and result.
program::ConvolutionForm FeaturesLast(const program::ConvolutionForm& form);

// `inner`: the routine of FeaturesLast(form), of input and result in f32, whatever their `type` is.
std::unique_ptr<PreparedRoutine> PrepareTransposed(const program::ConvolutionForm& form, DType type,
                                                   std::unique_ptr<PreparedRoutine> inner,
                                                   const Epilogue& epilogue);

// `count` matrices of f32, one behind the other.
void TransposeMatrices(ThreadPool* pool, const float* from, int64_t count, int64_t rows,
                       int64_t columns, float* to);

}  // namespace weft::cpu
