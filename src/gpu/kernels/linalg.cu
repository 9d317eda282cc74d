// Factorisations and triangular systems of many matrices: a block of 256 threads each, in the
// memory of the result, or in `work` where elements are narrower than what is computed with.
constexpr int kBlock = 256;

template <class T>
__device__ inline typename Number<T>::Real Size1(T x) {
  return fabs(Number<T>::Re(x)) + fabs(Number<T>::Im(x));
}

template <class In, class T>
__device__ inline void CopyIn(const typename In::Storage* in, T* out, s64 n) {
  for (s64 i = threadIdx.x; i < n; i += kBlock) out[i] = In::Load(in[i]);
  __syncthreads();
}
template <class Out, class T>
__device__ inline void CopyOut(const T* in, typename Out::Storage* out, s64 n) {
  __syncthreads();
  for (s64 i = threadIdx.x; i < n; i += kBlock) out[i] = Out::Store(in[i]);
}

// Element (i, j) of the factor lies at i * row + j * column: the lower one, or the upper one as the
// transpose of what has the same equation.
template <class T>
__device__ inline bool FactorCholesky(T* w, s64 n, s64 row, s64 column) {
  typedef typename Number<T>::Real R;
  __shared__ R pivot;
  for (s64 k = 0; k < n; ++k) {
    if (threadIdx.x == 0) pivot = Number<T>::Re(w[k * row + k * column]);
    __syncthreads();
    R p = pivot;
    if (!(p > 0) || p - p != 0) return false;  // infinite
    R root = sqrt(p);
    __syncthreads();
    for (s64 i = k + threadIdx.x; i < n; i += kBlock) {
      T& x = w[i * row + k * column];
      x = i == k ? Number<T>::From(root) : Number<T>::Scale(x, R(1) / root);
    }
    __syncthreads();
    s64 left = n - k - 1;
    for (s64 e = threadIdx.x; e < left * left; e += kBlock) {
      s64 major = k + 1 + e / left, minor = k + 1 + e % left;
      s64 i = column == 1 ? major : minor, j = column == 1 ? minor : major;
      if (j > i) continue;
      T& x = w[i * row + j * column];
      x = x - w[i * row + k * column] * Number<T>::Conj(w[j * row + k * column]);
    }
    __syncthreads();
  }
  return true;
}

template <class E>
__device__ inline void Cholesky(const typename E::Storage* a, typename E::Storage* out,
                                typename E::Value* work, s64 n, bool lower) {
  typedef typename E::Value T;
  s64 at = blockIdx.x * n * n;
  T* w = work + at;
  CopyIn<E>(a + at, w, n * n);
  bool good = FactorCholesky(w, n, lower ? n : 1, lower ? 1 : n);
  __syncthreads();
  for (s64 e = threadIdx.x; e < n * n; e += kBlock) {
    s64 i = e / n, j = e % n;
    bool inside = lower ? j <= i : i <= j;
    f64 zero = 0, nan = zero / zero;
    T x = !good ? Number<T>::From(nan) : inside ? w[e] : Number<T>::From(0);
    w[e] = x;
  }
  CopyOut<E>(w, out + at, n * n);
}

// The row of the largest element of column k, from row k on; the first of equal ones.
template <class T>
__device__ inline s64 FindPivot(const T* w, s64 m, s64 n, s64 k) {
  typedef typename Number<T>::Real R;
  __shared__ R best[kBlock];
  __shared__ s64 rows[kBlock];
  int t = threadIdx.x;
  R mine = -1;
  s64 row = m;
  for (s64 i = k + t; i < m; i += kBlock) {
    R size = Size1(w[i * n + k]);
    // A NaN is never larger than another, and nothing is larger than one that stands first.
    if (size != size) size = i == k ? R(1) / R(0) : R(-1);
    if (size > mine) mine = size, row = i;
  }
  best[t] = mine;
  rows[t] = row;
  __syncthreads();
  for (int d = kBlock / 2; d > 0; d /= 2) {
    if (t < d) {
      R other = best[t + d];
      if (other > best[t] || (other == best[t] && rows[t + d] < rows[t])) {
        best[t] = other;
        rows[t] = rows[t + d];
      }
    }
    __syncthreads();
  }
  s64 found = rows[0];
  __syncthreads();
  return found >= m ? k : found;
}

template <class E>
__device__ inline void Lu(const typename E::Storage* a, typename E::Storage* out, s32* pivots,
                          s32* info, typename E::Value* work, s64 m, s64 n) {
  typedef typename E::Value T;
  T* w = work + blockIdx.x * m * n;
  s64 steps = m < n ? m : n;
  CopyIn<E>(a + blockIdx.x * m * n, w, m * n);
  s32 singular = 0;
  for (s64 k = 0; k < steps; ++k) {
    s64 best = FindPivot(w, m, n, k);
    if (threadIdx.x == 0) pivots[blockIdx.x * steps + k] = s32(best + 1);
    for (s64 j = threadIdx.x; best != k && j < n; j += kBlock) {
      T x = w[k * n + j];
      w[k * n + j] = w[best * n + j];
      w[best * n + j] = x;
    }
    __syncthreads();
    T pivot = w[k * n + k];
    bool zero = Number<T>::Re(pivot) == 0 && Number<T>::Im(pivot) == 0;
    __syncthreads();
    if (zero) {
      if (singular == 0) singular = s32(k + 1);
      continue;
    }
    for (s64 i = k + 1 + threadIdx.x; i < m; i += kBlock) w[i * n + k] = w[i * n + k] / pivot;
    __syncthreads();
    s64 right = n - k - 1;
    for (s64 e = threadIdx.x; e < (m - k - 1) * right; e += kBlock) {
      s64 i = k + 1 + e / right, j = k + 1 + e % right;
      w[i * n + j] = w[i * n + j] - w[i * n + k] * w[k * n + j];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) info[blockIdx.x] = singular;
  CopyOut<E>(w, out + blockIdx.x * m * n, m * n);
}

// op(a) x = b for `order` rows and some of the columns of x a block: element (i, c) of x lies at
// i * x_row + c * x_column, that of op(a) at i * a_row + j * a_column.
struct SolveForm {
  s64 order, columns, a_row, a_column, x_row, x_column;
  s64 lower, conjugate, unit_diagonal;
};
constexpr int kSolveColumns = 32;

template <class E>
__device__ inline void TriangularSolve(const typename E::Storage* a, const typename E::Storage* b,
                                       typename E::Storage* x, typename E::Value* work,
                                       SolveForm f) {
  typedef typename E::Value T;
  s64 groups = (f.columns + kSolveColumns - 1) / kSolveColumns, number = blockIdx.x / groups;
  s64 column0 = blockIdx.x % groups * kSolveColumns;
  s64 size = f.order * f.columns;
  s64 count = f.columns - column0 < kSolveColumns ? f.columns - column0 : kSolveColumns;
  a += number * f.order * f.order;
  b += number * size;
  x += number * size;
  work += number * size;
  auto at = [&](s64 i, s64 c) { return i * f.x_row + (column0 + c) * f.x_column; };
  auto coefficient = [&](s64 i, s64 j) {
    T value = E::Load(a[i * f.a_row + j * f.a_column]);
    return f.conjugate ? Number<T>::Conj(value) : value;
  };
  for (s64 e = threadIdx.x; e < f.order * count; e += kBlock) {
    s64 place = at(e / count, e % count);
    work[place] = E::Load(b[place]);
  }
  __syncthreads();
  for (s64 step = 0; step < f.order; ++step) {
    s64 k = f.lower ? step : f.order - 1 - step;
    if (threadIdx.x < count && !f.unit_diagonal) {
      T& value = work[at(k, threadIdx.x)];
      value = value / coefficient(k, k);
    }
    __syncthreads();
    s64 left = f.order - 1 - step, first = f.lower ? k + 1 : 0;
    for (s64 e = threadIdx.x; e < left * count; e += kBlock) {
      s64 i = first + e / count, c = e % count;
      work[at(i, c)] = work[at(i, c)] - coefficient(i, k) * work[at(k, c)];
    }
    __syncthreads();
  }
  for (s64 e = threadIdx.x; e < f.order * count; e += kBlock) {
    s64 place = at(e / count, e % count);
    x[place] = E::Store(work[place]);
  }
}

// Columns from `first` on of the m x n matrix c become (I - tau v v^H) c, with v = (1, below the
// diagonal of column j of a).
template <class T>
__device__ inline void Reflect(const T* a, T* c, s64 m, s64 n, s64 j, T tau, s64 first) {
  for (s64 column = first + threadIdx.x; column < n; column += kBlock) {
    T sum = c[j * n + column];
    for (s64 i = j + 1; i < m; ++i) sum = sum + Number<T>::Conj(a[i * n + j]) * c[i * n + column];
    sum = tau * sum;
    c[j * n + column] = c[j * n + column] - sum;
    for (s64 i = j + 1; i < m; ++i) c[i * n + column] = c[i * n + column] - a[i * n + j] * sum;
  }
  __syncthreads();
}

template <class E>
__device__ inline void HouseholderQr(const typename E::Storage* a, typename E::Storage* out,
                                     typename E::Storage* taus, typename E::Value* work, s64 m,
                                     s64 n) {
  typedef typename E::Value T;
  typedef typename Number<T>::Real R;
  __shared__ f64 sums[kBlock];
  T* w = work + blockIdx.x * m * n;
  s64 steps = m < n ? m : n;
  int t = threadIdx.x;
  CopyIn<E>(a + blockIdx.x * m * n, w, m * n);
  for (s64 j = 0; j < steps; ++j) {
    f64 sum = 0;
    for (s64 i = j + 1 + t; i < m; i += kBlock) {
      f64 re = Number<T>::Re(w[i * n + j]), im = Number<T>::Im(w[i * n + j]);
      sum += re * re + im * im;
    }
    sums[t] = sum;
    __syncthreads();
    for (int d = kBlock / 2; d > 0; d /= 2) {
      if (t < d) sums[t] += sums[t + d];
      __syncthreads();
    }
    f64 below = sums[0];
    T alpha = w[j * n + j];
    __syncthreads();
    T tau = Number<T>::From(0);
    f64 re = Number<T>::Re(alpha), im = Number<T>::Im(alpha);
    if (below != 0 || im != 0) {
      f64 norm = sqrt(re * re + im * im + below), beta = re >= 0 ? -norm : norm;
      T wide_beta = Number<T>::From(beta), factor = alpha - wide_beta;
      tau = (wide_beta - alpha) / wide_beta;
      for (s64 i = j + 1 + t; i < m; i += kBlock) w[i * n + j] = w[i * n + j] / factor;
      __syncthreads();
      Reflect(w, w, m, n, j, Number<T>::Conj(tau), j + 1);
      if (t == 0) w[j * n + j] = wide_beta;
      __syncthreads();
    }
    if (t == 0) taus[blockIdx.x * steps + j] = E::Store(tau);
  }
  CopyOut<E>(w, out + blockIdx.x * m * n, m * n);
}

template <class E>
__device__ inline void HouseholderProduct(const typename E::Storage* a,
                                          const typename E::Storage* taus,
                                          typename E::Storage* out, typename E::Value* work, s64 m,
                                          s64 n, s64 k) {
  typedef typename E::Value T;
  s64 size = m * n;
  T *w = work + blockIdx.x * 2 * size, *q = w + size;
  CopyIn<E>(a + blockIdx.x * size, w, size);
  for (s64 e = threadIdx.x; e < size; e += kBlock) q[e] = Number<T>::From(e / n == e % n ? 1 : 0);
  __syncthreads();
  for (s64 j = k; j-- > 0;) {
    Reflect(w, q, m, n, j, E::Load(taus[blockIdx.x * k + j]), 0);
  }
  CopyOut<E>(q, out + blockIdx.x * size, size);
}

// What a library has left of a factor: zeroes beside it, and NaN for all where there is none.
template <class E>
__device__ inline void FinishCholesky(typename E::Storage* w, const s32* info, s64 n, bool lower) {
  typedef typename E::Value T;
  s64 at = s64(blockIdx.x) * blockDim.x + threadIdx.x, number = at / (n * n);
  // NaN of the input has come to the last element of the diagonal; nobody changes it but to NaN.
  auto last = Number<T>::Re(E::Load(w[(number + 1) * n * n - 1]));
  bool good = info[number] == 0 && last == last;
  s64 i = at / n % n, j = at % n;
  f64 zero = 0;
  if (!good) w[at] = E::Store(Number<T>::From(zero / zero));
  else if (lower ? j > i : j < i) w[at] = E::Store(Number<T>::From(0));
}
