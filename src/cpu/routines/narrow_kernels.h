// GEMM micro-kernels for narrow elements (bf16, int8): instructions that add the dot product of
// several neighbours to each accumulator of 32 bits. Operands are packed in the order that these
// want (VNNI layout): `group` consecutive elements of a vector lie together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/dtype.h"

namespace weft::cpu {

// What a packed element is.
enum class NarrowElement : uint8_t {
  kBf16,
  kInt8,      // as they are; the instruction knows their signs
  kUnsigned,  // left u8, right s8, whatever they were: sums are corrected by those of the operands
  kInt16,     // int8, widened
};

struct NarrowKernel {
  std::string_view name;
  NarrowElement element;
  bool a_signed, b_signed;  // of int8 that are packed as they are
  int rows, cols;           // of a tile
  int a_group, b_group;     // elements of a vector that lie together
  int step;                 // k is a multiple of it; the rest is zero
  double speed;             // multiplications a nanosecond, about

  // A panel of k elements of each vector is [k / group][vectors][group]. With kUnsigned an s32 for
  // each vector stands before it: what is added to every sum of that row, or column.
  // c is rows x cols of 32 bits, f32 or s32, ldc elements apart: c = sum, or c += sum.
  void (*run)(int64_t k, const std::byte* a, const std::byte* b, std::byte* c, int64_t ldc,
              bool adds);
  // What a thread does before and after; null: nothing. AMX: tile configuration.
  void (*enter)();
  void (*leave)();
  bool (*is_there)();  // on this processor
  // c = sum with rows of a as they lie, a_row bytes apart, for k a multiple of `step` unless
  // `any_depth`; null: none. Where corrects() both are s8.
  void (*run_rows)(int64_t k, const std::byte* a, int64_t a_row, const std::byte* b, std::byte* c,
                   int64_t ldc) = nullptr;
  bool any_depth = false;

  int element_bytes() const {
    return element == NarrowElement::kBf16 || element == NarrowElement::kInt16 ? 2 : 1;
  }
  bool corrects() const { return element == NarrowElement::kUnsigned; }
};

// Few rows by a matrix b that is read once, where it lies. Rows of a come as panels of the kernel,
// filled up with zeroes to `depth` elements. Sums are squares of 2 x 2, as instructions leave them:
// [columns / cols][pairs of rows][cols / 2][2][2], rows of a first unless `turned`.
struct NarrowRows {
  int depth;  // elements of the contraction at once
  int cols;   // columns at once
  bool turned;
  // Sums of a multiple of cols columns grow by `depth` rows of b; those that come next lie so many
  // bytes ahead.
  void (*by_rows)(int64_t pairs, int64_t columns, const std::byte* a, const std::byte* const* rows,
                  int64_t ahead, std::byte* sums);
  // Sums of cols columns grow by k consecutive elements of each, a multiple of depth.
  void (*by_columns)(int64_t pairs, int64_t k, const std::byte* a, const std::byte* const* columns,
                     std::byte* sums);
};
// For a kernel that takes these types on this processor; null: it has none.
const NarrowRows* FindNarrowRows(const NarrowKernel& kernel, DType a, DType b);

// All that this program has, the best ones first.
std::span<const NarrowKernel> NarrowKernels();

// For operands of these types on this processor, and for so many rows; null: none.
const NarrowKernel* FindNarrowKernel(DType a, DType b);
const NarrowKernel* FindNarrowKernel(DType a, DType b, int64_t rows);

// Vectors of elements in memory: element p of vector i is at i * vector_stride + p * k_stride.
struct NarrowSource {
  DType dtype;
  const std::byte* data;
  int64_t vector_stride, k_stride;
};

// Elements k0 to k0 + kn of vectors first to first + count, as panels that are `panel` bytes apart;
// zero beyond. `other`: the type of the other operand.
void PackNarrow(const NarrowKernel& kernel, bool is_left, const NarrowSource& source, DType other,
                int64_t first, int64_t count, int64_t k0, int64_t kn, int64_t panel,
                std::byte* out);

// What corrects() asks for, of a panel of k elements that was packed elsewhere.
void CorrectNarrow(const NarrowKernel& kernel, bool is_left, DType dtype, DType other, int64_t k,
                   std::byte* panel);

// Of such a panel: k rounded up, with what stands before it.
int64_t NarrowHead(const NarrowKernel& kernel, bool is_left);
int64_t NarrowPanelBytes(const NarrowKernel& kernel, bool is_left, int64_t k);

namespace detail {
// The kernels of amx_kernels.cc.
std::span<const NarrowKernel> AmxKernels();
// The kernels of mmla_kernels.cc.
std::span<const NarrowKernel> MmlaKernels();
// Those of mmla_rows.cc.
const NarrowRows* MmlaRows(DType a, DType b);
}  // namespace detail

}  // namespace weft::cpu
