// Kernels of integer lanes: int64 with the value of the element, u64 bit-cast. Values wrap when
// they are stored.
#include <algorithm>
#include <bit>

#include "hlo/evaluate/lane_loops.h"

namespace weft::hlo {
namespace {

using I = int64_t;
using U = uint64_t;

U WidthMask(int bits) {
  return bits >= 64 ? ~U{0} : (U{1} << bits) - 1;
}

// x as an integer of so many bits.
I WrapSigned(I x, int bits) {
  if (bits >= 64) return x;
  U top = U{1} << (bits - 1);
  return static_cast<I>(((static_cast<U>(x) & WidthMask(bits)) ^ top) - top);
}

I PowerOf(U base, U exponent) {
  U result = 1;
  for (; exponent != 0; exponent >>= 1, base *= base) {
    if (exponent & 1) result *= base;
  }
  return static_cast<I>(result);
}

template <bool is_u64>
LaneKernel DivisionKernel(Op op) {
  if (op == Op::kDivide) {
    return Lanes2<I, I, [](I x, I y) -> I {
      if (y == 0) return -1;
      if constexpr (is_u64) return static_cast<I>(static_cast<U>(x) / static_cast<U>(y));
      if (y == -1) return static_cast<I>(U{0} - static_cast<U>(x));
      return x / y;
    }>;
  }
  return Lanes2<I, I, [](I x, I y) -> I {
    if (y == 0) return x;
    if constexpr (is_u64) return static_cast<I>(static_cast<U>(x) % static_cast<U>(y));
    return y == -1 ? 0 : x % y;
  }>;
}

template <bool is_u64>
bool LessThan(I x, I y) {
  return is_u64 ? static_cast<U>(x) < static_cast<U>(y) : x < y;
}

template <bool is_u64>
LaneKernel OrderedKernel(Op op) {
  switch (op) {
    case Op::kMaximum: return Lanes2<I, I, [](I x, I y) { return LessThan<is_u64>(x, y) ? y : x; }>;
    case Op::kMinimum: return Lanes2<I, I, [](I x, I y) { return LessThan<is_u64>(y, x) ? y : x; }>;
    case Op::kClamp:
      return Lanes3<I, I, [](I low, I x, I high) {
        I y = LessThan<is_u64>(x, low) ? low : x;
        return LessThan<is_u64>(high, y) ? high : y;
      }>;
    default: return DivisionKernel<is_u64>(op);
  }
}

// Ops that look at the width of the element.
template <auto fn>
void WidthLanes1(const LaneArgs& a) {
  const I* x = static_cast<const I*>(a.in[0]);
  I* out = static_cast<I*>(a.out);
  int bits = BitWidth(a.in_type);
  for (int64_t i = 0; i < a.n; ++i) out[i] = fn(x[i], bits);
}
template <auto fn>
void WidthLanes2(const LaneArgs& a) {
  const I *x = static_cast<const I*>(a.in[0]), *y = static_cast<const I*>(a.in[1]);
  I* out = static_cast<I*>(a.out);
  int bits = BitWidth(a.in_type);
  for (int64_t i = 0; i < a.n; ++i) out[i] = fn(x[i], y[i], bits);
}

// A shift of `bits` or more, or a negative one.
bool IsFullShift(I amount, int bits) {
  return static_cast<U>(amount) >= static_cast<U>(bits);
}

I ShiftLeftOf(I x, I y, int bits) {
  return IsFullShift(y, bits) ? 0 : static_cast<I>(static_cast<U>(x) << y);
}
I ShiftLogicalOf(I x, I y, int bits) {
  return IsFullShift(y, bits) ? 0 : static_cast<I>((static_cast<U>(x) & WidthMask(bits)) >> y);
}
I ShiftArithmeticOf(I x, I y, int bits) {
  return WrapSigned(x, bits) >> (IsFullShift(y, bits) ? bits - 1 : y);
}
I MulhiSigned(I x, I y, int bits) {
  return static_cast<I>((static_cast<__int128>(x) * y) >> bits);
}
I MulhiUnsigned(I x, I y, int bits) {
  return static_cast<I>((static_cast<unsigned __int128>(static_cast<U>(x)) * static_cast<U>(y)) >>
                        bits);
}
I LeadingZerosOf(I x, int bits) {
  return std::countl_zero(static_cast<U>(x) & WidthMask(bits)) - (64 - bits);
}
I OneBitsOf(I x, int bits) {
  return std::popcount(static_cast<U>(x) & WidthMask(bits));
}

LaneKernel PredKernel(Op op) {
  switch (op) {
    case Op::kNot: return Lanes1<I, I, [](I x) -> I { return x == 0; }>;
    case Op::kAdd: return Lanes2<I, I, [](I x, I y) { return x | y; }>;
    case Op::kMultiply: return Lanes2<I, I, [](I x, I y) { return x & y; }>;
    default: return nullptr;
  }
}

}  // namespace

LaneKernel FindIntegerKernel(Op op, DType dtype) {
  if (dtype == DType::kPred) {
    if (LaneKernel kernel = PredKernel(op)) return kernel;
  }
  switch (op) {
    case Op::kAbs:
      return Lanes1<I, I, [](I x) { return x < 0 ? static_cast<I>(U{0} - static_cast<U>(x)) : x; }>;
    case Op::kNegate:
      return Lanes1<I, I, [](I x) { return static_cast<I>(U{0} - static_cast<U>(x)); }>;
    case Op::kNot: return Lanes1<I, I, [](I x) { return ~x; }>;
    case Op::kSign: return Lanes1<I, I, [](I x) -> I { return (x > 0) - (x < 0); }>;
    case Op::kCountLeadingZeros: return WidthLanes1<LeadingZerosOf>;
    case Op::kPopulationCount: return WidthLanes1<OneBitsOf>;
    case Op::kAdd:
      return Lanes2<I, I,
                    [](I x, I y) { return static_cast<I>(static_cast<U>(x) + static_cast<U>(y)); }>;
    case Op::kSubtract:
      return Lanes2<I, I,
                    [](I x, I y) { return static_cast<I>(static_cast<U>(x) - static_cast<U>(y)); }>;
    case Op::kMultiply:
      return Lanes2<I, I,
                    [](I x, I y) { return static_cast<I>(static_cast<U>(x) * static_cast<U>(y)); }>;
    case Op::kAnd: return Lanes2<I, I, [](I x, I y) { return x & y; }>;
    case Op::kOr: return Lanes2<I, I, [](I x, I y) { return x | y; }>;
    case Op::kXor: return Lanes2<I, I, [](I x, I y) { return x ^ y; }>;
    case Op::kShiftLeft: return WidthLanes2<ShiftLeftOf>;
    case Op::kShiftRightLogical: return WidthLanes2<ShiftLogicalOf>;
    case Op::kShiftRightArithmetic: return WidthLanes2<ShiftArithmeticOf>;
    case Op::kMulhi:
      return IsUnsigned(dtype) ? WidthLanes2<MulhiUnsigned> : WidthLanes2<MulhiSigned>;
    case Op::kPower:
      if (dtype == DType::kU64) {
        return Lanes2<I, I, [](I x, I y) { return PowerOf(static_cast<U>(x), static_cast<U>(y)); }>;
      }
      return Lanes2<I, I, [](I x, I y) {
        if (y < 0) return I{x == 1};
        return PowerOf(static_cast<U>(x), static_cast<U>(y));
      }>;
    case Op::kMaximum:
    case Op::kMinimum:
    case Op::kClamp:
    case Op::kDivide:
    case Op::kRemainder:
      return dtype == DType::kU64 ? OrderedKernel<true>(op) : OrderedKernel<false>(op);
    default: return nullptr;
  }
}

}  // namespace weft::hlo
