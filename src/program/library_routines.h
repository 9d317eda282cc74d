// The routines of library.h by file, and what they share.
#pragma once

#include <initializer_list>
#include <string_view>

#include "program/library.h"

namespace weft::program {

Routine AttentionGradientRoutine();
Routine AttentionRoutine();
Routine CholeskyRoutine();
Routine LuRoutine();
Routine ConvolutionRoutine();
Routine FftRoutine();
Routine GemmRoutine();
Routine HouseholderProductRoutine();
Routine HouseholderQrRoutine();
Routine RngBitGeneratorRoutine();
Routine RngRoutine();
Routine ScaledGemmRoutine();
Routine SortRoutine();
Routine TopKRoutine();
Routine TriangularSolveRoutine();

DType DTypeOf(const Program& program, const Use& use);
const Kernel* FindKernel(const Program& program, std::string_view name);  // null: none
// -1 when one of them is negative or the product overflows.
int64_t Product(std::initializer_list<int64_t> factors);
// INT64_MAX when it overflows; factors below 1 count as 1.
int64_t SaturatingCost(std::initializer_list<int64_t> factors);
// The slice has that many elements of its buffer's type.
Status CheckElements(const Program& program, const Use& use, int64_t elements,
                     std::string_view routine, std::string_view name);
// `form`: the same in words, for the error.
Status CheckAccess(const Step& step, std::initializer_list<Access> accesses,
                   std::string_view routine, std::string_view form);

// library_epilogue.cc. The uses behind the third are those of an epilogue.
Status VerifyEpilogue(const Program& program, const Step& step, std::string_view routine);
Status InterpretEpilogue(const Program& program, const Step& step,
                         std::span<const std::span<std::byte>> memory);
int64_t EpilogueCost(const Program& program, const Step& step);

}  // namespace weft::program
