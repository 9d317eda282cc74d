// Transposes that only bring the operand of a product into another order: the product reads where
// the rows lay before, as matrices with a stride between rows and two levels of batch.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "program/program.h"
#include "program/target.h"

namespace weft::gpu {

// Matrices of an operand, in elements: row r of number b lies at
// b / inner_count * outer + b % inner_count * inner + r * row.
struct MatrixView {
  int64_t row = 0, inner_count = 1, inner = 0, outer = 0;
};
// As attributes a_view and b_view of a gemm: [row, inner_count, inner, outer].
std::optional<MatrixView> MatrixViewOf(const program::LibraryStep& call, std::string_view name);

// A kernel that copies: what its loops go over, the largest stride of what it writes first, without
// gaps. Nullopt: it does something else.
struct CopiedDim {
  int64_t count, in, out;
};
std::optional<std::vector<CopiedDim>> CopiedDims(const program::Kernel& kernel);
// The copy as so many matrices of rows of so many elements that lie together; nullopt: it is not.
std::optional<MatrixView> ViewOfCopy(std::vector<CopiedDim> dims, int64_t batch, int64_t rows,
                                     int64_t columns);

// The program without the copies that are only read by a gemm, where calls for each part of the
// batch take less time than the copy.
program::Program ReadThroughTransposes(program::Program program, const program::TargetInfo& target);

}  // namespace weft::gpu
