// Fourier transforms of lines of any length, prepared.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/routines/fft_kernels.h"

namespace weft::cpu {

// exp(-2 pi i k / n) for 0 <= k <= n.
struct RootOfOne {
  double re, im;
};
RootOfOne RootOf(int64_t k, int64_t n);

// Where some neighbouring lines are: number k of line i is at k * stride + i.
template <class T>
struct Lines {
  enum Form { kSplit, kPairs, kSwappedPairs } form;
  Split<T> at;
  int64_t stride;
};

// The forward transform of lines of n numbers; of swapped pairs to swapped pairs it is the inverse,
// times the scale. T: float, double.
template <class T>
class FftPlan {
 public:
  explicit FftPlan(int64_t n);

  int64_t size() const { return n_; }
  const FftKernels<T>& kernels() const { return *kernels_; }
  // Whether one line is as good as several at once.
  bool fills_vectors_alone() const { return fills_vectors_alone_; }
  // Elements of scratch that Run takes, and of a split array of some lines.
  int64_t Room(int64_t lanes) const;
  static int64_t SplitRoom(int64_t n, int64_t lanes);
  static Split<T> SplitAt(T* memory, int64_t n, int64_t lanes);
  // `from` and `to` may be the same pairs, but not the same arrays. `scale`: of swapped pairs.
  void Run(const Lines<const T>& from, const Lines<T>& to, int64_t lanes, T scale,
           T* scratch) const;

 private:
  // n numbers as m groups of `radix`, `stride` transforms at once.
  struct Stage {
    int radix;
    int64_t m, stride;
    std::vector<T> twiddles, turned, roots;  // as StageCall has them
  };
  void PrepareStages(const std::vector<int>& radices);
  void PrepareChirp();
  void RunChirp(const Lines<const T>& from, const Lines<T>& to, int64_t lanes, T scale,
                T* scratch) const;
  void RunFirst(const Stage& stage, StageCall<T> call, const Lines<const T>& from,
                int64_t lanes) const;
  void RunMiddle(const Stage& stage, StageCall<T> call, int64_t lanes) const;
  void RunLast(const Stage& stage, StageCall<T> call, const Lines<T>& to, int64_t lanes) const;
  void RunOnly(const Stage& stage, StageCall<T> call, const Lines<const T>& from,
               const Lines<T>& to, int64_t lanes) const;

  int64_t n_;
  const FftKernels<T>* kernels_;
  bool fills_vectors_alone_ = false;
  std::vector<Stage> stages_;
  // Lengths with large prime factors: a circular convolution with a chirp (Bluestein), by a
  // transform whose length has small ones.
  std::unique_ptr<FftPlan> inner_;
  std::vector<T> chirp_re_, chirp_im_, spectrum_re_, spectrum_im_;
};

}  // namespace weft::cpu
