#include "hlo/evaluate/fft.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/thread_pool.h"

namespace weft::hlo {
namespace {

using Complex = std::complex<double>;

Complex Times(Complex a, Complex b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

// Real and imaginary part exchanged: before and after a transform this makes its inverse.
Complex Swapped(Complex a) {
  return {a.imag(), a.real()};
}

// exp(-2 pi i k / n)
Complex Root(int64_t k, int64_t n) {
  // Angles in the first eighth of a turn are the most exact; the others follow by symmetry.
  int64_t eighth = 8 * k / n;
  double part = 2 * std::numbers::pi / static_cast<double>(n);
  int64_t quarter = (eighth + 1) / 2;  // nearest multiple of a quarter turn
  // k = quarter * n / 4 + rest, counted in quarters of 1/n to stay exact.
  double rest = static_cast<double>(4 * k - quarter * n) / 4;
  double angle = part * rest;
  double c = std::cos(angle), s = std::sin(angle);
  switch (quarter % 4) {
    case 0: return {c, -s};
    case 1: return {-s, -c};
    case 2: return {-c, s};
    default: return {s, c};
  }
}

constexpr int64_t kLargestRadix = 13;  // larger prime factors take Bluestein's way

// A forward transform of one length, prepared.
class Transform {
 public:
  explicit Transform(int64_t n) : n_(n) {
    int64_t rest = n;
    for (int64_t p = 2; p <= kLargestRadix && rest > 1; ++p) {
      while (rest % p == 0) factors_.push_back(p), rest /= p;
    }
    if (rest == 1) {
      roots_.resize(static_cast<size_t>(n));
      for (int64_t k = 0; k < n; ++k) roots_[static_cast<size_t>(k)] = Root(k, n);
    } else {
      PrepareChirp();
    }
  }

  // `in` and `out` do not overlap.
  void Run(const Complex* in, Complex* out) const {
    if (n_ == 1) {
      out[0] = in[0];
    } else if (inner_.empty()) {
      Recurse(in, 1, out, n_, 0);
    } else {
      Chirp(in, out);
    }
  }

 private:
  // Decimation in time: n/p transforms of the elements p apart, then n/p butterflies of p.
  void Recurse(const Complex* in, int64_t stride, Complex* out, int64_t n, size_t level) const {
    if (n == 1) {
      out[0] = in[0];
      return;
    }
    int64_t p = factors_[level], m = n / p;
    for (int64_t q = 0; q < p; ++q) Recurse(in + q * stride, stride * p, out + q * m, m, level + 1);
    int64_t step = n_ / n;
    Complex t[kLargestRadix];
    for (int64_t k = 0; k < m; ++k) {
      for (int64_t q = 0; q < p; ++q) {
        t[q] = Times(out[q * m + k], roots_[static_cast<size_t>(q * k * step)]);
      }
      if (p == 2) {
        out[k] = t[0] + t[1];
        out[m + k] = t[0] - t[1];
        continue;
      }
      for (int64_t j = 0; j < p; ++j) {
        Complex sum = t[0];
        for (int64_t q = 1; q < p; ++q) {
          sum += Times(t[q], roots_[static_cast<size_t>(q * j % p * (n_ / p))]);
        }
        out[j * m + k] = sum;
      }
    }
  }

  // A transform of any length as a circular convolution with a chirp, of a power of two's length.
  void PrepareChirp() {
    int64_t size = 1;
    while (size < 2 * n_) size *= 2;
    inner_.emplace_back(size);
    chirp_.resize(static_cast<size_t>(n_));
    std::vector<Complex> filter(static_cast<size_t>(size));
    for (int64_t k = 0; k < n_; ++k) {
      // k^2 mod 2n without overflow.
      int64_t square = static_cast<int64_t>(static_cast<__int128>(k) * k % (2 * n_));
      Complex w = Root(square, 2 * n_);
      chirp_[static_cast<size_t>(k)] = w;
      filter[static_cast<size_t>(k)] = std::conj(w);
      if (k > 0) filter[static_cast<size_t>(size - k)] = std::conj(w);
    }
    spectrum_.resize(static_cast<size_t>(size));
    inner_[0].Run(filter.data(), spectrum_.data());
  }

  void Chirp(const Complex* in, Complex* out) const {
    size_t size = spectrum_.size();
    std::vector<Complex> a(size), b(size);
    for (size_t k = 0; k < chirp_.size(); ++k) a[k] = Times(in[k], chirp_[k]);
    inner_[0].Run(a.data(), b.data());
    // The inverse by conjugating before and after.
    for (size_t k = 0; k < size; ++k) b[k] = std::conj(Times(b[k], spectrum_[k]));
    inner_[0].Run(b.data(), a.data());
    double scale = 1 / static_cast<double>(size);
    for (size_t k = 0; k < chirp_.size(); ++k) {
      out[k] = Times(std::conj(a[k]) * scale, chirp_[k]);
    }
  }

  int64_t n_;
  std::vector<int64_t> factors_;
  std::vector<Complex> roots_;             // of 1, for mixed radix
  std::vector<Transform> inner_;           // one, for Bluestein
  std::vector<Complex> chirp_, spectrum_;  // likewise
};

}  // namespace

void TransformDimension(std::vector<Complex>& data, int64_t n, int64_t stride, bool inverse) {
  int64_t lines = static_cast<int64_t>(data.size()) / n;
  Transform transform(n);
  double scale = inverse ? 1 / static_cast<double>(n) : 1;
  int64_t grain = std::max<int64_t>(1, 8192 / n);
  DefaultPool().ParallelFor(lines, grain, [&](int64_t begin, int64_t end) {
    std::vector<Complex> in(static_cast<size_t>(n)), out(static_cast<size_t>(n));
    for (int64_t line = begin; line < end; ++line) {
      Complex* at = data.data() + line / stride * n * stride + line % stride;
      for (int64_t k = 0; k < n; ++k) {
        Complex x = at[k * stride];
        in[static_cast<size_t>(k)] = inverse ? Swapped(x) : x;
      }
      transform.Run(in.data(), out.data());
      for (int64_t k = 0; k < n; ++k) {
        Complex x = out[static_cast<size_t>(k)];
        at[k * stride] = inverse ? Swapped(x) * scale : x;
      }
    }
  });
}

void MirrorSpectrum(Complex* row, int64_t n) {
  row[0] = row[0].real();
  if (n % 2 == 0) row[n / 2] = row[n / 2].real();
  for (int64_t k = n / 2 + 1; k < n; ++k) row[k] = std::conj(row[n - k]);
}

}  // namespace weft::hlo
