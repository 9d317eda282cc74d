// The value types that attributes are made of (windows, dimension labels, padding, enums ...). Each
// has one reader and one printer (text/*_attr_values.cc), found through FieldType (field.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/shape.h"

namespace weft::hlo {

struct WindowDim {
  int64_t size = 1, stride = 1, pad_low = 0, pad_high = 0, base_dilation = 1, window_dilation = 1;
  bool reversal = false;
  bool operator==(const WindowDim&) const = default;
};
struct Window {  // {size=3x3 stride=2x2 pad=0_0x1_1 lhs_dilate=1x1 rhs_dilate=1x1 rhs_reversal=0x0}
  std::vector<WindowDim> dims;
  bool operator==(const Window&) const = default;
};

// dim_labels=b01f_01io->b01f. Labels `?` (unused dimensions) are not numbered.
struct ConvDims {
  int64_t input_batch = 0, input_feature = 0, kernel_input = 0, kernel_output = 0, output_batch = 0,
          output_feature = 0;
  std::vector<int64_t> input_spatial, kernel_spatial, output_spatial;
  int64_t input_rank = 0, kernel_rank = 0, output_rank = 0;  // number of labels, `?` included
  bool operator==(const ConvDims&) const = default;
};

struct PaddingDim {
  int64_t low = 0, high = 0, interior = 0;
  bool operator==(const PaddingDim&) const = default;
};
using Padding = std::vector<PaddingDim>;  // 0_0x1_1_2

struct SliceDim {
  int64_t start = 0, limit = 0, stride = 1;
  bool operator==(const SliceDim&) const = default;
};
using SliceDims = std::vector<SliceDim>;  // {[0:4], [1:9:2]}

using IntPairs = std::vector<std::pair<int64_t, int64_t>>;  // {{0,1},{1,2}}

// output_to_operand_aliasing={{0}: (1, {}), ...}
struct OperandAlias {
  ShapeIndex output;
  int64_t operand = 0;
  ShapeIndex operand_index;
  bool operator==(const OperandAlias&) const = default;
};
using OperandAliases = std::vector<OperandAlias>;

struct ResultAccuracy {  // {mode=highest} or {tolerance={atol=0,rtol=0.4,ulps=0}}
  enum class Mode : uint8_t { kDefault, kHighest, kTolerance };
  Mode mode = Mode::kDefault;
  double atol = 0, rtol = 0;
  int64_t ulps = 0;
  bool operator==(const ResultAccuracy&) const = default;
};

struct TensorSparsity {
  int64_t num_non_zero = 0, block_size = 0, dimension = 0, stride = 0, index_operand = 0;
  bool operator==(const TensorSparsity&) const = default;
};
struct SparsityConfig {
  std::optional<TensorSparsity> lhs, rhs;
  bool operator==(const SparsityConfig&) const = default;
};

// Enums, with their text in order. `Names(E)` is found by argument-dependent lookup.
#define WEFT_ENUM(E, names...)                            \
  inline std::span<const std::string_view> Names(E) {     \
    static constexpr std::string_view kNames[] = {names}; \
    return kNames;                                        \
  }                                                       \
  inline std::string_view Name(E e) {                     \
    return Names(e)[static_cast<size_t>(e)];              \
  }

enum class Direction : uint8_t { kEq, kNe, kGe, kGt, kLe, kLt };
WEFT_ENUM(Direction, "EQ", "NE", "GE", "GT", "LE", "LT")
// What b compares with a as, where a compares with b as d.
inline Direction Swapped(Direction d) {
  switch (d) {
    case Direction::kGe: return Direction::kLe;
    case Direction::kGt: return Direction::kLt;
    case Direction::kLe: return Direction::kGe;
    case Direction::kLt: return Direction::kGt;
    default: return d;
  }
}
// Where a compares with b as d, exactly where not as this; without NaN.
inline Direction Negated(Direction d) {
  switch (d) {
    case Direction::kEq: return Direction::kNe;
    case Direction::kNe: return Direction::kEq;
    case Direction::kLt: return Direction::kGe;
    case Direction::kGe: return Direction::kLt;
    case Direction::kLe: return Direction::kGt;
    default: return Direction::kLe;
  }
}
enum class ComparisonType : uint8_t { kUnset, kFloat, kTotalOrder, kSigned, kUnsigned };
WEFT_ENUM(ComparisonType, "", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED")
enum class CompareOrder : uint8_t { kUnset, kPartial, kTotal };
WEFT_ENUM(CompareOrder, "", "PARTIAL", "TOTAL")
enum class FusionKind : uint8_t { kLoop, kInput, kOutput, kCustom };
WEFT_ENUM(FusionKind, "kLoop", "kInput", "kOutput", "kCustom")
enum class FftType : uint8_t { kFft, kIfft, kRfft, kIrfft };
WEFT_ENUM(FftType, "FFT", "IFFT", "RFFT", "IRFFT")
enum class TransposeA : uint8_t { kUnset, kNoTranspose, kTranspose, kAdjoint };
WEFT_ENUM(TransposeA, "TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")
enum class Distribution : uint8_t { kUnset, kUniform, kNormal };
WEFT_ENUM(Distribution, "rng_invalid", "rng_uniform", "rng_normal")
enum class RngAlgorithm : uint8_t { kDefault, kThreeFry, kPhilox };
WEFT_ENUM(RngAlgorithm, "rng_default", "rng_three_fry", "rng_philox")
enum class Precision : uint8_t { kDefault, kHigh, kHighest };
WEFT_ENUM(Precision, "default", "high", "highest")
enum class DotAlgorithm : uint8_t {
  kUnset,
  kAnyF8AnyF8F32,
  kAnyF8AnyF8F32FastAccum,
  kF16F16F16,
  kF16F16F32,
  kBF16BF16BF16,
  kBF16BF16F32,
  kBF16BF16F32X3,
  kBF16BF16F32X6,
  kTF32TF32F32,
  kTF32TF32F32X3,
  kF32F32F32,
  kF64F64F64,
  kBF16BF16F32X9
};
WEFT_ENUM(DotAlgorithm, "unset", "dot_any_f8_any_f8_f32", "dot_any_f8_any_f8_f32_fast_accum",
          "dot_f16_f16_f16", "dot_f16_f16_f32", "dot_bf16_bf16_bf16", "dot_bf16_bf16_f32",
          "dot_bf16_bf16_f32_x3", "dot_bf16_bf16_f32_x6", "dot_tf32_tf32_f32",
          "dot_tf32_tf32_f32_x3", "dot_f32_f32_f32", "dot_f64_f64_f64", "dot_bf16_bf16_f32_x9")
enum class ConvKind : uint8_t { kUnset, kFprop, kDgrad, kWgrad };
WEFT_ENUM(ConvKind, "unset", "fprop", "dgrad", "wgrad")
enum class CustomCallSchedule : uint8_t { kNone, kLatest, kEarliest };
WEFT_ENUM(CustomCallSchedule, "SCHEDULE_NONE", "SCHEDULE_LATEST", "SCHEDULE_EARLIEST")
enum class ApiVersion : uint8_t {
  kUnspecified,
  kOriginal,
  kStatusReturning,
  kStatusReturningUnified,
  kTypedFfi
};
WEFT_ENUM(ApiVersion, "API_VERSION_UNSPECIFIED", "API_VERSION_ORIGINAL",
          "API_VERSION_STATUS_RETURNING", "API_VERSION_STATUS_RETURNING_UNIFIED",
          "API_VERSION_TYPED_FFI")
enum class PaddingType : uint8_t { kInvalid, kValid, kSame };
WEFT_ENUM(PaddingType, "PADDING_INVALID", "PADDING_VALID", "PADDING_SAME")
enum class GroupMode : uint8_t {
  kUnset,
  kCrossReplica,
  kCrossPartition,
  kCrossReplicaAndPartition,
  kFlattenedId
};
WEFT_ENUM(GroupMode, "", "cross_replica", "cross_partition", "cross_replica_and_partition",
          "flattened_id")

}  // namespace weft::hlo
