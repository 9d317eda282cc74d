// c = alpha a b + beta c for any types: a block of 256 threads computes 64 x 64 elements of c, each
// thread 4 x 4 of them. Element (i, j) of a matrix lies at i * row + j * column. Sums are in the
// order of k.
// Matrix b of an operand begins at b / inner_count * outer + b % inner_count * inner.
struct GemmBatch {
  s64 inner_count, inner, outer;
  __device__ inline s64 At(s64 number) const {
    return number / inner_count * outer + number % inner_count * inner;
  }
};
struct GemmSizes {
  s64 m, n, k;
  s64 a_row, a_column, b_row, b_column;
  f64 alpha, beta;
  GemmBatch a_batch, b_batch;
};

template <class A, class B, class C>
__device__ inline void Gemm(const typename A::Storage* a, const typename B::Storage* b,
                            typename C::Storage* c, GemmSizes s) {
  typedef typename C::Value T;
  constexpr int kTile = 64, kDepth = 16, kEach = 4;
  __shared__ T a_tile[kDepth][kTile + 1];
  __shared__ T b_tile[kDepth][kTile + 1];
  s64 tiles_m = (s.m + kTile - 1) / kTile, tiles_n = (s.n + kTile - 1) / kTile;
  s64 tile = blockIdx.x, number = tile / (tiles_m * tiles_n);
  s64 row0 = tile / tiles_n % tiles_m * kTile, column0 = tile % tiles_n * kTile;
  a += s.a_batch.At(number);
  b += s.b_batch.At(number);
  c += number * s.m * s.n;
  int t = threadIdx.x, ty = t / 16, tx = t % 16;
  T sum[kEach][kEach];
  for (int i = 0; i < kEach; ++i) {
    for (int j = 0; j < kEach; ++j) sum[i][j] = Number<T>::From(0);
  }
  for (s64 k0 = 0; k0 < s.k; k0 += kDepth) {
    for (int e = t; e < kDepth * kTile; e += 256) {
      // Neighbours in memory are read by neighbouring threads.
      int ak = s.a_column == 1 ? e % kDepth : e / kTile, ai = s.a_column == 1 ? e / kDepth : e % kTile;
      int bk = s.b_column == 1 ? e / kTile : e % kDepth, bj = s.b_column == 1 ? e % kTile : e / kDepth;
      s64 row = row0 + ai, column = column0 + bj;
      a_tile[ak][ai] = row < s.m && k0 + ak < s.k
                           ? T(A::Load(a[row * s.a_row + (k0 + ak) * s.a_column]))
                           : Number<T>::From(0);
      b_tile[bk][bj] = column < s.n && k0 + bk < s.k
                           ? T(B::Load(b[(k0 + bk) * s.b_row + column * s.b_column]))
                           : Number<T>::From(0);
    }
    __syncthreads();
    int depth = s.k - k0 < kDepth ? int(s.k - k0) : kDepth;
    for (int k = 0; k < depth; ++k) {
      T x[kEach], y[kEach];
      for (int i = 0; i < kEach; ++i) x[i] = a_tile[k][ty + 16 * i];
      for (int j = 0; j < kEach; ++j) y[j] = b_tile[k][tx + 16 * j];
      for (int i = 0; i < kEach; ++i) {
        for (int j = 0; j < kEach; ++j) sum[i][j] = sum[i][j] + x[i] * y[j];
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < kEach; ++i) {
    for (int j = 0; j < kEach; ++j) {
      s64 row = row0 + ty + 16 * i, column = column0 + tx + 16 * j;
      if (row >= s.m || column >= s.n) continue;
      T value = Number<T>::From(s.alpha) * sum[i][j];
      typename C::Storage* at = c + row * s.n + column;
      if (s.beta != 0) value = value + Number<T>::From(s.beta) * T(C::Load(*at));
      *at = C::Store(value);
    }
  }
}
