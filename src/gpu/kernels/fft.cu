// What transforms need besides: factors, and half spectra of which the rest follows.
template <class T>
__device__ inline void ScaleAll(T* x, s64 n, T by) {
  s64 i = s64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] * by;
}

// Columns of a half spectrum that are their own mirror images (the first, and the last of an even
// length) count by their Hermitian part: what else they hold would become imaginary.
struct HalfSpectrum {
  s64 elements, outer, middle, columns, even;  // [.., outer, middle, columns]
};
template <class T>
__device__ inline void TakeHermitian(const Cx<T>* in, Cx<T>* out, HalfSpectrum f, T by) {
  s64 at = s64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= f.elements) return;
  s64 column = at % f.columns, j = at / f.columns % f.middle, i = at / f.columns / f.middle % f.outer;
  Cx<T> x = in[at];
  if (column == 0 || (f.even && column == f.columns - 1)) {
    s64 base = at - column - (i * f.middle + j) * f.columns;
    s64 mirror = (f.outer - i) % f.outer * f.middle + (f.middle - j) % f.middle;
    Cx<T> y = in[base + mirror * f.columns + column];
    x.re = (x.re + y.re) / 2;
    x.im = (x.im - y.im) / 2;
  }
  out[at] = {x.re * by, x.im * by};
}

// The whole spectrum, in which row i, column k is the conjugate of row -i, column -k. `f.elements`
// are those of the whole, of `length` columns.
template <class T>
__device__ inline void TakeWhole(const Cx<T>* half, Cx<T>* out, HalfSpectrum f, s64 length) {
  s64 at = s64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= f.elements) return;
  s64 column = at % length, j = at / length % f.middle, i = at / length / f.middle % f.outer;
  s64 base = at / length / f.middle / f.outer * f.outer * f.middle;
  bool mirrored = column >= f.columns;
  if (mirrored) {
    column = length - column;
    j = (f.middle - j) % f.middle;
    i = (f.outer - i) % f.outer;
  }
  Cx<T> x = half[(base + i * f.middle + j) * f.columns + column];
  out[at] = {x.re, mirrored ? -x.im : x.im};
}
template <class T>
__device__ inline void TakeReal(const Cx<T>* in, T* out, s64 n) {
  s64 i = s64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i].re;
}
