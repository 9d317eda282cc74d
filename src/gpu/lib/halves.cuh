// bf16 and f16, by the machine's conversions.
struct BF16 {
  static __device__ inline f32 Decode(u16 x) { return __uint_as_float(u32(x) << 16); }
  static __device__ inline u16 Encode(f32 x) {
    u16 r;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(x));
    return r;
  }
};
struct F16 {
  static __device__ inline f32 Decode(u16 x) {
    f32 r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x));
    return r;
  }
  static __device__ inline u16 Encode(f32 x) {
    u16 r;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x));
    return r;
  }
};
