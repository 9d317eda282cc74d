// One matrix product of gemm and the ways that take its right side as it lies in memory. T: float,
// double, uint32_t, uint64_t, what sums are kept in.
#pragma once

#include "cpu/routines/multiply.h"
#include "cpu/routines/tiles.h"
#include "program/sum_order.h"
#include "program/target_facts.h"

namespace weft::cpu {

inline constexpr int64_t kDotRows =
    program::TargetFacts::kVectorRegisters / 2;  // dot products at once
// Rows of a that one reading of b serves by squares of dot products, at most.
inline constexpr int64_t kMostDotRows = 2 * kDotRows;
// Rows of a that one reading of b serves.
inline constexpr int64_t kStreamRows = program::TargetFacts::kVectorRegisters / 2;
// Of b at once: sums stay in L1.
inline constexpr int64_t kStreamCols =
    program::TargetFacts::kFirstLevelBytes / kStreamRows / sizeof(float);
// Rows of b, four of which are one addition to a sum.
inline constexpr int64_t kStreamRun = program::SumOrder::kPairs * program::SumOrder::kRun;

inline int64_t CeilDivide(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

struct ScaledNumbers;  // scaled_runs.h

// Elements from one row of op(x) to the next, and from one column to the next.
struct OperandStrides {
  int64_t row, col;
};

// One matrix product, whatever its place in the batch.
struct OneProduct {
  int64_t m, n, k;
  const std::byte *a, *b;
  std::byte* c;  // rows n apart
  OperandStrides as, bs;
  DType a_type, b_type, c_type;
  double alpha, beta;
  bool more = false;  // operands of another one follow in memory
  // What b is, for MultiplyStream of floats: rows are scaled as they are read. Null: as it lies.
  const ScaledNumbers* scaled_b = nullptr;
};

template <class T>
T FactorOf(double x) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<int64_t>(x));
  return static_cast<T>(x);
}

// A matrix by a vector is the same as the vector by the matrix.
OneProduct VectorFirst(OneProduct s);

// What MultiplyOne takes beside the operands, in bytes.
template <class T>
int64_t ScratchOfOne(OneProduct s, int64_t threads);
template <class T>
Status MultiplyOne(const Means& means, OneProduct s, const RowsDone& done);

// Of complex elements whose parts are T. gemm_complex.cc
template <class T>
int64_t ComplexScratch(const OneProduct& product, int64_t threads);
template <class T>
Status MultiplyComplex(const Means& means, const OneProduct& product, const RowsDone& done);

// gemm_tall.cc

// Whether it is many rows, which are consecutive, by few columns; no depth beyond kLongSum, of f32
// much less.
template <class T>
bool IsTall(const OneProduct& s);
template <class T>
Status MultiplyTall(const Means& means, const OneProduct& s, const RowsDone& done);
template <class T>
int64_t TallScratch(const OneProduct& s);

// gemm_gram.cc

// Whether both sides lie across the contraction, which is long, and the result is small: Gram
// matrices and their like.
template <class T>
bool IsGram(const OneProduct& s);
template <class T>
Status MultiplyGram(const Means& means, const OneProduct& s, const RowsDone& done);
template <class T>
int64_t GramScratch(const OneProduct& s);

// gemm_unpacked.cc and gemm_stream.cc

// A vector times rows of k elements: one row, b transposed.
template <class T>
Status MultiplyDots(const Means& means, const OneProduct& s);
// Few rows by a matrix whose columns are consecutive: squares of dot products, some columns at a
// time, so that rows of a come from L1 and columns from memory once.
template <class T>
Status MultiplySquares(const Means& means, const OneProduct& s);
// A few rows times a matrix that is read once, row by row; its scratch in bytes.
template <class T>
Status MultiplyStream(const Means& means, const OneProduct& s);
template <class T>
int64_t StreamScratch(const OneProduct& s);
// Whether it reads rows of b as they are, though they are of another type.
template <class T>
bool TakesNarrowStream(const OneProduct& s);
// A product whose b is small: only a is packed, a few rows at a time.
template <class T>
void MultiplySmall(const Means& means, const TileKernel<T>& kernel, const OneProduct& s,
                   const RowsDone& done);
// Few rows times a matrix: a is packed, b is read where it lies, some columns of it at a time.
template <class T>
Status MultiplyFew(const Means& means, const TileKernel<T>& kernel, const OneProduct& s);

}  // namespace weft::cpu
