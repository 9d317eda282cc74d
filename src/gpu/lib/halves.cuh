// bf16 and f16, by the machine's conversions, which give one NaN for all: its sign is put back, by
// which `-x` is sorted.
struct BF16 {
  static __device__ inline f32 Decode(u16 x) { return __uint_as_float(u32(x) << 16); }
  static __device__ inline u16 Encode(f32 x) {
    u16 r;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(x));
    return u16(r | (__float_as_uint(x) >> 16 & 0x8000u));
  }
};
struct F16 {
  static __device__ inline f32 Decode(u16 x) {
    f32 r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x));
    return __uint_as_float(__float_as_uint(r) | (x & 0x8000u) << 16);
  }
  static __device__ inline u16 Encode(f32 x) {
    u16 r;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x));
    return u16(r | (__float_as_uint(x) >> 16 & 0x8000u));
  }
};
