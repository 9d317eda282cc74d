// Random bits as functions of a counter, the same as base/counter_random.h, an element a thread.
struct Words {
  u32 w[4];
};

__device__ inline u32 Rotate(u32 x, int by) {
  return x << by | x >> (32 - by);
}

__device__ inline Words Threefry(u64 counter, u64 key) {
  const int rotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  u32 k0 = u32(key), k1 = u32(key >> 32);
  const u32 keys[3] = {k0, k1, k0 ^ k1 ^ 0x1BD11BDAu};
  u32 x = u32(counter) + k0, y = u32(counter >> 32) + k1;
  for (u32 round = 0; round < 5; ++round) {
    for (int r = 0; r < 4; ++r) {
      x += y;
      y = Rotate(y, rotations[round % 2 * 4 + r]) ^ x;
    }
    x += keys[(round + 1) % 3];
    y += keys[(round + 2) % 3] + round + 1;
  }
  return {{x, y, 0, 0}};
}

__device__ inline Words Philox(u64 low, u64 high, u64 key) {
  u32 c[4] = {u32(low), u32(low >> 32), u32(high), u32(high >> 32)};
  u32 k0 = u32(key), k1 = u32(key >> 32);
  for (int round = 0; round < 10; ++round) {
    u64 p = u64(c[0]) * 0xD2511F53u, q = u64(c[2]) * 0xCD9E8D57u;
    u32 c1 = c[1], c3 = c[3];
    c[0] = u32(q >> 32) ^ c1 ^ k0;
    c[1] = u32(q);
    c[2] = u32(p >> 32) ^ c3 ^ k1;
    c[3] = u32(p);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c[0], c[1], c[2], c[3]}};
}

__device__ inline u64 Join(u32 low, u32 high) {
  return u64(low) | u64(high) << 32;
}

// Of three_fry: dimension `size` is cut in two halves, whose elements are the two words of a
// counter. A state of two words of philox counts in 128 bits whose upper half is the key.
struct BitsForm {
  s64 n, words, wide;           // of the state; elements of 64 bits
  s64 size, half, inner, used;  // counters
};

template <class Out>
__device__ inline void FillBits(bool threefry, const u32* state, u32* next,
                                typename Out::Storage* out, BitsForm f) {
  s64 i = s64(blockIdx.x) * blockDim.x + threadIdx.x;
  u64 key = Join(state[0], state[1]), low = Join(state[2], state[3]);
  u64 high = f.words == 3 ? Join(state[4], state[5]) : key;
  if (i < f.n) {
    u64 bits;
    if (threefry) {
      s64 in = i % f.inner, at = i / f.inner % f.size, outer = i / f.inner / f.size;
      Words x = Threefry(low + u64(f.wide ? i : (outer * f.half + at / 2) * f.inner + in), key);
      bits = f.wide ? Join(x.w[0], x.w[1]) : x.w[at % 2];
    } else {
      s64 each = f.wide ? 2 : 4;
      u64 sum = low + u64(i / each);
      Words x = Philox(sum, high + (sum < low ? 1 : 0), key);
      int lane = int(i % each);
      bits = f.wide ? Join(x.w[2 * lane], x.w[2 * lane + 1]) : x.w[lane];
    }
    out[i] = Out::Store(bits);
  }
  if (i != 0) return;
  u64 after = low + u64(f.used), carried = high + (!threefry && after < low ? 1 : 0);
  next[0] = state[0];
  next[1] = state[1];
  next[2] = u32(after);
  next[3] = u32(after >> 32);
  if (f.words == 3) next[4] = u32(carried), next[5] = u32(carried >> 32);
}

// Numbers of one stream (splitmix64).
__device__ inline u64 StreamBits(u64 counter) {
  u64 z = 0x9e3779b97f4a7c15ull * counter;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}
__device__ inline f64 Unit(u64 bits) {
  return f64(bits >> 11) * 0x1p-53;
}

template <class A, class B, class Out>
__device__ inline void FillIntegers(const u32* counter, bool uniform, bool is_u64,
                                    const typename A::Storage* a, const typename B::Storage* b,
                                    typename Out::Storage* out, s64 n) {
  s64 i = s64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  u64 value = StreamBits(Join(counter[0], counter[1]) + u64(i) + 1);
  if (uniform) {
    u64 low = A::Load(*a), high = B::Load(*b);
    bool empty = is_u64 ? high <= low : s64(high) <= s64(low);
    value = low + (empty ? 0 : value % (high - low));
  }
  out[i] = Out::Store(value);
}

template <class A, class B, class Out>
__device__ inline void FillFloats(const u32* counter, bool normal, const typename A::Storage* a_at,
                                  const typename B::Storage* b_at, typename Out::Storage* out,
                                  s64 n) {
  s64 i = s64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  u64 at = Join(counter[0], counter[1]) + u64(i) + 1;
  f64 a = A::Load(*a_at), b = B::Load(*b_at);
  if (normal) {
    at += u64(i);
    f64 u = f64((StreamBits(at) >> 11) + 1) * 0x1p-53;
    f64 angle = 2 * 3.14159265358979323846 * Unit(StreamBits(at + 1));
    f64 deviate = __dmul_rn(sqrt(__dmul_rn(-2, log(u))), cos(angle));
    out[i] = Out::Store(__dadd_rn(a, __dmul_rn(b, deviate)));
    return;
  }
  out[i] = Out::Store(__dadd_rn(a, __dmul_rn(b - a, Unit(StreamBits(at)))));
  // Rounding may reach the end, which does not belong to the range.
  if (a < b && Out::Load(out[i]) >= b) out[i] = Out::Store(a);
}

__device__ inline void Advance(u32* counter, u64 by) {
  u64 next = Join(counter[0], counter[1]) + by;
  counter[0] = u32(next);
  counter[1] = u32(next >> 32);
}
