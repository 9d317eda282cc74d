// Numbers of few bits, each times the scale of its block: runs of them as bf16 or f32, on the way
// to packed panels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace weft::cpu {

// A bf16, in memory.
using Bf16Bits = uint16_t;

// Vectors (rows of a, columns of b) of k numbers, and their scales.
struct ScaledNumbers {
  DType dtype;
  bool packed;  // less than a byte each, without gaps
  const std::byte* data;
  int64_t first;                    // number of the first one
  int64_t vector_stride, k_stride;  // in numbers; one of them is 1

  DType scale_type = DType::kInvalid;
  const std::byte* scales = nullptr;  // null: there are none
  int64_t scale_vector_stride = 0, scale_k_stride = 0;
  int64_t vector_block = 1, k_block = 1;  // numbers that a scale covers
  bool is_one_block = false;              // all of them
};

// Numbers k0 to k0 + n of a vector, where k_stride is 1. T: Bf16Bits or float.
template <class T>
void ReadAlong(const ScaledNumbers& numbers, int64_t vector, int64_t k0, int64_t n, T* out);
// The dot product of x and the first k numbers of a vector, without a copy of these; TakesDots:
// whether it is there for them, on this processor.
bool TakesDots(const ScaledNumbers& numbers, int64_t k);
float DotAlong(const ScaledNumbers& numbers, int64_t vector, int64_t k, const float* x);
// As ReadAlong, as words of four bf16, `stride` words apart; zeroes behind the last number.
void ReadWords(const ScaledNumbers& numbers, int64_t vector, int64_t k0, int64_t n, uint64_t* out,
               int64_t stride);
// Numbers p0 to p0 + rows of vectors first to first + n, where vector_stride is 1: a row for each
// p, `row_stride` apart.
template <class T>
void ReadAcross(const ScaledNumbers& numbers, int64_t first, int64_t n, int64_t p0, int64_t rows,
                T* out, int64_t row_stride);

}  // namespace weft::cpu
