// What kernels are written with: types, lanes, and operations whose meaning C++ leaves open
// (overflow, division by zero, shifts, NaN), as program/kernel.h defines them.
typedef bool pred;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;

template <class T, int N>
struct Vec {
  T v[N];
};
template <class T, int N, int A>
struct alignas(A) Packed {
  T v[N];
};
#define LANES(n) _Pragma("unroll") for (int l = 0; l < n; ++l)

// The unsigned type of the same width, and one in which sums and products wrap.
template <class T>
struct Integer;
#define WEFT_INTEGER(T, U, W, bits)          \
  template <>                                \
  struct Integer<T> {                        \
    typedef U Same;                          \
    typedef W Wide;                          \
    static constexpr int kBits = bits;       \
    static constexpr bool kSigned = T(-1) < T(0); \
  };
WEFT_INTEGER(s8, u8, u32, 8)
WEFT_INTEGER(u8, u8, u32, 8)
WEFT_INTEGER(s16, u16, u32, 16)
WEFT_INTEGER(u16, u16, u32, 16)
WEFT_INTEGER(s32, u32, u32, 32)
WEFT_INTEGER(u32, u32, u32, 32)
WEFT_INTEGER(s64, u64, u64, 64)
WEFT_INTEGER(u64, u64, u64, 64)
#undef WEFT_INTEGER
#define WIDE typename Integer<T>::Wide

template <class T>
__device__ inline T Add(T a, T b) {
  return T(WIDE(a) + WIDE(b));
}
template <class T>
__device__ inline T Mul(T a, T b) {
  return T(WIDE(a) * WIDE(b));
}
// In two steps that ptxas 13.0 does not see as a negation, since it folds negations wrongly: of 16 bits that are then
// widened (the least number is not its own negation there), and of 32 bits into the minimum or maximum of three numbers
// (VIMNMX3, sm_90), where the sign is lost.
__device__ inline u32 NegWord(u32 a) {
  u32 r;
  asm("{ .reg .b32 t; not.b32 t, %1; add.s32 %0, t, 1; }" : "=r"(r) : "r"(a));
  return r;
}
// Of 8 and 16 bits alike: differences, and complements (`~a + 3` would be found to be `2 - a`).
template <class T>
__device__ inline T Sub(T a, T b) {
  if (Integer<T>::kBits >= 32) return T(WIDE(a) - WIDE(b));
  return T(u32(a) + NegWord(u32(b)));
}
template <class T>
__device__ inline T Not(T a) {
  if (Integer<T>::kBits >= 32) return T(~a);
  return T(NegWord(u32(a)) + 0xffffffffu);
}
template <class T>
__device__ inline T Neg(T a) {
  constexpr int kShift = Integer<T>::kBits < 32 ? 32 - Integer<T>::kBits : 0;
  if (Integer<T>::kBits > 32) return T(WIDE(0) - WIDE(a));
  if (Integer<T>::kSigned) return T(s32(NegWord(u32(a)) << kShift) >> kShift);
  return T(NegWord(u32(a)));
}
// Of floats, by their bits: the machine's own negation is a sum, which gives one NaN for all.
__device__ inline f32 Minus(f32 a) {
#ifdef __CUDACC_RTC__
  u32 r;
  asm("xor.b32 %0, %1, 0x80000000;" : "=r"(r) : "r"(__float_as_uint(a)));
  return __uint_as_float(r);
#else
  return -a;
#endif
}
__device__ inline f64 Minus(f64 a) {
#ifdef __CUDACC_RTC__
  u64 r;
  asm("xor.b64 %0, %1, 0x8000000000000000;" : "=l"(r) : "l"(__double_as_longlong(a)));
  return __longlong_as_double(r);
#else
  return -a;
#endif
}
template <class T>
__device__ inline T Abs(T a) {
  return a < T(0) ? Neg(a) : a;
}
template <class T>
__device__ inline T Div(T a, T b) {
  if (b == T(0)) return T(-1);
  if (Integer<T>::kSigned && b == T(-1)) return Neg(a);
  return T(a / b);
}
template <class T>
__device__ inline T Rem(T a, T b) {
  if (b == T(0)) return a;
  if (Integer<T>::kSigned && b == T(-1)) return T(0);
  return T(a % b);
}
// Shifted by all places but one and back, the lowest bit is negated, which ptxas finds: it is the highest bit that its own
// negation hides.
template <class T>
__device__ inline T Shl(T a, T b) {
  if (Integer<T>::kBits <= 32 && WIDE(b) == WIDE(Integer<T>::kBits - 1)) {
    return T(NegWord(u32(a) << (Integer<T>::kBits - 1)));
  }
  return WIDE(b) < WIDE(Integer<T>::kBits) ? T(WIDE(a) << WIDE(b)) : T(0);
}
template <class T>
__device__ inline T Shr(T a, T b) {
  bool inside = WIDE(b) < WIDE(Integer<T>::kBits);
  if (Integer<T>::kSigned) return T(a >> (inside ? WIDE(b) : WIDE(Integer<T>::kBits - 1)));
  return inside ? T(WIDE(a) >> WIDE(b)) : T(0);
}
template <class T>
__device__ inline T Popcount(T a) {
  typename Integer<T>::Same x = a;
  return T(Integer<T>::kBits == 64 ? __popcll(x) : __popc(u32(x)));
}
template <class T>
__device__ inline T Clz(T a) {
  typename Integer<T>::Same x = a;
  return T(Integer<T>::kBits == 64 ? __clzll(x) : __clz(u32(x)) - (32 - Integer<T>::kBits));
}
// The counter after i in a loop to `end`, which it does not pass.
template <class T>
__device__ inline T Next(T i, T end, T step) {
  return WIDE(end) - WIDE(i) > WIDE(step) ? Add(i, step) : end;
}
#undef WIDE

// NaN if an operand is; -0 is less than +0.
template <class T>
__device__ inline T Min(T a, T b) {
  return a <= b || a != a ? a : b;
}
template <class T>
__device__ inline T Max(T a, T b) {
  return a >= b || a != a ? a : b;
}
template <>
__device__ inline f32 Min<f32>(f32 a, f32 b) {
  f32 r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
template <>
__device__ inline f32 Max<f32>(f32 a, f32 b) {
  f32 r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
// Equal numbers differ in the sign of a zero alone.
template <>
__device__ inline f64 Min<f64>(f64 a, f64 b) {
  if (a == b) return __longlong_as_double(__double_as_longlong(a) | __double_as_longlong(b));
  return a < b || a != a ? a : b;
}
template <>
__device__ inline f64 Max<f64>(f64 a, f64 b) {
  if (a == b) return __longlong_as_double(__double_as_longlong(a) & __double_as_longlong(b));
  return a > b || a != a ? a : b;
}

// Truncates and saturates; NaN gives 0. The machine's conversions do, but for NaN.
template <class T, class F>
__device__ inline T ToInteger(F x) {
  if (x != x) return T(0);
  constexpr int kBits = Integer<T>::kBits;
  constexpr bool kSigned = Integer<T>::kSigned;
  if constexpr (kBits < 32) {
    constexpr F kLow = kSigned ? -F(1 << (kBits - 1)) : F(0);
    constexpr F kHigh = kSigned ? F((1 << (kBits - 1)) - 1) : F((1 << kBits) - 1);
    return T(s32(x < kLow ? kLow : x > kHigh ? kHigh : x));
  } else if constexpr (sizeof(F) == 4) {
    if constexpr (kBits == 32) return kSigned ? T(__float2int_rz(x)) : T(__float2uint_rz(x));
    return kSigned ? T(__float2ll_rz(x)) : T(__float2ull_rz(x));
  } else {
    if constexpr (kBits == 32) return kSigned ? T(__double2int_rz(x)) : T(__double2uint_rz(x));
    return kSigned ? T(__double2ll_rz(x)) : T(__double2ull_rz(x));
  }
}

// The value of a thread of the warp: `down` further on, or of the one with that number. Shuffles are
// of 32 and 64 bits.
template <class T>
struct Shuffled {
  typedef T Type;
};
template <>
struct Shuffled<pred> {
  typedef s32 Type;
};
template <>
struct Shuffled<s8> {
  typedef s32 Type;
};
template <>
struct Shuffled<u8> {
  typedef s32 Type;
};
template <>
struct Shuffled<s16> {
  typedef s32 Type;
};
template <>
struct Shuffled<u16> {
  typedef s32 Type;
};
template <class T>
__device__ inline T ShuffleDown(T x, u32 down) {
  return T(__shfl_down_sync(0xffffffffu, typename Shuffled<T>::Type(x), down));
}
template <class T>
__device__ inline T ShuffleFrom(T x, u32 lane) {
  return T(__shfl_sync(0xffffffffu, typename Shuffled<T>::Type(x), lane));
}

// The same bits under another type of the same width.
template <class T>
__device__ inline T FromBits(f32 x) {
  return T(__float_as_uint(x));
}
template <class T>
__device__ inline T FromBits(f64 x) {
  return T(__double_as_longlong(x));
}
