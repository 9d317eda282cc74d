// Fourier transforms of one line of any length, prepared.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace weft::cpu {

// Complex numbers as two arrays.
template <class T>
struct Split {
  T *re, *im;
};

// exp(-2 pi i k / n) for 0 <= k <= n.
struct RootOfOne {
  double re, im;
};
RootOfOne RootOf(int64_t k, int64_t n);

// The forward transform of n numbers. The inverse is the same with real and imaginary parts
// exchanged, before and after. T: float, double.
template <class T>
class FftPlan {
 public:
  explicit FftPlan(int64_t n);

  int64_t size() const { return n_; }
  // Elements that each of the arrays given to Run must have.
  int64_t room() const { return room_; }
  // Transforms the first n numbers of `data`; the result is in the one that is returned.
  Split<T> Run(Split<T> data, Split<T> spare) const;

 private:
  // n numbers as m groups of `radix`, `stride` transforms at once.
  struct Stage {
    int radix;
    int64_t m, stride;
    std::vector<T> re, im;  // twiddles [radix - 1][m]
  };
  void PrepareStages();
  void PrepareChirp();
  Split<T> RunChirp(Split<T> data, Split<T> spare) const;

  int64_t n_, room_;
  std::vector<Stage> stages_;
  // Lengths with large prime factors: a circular convolution with a chirp (Bluestein), by a
  // transform whose length is a power of two.
  std::unique_ptr<FftPlan> inner_;
  std::vector<T> chirp_re_, chirp_im_, spectrum_re_, spectrum_im_;
};

// Between interleaved complex numbers, `step` numbers apart, and two arrays; times `scale`.
template <class T>
void SplitNumbers(const T* from, int64_t n, int64_t step, Split<T> to);
template <class T>
void JoinNumbers(Split<T> from, int64_t n, int64_t step, T scale, T* to);

}  // namespace weft::cpu
