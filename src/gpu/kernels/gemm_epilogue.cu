// c = f(a b) of 16-bit floats by matrix units, for products that take longer to read and to write
// than to compute. A block has all of b in shared memory and goes over tiles of kRows rows of a, a
// warp for 16 of them; while one tile is multiplied the next is on its way. The product, rounded,
// lies in shared memory 64 columns at a time, where the epilogue f reads it; only what f writes
// goes to memory. Sums are in the order of k.
template <class Half, int kRows, int kN, int kK, bool kTransposed>
struct ProductTiles {
  static constexpr int kThreads = kRows * 2, kColumns = 64;
  // Of rows in shared memory, so that the accesses of a warp lie in different banks.
  static constexpr int kStride = kK + 8, kOutStride = kColumns + 8;

  // b as kN rows of kK.
  static __device__ inline void LoadB(u16* to, const u16* b) {
    if (kTransposed) {
      for (int e = threadIdx.x; e < kN * (kK / 8); e += kThreads) {
        int n = e / (kK / 8), k = e % (kK / 8) * 8;
        CopyAsync16(to + n * kStride + k, b + n * kK + k);
      }
      return;
    }
    for (int e = threadIdx.x; e < kK * kN; e += kThreads) {
      to[e % kN * kStride + e / kN] = b[e];
    }
  }
  static __device__ inline void LoadA(u16* to, const u16* a, s64 tile) {
    a += tile * (kRows * kK);
    for (int e = threadIdx.x; e < kRows * (kK / 8); e += kThreads) {
      int row = e / (kK / 8), k = e % (kK / 8) * 8;
      CopyAsync16(to + row * kStride + k, a + row * kK + k);
    }
  }

  // 64 columns of the tile, rounded.
  static __device__ inline void Multiply(const u16* a, const u16* b, u16* out) {
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, row = threadIdx.x / 32 * 16 + g;
    f32 sum[kColumns / 8][4];
    for (int j = 0; j < kColumns / 8; ++j) {
      for (int i = 0; i < 4; ++i) sum[j][i] = 0;
    }
#pragma unroll
    for (int k = 0; k < kK; k += 16) {
      const u16 *x = a + row * kStride + k + 2 * t, *y = b + g * kStride + k + 2 * t;
      u32 left[4] = {*(const u32*)x, *(const u32*)(x + 8 * kStride), *(const u32*)(x + 8),
                     *(const u32*)(x + 8 * kStride + 8)};
#pragma unroll
      for (int j = 0; j < kColumns / 8; ++j) {
        u32 right[2] = {*(const u32*)(y + j * 8 * kStride), *(const u32*)(y + j * 8 * kStride + 8)};
        MultiplyTile(Half(), sum[j], left, right);
      }
    }
    for (int j = 0; j < kColumns / 8; ++j) {
      u16* at = out + row * kOutStride + j * 8 + 2 * t;
      *(u32*)at = u32(Half::Encode(sum[j][0])) | u32(Half::Encode(sum[j][1])) << 16;
      at += 8 * kOutStride;
      *(u32*)at = u32(Half::Encode(sum[j][2])) | u32(Half::Encode(sum[j][3])) << 16;
    }
  }

  template <class Epilogue>
  static __device__ inline void Run(const u16* a, const u16* b, s64 tiles, u8* shared,
                                    const Epilogue& epilogue) {
    u16 *b_tile = (u16*)shared, *a_tile = b_tile + kN * kStride, *out = a_tile + 2 * kRows * kStride;
    LoadB(b_tile, b);
    if (blockIdx.x < tiles) LoadA(a_tile, a, blockIdx.x);
    CommitCopies();
    int turn = 0;
    for (s64 tile = blockIdx.x; tile < tiles; tile += gridDim.x, turn ^= 1) {
      if (tile + gridDim.x < tiles) LoadA(a_tile + (turn ^ 1) * kRows * kStride, a, tile + gridDim.x);
      CommitCopies();
      WaitForCopiesBefore();
      __syncthreads();
      for (int column = 0; column < kN; column += kColumns) {
        Multiply(a_tile + turn * kRows * kStride, b_tile + column * kStride, out);
        __syncthreads();
        epilogue.Run(tile * (kRows * kN) + column, out);
        __syncthreads();
      }
    }
  }
};
