// Floats of 16 bits and less, as they lie in memory, to and from f32: rounded to nearest even,
// once. What does not fit becomes what the format has for it: infinity, NaN, or else its largest
// value.
enum Specials { kIeee, kFn, kFnuz, kFinite, kExponentOnly };

template <int kBits, int kMantissa, int kBias, Specials kSpecials>
struct Format {
  static constexpr u32 kSign = 1u << (kBits - 1);
  static constexpr u32 kMagnitude = kSign - 1;
  // The top exponent of IEEE formats; NaN is all ones where there is no infinity.
  static constexpr u32 kInfinity = (kMagnitude >> kMantissa) << kMantissa;
  static constexpr u32 kMax = kSpecials == kIeee ? kInfinity - 1
                              : kSpecials == kFn ? kMagnitude - 1
                                                 : kMagnitude;
  static constexpr u32 kSmallest = u32(128 - kBias) << 23;  // the smallest normal number, as f32
  static constexpr u32 kShift = 23 - kMantissa;

  static __device__ inline f32 Decode(u32 x) {
    u32 magnitude = x & kMagnitude, shifted = magnitude << kShift;
    f32 small = __uint_as_float(shifted + kSmallest) - __uint_as_float(kSmallest);
    u32 result = magnitude < (1u << kMantissa) ? __float_as_uint(small)
                                               : shifted + (u32(127 - kBias) << 23);
    if (kSpecials == kIeee && magnitude >= kInfinity) {
      result = magnitude == kInfinity ? 0x7f800000u : 0x7fc00000u;
    }
    if (kSpecials == kFn && magnitude == kMagnitude) result = 0x7fc00000u;
    if (kSpecials == kFnuz && (x & (kSign | kMagnitude)) == kSign) result = 0x7fc00000u;
    return __uint_as_float(result | (x & kSign) << (32 - kBits));
  }

  static __device__ inline u32 Encode(f32 value) {
    u32 bits = __float_as_uint(value), x = bits & 0x7fffffffu;
    u32 sign = bits >> (32 - kBits) & kSign;
    // Below the normal numbers: adding this leaves the rounded bits at the bottom.
    constexpr u32 kMagic = u32(127 + 24 - kBias - kMantissa) << 23;
    u32 result = ((x + ((1u << (kShift - 1)) - 1) + (x >> kShift & 1)) >> kShift) -
                 (u32(127 - kBias) << kMantissa);
    if (x < kSmallest) {
      result = __float_as_uint(__uint_as_float(x) + __uint_as_float(kMagic)) - kMagic;
    }
    bool nan = x > 0x7f800000u, over = result > kMax;
    if (kSpecials == kFnuz) return over || nan ? kSign : result == 0 ? 0 : result | sign;
    if (over) result = kSpecials == kFinite ? kMax : kMax + 1;
    // Formats without NaN give a zero of the other sign.
    if (kSpecials == kFinite && nan) return sign ^ kSign;
    if (nan) result = kSpecials == kIeee ? kInfinity | 1u << (kMantissa - 1) : kMagnitude;
    return result | sign;
  }
};

// Powers of two alone; ties go up, and so does all between the smallest and the next.
struct PowerOfTwo {
  static __device__ inline f32 Decode(u32 x) {
    return __uint_as_float(x == 0 ? 0x00400000u : x == 255 ? 0x7fc00000u : x << 23);
  }
  static __device__ inline u32 Encode(f32 value) {
    u32 x = __float_as_uint(value), exponent = x >> 23;  // negative ones are above infinity
    u32 up = (x & 0x7fffffu) >= (exponent == 0 ? 0x400001u : 0x400000u) ? 1 : 0;
    return x == 0 || exponent + up > 254 ? 255 : exponent + up;
  }
};

typedef Format<4, 1, 1, kFinite> F4E2M1FN;
typedef Format<6, 3, 1, kFinite> F6E2M3FN;
typedef Format<6, 2, 3, kFinite> F6E3M2FN;
typedef Format<8, 4, 3, kIeee> F8E3M4;
typedef Format<8, 3, 7, kIeee> F8E4M3;
typedef Format<8, 3, 7, kFn> F8E4M3FN;
typedef Format<8, 3, 8, kFnuz> F8E4M3FNUZ;
typedef Format<8, 3, 11, kFnuz> F8E4M3B11FNUZ;
typedef Format<8, 2, 15, kIeee> F8E5M2;
typedef Format<8, 2, 16, kFnuz> F8E5M2FNUZ;
typedef PowerOfTwo F8E8M0FNU;
