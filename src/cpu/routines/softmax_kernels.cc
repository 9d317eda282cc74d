#include "cpu/routines/softmax_kernels.h"

#include <limits>

#include "program/sum_order.h"

// Vectors are the compilers' extension, as in tiles.cc.
#define WEFT_SOFTMAX_INLINE [[gnu::always_inline]] inline

namespace weft::cpu {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();
// Weights that a sum of f32 takes before it goes on in f64.
constexpr int64_t kSumRun = program::SumOrder::kRun;

template <int kBytes>
struct Lanes {
  typedef float Floats __attribute__((vector_size(kBytes)));
  typedef int32_t Ints __attribute__((vector_size(kBytes)));
  typedef double Doubles __attribute__((vector_size(2 * kBytes)));
  static constexpr int64_t kCount = kBytes / 4;

  WEFT_SOFTMAX_INLINE static Floats Load(const float* p) {
    Floats x;
    __builtin_memcpy(&x, p, sizeof(x));
    return x;
  }
  WEFT_SOFTMAX_INLINE static void Store(float* p, Floats x) { __builtin_memcpy(p, &x, sizeof(x)); }
};

// exp of what is not above 0, within 2 ULP; 0 where the result would be subnormal; NaN stays. As
// the generated kernels have it: 2^n times a polynomial of the rest.
template <int kBytes>
WEFT_SOFTMAX_INLINE typename Lanes<kBytes>::Floats ExpOf(typename Lanes<kBytes>::Floats x) {
  using Floats = typename Lanes<kBytes>::Floats;
  using Ints = typename Lanes<kBytes>::Ints;
  constexpr float kLog2E = 0x1.715476p0F, kRound = 0x1.8p23F;  // 1.5 * 2^23
  constexpr float kLn2High = 0x1.63p-1F, kLn2Low = -0x1.bd0106p-13F;
  constexpr float kSmallest = -0x1.5d3334p6F;  // below, the result is no normal number
  Floats shifted = x * kLog2E + kRound;
  Floats n = shifted - kRound;
  Floats r = (x - n * kLn2High) - n * kLn2Low;
  Floats p = r * 1.9875691500e-4F + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + (r + 1.0F);
  Ints bits = (reinterpret_cast<Ints>(shifted) << 23) + (127 << 23);
  Floats result = p * reinterpret_cast<Floats>(bits);
  return x < kSmallest ? Floats{} : result;
}

// What scores are taken less: 0 as long as there is nothing above -inf.
template <class Floats>
WEFT_SOFTMAX_INLINE Floats BaseOf(Floats largest) {
  return largest == kLowest ? Floats{} : largest;
}

template <int kBytes>
WEFT_SOFTMAX_INLINE void Step(int64_t keys, int64_t width, float* scores, float* largest,
                              float* factors, double* sums) {
  using L = Lanes<kBytes>;
  using Floats = typename L::Floats;
  using Doubles = typename L::Doubles;
  for (int64_t i = 0; i < width; i += L::kCount) {
    Floats before = L::Load(largest + i), now = before;
    for (int64_t s = 0; s < keys; ++s) {
      Floats x = L::Load(scores + s * width + i);
      now = x > now ? x : now;
    }
    Floats base = BaseOf(now), factor = ExpOf<kBytes>(before - base);
    L::Store(largest + i, now);
    L::Store(factors + i, factor);
    Doubles sum;
    __builtin_memcpy(&sum, sums + i, sizeof(sum));
    sum *= __builtin_convertvector(factor, Doubles);
    for (int64_t s = 0; s < keys;) {
      Floats run = {};
      for (int64_t end = s + kSumRun < keys ? s + kSumRun : keys; s < end; ++s) {
        Floats e = ExpOf<kBytes>(L::Load(scores + s * width + i) - base);
        L::Store(scores + s * width + i, e);
        run += e;
      }
      sum += __builtin_convertvector(run, Doubles);
    }
    __builtin_memcpy(sums + i, &sum, sizeof(sum));
  }
}

template <int kBytes>
WEFT_SOFTMAX_INLINE void Row(int64_t n, float* scores, float* largest, float* factor, double* sum) {
  using L = Lanes<kBytes>;
  using Floats = typename L::Floats;
  using Doubles = typename L::Doubles;
  int64_t whole = n - n % L::kCount;
  float rest[L::kCount];
  for (int64_t i = 0; i < L::kCount; ++i) rest[i] = whole + i < n ? scores[whole + i] : kLowest;
  Floats top = L::Load(rest);
  for (int64_t s = 0; s < whole; s += L::kCount) {
    Floats x = L::Load(scores + s);
    top = x > top ? x : top;
  }
  float now = *largest;
  for (int64_t i = 0; i < L::kCount; ++i) now = top[i] > now ? top[i] : now;
  float base = now == kLowest ? 0 : now;
  Floats change = ExpOf<kBytes>(Floats{} + (*largest - base));
  *largest = now;
  *factor = change[0];
  Doubles all = {};
  for (int64_t s = 0; s < whole;) {
    Floats run = {};
    int64_t end = s + kSumRun * L::kCount;
    for (end = end < whole ? end : whole; s < end; s += L::kCount) {
      Floats e = ExpOf<kBytes>(L::Load(scores + s) - base);
      L::Store(scores + s, e);
      run += e;
    }
    all += __builtin_convertvector(run, Doubles);
  }
  Floats last = ExpOf<kBytes>(L::Load(rest) - base);
  for (int64_t s = whole; s < n; ++s) scores[s] = last[s - whole];
  all += __builtin_convertvector(last, Doubles);
  double total = *sum * *factor;
  for (int64_t i = 0; i < L::kCount; ++i) total += all[i];
  *sum = total;
}

template <int kBytes>
WEFT_SOFTMAX_INLINE void Bound(int64_t keys, int64_t width, int32_t first_key, const int32_t* low,
                               const int32_t* high, float fill, float* scores) {
  using L = Lanes<kBytes>;
  using Ints = typename L::Ints;
  for (int64_t i = 0; i < width; i += L::kCount) {
    Ints from, to;
    __builtin_memcpy(&from, low + i, sizeof(from));
    __builtin_memcpy(&to, high + i, sizeof(to));
    for (int64_t s = 0; s < keys; ++s) {
      Ints key = Ints{} + (first_key + static_cast<int32_t>(s));
      typename L::Floats x = L::Load(scores + s * width + i), other = typename L::Floats{} + fill;
      x = key < from ? other : x;
      x = key > to ? other : x;
      L::Store(scores + s * width + i, x);
    }
  }
}

template <int kBytes>
WEFT_SOFTMAX_INLINE void AddTo(int64_t n, const float* y, float* x) {
  using L = Lanes<kBytes>;
  for (int64_t i = 0; i < n; i += L::kCount) L::Store(x + i, L::Load(x + i) + L::Load(y + i));
}

template <int kBytes>
WEFT_SOFTMAX_INLINE void Choose(int64_t n, const uint32_t* kept, float fill, float* x) {
  using L = Lanes<kBytes>;
  typename L::Floats other = typename L::Floats{} + fill;
  for (int64_t i = 0; i < n; i += L::kCount) {
    typename L::Ints k;
    __builtin_memcpy(&k, kept + i, sizeof(k));
    L::Store(x + i, k != 0 ? L::Load(x + i) : other);
  }
}

template <int kBytes>
WEFT_SOFTMAX_INLINE void ScaleRows(int64_t rows, int64_t width, const float* factors, float* x) {
  using L = Lanes<kBytes>;
  for (int64_t r = 0; r < rows; ++r, x += width) {
    for (int64_t i = 0; i < width; i += L::kCount) {
      L::Store(x + i, L::Load(x + i) * L::Load(factors + i));
    }
  }
}

template <int kBytes>
WEFT_SOFTMAX_INLINE void Gradient(int64_t keys, int64_t width, const float* largest,
                                  const float* inverse, const float* deltas, float* scores,
                                  float* gradients) {
  using L = Lanes<kBytes>;
  using Floats = typename L::Floats;
  for (int64_t i = 0; i < width; i += L::kCount) {
    Floats base = BaseOf(L::Load(largest + i)), factor = L::Load(inverse + i);
    Floats delta = L::Load(deltas + i);
    for (int64_t s = 0; s < keys; ++s) {
      Floats weight = ExpOf<kBytes>(L::Load(scores + s * width + i) - base) * factor;
      L::Store(scores + s * width + i, weight);
      L::Store(gradients + s * width + i, weight * (L::Load(gradients + s * width + i) - delta));
    }
  }
}

// The functions of one machine: WEFT_SOFTMAX(name, target attribute, bytes of a vector).
#define WEFT_SOFTMAX(NAME, TARGET, BYTES)                                                       \
  TARGET void Step##NAME(int64_t keys, int64_t width, float* scores, float* largest,            \
                         float* factors, double* sums) {                                        \
    Step<BYTES>(keys, width, scores, largest, factors, sums);                                   \
  }                                                                                             \
  TARGET void Row##NAME(int64_t n, float* scores, float* largest, float* factor, double* sum) { \
    Row<BYTES>(n, scores, largest, factor, sum);                                                \
  }                                                                                             \
  TARGET void Bound##NAME(int64_t keys, int64_t width, int32_t first_key, const int32_t* low,   \
                          const int32_t* high, float fill, float* scores) {                     \
    Bound<BYTES>(keys, width, first_key, low, high, fill, scores);                              \
  }                                                                                             \
  TARGET void Add##NAME(int64_t n, const float* y, float* x) {                                  \
    AddTo<BYTES>(n, y, x);                                                                      \
  }                                                                                             \
  TARGET void Choose##NAME(int64_t n, const uint32_t* kept, float fill, float* x) {             \
    Choose<BYTES>(n, kept, fill, x);                                                            \
  }                                                                                             \
  TARGET void Scale##NAME(int64_t rows, int64_t width, const float* factors, float* x) {        \
    ScaleRows<BYTES>(rows, width, factors, x);                                                  \
  }                                                                                             \
  TARGET void Gradient##NAME(int64_t keys, int64_t width, const float* largest,                 \
                             const float* inverse, const float* deltas, float* scores,          \
                             float* gradients) {                                                \
    Gradient<BYTES>(keys, width, largest, inverse, deltas, scores, gradients);                  \
  }                                                                                             \
  constexpr SoftmaxKernel kSoftmax##NAME = {BYTES / 4, Step##NAME,   Row##NAME,   Bound##NAME,  \
                                            Add##NAME, Choose##NAME, Scale##NAME, Gradient##NAME};

#if defined(__x86_64__)
WEFT_SOFTMAX(Sse2, , 16)
WEFT_SOFTMAX(Avx2, __attribute__((target("avx2,fma"))), 32)
WEFT_SOFTMAX(Avx512, __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,avx2,fma"))), 64)
#else
WEFT_SOFTMAX(Wide, , 16)
#endif

}  // namespace

const SoftmaxKernel& FindSoftmaxKernel() {
#if defined(__x86_64__)
  static const SoftmaxKernel& best =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")
          ? kSoftmaxAvx512
      : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? kSoftmaxAvx2
                                                                        : kSoftmaxSse2;
  return best;
#else
  return kSoftmaxWide;
#endif
}

}  // namespace weft::cpu
