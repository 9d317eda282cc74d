// Kernels of integer lanes: s32, u32, s64 and u64 as they are, pred as bytes of 0 and 1, narrower
// integers as int64 with the value of the element, which wraps when it is stored.
#include <algorithm>
#include <bit>
#include <type_traits>

#include "hlo/evaluate/lane_loops.h"

namespace weft::hlo {
namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;

template <class T>
Unsigned<T> WidthMask(int bits) {
  return bits >= 8 * static_cast<int>(sizeof(T))
             ? static_cast<Unsigned<T>>(-1)
             : static_cast<Unsigned<T>>((Unsigned<T>{1} << bits) - 1);
}

// x as a signed integer of so many bits.
template <class T>
std::make_signed_t<T> WrapSigned(T x, int bits) {
  using U = Unsigned<T>;
  U top = U{1} << (bits - 1);
  return static_cast<std::make_signed_t<T>>(((static_cast<U>(x) & WidthMask<T>(bits)) ^ top) - top);
}

template <class T>
bool IsNegative(T x) {
  if constexpr (std::is_signed_v<T>) return x < 0;
  return false;
}

template <class T>
T PowerOf(T x, T y) {
  if (IsNegative(y)) return T{x == 1};
  Unsigned<T> base = static_cast<Unsigned<T>>(x), exponent = static_cast<Unsigned<T>>(y),
              result = 1;
  for (; exponent != 0; exponent >>= 1, base *= base) {
    if (exponent & 1) result *= base;
  }
  return static_cast<T>(result);
}

template <class T>
T DivideOf(T x, T y) {
  if (y == 0) return static_cast<T>(-1);
  if constexpr (std::is_signed_v<T>) {
    if (y == -1) return static_cast<T>(Unsigned<T>{0} - static_cast<Unsigned<T>>(x));
  }
  return x / y;
}

template <class T>
T RemainderOf(T x, T y) {
  if (y == 0) return x;
  if constexpr (std::is_signed_v<T>) {
    if (y == -1) return 0;
  }
  return x % y;
}

// A shift of `bits` or more, or a negative one.
template <class T>
bool IsFullShift(T amount, int bits) {
  return static_cast<Unsigned<T>>(amount) >= static_cast<Unsigned<T>>(bits);
}

template <class T>
T ShiftLeftOf(T x, T y, int bits) {
  return IsFullShift(y, bits) ? 0 : static_cast<T>(static_cast<Unsigned<T>>(x) << y);
}
template <class T>
T ShiftLogicalOf(T x, T y, int bits) {
  return IsFullShift(y, bits)
             ? 0
             : static_cast<T>((static_cast<Unsigned<T>>(x) & WidthMask<T>(bits)) >> y);
}
template <class T>
T ShiftArithmeticOf(T x, T y, int bits) {
  return static_cast<T>(WrapSigned(x, bits) >> (IsFullShift(y, bits) ? T(bits - 1) : y));
}
template <class T>
T MulhiOf(T x, T y, int bits) {
  using Wide =
      std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                         std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>>;
  return static_cast<T>((static_cast<Wide>(x) * static_cast<Wide>(y)) >> bits);
}
template <class T>
T LeadingZerosOf(T x, int bits) {
  return static_cast<T>(
      std::countl_zero(static_cast<Unsigned<T>>(static_cast<Unsigned<T>>(x) & WidthMask<T>(bits))) -
      (8 * static_cast<int>(sizeof(T)) - bits));
}
template <class T>
T OneBitsOf(T x, int bits) {
  return static_cast<T>(
      std::popcount(static_cast<Unsigned<T>>(static_cast<Unsigned<T>>(x) & WidthMask<T>(bits))));
}

template <class T, bool narrow>
LaneKernel IntegerUnaryKernel(Op op) {
  using U = Unsigned<T>;
  switch (op) {
    case Op::kAbs:
      return Lanes1<T, T, [](T x) {
        return IsNegative(x) ? static_cast<T>(U{0} - static_cast<U>(x)) : x;
      }>;
    case Op::kNegate:
      return Lanes1<T, T, [](T x) { return static_cast<T>(U{0} - static_cast<U>(x)); }>;
    case Op::kNot: return Lanes1<T, T, [](T x) { return static_cast<T>(~x); }>;
    case Op::kSign:
      return Lanes1<T, T, [](T x) { return static_cast<T>((x > 0) - IsNegative(x)); }>;
    case Op::kCountLeadingZeros: return WidthLanes1<T, narrow, LeadingZerosOf<T>>;
    case Op::kPopulationCount: return WidthLanes1<T, narrow, OneBitsOf<T>>;
    default: return nullptr;
  }
}

template <class T, bool narrow>
LaneKernel IntegerKernel(Op op) {
  using U = Unsigned<T>;
  switch (op) {
    case Op::kAdd:
      return Lanes2<T, T,
                    [](T x, T y) { return static_cast<T>(static_cast<U>(x) + static_cast<U>(y)); }>;
    case Op::kSubtract:
      return Lanes2<T, T,
                    [](T x, T y) { return static_cast<T>(static_cast<U>(x) - static_cast<U>(y)); }>;
    case Op::kMultiply:
      return Lanes2<T, T,
                    [](T x, T y) { return static_cast<T>(static_cast<U>(x) * static_cast<U>(y)); }>;
    case Op::kAnd: return Lanes2<T, T, [](T x, T y) { return static_cast<T>(x & y); }>;
    case Op::kOr: return Lanes2<T, T, [](T x, T y) { return static_cast<T>(x | y); }>;
    case Op::kXor: return Lanes2<T, T, [](T x, T y) { return static_cast<T>(x ^ y); }>;
    case Op::kShiftLeft: return WidthLanes2<T, narrow, ShiftLeftOf<T>>;
    case Op::kShiftRightLogical: return WidthLanes2<T, narrow, ShiftLogicalOf<T>>;
    case Op::kShiftRightArithmetic: return WidthLanes2<T, narrow, ShiftArithmeticOf<T>>;
    case Op::kMulhi: return WidthLanes2<T, narrow, MulhiOf<T>>;
    case Op::kPower: return Lanes2<T, T, PowerOf<T>>;
    case Op::kMaximum: return Lanes2<T, T, [](T x, T y) { return x < y ? y : x; }>;
    case Op::kMinimum: return Lanes2<T, T, [](T x, T y) { return y < x ? y : x; }>;
    case Op::kDivide: return Lanes2<T, T, DivideOf<T>>;
    case Op::kRemainder: return Lanes2<T, T, RemainderOf<T>>;
    case Op::kClamp:
      return Lanes3<T, T, [](T low, T x, T high) {
        T y = x < low ? low : x;
        return high < y ? high : y;
      }>;
    default: return IntegerUnaryKernel<T, narrow>(op);
  }
}

LaneKernel PredKernel(Op op) {
  using B = uint8_t;
  switch (op) {
    case Op::kNot: return Lanes1<B, B, [](B x) -> B { return x == 0; }>;
    case Op::kSubtract: return Lanes2<B, B, [](B x, B y) -> B { return x != y; }>;
    case Op::kAdd: return Lanes2<B, B, [](B x, B y) -> B { return x | y; }>;
    case Op::kMultiply: return Lanes2<B, B, [](B x, B y) -> B { return x & y; }>;
    case Op::kAnd:
    case Op::kOr:
    case Op::kXor:
    case Op::kMaximum:
    case Op::kMinimum:
    case Op::kClamp: return IntegerKernel<B, false>(op);
    default: return nullptr;
  }
}

}  // namespace

LaneKernel FindIntegerKernel(Op op, DType dtype) {
  switch (dtype) {
    case DType::kPred: return PredKernel(op);
    case DType::kS32: return IntegerKernel<int32_t, false>(op);
    case DType::kU32: return IntegerKernel<uint32_t, false>(op);
    case DType::kS64: return IntegerKernel<int64_t, false>(op);
    case DType::kU64: return IntegerKernel<uint64_t, false>(op);
    default: return IntegerKernel<int64_t, true>(op);
  }
}

}  // namespace weft::hlo
