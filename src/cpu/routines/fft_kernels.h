// The loops of Fourier transforms, compiled for the vector registers of each machine this program
// may find itself on. T: float, double.
#pragma once

#include <cstdint>

namespace weft::cpu {

// Complex numbers: two arrays, or one array of pairs with `im` unused.
template <class T>
struct Split {
  T *re, *im;
};

// One stage of a transform. For each p < outer and q < count: `radix` numbers, from_step apart, at
// p * from_outer + q, are transformed, multiplied by the twiddles of p, and stored to_step apart at
// p * to_outer + q. All steps are in complex numbers.
template <class T>
struct StageCall {
  Split<const T> from;
  Split<T> to;
  int64_t outer, from_outer, to_outer, from_step, to_step, count;
  const T* twiddles;  // [outer][radix - 1][re, im]
  T scale;            // of what is stored as swapped pairs
  int radix;
  const T*
      roots;  // cosines and sines of 2 pi j / radix, for j < radix, where radix is not unrolled
};

enum class StageKind {
  kFirst,         // from pairs to two arrays
  kFirstSwapped,  // with real and imaginary parts exchanged
  kMiddle,        // from two arrays to two others
  kPlain,         // the same without twiddles, as all that follow
  kLast,          // from two arrays to pairs
  kLastSwapped,   // to exchanged pairs, scaled
  kOnly,          // from pairs to pairs, perhaps in place
  kOnlySwapped,
  // The first stage of one line: count is 1, from_outer 1, to_step 1 and to_outer the radix. Lanes
  // are neighbouring p; twiddles are [block of lanes][radix - 1][re, im][lane], of which the last
  // block ends with the last p. outer >= lanes.
  kTurned,  // from two arrays
  kTurnedPairs,
  kTurnedSwapped,
};

template <class T>
using StageFunction = void (*)(const StageCall<T>&);

// Radices with every kind of stage, best first, and 1, which only copies and has no turned one; the
// others, all odd, have kMiddle and kPlain.
inline constexpr int kFastRadices[] = {8, 4, 5, 3, 2};
bool IsFastRadix(int radix);

template <class T>
class FftKernels {
 public:
  // The best ones for this machine; of those with at most `max_lanes` when there are such.
  static const FftKernels& Find(int64_t max_lanes);

  int lanes;  // of a vector
  StageFunction<T> (*stage)(StageKind kind, int radix);

  // x[k * lanes + i] *= factors[k], for k < n.
  void (*multiply)(Split<T> x, int64_t n, int64_t lanes, const T* re, const T* im);

  // Of a line of n real numbers and its spectrum of h + 1 pairs, h = n / 2: z is the transform of
  // the h pairs. `roots`: exp(-2 pi i k / n) / 2 for k <= h / 2, real parts and imaginary parts.
  void (*spectrum_of_pairs)(Split<const T> z, int64_t h, Split<const T> roots, T* spectrum);
  // z whose inverse transform is the pairs.
  void (*pairs_of_spectrum)(const T* spectrum, int64_t h, Split<const T> roots, Split<T> z);
  // The same for some lines at once: number k of line i is at k * lanes + i.
  void (*spectra_of_pairs)(Split<const T> z, int64_t h, int64_t lanes, Split<const T> roots,
                           Split<T> spectra);
  void (*pairs_of_spectra)(Split<const T> spectra, int64_t h, int64_t lanes, Split<const T> roots,
                           Split<T> z);
};

// Between rows of n numbers, `stride` elements apart, and two arrays: number k of row i is at
// k * lanes + i. StoreRows multiplies by `scale`. `complex`: else im is unused.
template <class T>
void LoadRows(const T* rows, int64_t stride, int64_t n, int64_t lanes, bool complex, Split<T> to);
template <class T>
void StoreRows(Split<const T> from, int64_t n, int64_t lanes, bool complex, T scale, T* rows,
               int64_t stride);

// Lanes of two arrays that go through one transform as real and as imaginary parts.
template <class T>
struct LanePair {
  Split<T> first, second;         // the parts of each; null: none
  T *first_sizes, *second_sizes;  // of each lane: what its results are multiplied by behind it
};
// So that one lane does not drown the other in what is rounded, lanes of very different magnitude
// are divided by powers of two.
enum class Scaling : uint8_t { kNone, kScaled, kNotFinite };  // a number is infinite or NaN
template <class T>
Scaling ScaleLanes(const LanePair<T>& pair, int64_t n, int64_t lanes);
template <class T>
void MultiplyLanes(Split<T> x, int64_t n, int64_t lanes, const T* sizes);

// Spectra a and b of real lines of odd length n, n / 2 + 1 numbers each, from and to the spectrum z
// of lines whose real and imaginary parts are those lines.
template <class T>
void SeparateSpectra(Split<const T> z, int64_t n, int64_t lanes, Split<T> a, Split<T> b);
template <class T>
void JoinSpectra(Split<const T> a, Split<const T> b, int64_t n, int64_t lanes, Split<T> z);

}  // namespace weft::cpu
