// Products as kernels of their own, and when the library is called instead.
#pragma once

#include <span>
#include <vector>

#include "compiler/lower/table.h"
#include "program/work_bounds.h"

namespace weft::compiler {

// Products below this many multiplications are loops of their own kernel.
inline constexpr int64_t kInlineDot = 16'384;
// One product of so few is better off with scalars and rows that stay in registers.
inline constexpr int64_t kStraightProducts = 4 * program::CodeBounds::kStraight;  // multiplications
// Elements of a row that accumulators hold.
inline constexpr int64_t kFewDotColumns = program::CodeBounds::kWrittenOut;
// One product of a batch up to so many multiplications stays in the first-level cache, where blocks
// in registers get through it before a call has packed its operands.
inline constexpr int64_t kBlockedProducts = 4 * kInlineDot;
// Whether a call of the library would cost more than the product, or cannot be had.
bool IsInlineDot(const LowerContext& cx, const hlo::Instruction& dot, const DotSizes& sizes);
// The attribute `precision` of a gemm or convolution on targets whose matrix units may take less
// than f32 (program/library.h): what the program asks for by precision and algorithm.
void AddPrecision(const LowerContext& cx, const hlo::Instruction& product,
                  std::span<const hlo::Precision> precision, hlo::DotAlgorithm algorithm,
                  std::vector<program::Attr>& list);
// Operands and result are computed in f32, or all in f64.
bool IsComputedInOneFloat(const hlo::Instruction& dot);
// Whether its rows fill vectors, each product of the batch a kernel's work (row_dot.cc).
bool IsInRegisterBlocks(const LowerContext& cx, const hlo::Instruction& dot, const DotSizes& sizes);

}  // namespace weft::compiler
