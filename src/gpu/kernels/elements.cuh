// What kernels of routines are written with besides lib/numbers.cuh: complex numbers, and numbers
// of any kind under the same names.
template <class T>
struct Cx {
  T re, im;
};
template <class T>
__device__ inline Cx<T> operator+(Cx<T> a, Cx<T> b) {
  return {a.re + b.re, a.im + b.im};
}
template <class T>
__device__ inline Cx<T> operator-(Cx<T> a, Cx<T> b) {
  return {a.re - b.re, a.im - b.im};
}
template <class T>
__device__ inline Cx<T> operator*(Cx<T> a, Cx<T> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
// Smith's: neither overflows nor loses digits where the quotient does not.
template <class T>
__device__ inline Cx<T> operator/(Cx<T> a, Cx<T> b) {
  if (fabs(b.re) >= fabs(b.im)) {
    T ratio = b.im / b.re, under = b.re + b.im * ratio;
    return {(a.re + a.im * ratio) / under, (a.im - a.re * ratio) / under};
  }
  T ratio = b.re / b.im, under = b.re * ratio + b.im;
  return {(a.re * ratio + a.im) / under, (a.im * ratio - a.re) / under};
}

template <class T>
struct Number {
  typedef T Real;
  static __device__ inline T From(f64 x) { return T(x); }
  static __device__ inline T Conj(T x) { return x; }
  static __device__ inline T Re(T x) { return x; }
  static __device__ inline T Im(T) { return T(0); }
  static __device__ inline T Scale(T x, T by) { return x * by; }
};
template <>
struct Number<u32> {
  typedef u32 Real;
  static __device__ inline u32 From(f64 x) { return u32(s64(x)); }
};
template <>
struct Number<u64> {
  typedef u64 Real;
  static __device__ inline u64 From(f64 x) { return u64(s64(x)); }
};
template <class T>
struct Number<Cx<T>> {
  typedef T Real;
  static __device__ inline Cx<T> From(f64 x) { return {T(x), T(0)}; }
  static __device__ inline Cx<T> Conj(Cx<T> x) { return {x.re, -x.im}; }
  static __device__ inline T Re(Cx<T> x) { return x.re; }
  static __device__ inline T Im(Cx<T> x) { return x.im; }
  static __device__ inline Cx<T> Scale(Cx<T> x, T by) { return {x.re * by, x.im * by}; }
};

// Elements of one type as those of another.
template <class From, class To>
__device__ inline void ConvertElements(const typename From::Storage* in, typename To::Storage* out,
                                       s64 n) {
  s64 i = s64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) out[i] = To::Store(typename To::Value(From::Load(in[i])));
}
