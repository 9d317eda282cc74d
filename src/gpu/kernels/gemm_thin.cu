// c = alpha a b where one operand has a few rows and the other, which is large, is read once, where
// it lies: attention of few queries over a cache of keys and values. Row r of the few and column n of the
// large one make the element at r * c_row + n * c_column of c. Sums are in an order that shapes alone
// decide. Behind gemm.cu.
struct ThinSizes {
  s64 n, k, chunk, chunks;  // sums of `chunk` terms of k are a block's
  s64 small_row, small_column, large_row, c_row, c_column;
  f64 alpha;
  GemmBatch small_batch, large_batch, c_batch;
};

// Eight neighbours, at a multiple of 16 bytes.
struct alignas(16) SixteenBytes {
  u32 word[4];
};
template <class E>
__device__ inline void LoadEight(const typename E::Storage* from, f32* to) {
  if (sizeof(typename E::Storage) == 2) {
    SixteenBytes all = *(const SixteenBytes*)from;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      to[2 * i] = E::Load(typename E::Storage(all.word[i] & 0xffff));
      to[2 * i + 1] = E::Load(typename E::Storage(all.word[i] >> 16));
    }
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) to[i] = E::Load(from[i]);
  }
}

// The large one has rows of k = 8 kLanes elements, kLanes threads for each; a block takes kColumns of them.
template <class S, class L, class C, int kRows, int kLanes, int kColumns>
__device__ inline void ThinDots(const typename S::Storage* small, const typename L::Storage* large,
                                typename C::Storage* c, const ThinSizes& s) {
  s64 tiles = (s.n + kColumns - 1) / kColumns, number = blockIdx.x / tiles;
  s64 first = blockIdx.x % tiles * kColumns;
  int lane = threadIdx.x % kLanes, group = threadIdx.x / kLanes;
  small += s.small_batch.At(number) + lane * 8;
  large += s.large_batch.At(number) + lane * 8;
  c += s.c_batch.At(number);
  f32 x[kRows][8];
#pragma unroll
  for (int r = 0; r < kRows; ++r) LoadEight<S>(small + r * s.small_row, x[r]);
#pragma unroll 4
  for (int n = group; n < kColumns; n += 256 / kLanes) {
    s64 column = first + n;
    bool there = column < s.n;
    f32 y[8];
    LoadEight<L>(large + (there ? column : 0) * s.large_row, y);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      f32 sum = 0;
#pragma unroll
      for (int i = 0; i < 8; ++i) sum += x[r][i] * y[i];
#pragma unroll
      for (int down = kLanes / 2; down > 0; down /= 2) sum += __shfl_down_sync(~0u, sum, down);
      if (lane == 0 && there) c[r * s.c_row + column * s.c_column] = C::Store(f32(s.alpha) * sum);
    }
  }
}

// The large one has k rows of n elements: a block adds up a chunk of the rows in kColumns columns, to
// c, or to `partial` where there are several chunks.
template <class S, class L, class C, int kRows, int kColumns>
__device__ inline void ThinSums(const typename S::Storage* small, const typename L::Storage* large,
                                typename C::Storage* c, f32* partial, const ThinSizes& s) {
  constexpr int kLanes = kColumns / 8, kGroups = 256 / kLanes;
  __shared__ f32 all[kGroups][kColumns];
  s64 tiles = s.n / kColumns, chunk = blockIdx.x % s.chunks, tile = blockIdx.x / s.chunks % tiles;
  s64 number = blockIdx.x / (s.chunks * tiles), first = tile * kColumns;
  int lane = threadIdx.x % kLanes, group = threadIdx.x / kLanes;
  s64 end = (chunk + 1) * s.chunk < s.k ? (chunk + 1) * s.chunk : s.k;
  small += s.small_batch.At(number);
  large += s.large_batch.At(number) + first + lane * 8;
  f32 sum[kRows][8];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int i = 0; i < 8; ++i) sum[r][i] = 0;
  }
#pragma unroll 4
  for (s64 k = chunk * s.chunk + group; k < end; k += kGroups) {
    f32 y[8];
    LoadEight<L>(large + k * s.large_row, y);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      f32 x = S::Load(small[r * s.small_row + k * s.small_column]);
#pragma unroll
      for (int i = 0; i < 8; ++i) sum[r][i] += x * y[i];
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; ++i) all[group][lane * 8 + i] = sum[r][i];
    __syncthreads();
    if (threadIdx.x >= kColumns) continue;
    f32 total = 0;
    for (int g = 0; g < kGroups; ++g) total += all[g][threadIdx.x];
    s64 column = first + threadIdx.x;
    if (s.chunks == 1) {
      c[s.c_batch.At(number) + r * s.c_row + column * s.c_column] = C::Store(f32(s.alpha) * total);
    } else {
      partial[((number * s.chunks + chunk) * kRows + r) * s.n + column] = total;
    }
  }
}

// An element of c a thread.
template <class C, int kRows>
__device__ inline void ThinJoin(const f32* partial, typename C::Storage* c, s64 batch,
                                const ThinSizes& s) {
  s64 at = s64(blockIdx.x) * blockDim.x + threadIdx.x, number = at / (kRows * s.n);
  if (number >= batch) return;
  s64 r = at / s.n % kRows, column = at % s.n;
  f32 total = 0;
  for (s64 chunk = 0; chunk < s.chunks; ++chunk) {
    total += partial[((number * s.chunks + chunk) * kRows + r) * s.n + column];
  }
  c[s.c_batch.At(number) + r * s.c_row + column * s.c_column] = C::Store(f32(s.alpha) * total);
}
