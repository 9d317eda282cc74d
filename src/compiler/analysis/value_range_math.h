// Interval arithmetic: ranges of integers, none of which wraps around unnoticed.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>

#include "compiler/analysis/value_range.h"
#include "hlo/attrs.h"

namespace weft::compiler {

using Int128 = __int128;

inline std::optional<ValueRange> FullRangeOf(DType dtype) {
  if (dtype == DType::kPred) return ValueRange{0, 1};
  if (!IsInteger(dtype) || dtype == DType::kU64) return std::nullopt;
  int bits = BitWidth(dtype);
  if (IsUnsigned(dtype)) return ValueRange{0, (int64_t{1} << bits) - 1};
  int64_t high = static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1);
  return ValueRange{-high - 1, high};
}

inline ValueRange RangeWithin(Int128 low, Int128 high, ValueRange full) {
  if (low < full.low || high > full.high) return full;
  return {static_cast<int64_t>(low), static_cast<int64_t>(high)};
}

inline ValueRange RangeUnion(ValueRange a, ValueRange b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}

// The empty range, of code that does not run, is any of the two.
inline ValueRange RangeIntersection(ValueRange a, ValueRange b) {
  ValueRange both{std::max(a.low, b.low), std::min(a.high, b.high)};
  return both.low <= both.high ? both : a;
}

inline bool RangeContains(ValueRange outer, ValueRange inner) {
  return outer.low <= inner.low && inner.high <= outer.high;
}

inline ValueRange RangeProduct(ValueRange a, ValueRange b, ValueRange full) {
  Int128 all[] = {Int128{a.low} * b.low, Int128{a.low} * b.high, Int128{a.high} * b.low,
                  Int128{a.high} * b.high};
  return RangeWithin(*std::min_element(all, all + 4), *std::max_element(all, all + 4), full);
}

// What x is, where `x direction y`.
inline ValueRange RangeWhere(hlo::Direction direction, ValueRange y, ValueRange x) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  switch (direction) {
    case hlo::Direction::kLt:
      return {x.low, y.high == kMin ? x.high : std::min(x.high, y.high - 1)};
    case hlo::Direction::kLe: return {x.low, std::min(x.high, y.high)};
    case hlo::Direction::kGt: return {y.low == kMax ? x.low : std::max(x.low, y.low + 1), x.high};
    case hlo::Direction::kGe: return {std::max(x.low, y.low), x.high};
    case hlo::Direction::kEq: return RangeIntersection(x, y);
    default: {
      if (y.low != y.high || x.low == x.high) return x;
      return {x.low == y.low ? x.low + 1 : x.low, x.high == y.low ? x.high - 1 : x.high};
    }
  }
}

inline std::optional<bool> DecideByRanges(hlo::Direction direction, ValueRange x, ValueRange y) {
  bool apart = x.high < y.low || y.high < x.low;
  bool equal = x.low == x.high && x == y;
  switch (direction) {
    case hlo::Direction::kLt:
      return x.high < y.low    ? std::optional(true)
             : x.low >= y.high ? std::optional(false)
                               : std::nullopt;
    case hlo::Direction::kLe:
      return x.high <= y.low  ? std::optional(true)
             : x.low > y.high ? std::optional(false)
                              : std::nullopt;
    case hlo::Direction::kGt: return DecideByRanges(hlo::Direction::kLt, y, x);
    case hlo::Direction::kGe: return DecideByRanges(hlo::Direction::kLe, y, x);
    case hlo::Direction::kEq:
      return equal ? std::optional(true) : apart ? std::optional(false) : std::nullopt;
    default: return equal ? std::optional(false) : apart ? std::optional(true) : std::nullopt;
  }
}

// 2^n - 1, at least x.
inline int64_t AllBitsUpTo(int64_t x) {
  int64_t mask = 0;
  while (mask < x) mask = mask * 2 + 1;
  return mask;
}

}  // namespace weft::compiler
