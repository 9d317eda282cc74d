// Real and complex matrices, most in double precision, for factorizations.
#pragma once

#include <complex>
#include <cstdint>

#include "base/elements.h"

namespace weft::cpu {

inline float Conjugated(float x) {
  return x;
}
inline double Conjugated(double x) {
  return x;
}
inline std::complex<double> Conjugated(std::complex<double> x) {
  return std::conj(x);
}

inline void LoadMatrix(DType dtype, const std::byte* from, int64_t n, double* to) {
  LoadF64(dtype, from, n, to);
}
inline void LoadMatrix(DType dtype, const std::byte* from, int64_t n, std::complex<double>* to) {
  LoadC128(dtype, from, n, to);
}
inline void StoreMatrix(DType dtype, const double* from, int64_t n, std::byte* to) {
  StoreF64(dtype, from, n, to);
}
inline void StoreMatrix(DType dtype, const std::complex<double>* from, int64_t n, std::byte* to) {
  StoreC128(dtype, from, n, to);
}

// Without the checks for infinities of std::complex.
inline float Times(float x, float y) {
  return x * y;
}
inline double Times(double x, double y) {
  return x * y;
}
inline std::complex<double> Times(std::complex<double> x, std::complex<double> y) {
  return {x.real() * y.real() - x.imag() * y.imag(), x.real() * y.imag() + x.imag() * y.real()};
}

// to[i] += x * from[i]
template <class T>
void AddTimes(T x, const T* from, int64_t n, T* to) {
  for (int64_t i = 0; i < n; ++i) to[i] += Times(x, from[i]);
}

// The sum of x[i] * conj(y[i]), in as many parts as a few vector registers hold.
template <class T>
T DotConjugate(const T* x, const T* y, int64_t n) {
  constexpr int kParts = 64 / sizeof(T);
  T sums[kParts] = {};
  int64_t i = 0;
  for (; i + kParts <= n; i += kParts) {
    for (int j = 0; j < kParts; ++j) sums[j] += Times(x[i + j], Conjugated(y[i + j]));
  }
  for (int j = 0; i < n; ++i, ++j) sums[j] += Times(x[i], Conjugated(y[i]));
  for (int half = kParts / 2; half > 0; half /= 2) {
    for (int j = 0; j < half; ++j) sums[j] += sums[j + half];
  }
  return sums[0];
}

}  // namespace weft::cpu
