// Elements of an array in another order: element (i, j, ...) from one place to another, by strides
// that may be negative.
template <int kRank>
struct Permutation {
  s64 elements, from, to;  // where element 0 is
  s64 dims[kRank], in[kRank], out[kRank];
};
template <class T, int kRank>
__device__ inline void Permute(const T* in, T* out, const Permutation<kRank>& p) {
  s64 at = s64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= p.elements) return;
  s64 from = p.from, to = p.to;
  for (int d = kRank; d-- > 0;) {
    from += at % p.dims[d] * p.in[d];
    to += at % p.dims[d] * p.out[d];
    at /= p.dims[d];
  }
  out[to] = in[from];
}
