#include "cpu/routines/fft_plan.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace weft::cpu {
namespace {

constexpr int kMostRadix = 13;  // larger prime factors take the way of the chirp

// Short vectors by the compilers' extension; T itself for the rest of a loop.
template <class T>
struct Lanes {
  static constexpr int kCount = 16 / static_cast<int>(sizeof(T));
  typedef T Vector __attribute__((vector_size(16)));
};

template <class V>
struct Pair {
  V re, im;
};

template <class V, class T>
V LoadAs(const T* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof(v));
  return v;
}
template <class V, class T>
void StoreAs(V v, T* to) {
  __builtin_memcpy(to, &v, sizeof(v));
}

// The transform of kRadix numbers in place. `cosine[j]`, `sine[j]`: of 2 pi j / kRadix.
template <int kRadix, class V, class T>
[[gnu::always_inline]] inline void Butterfly(Pair<V>* x, const T* cosine, const T* sine) {
  if constexpr (kRadix == 2) {
    Pair<V> a = x[0], b = x[1];
    x[0] = {a.re + b.re, a.im + b.im};
    x[1] = {a.re - b.re, a.im - b.im};
  } else if constexpr (kRadix == 4) {
    Pair<V> s = {x[0].re + x[2].re, x[0].im + x[2].im}, d = {x[0].re - x[2].re, x[0].im - x[2].im};
    Pair<V> t = {x[1].re + x[3].re, x[1].im + x[3].im}, e = {x[1].re - x[3].re, x[1].im - x[3].im};
    x[0] = {s.re + t.re, s.im + t.im};
    x[2] = {s.re - t.re, s.im - t.im};
    x[1] = {d.re + e.im, d.im - e.re};
    x[3] = {d.re - e.im, d.im + e.re};
  } else {
    // Odd: element j goes with element kRadix - j.
    constexpr int kHalf = kRadix / 2;
    Pair<V> sums[kHalf], differences[kHalf], first = x[0], all = x[0];
    for (int j = 1; j <= kHalf; ++j) {
      Pair<V> a = x[j], b = x[kRadix - j];
      sums[j - 1] = {a.re + b.re, a.im + b.im};
      differences[j - 1] = {a.re - b.re, a.im - b.im};
      all.re += sums[j - 1].re;
      all.im += sums[j - 1].im;
    }
    x[0] = all;
    for (int k = 1; k <= kHalf; ++k) {
      Pair<V> even = first, odd = {};
      for (int j = 1; j <= kHalf; ++j) {
        T c = cosine[j * k % kRadix], s = sine[j * k % kRadix];
        even.re += sums[j - 1].re * c;
        even.im += sums[j - 1].im * c;
        odd.re += differences[j - 1].re * s;
        odd.im += differences[j - 1].im * s;
      }
      x[k] = {even.re + odd.im, even.im - odd.re};
      x[kRadix - k] = {even.re - odd.im, even.im + odd.re};
    }
  }
}

// What one stage reads and writes.
template <class T>
struct StageData {
  Split<const T> from;
  Split<T> to;
  int64_t m, stride;
  const T *re, *im;        // twiddles
  const T *cosine, *sine;  // of the butterfly
};

// One butterfly of V: elements `at`, group p.
template <int kRadix, class V, class T>
[[gnu::always_inline]] inline void OneButterfly(const StageData<T>& s, int64_t p, int64_t q) {
  Pair<V> x[kRadix];
  for (int j = 0; j < kRadix; ++j) {
    int64_t at = q + s.stride * (p + s.m * j);
    x[j] = {LoadAs<V>(s.from.re + at), LoadAs<V>(s.from.im + at)};
  }
  Butterfly<kRadix>(x, s.cosine, s.sine);
  T *re = s.to.re + q + s.stride * kRadix * p, *im = s.to.im + q + s.stride * kRadix * p;
  StoreAs(x[0].re, re);
  StoreAs(x[0].im, im);
  for (int k = 1; k < kRadix; ++k) {
    T wr = s.re[(k - 1) * s.m + p], wi = s.im[(k - 1) * s.m + p];
    StoreAs<V>(x[k].re * wr - x[k].im * wi, re + k * s.stride);
    StoreAs<V>(x[k].re * wi + x[k].im * wr, im + k * s.stride);
  }
}

// The first stage of radix 4, whose transforms are single numbers: lanes are groups, and results
// are turned before they are stored.
template <class T>
int64_t FirstStage(const StageData<T>& s) {
  using V = typename Lanes<T>::Vector;
  constexpr int kLanes = Lanes<T>::kCount;
  int64_t p = 0;
  for (; p + kLanes <= s.m; p += kLanes) {
    Pair<V> x[4];
    for (int j = 0; j < 4; ++j) {
      x[j] = {LoadAs<V>(s.from.re + p + s.m * j), LoadAs<V>(s.from.im + p + s.m * j)};
    }
    Butterfly<4>(x, s.cosine, s.sine);
    for (int k = 1; k < 4; ++k) {
      V wr = LoadAs<V>(s.re + (k - 1) * s.m + p), wi = LoadAs<V>(s.im + (k - 1) * s.m + p);
      x[k] = {x[k].re * wr - x[k].im * wi, x[k].re * wi + x[k].im * wr};
    }
    auto turn = [&](V a, V b, V c, V d, T* to) {
      if constexpr (kLanes == 4) {
        V ab = __builtin_shufflevector(a, b, 0, 4, 1, 5),
          cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
        V ef = __builtin_shufflevector(a, b, 2, 6, 3, 7),
          gh = __builtin_shufflevector(c, d, 2, 6, 3, 7);
        StoreAs<V>(__builtin_shufflevector(ab, cd, 0, 1, 4, 5), to);
        StoreAs<V>(__builtin_shufflevector(ab, cd, 2, 3, 6, 7), to + 4);
        StoreAs<V>(__builtin_shufflevector(ef, gh, 0, 1, 4, 5), to + 8);
        StoreAs<V>(__builtin_shufflevector(ef, gh, 2, 3, 6, 7), to + 12);
      } else {
        StoreAs<V>(__builtin_shufflevector(a, b, 0, 2), to);
        StoreAs<V>(__builtin_shufflevector(c, d, 0, 2), to + 2);
        StoreAs<V>(__builtin_shufflevector(a, b, 1, 3), to + 4);
        StoreAs<V>(__builtin_shufflevector(c, d, 1, 3), to + 6);
      }
    };
    turn(x[0].re, x[1].re, x[2].re, x[3].re, s.to.re + 4 * p);
    turn(x[0].im, x[1].im, x[2].im, x[3].im, s.to.im + 4 * p);
  }
  return p;
}

template <int kRadix, class T>
void RunStage(const StageData<T>& s) {
  using V = typename Lanes<T>::Vector;
  constexpr int kLanes = Lanes<T>::kCount;
  int64_t p = 0;
  if constexpr (kRadix == 4) {
    if (s.stride == 1) p = FirstStage(s);
  }
  for (; p < s.m; ++p) {
    int64_t q = 0;
    for (; q + kLanes <= s.stride; q += kLanes) OneButterfly<kRadix, V>(s, p, q);
    for (; q < s.stride; ++q) OneButterfly<kRadix, T>(s, p, q);
  }
}

template <class T>
void RunStageOf(int radix, const StageData<T>& s) {
  switch (radix) {
    case 2: return RunStage<2>(s);
    case 3: return RunStage<3>(s);
    case 4: return RunStage<4>(s);
    case 5: return RunStage<5>(s);
    case 7: return RunStage<7>(s);
    case 11: return RunStage<11>(s);
    default: return RunStage<13>(s);
  }
}

template <class T>
void MultiplyBy(Split<T> x, int64_t n, const T* re, const T* im) {
  for (int64_t k = 0; k < n; ++k) {
    T a = x.re[k], b = x.im[k];
    x.re[k] = a * re[k] - b * im[k];
    x.im[k] = a * im[k] + b * re[k];
  }
}

}  // namespace

RootOfOne RootOf(int64_t k, int64_t n) {
  // Angles in the first eighth of a turn are the most exact; the others follow by symmetry.
  int64_t quarter = (8 * k / n + 1) / 2;  // nearest multiple of a quarter turn
  double rest = static_cast<double>(4 * k - quarter * n) / 4;
  double angle = 2 * std::numbers::pi * rest / static_cast<double>(n);
  double c = std::cos(angle), s = std::sin(angle);
  switch (quarter % 4) {
    case 0: return {c, -s};
    case 1: return {-s, -c};
    case 2: return {-c, s};
    default: return {s, c};
  }
}

template <class T>
FftPlan<T>::FftPlan(int64_t n) : n_(n), room_(n) {
  int64_t rest = n;
  for (int p : {2, 3, 5, 7, 11, 13}) {
    while (rest % p == 0) rest /= p;
  }
  rest == 1 ? PrepareStages() : PrepareChirp();
}

template <class T>
void FftPlan<T>::PrepareStages() {
  int64_t rest = n_, stride = 1;
  for (int radix : {4, 2, 3, 5, 7, 11, 13}) {
    for (; rest % radix == 0; rest /= radix, stride *= radix) {
      Stage stage = {radix, rest / radix, stride, {}, {}};
      for (int k = 1; k < radix; ++k) {
        for (int64_t p = 0; p < stage.m; ++p) {
          RootOfOne root = RootOf(p * k, rest);
          stage.re.push_back(static_cast<T>(root.re));
          stage.im.push_back(static_cast<T>(root.im));
        }
      }
      stages_.push_back(std::move(stage));
    }
  }
}

template <class T>
void FftPlan<T>::PrepareChirp() {
  room_ = 1;
  while (room_ < 2 * n_) room_ *= 2;
  inner_ = std::make_unique<FftPlan>(room_);
  std::vector<T> spare_re(static_cast<size_t>(room_)), spare_im(spare_re), re(spare_re), im(re);
  for (int64_t k = 0; k < n_; ++k) {
    RootOfOne w = RootOf(static_cast<int64_t>(static_cast<__int128>(k) * k % (2 * n_)), 2 * n_);
    chirp_re_.push_back(static_cast<T>(w.re));
    chirp_im_.push_back(static_cast<T>(w.im));
    for (int64_t at : {k, (room_ - k) % room_}) {
      re[static_cast<size_t>(at)] = static_cast<T>(w.re);
      im[static_cast<size_t>(at)] = static_cast<T>(-w.im);
    }
  }
  Split<T> spectrum = inner_->Run({re.data(), im.data()}, {spare_re.data(), spare_im.data()});
  T scale = static_cast<T>(1 / static_cast<double>(room_));
  for (int64_t k = 0; k < room_; ++k) {
    spectrum_re_.push_back(spectrum.re[k] * scale);
    spectrum_im_.push_back(spectrum.im[k] * scale);
  }
}

template <class T>
Split<T> FftPlan<T>::RunChirp(Split<T> data, Split<T> spare) const {
  MultiplyBy(data, n_, chirp_re_.data(), chirp_im_.data());
  std::fill(data.re + n_, data.re + room_, T(0));
  std::fill(data.im + n_, data.im + room_, T(0));
  Split<T> there = inner_->Run(data, spare);
  Split<T> other = there.re == data.re ? spare : data;
  MultiplyBy(there, room_, spectrum_re_.data(), spectrum_im_.data());
  Split<T> back = inner_->Run({there.im, there.re}, {other.im, other.re});
  back = {back.im, back.re};
  MultiplyBy(back, n_, chirp_re_.data(), chirp_im_.data());
  return back;
}

template <class T>
Split<T> FftPlan<T>::Run(Split<T> data, Split<T> spare) const {
  if (inner_ != nullptr) return RunChirp(data, spare);
  for (const Stage& stage : stages_) {
    T cosine[kMostRadix], sine[kMostRadix];
    for (int j = 0; j < stage.radix && stage.radix % 2 == 1; ++j) {
      RootOfOne root = RootOf(j, stage.radix);
      cosine[j] = static_cast<T>(root.re);
      sine[j] = static_cast<T>(-root.im);
    }
    StageData<T> s = {{data.re, data.im}, spare,           stage.m, stage.stride,
                      stage.re.data(),    stage.im.data(), cosine,  sine};
    RunStageOf(stage.radix, s);
    std::swap(data, spare);
  }
  return data;
}

template <class T>
void SplitNumbers(const T* from, int64_t n, int64_t step, Split<T> to) {
  if (step == 1) {
    for (int64_t k = 0; k < n; ++k) {
      to.re[k] = from[2 * k];
      to.im[k] = from[2 * k + 1];
    }
    return;
  }
  for (int64_t k = 0; k < n; ++k) {
    to.re[k] = from[2 * k * step];
    to.im[k] = from[2 * k * step + 1];
  }
}

template <class T>
void JoinNumbers(Split<T> from, int64_t n, int64_t step, T scale, T* to) {
  if (step == 1) {
    for (int64_t k = 0; k < n; ++k) {
      to[2 * k] = from.re[k] * scale;
      to[2 * k + 1] = from.im[k] * scale;
    }
    return;
  }
  for (int64_t k = 0; k < n; ++k) {
    to[2 * k * step] = from.re[k] * scale;
    to[2 * k * step + 1] = from.im[k] * scale;
  }
}

template class FftPlan<float>;
template class FftPlan<double>;
template void SplitNumbers(const float*, int64_t, int64_t, Split<float>);
template void SplitNumbers(const double*, int64_t, int64_t, Split<double>);
template void JoinNumbers(Split<float>, int64_t, int64_t, float, float*);
template void JoinNumbers(Split<double>, int64_t, int64_t, double, double*);

}  // namespace weft::cpu
