// Rows of bf16 or int8 as they lie in memory, multiplied and added to rows of sums: what few rows
// by a narrow matrix are bound by is reading it, if nothing is packed on the way.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace weft::cpu {

// Some rows of the right side, four by four, and sums that grow by them.
struct StreamStep {
  int64_t columns;  // a multiple of NarrowStream::unit
  int64_t quads;    // of rows
  const std::byte* const* rows;
  const std::byte* const* ahead;  // as many rows that come next, to be asked for; null: none
  // Of every sum and quad of rows: four f32, or four bytes. Bytes from one quad to the next.
  const std::byte* a;
  int64_t a_quad;
  std::byte* const* sums;  // where those of each row are: f32, or s32 in an order of their own
};

struct NarrowStream {
  int sums, unit, quads;  // at most, and columns
  void (*grow)(int64_t sums, const StreamStep& step);
  // Sums of a row, which are in another order, less those of the other one; null: they are in
  // order.
  void (*put_in_order)(int64_t columns, std::byte* sums, const std::byte* too_much);
};
// For a right side of that type on this processor; null: none. That of int8 takes bytes without a
// sign on the left and bytes with one on the right.
const NarrowStream* FindNarrowStream(DType right);

}  // namespace weft::cpu
