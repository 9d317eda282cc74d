// The reductions that nearly all programs use (add, multiply, maximum, minimum, and, or, xor) on
// wide numbers: double for all floats, int64 for integers and pred, complex<double>. Rounding to
// the element type happens once, at the end.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>

#include "base/elements.h"
#include "base/literal.h"
#include "hlo/op.h"

namespace weft::hlo {

template <class W>
struct PlainOp {
  W identity;                                           // op(identity, x) is x
  void (*combine)(W* acc, const W* x, int64_t n);       // acc[i] = op(acc[i], x[i])
  W (*fold)(const W* x, int64_t n);                     // of n > 0 values
  void (*scan)(W* acc, const W* x, int64_t n, W* out);  // out[i] = acc = op(acc, x[i])
};

namespace plain {

template <class W, Op op, bool is_u64>
W Apply(W x, W y) {
  if constexpr (op == Op::kAdd) {
    if constexpr (std::is_same_v<W, int64_t>) {
      return static_cast<W>(static_cast<uint64_t>(x) + static_cast<uint64_t>(y));
    } else {
      return x + y;
    }
  } else if constexpr (op == Op::kMultiply) {
    if constexpr (std::is_same_v<W, int64_t>) {
      return static_cast<W>(static_cast<uint64_t>(x) * static_cast<uint64_t>(y));
    } else if constexpr (std::is_same_v<W, double>) {
      return x * y;
    } else {
      return W(x.real() * y.real() - x.imag() * y.imag(),
               x.real() * y.imag() + x.imag() * y.real());
    }
  } else if constexpr (std::is_same_v<W, double>) {
    if constexpr (op == Op::kMaximum) {
      return x > y ? x : y > x ? y : x == y ? (std::signbit(x) ? y : x) : x != x ? x : y;
    } else {
      return x < y ? x : y < x ? y : x == y ? (std::signbit(x) ? x : y) : x != x ? x : y;
    }
  } else if constexpr (op == Op::kMaximum || op == Op::kMinimum) {
    bool less = is_u64 ? static_cast<uint64_t>(x) < static_cast<uint64_t>(y) : x < y;
    return less == (op == Op::kMaximum) ? y : x;
  } else if constexpr (op == Op::kAnd) {
    return x & y;
  } else if constexpr (op == Op::kOr) {
    return x | y;
  } else {
    return x ^ y;
  }
}

template <class W, Op op, bool is_u64>
void Combine(W* acc, const W* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) acc[i] = Apply<W, op, is_u64>(acc[i], x[i]);
}

template <class W, Op op, bool is_u64>
W Fold(const W* x, int64_t n) {
  constexpr int64_t kWays = 8;
  if (n < kWays) {
    W acc = x[0];
    for (int64_t i = 1; i < n; ++i) acc = Apply<W, op, is_u64>(acc, x[i]);
    return acc;
  }
  W acc[kWays];
  for (int64_t k = 0; k < kWays; ++k) acc[k] = x[k];
  int64_t i = kWays;
  for (; i + kWays <= n; i += kWays) {
    for (int64_t k = 0; k < kWays; ++k) acc[k] = Apply<W, op, is_u64>(acc[k], x[i + k]);
  }
  for (int64_t k = 0; i < n; ++i, ++k) acc[k] = Apply<W, op, is_u64>(acc[k], x[i]);
  for (int64_t step = kWays / 2; step > 0; step /= 2) {
    for (int64_t k = 0; k < step; ++k) acc[k] = Apply<W, op, is_u64>(acc[k], acc[k + step]);
  }
  return acc[0];
}

template <class W, Op op, bool is_u64>
void Scan(W* acc, const W* x, int64_t n, W* out) {
  W value = *acc;
  for (int64_t i = 0; i < n; ++i) out[i] = value = Apply<W, op, is_u64>(value, x[i]);
  *acc = value;
}

template <class W, Op op, bool is_u64>
PlainOp<W> Make(W identity) {
  return {identity, Combine<W, op, is_u64>, Fold<W, op, is_u64>, Scan<W, op, is_u64>};
}

template <bool is_u64>
std::optional<PlainOp<int64_t>> FindInteger(Op op) {
  using L = std::numeric_limits<int64_t>;
  switch (op) {
    case Op::kAdd: return Make<int64_t, Op::kAdd, is_u64>(0);
    case Op::kMultiply: return Make<int64_t, Op::kMultiply, is_u64>(1);
    case Op::kMaximum: return Make<int64_t, Op::kMaximum, is_u64>(is_u64 ? 0 : L::min());
    case Op::kMinimum: return Make<int64_t, Op::kMinimum, is_u64>(is_u64 ? -1 : L::max());
    case Op::kAnd: return Make<int64_t, Op::kAnd, is_u64>(-1);
    case Op::kOr: return Make<int64_t, Op::kOr, is_u64>(0);
    case Op::kXor: return Make<int64_t, Op::kXor, is_u64>(0);
    default: return std::nullopt;
  }
}

}  // namespace plain

// Nothing when the op is not one of them, or has no meaning for the type.
template <class W>
std::optional<PlainOp<W>> FindPlainOp(Op op, DType dtype) {
  if constexpr (std::is_same_v<W, int64_t>) {
    return dtype == DType::kU64 ? plain::FindInteger<true>(op) : plain::FindInteger<false>(op);
  } else {
    switch (op) {
      case Op::kAdd: return plain::Make<W, Op::kAdd, false>(W(-0.0));
      case Op::kMultiply: return plain::Make<W, Op::kMultiply, false>(W(1));
      default: break;
    }
    if constexpr (std::is_same_v<W, double>) {
      constexpr double kInf = std::numeric_limits<double>::infinity();
      if (op == Op::kMaximum) return plain::Make<W, Op::kMaximum, false>(-kInf);
      if (op == Op::kMinimum) return plain::Make<W, Op::kMinimum, false>(kInf);
    }
    return std::nullopt;
  }
}

inline void LoadWide(DType t, const std::byte* src, int64_t n, double* dst) {
  LoadF64(t, src, n, dst);
}
inline void LoadWide(DType t, const std::byte* src, int64_t n, int64_t* dst) {
  LoadI64(t, src, n, dst);
}
inline void LoadWide(DType t, const std::byte* src, int64_t n, std::complex<double>* dst) {
  LoadC128(t, src, n, dst);
}
inline void StoreWide(DType t, const double* src, int64_t n, std::byte* dst) {
  StoreF64(t, src, n, dst);
}
inline void StoreWide(DType t, const int64_t* src, int64_t n, std::byte* dst) {
  StoreI64(t, src, n, dst);
}
inline void StoreWide(DType t, const std::complex<double>* src, int64_t n, std::byte* dst) {
  StoreC128(t, src, n, dst);
}

// Calls fn(W()) with the wide type of a dtype.
template <class Fn>
auto WithWideType(DType t, const Fn& fn) {
  if (IsFloat(t)) return fn(double());
  if (IsComplex(t)) return fn(std::complex<double>());
  return fn(int64_t());
}

// When the op is a plain one on elements of this type: fn(op, init), wide. Otherwise false.
template <class Fn>
bool WithPlainOp(std::optional<Op> op, DType t, const Literal& init, const Fn& fn) {
  if (!op) return false;
  return WithWideType(t, [&](auto tag) {
    using W = decltype(tag);
    std::optional<PlainOp<W>> plain = FindPlainOp<W>(*op, t);
    if (!plain) return false;
    W start;
    LoadWide(init.dtype(), init.data(), 1, &start);
    fn(*plain, start);
    return true;
  });
}

}  // namespace weft::hlo
