// Elementwise arithmetic on blocks of elements. Every dtype is computed in one of seven lane types:
// small floats in f32, integers of less than 32 bits in int64, the rest as they are (unsigned ones
// bit-cast, pred as bytes). A kernel leaves the rounding to the result's dtype to StoreLanes or
// RoundLanes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "base/error.h"
#include "hlo/attrs.h"
#include "hlo/op.h"

namespace weft::hlo {

enum class Lane : uint8_t { kF32, kF64, kPred, kI32, kI64, kC64, kC128 };
inline constexpr int64_t kBlockLanes = 1024;  // lanes that kernels are run on at a time, at most
inline constexpr int64_t kMaxLaneBytes = 16;

constexpr Lane LaneOf(DType t) {
  switch (Class(t)) {
    case DTypeClass::kFloat: return t == DType::kF64 ? Lane::kF64 : Lane::kF32;
    case DTypeClass::kComplex: return t == DType::kC64 ? Lane::kC64 : Lane::kC128;
    case DTypeClass::kPred: return Lane::kPred;
    default: return t == DType::kS32 || t == DType::kU32 ? Lane::kI32 : Lane::kI64;
  }
}
constexpr int64_t LaneBytes(Lane lane) {
  switch (lane) {
    case Lane::kPred: return 1;
    case Lane::kF32:
    case Lane::kI32: return 4;
    case Lane::kC128: return 16;
    default: return 8;
  }
}
// Whether elements are stored as their lanes are.
constexpr bool IsStoredAsLane(DType t) {
  return ByteWidth(t) == LaneBytes(LaneOf(t));
}

// A block of lanes on the stack.
struct alignas(64) LaneBlock {
  std::byte bytes[kBlockLanes * kMaxLaneBytes];
};

// n <= kBlockLanes elements in storage form to lanes, and back with one rounding. Float types may
// go to and come from either float lane.
void LoadLanes(DType from, const std::byte* src, int64_t n, Lane lane, void* dst);
void StoreLanes(Lane lane, const void* src, int64_t n, DType to, std::byte* dst);
// As if the lanes were stored as `dtype` and loaded again.
void RoundLanes(DType dtype, Lane lane, void* lanes, int64_t n);
// One element in storage form to n equal lanes.
void FillLanes(DType from, const std::byte* element, int64_t n, Lane lane, void* dst);

struct LaneArgs {
  const void* in[3];
  void* out;
  int64_t n;
  DType in_type;  // of the (last) operand; floats: the most precise one
  DType out_type;
  const Attrs* attrs;
  bool uniform[3] = {};  // the operand is the same in all lanes
};
using LaneKernel = void (*)(const LaneArgs&);

// How to compute an elementwise op: the kernel and the lanes that it takes and gives.
struct LaneOp {
  LaneKernel kernel = nullptr;
  Lane in[3] = {};
  Lane out = Lane::kF32;
  DType in_type = DType::kInvalid;
};
// Unimplemented when the op has no meaning for these types.
Result<LaneOp> FindLaneOp(Op op, const Attrs& attrs, std::span<const DType> operands, DType result);

// An operand of a lane op over whole arrays: as many elements as the result has, or one.
struct LaneOperand {
  const std::byte* data = nullptr;
  DType dtype = DType::kInvalid;
  bool broadcast = false;
};
// n elements of `out` = op(operands), by several threads when there are many. `out` may be the
// memory of an operand of the same element width that is not broadcast.
void RunLaneOp(const LaneOp& op, const Attrs& attrs, std::span<const LaneOperand> operands,
               DType out_type, std::byte* out, int64_t n);

// The parts of FindLaneOp by lane type; null when there is no such kernel.
LaneKernel FindFloatKernel(Op op, Lane lane);
LaneKernel FindIntegerKernel(Op op, DType dtype);
LaneKernel FindComplexKernel(Op op, Lane lane);
LaneKernel FindCompareKernel(const CompareAttrs& attrs, DType dtype, Lane lane);

}  // namespace weft::hlo
